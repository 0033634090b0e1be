/* agent_warm.c - warm starts: trials of a Python command are forked from a process that has
 * imported what their script imports (node/warm/espalier-warm.py says how).
 *
 * There is one such parent for each interpreter, script, working directory and environment, apart
 * from the variables in which trials differ. It runs under a supervisor of its own, which the
 * supervisors of its trials belong to: so all of them end with the agent. No trial waits for a
 * parent: while it imports, and whenever it does not answer, trials start cold. It is never killed
 * with trials below it: it ends by itself when its socket does, and its supervisor when they have.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent.h"
#include "agent/agent_python.h"
#include "agent/agent_sup.h"
#include "agent/agent_warm.h"

#define ANSWER_LIMIT (10 * ESPL_SECOND)
#define IMPORT_LIMIT (600 * ESPL_SECOND)
#define IDLE_LIMIT (1800 * ESPL_SECOND)
#define PARENTS_MOST 4u /* that hold memory */
#define KNOWN_MOST 32u  /* with those of which is only known that they cannot be used */
#define OUTPUT_MOST (INT64_C(64) << 10)
#define WORD_ROOM 1001u
#define FDS_MOST 5

enum warm_state {
	WARM_IMPORTS,
	WARM_READY,
	WARM_LEAVING, /* its socket is closed; trials that it forked may still run */
	WARM_OFF      /* trials of its kind start cold */
};

struct espl__warm {
	struct espl__warm *next;
	enum warm_state state;
	struct espl__strings words, env; /* with the directory, what it is for */
	char *directory;
	char *program;             /* NULL: none is to be started */
	int link, control, output; /* -1 none */
	pid_t sup;
	int64_t used_at;
};

/* ---- the list ----------------------------------------------------------------------------- */

static int
same_strings(const struct espl__strings *a, const struct espl__strings *b)
{
	if (a->count != b->count)
		return 0;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->list[i], b->list[i]) != 0)
			return 0;
	return 1;
}

static void
close_fd(struct espl__agent *a, int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	a->changed = 1;
}

static void
free_key(struct espl__warm *w)
{
	espl__strings_free(&w->words);
	espl__strings_free(&w->env);
	free(w->directory);
	free(w->program);
}

static void
copy_strings(struct espl__strings *to, const struct espl__strings *from)
{
	for (size_t i = 0; i < from->count; i++)
		espl__words_add(to, espl__strdup(from->list[i]));
}

static void
free_parent(struct espl__agent *a, struct espl__warm **at)
{
	struct espl__warm *w = *at;

	*at = w->next;
	close_fd(a, &w->link);
	close_fd(a, &w->control);
	close_fd(a, &w->output);
	free_key(w);
	free(w);
}

static int
holds_memory(const struct espl__warm *w)
{
	return w->state == WARM_IMPORTS || w->state == WARM_READY;
}

/* It ends when it has forked what was asked before. */
static void
leave_parent(struct espl__agent *a, struct espl__warm *w, enum warm_state state)
{
	w->state = state;
	close_fd(a, &w->control);
}

static void
turn_off(struct espl__agent *a, struct espl__warm *w, const char *why)
{
	leave_parent(a, w, WARM_OFF);
	espl__agent_log(a, ESPL_WARN, "trials do not start warm: %s", why);
}

/* Makes room for one more. */
static void
limit_parents(struct espl__agent *a)
{
	struct espl__warm *oldest = NULL;
	uint32_t holding = 0, known = 0;

	for (struct espl__warm **at = &a->warm; *at != NULL;) {
		struct espl__warm *w = *at;

		known++;
		if (known > KNOWN_MOST && w->state == WARM_OFF && w->link < 0) {
			free_parent(a, at);
			continue;
		}
		holding += holds_memory(w);
		if (holds_memory(w) && (oldest == NULL || w->used_at < oldest->used_at))
			oldest = w;
		at = &w->next;
	}
	if (holding >= PARENTS_MOST)
		leave_parent(a, oldest, WARM_LEAVING);
}

