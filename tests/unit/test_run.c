/* A run's configuration: what contradicts itself is refused, what is printed loads back. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "input/input.h"
#include "test_folder.h"

/* ---- a run's configuration --------------------------------------------------------- */

#define GOOD \
	"experiment = { name = \"e\"; metric = \"loss\"; goal = \"minimize\";\n" \
	"  deadline = \"20m\"; budget = 10.0; seed = 7; first = ( { x = 1; } ); };\n" \
	"trial = { command = [ \"python3\", \"train.py\" ]; gpus_max = 4;\n" \
	"  env = { A = \"b c\"; }; profile = { start = \"2s\"; }; };\n" \
	"space = { x = { type = \"real\"; low = 0.0; high = 1; }; };\n" \
	"algorithm = { use = \"sha\"; eta = 3; };\n" \
	"cloud = { use = \"sim\"; api_token = \"hush\"; };\n"

static espl_status
load(const char *path, const char *set, struct espl__run_config **config, struct espl__diag *diag)
{
	*diag = (struct espl__diag)ESPL__DIAG_INIT;
	return espl__run_load(path, &set, set != NULL, ESPL__NEED_TRIAL, config, diag);
}

Test(run, loads_and_prints_back, .init = make_folder, .fini = drop_folder)
{
	char *path = put_file("a.cfg", GOOD), *copy, *wanted;
	struct espl__run_config *config, *again;
	struct espl__diag diag;
	struct espl__buf one = { NULL, 0, 0 }, two = { NULL, 0, 0 };

	cr_assert_eq(load(path, NULL, &config, &diag), ESPL_OK, "%s:%u %s", diag.file, diag.line,
	    diag.text);
	cr_assert_str_eq(config->name, "e");
	cr_assert_eq(config->maximize, 0);
	cr_assert_eq(config->deadline, 1200 * ESPL_SECOND);
	cr_assert_eq(config->budget, 10 * ESPL_USD);
	cr_assert_eq(config->seed, 7);
	cr_assert_eq(config->gpus_limit, ESPL_ANY);
	cr_assert_eq(config->sync->mean_s, 0.0);
	cr_assert_eq(config->first->child_count, 1);
	cr_assert_eq(config->trial.command_count, 2);
	cr_assert_str_eq(config->trial.command[1], "train.py");
	cr_assert_null(config->trial.command[2]);
	cr_assert_eq(config->trial.gpus_min, 1);
	cr_assert_eq(config->trial.gpus_max, 4);
	cr_assert_eq(config->trial.retries, 2);
	cr_assert_eq(config->trial.checkpoint, 1);
	cr_assert_eq(config->trial.checkpoint_every, 60 * ESPL_SECOND);
	cr_assert_eq(config->trial.report_limit, 3600 * ESPL_SECOND);
	cr_assert_eq(config->trial.grace, 10 * ESPL_SECOND);
	cr_assert_str_eq(config->trial.directory, config->directory);
	cr_assert_str_eq(config->algorithm.use, "sha");
	cr_assert_str_eq(config->allocator.use, "static");
	cr_assert_null(config->allocator.group);
	cr_assert_str_eq(config->cloud.use, "sim");
	cr_assert_str_eq(config->placer.use, "colocate");
	cr_assert_eq(config->samples, 128);
	cr_assert_eq(config->risk, 0.5);
	espl__run_print(config, &one);
	cr_assert(strstr(espl__buf_text(&one), "hush") == NULL, "a token is left out");
	wanted = espl__format("directory = \"%s\"", config->directory);
	cr_assert(strstr(espl__buf_text(&one), wanted) != NULL);
	copy = put_file("run.cfg", espl__buf_text(&one));
	cr_assert_eq(load(copy, NULL, &again, &diag), ESPL_OK, "line %u: %s", diag.line, diag.text);
	espl__run_print(again, &two);
	cr_assert_str_eq(espl__buf_text(&one), espl__buf_text(&two));
	espl__run_free(again);
	espl__run_free(config);
	espl__buf_free(&one);
	espl__buf_free(&two);
	free(wanted);
	free(copy);
	free(path);
}

