/* test_runtime.c - espalier-agent as a driver sees it, and the frames between the two.
 *
 * Each test starts a real agent on two pipes and lets it run real processes (mostly /bin/sh).
 */
#include "agent_peer.h"
#include "agent/agent.h"

/* ---- wire -------------------------------------------------------------------------------- */

Test(wire, start_survives_and_damage_is_seen)
{
	static const char *argv[] = { "prog", "", "x y" }, *env[] = { "A=1", "B=", "C" };
	struct espl__start_rank ranks[2] = { { 3, 0, 7 }, { 5, 1, 2 } };
	struct espl__start s = { .gang = 1ull << 40,
		.trial = 9,
		.world = 8,
		.nodes = 3,
		.node_rank = 1,
		.rank_count = 2,
		.ranks = ranks,
		.packing = 1,
		.sharing = ESPL__SHARE_EXCLUSIVE,
		.attempt = 4,
		.master = "10.0.0.1",
		.port = 65535,
		.device_gpu = 1,
		.threads = 3,
		.argv = argv,
		.argc = 3,
		.options = "a = 1;",
		.params = "{}",
		.directory = "/",
		.setup = argv,
		.setup_count = 2,
		.env = env,
		.env_count = 3,
		.torchrun = 1,
		.warm = 1,
		.iteration = 5,
		.budget = 6,
		.iterations_max = 7,
		.seed = UINT64_MAX,
		.source = 8,
		.checkpoint = 5,
		.file_max = 1,
		.log_limit = 1ll << 40,
		.grace_ms = 10 },
			   t;
	struct espl__buf b = { NULL, 0, 0 }, f = { NULL, 0, 0 };
	struct espl__reader r;
	uint8_t type;
	size_t used;
	struct espl__arena memory = { NULL };

	espl__start_put(&s, &b);
	r = espl__reader(b.data, b.size);
	cr_assert_eq(espl__start_get(&r, &t, &memory), 0);
	cr_assert(t.gang == s.gang && t.seed == s.seed && t.port == 65535 && t.grace_ms == 10 &&
	    t.argc == 3);
	cr_assert(
	    t.file_max == 1 && t.log_limit == 1ll << 40 && t.sharing == ESPL__SHARE_EXCLUSIVE);
	cr_assert(t.ranks[1].rank == 5 && t.ranks[1].gpu == 2 && t.argv[3] == NULL &&
	    t.trainable == NULL);
	cr_assert_str_eq(t.argv[2], "x y");
	cr_assert_str_eq(t.env[1], "B=");
	cr_assert_str_eq(t.env[2], "C");
	cr_assert(t.torchrun && t.warm);
	cr_assert(t.setup_count == 2 && t.setup[2] == NULL);
	cr_assert_str_eq(t.setup[1], s.setup[1]);
	espl__arena_free(&memory);
	for (size_t n = 0; n < b.size; n++) { /* cut anywhere it is refused */
		r = espl__reader(b.data, n);
		cr_assert_eq(espl__start_get(&r, &t, &memory), -1);
	}
	espl__frame_put(&f, ESPL__MSG_START, b.data, b.size);
	cr_assert_eq(espl__frame_get(&f, 0, &type, &r, &used), 1);
	cr_assert(type == ESPL__MSG_START && used == f.size && (size_t)(r.end - r.at) == b.size);
	for (size_t n = 0; n < f.size; n++) { /* a flipped bit never passes */
		int got;

		f.data[n] ^= 0x10;
		got = espl__frame_get(&f, 0, &type, &r, &used);
		cr_assert(got != 1, "byte %zu", n);
		f.data[n] ^= 0x10;
		f.size--;
		cr_assert_eq(espl__frame_get(&f, 0, &type, &r, &used), 0);
		f.size++;
	}
	/* a way that there is not */
	s.sharing = (enum espl__sharing)(ESPL__SHARE_EXCLUSIVE + 1);
	espl__buf_clear(&b);
	espl__start_put(&s, &b);
	r = espl__reader(b.data, b.size);
	cr_assert_eq(espl__start_get(&r, &t, &memory), -1);
	s.sharing = ESPL__SHARE_AUTO;
	ranks[1].rank = 3; /* twice the same rank */
	espl__buf_clear(&b);
	espl__start_put(&s, &b);
	r = espl__reader(b.data, b.size);
	cr_assert_eq(espl__start_get(&r, &t, &memory), -1);
	espl__buf_free(&b);
	espl__buf_free(&f);
}

