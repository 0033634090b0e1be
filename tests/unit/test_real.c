/* test_real.c - whole runs in the real world: shell scripts as trials, on the cloud `local`.
 *
 * Each test has a folder of its own with a configuration, a trial and a run.  What is asserted is
 * what a user would see: how trials end and why, that a killed run goes on to the same result,
 * and that no process is left.  Nothing is asserted about how long anything takes.
 */
#include <fcntl.h>
#include <sys/prctl.h>
#include <time.h>

#include "test_real.h"

Test(real, a_search_runs_to_its_end_and_resuming_it_changes_nothing)
{
	struct bench b;
	struct espl__exec_summary first;

	begin(&b, good_trial, "checkpoint = true; gpus_max = 1;", SHA9 LOCAL(2, 2));
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	first = b.summary;
	cr_assert_eq(first.how, ESPL__RUN_DONE);
	cr_assert_eq(first.trials, 9);
	cr_assert_eq(first.failed, 0);
	cr_assert_eq(first.best_iteration, 9);
	cr_assert_eq(first.nodes_peak, 2);
	cr_assert_eq(first.nodes_leaked, 0);
	cr_assert_eq(b.reports, 21); /* 9 + 3 * 2 + 6: nothing was trained twice */
	cr_assert_eq(drive(&b, 1), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.best, first.best);
	cr_assert_eq(b.summary.best_loss, first.best_loss);
	cr_assert_eq(b.summary.now, first.now);
	b.drive.seed++;
	cr_assert_eq(drive(&b, 1), ESPL_E_CONFIG);
	b.drive.seed--;
	b.inputs.config->trial.gpus_min++; /* another configuration than the journal's */
	cr_assert_eq(drive(&b, 1), ESPL_E_CONFIG);
	cr_assert_neq(b.diag.hint[0], '\0');
	cr_assert_eq(drive(&b, 0), ESPL_E_REMOTE); /* a folder that has a run already */
	finish(&b);
}

Test(real, a_killed_driver_leaves_nothing_and_its_run_goes_on_to_the_same_end)
{
	struct bench b, whole;
	int status, i;
	pid_t pid;

	begin(&whole, good_trial, "checkpoint = true; gpus_max = 1;", SHA9 LOCAL(2, 2));
	cr_assert_eq(drive(&whole, 0), ESPL_OK, "%s", whole.diag.text);
	begin(&b, good_trial, "checkpoint = true; gpus_max = 1;", SHA9 LOCAL(2, 2));
	cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0),
	    0); /* so that we see what it leaves */
	b.on_report = die;
	for (i = 0; i < 2; i++) {
		die_at = i == 0 ? 6 : 13;
		pid = fork();
		cr_assert(pid >= 0);
		if (pid == 0)
			_exit(drive(&b, i > 0) == ESPL_OK ? 0 : 1);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		while (waitpid(-1, &status, 0) >
		    0) /* its agents end by themselves, and all of theirs */
			continue;
	}
	b.on_report = NULL;
	cr_assert_eq(drive(&b, 1), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.how, ESPL__RUN_DONE);
	cr_assert_eq(b.summary.best, whole.summary.best);
	cr_assert_eq(b.summary.best_loss, whole.summary.best_loss);
	cr_assert_eq(b.summary.reports, whole.summary.reports);
	finish(&b);
	finish(&whole);
}

static void
stop_softly(struct bench *b)
{
	if (b->reports == 4)
		b->interrupt = 1;
}

Test(real, a_stopped_run_goes_on_where_it_was)
{
	struct bench b;

	begin(&b, good_trial, "checkpoint = true; gpus_max = 1;", SHA9 LOCAL(1, 2));
	b.on_report = stop_softly;
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.how, ESPL__RUN_INTERRUPTED);
	cr_assert_eq(children_left(), 0);
	b.interrupt = 0;
	b.on_report = NULL;
	cr_assert_eq(drive(&b, 1), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.how, ESPL__RUN_DONE);
	cr_assert_eq(b.summary.reports, 21);
	cr_assert_eq(b.summary.best_iteration, 9);
	finish(&b);
}

static void
kill_at_once(struct bench *b)
{
	b->interrupt = 2;
}

