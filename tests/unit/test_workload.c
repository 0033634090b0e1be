/* test_workload.c - traces of jobs: what is read, what is refused and how that is said; drawn
 * workloads. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "input/workload_input.h"

#define HEADER "job,arrives_s,work_s,nodes_min,nodes_max\n"

static espl_status
read_text(const char *text, uint32_t nodes, struct espl__workload *w, struct espl__diag *diag)
{
	struct espl__buf b = { NULL, 0, 0 };
	espl_status status;

	espl__print(&b, "%s", text);
	status = espl__workload_read(w, "jobs.csv", &b, nodes, diag);
	espl__buf_free(&b);
	return status;
}

static void
good(const char *text, uint32_t nodes, struct espl__workload *w)
{
	struct espl__diag diag = ESPL__DIAG_INIT;

	cr_assert_eq(read_text(text, nodes, w, &diag), ESPL_OK, "%u: %s", diag.line, diag.text);
}

/* hint NULL: none is asked for. */
static void
bad(const char *text, uint32_t line, const char *said, const char *hint)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__workload w;

	cr_assert_eq(read_text(text, 64, &w, &diag), ESPL_E_CONFIG, "%s", text);
	cr_assert_str_eq(diag.file, "jobs.csv");
	cr_assert_eq(diag.line, line, "%u: %s", diag.line, diag.text);
	cr_assert(strstr(diag.text, said) != NULL, "'%s' in '%s'", said, diag.text);
	if (hint != NULL)
		cr_assert(strstr(diag.hint, hint) != NULL, "'%s' in '%s'", hint, diag.hint);
	espl__workload_free(&w);
}

Test(workload, a_trace_is_read)
{
	struct espl__workload w;

	good("# made by hand\n" HEADER "a,0,100,1,8\r\n\"b, c\",2.5,1e3,2,2\nd,2.5,7,4,16\n", 64,
	    &w);
	cr_assert_eq(w.count, 3);
	cr_assert_str_eq(w.jobs[1].name, "b, c");
	cr_assert(
	    w.jobs[1].arrives_s == 2.5 && w.jobs[1].work_s == 1000 && w.jobs[1].nodes_min == 2);
	cr_assert(w.jobs[2].nodes_max == 16 && w.jobs[2].nodes_asked == 4 && w.jobs[2].line == 5);
	cr_assert(
	    w.jobs[0].eta_s == 100 && w.jobs[0].weight == 1 && w.jobs[0].fate == ESPL__FATE_DONE);
	cr_assert_eq(espl__job_speed(&w.jobs[0], 1, 0.8), 1);
	cr_assert_float_eq(espl__job_speed(&w.jobs[0], 16, 0.8), 6.5536, 1e-9);
	espl__workload_free(&w);
}

Test(workload, other_columns)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__workload w;

	good("weight,job,arrives_s,scaling,work_s,eta_s,nodes_min,nodes_max,nodes_asked,fate,fate_"
	     "at_s\n"
	     "2,a,0,1:1 2:1.9 "
	     "4:3,100,90,1,8,3,,\n,b,0,,100,,1,8,,bug,60\n1,c,9,,100,0,1,8,,terminated,99\n"
	     "1,d,9,,100,500,1,8,8,done,\n",
	    64, &w);
	cr_assert(w.jobs[0].weight == 2 && w.jobs[0].eta_s == 90 && w.jobs[0].nodes_asked == 3);
	cr_assert_float_eq(espl__job_speed(&w.jobs[0], 3, 0.8), 2.45, 1e-12);
	cr_assert_eq(espl__job_speed(&w.jobs[0], 8, 0.8), 3);
	cr_assert(isnan(w.jobs[1].eta_s) && w.jobs[1].fate == ESPL__FATE_BUG &&
	    w.jobs[1].fate_at_s == 60);
	cr_assert(w.jobs[2].eta_s == 0 && w.jobs[2].fate == ESPL__FATE_TERMINATED &&
	    w.jobs[3].fate == ESPL__FATE_DONE);
	cr_assert_eq(espl__workload_left(&w, 0, 50, 1), 40);
	cr_assert_eq(espl__workload_left(&w, 0, 95, 1), 0);
	cr_assert(isnan(espl__workload_left(&w, 1, 5, 1)));
	cr_assert_eq(espl__workload_fix(&w, "jobs.csv", 4, &diag), ESPL_E_CONFIG);
	cr_assert(diag.line == 5 && strstr(diag.text, "requests 8 nodes") != NULL, "%u: %s",
	    diag.line, diag.text);
	cr_assert_eq(espl__workload_fix(&w, "jobs.csv", 8, NULL), ESPL_OK);
	cr_assert(w.jobs[0].nodes_min == 3 && w.jobs[0].nodes_max == 3 && w.jobs[3].nodes_min == 8);
	espl__workload_free(&w);
}

