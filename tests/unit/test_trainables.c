/* test_trainables.c - the C trainables that come along: the problems' values, noise that is the
 * same wherever it is drawn, and weights that are the same to the bit on any gang.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <espalier/trainable.h>
#include "base/file.h"
#include "base/mem.h"
#include "config/schema.h"
#include "plugin/registry.h"

#define GANG_MAX 8

/* ---- a small host: a gang of threads ------------------------------------------------------ */

struct gang {
	const struct espl_plugin *plugin;
	const struct espl_config *config;
	const struct espl_setting *settings;
	uint32_t setting_count, world;
	uint64_t seed, first, last, iterations_max;
	pthread_barrier_t barrier;
	const void *shards[GANG_MAX];
	uint32_t mine[GANG_MAX];
	double metrics[3]; /* last reported by rank 0, in order */
	uint32_t reported;
	uint8_t *state; /* loaded before, and taken after, by rank 0 */
	uint64_t state_size;
};
struct rank {
	struct gang *gang;
	struct espl_comm comm;
	struct espl_error error;
	espl_status status;
};
struct reports {
	struct espl_report_sink sink;
	struct rank *rank;
};
struct regions {
	struct espl_region_sink sink;
	uint8_t *at;
	uint64_t size;
	int load;
};

static espl_status
sum_shards(const struct espl_comm *comm, const void *shards, void *out, uint64_t count,
    espl_dtype type, uint32_t first, uint32_t mine, uint32_t total)
{
	struct gang *g = comm->ctx;
	uint32_t k = 0;

	(void)first;
	g->shards[comm->rank] = shards;
	g->mine[comm->rank] = mine;
	pthread_barrier_wait(&g->barrier);
	for (uint32_t r = 0; r < g->world; r++)
		for (uint32_t s = 0; s < g->mine[r]; s++, k++)
			for (uint64_t i = 0; i < count; i++) {
				uint64_t at = s * count + i;

				if (type == ESPL_F32)
					((float *)out)[i] = ((const float *)g->shards[r])[at] +
					    (k > 0 ? ((float *)out)[i] : 0.0f);
				else
					((double *)out)[i] = ((const double *)g->shards[r])[at] +
					    (k > 0 ? ((double *)out)[i] : 0.0);
			}
	pthread_barrier_wait(&g->barrier);
	return k == total ? ESPL_OK : ESPL_E_BUG;
}

static espl_status
metric(struct espl_report_sink *sink, const char *name, double value)
{
	struct rank *r = ((struct reports *)sink)->rank;

	(void)name;
	if (r->comm.rank == 0 && r->gang->reported < 3)
		r->gang->metrics[r->gang->reported++] = value;
	return ESPL_OK;
}

static espl_status
region(struct espl_region_sink *sink, const char *name, void *data, uint64_t bytes,
    espl_device_kind where)
{
	struct regions *r = (struct regions *)sink;

	(void)name;
	(void)where;
	if (r->load) {
		memcpy(data, r->at + r->size, bytes);
	} else {
		r->at = espl__realloc(r->at, r->size + bytes, 1);
		memcpy(r->at + r->size, data, bytes);
	}
	r->size += bytes;
	return ESPL_OK;
}

