/* test_earlier.c - what a warm start begins with: what fits, which are the best, and that a copy of
 * it reads back to the same. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "input/input.h"
#include "model/earlier.h"
#include "model/trials.h"
#include "model/space.h"

static const char three[] =
    "lr = { type = \"real\"; low = 0.001; high = 1.0; scale = \"log\"; };\n"
    "opt = { type = \"choice\"; values = [ \"sgd\", \"adam, fast\" ]; };\n"
    "mom = { type = \"real\"; low = 0.0; high = 1.0; when = { opt = \"sgd\"; }; };\n"
    "layers = { type = \"ordinal\"; values = [ 1, 2, 4 ]; default = 2; };\n"
    "batch = 32;\n";

static struct espl__space *space;

static void
make(void)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *t = NULL;

	cr_assert_eq(espl__tree_parse(three, "t.cfg", &t, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_eq(espl__space_parse(espl__tree_root(t), &space, &diag), ESPL_OK, "%s",
	    diag.text);
	espl__tree_free(t);
}

static void
drop(void)
{
	espl__space_free(space);
}

static espl_status
parse(const char *text, int maximize, struct espl__earlier **e, struct espl__diag *diag)
{
	struct espl__buf b = { NULL, 0, 0 };
	espl_status status;

	espl__print(&b, "%s", text);
	status = espl__earlier_parse("old.csv", &b, space, "loss", maximize, e, diag);
	espl__buf_free(&b);
	return status;
}

static struct espl__earlier *
good(const char *text, int maximize)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__earlier *e;

	cr_assert_eq(parse(text, maximize, &e, &diag), ESPL_OK, "%u: %s", diag.line, diag.text);
	return e;
}

static void
bad(const char *text, uint32_t line, const char *said)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__earlier *e;

	cr_assert_eq(parse(text, 0, &e, &diag), ESPL_E_CONFIG, "%s", text);
	cr_assert_null(e);
	cr_assert_eq(diag.line, line, "%u: %s", diag.line, diag.text);
	cr_assert_not_null(strstr(diag.text, said), "'%s' has no '%s'", diag.text, said);
	cr_assert_str_eq(diag.file, "old.csv");
}

#define HEADER "config,lr,opt,mom,layers,batch,iteration,other,loss\n"

Test(earlier, observations_and_the_best, .init = make, .fini = drop)
{
	static const char text[] =
	    HEADER "a,0.01,sgd,0.9,1,32,0,0,77\n" /* before training: no observation */
		   "a,0.01,sgd,0.9,1,32,1,0,5\n"
		   "b,0.1,\"adam, fast\",,,32,1,0,1\n" /* layers: its default */
		   "c,0.2,\"adam, fast\",,4,,1,0,2\n"
		   "a,0.01,sgd,0.9,1,32,3,0,4\n"
		   "d,0.3,sgd,0.5,2,32,3,0,nan\n"       /* diverged at its end: none of the best */
		   "e,0.1,\"adam, fast\",,2,32,1,0,1\n" /* b once more */
		   "f,0.5,sgd,0.5,2,32,3,0,3\n";
	struct espl__earlier *e = good(text, 0), *again;
	struct espl_observation o;
	struct espl__buf b = { NULL, 0, 0 };
	static const double lr[] = { 0.5, 0.01, 0.1, 0.2 };

	cr_assert_eq(espl__earlier_count(e), 7u);
	cr_assert_eq(espl__earlier_skipped(e, NULL), 0u);
	espl__earlier_at(e, 1, &o);
	cr_assert_eq(o.flags, ESPL_OBSERVED_EARLIER);
	cr_assert_eq(o.trial, ESPL_NONE);
	cr_assert_eq(o.iteration, 1u);
	cr_assert_eq(o.loss, 1.0);
	cr_assert_eq(o.metric_count, 1u);
	cr_assert_eq(o.metrics[0], 1.0);
	cr_assert_eq(o.values[1], 1.0);
	cr_assert(isnan(o.values[2]) && isnan(o.iteration_s));
	cr_assert_eq(o.values[3], 1.0);
	espl__earlier_at(e, 4, &o);
	cr_assert(isnan(o.loss));
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_float_eq(espl__earlier_best(e, i)[0], lr[i], 1e-15);
	cr_assert_null(espl__earlier_best(e, 4));

	/* The copy: the same observations, the same best ones, the same digest. */
	espl__earlier_print(e, &b);
	again = good(espl__buf_text(&b), 0);
	cr_assert_eq(espl__earlier_digest(e), espl__earlier_digest(again));
	cr_assert_eq(espl__earlier_count(again), 7u);
	for (uint32_t i = 0; i < 4; i++)
		cr_assert_eq(memcmp(espl__earlier_best(e, i), espl__earlier_best(again, i),
				 4 * sizeof(double)),
		    0);
	espl__buf_free(&b);
	espl__earlier_free(again);
	espl__earlier_free(e);

	e = good(text, 1); /* the higher the better */
	espl__earlier_at(e, 0, &o);
	cr_assert_eq(o.loss, -5.0);
	cr_assert_eq(o.metrics[0], 5.0);
	cr_assert_float_eq(espl__earlier_best(e, 0)[0], 0.01, 1e-15);
	espl__earlier_free(e);
}

