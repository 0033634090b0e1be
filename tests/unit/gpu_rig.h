/* gpu_rig.h - a machine with two GPUs for tests: a real agent, real processes, and in the place of
 * NVIDIA's a library and a daemon that do as they are told (fake_nvml.c, fake_mps.c).
 */
#ifndef TEST_GPU_RIG_H
#define TEST_GPU_RIG_H
#include "agent_peer.h"
#include "agent/agent_gpu.h"
#include "agent/sweep.h"

#define MIB (1ull << 20)
#define AAA "GPU-aaa"
#define BBB "GPU-bbb"

/* ---- the machine ------------------------------------------------------------------------- */

/* one test's world */
struct site {
	struct peer p;
	struct espl__buf logs, news;
	char folder[64], nvml[100], tmp[100];
};

static inline const char *
build(const char *name)
{
	static char path[4096];
	const char *folder = getenv("abs_top_builddir");

	if (folder == NULL)
		cr_skip("made for `make check`: abs_top_builddir is not set");
	snprintf(path, sizeof path, "%s/tests/unit/%s", folder, name);
	return path;
}

static inline void
set_nvml(const struct site *s, const char *text)
{
	char name[120];
	FILE *f;

	snprintf(name, sizeof name, "%s.new", s->nvml);
	f = fopen(name, "w");
	cr_assert(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
	cr_assert_eq(rename(name, s->nvml), 0);
}

#define TWO "gpu " AAA " 81920 500 03\ngpu " BBB " 81920 500 09\n"

/* `mps`: what FAKE_MPS is to be; NULL: the program is not installed. */
static inline void
prepare(struct site *s, const char *mps, const char *limit)
{
	char path[5000];

	memset(s, 0, sizeof *s);
	strcpy(s->folder, "/tmp/espalier-gpu-XXXXXX");
	cr_assert(mkdtemp(s->folder) != NULL);
	snprintf(s->nvml, sizeof s->nvml, "%s/nvml", s->folder);
	snprintf(s->tmp, sizeof s->tmp, "%s/tmp", s->folder);
	cr_assert_eq(mkdir(s->tmp, 0700), 0);
	set_nvml(s, TWO);
	setenv("FAKE_NVML", s->nvml, 1);
	setenv("ESPALIER_NVML", build(".libs/fake_nvml.so"), 1);
	snprintf(path, sizeof path, "%s:/usr/bin:/bin", mps != NULL ? build("fake") : "/nowhere");
	setenv("PATH", path, 1);
	setenv("FAKE_MPS", mps != NULL ? mps : "", 1);
	setenv("TMPDIR", s->tmp, 1);
	setenv("ESPALIER_GPU_LIMIT", limit, 1);
	unsetenv("XLA_PYTHON_CLIENT_PREALLOCATE");
}

static inline void
go(struct site *s)
{
	open_agent(&s->p, AAA "," BBB, 0);
	s->p.logs = &s->logs;
	s->p.news = &s->news;
}

static inline const char *
logs(struct site *s)
{
	return espl__buf_text(&s->logs);
}

static inline const char *
news(struct site *s)
{
	return espl__buf_text(&s->news);
}

/* Nothing of MPS is left, neither processes nor folders. */
static inline void
is_bare(const struct site *s)
{
	char mark[200], command[300];

	snprintf(command, sizeof command, "ls -A %s | grep -q .", s->tmp);
	cr_assert_neq(system(command), 0, "a folder is left in %s", s->tmp);
	snprintf(mark, sizeof mark, "TMPDIR=%s", s->tmp);
	unsetenv("TMPDIR"); /* this very process has it, too, as exec left it */
	cr_assert_eq(espl__sweep_marked(mark), 0, "a process is left");
}

static inline void
leave(struct site *s)
{
	cr_assert_eq(close_agent(&s->p), 0, "%s", logs(s));
	is_bare(s);
	cr_assert_eq(espl__tree_remove(s->folder, NULL), ESPL_OK);
	espl__buf_free(&s->logs);
	espl__buf_free(&s->news);
}

/* Connects, reports, and is well as long as MPS is; ends when it is told to, or by a file of its
 * name. */
#define CLIENT \
	"M=nvidia-cuda-mps-control; env > env.$ESPALIER_TRIAL; echo $$ > pid.$ESPALIER_TRIAL; " \
	"if [ $ESPALIER_SHARING = mps ]; then $M client $$ || exit 90; fi; echo up >&3; " \
	"while [ ! -e end.$ESPALIER_TRIAL ]; do [ $ESPALIER_SHARING != mps ] || $M client $$ || " \
	"exit 9; " \
	"[ ! -e fail.$ESPALIER_TRIAL ] || exit 5; [ ! -e crash.$ESPALIER_TRIAL ] || { rm " \
	"crash.$ESPALIER_TRIAL; $M crash $$; }; sleep 0.02; done; exit 0"

static inline void
share(struct site *s, uint64_t gang, uint64_t trial, uint32_t packing)
{
	start(&s->p,
	    &(struct script){ .gang = gang,
		.trial = trial,
		.packing = packing,
		.device_gpu = 1,
		.text = CLIENT,
		.grace_ms = 5000 });
}

static inline void
up(struct site *s, uint64_t gang)
{
	uint8_t got = hear(&s->p);
	uint64_t id = espl__get_v64(&s->p.r);

	cr_assert(got == ESPL__MSG_STARTED && id == gang, "message %d of %d\n%s", got, (int)id,
	    logs(s));
	expect_line(&s->p, gang, "up");
}

static inline void
touch(const struct site *s, const char *name)
{
	char path[200];
	int fd;

	snprintf(path, sizeof path, "%s/%s", s->p.dir, name);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	cr_assert(fd >= 0);
	close(fd);
}

/* The trial may end now; its gang's end. */
static inline struct end
finish(struct site *s, uint64_t gang, uint64_t trial)
{
	char name[40];

	snprintf(name, sizeof name, "end.%d", (int)trial);
	touch(s, name);
	return ended(&s->p, gang);
}

/* An agent that was killed: what it left on the machine stays, but for its folder. */
static inline void
bury(struct site *s)
{
	close(s->p.to);
	close(s->p.from);
	cr_assert_eq(espl__tree_remove(s->p.dir, NULL), ESPL_OK);
	espl__buf_free(&s->p.in);
}

/* A line of a trial's environment, "" if it is not there. */
static inline const char *
line_of(const struct site *s, const char *file, const char *name)
{
	static char line[1000];
	char *text = slurp(&s->p, file), *at = text;
	size_t length = strlen(name);

	line[0] = '\0';
	for (; at != NULL; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (strncmp(at, name, length) == 0 && at[length] == '=') {
			snprintf(line, sizeof line, "%.*s", (int)strcspn(at + length + 1, "\n"),
			    at + length + 1);
			break;
		}
	}
	free(text);
	return line;
}

static inline uint32_t
count(const char *text, const char *part)
{
	uint32_t n = 0;

	while ((text = strstr(text, part)) != NULL) {
		n++;
		text++;
	}
	return n;
}

static inline pid_t
read_pid(const char *folder)
{
	struct espl__buf b = { NULL, 0, 0 };
	char path[300];
	pid_t pid;

	snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control.pid", folder);
	cr_assert_eq(espl__file_read(path, 100, &b, NULL), ESPL_OK);
	pid = (pid_t)strtol(espl__buf_text(&b), NULL, 10);
	espl__buf_free(&b);
	return pid;
}

/* State and parent of a process, as /proc says; 'X' if there is none. */
static inline char
state_of(pid_t pid, pid_t *parent)
{
	char path[60], text[400] = "", state = 'X';
	int above = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (f == NULL)
		return 'X';
	if (fgets(text, sizeof text, f) != NULL && strrchr(text, ')') != NULL)
		(void)sscanf(strrchr(text, ')') + 1, " %c %d", &state, &above);
	fclose(f);
	if (parent != NULL)
		*parent = above;
	return state;
}

/* A zombie is gone, too: whether somebody takes note of it is not ours to say. */
static inline void
wait_gone(pid_t pid)
{
	char state = ' ';

	for (int i = 0; i < 3000 && state != 'X' && state != 'Z'; i++) {
		state = state_of(pid, NULL);
		poll(NULL, 0, 10);
	}
	cr_assert(state == 'X' || state == 'Z');
}
#endif
