/* judge.c - what a policy may answer: see judge.h. */
#include "judge.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/util.h>
#include <espalier/kit/rules.h>

#define BRACKETS_MAX 100000u
#define PLAN_STAGES_MAX 1000000u
#define HORIZON_MAX 10000u /* steps */
#define STATUS_MAX 64u     /* bytes of the status of an objective, with its end */

static const char *ESPL_PRINTF(2, 3) refuse(struct espl_judge *judge, const char *format, ...)
{
	va_list list;

	judge->status = ESPL_E_REJECTED;
	va_start(list, format);
	(void)vsnprintf(judge->text, sizeof judge->text, format, list);
	va_end(list);
	return judge->text;
}

/* A struct that its author began with ESPL_INIT has its size, and 0 in what is reserved. */
static const char *
judge_struct(struct espl_judge *judge, const char *what, uint32_t size, size_t least, uint64_t zero)
{
	if (size < least)
		return refuse(judge, "%s whose size is not set: begin with ESPL_INIT", what);
	if (zero != 0)
		return refuse(judge, "%s whose field 'zero' is not 0: begin with ESPL_INIT", what);
	return NULL;
}

/* ---- algorithms -------------------------------------------------------------------------- */

static const char *
judge_moment(struct espl_judge *judge, const char *what)
{
	if (!judge->asking)
		return refuse(judge, "%s outside next_group", what);
	return judge->finished ? refuse(judge, "%s after finish", what) : NULL;
}

const char *
espl_judge_begin(struct espl_judge *judge, const struct espl_group *group)
{
	const char *why = judge_moment(judge, "a group started");

	return why != NULL
	    ? why
	    : judge_struct(judge, "a group", group->size, sizeof *group, group->zero);
}

/* A configuration must be what the space makes of it: within bounds, on its steps, NaN exactly
 * where a parameter is inactive. */
static int
is_in_space(const struct espl_judge *judge, const double *values)
{
	const struct espl_space *space = judge->space;
	double *copy = judge->scratch;
	uint32_t i, missing;

	if (space == NULL)
		return 1;
	ESPL_ASSERT(copy != NULL || space->param_count == 0);
	memcpy(copy, values, space->param_count * sizeof *copy);
	if (space->snap(space, copy, &missing) != ESPL_OK)
		return 0;
	for (i = 0; i < space->param_count; i++)
		if (isnan(copy[i]) ? !isnan(values[i])
				   : !(fabs(copy[i] - values[i]) <= 1e-9 * fabs(copy[i])))
			return 0;
	return 1;
}

#define FORBIDDEN "a configuration that the user forbids (espl_space_allows)"

static int
is_allowed(const struct espl_judge *judge, const double *values)
{
	return judge->space == NULL || espl_space_allows(judge->space, values);
}

static const char *
judge_fresh(struct espl_judge *judge, uint64_t group, const struct espl_start *start)
{
	if (start->values == NULL)
		return refuse(judge, "a fresh start without a configuration (in group %" PRIu64 ")",
		    group);
	if (!is_in_space(judge, start->values))
		return refuse(judge, "a configuration outside of the space (in group %" PRIu64 ")",
		    group);
	return is_allowed(judge, start->values)
	    ? NULL
	    : refuse(judge, FORBIDDEN " (in group %" PRIu64 ")", group);
}

static const char *
judge_continue(struct espl_judge *judge, const struct espl_start *start)
{
	uint32_t marks = 0;
	const struct espl_trial *trial = judge->trial(judge->ctx, start->trial, &marks);
	const char *wrong = NULL;

	if (trial == NULL)
		wrong = "a start from a trial that does not exist";
	else if (trial->state != ESPL_TRIAL_PAUSED)
		wrong = "continuing a trial that is not paused";
	else if ((marks & ESPL_JUDGE_CONTINUED) != 0)
		wrong = "continuing a trial twice";
	else if ((marks & ESPL_JUDGE_DROPPED) != 0)
		wrong = "continuing a trial that was dropped";
	else if (start->budget <= trial->iteration)
		wrong = "continuing a trial to a budget that it has already reached";
	return wrong == NULL ? NULL
			     : refuse(judge, "%s (trial %" PRIu64 ", budget %" PRIu64 ")", wrong,
				   start->trial, start->budget);
}

