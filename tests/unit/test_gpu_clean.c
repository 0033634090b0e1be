/* test_gpu_clean.c - what NVML sees of GPUs, and that a GPU is clean before the next trial gets it.
 */
#include "gpu_rig.h"

/* ---- NVML ---------------------------------------------------------------------------------- */

Test(nvml, lists_gpus_by_place_or_says_why_not)
{
	struct espl__nvml_gpu gpus[4];
	struct site s;
	const char *why;

	prepare(&s, NULL, "1s");
	setenv("ESPALIER_NVML", "/nowhere/libnvml.so", 1);
	cr_assert_eq(espl__nvml_list(gpus, 4, &why), 0);
	cr_assert(has(why, "ESPALIER_NVML"));
	setenv("ESPALIER_NVML", "libm.so.6", 1);
	cr_assert_eq(espl__nvml_list(gpus, 4, &why), 0);
	cr_assert(has(why, "lacks"));
	setenv("ESPALIER_NVML", build(".libs/fake_nvml.so"), 1);
	set_nvml(&s, "gpu GPU-0 81920 0 09\ngpu GPU-1 81920 0 lost\ngpu GPU-2 81920 0 03\n");
	cr_assert_eq(espl__nvml_list(gpus, 4, &why), 2, "%s", why);
	cr_assert_str_eq(gpus[0].uuid, "GPU-2");
	cr_assert_str_eq(gpus[1].uuid, "GPU-0");
	cr_assert_eq(gpus[0].memory_bytes, 80ull << 30);
	cr_assert_eq(espl__nvml_list(gpus, 1, &why), 1);
	set_nvml(&s, "broken\n");
	cr_assert_eq(espl__nvml_list(gpus, 4, &why), 0);
	cr_assert(has(why, "driver"));
	cr_assert_eq(espl__tree_remove(s.folder, NULL), ESPL_OK);
}

Test(nvml, looks_at_one_gpu)
{
	struct espl__gpu_look l;
	struct site s;
	const char *why = "";
	char text[4000];
	int at;

	prepare(&s, NULL, "1s");
	set_nvml(&s, "broken\n");
	cr_assert_eq(espl__nvml_look(AAA, &l, &why), -1);
	at = snprintf(text, sizeof text,
	    "%sprocess " BBB " %d 100\nprocess " BBB " 999999999 70\nprocess " BBB " %d ?30\n", TWO,
	    (int)getpid(), (int)getppid());
	set_nvml(&s, text);
	cr_assert_eq(espl__nvml_look(BBB, &l, &why), 0, "%s", why);
	cr_assert(l.users_known && l.count == 2 && l.total == 81920 * MIB && l.used == 630 * MIB);
	cr_assert(l.users[0].pid == getpid() && l.users[0].bytes == 100 * MIB);
	cr_assert(l.users[1].pid == getppid() && l.users[1].bytes == ESPL__BYTES_UNKNOWN);
	free(l.users);
	for (int i = 0; i < 50; i++) /* more than are asked for at first */
		at += snprintf(text + at, sizeof text - (size_t)at, "process " AAA " %d 1\n",
		    (int)getpid());
	set_nvml(&s, text);
	cr_assert_eq(espl__nvml_look(AAA, &l, &why), 0, "%s", why);
	cr_assert(l.count == 50 && l.users[49].bytes == MIB);
	free(l.users);
	set_nvml(&s, TWO "old\n");
	cr_assert_eq(espl__nvml_look(AAA, &l, &why), 0, "%s", why);
	cr_assert(!l.users_known && l.count == 0 && l.used == 500 * MIB);
	cr_assert_eq(espl__nvml_look("GPU-ccc", &l, &why), -1);
	cr_assert(has(why, "find"));
	set_nvml(&s, "gpu " AAA " 81920 500 lost\n");
	cr_assert_eq(espl__nvml_look(AAA, &l, &why), -1);
	cr_assert(has(why, "memory"));
	espl__nvml_close();
	cr_assert_eq(espl__tree_remove(s.folder, NULL), ESPL_OK);
}

/* ---- judging ------------------------------------------------------------------------------- */