/* ---- its start ---------------------------------------------------------------------------- */

static int
start_parent(struct espl__agent *a, struct espl__warm *w)
{
	struct espl__sup sup = { .path = w->program,
		.argv = w->words.list,
		.env = w->env.list,
		.dir = w->directory,
		.report = -1,
		.listen = -1,
		.key = -1,
		.channel = a->in,
		.log_limit = OUTPUT_MOST };

	w->output = memfd_create("espalier-warm", MFD_CLOEXEC);
	sup.log = w->output >= 0 ? fcntl(w->output, F_DUPFD_CLOEXEC, 10) : -1;
	if (sup.log >= 0 && espl__sup_link(&w->control, &sup.report) == 0)
		w->sup = espl__sup_start(&sup, &w->link);
	if (sup.log >= 0)
		close(sup.log);
	if (sup.report >= 0)
		close(sup.report);
	a->changed = 1;
	return w->sup > 0 ? 0 : -1;
}

/* Takes over what the key consists of. */
static void
make_parent(struct espl__agent *a, struct espl__warm *key)
{
	struct espl__warm *w = espl__alloc(sizeof *w);

	limit_parents(a);
	*w = *key;
	memset(key, 0, sizeof *key);
	w->link = w->control = w->output = -1;
	w->sup = 0;
	w->state = WARM_IMPORTS;
	w->used_at = espl__tick();
	w->next = a->warm;
	a->warm = w;
	if (w->program == NULL)
		w->state = WARM_OFF;
	else if (start_parent(a, w) != 0)
		turn_off(a, w, strerror(errno));
}

static void
make_key(const struct espl__agent_rank *r, const struct espl__python *p, int listens,
    struct espl__warm *key)
{
	memset(key, 0, sizeof *key);
	key->link = key->control = key->output = -1;
	key->directory = espl__strdup(r->gang->start.directory);
	copy_strings(&key->words, &p->options);
	espl__words_add(&key->words, espl__format("%s/espalier-warm", r->gang->agent->libexec));
	espl__words_add(&key->words, espl__strdup(p->module ? "module" : "file"));
	espl__words_add(&key->words, espl__strdup(p->entry != NULL ? p->entry : ""));
	espl__env_common(r, listens, &key->env);
}

static struct espl__warm *
find_parent(const struct espl__agent *a, const struct espl__warm *key)
{
	struct espl__warm *w = a->warm;

	while (w != NULL &&
	    (w->state == WARM_LEAVING || strcmp(w->directory, key->directory) != 0 ||
		!same_strings(&w->words, &key->words) || !same_strings(&w->env, &key->env)))
		w = w->next;
	return w;
}

/* ---- a request ---------------------------------------------------------------------------- */

static void
put_word(struct espl__buf *b, const char *word)
{
	espl__put(b, word, strlen(word) + 1);
}

/* The numbers and lists are read by class Request of espalier-warm.py. */
static void
put_request(const struct espl__launch *l, const struct espl__python *p, int listens_to,
    struct espl__buf *b)
{
	char *numbers[8];
	size_t own = l->listens ? l->words.count : 0;

	numbers[0] = espl__format("%d", l->anywhere);
	numbers[1] = espl__format("%" PRId64, l->file_max);
	numbers[2] = espl__format("%" PRId64, l->log_limit);
	numbers[3] = espl__format("%d", l->report >= 0);
	numbers[4] = espl__format("%d", listens_to);
	numbers[5] = espl__format("%zu", p->skip);
	numbers[6] = espl__format("%zu", own);
	numbers[7] = espl__format("%zu", p->argv.count);
	espl__print(b, "/proc/%d/exe", (int)getpid());
	espl__put_u8(b, 0);
	put_word(b, l->dir);
	put_word(b, p->name);
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		put_word(b, numbers[i]);
		free(numbers[i]);
	}
	for (size_t i = 0; i < own; i++)
		put_word(b, l->words.list[i]);
	for (size_t i = 0; i < p->argv.count; i++)
		put_word(b, p->argv.list[i]);
	for (size_t i = 0; i < l->env.count; i++)
		put_word(b, l->env.list[i]);
}

