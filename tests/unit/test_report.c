/* test_report.c - what people and programs see of a run: results.db and its readers, the page, the
 * frame of the live view, summaries. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "report/view.h"
#include "report/results_read.h"
#include "report/report_html.h"
#include "report/results.h"
#include "input/input.h"

/* ---- a run that never was -------------------------------------------------------------------- */

static const char config_text[] =
    "experiment = { name = \"pear\"; metric = \"acc\"; goal = \"maximize\"; deadline = \"100s\"; "
    "};\n"
    "trial = { command = [ \"true\" ]; };\n"
    "space = { x = { type = \"real\"; low = 0.0; high = 1.0; };\n"
    "  kind = { type = \"choice\"; values = [ \"plain\", \"with \\\"quote\\\", comma\" ]; }; };\n"
    "algorithm = { use = \"sha\"; };\n";

struct stage {
	char dir[64];
	struct espl__run_config *config;
	struct espl__space *space;
	struct espl__results *results;
	struct espl__view view;
	double values[2][2];
	struct espl_trial trials[2];
};

static void
stage_set(struct stage *s, int replaying)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *path;

	if (s->dir[0] == '\0') {
		(void)snprintf(s->dir, sizeof s->dir, "/tmp/espl-report-XXXXXX");
		cr_assert(mkdtemp(s->dir) != NULL);
	}
	path = espl__format("%s/x.cfg", s->dir);
	cr_assert_eq(espl__file_write(path, config_text, strlen(config_text), &diag), ESPL_OK);
	cr_assert_eq(espl__run_load(path, NULL, 0, ESPL__NEED_TRIAL, &s->config, &diag), ESPL_OK,
	    "%s", diag.text);
	cr_assert_eq(espl__space_parse(s->config->space, &s->space, &diag), ESPL_OK, "%s",
	    diag.text);
	free(path);
	s->results = espl__results_open(&(struct espl__results_setup){ .dir = s->dir,
	    .config = s->config,
	    .space = s->space,
	    .replaying = replaying });
	espl__view_init(&s->view, s->config, s->space, 0, 0);
	s->view.observer.next = espl__results_observer(s->results);
	s->view.observer.next->next = NULL;
	for (int i = 0; i < 2; i++) {
		s->values[i][0] = 0.25 * (i + 1);
		s->values[i][1] = i;
		s->trials[i] = (struct espl_trial){ .size = sizeof s->trials[i],
			.id = (uint64_t)i,
			.state = ESPL_TRIAL_WAITING,
			.parent = ESPL_NONE,
			.budget = 1,
			.loss = NAN,
			.values = s->values[i] };
	}
}

static void
stage_clear(struct stage *s, int remove)
{
	espl__view_free(&s->view);
	espl__space_free(s->space);
	espl__run_free(s->config);
	if (remove)
		cr_assert_eq(espl__tree_remove(s->dir, NULL), ESPL_OK);
}

#define EACH(call_, ...) \
	do { \
		for (struct espl__observer *o = &s->view.observer; o != NULL; o = o->next) \
			if (o->call_ != NULL) \
				o->call_(o->ctx, __VA_ARGS__); \
	} while (0)

static void
report(struct stage *s, double at_s, int trial, uint64_t iteration, double loss)
{
	struct espl__metric metrics[2] = { { 0, 0, -loss }, { 1, 0, 7 } };
	struct espl_share share = { 1, 1 };

	s->trials[trial].iteration = iteration;
	s->trials[trial].loss = loss;
	EACH(report, (espl_time)(at_s * 1e9), &s->trials[trial], iteration, loss, metrics, 2,
	    share);
}

static void
tell(struct stage *s, double at_s, int trial, espl_trial_state state)
{
	s->trials[trial].state = state;
	EACH(trial, (espl_time)(at_s * 1e9), &s->trials[trial]);
}

