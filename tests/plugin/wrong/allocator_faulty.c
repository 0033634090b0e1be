/* One GPU for each trial, until what the environment says goes wrong where it says: FAULT is how,
 * FAULT_AT the entry (allocate: at its fifth call). */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "wrong.h"

struct faulty {
	uint32_t calls;
};

static int
runs_over(volatile char *outer)
{
	volatile char here[4096];

	here[0] = outer[0];
	return here[0] == 0 ? 0 : runs_over(here) + here[0];
}

static void
go_wrong(const char *entry)
{
	const char *how = getenv("FAULT"), *at = getenv("FAULT_AT");
	volatile char start[1] = { 64 }; /* an address where nothing is */

	if (how == NULL || strcmp(at != NULL ? at : "allocate", entry) != 0)
		return;
	if (strcmp(how, "segv") == 0)
		*(volatile int *)(intptr_t)start[0] = 1;
	if (strcmp(how, "stack") == 0)
		(void)runs_over(start);
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "exit") == 0)
		exit(0);
	if (strcmp(how, "outside") == 0) { /* somebody else sends the signal */
		pid_t self = getpid();

		if (fork() == 0) {
			(void)kill(self, SIGABRT);
			_exit(0);
		}
		for (;;)
			(void)pause();
	}
	if (strcmp(how, "child") == 0 && fork() == 0)
		abort();
	if (strcmp(how, "fpe") == 0)
		(void)raise(SIGFPE);
}

/* Never has enough of its answer; ends after all, so that the test does. */
static void
talk(struct espl_alloc_sink *sink, espl_time now)
{
	const char *how = getenv("FAULT");

	for (int i = 0; how != NULL && strcmp(how, "talk") == 0 && i < 5000000; i++)
		(void)sink->wake_at(sink, now + 1);
}

/* Asks to be called, from its fifth call on, at an instant that it has computed wrongly. */
static void
ask_wrongly(struct espl_alloc_sink *sink, espl_time now)
{
	static const struct {
		const char *how;
		espl_time from_now, fixed;
	} wrong[] = { { "now", 0, 0 }, { "next", 1, 0 }, { "span", 10, 0 }, { "before", -1, 0 },
		{ "zero", 0, 1 }, { "negative", 0, -5 }, { "least", 0, INT64_MIN },
		{ "most", 0, INT64_MAX } };
	const char *how = getenv("FAULT");

	for (size_t i = 0; how != NULL && i < sizeof wrong / sizeof wrong[0]; i++)
		if (strcmp(how, wrong[i].how) == 0)
			(void)sink->wake_at(sink,
			    wrong[i].fixed != 0 ? wrong[i].fixed : now + wrong[i].from_now);
	if (how != NULL && strcmp(how, "seconds") == 0)
		(void)sink->wake_at(sink, now / ESPL_SECOND + 10);
}

/* Requests nodes, but grants nothing on the nodes that it gets. */
static int
gives_up(void)
{
	const char *how = getenv("FAULT");

	return how != NULL && strcmp(how, "waste") == 0;
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	(void)host;
	(void)config;
	go_wrong("create");
	*self = calloc(1, sizeof(struct faulty));
	return *self != NULL ? ESPL_OK : espl_fail(error, ESPL_E_NOMEM, "out of memory");
}

static void
destroy(void *self)
{
	go_wrong("destroy");
	free(self);
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	struct faulty *f = self;
	struct espl_target target = ESPL_INIT(struct espl_target);
	uint32_t room, used = 0;

	(void)error;
	if (++f->calls == 5) {
		go_wrong("allocate");
		talk(sink, view->now);
	}
	if (f->calls >= 5)
		ask_wrongly(sink, view->now);
	target.nodes = 2;
	room = view->offer_count > 0 ? target.nodes * view->offers[0]->gpus : 0;
	if (room > 0 && view->targets[0] != target.nodes)
		(void)sink->target(sink, &target);
	if (gives_up()) {
		for (uint32_t i = 0; i < view->node_count; i++)
			(void)sink->retire(sink, view->nodes[i]->id);
		return ESPL_OK;
	}
	for (uint32_t i = 0; i < view->item_count; i++)
		used += view->items[i]->granted.gpus;
	for (uint32_t i = 0; i < view->item_count && used < room; i++) {
		struct espl_grant grant = ESPL_INIT(struct espl_grant);

		if (view->items[i]->granted.gpus > 0)
			continue;
		grant.item = view->items[i]->id;
		grant.share.gpus = grant.share.packing = 1;
		grant.offer = ESPL_ANY;
		(void)sink->grant(sink, &grant);
		used++;
	}
	return ESPL_OK;
}

static espl_status
plan(void *self, const struct espl_plan_view *view, struct espl_plan_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)view;
	(void)sink;
	go_wrong("plan");
	return espl_fail(error, ESPL_E_UNSUPPORTED, "it makes no plans");
}

static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate, .plan = plan };

ESPL_PLUGIN(allocator, faulty) = { ESPL_HEAD(ESPL_ALLOCATOR, "faulty"), .version = "1",
	.summary = "goes wrong when told to", .ops = &ops.head, .create = create,
	.destroy = destroy };
