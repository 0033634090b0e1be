/* bench_algorithms.c - what search algorithms cost: decisions per second and bytes per trial for
 * many trials, and microseconds per suggestion for algorithms with a model.
 *
 *     bench_algorithms [TRIALS [OBSERVATIONS]]   (1,000,000 and 10,000)
 *     bench_algorithms load NAME TRIALS          one load
 *     bench_algorithms model NAME OBSERVATIONS   one model
 *
 * The plugins are loaded and called as in a run: the host's half checks every sink call and encodes
 * the answer, and trials are kept as the core keeps them.  Around them is only an ask/tell loop: of
 * 16 running trials a random one reports its result at its budget, or at its next rung if trials
 * are stopped; the result is a cheap function of its configuration.  Times are CPU times.  Prints
 * one JSON object a line.
 */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <espalier/model.h>

#include "part.h"
#include "base/rng.h"
#include "base/text.h"
#include "model/trials.h"
#include "model/space.h"
#include "plugin/registry.h"
#include "policy/call.h"

#define SLOTS 16u

struct bench {
	struct espl__tree *tree;
	struct espl__space *space;
	struct espl__trials trials;
	struct espl__caller caller;
	struct espl__history *history;
	struct espl__host_env env;
	struct espl_experiment experiment;
	struct espl_first first;
	struct espl__instance *algorithm;
	struct espl__arena ops;
	struct espl__rng rng;
	struct espl__diag diag; /* cleared once: it is large */
	espl_time now;
	uint64_t *waiting; /* trials without a slot: a queue */
	uint64_t waiting_from, waiting_to, waiting_cap;
	uint64_t running[SLOTS];
	uint32_t running_count;
	int finished, stopping; /* stopping: results at all rungs are told */
	uint64_t answers, started, promoted, stopped, told;
};

static void
die(const char *what, const struct espl__diag *diag)
{
	fprintf(stderr, "bench_algorithms: %s: %s\n", what, diag != NULL ? diag->text : "failed");
	exit(2);
}

static double
processor_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double
resident(void)
{
	long pages = 0, size;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file == NULL || fscanf(file, "%ld %ld", &size, &pages) != 2)
		pages = 0;
	if (file != NULL)
		(void)fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

/* ---- what the host lends ------------------------------------------------------------------ */

static const double *
first_at(const struct espl_first *f, uint32_t index)
{
	(void)f, (void)index;
	return NULL;
}

static const void *
service(void *ctx, struct espl__instance *instance, const char *id)
{
	struct bench *b = ctx;

	(void)instance;
	if (strcmp(id, ESPL_SPACE) == 0)
		return espl__space_view(b->space);
	if (strcmp(id, ESPL_EXPERIMENT) == 0)
		return &b->experiment;
	if (strcmp(id, ESPL_FIRST) == 0)
		return &b->first;
	if (strcmp(id, ESPL_HISTORY) != 0)
		return NULL;
	if (b->history == NULL)
		b->history = espl__history_new(&b->trials, NULL);
	return espl__history_view(b->history);
}

static void
make(struct bench *b, const char *name, const char *options, const char *space)
{
	static const char *const metrics[] = { "loss" };
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *text =
	    espl__format("space = { %s }; algorithm = { use = \"%s\"; %s };", space, name, options);

	memset(b, 0, sizeof *b);
	if (espl__tree_parse(text, name, &b->tree, &diag) != ESPL_OK ||
	    espl__space_parse(espl__node_get(espl__tree_root(b->tree), "space"), &b->space,
		&diag) != ESPL_OK)
		die(name, &diag);
	free(text);
	espl__trials_init(&b->trials, espl__space_count(b->space));
	b->caller.params = b->trials.params;
	b->caller.space = espl__space_view(b->space);
	b->caller.trials = &b->trials;
	b->env = (struct espl__host_env){ .seed = 1,
		.now = &b->now,
		.directory = "",
		.ctx = b,
		.service = service };
	b->experiment = (struct espl_experiment)ESPL_INIT(struct espl_experiment);
	b->experiment.name = name;
	b->experiment.metrics = metrics;
	b->experiment.metric_count = 1;
	b->experiment.gpus_limit = ESPL_ANY;
	b->experiment.deadline =
	    (espl_span)INT64_MAX / 2; /* far: searches without an end need one */
	b->experiment.budget = INT64_MAX;
	b->experiment.weight = 1;
	b->first =
	    (struct espl_first){ .size = (uint32_t)sizeof b->first, .ctx = b, .at = first_at };
	espl__rng_seed(&b->rng, 1, "bench");
	if (espl__instance_create(ESPL_ALGORITHM, name,
		espl__node_get(espl__tree_root(b->tree), "algorithm"), &b->env, &b->algorithm,
		&diag) != ESPL_OK)
		die(name, &diag);
}

