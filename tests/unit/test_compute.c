/* test_compute.c - computations in child processes: answers, failures, deaths and limits. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include "plugin/registry.h"
#include "driver/compute.h"

static const struct espl_outcome *
ask(struct espl__compute **job, const char *what, espl_kind kind, espl_span limit)
{
	struct espl__run_config config = { .directory = "/",
		.algorithm = { .use = "computing" },
		.allocator = { .use = "computing" } };
	struct espl_compute_request request = ESPL_INIT(struct espl_compute_request);

	request.what = "test";
	request.input = what;
	request.input_size = strlen(what);
	request.limit = limit;
	*job = espl__compute_start(&config, kind, 42, &request, 1);
	espl__compute_wait(*job);
	cr_assert_eq(espl__compute_fd(*job), -1);
	cr_assert_eq(espl__compute_pid(*job), 0);
	return espl__compute_outcome(*job);
}

Test(compute, answers_failures_deaths_and_limits)
{
	static const struct {
		const char *input;
		espl_status status;
	} cases[] = { { "double", ESPL_OK }, { "print", ESPL_OK }, { "fail", ESPL_E_INFEASIBLE },
		{ "abort", ESPL_E_REMOTE }, { "hang", ESPL_E_LIMIT } };
	const char *top = getenv("abs_top_builddir");
	struct espl__diag diag = ESPL__DIAG_INIT;
	const struct espl__plugin *plugin;
	const struct espl_outcome *o;
	struct espl__compute *job;
	char path[4096];

	snprintf(path, sizeof path, "%s/tests/unit", top != NULL ? top : ".");
	cr_assert_eq(espl__plugins_init(path, &diag), ESPL_OK, "%s", diag.text);
	if (espl__plugin_find(ESPL_ALGORITHM, "computing", &plugin, &diag) != ESPL_OK)
		cr_skip_test("this build has no loadable plugins");
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		o = ask(&job, cases[i].input, ESPL_ALGORITHM,
		    strcmp(cases[i].input, "hang") == 0 ? ESPL_SECOND / 5 : 0);
		cr_assert_eq(o->status, cases[i].status, "%s: status %d", cases[i].input,
		    (int)o->status);
		cr_assert_eq(o->token, 42);
		if (i == 0) {
			cr_assert_eq(o->output_size, 12);
			cr_assert_eq(memcmp(o->output, "doubledouble", 12), 0);
		} else if (o->status != ESPL_OK) {
			cr_assert_null(o->output);
		}
		espl__compute_free(job);
	}
	/* The plugin is no allocator; and nobody else may ask at all. */
	o = ask(&job, "double", ESPL_ALLOCATOR, 0);
	cr_assert_neq(o->status, ESPL_OK);
	espl__compute_free(job);
	o = ask(&job, "double", ESPL_PLACER, 0);
	cr_assert_eq(o->status, ESPL_E_UNSUPPORTED);
	espl__compute_free(job);
	espl__plugins_exit();
}