static int
send_request(const struct espl__warm *w, const struct espl__buf *text, const int *fds, size_t count)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(FDS_MOST * sizeof(int))];
	} control;
	struct iovec word = { .iov_base = (char[]){ 'f' }, .iov_len = 1 };
	struct msghdr m = { .msg_iov = &word, .msg_iovlen = 1, .msg_control = &control };
	struct cmsghdr *head;
	ssize_t sent;

	ESPL__ASSERT(count <= FDS_MOST);
	if (espl__write_all(fds[0], text->data, text->size) != 0)
		return -1;
	memset(&control, 0, sizeof control);
	m.msg_controllen = CMSG_SPACE(count * sizeof(int));
	head = CMSG_FIRSTHDR(&m);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(head), fds, count * sizeof(int));
	do
		sent = sendmsg(w->control, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	return sent == 1 ? 0 : -1;
}

static int
ask_parent(struct espl__warm *w, const struct espl__launch *l, const struct espl__python *p,
    int channel, int *link)
{
	struct espl__buf text = { NULL, 0, 0 };
	int fds[FDS_MOST], theirs, failed;

	if (espl__sup_link(link, &theirs) != 0)
		return -1;
	put_request(l, p, l->listens_to, &text);
	fds[0] = memfd_create("espalier-start", MFD_CLOEXEC);
	fds[1] = theirs;
	fds[2] = l->log;
	fds[3] = channel;
	fds[4] = l->report;
	failed = fds[0] < 0 || send_request(w, &text, fds, l->report >= 0 ? 5 : 4) != 0;
	espl__buf_free(&text);
	if (fds[0] >= 0)
		close(fds[0]);
	close(theirs);
	if (failed)
		close(*link);
	return failed ? -1 : 0;
}

/* Trials that share a GPU by MPS are recognized by their environment if their agent dies; that of a
 * forked process cannot be read. */
static const char *
find_obstacle(const struct espl__launch *l)
{
	if (espl__env_get(&l->env, "CUDA_MPS_PIPE_DIRECTORY") != NULL)
		return "trials share GPUs by MPS";
	return NULL;
}

static const char *
parse_command(const struct espl__launch *l, struct espl__python *p)
{
	size_t first = l->listens ? 3 : 0; /* espalier-listen, its SPEC, the program's path */
	const char *why = find_obstacle(l);

	memset(p, 0, sizeof *p);
	if (why != NULL)
		return why;
	return espl__python_parse(l->listens ? l->words.list[2] : l->path, l->words.list + first,
	    l->words.count - first, l->dir, espl__env_get(&l->env, "PATH"), p);
}

int
espl__warm_start(struct espl__agent_rank *r, const struct espl__launch *l)
{
	struct espl__agent *a = r->gang->agent;
	struct espl__python python;
	struct espl__warm key, *w;
	const char *why;
	int started = 0;

	ESPL__CHECK(a, AGENT);
	if (!r->gang->start.warm || a->ending)
		return 0;
	why = parse_command(l, &python);
	make_key(r, &python, l->listens, &key);
	w = find_parent(a, &key);
	if (w == NULL) {
		key.program = why == NULL ? espl__strdup(python.program) : NULL;
		make_parent(a, &key);
		if (why != NULL)
			turn_off(a, a->warm, why);
	} else if (w->state == WARM_READY && why == NULL) {
		started = ask_parent(w, l, &python, a->in, &r->link) == 0;
		w->used_at = espl__tick();
	}
	espl__python_free(&python);
	free_key(&key);
	return started;
}

/* ---- its words and its end ---------------------------------------------------------------- */