static const char *
map_input(void *ctx, const struct espl__node *node, const char *absolute)
{
	(void)node;
	cr_assert_eq(absolute[0], '/');
	++*(int *)ctx;
	return "inputs/0";
}

Test(run, paths, .init = make_folder, .fini = drop_folder)
{
	char *curves = put_file("curves.csv", "config,iteration\n");
	char *path = put_file("a.cfg",
	    "experiment = { name = \"e\"; metric = \"m\"; goal = \"maximize\"; };\n"
	    "trial = { curves = \"curves.csv\"; profile = \"p.json\"; directory = \"work\"; };\n"
	    "space = { x = { }; };\nalgorithm = { use = \"random\"; };\n");
	char *profile = put_file("p.json", "{}"), *work = espl__format("%s/work", folder),
	     *absolute;
	struct espl__run_config *config;
	struct espl__diag diag;
	struct espl__buf buf = { NULL, 0, 0 };
	int calls = 0;

	cr_assert_neq(load(path, NULL, &config, &diag), ESPL_OK);
	cr_assert(strstr(diag.text, "trial.directory") != NULL && diag.line == 2, "%s", diag.text);
	cr_assert_eq(mkdir(work, 0700), 0);
	cr_assert_eq(load(path, NULL, &config, &diag), ESPL_OK, "%s", diag.text);
	absolute = espl__run_path(config, "curves.csv");
	cr_assert_str_eq(config->trial.curves, absolute);
	espl__run_print_mapped(config, map_input, &calls, &buf);
	cr_assert_eq(calls, 2, "the curves and the profile, not the folder");
	cr_assert(strstr(espl__buf_text(&buf), "curves = \"inputs/0\"") != NULL);
	cr_assert(strstr(espl__buf_text(&buf), "profile = \"inputs/0\"") != NULL);
	espl__buf_free(&buf);
	espl__run_free(config);
	cr_assert_neq(load(path, "trial.curves=none.csv", &config, &diag), ESPL_OK);
	cr_assert(strstr(diag.text, "No such file") != NULL, "%s", diag.text);
	cr_assert_neq(load(path, "trial.profile=none.json", &config, &diag), ESPL_OK);
	cr_assert_neq(load(path, "trial.directory=p.json", &config, &diag), ESPL_OK);
	free(absolute);
	free(work);
	free(profile);
	free(path);
	free(curves);
}

