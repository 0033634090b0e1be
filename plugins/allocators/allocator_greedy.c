/* allocator_greedy.c - ModelArts' greedy allocator, in the four scenarios that Hu et al. describe.
 *
 * Every period: (1) idle GPUs go to those that wait, as many as each can take; (2) if nobody waits,
 * to those that trained shortest, doubled as often as it fits; (3) if there are none and somebody
 * waits, who trained longest is halved for the first in the queue, again and again; (4) else
 * nothing changes.  The scenarios follow one another within a decision.  Between decisions there is
 * (1) alone.  No estimate of what jobs have left is looked at.
 */
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/array.h>
#include "pool.h"

enum { GPUS, OFFER, PERIOD, HALVINGS, EVENTS };

static const struct espl_option options[] = {
	POOL_OPTIONS("jobs"),
	{ .name = "period",
	    .help = "time between two decisions",
	    .type = ESPL_OPT_SPAN,
	    .fallback = "5m",
	    .min = "1s",
	    .max = "7d" },
	{ .name = "halvings",
	    .help = "how many running jobs to shrink for waiting ones per decision: as many as "
		    "needed, or one",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "all|one",
	    .fallback = "all" },
	{ .name = "events",
	    .help = "also decide whenever a job or node arrives or leaves",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "false" },
};

/* a job with GPUs */
struct runner {
	uint32_t index;       /* in view and roster */
	uint32_t gpus;        /* at the end of the decision */
	espl_time started;    /* NEVER: in this decision */
	uint32_t whole, zero; /* 1: it may change its width */
};
#define GREEDY_MAGIC 0x71d2e99eu

struct greedy {
	uint32_t magic; /* GREEDY_MAGIC */
	const char *offer_name;
	uint32_t gpus_max, offer; /* offer: ESPL_ANY: not chosen yet */
	uint32_t one, events;
	uint32_t count, room;
	espl_span period;
	espl_time next;
	struct runner *runners; /* by index */
	struct espl_roster roster;
};