Test(wire, slots_survive_and_damage_is_seen)
{
	static const struct espl__start_rank ranks[] = { { 2, 0, 7 }, { 9, 0, 3 } };
	struct espl__rank_slots s = { .gang = 3,
		.count = 2,
		.ranks = ranks,
		.meet = { .generation = 4,
		    .moved = 1,
		    .door = "10.0.0.1",
		    .port = 999,
		    .master = "node-2",
		    .world = 9,
		    .node = 1,
		    .local_world = 3 } },
				t;
	struct espl__buf b = { NULL, 0, 0 };
	struct espl__reader r;
	struct espl__arena memory = { NULL };

	espl__rank_slots_put(&s, &b);
	r = espl__reader(b.data, b.size);
	cr_assert_eq(espl__rank_slots_get(&r, &t, &memory), 0);
	cr_assert(t.gang == 3 && t.count == 2 && t.meet.generation == 4 && t.meet.moved &&
	    t.meet.port == 999);
	cr_assert(t.meet.world == 9 && t.meet.node == 1 && t.meet.local_world == 3);
	cr_assert(t.ranks[0].rank == 2 && t.ranks[0].gpu == 7 && t.ranks[1].rank == 9);
	cr_assert_str_eq(t.meet.door, "10.0.0.1");
	cr_assert_str_eq(t.meet.master, "node-2");
	espl__arena_free(&memory);
	for (size_t n = 0; n < b.size; n++) {
		r = espl__reader(b.data, n);
		cr_assert_eq(espl__rank_slots_get(&r, &t, &memory), -1);
	}
	s.meet.door = "two words"; /* it is one of a line */
	espl__buf_clear(&b);
	espl__rank_slots_put(&s, &b);
	r = espl__reader(b.data, b.size);
	cr_assert_eq(espl__rank_slots_get(&r, &t, &memory), -1);
	espl__buf_free(&b);
}

/* ---- a trial's life ---------------------------------------------------------------------- */

