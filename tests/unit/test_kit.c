/* The test kit refuses what the host refuses, and takes what it takes: what a plugin's author sees
 * in the kit's log.  The plugins under test are here and do as they are told. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <espalier/kit/hold.h>
#include <espalier/kit/rung_table.h>
#include <espalier/util.h>
#include "testkit.h"

static void (*script)(const void *view, void *sink); /* what the entry under test does */

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	(void)host;
	(void)config;
	(void)error;
	*self = NULL;
	return ESPL_OK;
}

static void
destroy(void *self)
{
	(void)self;
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)error;
	script(view, sink);
	return ESPL_OK;
}

static espl_status
place(void *self, const struct espl_place_view *view, struct espl_place_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)error;
	script(view, sink);
	return ESPL_OK;
}

static const struct espl_allocator_ops alloc_ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate };
static const struct espl_placer_ops place_ops = { ESPL_TABLE(struct espl_placer_ops),
	.place = place };
static const struct espl_plugin allocator = { ESPL_HEAD(ESPL_ALLOCATOR, "told"), .version = "1",
	.summary = "s", .option_size = sizeof(struct espl_option), .ops = &alloc_ops.head,
	.create = create, .destroy = destroy };
static const struct espl_plugin placer = { ESPL_HEAD(ESPL_PLACER, "told"), .version = "1",
	.summary = "s", .option_size = sizeof(struct espl_option), .ops = &place_ops.head,
	.create = create, .destroy = destroy };

#define SAYS(kit_, says_) \
	cr_expect(strstr(espl_kit_log(kit_), (says_)) != NULL, "says '%s'", espl_kit_log(kit_))

static struct espl_kit *
opened(const struct espl_plugin *plugin)
{
	struct espl_kit *kit = espl_kit_new(1);

	cr_assert_eq(espl_kit_open(kit, plugin, "", NULL), ESPL_OK);
	(void)espl_kit_offer(kit, "box", 4, 3, 1.0);
	return kit;
}

/* ---- allocators -------------------------------------------------------------------------- */

static espl_status
grant(struct espl_alloc_sink *sink, uint64_t item, uint32_t gpus, uint32_t offer, uint32_t flags)
{
	struct espl_grant g = ESPL_INIT(struct espl_grant);

	g.item = item;
	g.share.gpus = gpus;
	g.share.packing = 1;
	g.offer = offer;
	g.flags = flags;
	return sink->grant(sink, &g);
}

static espl_status
target(struct espl_alloc_sink *sink, uint32_t nodes)
{
	struct espl_target t = ESPL_INIT(struct espl_target);

	t.nodes = nodes;
	return sink->target(sink, &t);
}

static void
grants_twice(const void *view, void *sink)
{
	(void)view;
	(void)target(sink, 2);
	(void)grant(sink, 0, 1, ESPL_ANY, 0);
	(void)grant(sink, 0, 2, ESPL_ANY, 0);
}

static void
grants_and_queues(const void *view, void *sink)
{
	(void)view;
	(void)target(sink, 2);
	(void)grant(sink, 0, 2, ESPL_ANY, ESPL_GRANT_QUEUED);
	(void)grant(sink, 0, 1, ESPL_ANY, 0);
}

Test(kit, an_item_is_granted_once_in_an_answer)
{
	struct espl_kit *kit = opened(&allocator);
	uint64_t item = espl_kit_item(kit, 1, 4);

	script = grants_twice;
	cr_expect_eq(espl_kit_allocate(kit), ESPL_E_REJECTED);
	SAYS(kit, "!! grants item 0 twice in one answer\n");
	cr_expect_eq(espl_kit_item_at(kit, item)->granted.gpus, 0, "nothing of it counts");
	cr_expect_eq(espl_kit_target(kit, 0), 0);
	espl_kit_clear(kit);
	script = grants_and_queues;
	cr_expect_eq(espl_kit_allocate(kit), ESPL_OK, "what is meant for reports is no grant: %s",
	    espl_kit_log(kit));
	cr_expect_eq(espl_kit_allocate(kit), ESPL_OK, "in the next answer it may be granted again");
	cr_expect_eq(espl_kit_item_at(kit, item)->granted.gpus, 1);
	espl_kit_free(kit);
}

static void
asks_too_much(const void *view, void *sink)
{
	(void)view;
	cr_expect_eq(target(sink, 4), ESPL_E_REJECTED, "three are sold");
	cr_expect_eq(target(sink, 3), ESPL_OK);
	cr_expect_eq(grant(sink, 0, 1, 7, 0), ESPL_E_REJECTED);
	cr_expect_eq(grant(sink, 0, 1, 0, 0), ESPL_OK);
}

Test(kit, what_there_is_not_is_refused_with_the_reason)
{
	struct espl_kit *kit = opened(&allocator);

	(void)espl_kit_item(kit, 1, 4);
	script = asks_too_much;
	cr_expect_eq(espl_kit_allocate(kit), ESPL_OK);
	SAYS(kit,
	    "! target offer=0 nodes=4: a target of 4 nodes of offer 0, which has at most 3 "
	    "(nodes_max)\n");
	SAYS(kit,
	    "! grant item=0 gpus=1 offer=7: a grant of 1 GPU of offer 7, which does not exist, for "
	    "item 0\n");
	cr_expect_eq(espl_kit_refused(kit), 2);
	espl_kit_free(kit);
}

