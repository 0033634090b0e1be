/* test_real.c - whole runs in the real world: shell scripts as trials, on the cloud `local`.
 *
 * Each test has a folder of its own with a configuration, a trial and a run.  What is asserted is
 * what a user would see: how trials end and why, that a killed run goes on to the same result,
 * and that no process is left.  Nothing is asserted about how long anything takes.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "plugin/registry.h"
#include "exec/journal.h"
#include "world/drive.h"

static const char good_trial[] =
	"it=$ESPALIER_ITERATION; fd=$ESPALIER_REPORT_FD\n"
	"x=$(sed 's/.*\"x\": *\\([0-9]*\\).*/\\1/' \"$ESPALIER_PARAMS\")\n"
	"[ -z \"$ESPALIER_CHECKPOINT\" ] || it=$(cat \"$ESPALIER_CHECKPOINT/state\")\n"
	"save() { mkdir -p \"$ESPALIER_SAVE\"; echo $it > \"$ESPALIER_SAVE/state\"; echo "
	"\"{\\\"saved\\\": $it}\" >&$fd; }\n"
	"while :; do\n"
	"  it=$((it+1)); [ -z \"$PACE\" ] || sleep $PACE\n"
	"  echo \"{\\\"iteration\\\": $it, \\\"metrics\\\": {\\\"loss\\\": $x.$it}}\" >&$fd\n"
	"  read -r said more <&$fd || exit 9\n"
	"  case $said in checkpoint) save;; pause) save; exit 0;; stop) exit 0;; esac\n"
	"done\n";

struct bench {
	char dir[64], run[80], config[80];
	struct espl__run_config *cfg;
	struct espl__space      *space;
	struct espl__profile    *profile;
	struct espl__observer    observer;
	struct espl__drive       drive;
	struct espl__exec_summary summary;
	struct espl__diag        diag;
	volatile int             interrupt;
	char     ended[512];		/* text of the gang that ended last with one */
	unsigned reports, gangs;
	void   (*on_report)(struct bench *);
};

static void
saw_gang(void *ctx, espl_time now, uint64_t gang, uint64_t trial, const char *state,
	struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct bench *b = ctx;

	(void)now, (void)gang, (void)trial, (void)share, (void)slots;
	b->gangs += strcmp(state, "running") == 0;
	if (strcmp(state, "ended") == 0 && text[0] != '\0')
		snprintf(b->ended, sizeof b->ended, "%s", text);
}

static void
saw_report(void *ctx, espl_time now, const struct espl_trial *trial, uint64_t iteration,
	double loss, const struct espl__metric *metrics, uint32_t count, struct espl_share share)
{
	struct bench *b = ctx;

	(void)now, (void)trial, (void)iteration, (void)loss, (void)metrics, (void)count,
		(void)share;
	b->reports++;
	if (b->on_report != NULL)
		b->on_report(b);
}

static void
put(const struct bench *b, const char *name, const char *text)
{
	char path[160];

	snprintf(path, sizeof path, "%s/%s", b->dir, name);
	cr_assert_eq(espl__file_write(path, text, strlen(text), NULL), ESPL_OK);
}

static void
load(struct bench *b)
{
	b->diag = (struct espl__diag)ESPL__DIAG_INIT;
	cr_assert_eq(espl__run_load(b->config, NULL, 0, ESPL__NEED_TRIAL, &b->cfg, &b->diag), ESPL_OK, "%s",
		b->diag.text);
	cr_assert_eq(
		espl__space_parse(b->cfg->space, &b->space, &b->diag), ESPL_OK, "%s", b->diag.text);
	cr_assert_eq(
		espl__profile_load(b->cfg->trial.profile, b->dir, &b->profile, &b->diag), ESPL_OK);
	b->observer.ctx = b;
	b->observer.gang = saw_gang;
	b->observer.report = saw_report;
	b->drive.config = b->cfg;
	b->drive.space = b->space;
	b->drive.profile = b->profile;
	b->drive.dir = b->run;
	b->drive.seed = b->cfg->seed;
	b->drive.observers = &b->observer;
	b->drive.interrupt = &b->interrupt;
}