Test(earlier, what_does_not_fit_is_counted, .init = make, .fini = drop)
{
	static const struct {
		const char *line, *why;
	} unfit[] = {
		{ "x,2,sgd,0.9,1,32,1,0,5\n", "'lr' = 2 is out of its bounds" },
		{ "x,,sgd,0.9,1,32,1,0,5\n", "'lr' is missing and has no default" },
		{ "x,one,sgd,0.9,1,32,1,0,5\n", "'lr'" },
		{ "x,0.1,adam,,1,32,1,0,5\n", "'adam' is not one of its values" },
		{ "x,0.1,\"adam, fast\",0.9,1,32,1,0,5\n", "'mom' is inactive" },
		{ "x,0.1,sgd,0.9,3,32,1,0,5\n", "'3' is not one of its values" },
		{ "x,0.1,sgd,0.9,1,64,1,0,5\n", "'batch' is 64, but 32 in the space" },
	};
	char text[512];

	for (size_t i = 0; i < sizeof unfit / sizeof unfit[0]; i++) {
		struct espl__earlier *e;
		const char *why;

		(void)snprintf(text, sizeof text, HEADER "%sa,0.1,sgd,0.9,1,32,1,0,5\n%s",
		    unfit[i].line, unfit[i].line);
		e = good(text, 0);
		cr_assert_eq(espl__earlier_skipped(e, &why), 1u);
		cr_assert_eq(espl__earlier_configs(e), 2u);
		cr_assert_eq(espl__earlier_count(e), 1u);
		cr_assert_not_null(strstr(why, unfit[i].why), "'%s' has no '%s'", why,
		    unfit[i].why);
		espl__earlier_free(e);
		(void)snprintf(text, sizeof text, HEADER "%s", unfit[i].line);
		bad(text, 0, "none of the 1 configurations fits the space");
	}
	/* A parameter that the space has not: only where it has a value. */
	{
		struct espl__earlier *e =
		    good("config,lr,opt,mom,depth,iteration,loss\na,0.1,sgd,0.9,,1,3\n"
			 "b,0.1,sgd,0.8,5,1,2\n",
			0);
		const char *why;

		cr_assert_eq(espl__earlier_skipped(e, &why), 1u);
		cr_assert_not_null(strstr(why, "no parameter 'depth'"), "%s", why);
		cr_assert_float_eq(espl__earlier_best(e, 0)[2], 0.9, 1e-15);
		espl__earlier_free(e);
	}
}

Test(earlier, what_is_wrong_is_said, .init = make, .fini = drop)
{
	bad("", 1, "empty");
	bad("name,lr,iteration,loss\n", 1, "the first column is 'name'");
	bad("config,lr,loss\n", 1, "no column 'iteration'");
	bad("config,lr,iteration,accuracy\n", 1, "no column for metric 'loss'");
	bad(HEADER, 0, "it contains no observations");
	bad(HEADER "a,0.1,sgd,0.9,1,32,0,0,5\n", 0, "it contains no observations");
	bad(HEADER "a,0.1,sgd,0.9,1,32,1,0\n", 2, "8 fields");
	bad(HEADER "a,0.1,sgd,0.9,1,32,x,0,5\n", 2, "'x' is not an iteration number");
	bad(HEADER "a,0.1,sgd,0.9,1,32,1,0,five\n", 2, "'five' is not a number");
}

Test(earlier, comes_before_the_own_history, .init = make, .fini = drop)
{
	struct espl__earlier *e =
	    good(HEADER "a,0.01,sgd,0.9,1,32,1,0,5\nb,0.02,sgd,0.9,1,32,1,0,6\n", 0);
	struct espl__trials trials;
	struct espl__history *h;
	const struct espl_history *view;
	struct espl_group group = ESPL_INIT(struct espl_group);
	struct espl_observation o = ESPL_INIT(struct espl_observation);
	double values[4] = { 0.5, 0, 0.5, 0 }, metric = 7;

	espl__trials_init(&trials, 4);
	h = espl__history_new(&trials, e);
	view = espl__history_view(h);
	cr_assert_eq(view->count(view), 2u);
	cr_assert_null(view->at(view, 2));
	o.trial = espl__trial_new(&trials, espl__group_new(&trials, &group), values, NULL)->pub.id;
	o.iteration = 1;
	o.loss = 7;
	o.metrics = &metric;
	o.metric_count = 1;
	espl__history_add(h, &o);
	cr_assert_eq(view->count(view), 3u);
	cr_assert_eq(view->at(view, 1)->loss, 6.0);
	cr_assert_eq(view->at(view, 1)->flags, ESPL_OBSERVED_EARLIER);
	cr_assert_eq(view->at(view, 2)->loss, 7.0);
	cr_assert_eq(view->at(view, 2)->flags, 0u);
	cr_assert_eq(view->at(view, 2)->trial, o.trial);
	cr_assert_null(view->at(view, 3));
	espl__history_free(h);
	espl__trials_free(&trials);
	espl__earlier_free(e);
}
