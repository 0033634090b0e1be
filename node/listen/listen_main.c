/* listen_main.c - espalier-listen SPEC PROGRAM WORD...: rank 0 of a trial that does not report.
 *
 * Runs PROGRAM with the words as its arguments, copies what it prints to the trial's log, and makes
 * reports of the lines that SPEC (listen.h) describes.  When the search wants no more iterations
 * for now the program is stopped (SIGSTOP) until the answer comes, so that it does not train what
 * nobody asked for; it is ended by SIGTERM when the answer is pause or stop.
 * Exit status: the program's, or 0 after such an answer.
 *
 * After --child PID FD the program runs already, as our child, and FD is the pipe that it prints
 * to: a warm start forked it before this program was executed (node/warm).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "base/assert.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/text.h"
#include "base/fill.h"
#include "listen/listen.h"
#include "listen/follow.h"

struct listening {
	struct espl__listen *listen;
	int from;         /* descriptor of the program that is read: 1 or 2 */
	int pipe;         /* -1: at its end */
	int report;       /* -1: closed */
	int signals;      /* signalfd */
	pid_t child;      /* 0: it has ended */
	int status;       /* as waitpid gave it */
	int awaiting;     /* a report is not answered yet */
	int told;         /* pause or stop */
	int ending;       /* SIGTERM was sent */
	int frozen;       /* SIGSTOP was sent */
	int warned;       /* about lines that took too long */
	int dropped_said; /* the warning about too many metrics was given */
	int grouped_said, restart_said, falling_said;
	uint64_t files_unused; /* what is wrong with files, each once */
	uint64_t told_unused;  /* of lines and files, what the driver knows */
	int left;              /* bytes that were in the pipe when the program ended */
	uint64_t begun, budget;
	struct espl__listen_layout told_layout; /* what the driver knows */
	char bytes[64 << 10];                   /* read, and not yet taken apart from `at` on */
	size_t at, size;
	struct espl__buf line, out, answer;
	struct espl__follow *tail; /* files that are read in place of the output; or NULL */
	struct espl__buf row;      /* of such a file */
};

#define LOOK_EVERY 200     /* ms, into these files */
#define ROWS_AT_ONCE 4096u /* before signals and answers are looked at */

static uint64_t
number_in(const char *name)
{
	const char *text = getenv(name);
	int64_t number;

	return text != NULL && espl__parse_int(text, &number) == 0 && number > 0 ? (uint64_t)number
										 : 0;
}

/* ---- the program ------------------------------------------------------------------------- */

static _Noreturn void
exec_program(const struct listening *l, int out, char *const *argv, const sigset_t *mask)
{
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, mask, NULL);
	(void)unsetenv("ESPALIER_REPORT_FD");
	if (l->report >= 0)
		(void)close(l->report);
	if (dup2(out, l->from) >= 0)
		(void)execv(argv[0], argv + 1);
	fprintf(stderr, "espalier: cannot run '%s': %s\n", argv[1], strerror(errno));
	_exit(127);
}

/* `before`: the mask of signals up to now. */
static int
watch_signals(struct listening *l, sigset_t *before)
{
	sigset_t ours;

	sigemptyset(&ours);
	sigaddset(&ours, SIGTERM);
	sigaddset(&ours, SIGCHLD);
	(void)signal(SIGPIPE, SIG_IGN);
	if (sigprocmask(SIG_BLOCK, &ours, before) != 0)
		return -1;
	l->signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
	return l->signals < 0 ? -1 : 0;
}