static void
destroy(void *self)
{
	struct greedy *greedy = self;

	ESPL_ASSERT(greedy != NULL && greedy->magic == GREEDY_MAGIC);
	greedy->magic = 0;
	espl_roster_free(&greedy->roster);
	free(greedy->runners);
	free(greedy);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct greedy *greedy = calloc(1, sizeof *greedy);

	(void)host;
	if (greedy == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	greedy->magic = GREEDY_MAGIC;
	greedy->gpus_max = (uint32_t)config->values[GPUS].as.i;
	if (config->values[OFFER].source != ESPL_UNSET)
		greedy->offer_name = config->values[OFFER].as.s;
	greedy->period = config->values[PERIOD].as.i;
	greedy->one = config->values[HALVINGS].as.i == 1;
	greedy->events = config->values[EVENTS].as.i != 0;
	greedy->offer = ESPL_ANY;
	greedy->roster.widest = pool_widest;
	*self = greedy;
	return ESPL_OK;
}

/* ---- the jobs ----------------------------------------------------------------------------- */

static int
add_runner(struct greedy *greedy, uint32_t index, uint32_t gpus, espl_time started, int whole)
{
	struct runner *more =
	    espl_array_grow(greedy->runners, &greedy->room, greedy->count + 1, sizeof *more);

	if (more == NULL)
		return 0;
	greedy->runners = more;
	greedy->runners[greedy->count++] = (struct runner){ .index = index,
		.gpus = gpus,
		.started = started,
		.whole = whole != 0 };
	return 1;
}

/* Those with GPUs, in order of arrival.  0: out of memory. */
static int
list_runners(struct greedy *greedy, const struct espl_alloc_view *view)
{
	const struct espl_roster *roster = &greedy->roster;
	uint32_t i, left = roster->granted;

	greedy->count = 0;
	for (i = 0; i < roster->count && left > 0; i++) {
		const struct espl_entry *entry = espl_roster_at(roster, i);

		if (entry->gpus == 0)
			continue;
		left--;
		if (!add_runner(greedy, i, entry->gpus, view->items[i]->started,
			!entry->fixed || (view->items[i]->flags & ESPL_ITEM_INPLACE) != 0))
			return 0;
	}
	ESPL_ASSERT(left == 0);
	return 1;
}

static uint64_t
in_use(const struct greedy *greedy)
{
	uint64_t used = 0;
	uint32_t i;

	for (i = 0; i < greedy->count; i++)
		used += greedy->runners[i].gpus;
	return used;
}

/* Another width of the runner: the next wider (way 1) of at most `most`, or narrower (-1) one; 0:
 * none. */
static uint32_t
other_width(const struct greedy *greedy, const struct espl_alloc_view *view,
    const struct runner *runner, int way, uint32_t most)
{
	uint32_t width[POOL_WIDTHS], i, best = 0;
	uint32_t count =
	    pool_widths(view->items[runner->index], greedy->roster.per_node, most, width);

	for (i = 0; i < count && runner->whole; i++) {
		if (way > 0 && width[i] > runner->gpus)
			return width[i];
		if (way < 0 && width[i] < runner->gpus)
			best = width[i];
	}
	return best;
}

/* ---- the scenarios ------------------------------------------------------------------------ */

/* 1: those that wait, from *queue on, as far as GPUs are idle.  0: out of memory. */
static int
begin_waiting(struct greedy *greedy, const struct espl_alloc_view *view, uint32_t total,
    uint64_t *idle, uint32_t *queue)
{
	struct espl_roster *roster = &greedy->roster;
	uint32_t width[POOL_WIDTHS], count;

	while (*queue<roster->count && * idle> 0) {
		count = pool_widths(view->items[*queue], roster->per_node, (uint32_t)*idle, width);
		if (count == 0 &&
		    pool_widths(view->items[*queue], roster->per_node, total, width) > 0)
			break; /* later items must not overtake it */
		if (count > 0) {
			if (!add_runner(greedy, *queue, width[count - 1], ESPL_NEVER, 1))
				return 0;
			*idle -= width[count - 1];
		}
		*queue = espl_roster_waiting(roster, *queue + 1);
	}
	return 1;
}

/* Does a train shorter than b?  Ties: the one that arrived first. */
static int
trains_shorter(const struct runner *a, const struct runner *b)
{
	return a->started != b->started ? a->started > b->started : a->index < b->index;
}

static int
by_training(const void *a, const void *b)
{
	return trains_shorter(a, b) ? -1 : trains_shorter(b, a);
}

/* 2: the shortest first, each doubled as often as it fits. */
static void
double_shortest(struct greedy *greedy, const struct espl_alloc_view *view, uint32_t total,
    uint64_t idle)
{
	uint32_t i, wider;

	qsort(greedy->runners, greedy->count, sizeof *greedy->runners, by_training);
	for (i = 0; i < greedy->count && idle > 0; i++) {
		struct runner *runner = &greedy->runners[i];

		while ((wider = other_width(greedy, view, runner, 1, total)) > 0 &&
		    wider - runner->gpus <= idle) {
			idle -= wider - runner->gpus;
			runner->gpus = wider;
		}
	}
}

/* 3: shrinks the longest-running item that can shrink; returns the number of GPUs freed, 0: none
 * can. */
static uint32_t
halve_longest(struct greedy *greedy, const struct espl_alloc_view *view, uint32_t total)
{
	struct runner *longest = NULL;
	uint32_t i, narrower, least = 0;

	for (i = 0; i < greedy->count; i++) {
		struct runner *runner = &greedy->runners[i];

		narrower = other_width(greedy, view, runner, -1, total);
		if (narrower == 0 ||
		    (longest != NULL &&
			(runner->started > longest->started ||
			    (runner->started == longest->started &&
				runner->index > longest->index))))
			continue;
		longest = runner;
		least = narrower;
	}
	if (longest == NULL)
		return 0;
	ESPL_ASSERT(least < longest->gpus);
	i = longest->gpus - least;
	longest->gpus = least;
	return i;
}

/* Fewer GPUs than are granted: those that started last go back to the queue. */
static void
preempt_latest(struct greedy *greedy, uint32_t total)
{
	while (in_use(greedy) > total) {
		struct runner *last = NULL;
		uint32_t i;

		for (i = 0; i < greedy->count; i++)
			if (greedy->runners[i].gpus > 0 &&
			    (last == NULL || greedy->runners[i].started >= last->started))
				last = &greedy->runners[i];
		ESPL_ASSERT(last != NULL);
		last->gpus = 0;
	}
}

/* ---- decisions ---------------------------------------------------------------------------- */

/* full 0: between decisions.  ESPL_E_NOMEM. */
static espl_status
decide_grants(struct greedy *greedy, const struct espl_alloc_view *view, uint32_t total, int full)
{
	struct espl_roster *roster = &greedy->roster;
	uint32_t queue = espl_roster_waiting(roster, 0), halved = 0, freed;
	uint64_t idle;

	if (!list_runners(greedy, view))
		return ESPL_E_NOMEM;
	preempt_latest(greedy, total);
	ESPL_ASSERT(in_use(greedy) <= total);
	idle = total - in_use(greedy);
	if (!begin_waiting(greedy, view, total, &idle, &queue))
		return ESPL_E_NOMEM;
	while (full && queue < roster->count && !(greedy->one && halved)) {
		freed = halve_longest(greedy, view, total);
		if (freed == 0)
			break;
		halved++;
		idle += freed;
		if (!begin_waiting(greedy, view, total, &idle, &queue))
			return ESPL_E_NOMEM;
	}
	if (full && queue >= roster->count)
		double_shortest(greedy, view, total, idle);
	return ESPL_OK;
}

static espl_status
report_grants(struct greedy *greedy, struct espl_alloc_sink *sink)
{
	espl_status status = ESPL_OK;
	uint32_t i;

	for (i = 0; i < greedy->count && status != ESPL_E_NOMEM; i++) {
		const struct runner *runner = &greedy->runners[i];

		if (espl_roster_at(&greedy->roster, runner->index)->gpus != runner->gpus)
			status = espl_roster_grant(&greedy->roster, sink, runner->index,
			    runner->gpus, 1);
	}
	return status == ESPL_E_NOMEM ? status : ESPL_OK;
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	const uint32_t changes =
	    ESPL_WHY_ARRIVAL | ESPL_WHY_DEPARTURE | ESPL_WHY_NODES | ESPL_WHY_NOTICE;
	struct greedy *greedy = self;
	espl_status status;
	uint64_t limit, aimed;
	int full;

	ESPL_ASSERT(greedy != NULL && greedy->magic == GREEDY_MAGIC);
	if (!pool_begin(view,
		&(struct pool_wish){ greedy->offer_name, OFFER, greedy->gpus_max, GPUS },
		&greedy->offer, &greedy->roster, &limit, &status, error))
		return status;
	aimed = pool_useful(&greedy->roster, limit);
	status = pool_aim(view, sink, greedy->offer, limit, &aimed, error);
	if (status != ESPL_OK)
		return status;
	ESPL_ASSERT(greedy->period > 0);
	full = view->now >= greedy->next || (greedy->events && (view->why & changes) != 0);
	if (view->now >= greedy->next)
		greedy->next = (view->now / greedy->period + 1) * greedy->period;
	status = decide_grants(greedy, view, pool_total(view, greedy->offer, aimed), full);
	if (status == ESPL_OK)
		status = report_grants(greedy, sink);
	if (status == ESPL_OK && greedy->roster.granted > 0)
		status = sink->wake_at(sink, greedy->next);
	return status == ESPL_E_NOMEM ? espl_fail(error, status, "out of memory") : status;
}

static const struct espl_allocator_ops ops = {
	ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate,
};

ESPL_PLUGIN(allocator, greedy) = {
	ESPL_HEAD(ESPL_ALLOCATOR, "greedy"),
	.version = "0.1",
	.summary =
	    "keep all GPUs busy: double new jobs, halve the longest-running ones (ModelArts)",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