static void
unmake(struct bench *b)
{
	espl__instance_destroy(b->algorithm);
	espl__history_free(b->history);
	espl__caller_free(&b->caller);
	espl__trials_free(&b->trials);
	espl__space_free(b->space);
	espl__tree_free(b->tree);
	espl__arena_free(&b->ops);
	free(b->waiting);
}

/* ---- doing what was answered -------------------------------------------------------------- */

static void
queue(struct bench *b, struct espl__trial *t, const struct espl_start *s)
{
	t->pub.budget = s->budget;
	t->pub.tag = s->tag;
	ESPL__GROW(b->waiting, b->waiting_cap, b->waiting_to + 1);
	b->waiting[b->waiting_to++] = t->pub.id;
}

static void
add(struct bench *b, const struct espl__op *op)
{
	const struct espl_start *s = &op->as.add.start;
	struct espl__trial_group *g = espl__group_at(&b->trials, op->as.add.group);
	struct espl__trial *t = espl__trial_at(&b->trials, s->trial);

	if (s->how == ESPL_CONTINUE) {
		espl__trial_continue(&b->trials, t, g);
		b->promoted++;
	} else {
		t = espl__trial_new(&b->trials, g, s->values, s->how == ESPL_CLONE ? t : NULL);
		b->started++;
	}
	queue(b, t, s);
}

static void apply(struct bench *b);

static void
stop(struct bench *b, uint64_t id)
{
	struct espl__trial *t = espl__trial_at(&b->trials, id);

	if (t->pub.state != ESPL_TRIAL_RUNNING)
		return;
	for (uint32_t i = 0; i < b->running_count; i++)
		if (b->running[i] == id)
			b->running[i] = b->running[--b->running_count];
	espl__trial_state(&b->trials, t, ESPL_TRIAL_ENDED);
	b->stopped++;
	if (espl__call_trial_end(&b->caller, b->algorithm, &t->pub, ESPL_END_STOPPED, &b->diag) !=
	    ESPL_OK)
		die("on_trial_end", &b->diag);
	apply(b);
}

static void
apply(struct bench *b)
{
	struct espl__buf answer = b->caller.ops;
	struct espl__reader r;
	struct espl__op op;
	uint64_t groups = b->trials.groups.count;

	if (answer.size == 0)
		return;
	/* a stop calls the algorithm again */
	b->caller.ops = (struct espl__buf){ NULL, 0, 0 };
	r = espl__reader(answer.data, answer.size);
	while (espl__op_get(&r, b->trials.params, &b->ops, &op) == 1) {
		if (op.type == ESPL__OP_BEGIN)
			(void)espl__group_new(&b->trials, &op.as.group);
		else if (op.type == ESPL__OP_ADD)
			add(b, &op);
		else if (op.type == ESPL__OP_CLOSE)
			espl__group_close(&b->trials, espl__group_at(&b->trials, op.as.id));
		else if (op.type == ESPL__OP_FINISH)
			b->finished = 1;
		else if (op.type == ESPL__OP_DROP)
			espl__trial_at(&b->trials, op.as.id)->dropped = 1;
		else if (op.type == ESPL__OP_VERDICT && op.as.verdict.verdict == ESPL_STOP)
			stop(b, op.as.verdict.trial);
	}
	for (; groups < b->trials.groups.count; groups++)
		if (espl__group_at(&b->trials, groups)->will_close)
			espl__group_close(&b->trials, espl__group_at(&b->trials, groups));
	espl__buf_free(&b->caller.ops);
	b->caller.ops = answer;
	if (++b->answers % 256 == 0 || answer.size > 65536)
		espl__arena_free(&b->ops);
	espl__buf_clear(&b->caller.ops);
}