/* trial: members of the trial group beside the command; rest: the other groups. */
static void
begin(struct bench *b, const char *script, const char *trial, const char *rest)
{
	char *text;

	memset(b, 0, sizeof *b);
	strncpy(b->dir, "/tmp/espalier-real-XXXXXX", sizeof b->dir - 1);
	cr_assert_not_null(mkdtemp(b->dir));
	snprintf(b->run, sizeof b->run, "%s/run", b->dir);
	snprintf(b->config, sizeof b->config, "%s/search.cfg", b->dir);
	cr_assert_eq(mkdir(b->run, 0755), 0);
	put(b, "trial.sh", script);
	text = espl__format(
		"experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; seed = 7; "
		"};\n"
		"trial = { command = [ \"/bin/sh\", \"trial.sh\" ]; grace = \"20s\"; %s };\n"
		"space = { x = { type = \"int\"; low = 0; high = 1000000; }; };\n%s",
		trial, rest);
	put(b, "search.cfg", text);
	free(text);
	espl__plugins_init(NULL, NULL);
	load(b);
}

static espl_status
drive(struct bench *b, int resume)
{
	b->drive.resume = resume;
	b->diag = (struct espl__diag)ESPL__DIAG_INIT;
	b->ended[0] = '\0';
	b->reports = b->gangs = 0;
	return espl__drive(&b->drive, &b->summary, &b->diag);
}

/* Has this test any child left, and with it any process of a run? */
static int
children_left(void)
{
	siginfo_t info;

	memset(&info, 0, sizeof info);
	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 ? 1 : errno != ECHILD;
}

static void
finish(struct bench *b)
{
	cr_assert_eq(children_left(), 0, "a process of the run is left");
	espl__profile_free(b->profile);
	espl__space_free(b->space);
	espl__run_free(b->cfg);
	cr_assert_eq(espl__tree_remove(b->dir, NULL), ESPL_OK);
	espl__plugins_exit();
}

#define SHA9                                                                                       \
	"algorithm = { use = \"sha\"; trials = 9; iterations_min = 1; iterations_max = 9; eta = "  \
	"3; };\n"                                                                                  \
	"allocator = { use = \"static\"; gpus = 4; };\n"
#define LOCAL(n_, g_)                                                                              \
	"cloud = { use = \"local\"; device = \"cpu\"; nodes = " #n_ "; gpus = " #g_ "; };\n"
#define ONE(iterations_)                                                                           \
	"algorithm = { use = \"random\"; trials = 1; iterations_max = " #iterations_               \
	"; };\n" LOCAL(1, 1)

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
	cr_assert_eq(b.reports, 21);		/* 9 + 3 * 2 + 6: nothing was trained twice */
	cr_assert_eq(drive(&b, 1), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.best, first.best);
	cr_assert_eq(b.summary.best_loss, first.best_loss);
	cr_assert_eq(b.summary.now, first.now);
	b.drive.seed++;
	cr_assert_eq(drive(&b, 1), ESPL_E_CONFIG);
	b.drive.seed--;
	b.cfg->trial.gpus_min++;		/* another configuration than the journal's */
	cr_assert_eq(drive(&b, 1), ESPL_E_CONFIG);
	cr_assert_neq(b.diag.hint[0], '\0');
	cr_assert_eq(drive(&b, 0), ESPL_E_REMOTE);	/* a folder that has a run already */
	finish(&b);
}

static unsigned die_at;

static void
die(struct bench *b)
{
	if (b->reports == die_at)
		raise(SIGKILL);
}

Test(real, a_killed_driver_leaves_nothing_and_its_run_goes_on_to_the_same_end)
{
	struct bench b, whole;
	int          status, i;
	pid_t        pid;

	begin(&whole, good_trial, "checkpoint = true; gpus_max = 1;", SHA9 LOCAL(2, 2));
	cr_assert_eq(drive(&whole, 0), ESPL_OK, "%s", whole.diag.text);
	begin(&b, good_trial, "checkpoint = true; gpus_max = 1;", SHA9 LOCAL(2, 2));
	cr_assert_eq(
		prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0); /* so that we see what it leaves */
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

	begin(&b, "trap '' TERM INT HUP\n"
	      "(trap '' TERM; exec setsid sleep 1000) &\n"
	      "echo '{\"iteration\": 1, \"metrics\": {\"loss\": 1}}' >&$ESPALIER_REPORT_FD\n"
	      "while :; do sleep 1000; done\n", "gpus_max = 1;", ONE(5));
	b.on_report = kill_at_once;
	cr_assert_eq(drive(&b, 0), ESPL_E_LIMIT);
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
		"exited with status 0 at iteration 2 of 9 without being told to");
	ends_with("printf 'not\\tJSON\\n' >&$ESPALIER_REPORT_FD; sleep 1000",
	          "rank 0: its report is no JSON: not?JSON");
	ends_with(SAY("{\"iteration\": 1, \"metrics\": {\"loss\": \"high\"}}"),
		"rank 0: its report's metric 'loss' is no number: "
		"{\"iteration\": 1, \"metrics\": {\"loss\": \"high\"}}");
}