/* Two trials of one iteration; the second, better one is promoted and trains on to 5. */
static void
play(struct stage *s)
{
	struct espl_node node = { .size = sizeof node,
		.state = ESPL_NODE_READY,
		.gpu_count = 2,
		.billed_from = 0,
		.ends_at = ESPL_NEVER };
	struct espl_offer offer = { .size = sizeof offer,
		.name = "box",
		.market = "own",
		.gpus = 2,
		.price_hour = 3600000 };
	struct espl_slot slots[1] = { { 0, 1, 1 } };
	struct espl_share share = { 1, 1 };

	EACH(group, 0, 0, 0, 0, 0);
	for (int i = 0; i < 2; i++)
		tell(s, 0, i, ESPL_TRIAL_WAITING);
	EACH(node, ESPL_SECOND, &node, &offer, "red", 500000, "");
	for (int i = 0; i < 2; i++) {
		EACH(gang, ESPL_SECOND, (uint64_t)i, (uint64_t)i, ESPL__PHASE_STARTING, share,
		    slots, "");
		EACH(gang, ESPL_SECOND, (uint64_t)i, (uint64_t)i, ESPL__PHASE_RUNNING, share, slots,
		    "");
		tell(s, 1, i, ESPL_TRIAL_RUNNING);
		report(s, 2, i, 1, i == 0 ? -0.5 : -0.75);
		tell(s, 2, i, ESPL_TRIAL_PAUSED);
		EACH(gang, 2 * ESPL_SECOND, (uint64_t)i, (uint64_t)i, ESPL__PHASE_ENDED, share,
		    slots, i == 0 ? "rank 0: exit status 3" : "");
	}
	EACH(group, 2 * ESPL_SECOND, 0, 0, 0, 1);
	EACH(group, 2 * ESPL_SECOND, 1, 0, 1, 0);
	s->trials[1].group = 1;
	s->trials[1].budget = 5;
	tell(s, 2, 1, ESPL_TRIAL_WAITING);
	EACH(note, 2 * ESPL_SECOND, "algorithm 'sha'", ESPL_ABOUT_TRIAL, 1, "the best of its rung");
	EACH(gang, 3 * ESPL_SECOND, 2, 1, ESPL__PHASE_STARTING, share, slots, "");
	EACH(gang, 3 * ESPL_SECOND, 2, 1, ESPL__PHASE_RUNNING, share, slots, "");
	tell(s, 3, 1, ESPL_TRIAL_RUNNING);
	for (uint64_t i = 2; i <= 4; i++)
		report(s, 3 + (double)i, 1, i, i == 3 ? NAN : -0.75 - 0.01 * (double)i);
	node.state = ESPL_NODE_ENDED;
	EACH(node, 9 * ESPL_SECOND, &node, &offer, "red", 1250000, "released");
}

static struct espl__totals
totals_of(struct stage *s, enum espl__run_end how)
{
	struct espl__totals t;
	struct espl__exec_summary summary = { .how = how,
		.trials = 2,
		.finished = 2,
		.best = 1,
		.best_loss = -0.79,
		.best_iteration = 4,
		.best_checkpoint = 4,
		.now = 9 * ESPL_SECOND,
		.cost = 1250000,
		.gpu_s = 18,
		.busy_gpu_s = 8.5,
		.nodes_peak = 1,
		.reports = 5 };

	espl__totals_init(&t, s->config, 0);
	espl__totals_take(&t, &summary);
	espl__totals_set(&t.best_params, "{\"x\": 0.5, \"kind\": \"plain\"}");
	return t;
}

/* ---- results.db ------------------------------------------------------------------------------ */