/* Is the checkpoint that a clone needs kept, or can its source still save it? */
static int
can_clone(const struct espl_trial *source, uint32_t marks, uint64_t checkpoint)
{
	int here = (marks & ESPL_JUDGE_CAN_SAVE) != 0 ||
	    (source->state == ESPL_TRIAL_PAUSED && source->iteration > 0 &&
		(marks & ESPL_JUDGE_DROPPED) == 0);
	int trains = source->state == ESPL_TRIAL_WAITING || source->state == ESPL_TRIAL_RUNNING;

	if (checkpoint == 0)
		return source->checkpoint > 0 || here || trains;
	return source->checkpoint == checkpoint || (here && source->iteration == checkpoint);
}

static const char *
judge_clone(struct espl_judge *judge, const struct espl_start *start)
{
	uint32_t marks = 0;
	const struct espl_trial *source = judge->trial(judge->ctx, start->trial, &marks);
	const char *wrong = NULL;

	if (source == NULL)
		wrong = "a start from a trial that does not exist";
	else if (start->values != NULL && !is_in_space(judge, start->values))
		wrong = "a configuration outside of the space";
	else if (start->values != NULL && !is_allowed(judge, start->values))
		wrong = FORBIDDEN;
	else if (judge->no_saves)
		wrong = "a clone although trials do not save checkpoints (trial.checkpoint)";
	if (wrong != NULL)
		return refuse(judge, "%s (trial %" PRIu64 ", budget %" PRIu64 ")", wrong,
		    start->trial, start->budget);
	if (can_clone(source, marks, start->checkpoint))
		return NULL;
	if (start->checkpoint == 0)
		(void)refuse(judge,
		    "a clone of trial %" PRIu64 ", which has no checkpoint and cannot save one",
		    start->trial);
	else
		(void)refuse(judge,
		    "a clone of checkpoint %" PRIu64 " of trial %" PRIu64 ", which is not kept",
		    start->checkpoint, start->trial);
	judge->status = ESPL_E_UNKNOWN;
	return judge->text;
}

static int
is_hint(double weight, uint32_t gpus_min, uint32_t gpus_max)
{
	return weight >= 0 && !isinf(weight) && (gpus_max == 0 || gpus_min <= gpus_max);
}

const char *
espl_judge_add(struct espl_judge *judge, uint64_t group, const struct espl_start *start)
{
	const char *why = judge_moment(judge, "a trial added");

	if (why == NULL)
		why = judge_struct(judge, "a start", start->size, sizeof *start, 0);
	if (why != NULL)
		return why;
	if (!judge->takes(judge->ctx, group))
		return refuse(judge,
		    "a trial added to group %" PRIu64 ", which is closed or does not exist", group);
	if (start->how < ESPL_FRESH || start->how > ESPL_CLONE)
		return refuse(judge,
		    "a start (how %" PRIu32
		    ") that is not fresh, continued or cloned, in group %" PRIu64,
		    start->how, group);
	if (start->how != ESPL_CONTINUE && judge->trials >= ESPL_JUDGE_TRIALS_MAX)
		return refuse(judge, "a trial beyond the limit of %u per experiment",
		    ESPL_JUDGE_TRIALS_MAX);
	if (start->budget == 0)
		return refuse(judge, "a start with a budget of 0 iterations, in group %" PRIu64,
		    group);
	if (!is_hint(start->weight, start->gpus_min, start->gpus_max))
		return refuse(judge,
		    "a start with an invalid hint: weight %g, %" PRIu32 " to %" PRIu32
		    " GPUs, in group %" PRIu64,
		    start->weight, start->gpus_min, start->gpus_max, group);
	return start->how == ESPL_FRESH   ? judge_fresh(judge, group, start)
	    : start->how == ESPL_CONTINUE ? judge_continue(judge, start)
					  : judge_clone(judge, start);
}

const char *
espl_judge_close(struct espl_judge *judge, uint64_t group)
{
	if (!judge->asking)
		return refuse(judge, "closing group %" PRIu64 " outside next_group", group);
	return judge->takes(judge->ctx, group)
	    ? NULL
	    : refuse(judge, "closing group %" PRIu64 ", which is not open", group);
}