Test(agent, a_trial_reports_saves_and_pauses)
{
	struct peer p;
	struct end e;
	char *text;
	struct script s = { .gang = 7,
		.trial = 3,
		.env = "OMP_NUM_THREADS=9",
		.torchrun = 1,
		.text =
		    "env > env; echo to the log; cat \"$ESPALIER_PARAMS\" > seen; echo "
		    "'{\"iteration\": 1, \"metrics\": {\"a\": 1}}' >&3; read r <&3; echo $r >> "
		    "replies; mkdir $ESPALIER_SAVE/sub; echo model > \"$ESPALIER_SAVE/sub/m "
		    "odel\"; ln -s sub $ESPALIER_SAVE/last; echo '{\"saved\": 1}' >&3; echo "
		    "'{\"iteration\": 2, \"metrics\": {\"saved\": 1}}' >&3; read r <&3; echo $r >> "
		    "replies; echo two > $ESPALIER_SAVE/x; echo '{\"saved\": 2}' >&3; exit 0" };

	(void)unsetenv("OPENBLAS_NUM_THREADS");
	open_agent(&p, "cpu:4", 0);
	start(&p, &s);
	expect(&p, ESPL__MSG_STARTED, 7);
	expect_line(&p, 7, "{\"iteration\": 1, \"metrics\": {\"a\": 1}}");
	reply(&p, 7, "checkpoint");
	expect(&p, ESPL__MSG_SAVED, 7);
	cr_assert_eq(espl__get_v64(&p.r), 1);
	cr_assert_eq(espl__get_v64(&p.r), 6);
	expect_line(&p, 7, "{\"iteration\": 2, \"metrics\": {\"saved\": 1}}");
	reply(&p, 7, "pause");
	expect(&p, ESPL__MSG_SAVED, 7);
	e = ended(&p, 7);
	cr_assert(e.ranks == 1 && e.code[0] == 0);
	text = slurp(&p, "replies");
	cr_assert_str_eq(text, "checkpoint\npause\n");
	free(text);
	text = slurp(&p, "seen");
	cr_assert_str_eq(text, "{\"lr\": 0.5}\n");
	free(text);
	text = slurp(&p, "trials/3/log");
	cr_assert_str_eq(text, "to the log\n");
	free(text);
	text = slurp(&p, "env");
	cr_assert(has(text, "ESPALIER_TRIAL=3\n") && has(text, "ESPALIER_SEED=4242\n"));
	cr_assert(has(text, "\nWORLD_SIZE=1\n") && has(text, "\nLOCAL_RANK=0\n") &&
	    has(text, "\nMASTER_PORT="));
	cr_assert(
	    has(text, "TORCHELASTIC_USE_AGENT_STORE=False") && has(text, "ESPALIER_ATTEMPT=2\n"));
	cr_assert(has(text, "OMP_NUM_THREADS=9\n") && has(text, "OPENBLAS_NUM_THREADS=2\n"));
	cr_assert(has(text, "CUDA_VISIBLE_DEVICES=\n") && has(text, "ESPALIER_CHECKPOINT=\n"));
	cr_assert(
	    !has(text, "SLURM_") && !has(text, "PMIX_") && !has(text, "ESPALIER_AGENT_DEVICES"));
	free(text);
	cr_assert(
	    exists(&p, "trials/3/checkpoint-1/MANIFEST") && exists(&p, "trials/3/checkpoint-2/x"));
	cr_assert(!exists(&p, "trials/3/saving-7") && !exists(&p, "trials/3/scratch-7.0"));

	/* Another gang goes on from there; then all but one checkpoint is collected. */
	s = (struct script){ .gang = 8,
		.trial = 4,
		.source = 3,
		.checkpoint = 1,
		.iteration = 1,
		.text = "cat \"$ESPALIER_CHECKPOINT/last/m odel\"; echo restored >&3; read r <&3" };
	start(&p, &s);
	expect(&p, ESPL__MSG_STARTED, 8);
	expect_line(&p, 8, "restored");
	two(&p, ESPL__MSG_COLLECT, 3, 2);
	two(&p, ESPL__MSG_COLLECT, 4, 0); /* nothing a living gang uses goes */
	reply(&p, 8, "stop");
	(void)ended(&p, 8);
	text = slurp(&p, "trials/4/log");
	cr_assert_str_eq(text, "model\n");
	free(text);
	cr_assert(!exists(&p, "trials/3/checkpoint-1") && exists(&p, "trials/3/checkpoint-2"));
	cr_assert_eq(close_agent(&p), 0);
}

