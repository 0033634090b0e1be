/* test_worker.c - trials under a real agent: trainables in espalier-worker (`quadratic`, which
 * has a state) and commands with the helpers; how they pause, go on elsewhere and fail.
 */
#include <dirent.h>
#include <math.h>

#include "agent_peer.h"

#define QUADRATIC \
	.trainable = "quadratic", .options = "noise = 0.5;", .params = "{\"lr\": 0.1}", \
	.iterations_max = 9

/* "{"iteration": N, "metrics": {"loss": X}}": X, and N must be right. */
static double
loss_of(struct peer *p, uint64_t gang, uint64_t iteration)
{
	char text[1000], head[100];
	double loss;

	expect(p, ESPL__MSG_LINE, gang);
	espl__get_str(&p->r, text, sizeof text);
	snprintf(head, sizeof head,
	    "{\"iteration\": %" PRIu64 ", \"metrics\": {\"loss\": ", iteration);
	cr_assert_eq(strncmp(text, head, strlen(head)), 0, "%s", text);
	loss = strtod(text + strlen(head), NULL);
	cr_assert(isfinite(loss));
	return loss;
}

static void
runs_through(struct peer *p, uint64_t gang, double *losses)
{
	struct end e;

	expect(p, ESPL__MSG_STARTED, gang);
	for (uint64_t i = 1; i <= 9; i++) {
		losses[i] = loss_of(p, gang, i);
		reply(p, gang, i < 9 ? "continue" : "stop");
	}
	e = ended(p, gang);
	for (uint32_t i = 0; i < e.ranks; i++)
		cr_assert_eq(e.code[i], 0);
}

Test(worker, pausing_moving_and_killing_change_no_bit)
{
	struct peer p;
	struct end e;
	double whole[10], again[10];

	open_agent(&p, "cpu:4", 0);
	start(&p, &(struct script){ .gang = 1, .trial = 1, QUADRATIC });
	runs_through(&p, 1, whole);
	/* The same in parts: 1..3, warm to 5, pause; three ranks 6..7, SIGTERM; one rank to the
	 * end. */
	start(&p, &(struct script){ .gang = 2, .trial = 2, .budget = 3, QUADRATIC });
	expect(&p, ESPL__MSG_STARTED, 2);
	for (uint64_t i = 1; i <= 5; i++) {
		again[i] = loss_of(&p, 2, i);
		if (i == 2) {
			reply(&p, 2, "checkpoint");
			expect(&p, ESPL__MSG_SAVED, 2);
			cr_assert_eq(espl__get_v64(&p.r), 2);
		} else {
			reply(&p, 2, i == 3 ? "continue 6" : i == 5 ? "pause" : "continue");
		}
	}
	expect(&p, ESPL__MSG_SAVED, 2);
	cr_assert_eq(espl__get_v64(&p.r), 5);
	cr_assert_eq(ended(&p, 2).code[0], 0);
	start(&p,
	    &(struct script){ .gang = 3,
		.trial = 2,
		.world = 3,
		.source = 2,
		.checkpoint = 5,
		.iteration = 5,
		QUADRATIC });
	expect(&p, ESPL__MSG_STARTED, 3);
	again[6] = loss_of(&p, 3, 6);
	reply(&p, 3, "continue");
	again[7] = loss_of(&p, 3, 7);
	two(&p, ESPL__MSG_KILL, 3, 60000); /* no answer comes: pause */
	expect(&p, ESPL__MSG_SAVED, 3);
	cr_assert_eq(espl__get_v64(&p.r), 7);
	e = ended(&p, 3);
	cr_assert(e.ranks == 3 && e.code[0] == 0 && e.code[1] == 0 && e.code[2] == 0);
	start(&p,
	    &(struct script){ .gang = 4,
		.trial = 2,
		.source = 2,
		.checkpoint = 7,
		.iteration = 7,
		QUADRATIC });
	expect(&p, ESPL__MSG_STARTED, 4);
	again[8] = loss_of(&p, 4, 8);
	two(&p, ESPL__MSG_KILL, 4, 0); /* killed: the next begins at 7 again */
	cr_assert_eq(ended(&p, 4).code[0], -SIGKILL);
	start(&p,
	    &(struct script){ .gang = 5,
		.trial = 2,
		.source = 2,
		.checkpoint = 7,
		.iteration = 7,
		QUADRATIC });
	expect(&p, ESPL__MSG_STARTED, 5);
	for (uint64_t i = 8; i <= 9; i++) {
		again[i] = loss_of(&p, 5, i);
		reply(&p, 5, i < 9 ? "continue" : "stop");
	}
	cr_assert_eq(ended(&p, 5).code[0], 0);
	for (int i = 1; i <= 9; i++)
		cr_assert_eq(memcmp(&whole[i], &again[i], sizeof whole[i]), 0, "iteration %d", i);
	cr_assert_eq(close_agent(&p), 0);
}