const char *
espl_judge_finish(struct espl_judge *judge)
{
	return judge->asking ? NULL : refuse(judge, "finish outside next_group");
}

const char *
espl_judge_verdict(struct espl_judge *judge, uint64_t id, espl_verdict verdict)
{
	uint32_t marks;
	const struct espl_trial *trial = judge->trial(judge->ctx, id, &marks);

	if (verdict < ESPL_SAVE || verdict > ESPL_STOP)
		return refuse(judge, "an unknown verdict %" PRIu32 " on trial %" PRIu64, verdict,
		    id);
	if (trial == NULL || trial->state == ESPL_TRIAL_ENDED || trial->state == ESPL_TRIAL_FAILED)
		return refuse(judge,
		    "a verdict on trial %" PRIu64 ", which has ended or does not exist", id);
	return NULL;
}

const char *
espl_judge_drop(struct espl_judge *judge, uint64_t id)
{
	uint32_t marks;
	const struct espl_trial *trial = judge->trial(judge->ctx, id, &marks);

	if (trial == NULL)
		return refuse(judge, "a drop of trial %" PRIu64 ", which does not exist", id);
	if (trial->state == ESPL_TRIAL_WAITING || trial->state == ESPL_TRIAL_RUNNING)
		return refuse(judge,
		    "a drop of trial %" PRIu64 ", which is still running (stop it first)", id);
	return NULL;
}

const char *
espl_judge_hint(struct espl_judge *judge, uint64_t id, double weight, uint32_t gpus_min,
    uint32_t gpus_max)
{
	if (id < judge->trials && is_hint(weight, gpus_min, gpus_max))
		return NULL;
	return refuse(judge,
	    "an invalid hint for trial %" PRIu64 " with weight %g and %" PRIu32 " to %" PRIu32
	    " GPUs",
	    id, weight, gpus_min, gpus_max);
}

const char *
espl_judge_spec(struct espl_judge *judge, const struct espl_spec *spec)
{
	uint32_t b, s;

	if (judge->declared)
		return refuse(judge, "a second spec");
	if (spec->bracket_count == 0 || spec->bracket_count > BRACKETS_MAX)
		return refuse(judge,
		    "a spec of %" PRIu32 " brackets, which must be between 1 and %u",
		    spec->bracket_count, BRACKETS_MAX);
	for (b = 0; b < spec->bracket_count; b++) {
		const struct espl_bracket *bracket = spec->brackets[b];

		if (bracket->stage_count == 0)
			return refuse(judge, "bracket %" PRIu32 " of a spec without stages", b);
		for (s = 0; s < bracket->stage_count; s++)
			if (bracket->stages[s]->trials == 0 || bracket->stages[s]->iterations == 0)
				return refuse(judge,
				    "stage %" PRIu32 " of bracket %" PRIu32
				    " of a spec without trials or iterations",
				    s, b);
	}
	return NULL;
}

const char *
espl_judge_wake(struct espl_judge *judge, espl_time at)
{
	char text[200];
	const char *wrong = espl_wake_wrong(at, judge->now, text, sizeof text);

	return wrong != NULL ? refuse(judge, "a wake_at at %s", wrong) : NULL;
}

/* ---- allocators -------------------------------------------------------------------------- */

const char *
espl_judge_grant(struct espl_judge *judge, const struct espl_grant *grant)
{
	char text[200];
	const char *wrong = judge_struct(judge, "a grant", grant->size, sizeof *grant, grant->zero);

	if (wrong != NULL)
		return wrong;
	wrong = espl_grant_wrong(grant, judge->item(judge->ctx, grant->item), judge->offer_count,
	    text, sizeof text);
	return wrong != NULL ? refuse(judge, "a grant of %s", wrong) : NULL;
}

const char *
espl_judge_target(struct espl_judge *judge, const struct espl_target *target)
{
	char text[200];
	const char *wrong =
	    judge_struct(judge, "a target", target->size, sizeof *target, target->zero);

	if (wrong != NULL)
		return wrong;
	wrong = espl_target_wrong(target, judge->offers, judge->offer_count, text, sizeof text);
	return wrong != NULL ? refuse(judge, "a target of %s", wrong) : NULL;
}