static int
start_program(struct listening *l, char *const *argv)
{
	sigset_t before;
	int ends[2];

	if (watch_signals(l, &before) != 0 || pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	l->child = fork();
	if (l->child == 0)
		exec_program(l, ends[1], argv, &before);
	(void)close(ends[1]);
	if (l->child < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
		return -1;
	(void)setpgid(l->child, l->child);
	l->pipe = ends[0];
	return 0;
}

static void
signal_program(struct listening *l, int sig)
{
	if (l->child > 0)
		(void)kill(-l->child, sig);
}

static void
thaw_program(struct listening *l)
{
	if (l->frozen)
		signal_program(l, SIGCONT);
	l->frozen = 0;
}

static void
end_program(struct listening *l)
{
	if (!l->ending)
		signal_program(l, SIGTERM);
	l->ending = 1;
	thaw_program(l);
}

static void
close_report(struct listening *l)
{
	if (l->report >= 0)
		(void)close(l->report);
	l->report = -1;
	l->awaiting = 0;
}

/* ---- reports ----------------------------------------------------------------------------- */

static void
send_report(struct listening *l, const void *text, size_t size)
{
	const char *p = text;

	while (size > 0 && l->report >= 0) {
		ssize_t sent = send(l->report, p, size, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0) { /* the agent is gone: so is the trial */
			close_report(l);
			end_program(l);
			return;
		}
		p += sent;
		size -= (size_t)sent;
	}
}

static uint64_t
count_unused(const struct listening *l)
{
	return espl__listen_unused(l->listen) + l->files_unused;
}

/* With what has become known of the layout: trials that begin later need not find it out. And with
 * how much that looks like metrics was not used. */
static void
send_report_of(struct listening *l)
{
	const struct espl__listen_layout *layout = espl__listen_found(l->listen);

	ESPL__ASSERT(l->out.size > 2);
	l->out.size -= 2; /* "}\n" */
	if (espl__listen_layout_learn(&l->told_layout, layout)) {
		espl__print(&l->out, ", \"layout\": ");
		espl__listen_layout_put(layout, &l->out);
	}
	if (count_unused(l) > l->told_unused) {
		l->told_unused = count_unused(l);
		espl__print(&l->out, ", \"unused\": %llu", (unsigned long long)l->told_unused);
	}
	espl__print(&l->out, "}\n");
	send_report(l, l->out.data, l->out.size);
	l->awaiting = l->report >= 0;
	if (l->awaiting && l->child > 0 && espl__listen_last(l->listen) >= l->budget) {
		signal_program(l, SIGSTOP);
		l->frozen = 1;
	}
}

/* Values of the metric that are printed but ignored: one warning for each kind. */
static void
say_left_out(struct listening *l)
{
	const struct espl__listen_counts *counts = espl__listen_counts(l->listen);

	if (!l->grouped_said && counts->grouped != NULL)
		fprintf(stderr,
		    "espalier: '%s' is not read as a number, since it could be several: print the "
		    "metric with all its digits, and nothing between them\n",
		    counts->grouped);
	if (!l->restart_said && counts->restarts > 0)
		fprintf(stderr,
		    "espalier: the program counts its iterations from the beginning again after "
		    "iteration %llu: what it prints is ignored until a later one\n",
		    (unsigned long long)counts->restarts);
	if (!l->falling_said && counts->falling > 0)
		fprintf(stderr,
		    "espalier: the numbers of iterations fall: an iteration before the last one "
		    "that was named is ignored\n");
	l->falling_said |= counts->falling > 0;
	l->grouped_said |= counts->grouped != NULL;
	l->restart_said |= counts->restarts > 0;
}

static void
read_line(struct listening *l, const struct espl__buf *line)
{
	int reports = !l->ending && l->report >= 0 &&
	    espl__listen_line(l->listen, line->size > 0 ? (const char *)line->data : "", line->size,
		&l->out);

	if (!l->warned && espl__listen_counts(l->listen)->hard > 0) {
		l->warned = 1;
		fprintf(stderr,
		    "espalier: trial.metrics.pattern takes too many steps on a line; such lines "
		    "are "
		    "ignored\n");
	}
	if (!l->dropped_said && espl__listen_counts(l->listen)->dropped > 0) {
		l->dropped_said = 1;
		fprintf(stderr,
		    "espalier: the program prints more than %u metrics for one report; the rest is "
		    "dropped\n",
		    ESPL__METRICS_IN_REPORT);
	}
	say_left_out(l);
	if (!reports)
		return;
	send_report_of(l);
}

static void
take_line(struct listening *l)
{
	if (l->tail == NULL)
		read_line(l, &l->line);
	espl__buf_clear(&l->line);
}

/* What is new in the files, up to the report that is to be answered first. */
static void
take_files(struct listening *l, int final)
{
	const char *trouble;
	uint32_t rows = 0;

	if (l->tail == NULL)
		return;
	while ((final || rows++ < ROWS_AT_ONCE) && !l->awaiting && !l->ending && l->report >= 0 &&
	    espl__follow_next(l->tail, final, &l->row))
		read_line(l, &l->row);
	while ((trouble = espl__follow_trouble(l->tail)) != NULL) {
		l->files_unused++;
		fprintf(stderr, "espalier: %s\n", trouble);
	}
}

/* Up to the report that is to be answered first. */
static void
take_bytes(struct listening *l)
{
	while (
	    !l->awaiting && !l->ending && l->report >= 0 && espl__listen_more(l->listen, &l->out))
		send_report_of(l);
	while ((!l->awaiting || l->ending) && l->at < l->size) {
		char c = l->bytes[l->at++];

		if (c == '\n' || c == '\r')
			take_line(l);
		else if (l->line.size < ESPL__LISTEN_LINE)
			espl__put_u8(&l->line, (uint8_t)c);
	}
}

static void
take_answer(struct listening *l, const char *text)
{
	int64_t budget;

	l->awaiting = 0;
	if (strcmp(text, "pause") == 0 || strcmp(text, "stop") == 0) {
		l->told = 1;
		end_program(l);
		return;
	}
	if (strncmp(text, "continue ", 9) == 0 && espl__parse_int(text + 9, &budget) == 0) {
		l->budget = (uint64_t)budget;
		espl__listen_budget(l->listen, l->budget);
	}
	thaw_program(l);
}

static void
read_answers(struct listening *l)
{
	char bytes[512];
	ssize_t got = recv(l->report, bytes, sizeof bytes, MSG_DONTWAIT);

	if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
		close_report(l);
		end_program(l);
	}
	for (ssize_t i = 0; i < got; i++) {
		if (bytes[i] != '\n') {
			espl__put_u8(&l->answer, (uint8_t)bytes[i]);
			continue;
		}
		take_answer(l, espl__buf_text(&l->answer));
		espl__buf_clear(&l->answer);
	}
}

/* ---- the loop ---------------------------------------------------------------------------- */

/* Copies what is there to the log; 1: there was something. */
static int
read_output(struct listening *l)
{
	size_t most = sizeof l->bytes;
	ssize_t got;

	if (l->child == 0 && (size_t)l->left < most)
		most = (size_t)l->left;
	do
		got = read(l->pipe, l->bytes, most);
	while (got < 0 && errno == EINTR);
	if (got > 0) {
		l->left -= l->child == 0 ? (int)got : 0;
		(void)espl__write_all(l->from, l->bytes, (size_t)got);
		l->at = 0;
		l->size = (size_t)got;
		return 1;
	}
	/* Something that the program left behind may hold the pipe open, or print without end. */
	if (got == 0 || errno != EAGAIN || l->child == 0) {
		(void)close(l->pipe);
		l->pipe = -1;
		take_line(l); /* the last one may lack its end */
	}
	return 0;
}

static void
read_signals(struct listening *l)
{
	struct signalfd_siginfo info;

	while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info)
		if (info.ssi_signo == SIGTERM)
			end_program(l);
	if (l->child > 0 && waitpid(l->child, &l->status, WNOHANG) == l->child) {
		l->child = 0;
		if (l->pipe >= 0)
			(void)ioctl(l->pipe, FIONREAD, &l->left);
	}
}