/* Three agents with three disks: rank 0's is the only one that has checkpoints. */
Test(worker, a_gang_spans_nodes)
{
	struct peer p[3];
	double whole[10], losses[10];

	open_agent(&p[0], "cpu:1", 0);
	open_agent(&p[1], "cpu:1", 0);
	open_agent(&p[2], "cpu:1", 0);
	start(&p[0], &(struct script){ .gang = 1, .trial = 1, QUADRATIC });
	runs_through(&p[0], 1, whole);
	for (uint64_t gang = 2; gang <= 3; gang++) {
		struct script s = { .gang = gang, .trial = 2, .nodes = 3, QUADRATIC };
		struct espl__buf b = { NULL, 0, 0 };
		uint64_t first = gang == 2 ? 1 : 5, last = gang == 2 ? 4 : 9;

		espl__put_v64(&b, gang);
		espl__put_u64(&b, 0);
		say(&p[0], ESPL__MSG_RESERVE, &b);
		espl__buf_free(&b);
		expect(&p[0], ESPL__MSG_PORT, gang);
		s.port = espl__get_u32(&p[0].r);
		cr_assert(s.port > 0);
		if (gang == 3) {
			s.source = 2;
			s.checkpoint = s.iteration = 4;
		}
		for (s.node_rank = 0; s.node_rank < 3; s.node_rank++)
			start(&p[s.node_rank], &s);
		for (int i = 0; i < 3; i++)
			expect(&p[i], ESPL__MSG_STARTED, gang);
		for (uint64_t i = first; i <= last; i++) {
			losses[i] = loss_of(&p[0], gang, i);
			reply(&p[0], gang, i < last ? "continue" : i == 4 ? "pause" : "stop");
		}
		if (gang == 2)
			expect(&p[0], ESPL__MSG_SAVED, gang);
		for (int i = 0; i < 3; i++)
			cr_assert_eq(ended(&p[i], gang).code[0], 0);
	}
	for (int i = 1; i <= 9; i++)
		cr_assert_eq(memcmp(&whole[i], &losses[i], sizeof whole[i]), 0, "iteration %d", i);
	for (int i = 0; i < 3; i++)
		cr_assert_eq(close_agent(&p[i]), 0);
}

/* The process whose environment names the scratch folder of rank 2 of gang 50. */
static pid_t
rank_2(const struct peer *p)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	char wanted[200];
	pid_t found = 0;

	cr_assert(proc != NULL);
	snprintf(wanted, sizeof wanted, "ESPALIER_SCRATCH=%s/trials/50/scratch-50.2", p->dir);
	while (found == 0 && (e = readdir(proc)) != NULL) {
		struct espl__buf b = { NULL, 0, 0 };
		char path[300];

		snprintf(path, sizeof path, "/proc/%s/environ", e->d_name);
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
		    espl__file_read(path, 1 << 20, &b, NULL) == ESPL_OK && b.size > 0 &&
		    memmem(b.data, b.size, wanted, strlen(wanted) + 1) != NULL)
			found = (pid_t)strtol(e->d_name, NULL, 10);
		espl__buf_free(&b);
	}
	closedir(proc);
	cr_assert(found > 1);
	return found;
}

Test(worker, a_failure_is_explained_in_the_log)
{
	static const struct {
		struct script s;
		const char *why;
	} cases[] = {
		{ { .trainable = "no_such_thing", .options = "" }, "no_such_thing" },
		{ { .trainable = "quadratic", .options = "nois = 1.0;" }, "trial.options:1" },
		{ { .trainable = "quadratic", .options = "", .params = "{\"rate\": 1}" }, "lr" },
		{ { .trainable = "quadratic", .options = "", .params = "{\"lr\": [1]}" },
		    "not a number" },
	};
	struct peer p;

	open_agent(&p, "cpu:2", 0);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct script s = cases[i].s;
		char name[64], *log;

		s.gang = s.trial = i + 1;
		start(&p, &s);
		expect(&p, ESPL__MSG_STARTED, s.gang);
		cr_assert_eq(ended(&p, s.gang).code[0], 3);
		snprintf(name, sizeof name, "trials/%zu/log", i + 1);
		log = slurp(&p, name);
		cr_assert(has(log, cases[i].why) && has(log, "error: "), "%s", log);
		free(log);
	}
	/* One rank is killed: it is the one to blame, whoever notices first. */
	start(&p, &(struct script){ .gang = 50, .trial = 50, .world = 4, QUADRATIC });
	expect(&p, ESPL__MSG_STARTED, 50);
	(void)loss_of(&p, 50, 1);
	{
		struct end e;

		cr_assert_eq(kill(rank_2(&p), SIGKILL), 0);
		while (hear(&p) != ESPL__MSG_ENDED) /* rank 0 saves, because it was asked to end */
			cr_assert(p.type == ESPL__MSG_SAVED);
		cr_assert_eq(espl__get_v64(&p.r), 50);
		(void)espl__get_u8(&p.r);
		e.ranks = espl__get_u32(&p.r);
		e.rank[0] = espl__get_v64(&p.r);
		e.code[0] = espl__get_z64(&p.r);
		cr_assert(e.ranks == 4 && e.rank[0] == 2 && e.code[0] == -SIGKILL);
	}
	cr_assert_eq(close_agent(&p), 0);
}