/* The machines are those of the pool. */
static const char *
judge_control(struct espl_judge *judge)
{
	return judge->shares ? refuse(judge,
				   "a claim or retirement of a node, or a watch on prices, by an "
				   "allocator that does not control the cluster")
			     : NULL;
}

const char *
espl_judge_retire(struct espl_judge *judge, uint64_t node)
{
	const char *why = judge_control(judge);

	if (why != NULL || judge->node(judge->ctx, node) != NULL)
		return why;
	return refuse(judge, "retirement of node %" PRIu64 ", which does not exist", node);
}

const char *
espl_judge_claim(struct espl_judge *judge, uint64_t id)
{
	const char *why = judge_control(judge);
	const struct espl_node *node = judge->node(judge->ctx, id);
	uint32_t i, residents = 0;

	if (why != NULL)
		return why;
	for (i = 0; node != NULL && i < node->gpu_count; i++)
		residents += node->gpus[i]->residents;
	return node != NULL && residents == 0
	    ? NULL
	    : refuse(judge, "claim of node %" PRIu64 ", which does not exist or is in use", id);
}

const char *
espl_judge_watch(struct espl_judge *judge, uint32_t offer)
{
	const char *why = judge_control(judge);

	if (why != NULL || offer < judge->offer_count)
		return why;
	return refuse(judge, "watch_prices of offer %" PRIu32 ", which does not exist", offer);
}

const char *
espl_judge_objective(struct espl_judge *judge, const char *status)
{
	if (status == NULL)
		return refuse(judge, "an objective without a status");
	return strlen(status) < STATUS_MAX
	    ? NULL
	    : refuse(judge, "an objective whose status is longer than %u bytes", STATUS_MAX - 1u);
}

const char *
espl_judge_horizon(struct espl_judge *judge, uint64_t item, const uint32_t *gpus, uint32_t steps)
{
	if (judge->item(judge->ctx, item) == NULL)
		return refuse(judge, "a horizon for item %" PRIu64 ", which does not exist", item);
	if (steps > HORIZON_MAX || (steps > 0 && gpus == NULL))
		return refuse(judge,
		    "a horizon of %" PRIu32 " steps for item %" PRIu64
		    ", which is too long or not given",
		    steps, item);
	return NULL;
}

static int
is_experiment(const struct espl_judge *judge, uint64_t id)
{
	uint32_t i;

	for (i = 0; i < judge->experiment_count; i++)
		if (judge->experiments[i]->id == id)
			return 1;
	return 0;
}

const char *
espl_judge_plan(struct espl_judge *judge, uint64_t experiment, const struct espl_plan *plan,
    int replan)
{
	const char *why;
	uint32_t i;

	if (judge->shares)
		return refuse(judge, "a plan for an experiment that only has a share of a cluster");
	if (replan && !is_experiment(judge, experiment))
		return refuse(judge, "a plan for experiment %" PRIu64 ", which does not exist",
		    experiment);
	if (plan == NULL)
		return refuse(judge, "a plan that is NULL");
	/* effort was appended later */
	why = judge_struct(judge, "a plan", plan->size, offsetof(struct espl_plan, effort),
	    plan->zero);
	if (why != NULL)
		return why;
	if (plan->stage_count == 0 || plan->stage_count > PLAN_STAGES_MAX || plan->stages == NULL)
		return refuse(judge, "a plan of %" PRIu32 " stages, or without their list",
		    plan->stage_count);
	for (i = 0; i < plan->stage_count; i++) {
		const struct espl_plan_stage *stage = plan->stages[i];

		if (stage == NULL || stage->gpus == 0 || stage->offer >= judge->offer_count)
			return refuse(judge,
			    "a plan whose stage %" PRIu32
			    " has no GPUs, or an offer that does not exist",
			    i);
	}
	return NULL;
}

void
espl_sum_count(struct espl_sum *sum, struct espl_share share, int sign)
{
	if (share.gpus == 0)
		return;
	ESPL_ASSERT(share.packing > 0 && share.packing <= ESPL_JUDGE_SHARERS_MAX);
	if (share.packing == 1)
		sum->whole += (uint64_t)(int64_t)(sign * (int64_t)share.gpus);
	else
		sum->parts[share.packing] += (uint32_t)sign;
	if (share.packing > sum->most)
		sum->most = share.packing;
}

