/* agent_setup.c - trial.setup: a command that prepares the node for the trials of a search.
 *
 * It runs once for each agent, working directory and trial.env, before the first such gang. Gangs
 * wait for it; when it has ended, all that it left running has been ended too, except what cannot
 * be killed, such as another user's. If it fails, the node is of no use to its search: each gang
 * ends with the last line that it printed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent.h"
#include "agent/agent_sup.h"

#define LIMIT (1800 * ESPL_SECOND)
#define GIVE_UP (10 * ESPL_SECOND)     /* SIGKILL works at once, if it is permitted */
#define OUTPUT_MOST (INT64_C(1) << 20) /* and its end, if it fails */
#define WINDOW 8192                    /* bytes of the end that are looked at */
#define REASON_ROOM 256

struct espl__setup {
	struct espl__setup *next;
	char *directory;
	struct espl__strings words, env; /* env: trial.env */
	int link, output;                /* to its supervisor; what it printed; -1 none */
	pid_t sup;
	int64_t until;      /* it is killed then; 0: it was */
	int64_t give_up_at; /* what does not die by then stays; 0: nothing was killed */
	int exited, over, failed;
	char why[REASON_ROOM]; /* it failed */
};

static int
same_words(const struct espl__strings *words, const char *const *list, uint32_t count)
{
	if (words->count != count)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(words->list[i], list[i]) != 0)
			return 0;
	return 1;
}

static void
copy_words(struct espl__strings *to, const char *const *list, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		espl__words_add(to, espl__strdup(list[i]));
}

/* Those of two experiments of a pool may differ only in their environment. */
static int
is_for(const struct espl__setup *s, const struct espl__start *t)
{
	return strcmp(s->directory, t->directory) == 0 &&
	    same_words(&s->words, t->setup, t->setup_count) &&
	    same_words(&s->env, t->env, t->env_count);
}

/* ---- its end ------------------------------------------------------------------------------ */

static void
fail(struct espl__setup *s, const char *why)
{
	if (!s->failed)
		(void)snprintf(s->why, sizeof s->why, "%s", why);
	s->failed = 1;
}