Test(agent, a_rank_alone_finds_nothing_of_torchrun)
{
	static const char *const names[] = { "LOCAL_RANK", "RANK", "WORLD_SIZE", "MASTER_PORT",
		"ROLE_NAME", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE", "ESPALIER_SEAT",
		"ESPALIER_SHARING" };
	struct peer p;
	char *text;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) /* of another program */
		cr_assert_eq(setenv(names[i], "5", 1), 0);
	cr_assert_eq(setenv("OMP_NUM_THREADS", "6", 1), 0);
	cr_assert_eq(setenv("MINE", "7", 1), 0);
	open_agent(&p, "cpu:4", 0);
	start(&p, &(struct script){ .gang = 1, .trial = 1, .env = "MINE", .text = "env > env" });
	expect(&p, ESPL__MSG_STARTED, 1);
	(void)ended(&p, 1);
	text = slurp(&p, "env");
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		char *line = espl__format("\n%s=", names[i]);

		cr_assert(!has(text, line), "%s in %s", names[i], text);
		free(line);
	}
	cr_assert(has(text, "OMP_NUM_THREADS=6\n") && !has(text, "MINE="), "%s", text);
	free(text);
	start(&p,
	    &(struct script){ .gang = 2,
		.trial = 2,
		.world = 2,
		.text = "[ $RANK = 1 ] || env > env" });
	expect(&p, ESPL__MSG_STARTED, 2);
	(void)ended(&p, 2);
	text = slurp(&p, "env");
	cr_assert(has(text, "\nLOCAL_RANK=0\n") && has(text, "\nWORLD_SIZE=2\n"), "%s", text);
	cr_assert(!has(text, "TORCHELASTIC_ERROR_FILE="));
	free(text);
	cr_assert_eq(close_agent(&p), 0);
}

Test(agent, says_why_a_rank_cannot_start)
{
	struct peer p;
	struct end e;

	open_agent(&p, "GPU-aaa,GPU-bbb", 0);
	start(&p, &(struct script){ .gang = 1, .program = "no-such-program-here" });
	e = ended(&p, 1);
	cr_assert(
	    e.code[0] == 127 && has(e.text[0], "'no-such-program-here'") && has(e.text[0], "PATH"));
	start(&p, &(struct script){ .gang = 2, .program = "./env" });
	e = ended(&p, 2);
	cr_assert(has(e.text[0], "cannot run './env': No such file"), "%s", e.text[0]);
	start(&p, &(struct script){ .gang = 3, .text = "true", .directory = "/nowhere/at/all" });
	e = ended(&p, 3);
	cr_assert(has(e.text[0], "cannot enter the working directory: No such"), "%s", e.text[0]);
	start(&p,
	    &(struct script){ .gang = 4,
		.trial = 4,
		.source = 2,
		.checkpoint = 5,
		.text = "true" });
	e = ended(&p, 4);
	cr_assert_eq(strncmp(e.text[0], "no checkpoint: ", 15), 0, "%s", e.text[0]);
	start(&p,
	    &(struct script){ .gang = 5,
		.trial = 5,
		.text = "echo abc > $ESPALIER_SAVE/f; echo '{\"saved\": 5}' >&3; read r <&3" });
	expect(&p, ESPL__MSG_STARTED, 5);
	expect(&p, ESPL__MSG_SAVED, 5);
	reply(&p, 5, "stop");
	(void)ended(&p, 5);
	{
		char path[300];
		int fd;

		snprintf(path, sizeof path, "%s/trials/5/checkpoint-5/f", p.dir);
		fd = open(path, O_WRONLY);
		cr_assert(pwrite(fd, "b", 1, 0) == 1);
		close(fd);
	}
	start(&p,
	    &(struct script){ .gang = 6,
		.trial = 6,
		.source = 5,
		.checkpoint = 5,
		.text = "true" });
	e = ended(&p, 6);
	cr_assert(has(e.text[0], "no checkpoint: ") && has(e.text[0], "'f' is damaged"), "%s",
	    e.text[0]);
	/* A full disk, as far as one file can be: SIGXFSZ. */
	start(&p,
	    &(struct script){ .gang = 9,
		.trial = 9,
		.file_max = 4096,
		.text = "exec cat /dev/zero" });
	expect(&p, ESPL__MSG_STARTED, 9);
	e = ended(&p, 9);
	cr_assert_eq(e.code[0], -SIGXFSZ);
	cr_assert_eq(close_agent(&p), 0);
}

/* A program that prints without end neither fills the disk nor waits; why it failed is still told.
 */
