/* test_mine.c - the plugins of this package through espalier's test kit, with nothing but assert.
 *
 * PLUGINS names the folder of the built modules (the makefile sets it).
 */
#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <testkit.h>

static const struct espl_plugin *
load_plugin(struct espl_kit *kit, const char *name)
{
	const char *folder = getenv("PLUGINS");
	const struct espl_plugin *plugin;
	char path[1024];

	(void)snprintf(path, sizeof path, "%s/%s.so", folder != NULL ? folder : ".", name);
	plugin = espl_kit_load(kit, path);
	if (plugin == NULL)
		(void)fprintf(stderr, "%s", espl_kit_log(kit));
	assert(plugin != NULL);
	return plugin;
}

/* Trials with a small x are good ones; the worst come last. */
static double
trial_loss(void *ctx, const struct espl_trial *trial, uint64_t iteration)
{
	(void)ctx;
	return (1.0 + trial->values[0]) / (double)iteration;
}

static void
test_algorithm(void)
{
	struct espl_kit *kit = espl_kit_new(1);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 10, ESPL_LINEAR, 0);
	assert(espl_kit_open(kit, load_plugin(kit, "algorithm_mine"), "trials=8 grace=20",
		   &error) == ESPL_E_CONFIG);
	assert(strstr(error.text, "grace") != NULL);

	assert(espl_kit_open(kit, load_plugin(kit, "algorithm_mine"), "trials=8 margin=0.2",
		   &error) == ESPL_OK);
	assert(espl_kit_search(kit, 2, 1000, trial_loss, NULL) == ESPL_OK);
	assert(espl_kit_refused(kit) == 0);
	assert(espl_kit_trials(kit) == 8);
	assert(strstr(espl_kit_log(kit), "stop") != NULL);
	espl_kit_free(kit);
}

static void
test_allocator(void)
{
	struct espl_kit *kit = espl_kit_new(1);
	uint64_t first;

	assert(espl_kit_open(kit, load_plugin(kit, "allocator_mine"), "nodes=2", NULL) == ESPL_OK);
	(void)espl_kit_offer(kit, "small", 2, 10, 1.0);
	first = espl_kit_item(kit, 2, 8);
	(void)espl_kit_item(kit, 2, 8);
	(void)espl_kit_item(kit, 1, 8);
	assert(espl_kit_allocate(kit) == ESPL_OK);
	assert(strcmp(espl_kit_log(kit),
		   "target offer=0 nodes=2\ngrant item=0 gpus=2\n"
		   "grant item=1 gpus=2\n") == 0);
	espl_kit_clear(kit);
	espl_kit_leave(kit, first);
	assert(espl_kit_allocate(kit) == ESPL_OK);
	assert(strcmp(espl_kit_log(kit), "grant item=2 gpus=1\n") == 0);
	espl_kit_free(kit);
}

static void
test_placer(void)
{
	struct espl_kit *kit = espl_kit_new(1);
	uint64_t item;

	assert(espl_kit_open(kit, load_plugin(kit, "placer_mine"), "", NULL) == ESPL_OK);
	(void)espl_kit_offer(kit, "small", 2, 10, 1.0);
	item = espl_kit_item(kit, 1, 8);
	espl_kit_grant(kit, item, 2, 1);
	assert(espl_kit_place(kit) == ESPL_OK); /* there is no node yet */
	assert(espl_kit_calls(kit) == 0);
	(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	assert(espl_kit_place(kit) == ESPL_OK);
	assert(strcmp(espl_kit_log(kit), "place item=0 0.0 0.1\n") == 0);
	espl_kit_free(kit);
}

int
main(void)
{
	test_algorithm();
	test_allocator();
	test_placer();
	(void)puts("the plugins do as they should");
	return 0;
}