Test(gpu, clean_or_not)
{
	static const struct {
		uint64_t total, used, strangers;
		uint32_t ours, vague;
		uint64_t level, before;
		enum espl__verdict verdict;
	} cases[] = {
		{ 81920, 500, 0, 0, 0, 500, 0, ESPL__CLEAN },
		/* a little is the driver's */
		{ 81920, 800, 0, 0, 0, 500, 0, ESPL__CLEAN },
		{ 81920, 900, 0, 0, 0, 500, 0, ESPL__MEMORY_LEFT },
		{ 8192, 600, 0, 0, 0, 500, 0, ESPL__MEMORY_LEFT }, /* less on a small one */
		{ 81920, 500, 0, 1, 0, 500, 0, ESPL__PROCESSES_LEFT },
		{ 81920, 5500, 5000, 0, 0, 500, 0, ESPL__CLEAN }, /* somebody came */
		{ 81920, 7500, 5000, 0, 0, 500, 0, ESPL__MEMORY_LEFT },
		/* who was there before */
		{ 81920, 5500, 5000, 0, 0, 500, 5000, ESPL__MEMORY_LEFT },
		{ 81920, 5500, 0, 0, 1, 500, 0, ESPL__CLEAN },  /* not told how much */
		{ 81920, 100, 0, 0, 0, 500, 300, ESPL__CLEAN }, /* somebody left */
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct espl__seen s = { cases[i].used * MIB, cases[i].total * MIB,
			cases[i].strangers * MIB, cases[i].ours, cases[i].vague };

		cr_expect_eq(espl__seen_judge(&s, cases[i].level * MIB, cases[i].before * MIB),
		    cases[i].verdict, "%zu", i);
	}
}

Test(gpu, answers_of_the_daemon)
{
	static const struct {
		const char *text;
		pid_t known, server;
		int seen;
		enum espl__mps_status status;
	} cases[] = {
		{ "", 0, 0, 0, ESPL__MPS_SILENT },
		{ "\n\n", 7, 0, 0, ESPL__MPS_SILENT },
		{ "1234\n", 0, 1234, 0, ESPL__MPS_SILENT },
		{ "1234\n1235\n", 1235, 1235, 1, ESPL__MPS_SILENT },
		{ "1234\nACTIVE\n", 1234, 1234, 1, ESPL__MPS_ACTIVE },
		{ "1234\r\nServer status: FAULT\r\n", 1234, 1234, 1, ESPL__MPS_FAULT },
		{ "99\nINITIALIZING", 1234, 99, 0, ESPL__MPS_COMING },
		{ "12 servers\n-5\n0\n99999999x\n", 12, 0, 0, ESPL__MPS_SILENT },
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct espl__mps_answer a;

		espl__mps_read(cases[i].text, cases[i].known, &a);
		cr_expect(a.server == cases[i].server && a.seen == cases[i].seen &&
			a.status == cases[i].status,
		    "%zu", i);
	}
}

/* ---- clean --------------------------------------------------------------------------------- */

static void
alone(struct site *s, uint64_t gang, uint64_t trial, uint32_t gpu)
{
	start(&s->p,
	    &(struct script){ .gang = gang,
		.trial = trial,
		.device_gpu = 1,
		.gpu = gpu,
		.text = CLIENT });
}

Test(clean, the_next_trial_waits_until_memory_is_back)
{
	struct site s;
	struct pollfd quiet;

	prepare(&s, NULL, "20s");
	go(&s);
	alone(&s, 1, 1, 0);
	up(&s, 1);
	set_nvml(&s, "gpu " AAA " 81920 9000 03\ngpu " BBB " 81920 500 09\n");
	(void)finish(&s, 1, 1);
	alone(&s, 2, 2, 0);
	quiet = (struct pollfd){ .fd = s.p.from, .events = POLLIN };
	cr_assert_eq(poll(&quiet, 1, 700), 0, "it did not wait");
	set_nvml(&s, TWO);
	up(&s, 2);
	(void)finish(&s, 2, 2);
	leave(&s);
}

Test(clean, a_gpu_that_does_not_come_clean_is_set_aside)
{
	struct site s;
	struct end e;

	prepare(&s, NULL, "300ms");
	go(&s);
	alone(&s, 1, 1, 0);
	up(&s, 1);
	set_nvml(&s, "gpu " AAA " 81920 9000 03\ngpu " BBB " 81920 500 09\n");
	(void)finish(&s, 1, 1);
	alone(&s, 2, 2, 0);
	e = ended(&s.p, 2);
	cr_assert(has(e.text[0], "gpu: GPU 0 of the node is set aside: 8500 MiB more are in use"),
	    "%s", e.text[0]);
	cr_assert_eq(count(news(&s), "4 0 0 8500 MiB more"), 1, "%s", news(&s));
	cr_assert(has(logs(&s), "(" AAA ") is set aside"), "%s", logs(&s));
	alone(&s, 3, 3, 0); /* for ever */
	cr_assert(has(ended(&s.p, 3).text[0], "is set aside"));
	alone(&s, 4, 4, 1); /* the other is as good as before */
	up(&s, 4);
	(void)finish(&s, 4, 4);
	leave(&s);
}