Test(agent, log_is_limited)
{
	static const char said[] = "espalier: the log has reached its limit (trial.log_limit)";
	struct peer p;
	struct script s = { .gang = 1,
		.trial = 1,
		.log_limit = 1000,
		.text = "yes 0123456789 | head -c 30000000; echo the end >&2" };
	char *text, *more;

	open_agent(&p, "cpu:2", 0);
	start(&p, &s);
	expect(&p, ESPL__MSG_STARTED, 1);
	cr_assert_eq(ended(&p, 1).code[0], 0);
	text = slurp(&p, "trials/1/log");
	cr_assert(memcmp(text, "0123456789\n0123", 15) == 0 && text[1000] == '\n');
	cr_assert_eq(strncmp(text + 1001, said, strlen(said)), 0, "%s", text + 980);
	cr_assert(!has(text, "the end") && strlen(text) < 1100);
	s.gang = 2; /* started again: nothing is added, also not the notice */
	start(&p, &s);
	expect(&p, ESPL__MSG_STARTED, 2);
	cr_assert_eq(ended(&p, 2).code[0], 0);
	more = slurp(&p, "trials/1/log");
	cr_assert_str_eq(more, text);
	free(more);
	s.gang = 3; /* it fails: the end is there, but no more */
	s.text =
	    "yes noise | head -c 300000; yes | head -c 20000; echo; echo why it failed; exit 4";
	start(&p, &s);
	expect(&p, ESPL__MSG_STARTED, 3);
	cr_assert_eq(ended(&p, 3).code[0], 4);
	more = slurp(&p, "trials/1/log");
	cr_assert_eq(strncmp(more, text, strlen(text)), 0);
	cr_assert(has(more + strlen(text), "espalier: 3") && has(more, " bytes were dropped;"));
	cr_assert(has(more, "\nwhy it failed\n") && !has(more, "noise"));
	cr_assert(strlen(more) < strlen(text) + 17000);
	free(more);
	free(text);
	s = (struct script){ .gang = 4, .trial = 4, .text = "yes | head -c 300000" }; /* none */
	start(&p, &s);
	expect(&p, ESPL__MSG_STARTED, 4);
	(void)ended(&p, 4);
	text = slurp(&p, "trials/4/log");
	cr_assert_eq(strlen(text), 300000);
	free(text);
	cr_assert_eq(close_agent(&p), 0);
}

#define ESCAPE \
	"env -i /bin/sh -c 'trap \"\" TERM HUP INT; echo $$ > escaped; setsid sh -c \"trap " \
	"\\\"\\\" TERM; " \
	"echo \\$\\$ > deeper; while :; do sleep 1; done\" & while :; do sleep 1; done' & "

Test(agent, last_line)
{
	static const struct {
		const char *text, *line;
	} cases[] = {
		{ "", "" },
		{ "\n\n \t\n", "" },
		{ "one", "one" },
		{ "one\ntwo\n", "two" },
		{ "one\n  \n\r\n", "one" },
		{ " 10%\r 20%\r 30% \n", "30%" },
		{ "\033[1;31mError\033[0m: x\033[K", "Error: x" },
		{ "a\tb\001c\177", "a b c" },
		{ "\377\303\251\303", "?\303\251?" },
		{ "\302\205x", "x" },
		{ "\033", "" },
		{ "\033[", "" },
		{ "\033[12", "" },
		{ "x\n\033[0m\n", "x" },
		{ "ValueError: x\n\r 40%|##  | 2/5 [00:01<?, ?it/s]\n", "ValueError: x" },
		{ "\r 20%|# | 1/5 [0s]\r 40%|## | 2/5 [1s]", "40%|## | 2/5 [1s]" },
	};
	char to[ESPL__LAST_LINE_MAX], longer[500];

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		espl__last_line(cases[i].text, strlen(cases[i].text), to, sizeof to);
		cr_expect_str_eq(to, cases[i].line, "%zu: '%s'", i, to);
	}
	memset(longer, 'x', sizeof longer);
	for (size_t cut = 190; cut < 205; cut++) { /* wherever a letter of two bytes falls */
		memset(longer, 'x', sizeof longer - 1);
		longer[sizeof longer - 1] = '\0';
		memcpy(longer + cut, "\303\251", 2);
		espl__last_line(longer, sizeof longer - 1, to, sizeof to);
		cr_expect(strlen(to) <= 200 && strlen(to) > 195, "%zu: %zu", cut, strlen(to));
		cr_expect_str_eq(to + strlen(to) - 3, "...");
		for (const char *p = to; *p != '\0';
		     p += espl__utf8_length((const unsigned char *)p))
			cr_assert_gt(espl__utf8_length((const unsigned char *)p), 0, "%zu", cut);
	}
}

