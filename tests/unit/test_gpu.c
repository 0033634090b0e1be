/* test_gpu.c - GPUs that trials share, by MPS and without; what becomes of them when MPS fails;
 * that nothing of it is left.
 */
#include "gpu_rig.h"

/* ---- sharing ------------------------------------------------------------------------------- */

Test(share, by_mps_with_a_daemon_of_its_own)
{
	struct site s;
	char pipe[200], path[300];

	prepare(&s, "", "5s");
	go(&s);
	share(&s, 1, 11, 4);
	up(&s, 1);
	snprintf(pipe, sizeof pipe, "%s", line_of(&s, "env.11", "CUDA_MPS_PIPE_DIRECTORY"));
	cr_assert_eq(strncmp(pipe, s.tmp, strlen(s.tmp)), 0, "%s", pipe);
	snprintf(path, sizeof path, "%s/nvidia-cuda-mps-control.pid", pipe);
	cr_assert_eq(access(path, R_OK), 0);
	cr_assert_str_eq(line_of(&s, "env.11", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "25");
	cr_assert_str_eq(line_of(&s, "env.11", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=19968M");
	cr_assert_str_eq(line_of(&s, "env.11", "CUDA_VISIBLE_DEVICES"), AAA);
	cr_assert_str_eq(line_of(&s, "env.11", "ESPALIER_SHARING"), "mps");
	cr_assert_str_eq(line_of(&s, "env.11", "XLA_PYTHON_CLIENT_PREALLOCATE"), "false");
	share(&s, 2, 12, 4); /* the same daemon serves the next */
	up(&s, 2);
	cr_assert_str_eq(line_of(&s, "env.12", "CUDA_MPS_PIPE_DIRECTORY"), pipe);
	/* Another GPU has another daemon, and a trial that shares with nobody has none. */
	start(&s.p,
	    &(struct script){ .gang = 3,
		.trial = 13,
		.packing = 3,
		.device_gpu = 1,
		.gpu = 1,
		.text = CLIENT });
	up(&s, 3);
	cr_assert_neq(strcmp(line_of(&s, "env.13", "CUDA_MPS_PIPE_DIRECTORY"), pipe), 0);
	cr_assert_str_eq(line_of(&s, "env.13", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "34");
	cr_assert_eq(finish(&s, 3, 13).code[0], 0);
	start(&s.p,
	    &(struct script){ .gang = 4, .trial = 14, .device_gpu = 1, .gpu = 1, .text = CLIENT });
	up(&s, 4);
	cr_assert_str_eq(line_of(&s, "env.14", "ESPALIER_SHARING"), "exclusive");
	cr_assert_str_eq(line_of(&s, "env.14", "CUDA_MPS_PIPE_DIRECTORY"), "");
	for (uint64_t k = 1; k <= 2; k++)
		cr_assert_eq(finish(&s, k, 10 + k).code[0], 0);
	for (int i = 0; i < 500 && access(pipe, F_OK) == 0; i++) /* the last has left */
		poll(NULL, 0, 20);
	cr_assert_neq(access(pipe, F_OK), 0, "its folder is still there");
	cr_assert_eq(count(news(&s), "1 1 1 \n"), 1, "%s", news(&s));
	cr_assert_eq(count(logs(&s), "shares it by MPS"), 2, "%s", logs(&s));
	cr_assert_eq(finish(&s, 4, 14).code[0], 0);
	leave(&s);
}

/* Where MPS is not to be had, the reason is told; if it must be MPS, the trial does not start. */
static void
without(const char *mps, const char *why)
{
	struct site s;
	struct end e;

	prepare(&s, mps, "5s");
	go(&s);
	share(&s, 1, 1, 2);
	up(&s, 1);
	cr_assert_str_eq(line_of(&s, "env.1", "ESPALIER_SHARING"), "timeslice");
	cr_assert_str_eq(line_of(&s, "env.1", "CUDA_MPS_PIPE_DIRECTORY"), "");
	cr_assert(has(news(&s), "1 1 2 ") && has(news(&s), why), "%s: %s", why, news(&s));
	cr_assert(has(logs(&s), "time slicing") && has(logs(&s), why), "%s: %s", why, logs(&s));
	start(&s.p,
	    &(struct script){ .gang = 2,
		.trial = 2,
		.packing = 2,
		.device_gpu = 1,
		.sharing = ESPL__SHARE_MPS,
		.text = CLIENT });
	e = ended(&s.p, 2);
	cr_assert(e.code[0] == 127 && strncmp(e.text[0], "sharing: ", 9) == 0 &&
		has(e.text[0], why),
	    "%s", e.text[0]);
	cr_assert_eq(finish(&s, 1, 1).code[0], 0);
	leave(&s);
}

Test(share, no_program)
{
	without(NULL, "not found in PATH");
}
Test(share, program_fails)
{
	without("refuse", "MPS is not supported on this machine");
}
Test(share, daemon_is_mute)
{
	without("mute", "its daemon does not answer");
}

Test(share, by_time_slicing_if_that_is_wanted)
{
	struct site s;

	prepare(&s, "", "5s");
	go(&s);
	start(&s.p,
	    &(struct script){ .gang = 1,
		.trial = 1,
		.packing = 2,
		.device_gpu = 1,
		.sharing = ESPL__SHARE_TIMESLICE,
		.text = CLIENT });
	up(&s, 1);
	cr_assert_str_eq(line_of(&s, "env.1", "ESPALIER_SHARING"), "timeslice");
	cr_assert(has(news(&s), "1 1 2 set by trial.sharing"), "%s", news(&s));
	(void)finish(&s, 1, 1);
	leave(&s);
}

Test(share, a_daemon_that_does_not_quit_is_ended)
{
	struct site s;

	prepare(&s, "stubborn", "5s");
	go(&s);
	share(&s, 1, 1, 2);
	up(&s, 1);
	(void)finish(&s, 1, 1);
	/* A trial that wants the GPU for itself waits until the other has gone. */
	start(&s.p, &(struct script){ .gang = 2, .trial = 2, .device_gpu = 1, .text = CLIENT });
	up(&s, 2);
	(void)finish(&s, 2, 2);
	leave(&s);
}

Test(share, what_is_called_off_while_it_waits)
{
	struct site s;
	struct end e;

	prepare(&s, "empty", "5s"); /* no server comes */
	go(&s);
	share(&s, 1, 1, 2);
	share(&s, 2, 2, 2);
	two(&s.p, ESPL__MSG_KILL, 1, 100);
	e = ended(&s.p, 1);
	cr_assert_eq(e.code[0], -SIGKILL);
	leave(&s); /* the other goes with the agent */
}

/* ---- faults -------------------------------------------------------------------------------- */

/* Two share; one of them does what is fatal to all.  Both go back, without blame, and come again
 * without MPS; when they have ended well they share as before. */
static void
fault(const char *how)
{
	struct site s;
	struct end e;
	char path[200];

	prepare(&s, how, "5s");
	go(&s);
	share(&s, 1, 11, 2);
	up(&s, 1);
	share(&s, 2, 12, 2);
	up(&s, 2);
	touch(&s, "crash.11");
	for (int k = 0; k < 2; k++) {
		cr_assert_eq(hear(&s.p), ESPL__MSG_ENDED);
		(void)espl__get_v64(&s.p.r);
		(void)espl__get_u8(&s.p.r);
		cr_assert_eq(espl__get_u32(&s.p.r), 1);
		(void)espl__get_v64(&s.p.r);
		(void)espl__get_z64(&s.p.r);
		espl__get_str(&s.p.r, e.text[0], sizeof e.text[0]);
		cr_assert_eq(strncmp(e.text[0], "gpu: GPU 0 of the node: ", 24), 0, "'%s' %s",
		    e.text[0], logs(&s));
	}
	cr_assert_eq(count(news(&s), "3 0 0 "), 1, "%s", news(&s));
	share(&s, 3, 11, 2);
	share(&s, 4, 13, 2); /* who was not there has MPS, with a new daemon */
	for (int k = 0; k < 4; k++)
		(void)hear(&s.p);
	cr_assert_str_eq(line_of(&s, "env.11", "ESPALIER_SHARING"), "timeslice");
	cr_assert_str_eq(line_of(&s, "env.13", "ESPALIER_SHARING"), "mps");
	cr_assert(has(news(&s), "1 3 2 it was running when MPS failed"), "%s", news(&s));
	cr_assert_eq(finish(&s, 3, 11).code[0], 0);
	snprintf(path, sizeof path, "%s/end.11", s.p.dir);
	cr_assert_eq(unlink(path), 0);
	share(&s, 5, 11, 2);
	up(&s, 5);
	cr_assert_str_eq(line_of(&s, "env.11", "ESPALIER_SHARING"), "mps");
	leave(&s);
}

Test(fault, the_server_is_in_fault)
{
	fault("");
}
Test(fault, the_server_dies)
{
	fault("dies");
}
Test(fault, the_daemon_dies)
{
	fault("all");
}

Test(fault, of_one_trial_is_its_own)
{
	struct site s;
	struct end e;

	prepare(&s, "", "5s");
	go(&s);
	share(&s, 1, 11, 2);
	up(&s, 1);
	share(&s, 2, 12, 2);
	up(&s, 2);
	touch(&s, "fail.12");
	e = ended(&s.p, 2);
	cr_assert(e.code[0] == 5 && e.text[0][0] == '\0', "%d '%s'", (int)e.code[0], e.text[0]);
	cr_assert_eq(count(news(&s), "\n3 "), 0, "%s", news(&s));
	cr_assert_eq(finish(&s, 1, 11).code[0], 0);
	leave(&s);
}

/* The third time that MPS fails, with no good end between, it is not tried again. */
Test(fault, again_and_again)
{
	struct site s;

	prepare(&s, "dies", "5s");
	go(&s);
	for (uint64_t k = 1; k <= 3; k++) {
		char name[20];

		share(&s, k, k, 2);
		up(&s, k);
		snprintf(name, sizeof name, "crash.%d", (int)k);
		touch(&s, name);
		cr_assert_eq(strncmp(ended(&s.p, k).text[0], "gpu: ", 5), 0);
	}
	share(&s, 4, 4, 2);
	up(&s, 4);
	cr_assert_str_eq(line_of(&s, "env.4", "ESPALIER_SHARING"), "timeslice");
	cr_assert(has(news(&s), "1 4 2 it failed 3 times"), "%s", news(&s));
	(void)finish(&s, 4, 4);
	leave(&s);
}

/* ---- nothing is left ----------------------------------------------------------------------- */

Test(left, an_agent_that_is_killed_takes_the_daemon_along)
{
	struct site s;
	char pipe[200];
	pid_t daemon;
	int status;

	prepare(&s, "", "5s");
	go(&s);
	share(&s, 1, 1, 2);
	up(&s, 1);
	snprintf(pipe, sizeof pipe, "%s", line_of(&s, "env.1", "CUDA_MPS_PIPE_DIRECTORY"));
	daemon = read_pid(pipe);
	cr_assert_eq(kill(s.p.pid, SIGKILL), 0);
	cr_assert_eq(waitpid(s.p.pid, &status, 0), s.p.pid);
	wait_gone(daemon);
	bury(&s);
	go(&s); /* the next one removes the folder */
	share(&s, 1, 1, 2);
	up(&s, 1);
	cr_assert_neq(access(pipe, F_OK), 0);
	leave(&s);
}

/* Also the process above the daemon is killed: then nobody ends it at once, but the next agent. */
Test(left, what_lost_everybody_is_found_by_the_next)
{
	struct site s;
	char pipe[200];
	pid_t daemon, above;
	int status;

	prepare(&s, "", "5s");
	go(&s);
	share(&s, 1, 1, 2);
	up(&s, 1);
	snprintf(pipe, sizeof pipe, "%s", line_of(&s, "env.1", "CUDA_MPS_PIPE_DIRECTORY"));
	daemon = read_pid(pipe);
	cr_assert_neq(state_of(daemon, &above), 'X');
	cr_assert(above > 1 && above != s.p.pid);
	cr_assert_eq(kill(s.p.pid, SIGSTOP), 0);
	cr_assert_eq(kill(above, SIGKILL), 0);
	cr_assert_eq(kill(s.p.pid, SIGKILL), 0);
	cr_assert_eq(waitpid(s.p.pid, &status, 0), s.p.pid);
	cr_assert(is_gone(&s.p, "pid.1"));
	cr_assert_eq(kill(daemon, 0), 0, "it should have been left");
	bury(&s);
	go(&s);
	share(&s, 1, 1, 2);
	up(&s, 1);
	cr_assert(has(logs(&s), "left by a dead agent"), "%s", logs(&s));
	wait_gone(daemon);
	cr_assert_neq(access(pipe, F_OK), 0);
	leave(&s);
}