Test(real, what_a_trial_may_say)
{
	struct bench b;

	/* NaN and infinity as Python writes them; an iteration twice; {"finished": true}; strings. */
	begin(&b,
		SAY("{\"iteration\": 1, \"metrics\": {\"loss\": NaN, \"a\": -Infinity, \"In\": "
		    "Infinity}}")
			SAY("{\"iteration\": 1, \"metrics\": {\"loss\": 5}}") "[ \"$said\" = "
									      "continue ] || exit "
									      "4;" SAY(
										      "{\"iteration"
										      "\": 2, "
										      "\"metrics\":"
										      " {\"loss\": "
										      "4, \"a\": "
										      "\"nan\"}, "
										      "\"note\": "
										      "\"NaN\"}")
										      SAY("{\"itera"
											  "tion\": "
											  "3, "
											  "\"metric"
											  "s\": "
											  "{\"loss"
											  "\": 3}, "
											  "\"finish"
											  "ed\": "
											  "true}"),
		"gpus_max = 1; retries = 0; checkpoint = false;", ONE(9));
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_str_eq(b.ended, "");
	cr_assert_eq(b.summary.completed, 1);
	cr_assert_eq(b.summary.reports, 3);
	cr_assert_eq(b.summary.best_loss, 3.0);
	finish(&b);
	/* Told to stop, it stays: it is ended after the grace period, and has trained all the same. */
	begin(&b,
		SAY("{\"iteration\": 1, \"metrics\": {\"loss\": 5}}") "while :; do sleep 1000; "
								      "done\n",
		"gpus_max = 1; retries = 0; checkpoint = false;", ONE(1));
	b.cfg->trial.grace = ESPL_SECOND / 10;
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.completed, 1);
	finish(&b);
	/* Reports that did not wait for their answers still count when their program is gone. */
	begin(&b,
		"for i in 1 2 3; do echo '{\"iteration\": '$i', \"metrics\": {\"loss\": '$i'}}'; "
		"done >&$ESPALIER_REPORT_FD\n",
		"gpus_max = 1; retries = 0; checkpoint = false;", ONE(3));
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.completed, 1);
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
	cr_assert_eq(b.summary.completed, 1, "%s", b.ended);
	cr_assert_eq(b.gangs, 1);
	finish(&b);
	begin(&b, script, "gpus_min = 4; gpus_max = 4; retries = 0; checkpoint = false;",
		"algorithm = { use = \"random\"; trials = 1; iterations_max = 100000; };\n" LOCAL(
			2, 2));
	put(&b, "fail", "");
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_str_eq(b.ended, "rank 3: exit status 8");
	finish(&b);
}

/* The first child of this process that is an agent. */
static void
kill_an_agent(struct bench *b)
{
	char  text[64], path[64];
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

/* Records in the run's journal beside its header, and events of one type in its rounds. */
static unsigned
in_journal(const struct bench *b, enum espl__event_type type, unsigned *events)
{
	char                         path[128];
	struct espl__journal_reader *reader;
	struct espl__journal_header  header;
	struct espl__reader          payload;
	struct espl__arena           arena = { 0 };
	enum espl__record            kind;
	uint64_t                     lost, count;
	unsigned                     records = 0;

	*events = 0;
	snprintf(path, sizeof path, "%s/journal", b->run);
	cr_assert_eq(espl__journal_open(path, &reader, &header, NULL), ESPL_OK);
	for (; espl__journal_next(reader, &kind, &payload, &lost, NULL) == 1; records++) {
		struct espl__event event;

		if (kind != ESPL__REC_ROUND)
			continue;
		(void)espl__get_v64(&payload);
		for (count = espl__get_v64(&payload); count > 0; count--) {
			cr_assert_eq(espl__event_get(&payload, &arena, &event), 0);
			*events += event.type == type;
		}
	}
	cr_assert_eq(lost, 0);
	espl__journal_reader_free(reader);
	espl__arena_free(&arena);
	return records;
}

static void
is_written(struct bench *b)
{
	unsigned written;

	(void)in_journal(b, ESPL__EV_REPORT, &written);
	cr_assert_geq(written, b->reports);
}

Test(real, what_is_reported_is_written_before_it_is_heard)
{
	struct bench b;
	unsigned     written;
	int          status;
	pid_t        pid;

	begin(&b, good_trial, "checkpoint = true; gpus_max = 1;", SHA9 LOCAL(2, 2));
	b.on_report = is_written;
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.reports, 21);
	finish(&b);
	/* So a driver that dies of a report has it when it comes back. */
	begin(&b, good_trial, "checkpoint = true; gpus_max = 1;", SHA9 LOCAL(2, 2));
	pid = fork();
	if (pid == 0) {
		die_at = 5;
		b.on_report = die;
		(void)drive(&b, 0);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status));
	while (waitpid(-1, &status, 0) > 0)	/* its agents */
		continue;
	(void)in_journal(&b, ESPL__EV_REPORT, &written);
	cr_assert_geq(written, 5);
	cr_assert_eq(drive(&b, 1), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.how, ESPL__RUN_DONE);
	cr_assert_eq(b.summary.reports, 21);
	finish(&b);
}