static struct espl__warm *
parent_of(struct espl__agent *a, int fd)
{
	struct espl__warm *w = a->warm;

	while (w != NULL && w->link != fd && w->control != fd)
		w = w->next;
	return w;
}

/* The last line that it printed is the reason, if there is one. */
static void
report_crash(struct espl__agent *a, struct espl__warm *w)
{
	char text[4096], line[ESPL__LAST_LINE_MAX] = "", why[ESPL__LAST_LINE_MAX + 80];
	struct stat st;
	ssize_t got = 0;

	if (fstat(w->output, &st) == 0)
		got = pread(w->output, text, sizeof text - 1,
		    st.st_size > (off_t)sizeof text - 1 ? st.st_size - (off_t)sizeof text + 1 : 0);
	if (got > 0) {
		text[got] = '\0';
		espl__last_line(text, (size_t)got, line, sizeof line);
	}
	(void)snprintf(why, sizeof why, "the process that they are forked from has ended%s%s",
	    line[0] != '\0' ? "; the last line that it printed is: " : "", line);
	turn_off(a, w, why);
}

/* The trial that it was asked for starts cold meanwhile. */
static void
replace_parent(struct espl__agent *a, struct espl__warm *w)
{
	struct espl__warm key = { .directory = espl__strdup(w->directory),
		.program = espl__strdup(w->program) };

	copy_strings(&key.words, &w->words);
	copy_strings(&key.env, &w->env);
	leave_parent(a, w, WARM_LEAVING);
	if (!a->ending)
		make_parent(a, &key);
	free_key(&key);
}