Test(workload, what_is_refused)
{
	bad("", 0, "empty", "header: job");
	bad("\n# nothing\n", 2, "empty", "header: job");
	bad(HEADER, 1, "no job", NULL);
	bad("job,arrives_s,work_s,nodes_min\na,0,1,1\n", 1, "no column 'nodes_max'", "header");
	bad("job,arrives_s,work_s,nodes_min,nodes_max,nodes_askd\n", 1, "'nodes_askd'",
	    "nodes_asked");
	bad("job,job,arrives_s,work_s,nodes_min,nodes_max\n", 1, "duplicate column", NULL);
	bad("job,arrives_s,work_s,nodes_min,nodes_max,fate\n", 1, "used together", NULL);
	bad(HEADER "a,5,1,1,1\nb,4,1,1,1\n", 3, "before 'a' in line 2 (5 s)", "sort");
	bad(HEADER "a,-5,1,1,1\n", 2, "'arrives_s' is -5", NULL);
	bad(HEADER "a,5,-1,1,1\n", 2, "'work_s' is -1", NULL);
	bad(HEADER "a,5,0,1,1\n", 2, "above 0", NULL);
	bad(HEADER "a,5,nan,1,1\n", 2, "not a number", NULL);
	bad(HEADER "a,5m,1,1,1\n", 2, "not a number: '5m'", "without a unit");
	bad(HEADER "a,5,1e99,1,1\n", 2, "must be at most", NULL);
	bad(HEADER "a,,1,1,1\n", 2, "'arrives_s' is empty", NULL);
	bad(HEADER "a,5,1,0,1\n", 2, "from 1 to", NULL);
	bad(HEADER "a,5,1,-2,1\n", 2, "from 1 to", NULL);
	bad(HEADER "a,5,1,1.5,2\n", 2, "not a whole number", NULL);
	bad(HEADER "a,5,1,4,2\n", 2, "at least 4 nodes but accepts at most 2", NULL);
	bad(HEADER "a,5,1,65,100\n", 2, "at most 64", "waits forever");
	bad(HEADER "a,5,1,1,1\nb,5,1,1,1\na,6,1,1,1\n", 4,
	    "duplicate job 'a', first used in line 2", "must be unique");
	bad(HEADER "a,5,1,1\n", 2, "4 fields", NULL);
	bad(HEADER ",5,1,1,1\n", 2, "no name", NULL);
	bad(HEADER "\"a,5,1,1,1\n", 2, "quote", NULL);
}

Test(workload, what_is_refused_of_other_columns)
{
	static const char *const rows[][2] = {
		{ "0,,,,", "'nodes_asked' is 0" },
		{ ",0,,,", "'weight' is 0" },
		{ ",,-1,,", "'eta_s' is -1" },
		{ ",,,crash,5", "unknown fate" },
		{ ",,,bug,", "the fate of the job is bug" },
		{ ",,,,5", "'fate' is not" },
		{ ",,,terminated,100", "done after 100 s" },
		{ ",,,bug,-1", "'fate_at_s' is -1" },
	};
	static const char *const tables[][2] = {
		{ "2:2", "start with 1:1" },
		{ "1:1 2", "NODES:SPEED" },
		{ "1:1 2:x", "NODES:SPEED" },
		{ "1:1 1:2", "must increase" },
		{ "1:1 2:0", "above 0" },
		{ "1:2", "start with 1:1" },
	};
	char text[256];

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		(void)snprintf(text, sizeof text,
		    "job,arrives_s,work_s,nodes_min,nodes_max,nodes_asked,weight,eta_s,fate,fate_"
		    "at_s\n"
		    "a,0,100,1,8,%s\n",
		    rows[i][0]);
		bad(text, 2, rows[i][1], NULL);
	}
	for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
		(void)snprintf(text, sizeof text,
		    "job,arrives_s,work_s,nodes_min,nodes_max,scaling\na,0,100,1,8,%s\n",
		    tables[i][0]);
		bad(text, 2, tables[i][1], NULL);
	}
}

/* Rows of rubbish are refused or read, and nothing else happens. */
Test(workload, rubbish)
{
	static const char *const bits[] = { "a", ",", ",", ",", "\n", "1", "0", "-", "\"", ":",
		"1:1 ", "bug", "#", "e9", ".", " ", HEADER };
	uint64_t state = 7;
	char text[2048];

	for (int round = 0; round < 3000; round++) {
		struct espl__diag diag = ESPL__DIAG_INIT;
		struct espl__workload w;
		size_t used = (size_t)snprintf(text, sizeof text, "%s",
		    round % 2
			? HEADER
			: "job,arrives_s,work_s,nodes_min,nodes_max,fate,fate_at_s,scaling\n");

		for (int i = 0; i < 60 && used < sizeof text - 64; i++) {
			state = state * UINT64_C(6364136223846793005) + 1;
			used += (size_t)snprintf(text + used, sizeof text - used, "%s",
			    bits[(state >> 33) % (sizeof bits / sizeof bits[0])]);
		}
		if (read_text(text, 64, &w, &diag) != ESPL_OK)
			cr_assert(diag.text[0] != '\0' && diag.status == ESPL_E_CONFIG);
		espl__workload_free(&w);
	}
}