static double
ask(const char *dir, const char *sql)
{
	char *path = espl__format("%s/results.db", dir);
	sqlite3 *db;
	sqlite3_stmt *st;
	double value = NAN;

	cr_assert_eq(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
	cr_assert_eq(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK, "%s",
	    sqlite3_errmsg(db));
	if (sqlite3_step(st) == SQLITE_ROW && sqlite3_column_type(st, 0) != SQLITE_NULL)
		value = sqlite3_column_double(st, 0);
	sqlite3_finalize(st);
	sqlite3_close(db);
	free(path);
	return value;
}

Test(report, results_hold_what_happened)
{
	struct stage s = { .dir = "" };
	struct espl__totals t;
	struct espl__reading *r;
	struct espl__buf b = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	const char *text;

	stage_set(&s, 0);
	play(&s);
	t = totals_of(&s, ESPL__RUN_DONE);
	espl__results_close(s.results, &t);
	cr_expect_eq(ask(s.dir, "SELECT count(*) FROM trials"), 2);
	cr_expect_eq(ask(s.dir, "SELECT metric FROM reports WHERE trial = 1 AND iteration = 4"),
	    0.79);
	cr_expect(
	    isnan(ask(s.dir, "SELECT metric FROM reports WHERE trial = 1 AND iteration = 3")));
	cr_expect_eq(ask(s.dir, "SELECT value FROM metrics WHERE trial = 0"), 7);
	cr_expect_float_eq(ask(s.dir, "SELECT sum(usd) FROM charges"), 1.25, 1e-9);
	cr_expect_eq(ask(s.dir, "SELECT charged_usd FROM nodes"), 1.25);
	cr_expect_eq(ask(s.dir, "SELECT host = 'red' FROM nodes"), 1);
	cr_expect_eq(ask(s.dir, "SELECT requested_s + ready_s + ended_s FROM nodes"), 11);
	cr_expect_eq(ask(s.dir, "SELECT count(*) FROM decisions WHERE what = 'promoted'"), 1);
	cr_expect_eq(ask(s.dir, "SELECT ended_s FROM groups WHERE id = 0"), 2);

	cr_assert_eq(espl__reading_open(s.dir, &r, &diag), ESPL_OK, "%s", diag.text);
	cr_expect_str_eq(r->totals.status, "done");
	cr_expect_str_eq(r->totals.best_params, "{\"x\": 0.5, \"kind\": \"plain\"}");
	cr_expect(r->totals.maximize && r->totals.deadline_s == 100 && isnan(r->totals.budget_usd));
	cr_assert_eq(espl__explain(r, 1, &b, &diag), ESPL_OK, "%s", diag.text);
	text = espl__buf_text(&b);
	cr_expect(strstr(text, "created by algorithm 'sha' in stage 0") != NULL, "%s", text);
	cr_expect(strstr(text,
		      "promoted to stage 1, to train up to iteration 5: rank 1 of the 2") != NULL,
	    "%s", text);
	cr_expect(strstr(text, "algorithm 'sha': the best of its rung") != NULL, "%s", text);
	cr_expect(strstr(text, "iterations 2 to 4: acc from 0.77 to 0.79\n") != NULL, "%s", text);
	espl__buf_clear(&b);
	cr_assert_eq(espl__explain(r, 0, &b, &diag), ESPL_OK);
	cr_expect(strstr(espl__buf_text(&b), "gang 0 ended: rank 0: exit status 3") != NULL);
	espl__buf_clear(&b);
	cr_assert_eq(espl__explain(r, 2, &b, &diag), ESPL_E_UNKNOWN);
	cr_expect_str_eq(diag.hint, "the trials are 0 to 1");
	cr_assert_eq(espl__reading_groups(r, &b, NULL), ESPL_OK);
	cr_expect(strstr(espl__buf_text(&b),
		      "stage 0                        1        2        2") != NULL,
	    "%s", espl__buf_text(&b));
	espl__reading_free(r);
	espl__buf_free(&b);
	espl__totals_free(&t);
	stage_clear(&s, 1);
}

/* What an export prints, in memory. */
static char *
exported(const char *dir, const char *table)
{
	struct espl__reading *r;
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	cr_assert_eq(espl__reading_open(dir, &r, &diag), ESPL_OK, "%s", diag.text);
	if (table != NULL)
		cr_assert_eq(espl__export_csv(r, table, to, &diag), ESPL_OK, "%s", diag.text);
	else
		cr_assert_eq(espl__export_json(r, to, &diag), ESPL_OK, "%s", diag.text);
	fclose(to);
	espl__reading_free(r);
	return text;
}

Test(report, export_gives_everything_back)
{
	struct stage s = { .dir = "" };
	struct espl__totals t;
	struct espl__reading *r;
	struct espl__diag diag = ESPL__DIAG_INIT;
	json_t *root, *trial;
	char *text;

	stage_set(&s, 0);
	play(&s);
	t = totals_of(&s, ESPL__RUN_DEADLINE);
	espl__results_close(s.results, &t);
	text = exported(s.dir, "trials");
	cr_expect(strstr(text, ",x,kind\n0,paused,1,1,0,,0,0.5,0.5,") != NULL, "%s", text);
	cr_expect(strstr(text, ",0.5,\"with \"\"quote\"\", comma\"\n") != NULL, "%s", text);
	free(text);
	text = exported(s.dir, "notes");
	cr_expect(strstr(text, "algorithm 'sha',trial,1,the best of its rung\n") != NULL, "%s",
	    text);
	free(text);
	text = exported(s.dir, NULL);
	root = json_loads(text, 0, NULL);
	cr_assert(root != NULL, "%s", text);
	trial = json_array_get(json_object_get(root, "trials"), 1);
	cr_expect_eq(json_array_size(json_object_get(trial, "reports")), 4);
	cr_expect_str_eq(json_string_value(
			     json_object_get(json_object_get(trial, "params"), "kind")),
	    "with \"quote\", comma");
	cr_expect_str_eq(json_string_value(
			     json_object_get(json_object_get(root, "summary"), "status")),
	    "deadline");
	json_decref(root);
	free(text);
	cr_assert_eq(espl__reading_open(s.dir, &r, NULL), ESPL_OK);
	cr_expect_eq(espl__export_csv(r, "trails", stdout, &diag), ESPL_E_CONFIG);
	espl__reading_free(r);
	espl__totals_free(&t);
	stage_clear(&s, 1);
}

/* The data that the page draws; json_decref() it. */
static json_t *
data_of_page(const char *dir, const struct espl__report_fixed *fixed)
{
	struct espl__reading *r;
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *page = NULL, *text, *end = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&page, &size);
	json_error_t error;
	json_t *data;

	cr_assert_eq(espl__reading_open(dir, &r, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_eq(espl__report_html(r, fixed, 0, to, &diag), ESPL_OK, "%s", diag.text);
	fclose(to);
	espl__reading_free(r);
	cr_expect(strstr(page, "<pre>pear: ") != NULL && strstr(page, "</html>") != NULL);
	text = strstr(page, "id=\"data\">");
	cr_assert(text != NULL && (end = strstr(text, "</script>")) != NULL, "%s", page);
	text = strchr(text, '\n');
	data = json_loadb(text, (size_t)(end - text), 0, &error);
	cr_assert(data != NULL, "%s: %s", error.text, text);
	free(page);
	return data;
}

/* A cell of a table of the data; NULL: there is none such. */
static json_t *
cell_of(json_t *data, const char *table, size_t row, const char *column)
{
	json_t *rows = json_object_get(json_object_get(data, table), "rows"), *name;
	size_t i;

	json_array_foreach (json_object_get(json_object_get(data, table), "columns"), i, name)
		if (strcmp(json_string_value(name), column) == 0)
			return json_array_get(json_array_get(rows, row), i);
	return NULL;
}

static size_t
count_rows(json_t *data, const char *table)
{
	return json_array_size(json_object_get(json_object_get(data, table), "rows"));
}

static void
predict(struct stage *s, espl_time now)
{
	struct espl__forecast_result result = { .jct_s = { 8, 1, 10 },
		.cost_usd = { 1, 0.25, 1.5 } };
	struct espl_plan plan = { .size = sizeof plan, .gap = NAN };

	EACH(plan, now, NULL, 0, &result, &plan);
}

Test(report, the_page_has_what_happened)
{
	struct espl__report_stage stages[1] = { { 0, 30, 0.5 } };
	struct espl__report_fixed fixed = { .jct_s = 30,
		.cost_usd = 0.5,
		.stages = stages,
		.stage_count = 1 };
	struct stage s = { .dir = "" };
	struct espl__totals t;
	json_t *data, *search;

	stage_set(&s, 0);
	predict(&s, 0);
	play(&s);
	predict(&s, 3 * ESPL_SECOND);
	t = totals_of(&s, ESPL__RUN_DONE);
	espl__results_close(s.results, &t);
	cr_expect_eq(ask(s.dir, "SELECT ends_s + ends_p95_s FROM predictions WHERE plan = 1"), 24);
	data = data_of_page(s.dir, &fixed);
	cr_expect_eq(count_rows(data, "stays"), 3);
	cr_expect_str_eq(json_string_value(cell_of(data, "stays", 0, "text")),
	    "rank 0: exit status 3");
	cr_expect(json_is_null(cell_of(data, "stays", 2, "text")));
	cr_expect_eq(json_number_value(cell_of(data, "stays", 2, "until_s")), 9);
	cr_expect_eq(json_integer_value(cell_of(data, "stays", 2, "stage")), 2, "the second");
	cr_expect_eq(json_integer_value(cell_of(data, "trouble", 0, "times")), 1);
	cr_expect_eq(json_number_value(cell_of(data, "use", 0, "used_s")), 8 - 1);
	search = json_array_get(json_object_get(data, "searches"), 0);
	cr_expect_eq(count_rows(search, "trials"), 2);
	cr_expect_eq(json_integer_value(cell_of(search, "trials", 0, "id")), 1, "the best");
	cr_expect_str_eq(json_string_value(cell_of(search, "space", 1, "name")), "kind");
	cr_expect_str_eq(json_string_value(cell_of(search, "sample", 0, "values")),
	    "[0.5,\"with \\\"quote\\\", comma\"]");
	cr_expect_eq(count_rows(search, "points"), 4, "of five one is no number");
	cr_expect_eq(count_rows(data, "plans"), 2);
	cr_expect_eq(json_number_value(cell_of(data, "plans", 0, "ends_sd_s")), 1);
	cr_expect_eq(json_number_value(json_object_get(json_object_get(data, "fixed"), "cost_usd")),
	    0.5);
	json_decref(data);
	fixed.why_not = "a < b </script>";
	data = data_of_page(s.dir, &fixed);
	cr_expect_str_eq(json_string_value(
			     json_object_get(json_object_get(data, "fixed"), "why_not")),
	    "a < b </script>");
	json_decref(data);
	espl__totals_free(&t);
	stage_clear(&s, 1);

	/* A run of which nothing is known yet. */
	memset(&s, 0, sizeof s);
	stage_set(&s, 0);
	espl__results_close(s.results, NULL);
	data = data_of_page(s.dir, NULL);
	cr_expect_eq(count_rows(data, "nodes") + count_rows(data, "stages"), 0);
	cr_expect(json_is_null(json_object_get(data, "fixed")));
	json_decref(data);
	stage_clear(&s, 1);
}

static int warnings;

static void
count_warning(void *ctx, espl_level level, const char *text)
{
	(void)ctx, (void)text;
	warnings += level == ESPL_WARN;
}

Test(report, results_never_disturb_a_run)
{
	struct stage s = { .dir = "" };
	struct espl__reading *r;
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *path;

	/* A folder in the place of the file: it cannot be made; said once, then silence. */
	espl__log_to(count_warning, NULL, ESPL_INFO);
	(void)snprintf(s.dir, sizeof s.dir, "/tmp/espl-report-XXXXXX");
	cr_assert(mkdtemp(s.dir) != NULL);
	path = espl__format("%s/results.db", s.dir);
	cr_assert_eq(mkdir(path, 0777), 0);
	stage_set(&s, 0);
	play(&s);
	espl__results_close(s.results, NULL);
	cr_expect_eq(warnings, 1);
	cr_assert_eq(rmdir(path), 0);
	stage_clear(&s, 0);

	/* A replay that does not come to its end leaves the old file. */
	stage_set(&s, 0);
	play(&s);
	espl__results_close(s.results, NULL);
	stage_clear(&s, 0);
	stage_set(&s, 1);
	cr_assert_eq(ask(s.dir, "SELECT count(*) FROM trials"), 2);
	espl__results_close(s.results, NULL);
	cr_expect_eq(ask(s.dir, "SELECT count(*) FROM trials"), 2);
	/* Nobody drives it, and it did not end: interrupted. */
	cr_assert_eq(espl__reading_open(s.dir, &r, &diag), ESPL_OK, "%s", diag.text);
	cr_expect_str_eq(r->totals.status, "interrupted");
	espl__reading_free(r);
	/* Garbage in its place is told, with what to do. */
	cr_assert_eq(espl__file_write(path, "garbage, not a database at all", 30, NULL), ESPL_OK);
	cr_expect_eq(espl__reading_open(s.dir, &r, &diag), ESPL_E_CONFIG);
	cr_expect(strstr(diag.hint, "resume") != NULL);
	cr_expect_eq(warnings, 1);
	free(path);
	espl__log_to(NULL, NULL, ESPL_INFO);
	stage_clear(&s, 1);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Columns of the widest line; UTF-8 continuation bytes and escape sequences do not count. */
static uint32_t
widest(const char *text)
{
	uint32_t width = 0, most = 0;

	for (; *text != '\0'; text++) {
		if (*text == '\033')
			text += strcspn(text, "mK");
		else if (*text == '\n')
			width = 0;
		else if (((unsigned char)*text & 0xc0) != 0x80)
			width++;
		most = width > most ? width : most;
	}
	return most;
}

Test(report, frame_fits_every_window)
{
	struct stage s = { .dir = "" };
	struct espl__frame_style style = { 80, 24, 0, 0 };
	struct espl__buf b = { NULL, 0, 0 };
	uint16_t widths[256];
	uint32_t lines;

	stage_set(&s, 0);
	play(&s);
	espl__totals_free(&s.view.totals);
	s.view.totals = totals_of(&s, 0);
	(void)espl__frame_draw(&s.view, &style, &b, widths);
	cr_expect(strstr(espl__buf_text(&b),
		      "stage 0                        1        2        2") != NULL,
	    "%s", espl__buf_text(&b));
	cr_expect(strstr(espl__buf_text(&b), "       1  ################----           4/5") !=
		NULL,
	    "%s", espl__buf_text(&b));
	cr_expect(strstr(espl__buf_text(&b), "best  trial 1: acc 0.79 at iteration 4") != NULL);
	cr_expect(strchr(espl__buf_text(&b), '\033') == NULL);
	for (style.width = 1; style.width < 130; style.width += 3) {
		for (style.height = 1; style.height < 40; style.height += 2) {
			style.color = style.unicode = style.height % 4 == 1;
			espl__buf_clear(&b);
			lines = espl__frame_draw(&s.view, &style, &b, widths);
			cr_assert(lines <= (style.height > 1 ? style.height - 1 : 1));
			cr_assert(widest(espl__buf_text(&b)) <= style.width);
		}
	}
	espl__results_close(s.results, NULL);
	espl__buf_free(&b);
	stage_clear(&s, 1);
}

/* The trial failed and waits for its second try; a third one has failed for good. */
static void
play_failures(struct stage *s)
{
	struct espl_share share = { 1, 1 };
	struct espl_slot slots[1] = { { 0, 1, 1 } };

	EACH(gang, 10 * ESPL_SECOND, 2, 1, ESPL__PHASE_ENDED, share, slots,
	    "rank 0: exit status 1");
	EACH(failure, 10 * ESPL_SECOND, &s->trials[1]);
	tell(s, 10, 1, ESPL_TRIAL_WAITING);
	cr_expect_eq(s->view.change, ESPL__CHANGE_RETRIED);
	EACH(gang, 11 * ESPL_SECOND, 3, 1, ESPL__PHASE_STARTING, share, slots, "");
	s->trials[0].group = 1;
	tell(s, 11, 0, ESPL_TRIAL_WAITING);
	tell(s, 11, 0, ESPL_TRIAL_RUNNING);
	tell(s, 11, 0, ESPL_TRIAL_WAITING);
	cr_expect_eq(s->view.change, ESPL__CHANGE_DISPLACED);
	EACH(failure, 12 * ESPL_SECOND, &s->trials[0]);
	tell(s, 12, 0, ESPL_TRIAL_FAILED);
	cr_expect_eq(s->view.change, ESPL__CHANGE_STATE);
}

#define SHOWS(part_) \
	cr_expect(strstr(espl__buf_text(&b), (part_)) != NULL, "no '%s' in\n%s", (part_), \
	    espl__buf_text(&b))

Test(report, frame_says_all_in_little_room)
{
	struct stage s = { .dir = "" };
	struct espl__frame_style style = { 79, 24, 0, 0 };
	struct espl__buf b = { NULL, 0, 0 };
	uint16_t widths[64];

	stage_set(&s, 0);
	play(&s);
	play_failures(&s);
	espl__totals_free(&s.view.totals);
	s.view.totals = totals_of(&s, 0);
	s.view.totals.failed = 1;
	espl__totals_set(&s.view.totals.best_params,
	    "{\"learning_rate_of_the_head\": 0.001234567, \"learning_rate_of_the_body\": "
	    "0.002345678, \"optimizer\": \"with momentum\", \"z\": 1}");
	(void)espl__frame_draw(&s.view, &style, &b, widths);
	SHOWS("  running  waiting   failed\n");
	SHOWS("stage 1                        5        2        0        0        1        1\n");
	/* What it reported before it failed. */
	SHOWS("         4/5            0.79      1  starting\n");
	SHOWS("      learning_rate_of_the_head=0.001234567\n"
	      "      learning_rate_of_the_body=0.002345678  optimizer=with momentum  z=1\n");
	style = (struct espl__frame_style){ 59, 12, 0, 0 };
	espl__buf_clear(&b);
	(void)espl__frame_draw(&s.view, &style, &b, widths);
	SHOWS("2 trials   2 completed   1 failed\n0 of 0 GPUs in use on 0 nodes   $1.25\n");
	SHOWS("\ngroup   iteration trials done running waiting failed\n"
	      "stage 0         1      2    2       0       0      0\n"
	      "stage 1         5      2    0       0       1      1\n");
	SHOWS("      learning_rate_of_the_head=0.001234567\n"
	      "      learning_rate_of_the_body=0.002345678 ...\n");
	style = (struct espl__frame_style){ 39, 30, 0, 0 };
	espl__buf_clear(&b);
	(void)espl__frame_draw(&s.view, &style, &b, widths);
	SHOWS("\ngroup   done running waiting failed\n");
	SHOWS("\n     1          4/5          0.79     1\n");
	SHOWS("at iteration 4\n      learning_rate_of_the_head=0.00123\n");
	espl__buf_clear(&b);
	espl__totals_text(&s.view.totals, 0, &b);
	SHOWS("  trials  2, 2 completed, 1 failed\n");
	SHOWS("\n          learning_rate_of_the_head=0.001234567\n"
	      "          learning_rate_of_the_body=0.002345678  optimizer=with momentum  z=1\n"
	      "          trials/1/checkpoint-4\n");
	espl__results_close(s.results, NULL);
	espl__buf_free(&b);
	stage_clear(&s, 1);
}

Test(report, text_of_strangers_reaches_no_terminal)
{
	struct espl__buf b = { NULL, 0, 0 };

	espl__print_clean(&b,
	    "a\033[2Jb\r\nc\xc2\x9b"
	    "d\xc3\xa9");
	cr_expect_str_eq(espl__buf_text(&b), "a?[2Jb??c?d\xc3\xa9");
	espl__buf_clear(&b);
	espl__print_params(&b, "{\"x\": 0.123456789, \"n\": 3, \"s\": \"a\\u001bb\", \"t\": true}",
	    "  ");
	cr_expect_str_eq(espl__buf_text(&b), "x=0.123456789  n=3  s=a?b  t=true");
	espl__buf_free(&b);
}

Test(report, summary_object_is_the_contract)
{
	static const char *const fields[] = { "event", "status", "experiment", "trials",
		"completed", "stopped_early", "failed", "best", "jct_s", "cost_usd", "gpu_s",
		"busy_gpu_s", "resizes", "nodes_peak", "nodes_leaked", "decisions", "decision_us",
		"calls", "call_us", "finished", "failed_attempts", "outcome", "best_ever", "moves",
		"sentence" };
	struct stage s = { .dir = "" };
	struct espl__totals t;
	struct espl__buf b = { NULL, 0, 0 };
	json_t *root;

	stage_set(&s, 0);
	t = totals_of(&s, ESPL__RUN_BUDGET);
	espl__totals_json(&t, "summary", 0, &b);
	root = json_loads(espl__buf_text(&b), JSON_REJECT_DUPLICATES, NULL);
	cr_assert(root != NULL, "%s", espl__buf_text(&b));
	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
		cr_expect(json_object_get(root, fields[i]) != NULL, "no %s", fields[i]);
	cr_expect_eq(json_object_size(root), sizeof fields / sizeof fields[0]);
	cr_expect_str_eq(json_string_value(json_object_get(root, "status")), "budget");
	cr_expect_str_eq(json_string_value(
			     json_object_get(json_object_get(root, "best"), "checkpoint")),
	    "trials/1/checkpoint-4");
	cr_expect_eq(json_number_value(json_object_get(json_object_get(root, "best"), "metric")),
	    0.79);
	json_decref(root);
	t.best = -1;
	espl__buf_clear(&b);
	espl__totals_json(&t, "summary", 0, &b);
	root = json_loads(espl__buf_text(&b), 0, NULL);
	cr_expect(json_is_null(json_object_get(root, "best")));
	json_decref(root);
	/* What is not known is left out. */
	espl__buf_clear(&b);
	espl__infeasible_json(NAN, NAN, &b);
	espl__infeasible_json(90, NAN, &b);
	espl__infeasible_json(NAN, 2.5, &b);
	espl__infeasible_json(90, 2.5, &b);
	cr_expect_str_eq(espl__buf_text(&b),
	    "{\"feasible\": false, \"least\": {}}\n"
	    "{\"feasible\": false, \"least\": {\"jct_s\": 90}}\n"
	    "{\"feasible\": false, \"least\": {\"cost_usd\": 2.5}}\n"
	    "{\"feasible\": false, \"least\": {\"jct_s\": 90, \"cost_usd\": 2.5}}\n");
	espl__buf_free(&b);
	espl__totals_free(&t);
	espl__results_close(s.results, NULL);
	stage_clear(&s, 1);
}