static void
ask_once(struct bench *b, uint32_t why, uint64_t group)
{
	struct espl_search_view view = ESPL_INIT(struct espl_search_view);
	uint64_t busy = b->running_count + (b->waiting_to - b->waiting_from);

	view.want = busy < SLOTS ? (uint32_t)(SLOTS - busy) : 0;
	view.why = why | (view.want > 0 ? ESPL_ASK_CAPACITY : 0);
	view.now = b->now;
	view.group = group;
	view.trials = b->trials.trials.count;
	view.running = b->running_count;
	view.waiting = (uint32_t)(b->waiting_to - b->waiting_from);
	view.gpus = view.gpus_max = SLOTS;
	if (espl__call_next_group(&b->caller, b->algorithm, &view, &b->diag) != ESPL_OK)
		die("next_group", &b->diag);
	apply(b);
}

static void
ask(struct bench *b, uint32_t why)
{
	struct espl__trial_group *g = espl__group_next_ended(&b->trials);

	for (; g != NULL && !b->finished; g = espl__group_next_ended(&b->trials)) {
		ask_once(b, why | ESPL_ASK_GROUP, g->id);
		why = 0;
	}
	if (why != 0 && !b->finished)
		ask_once(b, why, ESPL_NONE);
	while (b->running_count < SLOTS && b->waiting_from < b->waiting_to) {
		uint64_t id = b->waiting[b->waiting_from++];

		espl__trial_state(&b->trials, espl__trial_at(&b->trials, id), ESPL_TRIAL_RUNNING);
		b->running[b->running_count++] = id;
	}
	if (b->waiting_from == b->waiting_to)
		b->waiting_from = b->waiting_to = 0;
}

/* ---- a result ----------------------------------------------------------------------------- */

static double
loss_of(struct bench *b, const struct espl__trial *t, uint64_t iteration)
{
	double sum = 0, noise = (double)(espl__rng_next(&b->rng) >> 11) * 0x1.0p-53;

	for (uint32_t i = 0; i < b->trials.params; i++)
		sum += (t->pub.values[i] - 0.3) * (t->pub.values[i] - 0.3);
	return sum + noise / (double)iteration;
}

/* One trial tells what it reached, and rests if that was its budget. */
static void
tell(struct bench *b)
{
	uint32_t slot = (uint32_t)(espl__rng_next(&b->rng) % b->running_count);
	struct espl__trial *t = espl__trial_at(&b->trials, b->running[slot]);
	struct espl_observation o = ESPL_INIT(struct espl_observation);
	uint64_t rung = t->pub.iteration == 0 ? 1 : 3 * t->pub.iteration;

	t->pub.iteration = b->stopping && rung < t->pub.budget ? rung : t->pub.budget;
	t->pub.loss = loss_of(b, t, t->pub.iteration);
	o.trial = t->pub.id;
	o.iteration = t->pub.iteration;
	o.loss = t->pub.loss;
	o.metrics = &t->pub.loss;
	o.metric_count = 1;
	o.values = t->pub.values;
	o.at = b->now++;
	o.iteration_s = 1;
	o.share = (struct espl_share){ 1, 1 };
	b->told++;
	if (b->history != NULL)
		espl__history_add(b->history, &o);
	if (espl__call_report(&b->caller, b->algorithm, &t->pub, &o, &b->diag) != ESPL_OK)
		die("on_report", &b->diag);
	apply(b);
	if (t->pub.state != ESPL_TRIAL_RUNNING || t->pub.iteration < t->pub.budget)
		return;
	b->running[slot] = b->running[--b->running_count];
	espl__trial_state(&b->trials, t, ESPL_TRIAL_PAUSED);
	if (espl__call_trial_end(&b->caller, b->algorithm, &t->pub, ESPL_END_BUDGET, &b->diag) !=
	    ESPL_OK)
		die("on_trial_end", &b->diag);
	apply(b);
}

/* ---- the loads ---------------------------------------------------------------------------- */