Test(real, a_round_that_fails_leaves_no_record)
{
	struct espl__event   events[2] = { { .type = ESPL__EV_START }, { .type = ESPL__EV_CLOUD } };
	struct espl__buf     round = { 0 };
	struct bench         b;
	struct stat          st;
	struct espl__journal *journal;
	char                 path[128];
	unsigned             clouds;

	begin(&b, good_trial, "gpus_min = 9;",
		"algorithm = { use = \"random\"; trials = 1; iterations_max = 1; };\n" LOCAL(2, 2));
	cr_assert_eq(drive(&b, 0), ESPL_E_CONFIG);
	cr_assert_eq(in_journal(&b, ESPL__EV_CLOUD, &clouds), 0);
	finish(&b);
	/* It is there if the driver was killed in that very moment: then it fails once more. */
	begin(&b, good_trial, "gpus_max = 1;", ONE(3));
	b.interrupt = 2;
	cr_assert_eq(drive(&b, 0), ESPL_E_LIMIT);
	b.interrupt = 0;
	cr_assert_eq(in_journal(&b, ESPL__EV_CLOUD, &clouds), 0);
	snprintf(path, sizeof path, "%s/journal", b.run);
	cr_assert_eq(stat(path, &st), 0);
	{
		struct espl__journal_reader *reader;
		struct espl__journal_header  header;
		uint64_t                     valid;
		uint32_t                     chain;

		cr_assert_eq(espl__journal_open(path, &reader, &header, NULL), ESPL_OK);
		espl__journal_where(reader, &valid, &chain);
		espl__journal_reader_free(reader);
		cr_assert_eq(espl__journal_append_to(path, valid, chain, &journal, NULL), ESPL_OK);
	}
	events[1].as.cloud.status = ESPL_E_REMOTE;
	events[1].as.cloud.text = "out of reach";
	espl__put_v64(&round, 0);
	espl__put_v64(&round, 2);
	espl__event_put(&events[0], &round);
	espl__event_put(&events[1], &round);
	espl__journal_add(journal, ESPL__REC_ROUND, round.data, round.size);
	cr_assert_eq(espl__journal_close(journal, NULL), ESPL_OK);
	espl__buf_free(&round);
	cr_assert_eq(in_journal(&b, ESPL__EV_CLOUD, &clouds), 1);
	cr_assert_eq(drive(&b, 1), ESPL_E_REMOTE);
	cr_assert_not_null(strstr(b.diag.text, "out of reach"));
	cr_assert_eq(in_journal(&b, ESPL__EV_CLOUD, &clouds), 0);
	cr_assert_eq(drive(&b, 1), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.how, ESPL__RUN_DONE);
	finish(&b);
}

Test(real, a_full_disk_ends_the_driver_but_not_the_run)
{
	struct bench  b;
	struct rlimit limit = { 2000, 2000 };
	int           status;
	pid_t         pid;

	begin(&b, good_trial, "checkpoint = true; gpus_max = 1;",
	      "algorithm = { use = \"random\"; trials = 2; iterations_max = 60; };\n" LOCAL(1, 2));
	pid = fork();
	if (pid == 0) {
		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &limit);
		status = drive(&b, 0);
		_exit(status != ESPL_OK && strstr(b.diag.text, "journal") != NULL ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert_eq(drive(&b, 1), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.how, ESPL__RUN_DONE);
	cr_assert_eq(b.summary.completed, 2);
	cr_assert_eq(b.summary.reports, 120);
	finish(&b);
}

Test(real, refusals_come_before_anything_is_started)
{
	struct bench b;
	char         path[128];
	pid_t        pid;
	int          ends[2], lock, status;
	char         byte = 0;

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
