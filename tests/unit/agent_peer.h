/* agent_peer.h - a driver for tests: starts a real agent on two pipes and talks to it.
 *
 * Nothing is asserted about how long anything takes; a wait only ends when a minute has gone.
 */
#ifndef TEST_AGENT_PEER_H
#define TEST_AGENT_PEER_H
#ifndef PEER_PLAIN /* a program that is no test brings its own cr_assert... */
#include <criterion/criterion.h>
#endif
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fill.h"
#include "base/file.h"
#include "base/mem.h"
#include "node/wire.h"

struct peer {
	pid_t pid;
	int to, from;
	struct espl__buf in, got;
	size_t drop;
	char dir[64];
	uint8_t type;
	struct espl__reader r;
	/* where its log lines and what it tells of GPUs go, or NULL */
	struct espl__buf *logs, *news;
};

static inline const char *
agent_path(void)
{
	static char path[4200];
	const char *folder = getenv("ESPALIER_LIBEXEC"); /* set by make check */
	ssize_t size;

	if (folder != NULL) {
		snprintf(path, sizeof path, "%s/espalier-agent", folder);
		return path;
	}
	size = readlink("/proc/self/exe", path, 4096);
	cr_assert(size > 0);
	path[size] = '\0';
	/* tests/unit/[.libs/]test_runtime -> the build tree */
	for (int up = 0; up < 5; up++) {
		char *slash = strrchr(path, '/');

		cr_assert(slash != NULL);
		memcpy(slash, "/espalier-agent", sizeof "/espalier-agent");
		if (access(path, X_OK) == 0)
			return path;
		*slash = '\0';
	}
	cr_assert_fail("no espalier-agent beside the tests; set ESPALIER_LIBEXEC");
	return NULL;
}

static inline void
say(struct peer *p, enum espl__message type, const struct espl__buf *payload)
{
	struct espl__buf b = { NULL, 0, 0 };

	espl__frame_put(&b, type, payload != NULL ? payload->data : NULL,
	    payload != NULL ? payload->size : 0);
	cr_assert_eq(espl__write_all(p->to, b.data, b.size), 0);
	espl__buf_free(&b);
}

/* Log lines, and what is told of GPUs: "WHAT GANG NUMBER TEXT". */
static inline void
overhear(struct peer *p)
{
	struct espl__reader r = p->r;
	unsigned what = espl__get_u8(&r);
	char text[1000];

	if (p->type == ESPL__MSG_GPU && p->news != NULL) {
		unsigned long long gang = espl__get_v64(&r), number = espl__get_v64(&r);

		espl__get_str(&r, text, sizeof text);
		cr_assert(!r.bad && r.at == r.end);
		espl__print(p->news, "%u %llu %llu %s\n", what, gang, number, text);
	} else if (p->type == ESPL__MSG_LOG && p->logs != NULL) {
		espl__get_str(&r, text, sizeof text);
		espl__print(p->logs, "%s\n", text);
	}
}

/* The next frame but those that are overheard; 0: the channel has ended. */
static inline uint8_t
hear(struct peer *p)
{
	for (;;) {
		struct pollfd f = { .fd = p->from, .events = POLLIN };
		ssize_t n;
		size_t used;
		int got;

		if (p->drop > 0) {
			memmove(p->in.data, p->in.data + p->drop, p->in.size - p->drop);
			p->in.size -= p->drop;
			p->drop = 0;
		}
		got = espl__frame_get(&p->in, 0, &p->type, &p->r, &used);
		cr_assert(got >= 0, "the agent's frames are broken");
		if (got == 1) {
			p->drop = used;
			if (p->type == ESPL__MSG_LOG || p->type == ESPL__MSG_GPU) {
				overhear(p);
				continue;
			}
			return p->type;
		}
		cr_assert(poll(&f, 1, 240000) == 1, "the agent is silent");
		espl__buf_reserve(&p->in, 65536);
		n = read(p->from, p->in.data + p->in.size, 65536);
		cr_assert(n >= 0);
		if (n == 0)
			return p->type = 0;
		p->in.size += (size_t)n;
	}
}