/* ---- drawn -------------------------------------------------------------------------------- */

static void
draw(const struct espl__workload_draw *d, struct espl__workload *w)
{
	struct espl__diag diag = ESPL__DIAG_INIT;

	cr_assert_eq(espl__workload_draw(w, d, &diag), ESPL_OK, "%s", diag.text);
}

Test(workload, drawn_as_published)
{
	struct espl__workload_draw d = ESPL__WORKLOAD_DRAW;
	double sum = 0, logs = 0, squares = 0;
	uint32_t count = 0, night = 0;

	for (d.seed = 1; d.seed <= 100; d.seed++) {
		struct espl__workload w;

		draw(&d, &w);
		cr_assert_eq(w.count, 447);
		for (uint32_t i = 0; i < w.count; i++) {
			const struct espl__job *job = &w.jobs[i];

			cr_assert(job->work_s >= 300 && job->eta_s == job->work_s &&
			    job->nodes_max == 16 && job->nodes_min == 1);
			cr_assert(i == 0 || job->arrives_s >= w.jobs[i - 1].arrives_s);
			cr_assert(job->arrives_s >= 0 && job->arrives_s <= d.span_s);
			sum += job->work_s;
			logs += log(job->work_s);
			squares += log(job->work_s) * log(job->work_s);
			count++;
		}
		espl__workload_free(&w);
	}
	cr_assert_float_eq(sum / count / 60, 465.2, 15, "%g", sum / count / 60);
	cr_assert_float_eq(sqrt(squares / count - logs / count * (logs / count)), 1.45, 0.1);
	d = (struct espl__workload_draw)ESPL__WORKLOAD_DRAW;
	d.arrivals = ESPL__DIURNAL;
	d.jobs = 20000;
	struct espl__workload w;
	draw(&d, &w);
	for (uint32_t i = 0; i < w.count; i++) {
		double hour = fmod(51941 + w.jobs[i].arrives_s, 86400) / 3600;

		night += hour < 9 || hour >= 22;
	}
	/* 22 of the 49.7 hours are night: 22 x 0.2 / (22 x 0.2 + 27.7) */
	cr_assert_float_eq(night / 20000.0, 0.137, 0.02, "%g", night / 20000.0);
	espl__workload_free(&w);
}

static int
by_work(const void *a, const void *b)
{
	double x = ((const struct espl__job *)a)->work_s, y = ((const struct espl__job *)b)->work_s;

	return x < y ? -1 : x > y;
}

/* Two stratified draws differ by less than a range at each rank, and come in another order. */
Test(workload, stratified_draws_are_alike)
{
	struct espl__workload_draw d = ESPL__WORKLOAD_DRAW, e;
	struct espl__workload a, b;
	uint32_t moved = 0;
	double sum = 0;

	d.stratified = 1;
	e = d;
	e.seed = 2;
	draw(&d, &a);
	draw(&e, &b);
	for (uint32_t i = 0; i < a.count; i++)
		moved += fabs(log(a.jobs[i].work_s / b.jobs[i].work_s)) > 0.5;
	cr_assert_gt(moved, 250);
	qsort(a.jobs, a.count, sizeof *a.jobs, by_work);
	qsort(b.jobs, b.count, sizeof *b.jobs, by_work);
	for (uint32_t i = 0; i + 1 < a.count; i++) {
		cr_assert(a.jobs[i].work_s <= b.jobs[i + 1].work_s &&
			b.jobs[i].work_s <= a.jobs[i + 1].work_s,
		    "rank %u: %g %g", i, a.jobs[i].work_s, b.jobs[i].work_s);
		sum += a.jobs[i].work_s;
	}
	espl__workload_free(&a);
	espl__workload_free(&b);
	cr_assert_float_eq(sum / 446 / 60, 415, 15, "%g",
	    sum / 446 / 60); /* 465 with the longest */
	d.jobs = 0;
	d.small = 50;
	draw(&d, &a);
	cr_assert_eq(a.count, 50);
	espl__workload_free(&a);
	d.jobs = 1000;
	d.sigma = 5;
	d.mean_s = 330;
	d.m = 1;
	draw(&d, &a);
	for (uint32_t i = moved = 0; i < a.count; i++) {
		cr_assert(isfinite(a.jobs[i].work_s) && a.jobs[i].work_s > 0);
		moved += a.jobs[i].work_s >= 300;
	}
	cr_assert_geq(moved, 1000);
	espl__workload_free(&a);
}