Test(real, what_ignores_every_signal_is_gone_after_the_second_interrupt)
{
	struct bench b;

	begin(&b,
	    "trap '' TERM INT HUP\n"
	    "(trap '' TERM; exec setsid sleep 1000) &\n"
	    "echo '{\"iteration\": 1, \"metrics\": {\"loss\": 1}}' >&$ESPALIER_REPORT_FD\n"
	    "while :; do sleep 1000; done\n",
	    "gpus_max = 1;", ONE(5));
	b.on_report = kill_at_once;
	cr_assert_eq(drive(&b, 0), ESPL_E_LIMIT);
	cr_assert_str_eq(b.diag.text,
	    "interrupted for the second time; everything was killed at once");
	cr_assert_neq(b.diag.hint[0], '\0');
	finish(&b);
}

/* One trial of one script, no retries: what the user reads of its end. */
static void
ends_with(const char *script, const char *text)
{
	struct bench b;

	begin(&b, script, "gpus_max = 1; retries = 0; checkpoint = false;", ONE(9));
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_str_eq(b.ended, text);
	finish(&b);
}

#define SAY(json_) "echo '" json_ "' >&$ESPALIER_REPORT_FD; read -r said <&$ESPALIER_REPORT_FD;"

Test(real, a_trial_that_breaks_the_rules_is_ended_with_the_reason)
{
	ends_with("exit 3", "rank 0: exit status 3");
	ends_with("kill -SEGV $$", "rank 0: killed by signal 11");
	ends_with(SAY("{\"iteration\": 1, \"metrics\": {\"loss\": 2}}")
		      SAY("{\"iteration\": 2, \"metrics\": {\"loss\": 2}}"),
	    "exited at iteration 2 of 9 without being asked to stop");
	ends_with("printf 'not\\tJSON\\n' >&$ESPALIER_REPORT_FD; sleep 1000",
	    "rank 0: its report is not valid JSON: not?JSON");
	ends_with(SAY("{\"iteration\": 1, \"metrics\": {\"loss\": \"high\"}}"),
	    "rank 0: the metric 'loss' in its report is not a number: {\"iteration\": 1, "
	    "\"metrics\": "
	    "{\"loss\": \"high\"}}");
}

Test(real, what_a_trial_may_say)
{
	struct bench b;

	/* NaN and infinity as Python writes them; an iteration twice; {"finished": true}; strings.
	 */
	begin(&b,
	    SAY("{\"iteration\": 1, \"metrics\": {\"loss\": NaN, \"a\": -Infinity, \"In\": "
		"Infinity}}")
		SAY("{\"iteration\": 1, \"metrics\": {\"loss\": 5}}") "[ \"$said\" = continue ] || "
								      "exit 4;" SAY(
									  "{\"iteration"
									  "\": 2, \"metrics\":"
									  " {\"loss\": 4, \"a\": "
									  "\"nan\"}, \"note\": "
									  "\"NaN\"}")
									  SAY("{\"itera"
									      "tion\": 3, \"metric"
									      "s\": {\"loss"
									      "\": 3}, \"finish"
									      "ed\": true}"),
	    "gpus_max = 1; retries = 0; checkpoint = false;", ONE(9));
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_str_eq(b.ended, "");
	cr_assert_eq(b.summary.finished, 1);
	cr_assert_eq(b.summary.reports, 3);
	cr_assert_eq(b.summary.best_loss, 3.0);
	finish(&b);
	/* It ignores the request to stop: it is killed after the grace period, and its training
	 * counts.
	 */
	begin(&b,
	    SAY("{\"iteration\": 1, \"metrics\": {\"loss\": 5}}") "while :; do sleep 1000; done\n",
	    "gpus_max = 1; retries = 0; checkpoint = false;", ONE(1));
	b.inputs.config->trial.grace = ESPL_SECOND / 10;
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.finished, 1);
	finish(&b);
	/* Reports that did not wait for their answers still count when their program is gone. */
	begin(&b,
	    "for i in 1 2 3; do echo '{\"iteration\": '$i', \"metrics\": {\"loss\": '$i'}}'; done "
	    ">&$ESPALIER_REPORT_FD\n",
	    "gpus_max = 1; retries = 0; checkpoint = false;", ONE(3));
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.finished, 1);
	cr_assert_eq(b.summary.reports, 3);
	finish(&b);
}