static void
kill_all(struct espl__setup *s)
{
	char what = ESPL__SUP_KILL;

	if (s->give_up_at == 0)
		s->give_up_at = espl__tick() + GIVE_UP;
	s->until = 0;
	while (send(s->link, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static void
read_last_line(const struct espl__setup *s, char line[ESPL__LAST_LINE_MAX])
{
	char *text = espl__alloc(WINDOW + 1);
	struct stat st;
	ssize_t got = 0;

	line[0] = '\0';
	if (fstat(s->output, &st) == 0)
		got = pread(s->output, text, WINDOW, st.st_size > WINDOW ? st.st_size - WINDOW : 0);
	if (got > 0)
		espl__last_line(text, (size_t)got, line, ESPL__LAST_LINE_MAX);
	free(text);
}

/* Gangs that waited begin, or end. */
static void
finish(struct espl__agent *a, struct espl__setup *s)
{
	char line[ESPL__LAST_LINE_MAX];
	char *text;

	s->over = 1;
	if (s->output >= 0) {
		read_last_line(s, line);
		close(s->output);
		s->output = -1;
		text = espl__format("%s%s%s", s->why,
		    line[0] != '\0' ? "; the last line that it printed is: " : "", line);
		if (s->failed)
			(void)snprintf(s->why, sizeof s->why, "%s", text);
		free(text);
	}
	for (uint32_t i = 0; i < a->gang_count; i++) {
		struct espl__agent_gang *g = a->gangs[i];

		if (g->setup != s)
			continue;
		g->setup = NULL;
		g->steps->begin(g);
	}
	a->changed = 1;
}

static void
take_note(struct espl__setup *s, const struct espl__sup_note *note)
{
	char *text = NULL;

	switch (note->what) {
	case ESPL__SUP_RUNS: return;
	case ESPL__SUP_EXITED:
		if (note->value > 0)
			text = espl__format("exit status %d", note->value);
		else if (note->value < 0)
			text = espl__format("killed by signal %d", -note->value);
		kill_all(s); /* whatever it left behind */
		break;
	case ESPL__SUP_NO_EXEC:
		text = espl__format("cannot run '%s': %s", s->words.list[0], strerror(note->value));
		break;
	case ESPL__SUP_NO_FOLDER:
		text = espl__format("cannot enter the working directory: %s" ESPL__LACKS_FOLDER,
		    strerror(note->value));
		break;
	default: text = espl__format("cannot create a process: %s", strerror(note->value));
	}
	if (text != NULL)
		fail(s, text);
	free(text);
}

void
espl__setup_receive(struct espl__agent *a, int fd)
{
	struct espl__setup *s = a->setups;
	struct espl__sup_note note;
	ssize_t got;

	ESPL__CHECK(a, AGENT);
	while (s != NULL && s->link != fd)
		s = s->next;
	while (s != NULL && s->link >= 0) {
		do
			got = recv(s->link, &note, sizeof note, MSG_DONTWAIT);
		while (got < 0 && (errno == EINTR || errno == ECONNRESET));
		if (got < 0 && errno == EAGAIN)
			return;
		if (got == (ssize_t)sizeof note) {
			s->exited |= note.what != ESPL__SUP_RUNS;
			take_note(s, &note);
			continue;
		}
		close(s->link);
		s->link = -1;
		s->sup = 0;
		if (!s->exited) {
			a->strays = 1;
			fail(s, "its supervisor was killed");
		}
		finish(a, s);
	}
}

/* Its supervisor keeps trying. */
static void
leave_rest(struct espl__agent *a, struct espl__setup *s)
{
	espl__agent_log(a, ESPL_WARN,
	    "some processes that trial.setup started could not be killed; they stay");
	close(s->link);
	s->link = -1;
	finish(a, s);
}

int64_t
espl__setup_tend(struct espl__agent *a, int64_t now)
{
	int64_t next = 0;

	ESPL__CHECK(a, AGENT);
	for (struct espl__setup *s = a->setups; s != NULL; s = s->next) {
		int64_t at;

		if (!s->over && s->until != 0 && now >= s->until) {
			fail(s, "it was still running after 30 minutes");
			kill_all(s);
		}
		if (!s->over && s->give_up_at != 0 && now >= s->give_up_at)
			leave_rest(a, s);
		at = s->over ? 0 : s->until != 0 ? s->until : s->give_up_at;
		if (at != 0 && (next == 0 || at < next))
			next = at;
	}
	return next;
}

/* ---- its start ---------------------------------------------------------------------------- */

/* The agent's environment and trial.env: it belongs to no trial. */
static void
make_environment(const struct espl__start *t, struct espl__strings *env)
{
	espl__env_inherit(env);
	espl__env_apply(env, t->env, t->env_count);
}

static void
launch(struct espl__agent *a, struct espl__setup *s, const struct espl__start *t)
{
	struct espl__strings env = { NULL, 0, 0 };
	struct espl__sup sup = { .dir = s->directory,
		.report = -1,
		.listen = -1,
		.key = -1,
		.channel = a->in,
		.log_limit = OUTPUT_MOST };
	char *program, *text = NULL;

	make_environment(t, &env);
	program = espl__find_program(s->words.list[0], s->directory, espl__env_get(&env, "PATH"));
	s->output = memfd_create("espalier-setup", MFD_CLOEXEC);
	sup.log = s->output >= 0 ? fcntl(s->output, F_DUPFD_CLOEXEC, 10) : -1;
	sup.path = program;
	sup.argv = s->words.list;
	sup.env = env.list;
	if (program == NULL)
		text = espl__format("cannot run '%s': not found in PATH", s->words.list[0]);
	else if (sup.log < 0 || (s->sup = espl__sup_start(&sup, &s->link)) < 0)
		text = espl__format("cannot create a process: %s", strerror(errno));
	if (sup.log >= 0)
		close(sup.log);
	if (text != NULL) {
		fail(s, text);
		s->over = 1;
	} else {
		espl__agent_log(a, ESPL_INFO, "runs trial.setup");
	}
	s->until = espl__tick() + LIMIT;
	a->changed = 1;
	free(text);
	free(program);
	espl__strings_free(&env);
}

static struct espl__setup *
find_or_launch(struct espl__agent *a, const struct espl__start *t)
{
	struct espl__setup *s = a->setups;

	while (s != NULL && !is_for(s, t))
		s = s->next;
	if (s != NULL)
		return s;
	s = espl__alloc(sizeof *s);
	s->directory = espl__strdup(t->directory);
	copy_words(&s->words, t->setup, t->setup_count);
	copy_words(&s->env, t->env, t->env_count);
	s->link = s->output = -1;
	s->next = a->setups;
	a->setups = s;
	launch(a, s, t);
	return s;
}

int
espl__setup_awaited(struct espl__agent_gang *g)
{
	const struct espl__setup *s;
	char *text;

	ESPL__CHECK(g, AGENT_GANG);
	if (g->start.setup_count == 0 || g->ending)
		return 0;
	s = find_or_launch(g->agent, &g->start);
	if (!s->over) {
		g->setup = s;
		return 1;
	}
	if (!s->failed)
		return 0;
	text = espl__format("setup: %s", s->why);
	g->steps->claimed(g, text);
	free(text);
	return 1;
}

/* ---- for the loop ------------------------------------------------------------------------- */

int
espl__setup_fd(const struct espl__agent *a, uint32_t index)
{
	for (const struct espl__setup *s = a->setups; s != NULL; s = s->next)
		if (s->link >= 0 && index-- == 0)
			return s->link;
	return -1;
}

pid_t
espl__setup_pid(const struct espl__agent *a, uint32_t index)
{
	for (const struct espl__setup *s = a->setups; s != NULL; s = s->next)
		if (s->sup > 0 && index-- == 0)
			return s->sup;
	return 0;
}

void
espl__setup_free(struct espl__agent *a)
{
	while (a->setups != NULL) {
		struct espl__setup *s = a->setups;

		a->setups = s->next;
		if (s->link >= 0) /* its supervisor keeps killing by itself */
			close(s->link);
		if (s->output >= 0)
			close(s->output);
		free(s->directory);
		espl__strings_free(&s->words);
		espl__strings_free(&s->env);
		free(s);
	}
}