static void
watches_and_asks_for_what_is_reserved(const void *view, void *sink)
{
	struct espl_alloc_sink *s = sink;

	(void)view;
	cr_expect_eq(s->watch_prices(s, 0, 1), ESPL_OK);
	cr_expect_eq(s->watch_prices(s, 7, 1), ESPL_E_REJECTED);
	cr_expect_eq(grant(s, 0, 1, ESPL_ANY, 0x1u), ESPL_E_REJECTED);
	cr_expect_eq(grant(s, 0, 1, ESPL_ANY, 0x2u), ESPL_E_REJECTED);
}

Test(kit, reserved_flags_and_unknown_offers_are_refused)
{
	struct espl_kit *kit = opened(&allocator);

	(void)espl_kit_item(kit, 1, 4);
	script = watches_and_asks_for_what_is_reserved;
	cr_expect_eq(espl_kit_allocate(kit), ESPL_OK);
	SAYS(kit, "watch_prices offer=0 on\n");
	SAYS(kit, "! watch_prices offer=7 on: watch_prices of offer 7, which does not exist\n");
	SAYS(kit, " with the flags 0x1, which are reserved\n");
	SAYS(kit, " with the flags 0x2, which are reserved\n");
	cr_expect_eq(espl_kit_refused(kit), 3);
	espl_kit_free(kit);
}

/* ---- placers ----------------------------------------------------------------------------- */

static uint32_t must;     /* gangs of the last view that MUST move */
static uint32_t retiring; /* nodes of it that drain */

static void
look(const struct espl_place_view *view)
{
	must = retiring = 0;
	for (uint32_t i = 0; i < view->changed_count; i++)
		must += (view->changed[i]->flags & ESPL_GANG_MUST) != 0;
	for (uint32_t i = 0; i < view->node_count; i++)
		retiring += (view->nodes[i]->flags & ESPL_NODE_RETIRING) != 0;
}

static void
gives_up_first(const void *view, void *sink)
{
	struct espl_place_sink *s = sink;

	look(view);
	cr_expect_eq(s->give_up(s, 0), ESPL_OK);
	cr_expect_eq(s->give_up(s, 9), ESPL_E_REJECTED);
}

static void
moves_away(const void *view, void *sink)
{
	struct espl_place_sink *s = sink;
	struct espl_slot slot = { 1, 0, 1 };

	look(view);
	cr_expect_eq(s->place(s, 0, &slot, 1), ESPL_OK);
}

Test(kit, an_occupied_node_that_is_given_up_drains)
{
	struct espl_kit *kit = opened(&placer);
	struct espl_slot at = { 0, 0, 1 };
	uint64_t item;

	(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	item = espl_kit_item(kit, 1, 4);
	espl_kit_grant(kit, item, 1, 1);
	espl_kit_put(kit, item, &at, 1);
	espl_kit_surplus(kit, 0, 1);
	script = gives_up_first;
	cr_expect_eq(espl_kit_place(kit), ESPL_OK, "as the host: %s", espl_kit_log(kit));
	SAYS(kit, "! give_up node=9: giving up node 9, which does not exist\n");
	cr_expect_eq(espl_kit_nodes(kit, 0), 2, "somebody stands there");
	script = moves_away;
	cr_expect_eq(espl_kit_place(kit), ESPL_OK, "%s", espl_kit_log(kit));
	cr_expect_eq(must, 1, "its gang is told to leave");
	cr_expect_eq(retiring, 1);
	cr_expect_eq(espl_kit_nodes(kit, 0), 1, "now it has gone");
	espl_kit_free(kit);
}

/* A rung table that was freed, or never was one, is not used. */
Test(kit, a_wrong_object_ends_the_process)
{
	struct espl_rung_table table = { .rung_count = 1 };
	char text[400] = "";
	int fds[2], status;
	size_t got = 0;
	ssize_t n;
	pid_t pid;

	cr_assert_eq(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		(void)espl_rung_table_add(&table, 1, 1, NULL);
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], text + got, sizeof text - 1 - got)) > 0)
		got += (size_t)n;
	close(fds[0]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	cr_assert_not_null(strstr(text, "rung_table.c:"), "%s", text);
	cr_assert_not_null(strstr(text, "table->magic == ESPL_RUNG_TABLE_MAGIC"), "%s", text);
}

/* A cloud may also offer nodes without GPUs. */
Test(kit, an_offer_without_gpus_needs_no_spare_nodes)
{
	const struct espl_offer offer = { .size = sizeof offer, .gpus = 0 };
	const struct espl_offer *const offers[] = { &offer };
	const struct espl_alloc_view view = { .offers = offers, .offer_count = 1 };

	cr_assert_eq(espl_hold_spare(&view, 0), 0);
}