/* ---- commands with the helpers ------------------------------------------------------------ */

/* Three iterations, the last with a raised budget, a checkpoint and a pause on the way; then from
 * there on SIGTERM in the wait for an answer. */
static void
converse(struct script s, const char *log_begins, const char *first, const char *second)
{
	struct peer p;
	char *text;

	open_agent(&p, "cpu:2", 0);
	s.gang = s.trial = 1;
	s.budget = 2;
	s.params = "{\"lr\": 0.25, \"opt\": \"adam\"}";
	start(&p, &s);
	expect(&p, ESPL__MSG_STARTED, 1);
	expect_line(&p, 1, first);
	reply(&p, 1, "checkpoint");
	expect(&p, ESPL__MSG_SAVED, 1);
	expect_line(&p, 1, second);
	reply(&p, 1, "continue 3");
	(void)hear(&p);
	cr_assert_eq(p.type, ESPL__MSG_LINE);
	reply(&p, 1, "pause");
	expect(&p, ESPL__MSG_SAVED, 1);
	cr_assert_eq(espl__get_v64(&p.r), 3);
	cr_assert_eq(ended(&p, 1).code[0], 0);
	text = slurp(&p, "trials/1/log");
	cr_assert_eq(strncmp(text, log_begins, strlen(log_begins)), 0, "%s", text);
	free(text);
	text = slurp(&p, "trials/1/checkpoint-3/model");
	cr_assert_str_eq(text, "3\n");
	free(text);
	s.gang = 2;
	s.source = 1;
	s.checkpoint = s.iteration = 3;
	s.budget = 9;
	start(&p, &s);
	expect(&p, ESPL__MSG_STARTED, 2);
	expect(&p, ESPL__MSG_LINE, 2);
	two(&p, ESPL__MSG_KILL, 2, 60000);
	expect(&p, ESPL__MSG_SAVED, 2);
	cr_assert_eq(espl__get_v64(&p.r), 4);
	cr_assert_eq(ended(&p, 2).code[0], 0);
	cr_assert_eq(close_agent(&p), 0);
}

Test(helpers, a_c_program_is_a_trial)
{
	const char *folder = getenv("abs_top_builddir");
	char path[4096];

	if (folder == NULL)
		cr_skip("made for `make check`: abs_top_builddir is not set");
	snprintf(path, sizeof path, "%s/tests/unit/helper_trial", folder);
	converse((struct script){ .program = path }, "lr 0.25 opt adam from ''\n",
	    "{\"iteration\": 1, \"metrics\": {\"loss\": 0.33333333333333331, \"odd\": \"nan\"}}",
	    "{\"iteration\": 2, \"metrics\": {\"loss\": 0.33333333333333331, \"odd\": \"nan\"}}");
}

static int
have_python(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execlp("python3", "python3", "-c", "", (char *)NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

Test(helpers, a_python_program_is_a_trial)
{
	const char *folder = getenv("abs_top_srcdir");
	char text[4096], path[4096];

	if (folder == NULL || !have_python())
		cr_skip("needs python3 and abs_top_srcdir");
	snprintf(text, sizeof text, "exec python3 -B '%s/tests/unit/helper_trial.py'", folder);
	snprintf(path, sizeof path, "PYTHONPATH=%s/sdk/python", folder);
	converse((struct script){ .text = text, .env = path }, "lr 0.25 opt adam from ''\n",
	    "{\"iteration\": 1, \"metrics\": {\"loss\": 0.3333333333333333, \"odd\": \"nan\"}}",
	    "{\"iteration\": 2, \"metrics\": {\"loss\": 0.3333333333333333, \"odd\": \"nan\"}}");
}