Test(agent, kill_leaves_nothing)
{
	struct peer p;
	struct end e;

	open_agent(&p, "cpu:2", 0);
	/* The rank ignores SIGTERM and has children that hide: forked twice, own sessions. */
	start(&p,
	    &(struct script){ .gang = 1,
		.text =
		    "trap '' TERM; ( " ESCAPE " ) ; while [ ! -s deeper ]; do sleep 0.01; done; "
		    "echo ready >&3; while :; do sleep 1; done" });
	start(&p, &(struct script){ .gang = 2, .trial = 2, .text = "read r <&3" });
	for (int i = 0; i < 3; i++)
		(void)hear(&p); /* two STARTED, one LINE */
	two(&p, ESPL__MSG_KILL, 1, 30);
	e = ended(&p, 1);
	cr_assert_eq(e.code[0], -SIGKILL);
	cr_assert(is_gone(&p, "escaped") && is_gone(&p, "deeper"));
	/* The other gang is as well as before. */
	reply(&p, 2, "stop");
	e = ended(&p, 2);
	cr_assert_eq(e.code[0], 0);
	/* SIGTERM is a wish that is granted: saves, says so, exits 0 within the grace. */
	start(&p,
	    &(struct script){ .gang = 3,
		.trial = 3,
		.text = "trap 'echo t > $ESPALIER_SAVE/f; echo \"{\\\"saved\\\": 4}\" >&3; exit 0' "
			"TERM; echo ready >&3; while :; do sleep 0.01; done" });
	expect(&p, ESPL__MSG_STARTED, 3);
	expect_line(&p, 3, "ready");
	two(&p, ESPL__MSG_KILL, 3, 60000);
	expect(&p, ESPL__MSG_SAVED, 3);
	e = ended(&p, 3);
	cr_assert_eq(e.code[0], 0);
	/* Rank 0 is done; what it left behind goes with it. */
	start(&p,
	    &(struct script){ .gang = 4,
		.trial = 4,
		.text = "rm -f deeper; ( " ESCAPE
			" ) ; while [ ! -s deeper ]; do sleep 0.01; done; exit 0" });
	expect(&p, ESPL__MSG_STARTED, 4);
	e = ended(&p, 4);
	cr_assert_eq(e.code[0], 0);
	cr_assert(is_gone(&p, "escaped") && is_gone(&p, "deeper"));
	cr_assert_eq(close_agent(&p), 0);
}

static void
run_hidden(struct peer *p)
{
	start(p,
	    &(struct script){ .gang = 1,
		.world = 2,
		.text =
		    "[ $RANK = 0 ] || { trap '' TERM; while :; do sleep 1; done; }; trap '' TERM; "
		    "( " ESCAPE " ) ; echo $$ > rank; echo $PPID > above; while [ ! -s deeper ]; "
		    "do sleep 0.01; done; echo ready >&3; while :; do sleep 1; done" });
	expect(p, ESPL__MSG_STARTED, 1);
	expect_line(p, 1, "ready");
}

static void
forget_agent(struct peer *p)
{
	close(p->to);
	close(p->from);
	cr_assert_eq(espl__tree_remove(p->dir, NULL), ESPL_OK);
	espl__buf_free(&p->in);
}