Test(real, a_gang_on_two_nodes_starts_and_ends_as_one)
{
	static const char script[] = "if [ $RANK -gt 0 ]; then\n"
				     "  [ $MASTER_PORT -gt 0 ] && [ $WORLD_SIZE = 4 ] || exit 5\n"
				     "  [ ! -e fail ] || [ $RANK != 3 ] || exit 8\n"
				     "  while [ ! -e over ]; do sleep 0.05; done; exit 0\n"
				     "fi\n"
				     "i=0; while :; do i=$((i+1)); echo '{\"iteration\": '$i', "
				     "\"metrics\": {\"loss\": 1}}' >&$ESPALIER_REPORT_FD\n"
				     "read -r said <&$ESPALIER_REPORT_FD; [ \"$said\" = continue ] "
				     "|| break; [ ! -e fail ] || sleep 0.1; done\n"
				     ": > over\n";
	struct bench b;

	begin(&b, script, "gpus_min = 4; gpus_max = 4; retries = 0; checkpoint = false;",
	    "algorithm = { use = \"random\"; trials = 1; iterations_max = 5; };\n" LOCAL(2, 2));
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.finished, 1, "%s", b.ended);
	cr_assert_eq(b.gangs, 1);
	finish(&b);
	begin(&b, script, "gpus_min = 4; gpus_max = 4; retries = 0; checkpoint = false;",
	    "algorithm = { use = \"random\"; trials = 1; iterations_max = 100000; };\n" LOCAL(2,
		2));
	put(&b, "fail", "");
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_str_eq(b.ended, "rank 3: exit status 8");
	finish(&b);
}

/* The first child of this process that is an agent. */
static void
kill_an_agent(struct bench *b)
{
	char text[64], path[64];
	FILE *file;
	pid_t pid;

	if (b->reports != 3)
		return;
	for (pid = getpid() + 1; pid < getpid() + 5000; pid++) {
		int parent = 0;

		snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
		file = fopen(path, "r");
		if (file == NULL)
			continue;
		if (fscanf(file, "%*d (%63[^)]) %*c %d", text, &parent) == 2 &&
		    parent == (int)getpid()) {
			fclose(file);
			kill(pid, SIGKILL);
			return;
		}
		fclose(file);
	}
}

Test(real, a_lost_agent_costs_its_gangs_no_failure)
{
	struct bench b;

	begin(&b, good_trial,
	    "checkpoint = true; gpus_max = 1; retries = 0; env = { PACE = \"0.05\"; };",
	    SHA9 LOCAL(2, 2));
	b.on_report = kill_an_agent;
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.how, ESPL__RUN_DONE);
	cr_assert_eq(b.summary.failed, 0);
	cr_assert_eq(b.summary.reports, 21);
	finish(&b);
}

Test(real, refusals_come_before_anything_is_started)
{
	struct bench b;
	char path[128];
	pid_t pid;
	int ends[2], lock, status;
	char byte = 0;

	/* device = "gpu" where there is none, with the place in the file */
	setenv("ESPALIER_NVML", "/nonexistent/libnvidia-ml.so", 1);
	begin(&b, good_trial, "gpus_max = 1;",
	    "algorithm = { use = \"random\"; trials = 1; iterations_max = 1; };\n"
	    "cloud = { use = \"local\"; device = \"gpu\"; };\n");
	cr_assert_eq(drive(&b, 0), ESPL_E_CONFIG);
	cr_assert_eq(b.diag.line, 5, "%s:%u %s", b.diag.file, b.diag.line, b.diag.text);
	cr_assert_not_null(strstr(b.diag.text, "GPU"));
	finish(&b);
	/* more than can ever exist */
	begin(&b, good_trial, "gpus_min = 9;",
	    "algorithm = { use = \"random\"; trials = 1; iterations_max = 1; };\n" LOCAL(2, 2));
	cr_assert_eq(drive(&b, 0), ESPL_E_CONFIG);
	cr_assert_not_null(strstr(b.diag.text, "9"));
	finish(&b);
	/* a second driver */
	begin(&b, good_trial, "gpus_max = 1;", ONE(1));
	cr_assert_eq(pipe(ends), 0);
	snprintf(path, sizeof path, "%s/lock", b.run);
	pid = fork();
	if (pid == 0) {
		status = espl__lock(path, &lock, NULL);
		(void)!write(ends[1], "x", status == ESPL_OK);
		pause();
		_exit(0);
	}
	cr_assert_eq(read(ends[0], &byte, 1), 1);
	cr_assert_eq(drive(&b, 0), ESPL_E_BUSY);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	close(ends[0]);
	close(ends[1]);
	finish(&b);
}