static void
read_word(struct espl__agent *a, struct espl__warm *w)
{
	char word[WORD_ROOM];
	ssize_t got;

	do
		got = recv(w->control, word, sizeof word - 1, MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got < 0 && errno == EAGAIN)
		return;
	if (got <= 0) {
		report_crash(a, w);
		return;
	}
	word[got] = '\0';
	for (char *c = word; *c != '\0'; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	if (strncmp(word, "ready ", 6) == 0) {
		w->state = WARM_READY;
		w->used_at = espl__tick();
		espl__agent_log(a, ESPL_INFO, "trials start warm: %s", word + 6);
	} else if (strncmp(word, "changed ", 8) == 0) {
		espl__agent_log(a, ESPL_INFO,
		    "%s has changed: it is imported again for warm starts", word + 8);
		replace_parent(a, w);
	} else {
		turn_off(a, w, strncmp(word, "no ", 3) == 0 ? word + 3 : word);
	}
}

static void
parent_gone(struct espl__agent *a, struct espl__warm *w)
{
	w->sup = 0;
	close_fd(a, &w->link);
	if (w->control >= 0)
		read_word(a, w); /* its reason, which came before its end */
	if (holds_memory(w)) {   /* its supervisor was killed */
		a->strays = 1;
		report_crash(a, w);
	}
	close_fd(a, &w->output);
	for (struct espl__warm **at = &a->warm; *at != NULL; at = &(*at)->next)
		if (*at == w && w->state == WARM_LEAVING) {
			free_parent(a, at);
			return;
		}
}

void
espl__warm_receive(struct espl__agent *a, int fd)
{
	struct espl__warm *w = parent_of(a, fd);
	struct espl__sup_note note;
	ssize_t got;

	ESPL__CHECK(a, AGENT);
	if (w != NULL && w->control == fd)
		read_word(a, w);
	while (w != NULL && w->link == fd) {
		do
			got = recv(w->link, &note, sizeof note, MSG_DONTWAIT);
		while (got < 0 && (errno == EINTR || errno == ECONNRESET));
		if (got < 0 && errno == EAGAIN)
			return;
		if (got != (ssize_t)sizeof note)
			parent_gone(a, w);
	}
}

/* ---- what is due -------------------------------------------------------------------------- */

static void
end_parent(struct espl__agent *a, struct espl__warm *w, const char *why)
{
	const char term = ESPL__SUP_TERM;

	turn_off(a, w, why);
	(void)send(w->link, &term, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
end_silent_parent(struct espl__agent *a)
{
	for (struct espl__warm *w = a->warm; w != NULL; w = w->next)
		if (w->state == WARM_READY)
			end_parent(a, w, "the process that they are forked from does not answer");
}

static int
is_silent(const struct espl__agent_rank *r, int64_t now)
{
	char note;

	return r->launch != NULL && now >= r->launch->until &&
	    recv(r->link, &note, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Starts that have not been answered in time. */
static void
tend_starts(struct espl__agent *a, int64_t now, int64_t *next)
{
	for (uint32_t i = 0; i < a->gang_count; i++)
		for (uint32_t j = 0; j < a->gangs[i]->start.rank_count; j++) {
			struct espl__agent_rank *r = &a->gangs[i]->ranks[j];

			if (is_silent(r, now)) {
				end_silent_parent(a);
				(void)shutdown(r->link, SHUT_RDWR); /* as if it had ended */
				r->launch->until = now + ANSWER_LIMIT;
			}
			if (r->launch != NULL && (*next == 0 || r->launch->until < *next))
				*next = r->launch->until;
		}
}

int64_t
espl__warm_tend(struct espl__agent *a, int64_t now)
{
	int64_t next = 0;

	ESPL__CHECK(a, AGENT);
	if (a->warm == NULL)
		return 0;
	tend_starts(a, now, &next);
	for (struct espl__warm *w = a->warm; w != NULL; w = w->next) {
		int64_t until = w->used_at + (w->state == WARM_READY ? IDLE_LIMIT : IMPORT_LIMIT);

		if (!holds_memory(w))
			continue;
		if (now < until)
			next = next == 0 || until < next ? until : next;
		else if (w->state == WARM_READY)
			leave_parent(a, w, WARM_LEAVING);
		else
			end_parent(a, w, "the imports take longer than 10 minutes");
	}
	return next;
}

/* ---- a start that can be repeated --------------------------------------------------------- */

void
espl__launch_keep(struct espl__agent_rank *r, struct espl__launch *from)
{
	struct espl__launch *l = espl__alloc(sizeof *l);

	*l = *from;
	memset(from, 0, sizeof *from);
	l->log = fcntl(l->log, F_DUPFD_CLOEXEC, 10);
	if (l->report >= 0 && (l->report = fcntl(l->report, F_DUPFD_CLOEXEC, 10)) < 0 &&
	    l->log >= 0) {
		close(l->log); /* without both it cannot start cold */
		l->log = -1;
	}
	l->until = espl__tick() + ANSWER_LIMIT;
	r->launch = l;
}

void
espl__launch_forget(struct espl__agent_rank *r)
{
	struct espl__launch *l = r->launch;

	if (l == NULL)
		return;
	r->launch = NULL;
	if (l->log >= 0)
		close(l->log);
	if (l->report >= 0)
		close(l->report);
	espl__launch_free(l);
	free(l);
}

void
espl__launch_free(struct espl__launch *l)
{
	free(l->path);
	espl__strings_free(&l->words);
	espl__strings_free(&l->env);
	memset(l, 0, sizeof *l);
}

/* ---- for the loop ------------------------------------------------------------------------- */

int
espl__warm_fd(const struct espl__agent *a, uint32_t index)
{
	for (const struct espl__warm *w = a->warm; w != NULL; w = w->next) {
		if (w->link >= 0 && index-- == 0)
			return w->link;
		if (w->control >= 0 && index-- == 0)
			return w->control;
	}
	return -1;
}

pid_t
espl__warm_pid(const struct espl__agent *a, uint32_t index)
{
	for (const struct espl__warm *w = a->warm; w != NULL; w = w->next)
		if (w->sup > 0 && index-- == 0)
			return w->sup;
	return 0;
}

void
espl__warm_free(struct espl__agent *a)
{
	while (a->warm != NULL)
		free_parent(a, &a->warm);
}
