/* pool_kit.h - jobs that share one cluster, for tests that ask an allocator for one decision at a
 * time. */
#ifndef POOL_KIT_H
#define POOL_KIT_H
#include <criterion/criterion.h>
#include <espalier/util.h>
#include "testkit.h"

/* The paper's law: a doubling keeps 0.8 of a GPU's speed. */
static const struct espl_point law[] = { { 1, 1 }, { 2, 1.6 }, { 4, 2.56 }, { 8, 4.096 },
	{ 16, 6.5536 } };

static inline struct espl_kit *
pool(const struct espl_plugin *plugin, const char *options, uint32_t gpus, uint32_t nodes)
{
	struct espl_kit *kit = espl_kit_new(1);

	cr_assert_eq(espl_kit_open(kit, plugin, options, NULL), ESPL_OK);
	(void)espl_kit_offer(kit, "node", gpus, nodes, 1.0);
	return kit;
}

static inline uint64_t
job(struct espl_kit *kit, double minutes)
{
	uint64_t id = espl_kit_item(kit, 1, 16);
	struct espl_item *item = espl_kit_item_at(kit, id);

	item->work_s = item->work_total_s = 60 * minutes;
	item->scaling = law;
	item->scaling_count = 5;
	item->resize_s = item->start_s = 0;
	return id;
}

/* The same, its nodes, of a GPU each, leased already. */
static inline struct espl_kit *
leased(const struct espl_plugin *plugin, const char *options, uint32_t nodes)
{
	struct espl_kit *kit = pool(plugin, options, 1, nodes);

	espl_kit_set_target(kit, 0, nodes);
	espl_kit_provision(kit);
	return kit;
}

/* One that runs, since that many minutes. */
static inline uint64_t
running(struct espl_kit *kit, double minutes, uint32_t gpus, double since)
{
	uint64_t id = job(kit, minutes);
	struct espl_item *item = espl_kit_item_at(kit, id);

	espl_kit_grant(kit, id, gpus, 1);
	item->started = (espl_time)(-since * 60e9);
	item->flags |= ESPL_ITEM_RUNNING;
	return id;
}

static inline uint32_t
gpus(struct espl_kit *kit, uint64_t id)
{
	return espl_kit_item_at(kit, id)->granted.gpus;
}

static inline void
decide(struct espl_kit *kit)
{
	cr_assert_eq(espl_kit_allocate(kit), ESPL_OK, "%s", espl_kit_log(kit));
	cr_assert_eq(espl_kit_refused(kit), 0, "%s", espl_kit_log(kit));
	espl_kit_provision(kit);
}

#endif