/* Words: the program's process, which is our child, and the pipe that it prints to. */
static int
adopt_program(struct listening *l, const char *pid, const char *pipe)
{
	int64_t child, fd;
	sigset_t before;

	if (espl__parse_int(pid, &child) != 0 || espl__parse_int(pipe, &fd) != 0 || child <= 1 ||
	    fd < 3 || watch_signals(l, &before) != 0 || fcntl((int)fd, F_SETFL, O_NONBLOCK) != 0 ||
	    fcntl((int)fd, F_SETFD, FD_CLOEXEC) != 0)
		return -1;
	l->child = (pid_t)child;
	l->pipe = (int)fd;
	read_signals(l); /* it may have ended before its signal was watched for */
	return 0;
}

static void
follow_program(struct listening *l)
{
	while (l->child > 0 || l->pipe >= 0 || (l->awaiting && !l->ending)) {
		int reads = l->pipe >= 0 && (!l->awaiting || l->ending);
		struct pollfd p[3] = { { .fd = reads ? l->pipe : -1, .events = POLLIN },
			{ .fd = l->report, .events = POLLIN },
			{ .fd = l->signals, .events = POLLIN } };

		if (reads && l->child == 0) {
			(void)read_output(l);
		} else if (poll(p, 3, l->tail != NULL ? LOOK_EVERY : -1) > 0) {
			if (p[2].revents != 0)
				read_signals(l);
			if (p[1].revents != 0)
				read_answers(l);
			if (p[0].revents != 0 && (!l->awaiting || l->ending))
				(void)read_output(l);
		}
		take_bytes(l);
		take_files(l, 0);
	}
}