/* Processes of others are no reason; one of a living trial is told; one of ours that nobody owns
 * any more is ended: here the daemon of another GPU, which has no business on this one. */
Test(clean, whose_processes_are_there)
{
	struct site s;
	char text[1000], pipe[200];
	pid_t daemon;

	prepare(&s, "", "300ms");
	go(&s);
	alone(&s, 1, 1, 0);
	up(&s, 1);
	start(&s.p,
	    &(struct script){ .gang = 2,
		.trial = 2,
		.device_gpu = 1,
		.gpu = 1,
		.packing = 2,
		.text = CLIENT });
	up(&s, 2);
	snprintf(pipe, sizeof pipe, "%s", line_of(&s, "env.2", "CUDA_MPS_PIPE_DIRECTORY"));
	daemon = read_pid(pipe);
	/* Of this test program and of the other trial. */
	snprintf(text, sizeof text, "%sprocess " AAA " %d 4000\nprocess " AAA " @%s/pid.2 3000\n",
	    TWO, (int)getpid(), s.p.dir);
	set_nvml(&s, text);
	(void)finish(&s, 1, 1);
	alone(&s, 3, 3, 0);
	up(&s, 3);
	cr_assert(has(logs(&s), "which does not belong to a trial, also uses it"), "%s", logs(&s));
	snprintf(text, sizeof text, "%sprocess " AAA " %d 100\n", TWO, (int)daemon);
	set_nvml(&s, text);
	(void)finish(&s, 3, 3);
	alone(&s, 4, 4, 0);
	for (int k = 0, gone = 0; k < 3; k++) { /* its end, a start, a line, in some order */
		uint8_t got = hear(&s.p);

		gone += got == ESPL__MSG_ENDED;
		cr_assert(
		    got == ESPL__MSG_ENDED || got == ESPL__MSG_STARTED || got == ESPL__MSG_LINE);
		cr_assert(k < 2 || gone == 1);
	}
	cr_assert(has(logs(&s), "GPU 1: its MPS daemon does not answer; 1 trial goes back"), "%s",
	    logs(&s));
	wait_gone(daemon);
	snprintf(text, sizeof text, "GPU 0: process %d (", (int)daemon);
	cr_assert(has(logs(&s), text) && has(logs(&s), "killing it") &&
		has(logs(&s), "GPU 0 is clean now"),
	    "%s", logs(&s));
	leave(&s);
}

Test(clean, without_nvml_it_is_said)
{
	struct site s;

	prepare(&s, NULL, "5s");
	setenv("ESPALIER_NVML", "/nowhere/libnvml.so", 1);
	go(&s);
	for (uint64_t k = 1; k <= 2; k++) {
		alone(&s, k, k, 0);
		up(&s, k);
		(void)finish(&s, k, k);
	}
	cr_assert_eq(count(logs(&s), "cannot verify that it is clean"), 1, "%s", logs(&s));
	leave(&s);
}

Test(clean, memory_in_use_is_told)
{
	struct site s;
	char text[1000];

	prepare(&s, "", "5s");
	go(&s);
	alone(&s, 1, 1, 0);
	up(&s, 1);
	share(&s, 2, 2, 1); /* on the same GPU, as a driver would never do */
	up(&s, 2);
	snprintf(text, sizeof text,
	    "%sprocess " AAA " @%s/pid.1 3000\nprocess " AAA " @%s/pid.2 77\nprocess " AAA
	    " %d 5000\n",
	    TWO, s.p.dir, s.p.dir, (int)getpid());
	set_nvml(&s, text);
	for (int i = 0;
	     i < 200 && (!has(news(&s), "2 1 3145728000 ") || !has(news(&s), "2 2 80740352 "));
	     i++) {
		struct espl__buf b = { NULL, 0, 0 };

		say(&s.p, ESPL__MSG_PING, &b);
		cr_assert_eq(hear(&s.p), ESPL__MSG_PONG);
		poll(NULL, 0, 50);
	}
	cr_assert(has(news(&s), "2 1 3145728000 ") && has(news(&s), "2 2 80740352 "), "%s",
	    news(&s));
	leave(&s);
}