static inline void
expect(struct peer *p, enum espl__message type, uint64_t gang)
{
	uint8_t got = hear(p);
	uint64_t id;

	if (got == ESPL__MSG_GARBAGE && type != ESPL__MSG_GARBAGE) {
		char why[600];

		(void)espl__get_v64(&p->r);
		espl__get_str(&p->r, why, sizeof why);
		cr_assert_fail("garbage: %s", why);
	}
	cr_assert_eq(got, type, "message %d, not %d", got, type);
	id = espl__get_v64(&p->r);
	cr_assert_eq(id, gang);
}

static inline void
expect_line(struct peer *p, uint64_t gang, const char *line)
{
	char text[70000];

	expect(p, ESPL__MSG_LINE, gang);
	espl__get_str(&p->r, text, sizeof text);
	cr_assert_str_eq(text, line);
}

static inline void
spawn_agent(struct peer *p, const char *slots)
{
	int to[2], from[2];

	memset(p, 0, sizeof *p);
	cr_assert(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
	p->pid = fork();
	cr_assert(p->pid >= 0);
	if (p->pid == 0) {
		setenv("ESPALIER_AGENT_DEVICES", slots, 1);
		setenv("SLURM_JOB_ID", "77", 1);
		setenv("PMIX_RANK", "3", 1);
		dup2(to[0], 0);
		dup2(from[1], 1);
		execl(agent_path(), "espalier-agent", (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	p->to = to[1];
	p->from = from[0];
	strcpy(p->dir, "/tmp/espalier-test-XXXXXX");
	cr_assert(mkdtemp(p->dir) != NULL);
}

static inline void
open_agent(struct peer *p, const char *slots, uint32_t heartbeat_ms)
{
	struct espl__buf b = { NULL, 0, 0 };

	char *token;

	spawn_agent(p, slots);
	token = espl__format("%s/token", p->dir); /* by it the agent sees that the folder is ours */
	cr_assert_eq(espl__file_write(token, "0000000000001234\n", 17, NULL), ESPL_OK);
	free(token);
	espl__put_u32(&b, ESPL__WIRE_PROTOCOL);
	espl__put_str(&b, p->dir);
	espl__put_u64(&b, 0x1234);
	espl__put_u64(&b, 1);
	espl__put_str(&b, "127.0.0.1");
	espl__put_u32(&b, heartbeat_ms);
	say(p, ESPL__MSG_HELLO, &b);
	espl__buf_free(&b);
	cr_assert_eq(hear(p), ESPL__MSG_HELLO_BACK);
	cr_assert_eq(espl__get_u32(&p->r), ESPL__WIRE_PROTOCOL);
}

/* Closes the channel (unless it is) and sees the agent off. */
static inline int
close_agent(struct peer *p)
{
	int status;

	if (p->to >= 0)
		close(p->to);
	while (hear(p) != 0)
		;
	close(p->from);
	cr_assert_eq(waitpid(p->pid, &status, 0), p->pid);
	cr_assert_eq(espl__tree_remove(p->dir, NULL), ESPL_OK);
	espl__buf_free(&p->in);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* what differs from one start to another */
struct script {
	uint64_t gang, trial, iteration, budget, source, checkpoint, grace_ms;
	uint32_t world;
	const char *text;    /* for sh -c */
	const char *program; /* instead of sh */
	const char *directory;
	const char *env;
	uint32_t packing;
	int64_t file_max, log_limit;
	const char *trainable, *options; /* instead of a command */
	const char *params;
	uint64_t iterations_max;
	/* of a gang that is on several nodes, one rank each */
	uint32_t nodes, node_rank, port;
	int device_gpu;
	uint32_t gpu; /* of rank 0; the next ranks have the next */
	enum espl__sharing sharing;
	int torchrun;
};

static inline const char *
find_no_name(void *ctx, const char *name)
{
	(void)ctx;
	(void)name;
	return NULL;
}

static inline void
start(struct peer *p, const struct script *s)
{
	static const char *shell[] = { "sh", "-c", NULL };
	struct espl__start_rank ranks[16];
	struct espl__start t = { .gang = s->gang,
		.trial = s->trial,
		.nodes = 1,
		.packing = 1,
		.threads = 2 };
	struct espl__buf b = { NULL, 0, 0 }, text = { NULL, 0, 0 };
	const char *one[1];

	t.world = t.rank_count = s->world > 0 ? s->world : 1;
	for (uint32_t i = 0; i < t.world; i++)
		ranks[i] = (struct espl__start_rank){ i, i, s->gpu + i };
	if (s->nodes > 0) {
		t.world = t.nodes = s->nodes;
		t.node_rank = s->node_rank;
		t.rank_count = 1;
		ranks[0].rank = s->node_rank;
		t.port = s->port;
		t.master = "127.0.0.1";
	}
	t.ranks = ranks;
	if (s->text != NULL) /* its braces are the shell's */
		espl__fill_guard(s->text, find_no_name, NULL, &text);
	shell[2] = s->text != NULL ? espl__buf_text(&text) : NULL;
	one[0] = s->program;
	t.argv = s->program != NULL ? one : shell;
	t.argc = s->program != NULL ? 1 : 3;
	if (s->trainable != NULL) {
		t.argv = NULL;
		t.argc = 0;
		t.trainable = s->trainable;
		t.options = s->options;
	}
	t.params = s->params != NULL ? s->params : "{\"lr\": 0.5}";
	t.directory = s->directory != NULL ? s->directory : p->dir;
	t.env = &s->env;
	t.env_count = s->env != NULL;
	t.iteration = s->iteration;
	t.budget = s->budget > 0 ? s->budget : 9;
	t.iterations_max = s->iterations_max > 0 ? s->iterations_max : 81;
	t.seed = 4242;
	t.attempt = 2;
	t.packing = s->packing > 0 ? s->packing : 1;
	t.device_gpu = s->device_gpu;
	t.sharing = s->sharing;
	t.source = s->source;
	t.checkpoint = s->checkpoint;
	t.grace_ms = s->grace_ms > 0 ? s->grace_ms : 60000;
	t.file_max = s->file_max;
	t.log_limit = s->log_limit;
	t.torchrun = s->torchrun;
	espl__start_put(&t, &b);
	say(p, ESPL__MSG_START, &b);
	espl__buf_free(&b);
	espl__buf_free(&text);
}

static inline void
reply(struct peer *p, uint64_t gang, const char *line)
{
	struct espl__buf b = { NULL, 0, 0 };

	espl__put_v64(&b, gang);
	espl__put_str(&b, line);
	say(p, ESPL__MSG_REPLY, &b);
	espl__buf_free(&b);
}

static inline void
two(struct peer *p, enum espl__message type, uint64_t a, uint64_t b2)
{
	struct espl__buf b = { NULL, 0, 0 };

	espl__put_v64(&b, a);
	espl__put_v64(&b, b2);
	say(p, type, &b);
	espl__buf_free(&b);
}

struct end {
	char said[256];
	uint32_t ranks;
	uint64_t rank[16];
	int64_t code[16];
	char text[16][600];
};

static inline struct end
ended(struct peer *p, uint64_t gang)
{
	struct end e;

	expect(p, ESPL__MSG_ENDED, gang);
	cr_assert_eq(espl__get_u8(&p->r), 1, "something is left");
	e.ranks = espl__get_u32(&p->r);
	cr_assert(e.ranks <= 16);
	for (uint32_t i = 0; i < e.ranks; i++) {
		e.rank[i] = espl__get_v64(&p->r);
		e.code[i] = espl__get_z64(&p->r);
		espl__get_str(&p->r, e.text[i], sizeof e.text[i]);
	}
	espl__get_str(&p->r, e.said, sizeof e.said);
	cr_assert(!p->r.bad && p->r.at == p->r.end);
	return e;
}

static inline char *
slurp(const struct peer *p, const char *name)
{
	struct espl__buf b = { NULL, 0, 0 };
	char path[300];

	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	cr_assert_eq(espl__file_read(path, 1 << 20, &b, NULL), ESPL_OK, "no %s", path);
	(void)espl__buf_text(&b);
	return (char *)b.data;
}

static inline int
exists(const struct peer *p, const char *name)
{
	char path[300];

	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	return access(path, F_OK) == 0;
}

/* Waits until the process whose number is in a file of the run folder is gone. */
static inline int
is_gone(const struct peer *p, const char *name)
{
	char *text = slurp(p, name);
	pid_t pid = (pid_t)strtol(text, NULL, 10);
	int gone = 0;

	free(text);
	cr_assert(pid > 1);
	for (int i = 0; i < 6000 && !gone; i++) {
		gone = kill(pid, 0) != 0 && errno == ESRCH;
		if (!gone)
			poll(NULL, 0, 10);
	}
	return gone;
}

static inline int
has(const char *text, const char *part)
{
	return strstr(text, part) != NULL;
}
#endif