static void *
work(void *ctx)
{
	struct rank *r = ctx;
	struct gang *g = r->gang;
	const struct espl_trainable_ops *ops =
	    (const struct espl_trainable_ops *)(const void *)g->plugin->ops;
	struct espl_device device = { .size = sizeof device,
		.kind = ESPL_CPU,
		.packing = 1,
		.threads = 1 };
	struct espl_trial_context context = { .size = sizeof context,
		.settings = g->settings,
		.setting_count = g->setting_count,
		.seed = g->seed,
		.budget = g->last,
		.iterations_max = g->iterations_max,
		.device = &device,
		.comm = &r->comm,
		.scratch = "" };
	struct reports reports = { { sizeof reports.sink, 0, metric, NULL }, r };
	struct regions regions = { { sizeof regions.sink, 0, region }, g->state, 0, 1 };
	void *self = NULL, *trial = NULL;

	r->status = g->plugin->create(NULL, g->config, &self, &r->error);
	if (r->status == ESPL_OK)
		r->status = ops->open(self, &context, &trial, &r->error);
	if (r->status == ESPL_OK && g->state != NULL)
		r->status = ops->regions(trial, &regions.sink, &r->error);
	if (g->world > 1)
		pthread_barrier_wait(&g->barrier);
	for (uint64_t i = g->first; r->status == ESPL_OK && i <= g->last; i++) {
		if (r->comm.rank == 0)
			g->reported = 0;
		r->status = ops->step(trial, i, &reports.sink, &r->error);
	}
	if (r->status == ESPL_OK && r->comm.rank == 0) {
		regions = (struct regions){ { sizeof regions.sink, 0, region }, NULL, 0, 0 };
		r->status = ops->regions(trial, &regions.sink, &r->error);
		free(g->state);
		g->state = regions.at;
		g->state_size = regions.size;
	}
	if (trial != NULL)
		ops->close(trial);
	if (self != NULL)
		g->plugin->destroy(self);
	return NULL;
}

/* Trains iterations first..last on `world` ranks; state is taken up and left in the gang. */
static espl_status
train(struct gang *g, uint32_t world, uint64_t first, uint64_t last, struct espl_error *error)
{
	struct rank ranks[GANG_MAX] = { 0 };
	pthread_t threads[GANG_MAX];
	espl_status st = ESPL_OK;

	g->world = world;
	g->first = first;
	g->last = last;
	pthread_barrier_init(&g->barrier, NULL, world);
	for (uint32_t i = 0; i < world; i++) {
		ranks[i].gang = g;
		ranks[i].error.size = sizeof ranks[i].error;
		ranks[i].comm = (struct espl_comm){ .size = sizeof ranks[i].comm,
			.rank = i,
			.world = world,
			.ctx = g,
			.sum_shards = sum_shards };
		cr_assert_eq(pthread_create(&threads[i], NULL, work, &ranks[i]), 0);
	}
	for (uint32_t i = 0; i < world; i++) {
		pthread_join(threads[i], NULL);
		if (st == ESPL_OK && ranks[i].status != ESPL_OK) {
			st = ranks[i].status;
			if (error != NULL)
				*error = ranks[i].error;
		}
	}
	pthread_barrier_destroy(&g->barrier);
	return st;
}

