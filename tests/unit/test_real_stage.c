/* test_real_stage.c - sets up, drives and clears away the runs of test_real. */
#include "test_real.h"
#include "driver/worlds.h"
#include "input/input.h"

const char good_trial[] =
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

static void
saw_gang(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct bench *b = ctx;

	(void)now, (void)gang, (void)trial, (void)share, (void)slots;
	b->gangs += phase == ESPL__PHASE_RUNNING;
	if (phase == ESPL__PHASE_ENDED && text[0] != '\0')
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

void
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
	cr_assert_eq(espl__run_load(b->config, NULL, 0, ESPL__NEED_TRIAL, &b->inputs.config,
			 &b->diag),
	    ESPL_OK, "%s", b->diag.text);
	cr_assert_eq(espl__space_parse(b->inputs.config->space, &b->inputs.space, &b->diag),
	    ESPL_OK, "%s", b->diag.text);
	cr_assert_eq(espl__profile_load(b->inputs.config->trial.profile, b->dir, &b->inputs.profile,
			 &b->diag),
	    ESPL_OK);
	b->observer.ctx = b;
	b->observer.gang = saw_gang;
	b->observer.report = saw_report;
	b->drive.exec.inputs = &b->inputs;
	b->drive.exec.observers = &b->observer;
	b->drive.open_world = espl__world_open;
	b->drive.dir = b->run;
	b->drive.seed = b->inputs.config->seed;
	b->drive.interrupt = &b->interrupt;
}

void
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
	    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; seed = 7; };\n"
	    "trial = { command = [ \"/bin/sh\", \"trial.sh\" ]; grace = \"20s\"; %s };\n"
	    "space = { x = { type = \"int\"; low = 0; high = 1000000; }; };\n%s",
	    trial, rest);
	put(b, "search.cfg", text);
	free(text);
	espl__plugins_init(NULL, NULL);
	load(b);
}

espl_status
drive(struct bench *b, int resume)
{
	b->drive.resume = resume;
	b->diag = (struct espl__diag)ESPL__DIAG_INIT;
	b->ended[0] = '\0';
	b->reports = b->gangs = 0;
	return espl__drive(&b->drive, &b->summary, &b->diag);
}

int
children_left(void)
{
	siginfo_t info;

	memset(&info, 0, sizeof info);
	return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 ? 1 : errno != ECHILD;
}

void
finish(struct bench *b)
{
	cr_assert_eq(children_left(), 0, "a process of the run is left");
	espl__profile_free(b->inputs.profile);
	espl__space_free(b->inputs.space);
	espl__run_free(b->inputs.config);
	cr_assert_eq(espl__tree_remove(b->dir, NULL), ESPL_OK);
	espl__plugins_exit();
}

unsigned die_at;

void
die(struct bench *b)
{
	if (b->reports == die_at)
		raise(SIGKILL);
}