/* A directory may have characters in its name that are special in a glob pattern. */
static const char *
find_variable(void *ctx, const char *name)
{
	struct espl__buf *quoted = ctx;
	const char *variable = espl__fill_variable(name),
		   *value = variable != NULL ? getenv(variable) : NULL;

	if (value == NULL)
		return NULL;
	espl__buf_clear(quoted);
	for (; *value != '\0'; value++) {
		if (strchr("*?[]\\", *value) != NULL)
			espl__put_u8(quoted, '\\');
		espl__put_u8(quoted, (uint8_t)*value);
	}
	return espl__buf_text(quoted);
}

static int
open_files(struct listening *l, const char *pattern)
{
	struct espl__buf path = { NULL, 0, 0 }, quoted = { NULL, 0, 0 };
	char bad[64];
	int unknown = espl__fill(pattern, find_variable, &quoted, &path, bad);

	espl__buf_free(&quoted);
	if (unknown != 0) {
		fprintf(stderr, "espalier: trial.metrics.file: {%s} is not known\n", bad);
		return -1;
	}
	l->tail = espl__follow_new(espl__buf_text(&path), 1);
	espl__buf_free(&path);
	return 0;
}

/* The program has ended: what it left behind in its files, and what was held back. */
static void
report_rest(struct listening *l)
{
	do {
		if (l->awaiting)
			follow_program(l); /* the answer */
		take_files(l, 1);
	} while (l->awaiting);
	while (!l->told && !l->ending && l->status == 0 &&
	    (espl__listen_more(l->listen, &l->out) || espl__listen_end(l->listen, &l->out))) {
		send_report_of(l);
		follow_program(l);
	}
	if (l->tail != NULL && espl__follow_files(l->tail) == 0)
		fprintf(stderr, "espalier: no file matched trial.metrics.file\n");
}

/* As the program ended, so do we. */
static int
leave_as(const struct listening *l)
{
	struct rlimit none = { 0, 0 };

	if (l->told)
		return 0;
	if (WIFSIGNALED(l->status)) {
		sigset_t open;

		(void)setrlimit(RLIMIT_CORE, &none);
		(void)signal(WTERMSIG(l->status), SIG_DFL);
		sigemptyset(&open);
		(void)sigprocmask(SIG_SETMASK, &open, NULL);
		(void)raise(WTERMSIG(l->status));
		return 128 + WTERMSIG(l->status);
	}
	return WEXITSTATUS(l->status);
}

int
main(int argc, char **argv)
{
	static struct listening l;
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *file = NULL, **child = NULL;

	if (argc > 4 && strcmp(argv[1], "--child") == 0) {
		child = argv + 2;
		argv += 3;
		argc -= 3;
	}
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		printf("espalier-listen %s\n", PACKAGE_VERSION);
		return 0;
	}
	if (argc < 4 || getenv("ESPALIER_TRIAL") == NULL || getenv("ESPALIER_REPORT_FD") == NULL) {
		fprintf(stderr,
		    "usage: espalier-listen SPEC PROGRAM WORD... (started by espalier-agent, which "
		    "passes everything else in the environment)\n");
		return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
	}
	if (espl__listen_new_json(argv[1], &l.listen, &l.from, &file, &diag) != ESPL_OK) {
		espl__diag_print(stderr, &diag);
		return 2;
	}
	l.report = (int)number_in("ESPALIER_REPORT_FD");
	l.begun = number_in("ESPALIER_ITERATION");
	l.budget = number_in("ESPALIER_BUDGET");
	espl__listen_begin(l.listen, l.begun, l.budget, number_in("ESPALIER_ITERATIONS_MAX"));
	l.told_layout = *espl__listen_found(l.listen);
	if (file != NULL && open_files(&l, file) != 0)
		return 2;
	free(file);
	if ((child != NULL ? adopt_program(&l, child[0], child[1]) : start_program(&l, argv + 2)) !=
	    0) {
		perror("espalier-listen");
		return 2;
	}
	follow_program(&l);
	report_rest(&l);
	if (!l.told && !l.ending && l.status == 0 && espl__listen_last(l.listen) > l.begun) {
		char *text =
		    espl__format("{\"iteration\": %llu, \"finished\": true, \"unused\": %llu}\n",
			(unsigned long long)espl__listen_last(l.listen),
			(unsigned long long)count_unused(&l));

		send_report(&l, text, strlen(text));
		free(text);
	}
	espl__follow_free(l.tail);
	espl__buf_free(&l.row);
	espl__listen_free(l.listen);
	espl__buf_free(&l.line);
	espl__buf_free(&l.out);
	espl__buf_free(&l.answer);
	return leave_as(&l);
}