static const char five[] = "a = { type = \"real\"; low = 0.0; high = 1.0; }; b = { type = "
			   "\"real\"; low = 0.0; high = 1.0; };"
			   " lr = { type = \"real\"; low = 1e-5; high = 1.0; scale = \"log\"; }; n "
			   "= { type = \"int\"; low = 1; high = 100; };"
			   " c = { type = \"choice\"; values = [ \"p\", \"q\", \"r\", \"s\" ]; };";
static const char ten[] = "a = { type = \"real\"; low = 0.0; high = 1.0; }; b = { type = \"real\"; "
			  "low = 0.0; high = 1.0; };"
			  " d = { type = \"real\"; low = 0.0; high = 1.0; }; e = { type = "
			  "\"real\"; low = 0.0; high = 1.0; };"
			  " f = { type = \"real\"; low = 0.0; high = 1.0; }; g = { type = "
			  "\"real\"; low = 1e-5; high = 1.0; scale = \"log\"; };"
			  " h = { type = \"real\"; low = 1e-5; high = 1.0; scale = \"log\"; }; n = "
			  "{ type = \"int\"; low = 1; high = 100; };"
			  " c = { type = \"choice\"; values = [ \"p\", \"q\", \"r\", \"s\" ]; };"
			  " k = { type = \"choice\"; values = [ \"p\", \"q\", \"r\" ]; };";

struct load {
	const char *name, *plugin, *options;
};
static const struct load loads[] = {
	/* %llu: trials */
	{ "random", "random", "trials = %llu; iterations_max = 1;" },
	{ "sha", "sha", "trials = %llu; iterations_max = 81; eta = 3;" },
	{ "hyperband", "hyperband",
	    "trials = %llu; iterations_max = 81; eta = 3; order = \"overlap\";" },
	{ "asha", "asha", "trials = %llu; iterations_max = 81; eta = 3;" },
	{ "asha-stopping", "asha",
	    "trials = %llu; mode = \"stopping\"; iterations_max = 81; eta = 3;" },
};
static const struct load models[] = {
	{ "tpe", "tpe", "trials = %llu; iterations_max = 1;" },
	{ "bohb", "bohb", "trials = %llu; iterations_min = 1; iterations_max = 1; eta = 3;" },
	{ "bohb-brackets", "bohb", "trials = %llu; iterations_max = 81; eta = 3;" },
};
#define LOADS (sizeof loads / sizeof loads[0])
#define MODELS (sizeof models / sizeof models[0])

static void
begin(struct bench *b, const struct load *load, uint64_t trials, const char *space)
{
	char options[256];

	(void)snprintf(options, sizeof options, load->options, (unsigned long long)trials);
	make(b, load->plugin, options, space);
	b->stopping = strstr(options, "stopping") != NULL;
}

struct rates {
	double took, bytes;
	uint64_t started, told, decisions;
	int finished;
};

static void
run_once(const struct load *load, uint64_t trials, struct rates *sum)
{
	double before = resident(), began;
	struct bench b;

	begin(&b, load, trials, five);
	began = processor_s();
	ask(&b, ESPL_ASK_START);
	while (b.running_count > 0) {
		tell(&b);
		ask(&b, ESPL_ASK_RESULT);
	}
	sum->took += processor_s() - began;
	if (sum->started == 0)
		sum->bytes = (resident() - before) / (double)b.started;
	sum->started += b.started;
	sum->told += b.told;
	sum->decisions += b.started + b.promoted + b.stopped;
	sum->finished = b.finished && b.started == trials;
	unmake(&b);
}

/* A load too small to be timed is run again and again. */
static void
run_load(const struct load *load, uint64_t trials)
{
	struct rates sum = { .finished = 1 };
	uint64_t times = 0;

	while (sum.finished && (times == 0 || sum.took < 0.2)) {
		run_once(load, trials, &sum);
		times++;
	}
	printf("{\"bench\": \"algorithm-load\", \"algorithm\": \"%s\", \"trials\": %llu, "
	       "\"results\": %llu, \"decisions\": %llu, \"finished\": %s, \"cpu_s\": %.6f, "
	       "\"trials_per_s\": %.0f, \"results_per_s\": %.0f, \"decisions_per_s\": %.0f, "
	       "\"bytes_per_trial\": %.0f}\n",
	    load->name, (unsigned long long)trials, (unsigned long long)(sum.told / times),
	    (unsigned long long)(sum.decisions / times), sum.finished ? "true" : "false",
	    sum.took / (double)times, (double)sum.started / sum.took, (double)sum.told / sum.took,
	    (double)sum.decisions / sum.took, sum.bytes);
	if (!sum.finished)
		exit(1);
}