/* Finds the plugin and reads its options from a libconfig text. */
static struct espl__values *
begin(struct gang *g, const char *name, const char *options, struct espl__tree **tree)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	const struct espl__plugin *plugin;
	struct espl__values *values;

	*g = (struct gang){ .seed = 11, .iterations_max = 81 };
	cr_assert_eq(espl__plugins_init(NULL, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_eq(espl__plugin_find(ESPL_TRAINABLE, name, &plugin, &diag), ESPL_OK, "%s",
	    diag.text);
	g->plugin = plugin->desc;
	cr_assert_eq(espl__tree_parse(options, "t.cfg", tree, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_eq(espl__schema_resolve(g->plugin->options, g->plugin->option_count,
			 g->plugin->option_size, espl__tree_root(*tree), NULL, name, name, &values,
			 &diag),
	    ESPL_OK, "%s", diag.text);
	g->config = &values->config;
	return values;
}

static void
end(struct gang *g, struct espl__values *values, struct espl__tree *tree)
{
	free(g->state);
	espl__values_free(values);
	espl__tree_free(tree);
	espl__plugins_exit();
}

/* The loss of iteration z of a problem without a state. */
static double
loss_at(struct gang *g, uint64_t z)
{
	struct espl_error error = ESPL_INIT(struct espl_error);

	free(g->state);
	g->state = NULL;
	cr_assert_eq(train(g, 1, z, z, &error), ESPL_OK, "%s", error.text);
	cr_assert_eq(g->reported, 1u);
	return g->metrics[0];
}

/* ---- problems ------------------------------------------------------------------------------ */

Test(problems, optima_and_noise)
{
	struct espl_setting hartmann[] = { { "x0", "", 0.20168952 }, { "x1", "", 0.15001069 },
		{ "x2", "", 0.47687398 }, { "x3", "", 0.27533243 }, { "x4", "", 0.31165162 },
		{ "x5", "", 0.65730054 }, { "other", "sgd", NAN } };
	struct espl_setting branin[] = { { "x1", "", 3.141592653589793 }, { "x2", "", 2.275 } };
	struct espl__tree *tree;
	struct gang g;
	struct espl__values *values = begin(&g, "hartmann6", "", &tree);
	double once;

	g.settings = hartmann;
	g.setting_count = 7;
	cr_assert_float_eq(loss_at(&g, 81), -3.322368011415515, 1e-9);
	once = loss_at(&g, 9);
	cr_assert_eq(loss_at(&g, 9), once); /* a retry sees the same */
	g.seed = 12;
	cr_assert_neq(loss_at(&g, 9), once); /* another trial does not */
	cr_assert_float_eq(loss_at(&g, 81), -3.322368011415515, 1e-9);
	end(&g, values, tree);

	values = begin(&g, "hartmann6", "noise = 0.0; z_max = 9;", &tree);
	g.settings = hartmann;
	g.setting_count = 7;
	cr_assert_float_eq(loss_at(&g, 9), -3.322368011415515, 1e-9);
	cr_assert_gt(loss_at(&g, 1), -1.5); /* the peaks are shifted down by 2.5 */
	end(&g, values, tree);

	values = begin(&g, "branin", "", &tree);
	g.settings = branin;
	g.setting_count = 2;
	cr_assert_float_eq(loss_at(&g, 81), 0.39788735772973816, 1e-9);
	cr_assert_neq(loss_at(&g, 1), loss_at(&g, 81));
	end(&g, values, tree);
}

/* The metric behind the loss: the distance to the least value there is, without noise. */
static double
regret_at(struct gang *g, uint64_t z)
{
	struct espl_error error = ESPL_INIT(struct espl_error);

	free(g->state);
	g->state = NULL;
	cr_assert_eq(train(g, 1, z, z, &error), ESPL_OK, "%s", error.text);
	cr_assert_eq(g->reported, 2u);
	return g->metrics[1];
}

Test(problems, regret_is_that_of_the_exact_value)
{
	struct espl_setting hartmann[] = { { "x0", "", 0.20168952 }, { "x1", "", 0.15001069 },
		{ "x2", "", 0.47687398 }, { "x3", "", 0.27533243 }, { "x4", "", 0.31165162 },
		{ "x5", "", 0.65730054 } };
	struct espl_setting branin[] = { { "x1", "", 0.0 }, { "x2", "", 0.0 } };
	struct espl_setting ones[] = { { "c0", "", 1 }, { "c1", "", 0 }, { "x0", "", 0.25 },
		{ "x1", "", 1 } };
	struct espl__tree *tree;
	struct gang g;
	struct espl__values *values =
	    begin(&g, "hartmann6", "regret = true; noise = 5.0; bias = 4.0;", &tree);
	double whole, loss;

	g.settings = hartmann;
	g.setting_count = 6;
	cr_assert_float_eq(regret_at(&g, 1), 0.0, 1e-9);
	cr_assert_float_eq(regret_at(&g, 81), 0.0, 1e-9);
	end(&g, values, tree);

	values = begin(&g, "branin", "regret = true;", &tree);
	g.settings = branin;
	g.setting_count = 2;
	cr_assert_float_eq(regret_at(&g, 3), regret_at(&g, 81), 1e-12);
	cr_assert_float_eq(regret_at(&g, 81), 55.602112642270264 - 0.39788735772973816, 1e-9);
	end(&g, values, tree);

	/* Nine throws an iteration: ninths at the first one, and less noise than with one. */
	values = begin(&g, "counting_ones", "regret = true; throws = 9;", &tree);
	g.settings = ones;
	g.setting_count = 4;
	cr_assert_float_eq(regret_at(&g, 1), 1 - 2.25 / 4, 1e-12);
	loss = g.metrics[0];
	cr_assert_float_eq(loss * 9, round(loss * 9), 1e-9);
	for (whole = 0, g.seed = 1; g.seed <= 2000; g.seed++) {
		(void)regret_at(&g, 1);
		whole += (g.metrics[0] + 2.25) * (g.metrics[0] + 2.25);
	}
	cr_assert_float_eq(whole / 2000, 0.25 * 0.75 / 9, 0.003);
	end(&g, values, tree);
}

Test(problems, counting_ones_takes_labels_and_throws_coins)
{
	struct espl_setting set[] = { { "c0", "1", NAN }, { "c1", "0", NAN }, { "c2", "1", 1 },
		{ "x0", "0.25", 0.25 }, { "x1", "1", 1 } };
	struct espl__tree *tree;
	struct gang g;
	struct espl__values *values = begin(&g, "counting_ones", "", &tree);
	double sum = 0.0;

	g.settings = set;
	g.setting_count = 5;
	for (g.seed = 0; g.seed < 200; g.seed++)
		sum += loss_at(&g, 9);
	cr_assert_float_eq(sum / 200, -3.25, 4 * sqrt(0.25 * 0.75 / 9 / 200));
	end(&g, values, tree);
}

Test(problems, state_goes_through_regions)
{
	struct espl_setting set[] = { { "lr", "0.1", 0.1 } };
	struct espl__tree *tree;
	struct gang g;
	struct espl__values *values = begin(&g, "quadratic", "", &tree);
	struct espl_error error = ESPL_INIT(struct espl_error);
	double whole;

	g.settings = set;
	g.setting_count = 1;
	cr_assert_eq(train(&g, 1, 1, 30, &error), ESPL_OK, "%s", error.text);
	whole = g.metrics[0];
	cr_assert_lt(whole, 1.0);
	free(g.state);
	g.state = NULL;
	cr_assert_eq(train(&g, 1, 1, 12, NULL), ESPL_OK);
	cr_assert_eq(train(&g, 1, 13, 30, NULL), ESPL_OK);
	cr_assert_eq(g.metrics[0], whole);
	free(g.state);
	g.state = NULL;
	cr_assert_eq(train(&g, 1, 13, 30, &error), ESPL_E_BUG); /* the state was lost */
	end(&g, values, tree);
}

Test(problems, what_is_missing_is_named)
{
	static const struct {
		const char *plugin, *says;
	} all[] = { { "hartmann6", "x0, x1, x2, x4, x5" }, { "branin", "x1, x2" },
		{ "quadratic", "lr" }, { "counting_ones", "c0" }, { "sleep", "x" } };
	struct espl_setting set[] = { { "x3", "0.5", 0.5 } };

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		struct espl_error error = ESPL_INIT(struct espl_error);
		struct espl__tree *tree;
		struct gang g;
		struct espl__values *values = begin(&g, all[i].plugin, "", &tree);

		g.settings = set;
		g.setting_count = 1;
		cr_expect_eq(train(&g, 1, 1, 1, &error), ESPL_E_CONFIG, "%s", all[i].plugin);
		cr_expect(strstr(error.text, all[i].says) != NULL, "%s: %s", all[i].plugin,
		    error.text);
		end(&g, values, tree);
	}
}

/* ---- fashion_cnn ----------------------------------------------------------------------------- */

static void
put_file(const char *folder, const char *name, struct espl__buf *bytes)
{
	char *path = espl__format("%s/%s", folder, name);
	struct espl__diag diag = ESPL__DIAG_INIT;

	cr_assert_eq(espl__file_write(path, bytes->data, bytes->size, &diag), ESPL_OK, "%s",
	    diag.text);
	free(path);
	espl__buf_free(bytes);
}

/* A data set of bars whose place is the label, in idx files: big-endian headers, then bytes. */
static char *
bars(uint32_t count)
{
	char *folder =
	    espl__format("%s/espl-bars-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	uint8_t sizes[4] = { 0, 0, (uint8_t)(count >> 8), (uint8_t)count };
	struct espl__buf images = { NULL, 0, 0 }, labels = { NULL, 0, 0 };

	cr_assert_not_null(mkdtemp(folder));
	espl__put(&images, "\0\0\x08\x03", 4);
	espl__put(&images, sizes, 4);
	espl__put(&images, "\0\0\0\x1c\0\0\0\x1c", 8);
	espl__put(&labels, "\0\0\x08\x01", 4);
	espl__put(&labels, sizes, 4);
	for (uint32_t i = 0; i < count; i++) {
		espl__put_u8(&labels, (uint8_t)(i % 10));
		for (uint32_t k = 0; k < 784; k++)
			espl__put_u8(&images,
			    (uint8_t)(k % 28 / 2 == i % 10 + 1 ? 200 + i % 50 : (k * i) % 60));
	}
	put_file(folder, "train-images-idx3-ubyte", &images);
	put_file(folder, "train-labels-idx1-ubyte", &labels);
	return folder;
}

Test(fashion_cnn, is_the_same_to_the_bit_on_any_gang)
{
	struct espl_setting set[] = { { "learning_rate", "0.02", 0.02 }, { "width", "4", 4 },
		{ "dropout", "0.2", 0.2 }, { "batch_size", "16", 16 },
		{ "optimizer", "sgd", NAN } };
	char *folder = bars(300),
	     *options = espl__format("data = \"%s\"; train = 230; validate = 70;", folder);
	struct espl__diag diag = ESPL__DIAG_INIT;
	const struct espl__plugin *plugin;
	struct espl_error error = ESPL_INIT(struct espl_error);
	struct espl__values *values;
	struct espl__tree *tree;
	struct gang g;
	uint8_t *state;
	double accuracy, loss;

	cr_assert_eq(espl__plugins_init(NULL, &diag), ESPL_OK);
	if (espl__plugin_find(ESPL_TRAINABLE, "fashion_cnn", &plugin, &diag) != ESPL_OK) {
		espl__tree_remove(folder, NULL);
		cr_skip_test("fashion_cnn is not built here");
	}
	values = begin(&g, "fashion_cnn", options, &tree);
	g.settings = set;
	g.setting_count = 5;
	g.iterations_max = 4;
	cr_assert_eq(train(&g, 1, 1, 4, &error), ESPL_OK, "%s", error.text);
	accuracy = g.metrics[0];
	loss = g.metrics[1];
	cr_assert_gt(accuracy, 0.9); /* it learns */
	state = g.state;
	g.state = NULL;
	/* Three ranks, restored on eight, then on two: nothing differs. */
	cr_assert_eq(train(&g, 3, 1, 1, &error), ESPL_OK, "%s", error.text);
	cr_assert_eq(train(&g, 8, 2, 3, &error), ESPL_OK, "%s", error.text);
	cr_assert_eq(train(&g, 2, 4, 4, &error), ESPL_OK, "%s", error.text);
	cr_assert_eq(g.metrics[0], accuracy);
	cr_assert_eq(g.metrics[1], loss);
	cr_assert_eq(memcmp(g.state, state, g.state_size), 0);
	set[3].value = 12;
	cr_assert_eq(train(&g, 1, 5, 5, &error), ESPL_E_CONFIG);
	cr_assert(strstr(error.text, "multiple of 8") != NULL, "%s", error.text);
	free(state);
	end(&g, values, tree);
	espl__tree_remove(folder, NULL);
	free(folder);
	free(options);
}