Test(workload, one_draw_shifts_no_other)
{
	struct espl__workload_draw d = ESPL__WORKLOAD_DRAW, e = ESPL__WORKLOAD_DRAW;
	struct espl__workload a, b;
	uint32_t bugs = 0, terminated = 0;

	e.noise = 0.1;
	e.bugs = 0.15;
	e.terminated = 0.1;
	draw(&d, &a);
	draw(&e, &b);
	for (uint32_t i = 0; i < a.count; i++) {
		cr_assert(a.jobs[i].work_s == b.jobs[i].work_s &&
		    a.jobs[i].arrives_s == b.jobs[i].arrives_s);
		cr_assert(fabs(b.jobs[i].eta_s / b.jobs[i].work_s - 1) <= 0.1 &&
		    b.jobs[i].eta_s != b.jobs[i].work_s);
		bugs += b.jobs[i].fate == ESPL__FATE_BUG && b.jobs[i].fate_at_s <= 300;
		terminated += b.jobs[i].fate == ESPL__FATE_TERMINATED &&
		    b.jobs[i].fate_at_s < b.jobs[i].work_s;
	}
	cr_assert(bugs > 40 && bugs < 95 && terminated > 25 && terminated < 65, "%u %u", bugs,
	    terminated);
	espl__workload_free(&a);
	espl__workload_free(&b);
	e.redraw = 1;
	draw(&e, &b);
	cr_assert_neq(espl__workload_left(&b, 3, 10, 1), espl__workload_left(&b, 3, 10, 2));
	cr_assert_eq(espl__workload_left(&b, 3, 10, 1), espl__workload_left(&b, 3, 10, 1));
	cr_assert_leq(fabs(espl__workload_left(&b, 3, 10, 7) / (b.jobs[3].work_s - 10) - 1), 0.1);
	espl__workload_free(&b);
}

Test(workload, small_jobs_and_batches)
{
	struct espl__workload_draw d = ESPL__WORKLOAD_DRAW;
	struct espl__workload w, again;
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	double sum = 0;
	uint32_t small = 0, close = 0;

	d.small = 805;
	d.m = 1;
	d.arrivals = ESPL__BATCHES;
	d.noise = 0.2;
	d.bugs = 0.2;
	draw(&d, &w);
	cr_assert_eq(w.count, 1252);
	for (uint32_t i = 0; i < w.count; i++) {
		if (w.jobs[i].work_s < 300) {
			small++;
			sum += w.jobs[i].work_s;
		}
		close += i > 0 && w.jobs[i].arrives_s - w.jobs[i - 1].arrives_s < 60;
	}
	cr_assert_eq(small, 805);
	cr_assert_float_eq(sum / small, 117, 12, "%g", sum / small);
	cr_assert_gt(close, 500);
	espl__workload_print(&w, &text); /* what is written reads back the same */
	cr_assert_eq(espl__workload_read(&again, "w.csv", &text, ESPL_ANY, &diag), ESPL_OK,
	    "%u: %s", diag.line, diag.text);
	cr_assert_eq(again.count, w.count);
	for (uint32_t i = 0; i < w.count; i++) {
		const struct espl__job *a = &w.jobs[i], *b = &again.jobs[i];

		cr_assert(strcmp(a->name, b->name) == 0 && a->arrives_s == b->arrives_s &&
		    a->work_s == b->work_s && a->eta_s == b->eta_s && a->fate == b->fate &&
		    (a->fate == ESPL__FATE_DONE || a->fate_at_s == b->fate_at_s) &&
		    a->nodes_max == b->nodes_max && a->nodes_asked == b->nodes_asked);
	}
	espl__buf_free(&text);
	espl__workload_free(&w);
	espl__workload_free(&again);
}

Test(workload, impossible_draws)
{
	static const struct espl__workload_draw plain = ESPL__WORKLOAD_DRAW;
	struct espl__workload_draw d[9];
	struct espl__workload w;

	for (int i = 0; i < 9; i++)
		d[i] = plain;
	d[0].jobs = 0;
	d[1].sigma = 0;
	d[2].m = 0;
	d[3].mean_s = 10;
	d[4].noise = 1;
	d[5].bugs = 0.8;
	d[5].terminated = 0.5;
	d[6].span_s = -1;
	d[7].nodes_max = 0;
	d[8].least_s = NAN;
	for (int i = 0; i < 9; i++) {
		struct espl__diag diag = ESPL__DIAG_INIT;

		cr_assert_eq(espl__workload_draw(&w, &d[i], &diag), ESPL_E_CONFIG, "%d", i);
		cr_assert(diag.text[0] != '\0');
		espl__workload_free(&w);
	}
}