/* Reports a result and asks for the next suggestion, as many times as there are observations; the
 * last hundred before each mark are timed. */
static void
run_model(const struct load *load, uint64_t observations)
{
	double times[100], began, all = processor_s();
	uint64_t mark = observations < 100 ? observations : 100;
	struct bench b;
	uint32_t count = 0;

	begin(&b, load, observations + SLOTS, ten);
	ask(&b, ESPL_ASK_START);
	while (b.running_count > 0 && b.told < observations) {
		began = processor_s();
		tell(&b);
		ask(&b, ESPL_ASK_RESULT);
		times[count++ % 100] = (processor_s() - began) * 1e6;
		if (b.told < mark)
			continue;
		count = count < 100 ? count : 100;
		printf("{\"bench\": \"algorithm-model\", \"algorithm\": \"%s\", \"parameters\": "
		       "%u, \"observations\": %llu, \"suggestion_us\": {\"median\": %.2f, \"p95\": "
		       "%.2f, \"max\": %.2f}, \"cpu_s\": %.3f, \"trials_per_s\": %.0f}\n",
		    load->name, b.trials.params, (unsigned long long)b.told,
		    part(times, count, 0.5), part(times, count, 0.95), part(times, count, 1),
		    processor_s() - all, (double)b.told / (processor_s() - all));
		mark = mark * 10 < observations || mark == observations ? mark * 10 : observations;
		count = 0;
	}
	if (b.told < observations)
		exit(1);
	unmake(&b);
}

/* In a process of its own, so that memory is its own. */
static int
apart(void (*run)(const struct load *, uint64_t), const struct load *load, uint64_t n)
{
	int status;
	pid_t child;

	(void)fflush(stdout);
	child = fork();
	if (child == 0) {
		run(load, n);
		exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		die("fork", NULL);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}

static int
run_named(const char *kind, const char *name, uint64_t n)
{
	int is_load = strcmp(kind, "load") == 0;
	const struct load *list = is_load ? loads : models;

	for (size_t i = 0; i < (is_load ? LOADS : MODELS); i++)
		if (strcmp(list[i].name, name) == 0)
			return apart(is_load ? run_load : run_model, &list[i], n);
	fprintf(stderr, "bench_algorithms: no %s '%s'\n", kind, name);
	return 2;
}

int
main(int argc, char **argv)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	int64_t trials = 1000000, observations = 10000;
	int named = argc == 4 && (strcmp(argv[1], "load") == 0 || strcmp(argv[1], "model") == 0),
	    wrong = 0;

	/* A load that is repeated shall not pay for its pages anew. */
	(void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
	(void)mallopt(M_MMAP_THRESHOLD, 1 << 30);
	if (espl__plugins_init(NULL, &diag) != ESPL_OK)
		die("plugins", &diag);
	if (argc > 4 || (named && (espl__parse_int(argv[3], &trials) != 0 || trials < 1)) ||
	    (!named && argc > 1 && (espl__parse_int(argv[1], &trials) != 0 || trials < 1)) ||
	    (!named && argc > 2 &&
		(espl__parse_int(argv[2], &observations) != 0 || observations < 1))) {
		fprintf(stderr,
		    "usage: bench_algorithms [TRIALS [OBSERVATIONS]] | load NAME N | model NAME "
		    "N\n");
		return 2;
	}
	if (named)
		return run_named(argv[1], argv[2], (uint64_t)trials);
	for (size_t i = 0; i < LOADS; i++)
		wrong |= apart(run_load, &loads[i], (uint64_t)trials);
	for (size_t i = 0; i < MODELS; i++)
		wrong |= apart(run_model, &models[i], (uint64_t)observations);
	return wrong;
}