Test(agent, its_end_is_the_end_of_all)
{
	struct peer p;
	int status;

	open_agent(&p, "cpu:2", 0); /* the driver is gone */
	run_hidden(&p);
	close(p.to);
	p.to = -1;
	cr_assert_eq(waitpid(p.pid, &status, 0), p.pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert(is_gone(&p, "rank") && is_gone(&p, "escaped") && is_gone(&p, "deeper"));
	close(p.from);
	cr_assert_eq(espl__tree_remove(p.dir, NULL), ESPL_OK);
	espl__buf_free(&p.in);

	open_agent(&p, "cpu:2", 0); /* the agent is killed */
	run_hidden(&p);
	kill(p.pid, SIGKILL);
	cr_assert_eq(waitpid(p.pid, &status, 0), p.pid);
	cr_assert(is_gone(&p, "rank") && is_gone(&p, "escaped") && is_gone(&p, "deeper"));
	forget_agent(&p);

	open_agent(&p, "cpu:2", 50); /* the driver hangs */
	run_hidden(&p);
	cr_assert_eq(waitpid(p.pid, &status, 0), p.pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	cr_assert(is_gone(&p, "rank") && is_gone(&p, "escaped") && is_gone(&p, "deeper"));
	forget_agent(&p);

	open_agent(&p, "cpu:2", 0); /* somebody kills the process above a rank */
	run_hidden(&p);
	{
		char *text = slurp(&p, "above");
		struct end e;

		kill((pid_t)strtol(text, NULL, 10), SIGKILL);
		free(text);
		two(&p, ESPL__MSG_KILL, 1, 20); /* rank 1 ignores SIGTERM */
		e = ended(&p, 1);
		cr_assert(e.rank[0] == 0 && e.code[0] == -SIGKILL && e.code[1] == -SIGKILL);
	}
	cr_assert(is_gone(&p, "rank") && is_gone(&p, "escaped") && is_gone(&p, "deeper"));
	cr_assert_eq(close_agent(&p), 0);
}

Test(agent, garbage_ends_its_gang_only)
{
	static const struct {
		const char *text, *why;
	} bad[] = {
		{ "head -c 1100000 /dev/zero | tr '\\0' x >&3", "longer than" },
		{ "printf 'a\\0b\\n' >&3", "binary" },
		{ "echo '{\"saved\": 1}' >&3", "contains no files" },
		{ "echo '{\"saved\": \"x\"}' >&3", "should be" },
		{ "echo '{\"saved\": 0}' >&3", "should be" },
		{ "mkfifo $ESPALIER_SAVE/p; echo '{\"saved\": 1}' >&3", "something else" },
		{ "echo x > $ESPALIER_SAVE/MANIFEST; echo '{\"saved\": 1}' >&3", "MANIFEST" },
		{ "mkdir away; echo x > away/f; rmdir $ESPALIER_SAVE; ln -s $PWD/away "
		  "$ESPALIER_SAVE; echo '{\"saved\": 1}' >&3",
		    "symbolic link" },
	};
	struct peer p;
	char why[600], script[200];

	open_agent(&p, "cpu:2", 0);
	start(&p,
	    &(struct script){ .gang = 99, .trial = 99, .text = "echo up >&3; read r <&3; exit 0" });
	expect(&p, ESPL__MSG_STARTED, 99);
	expect_line(&p, 99, "up");
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		uint64_t gang = 1 + i;

		snprintf(script, sizeof script, "%s; sleep 100", bad[i].text);
		start(&p,
		    &(struct script){ .gang = gang, .trial = gang, .text = script, .grace_ms = 1 });
		expect(&p, ESPL__MSG_STARTED, gang);
		expect(&p, ESPL__MSG_GARBAGE, gang);
		espl__get_str(&p.r, why, sizeof why);
		cr_assert(has(why, bad[i].why), "%s", why);
		cr_assert(ended(&p, gang).code[0] != 0);
	}
	cr_assert(exists(&p, "away/f") && !exists(&p, "away/MANIFEST"), "the link was followed");
	/* Lines are passed on whatever they say; an unfinished one at the end is none. */
	start(&p,
	    &(struct script){ .gang = 50,
		.trial = 50,
		.text = "printf 'not json\\n\\n\\nlast\\nunfinished' >&3" });
	expect(&p, ESPL__MSG_STARTED, 50);
	expect_line(&p, 50, "not json");
	expect_line(&p, 50, "last");
	cr_assert_eq(ended(&p, 50).code[0], 0);
	reply(&p, 99, "stop");
	cr_assert_eq(ended(&p, 99).code[0], 0);
	/* Garbage from the driver ends the agent, and what it runs. */
	start(&p, &(struct script){ .gang = 60, .trial = 60, .text = "sleep 1000" });
	expect(&p, ESPL__MSG_STARTED, 60);
	cr_assert_eq(espl__write_all(p.to, "\xff\xff\xff\xff\xff\xff\xff\xff\xff", 9), 0);
	cr_assert_eq(close_agent(&p), 2);
}

Test(agent, a_gang_lives_and_dies_together)
{
	struct peer p;
	struct end e;
	char *text, said[256];

	open_agent(&p, "GPU-aaa,GPU-bbb,GPU-ccc", 0);
	start(&p,
	    &(struct script){ .gang = 1,
		.world = 3,
		.text = "echo $RANK/$WORLD_SIZE >> ranks; [ -z \"$ESPALIER_REPORT_FD\" ] || echo "
			"up >&3; [ $RANK = 2 ] && echo ' no apples' && exit 3; while [ ! -e never "
			"]; do sleep 0.01; done" });
	do
		cr_assert((hear(&p),
		    p.type == ESPL__MSG_STARTED || p.type == ESPL__MSG_LINE ||
			p.type == ESPL__MSG_ENDED));
	while (p.type != ESPL__MSG_ENDED);
	(void)espl__get_v64(&p.r);
	(void)espl__get_u8(&p.r);
	cr_assert_eq(espl__get_u32(&p.r), 3);
	cr_assert_eq(espl__get_v64(&p.r), 2, "the rank that failed comes first");
	cr_assert_eq(espl__get_z64(&p.r), 3);
	for (int i = 0; i < 2; i++) {
		(void)espl__get_str(&p.r, said, sizeof said);
		(void)espl__get_v64(&p.r);
		(void)espl__get_z64(&p.r);
	}
	(void)espl__get_str(&p.r, said, sizeof said);
	espl__get_str(&p.r, said, sizeof said);
	cr_assert(!p.r.bad && p.r.at == p.r.end);
	cr_assert_str_eq(said, "no apples");
	text = slurp(&p, "ranks");
	cr_assert(has(text, "2/3"));
	free(text);
	/* Rank 0 is done; the other lingers, is ended after the grace, and is forgiven. */
	start(&p,
	    &(struct script){ .gang = 2,
		.world = 2,
		.grace_ms = 40,
		.text = "trap '' TERM; [ $RANK = 0 ] && exit 0; while :; do sleep 1; done" });
	expect(&p, ESPL__MSG_STARTED, 2);
	e = ended(&p, 2);
	cr_assert(e.code[0] == 0 && e.code[1] == 0);
	/* A port for a gang of several nodes. */
	{
		struct espl__buf b = { NULL, 0, 0 };

		espl__put_v64(&b, 3);
		espl__put_u64(&b, 0);
		say(&p, ESPL__MSG_RESERVE, &b);
		espl__buf_free(&b);
		expect(&p, ESPL__MSG_PORT, 3);
		cr_assert(espl__get_u32(&p.r) > 0);
	}
	say(&p, ESPL__MSG_PING, NULL);
	cr_assert_eq(hear(&p), ESPL__MSG_PONG);
	cr_assert_eq(close_agent(&p), 0);
}