uint64_t
espl_sum_gpus(const struct espl_sum *sum)
{
	uint64_t gpus = sum->whole;
	uint32_t c;

	for (c = 2; c <= sum->most; c++)
		gpus += (sum->parts[c] + c - 1) / c;
	return gpus;
}

static int
order_grants(const void *a, const void *b)
{
	const struct espl_judge_grant *x = a, *y = b;

	return x->item < y->item ? -1 : x->item > y->item;
}

const char *
espl_judge_grants(struct espl_judge *judge, struct espl_judge_grant *grants, size_t count,
    const struct espl_budget *budget)
{
	struct espl_sum sum = *budget->in_force;
	uint64_t there = 0, allowed, before = espl_sum_gpus(&sum), asked;
	const char *limit_is = "the nodes it asked for have";
	uint32_t o;
	size_t i;

	if (count > 1)
		qsort(grants, count, sizeof *grants, order_grants);
	for (i = 0; i < count; i++) {
		const struct espl_item *item = judge->item(judge->ctx, grants[i].item);

		if (i > 0 && grants[i].item == grants[i - 1].item)
			return refuse(judge, "grants item %" PRIu64 " twice in one answer",
			    grants[i].item);
		ESPL_ASSERT(item != NULL);
		espl_sum_count(&sum, item->granted, -1);
		espl_sum_count(&sum, grants[i].share, 1);
	}
	for (o = 0; budget->targets != NULL && o < judge->offer_count; o++)
		there += (uint64_t)budget->targets[o] * judge->offers[o]->gpus;
	if (budget->targets == NULL || budget->limit < there) {
		there = budget->limit;
		limit_is = budget->limit_is;
	}
	allowed = budget->excused && before > there ? before : there;
	asked = espl_sum_gpus(&sum);
	return asked <= allowed
	    ? NULL
	    : refuse(judge, "grants %" PRIu64 " GPUs, but %s %" PRIu64, asked, limit_is, there);
}

/* ---- placers ----------------------------------------------------------------------------- */

static int
has_slot(const struct espl_gang *gang, const struct espl_slot *slot)
{
	uint32_t k;

	for (k = 0; k < gang->slot_count; k++)
		if (gang->slots[k].node == slot->node && gang->slots[k].gpu == slot->gpu)
			return 1;
	return 0;
}

/* Is nothing new placed on the node?  A gang may keep the slots that it has there. */
static int
is_closed(const struct espl_node *node)
{
	return node->state != ESPL_NODE_READY ||
	    (node->flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED | ESPL_NODE_UNREACHABLE)) !=
	    0;
}

/* Why the gang may not use this slot; NULL: it may. */
static const char *
find_fault(const struct espl_gang *gang, const struct espl_node *node, const struct espl_slot *slot)
{
	if (node == NULL || slot->gpu >= node->gpu_count)
		return "does not exist";
	if (slot->packing != gang->share.packing)
		return "is granted with another packing";
	if (gang->offer != ESPL_ANY && gang->offer != node->offer)
		return "is of another offer than the grant";
	if (node->owner != gang->owner)
		return "is on a node of another owner";
	if (node->gpus[slot->gpu]->blocked != 0)
		return "is blocked";
	if (is_closed(node) && !has_slot(gang, slot))
		return "is on a node that takes no new gangs";
	return NULL;
}

/* Slots of one node stand together, none of them twice; a gang with ESPL_GANG_COLOCATE is on one
 * node or on whole ones. */
static const char *
judge_spread(struct espl_judge *judge, const struct espl_gang *gang, const struct espl_slot *slots,
    uint32_t count)
{
	uint32_t from, to, k;

	for (from = 0; from < count; from = to) {
		const struct espl_node *node = judge->node(judge->ctx, slots[from].node);

		for (k = 0; k < from; k++)
			if (slots[k].node == slots[from].node)
				return refuse(judge,
				    "a placement of item %" PRIu64 " whose slots on node %" PRIu64
				    " are not together",
				    gang->item, slots[k].node);
		for (to = from; to < count && slots[to].node == slots[from].node; to++)
			for (k = from; k < to; k++)
				if (slots[k].gpu == slots[to].gpu)
					return refuse(judge,
					    "a placement of item %" PRIu64 " on GPU %" PRIu32
					    " of node %" PRIu64 ", which is listed twice",
					    gang->item, slots[k].gpu, slots[k].node);
		if ((gang->flags & ESPL_GANG_COLOCATE) != 0 && to - from < count &&
		    to - from != node->gpu_count)
			return refuse(judge,
			    "a placement of item %" PRIu64
			    " on parts of several nodes, which must be on one node or on whole "
			    "ones",
			    gang->item);
	}
	return NULL;
}