Test(run, mistakes_are_told, .init = make_folder, .fini = drop_folder)
{
	static const struct {
		const char *set, *says, *hint;
	} cases[] = {
		{ "experimnt.name=x", "unknown group 'experimnt'", "did you mean 'experiment'" },
		{ "experiments=( )", "a pool must not have 'space'", "file of an experiment" },
		{ "workload.trace=x", "a pool must not have 'space'", "file of an experiment" },
		{ "experiment=5", "must be a group", "" },
		{ "experiment.goal=maximise", "cannot be", "did you mean \"maximize\"" },
		{ "experiment.name=a/b", "valid directory name", "" },
		{ "experiment.metric=", "'metric' is empty", "" },
		{ "experiment.deadline=0s", "deadline must be above 0", "" },
		{ "experiment.budget=0", "budget must be above 0", "" },
		{ "experiment.budget=-5.5", "budget must be above 0", "" },
		{ "experiment.weight=0", "weight must be above 0", "" },
		{ "experiment.seed=-1", "below its minimum", "" },
		{ "experiment.first=5", "list of configurations", "" },
		{ "experiment.first=( 5 )", "must be a group", "" },
		{ "trial.gpus_mim=1", "no option 'gpus_mim'", "did you mean 'gpus_min'" },
		{ "trial.trainable=t", "only one of", "" },
		{ "trial.command=[ ]", "'command' is empty", "" },
		{ "trial.command=[ \"\" ]", "'command' is empty", "" },
		{ "trial.command=train", "array of strings", "" },
		{ "trial.command=( \"a\", 5 )", "every word", "quotes" },
		{ "trial.options={ }", "only valid with a trainable", "" },
		{ "trial.gpus_min=5", "gpus_min = 5 is more than gpus_max = 4", "" },
		{ "trial.env={ A = 1; }", "trial.env: 'A'", "quotes" },
		{ "trial.env={ A = ( 1 ); }", "trial.env: 'A'", "quotes" },
		{ "trial.env={ ESPALIER_SEED = \"1\"; }", "trial.env: 'ESPALIER_SEED'",
		    "another one" },
		{ "trial.env_from=[ \"ESPALIER_RUN\" ]", "trial.env_from: 'ESPALIER_RUN'",
		    "another one" },
		{ "trial.torchrun=false", "several ranks", "gpus_max = 1" },
		{ "trial.torchrun=5", "torchrun", "" },
		{ "trial.profile=5", "'profile' must be", "" },
		{ "trial.grace=10", "must be a time span", "unit" },
		{ "space={ }", "the space is empty", "" },
		{ "space=5", "group of parameters", "" },
		{ "algorithm={ }", "'use' is missing", "espalier plugins" },
		{ "algorithm.use=5", "'use' must be", "" },
		{ "allocator=fair", "must be a group, not a string", "use = " },
		{ "planning.risk=1", "above 0 and below 1", "" },
		{ "planning.queue=lsit", "cannot be", "did you mean \"list\"" },
	};
	char *path = put_file("a.cfg", GOOD), *empty = put_file("empty.cfg", "");
	struct espl__run_config *config;
	struct espl__diag diag;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		cr_expect_neq(load(path, cases[i].set, &config, &diag), ESPL_OK, "%s",
		    cases[i].set);
		cr_expect_null(config);
		cr_expect(strstr(diag.text, cases[i].says) != NULL, "%s: says '%s'", cases[i].set,
		    diag.text);
		cr_expect(strstr(diag.hint, cases[i].hint) != NULL, "%s: hints '%s'", cases[i].set,
		    diag.hint);
		cr_expect_str_neq(diag.file, "");
	}
	cr_assert_neq(load(empty, NULL, &config, &diag), ESPL_OK);
	cr_assert(strstr(diag.text, "'experiment' is missing") != NULL);
	cr_assert_neq(load("/nonexistent/x.cfg", NULL, &config, &diag), ESPL_OK);
	/* plan, check: no trial is needed where there is a profile. */
	free(path);
	path = put_file("b.cfg",
	    "experiment = { name = \"e\"; metric = \"m\"; goal = \"maximize\"; };\n"
	    "space = { x = 1; };\nalgorithm = { use = \"random\"; };\n");
	cr_assert_neq(load(path, NULL, &config, &diag), ESPL_OK);
	cr_assert(strstr(diag.text, "the configuration does not say how to run a trial") != NULL);
	cr_assert_eq(espl__run_load(path, NULL, 0, ESPL__NEED_SEARCH, &config, &diag), ESPL_OK);
	espl__run_free(config);
	espl__run_free(NULL);
	/* allocate: an allocator and what training takes. */
	free(path);
	path =
	    put_file("c.cfg", "trial = { packing_max = 4; };\nallocator = { use = \"fair\"; };\n");
	cr_assert_eq(espl__run_load(path, NULL, 0, ESPL__NEED_NOTHING, &config, &diag), ESPL_OK);
	cr_assert_eq(config->trial.packing_max, 4);
	cr_assert_eq(config->gpus_limit, ESPL_ANY);
	cr_assert_null(config->space);
	espl__run_free(config);
	cr_assert_neq(espl__run_load(path, NULL, 0, ESPL__NEED_SEARCH, &config, &diag), ESPL_OK);
	free(empty);
	free(path);
}
