/* espalier_trial.h - the trial protocol of espalier for programs in C or C++, in one header.
 *
 * 	struct espalier_trial t;
 *
 * 	if (espalier_start(&t, 10) != 0)		// 10 iterations when run by hand
 * 		return 1;
 * 	double lr = espalier_number(&t, "lr", 0.1);
 * 	for (uint64_t i = t.iteration + 1; i <= t.budget && !t.ended; i++) {
 * 		double loss = train(i);
 * 		int    verdict = espalier_report(&t, i, "loss", loss);
 *
 * 		if (verdict < 0)
 * 			return 1;
 * 		if ((verdict & ESPALIER_SAVE) != 0) {
 * 			write_model(espalier_save_folder(&t));
 * 			espalier_saved(&t, i);
 * 		}
 * 	}
 * 	espalier_finish(&t);
 *
 * Outside espalier the reports are printed.  Include it in one source file: the functions are
 * static, and it installs a handler for SIGTERM.  trial-protocol.md describes the protocol itself.
 */
#ifndef ESPALIER_TRIAL_H
#define ESPALIER_TRIAL_H
#if defined(__STRICT_ANSI__) && !defined(_POSIX_C_SOURCE) && !defined(_DEFAULT_SOURCE) && \
    !defined(_GNU_SOURCE)