const char *
espl_judge_place(struct espl_judge *judge, uint64_t item, const struct espl_slot *slots,
    uint32_t count)
{
	const struct espl_gang *gang = judge->gang(judge->ctx, item);
	uint32_t i;

	if (gang == NULL)
		return refuse(judge, "a placement of item %" PRIu64 ", which has no grant", item);
	if ((gang->flags & ESPL_GANG_LOCKED) != 0)
		return refuse(judge, "a placement of item %" PRIu64 ", whose gang is locked", item);
	if (count > 0 && slots == NULL)
		return refuse(judge,
		    "a placement with %" PRIu32 " slots for item %" PRIu64
		    ", but without their list",
		    count, item);
	if (count != 0 && count != gang->share.gpus)
		return refuse(judge,
		    "a placement with %" PRIu32 " slots for item %" PRIu64
		    ", which is granted %" PRIu32,
		    count, item, gang->share.gpus);
	for (i = 0; i < count; i++) {
		const char *fault =
		    find_fault(gang, judge->node(judge->ctx, slots[i].node), &slots[i]);

		if (fault != NULL)
			return refuse(judge,
			    "a placement of item %" PRIu64 " on GPU %" PRIu32 " of node %" PRIu64
			    ", which %s",
			    item, slots[i].gpu, slots[i].node, fault);
	}
	return judge_spread(judge, gang, slots, count);
}

const char *
espl_judge_give_up(struct espl_judge *judge, uint64_t node)
{
	return judge->node(judge->ctx, node) != NULL
	    ? NULL
	    : refuse(judge, "giving up node %" PRIu64 ", which does not exist", node);
}

static int
order_slots(const void *a, const void *b)
{
	const struct espl_judge_slot *x = a, *y = b;

	if (x->slot.node != y->slot.node)
		return x->slot.node < y->slot.node ? -1 : 1;
	if (x->slot.gpu != y->slot.gpu)
		return x->slot.gpu < y->slot.gpu ? -1 : 1;
	return x->item < y->item ? -1 : x->item > y->item;
}

/* The gangs of one GPU after the answer: those that stay, and those that come. */
static const char *
judge_gpu(struct espl_judge *judge, const struct espl_judge_slot *list, size_t count)
{
	uint32_t packing = 0, others = 0, taken = 0;
	const struct espl_judge_slot *last = NULL;
	size_t i;
	int fits = 1;

	for (i = 0; i < count; i++)
		if (list[i].sign > 0) {
			fits &= last == NULL || last->slot.packing == list[i].slot.packing;
			last = &list[i];
			taken++;
		}
	if (last == NULL)
		return NULL;
	others = judge->reserved(judge->ctx, last->slot.node, last->slot.gpu, &packing) -
	    (uint32_t)(count - taken);
	if (others > 0)
		fits &= packing == last->slot.packing;
	return fits && others + taken <= last->slot.packing
	    ? NULL
	    : refuse(judge,
		  "places item %" PRIu64 " on GPU %" PRIu32 " of node %" PRIu64
		  ", which is occupied",
		  last->item, last->slot.gpu, last->slot.node);
}

const char *
espl_judge_places(struct espl_judge *judge, struct espl_judge_slot *list, size_t count)
{
	const char *why = NULL;
	size_t from, to;

	if (count > 1)
		qsort(list, count, sizeof *list, order_slots);
	for (from = 0; from < count && why == NULL; from = to) {
		for (to = from + 1; to < count && list[to].slot.node == list[from].slot.node &&
		     list[to].slot.gpu == list[from].slot.gpu;
		     to++)
			;
		why = judge_gpu(judge, list + from, to - from);
	}
	return why;
}