/* -std=c11 hides signals and sockets: include it before all others then */
#define _DEFAULT_SOURCE 1
#endif
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef __cplusplus
extern "C" {
#endif

#define ESPALIER_SAVE 1 /* write a checkpoint, then call espalier_saved */
#define ESPALIER_END 2  /* leave the loop and exit with status 0 */

struct espalier_trial {
	uint64_t trial, seed; /* seed: the same at every start of this trial */
	uint64_t iteration;   /* done so far */
	uint64_t budget;      /* train up to this one; may rise with a report */
	uint64_t iterations_max;
	unsigned rank, world, local_rank, attempt;
	const char *checkpoint; /* directory to restore from, "" if there is none */
	const char *scratch;
	int inside; /* 0: run by hand */
	int ended;
	/* private */
	int fd, sealing;
	uint64_t reported; /* the last iteration; 0: none since the start */
	const char *save;
	char *params; /* text of the JSON object */
	char inbox[256];
	size_t inbox_size;
};

static volatile sig_atomic_t espalier_terminated_;
static pid_t espalier_self_;

/* A process that was forked from this one has this handler, too.  It stays if espalier has sent
 * SIGTERM to the whole group, as its parent does; a SIGTERM from its parent ends it, as any
 * process. */
static inline void
espalier_on_term_(int sig, siginfo_t *from, void *context)
{
	(void)context;
	espalier_terminated_ = 1;
	if (getpid() != espalier_self_ && (from->si_pid == getppid() || from->si_pid == getpid())) {
		(void)signal(sig, SIG_DFL);
		(void)raise(sig); /* comes when this returns */
	}
}

static inline int
espalier_catch_term_(void)
{
	struct sigaction action;

	espalier_self_ = getpid();
	memset(&action, 0, sizeof action);
	sigemptyset(&action.sa_mask);
	action.sa_sigaction = espalier_on_term_;
	action.sa_flags = SA_SIGINFO | SA_RESTART; /* the program's own reads are restarted */
	return sigaction(SIGTERM, &action, NULL);
}

static inline uint64_t
espalier_env_(const char *name, uint64_t fallback)
{
	const char *text = getenv(name);

	return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : fallback;
}

static inline const char *
espalier_env_text_(const char *name)
{
	const char *text = getenv(name);

	return text != NULL ? text : "";
}

static inline char *
espalier_slurp_(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = NULL;
	size_t size = 0, room = 0, got;
	int code;

	if (f == NULL)
		return NULL;
	do {
		if (room - size < 2) {
			char *more = (char *)realloc(text, room = room == 0 ? 4096 : room * 2);

			if (more == NULL)
				goto failed;
			text = more;
		}
		got = fread(text + size, 1, room - size - 1, f);
		size += got;
	} while (got > 0);
	if (ferror(f))
		goto failed;
	fclose(f);
	text[size] = '\0';
	return text;
failed:
	code = errno;
	free(text);
	fclose(f);
	errno = code;
	return NULL;
}

/* Rank 0's socket, -1 on other ranks; -2 with a message: there is something else. */
static inline int
espalier_report_fd_(void)
{
	const char *text = getenv("ESPALIER_REPORT_FD");
	char *end;
	long fd;
	int type;
	socklen_t size = sizeof type;

	if (text == NULL)
		return -1;
	fd = strtol(text, &end, 10);
	if (end != text && *end == '\0' && fd >= 0 && fd < FD_SETSIZE &&
	    getsockopt((int)fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
	    fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0)
		return (int)fd;
	fprintf(stderr,
	    "espalier_trial: ESPALIER_REPORT_FD=%s is not an open socket (does a program between "
	    "espalier and this one close it?)\n",
	    text);
	return -2;
}

/* Reads the environment.  `iterations` is the budget outside espalier.  0, or -1 with a message
 * on standard error. */
static inline int
espalier_start(struct espalier_trial *t, uint64_t iterations)
{
	const char *params = espalier_env_text_("ESPALIER_PARAMS");

	memset(t, 0, sizeof *t);
	t->inside = getenv("ESPALIER_TRIAL") != NULL;
	t->trial = espalier_env_("ESPALIER_TRIAL", 0);
	t->seed = espalier_env_("ESPALIER_SEED", 0);
	t->iteration = espalier_env_("ESPALIER_ITERATION", 0);
	t->budget = espalier_env_("ESPALIER_BUDGET", iterations);
	t->iterations_max = espalier_env_("ESPALIER_ITERATIONS_MAX", iterations);
	t->rank = (unsigned)espalier_env_("RANK", 0);
	t->world = (unsigned)espalier_env_("WORLD_SIZE", 1);
	t->local_rank = (unsigned)espalier_env_("LOCAL_RANK", 0);
	t->attempt = (unsigned)espalier_env_("ESPALIER_ATTEMPT", 0);
	t->checkpoint = espalier_env_text_("ESPALIER_CHECKPOINT");
	t->scratch = espalier_env_text_("ESPALIER_SCRATCH");
	t->save = espalier_env_text_("ESPALIER_SAVE");
	t->fd = espalier_report_fd_();
	if (t->fd < -1)
		return -1;
	if (params[0] != '\0' && (t->params = espalier_slurp_(params)) == NULL) {
		fprintf(stderr, "espalier_trial: cannot read '%s': %s\n", params, strerror(errno));
		return -1;
	}
	if (t->inside && espalier_catch_term_() != 0) {
		perror("espalier_trial: SIGTERM");
		return -1;
	}
	return 0;
}

static inline void
espalier_finish(struct espalier_trial *t)
{
	free(t->params);
	t->params = NULL;
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

/* ---- parameters: one flat object of numbers and words ------------------------------------- */

/* Reads the number at `at`; *end is after it.  JSON's decimal point is always '.', that of the
 * locale may differ. */
static inline double
espalier_read_number_(const char *at, const char **end)
{
	const char *point = localeconv()->decimal_point;
	char text[512], *stop;
	size_t length = strspn(at, "+-.0123456789eE"), dot = strcspn(at, "."), more = strlen(point);
	double value;

	*end = at;
	if (length + more >= sizeof text)
		return 0;
	memcpy(text, at, length);
	text[length] = '\0';
	if (dot < length) {
		memmove(text + dot + more, text + dot + 1, length - dot);
		memcpy(text + dot, point, more);
	}
	value = strtod(text, &stop);
	if (stop != text)
		*end = at + length;
	return value;
}

/* Writes a number as JSON; one that is not finite becomes a word. */
static inline void
espalier_write_number_(char text[64], double value)
{
	const char *point = localeconv()->decimal_point;
	size_t more = strlen(point);
	char *at;

	if (!isfinite(value)) {
		(void)snprintf(text, 64, "\"%s\"",
		    isnan(value)    ? "nan"
			: value > 0 ? "inf"
				    : "-inf");
		return;
	}
	(void)snprintf(text, 64, "%.17g", value);
	at = strcmp(point, ".") != 0 ? strstr(text, point) : NULL;
	if (at != NULL) {
		*at = '.';
		memmove(at + 1, at + more, strlen(at + more) + 1);
	}
}

/* Where the value of `name` begins, or NULL. */
static inline const char *
espalier_find_(const struct espalier_trial *t, const char *name)
{
	const char *at = t->params;
	size_t length = strlen(name);

	while (at != NULL && (at = strchr(at, '"')) != NULL) {
		const char *begin = ++at;
		int key;

		for (; *at != '\0' && *at != '"'; at++)
			if (*at == '\\' && at[1] != '\0')
				at++;
		if (*at == '\0')
			return NULL;
		key = (size_t)(at - begin) == length && memcmp(begin, name, length) == 0;
		at++;
		at += strspn(at, " \t\r\n");
		if (*at != ':')
			continue; /* it was a value */
		at++;
		at += strspn(at, " \t\r\n");
		if (key)
			return at;
		if (*at == '"') { /* skip a string, so that it is not taken for a name */
			for (at++; *at != '\0' && *at != '"'; at++)
				if (*at == '\\' && at[1] != '\0')
					at++;
			if (*at == '"')
				at++;
		}
	}
	return NULL;
}

/* The value of a numeric parameter (true is 1, false 0); `fallback` if there is none of this name.
 */
static inline double
espalier_number(const struct espalier_trial *t, const char *name, double fallback)
{
	const char *at = espalier_find_(t, name), *end;
	double value;

	if (at == NULL)
		return fallback;
	if (strncmp(at, "true", 4) == 0 || strncmp(at, "false", 5) == 0)
		return at[0] == 't' ? 1.0 : 0.0;
	value = espalier_read_number_(at, &end);
	return end != at ? value : fallback;
}

/* Copies the value of a parameter that is a string into `room`, as it is written in the JSON
 * (escapes stay).  Returns room, `fallback` if there is none of this name, or NULL with a message
 * if it does not fit.  Check for NULL: training would continue with a wrong configuration. */
static inline const char *
espalier_word(const struct espalier_trial *t, const char *name, const char *fallback, char *room,
    size_t size)
{
	const char *at = espalier_find_(t, name);
	size_t length = 0;

	if (at == NULL || *at++ != '"')
		return fallback;
	while (at[length] != '\0' && at[length] != '"')
		length += at[length] == '\\' && at[length + 1] != '\0' ? 2 : 1;
	if (length >= size) {
		fprintf(stderr,
		    "espalier_trial: '%s' is %zu bytes long, but there is only room for %zu\n",
		    name, length, size > 0 ? size - 1 : 0);
		return NULL;
	}
	memcpy(room, at, length);
	room[length] = '\0';
	return room;
}

/* ---- reports ------------------------------------------------------------------------------- */

static inline int
espalier_send_(struct espalier_trial *t, const char *text, size_t size)
{
	while (size > 0) {
		ssize_t sent = send(t->fd, text, size, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			perror("espalier_trial: report");
			return -1;
		}
		text += sent;
		size -= (size_t)sent;
	}
	return 0;
}

static inline int
espalier_verdict_(struct espalier_trial *t, const char *answer)
{
	int verdict;

	if (strncmp(answer, "continue", 8) == 0) {
		if (answer[8] == ' ')
			t->budget = strtoull(answer + 9, NULL, 10);
		return 0;
	}
	if (strcmp(answer, "checkpoint") == 0)
		verdict = ESPALIER_SAVE;
	else if (strcmp(answer, "pause") == 0)
		verdict = ESPALIER_SAVE | ESPALIER_END;
	else if (strcmp(answer, "stop") == 0)
		verdict = ESPALIER_END;
	else {
		fprintf(stderr, "espalier_trial: unknown reply '%s'\n", answer);
		return -1;
	}
	t->ended = t->ended || (verdict & ESPALIER_END) != 0;
	return verdict;
}

/* Waits for a line.  SIGTERM is blocked except while it waits, so that none is missed. */
static inline int
espalier_answer_(struct espalier_trial *t)
{
	for (;;) {
		char *end = (char *)memchr(t->inbox, '\n', t->inbox_size);
		sigset_t term, before;
		ssize_t got = 0;
		int ready = 0;

		if (end != NULL) {
			char line[sizeof t->inbox];
			/* at most one less than line holds */
			size_t size = (size_t)(end - t->inbox);

			memcpy(line, t->inbox, size);
			line[size] = '\0';
			t->inbox_size -= size + 1;
			memmove(t->inbox, end + 1, t->inbox_size);
			return espalier_verdict_(t, line);
		}
		sigemptyset(&term);
		sigaddset(&term, SIGTERM);
		sigprocmask(SIG_BLOCK, &term, &before);
		while (!espalier_terminated_ && ready <= 0) {
			fd_set set;

			FD_ZERO(&set);
			FD_SET(t->fd, &set);
			ready = pselect(t->fd + 1, &set, NULL, NULL, NULL, &before);
			if (ready < 0 && errno != EINTR)
				break; /* recv reports the error */
		}
		sigprocmask(SIG_SETMASK, &before, NULL);
		if (espalier_terminated_)
			return espalier_verdict_(t, "pause");
		if (t->inbox_size < sizeof t->inbox)
			got = recv(t->fd, t->inbox + t->inbox_size, sizeof t->inbox - t->inbox_size,
			    0);
		if (got == 0 || (got < 0 && errno != EINTR)) {
			fprintf(stderr, "espalier_trial: lost the connection to espalier\n");
			return -1;
		}
		t->inbox_size += got > 0 ? (size_t)got : 0;
	}
}

static inline int
espalier_print_metrics_(char *line, size_t room, uint64_t iteration, const char *const *names,
    const double *values, unsigned count)
{
	size_t size = (size_t)snprintf(line, room, "{\"iteration\": %llu, \"metrics\": {",
	    (unsigned long long)iteration);

	for (unsigned i = 0; i < count; i++) {
		char number[64];

		if (i > 0 && size + 2 < room)
			size += (size_t)snprintf(line + size, room - size, ", ");
		if (size + 8 < room)
			line[size++] = '"';
		for (const char *c = names[i]; *c != '\0' && size + 8 < room; c++)
			if (*c == '"' || *c == '\\' || (unsigned char)*c < 0x20)
				size += (size_t)snprintf(line + size, room - size, "\\u%04x",
				    (unsigned)(unsigned char)*c);
			else
				line[size++] = *c;
		espalier_write_number_(number, values[i]);
		if (size + strlen(number) + 8 >= room) {
			fprintf(stderr, "espalier_trial: too many metrics for a line\n");
			return -1;
		}
		size += (size_t)snprintf(line + size, room - size, "\": %s", number);
	}
	return (int)(size + (size_t)snprintf(line + size, room - size, "}}\n"));
}

/* Reports several metrics at once.  Returns ESPALIER_SAVE and ESPALIER_END as they apply, 0 to
 * continue, -1 on failure (printed on standard error).  Iterations increase: one that is not above
 * the last that this process reported is an error.  Only rank 0 reports and gets answers: send its
 * verdict and budget to the other ranks by your own means. */
static inline int
espalier_report_all(struct espalier_trial *t, uint64_t iteration, const char *const *names,
    const double *values, unsigned count)
{
	char line[16384];
	int size = espalier_print_metrics_(line, sizeof line, iteration, names, values, count);

	if (size < 0)
		return -1;
	if (iteration <= t->reported) {
		fprintf(stderr,
		    "espalier_trial: iteration %llu is reported after iteration %llu: report each "
		    "iteration once, with all its metrics, from 1 on\n",
		    (unsigned long long)iteration, (unsigned long long)t->reported);
		return -1;
	}
	t->iteration = t->reported = iteration;
	if (t->fd < 0) {
		if (!t->inside && t->rank == 0)
			fputs(line, stdout);
		t->ended = t->ended || (!t->inside && iteration >= t->budget);
		return t->ended ? ESPALIER_END : 0;
	}
	if (espalier_send_(t, line, (size_t)size) != 0)
		return -1;
	return espalier_terminated_ ? espalier_verdict_(t, "pause") : espalier_answer_(t);
}

static inline int
espalier_report(struct espalier_trial *t, uint64_t iteration, const char *name, double value)
{
	return espalier_report_all(t, iteration, &name, &value, 1);
}

/* Returns the directory to write the checkpoint into; it is empty. */
static inline const char *
espalier_save_folder(struct espalier_trial *t)
{
	while (t->sealing) { /* the previous checkpoint is being moved */
		DIR *folder = opendir(t->save);
		int entries = 0;

		while (folder != NULL && readdir(folder) != NULL)
			entries++;
		t->sealing = folder == NULL || entries > 2;
		if (folder != NULL)
			closedir(folder);
		if (t->sealing)
			(void)poll(NULL, 0, 2);
	}
	return t->save[0] != '\0' ? t->save : ".";
}

/* Says that the directory holds the complete checkpoint of this iteration (rank 0). */
static inline int
espalier_saved(struct espalier_trial *t, uint64_t iteration)
{
	char line[64];
	int size =
	    snprintf(line, sizeof line, "{\"saved\": %llu}\n", (unsigned long long)iteration);

	if (t->fd < 0)
		return 0;
	t->sealing = 1;
	return espalier_send_(t, line, (size_t)size);
}

/* Attaches a text to the trial, under a name of at most 64 bytes; one of that name is replaced
 * (rank 0).  Of the text at most 4096 bytes are kept.  0, or -1 with a message on standard error.
 */
static inline int
espalier_note(struct espalier_trial *t, const char *key, const char *text)
{
	const char *const words[] = { "{\"notes\": {\"", key, "\": \"", text, "\"}}\n" };
	char line[32768];
	size_t size = 0;

	if (key[0] == '\0' || strlen(key) > 64) {
		fprintf(stderr, "espalier_trial: the name of a note has 1 to 64 bytes: '%.80s'\n",
		    key);
		return -1;
	}
	if (t->fd < 0)
		return 0;
	for (int i = 0; i < 5; i++)
		for (const char *c = words[i]; *c != '\0' && size + 8 < sizeof line; c++) {
			if (i == 3 && c - words[i] >= 4100 && ((unsigned char)*c & 0xc0) != 0x80)
				break; /* the rest is dropped */
			if ((i == 1 || i == 3) &&
			    (*c == '"' || *c == '\\' || (unsigned char)*c < 0x20))
				size += (size_t)snprintf(line + size, sizeof line - size, "\\u%04x",
				    (unsigned)(unsigned char)*c);
			else
				line[size++] = *c;
		}
	return espalier_send_(t, line, size);
}

#ifdef __cplusplus
}
#endif
#endif
