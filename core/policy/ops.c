/* ops.c - ops as bytes and as words. */
#include "policy/ops.h"

#include <string.h>

static void
put_start(const struct espl_start *s, uint32_t params, struct espl__buf *b)
{
	espl__put_u8(b, (uint8_t)s->how);
	espl__put_v64(b, s->trial == ESPL_NONE ? 0 : s->trial + 1);
	espl__put_v64(b, s->checkpoint);
	espl__put_v64(b, s->budget);
	espl__put_v64(b, s->tag);
	espl__put_f64(b, s->weight);
	espl__put_v64(b, s->gpus_min);
	espl__put_v64(b, s->gpus_max);
	espl__put_u8(b, s->values != NULL);
	if (s->values != NULL)
		espl__put_f64s(b, s->values, params);
}

static void
put_plan(const struct espl_plan *p, struct espl__buf *b)
{
	espl__put_v64(b, p->flags);
	espl__put_f64(b, p->gap);
	espl__put_v64(b, p->searched);
	if ((p->flags & ESPL_PLAN_EFFORT) != 0)
		espl__put_v64(b, p->effort);
	espl__put_v64(b, p->stage_count);
	for (uint32_t i = 0; i < p->stage_count; i++) {
		const struct espl_plan_stage *s = p->stages[i];
		espl__put_v64(b, s->bracket);
		espl__put_v64(b, s->stage);
		espl__put_v64(b, s->offer);
		espl__put_v64(b, s->gpus);
		espl__put_v64(b, s->gpus_per_trial);
		espl__put_v64(b, s->nodes);
		espl__put_z64(b, s->max_price_hour);
	}
}

static void
put_grant(const struct espl_grant *g, struct espl__buf *b)
{
	espl__put_v64(b, g->item);
	espl__put_v64(b, g->flags);
	espl__put_v64(b, g->share.gpus);
	espl__put_v64(b, g->share.packing);
	espl__put_v64(b, g->offer);
	espl__put_z64(b, g->max_price_hour);
}

static void
put_target(const struct espl_target *t, struct espl__buf *b)
{
	espl__put_v64(b, t->offer);
	espl__put_v64(b, t->nodes);
	espl__put_z64(b, t->max_price_hour);
}

static void
put_lists(const struct espl__op *op, struct espl__buf *b)
{
	if (op->type == ESPL__OP_HORIZON) {
		espl__put_v64(b, op->as.horizon.item);
		espl__put_v64(b, op->as.horizon.steps);
		for (uint32_t i = 0; i < op->as.horizon.steps; i++)
			espl__put_v64(b, op->as.horizon.gpus[i]);
		return;
	}
	espl__put_v64(b, op->as.place.item);
	espl__put_v64(b, op->as.place.count);
	for (uint32_t i = 0; i < op->as.place.count; i++) {
		espl__put_v64(b, op->as.place.slots[i].node);
		espl__put_v64(b, op->as.place.slots[i].gpu);
		espl__put_v64(b, op->as.place.slots[i].packing);
	}
}

void
espl__op_put(const struct espl__op *op, uint32_t params, struct espl__buf *b)
{
	espl__put_u8(b, (uint8_t)op->type);
	switch (op->type) {
	case ESPL__OP_BEGIN:
		espl__put_v64(b, op->as.group.flags);
		espl__put_v64(b, op->as.group.bracket);
		espl__put_v64(b, op->as.group.stage);
		espl__put_v64(b, op->as.group.concurrency);
		break;
	case ESPL__OP_ADD:
		espl__put_v64(b, op->as.add.group);
		put_start(&op->as.add.start, params, b);
		break;
	case ESPL__OP_CLOSE:
	case ESPL__OP_DROP:
	case ESPL__OP_RETIRE:
	case ESPL__OP_GIVE_UP:
	case ESPL__OP_SUBMIT:
	case ESPL__OP_CANCEL: espl__put_v64(b, op->as.id); break;
	case ESPL__OP_FINISH: break;
	case ESPL__OP_VERDICT:
		espl__put_v64(b, op->as.verdict.trial);
		espl__put_v64(b, op->as.verdict.verdict);
		break;
	case ESPL__OP_HINT:
		espl__put_v64(b, op->as.hint.trial);
		espl__put_f64(b, op->as.hint.weight);
		espl__put_v64(b, op->as.hint.gpus_min);
		espl__put_v64(b, op->as.hint.gpus_max);
		break;
	case ESPL__OP_WAKE: espl__put_z64(b, op->as.at); break;
	case ESPL__OP_GRANT: put_grant(&op->as.grant, b); break;
	case ESPL__OP_TARGET: put_target(&op->as.target, b); break;
	case ESPL__OP_PLAN:
		espl__put_v64(b, op->as.plan.experiment);
		put_plan(&op->as.plan.plan, b);
		break;
	case ESPL__OP_WATCH:
		espl__put_v64(b, op->as.watch.offer);
		espl__put_v64(b, op->as.watch.on);
		break;
	case ESPL__OP_OBJECTIVE:
		espl__put_f64(b, op->as.objective.value);
		espl__put_f64(b, op->as.objective.bound);
		espl__put_str(b, op->as.objective.status);
		break;
	case ESPL__OP_CLAIM:
		espl__put_v64(b, op->as.claim.node);
		espl__put_v64(b, op->as.claim.bracket);
		break;
	case ESPL__OP_HORIZON:
	case ESPL__OP_PLACE: put_lists(op, b); break;
	}
}

static uint32_t
get_u32(struct espl__reader *r)
{
	uint64_t n = espl__get_v64(r);

	if (n > UINT32_MAX)
		r->bad = 1;
	return (uint32_t)n;
}

static void
get_start(struct espl__reader *r, uint32_t params, struct espl__arena *arena, struct espl_start *s)
{
	uint64_t trial;

	s->size = (uint32_t)sizeof *s;
	s->how = espl__get_u8(r);
	trial = espl__get_v64(r);
	s->trial = trial == 0 ? ESPL_NONE : trial - 1;
	s->checkpoint = espl__get_v64(r);
	s->budget = espl__get_v64(r);
	s->tag = espl__get_v64(r);
	s->weight = espl__get_f64(r);
	s->gpus_min = get_u32(r);
	s->gpus_max = get_u32(r);
	if (espl__get_u8(r) != 0) {
		double *values = espl__arena_alloc(arena, (params + 1) * sizeof *values);
		espl__get_f64s(r, values, params);
		s->values = values;
	}
}

static void
get_plan(struct espl__reader *r, struct espl__arena *arena, struct espl_plan *p)
{
	const struct espl_plan_stage **list;
	uint64_t count;

	p->size = (uint32_t)sizeof *p;
	p->flags = get_u32(r);
	p->gap = espl__get_f64(r);
	p->searched = espl__get_v64(r);
	p->effort = (p->flags & ESPL_PLAN_EFFORT) != 0 ? espl__get_v64(r) : 0;
	count = espl__get_v64(r);
	if (r->bad || count > (uint64_t)(r->end - r->at) / 7) {
		r->bad = 1;
		return;
	}
	list = espl__arena_alloc(arena, (count + 1) * sizeof *list);
	for (uint64_t i = 0; i < count; i++) {
		struct espl_plan_stage *s = espl__arena_alloc(arena, sizeof *s);
		s->size = (uint32_t)sizeof *s;
		s->bracket = get_u32(r);
		s->stage = get_u32(r);
		s->offer = get_u32(r);
		s->gpus = get_u32(r);
		s->gpus_per_trial = get_u32(r);
		s->nodes = get_u32(r);
		s->max_price_hour = espl__get_z64(r);
		list[i] = s;
	}
	p->stages = list;
	p->stage_count = (uint32_t)count;
}

static void
get_grant(struct espl__reader *r, struct espl_grant *g)
{
	g->size = (uint32_t)sizeof *g;
	g->item = espl__get_v64(r);
	g->flags = get_u32(r);
	g->share.gpus = get_u32(r);
	g->share.packing = get_u32(r);
	g->offer = get_u32(r);
	g->max_price_hour = espl__get_z64(r);
}

static void
get_lists(struct espl__reader *r, struct espl__arena *arena, struct espl__op *op)
{
	uint64_t id = espl__get_v64(r), count = espl__get_v64(r);

	if (r->bad || count > (uint64_t)(r->end - r->at)) {
		r->bad = 1;
		return;
	}
	if (op->type == ESPL__OP_HORIZON) {
		uint32_t *gpus = espl__arena_alloc(arena, (count + 1) * sizeof *gpus);
		for (uint64_t i = 0; i < count; i++)
			gpus[i] = get_u32(r);
		op->as.horizon.item = id;
		op->as.horizon.steps = (uint32_t)count;
		op->as.horizon.gpus = gpus;
	} else {
		struct espl_slot *slots = espl__arena_alloc(arena, (count + 1) * sizeof *slots);
		for (uint64_t i = 0; i < count; i++) {
			slots[i].node = espl__get_v64(r);
			slots[i].gpu = get_u32(r);
			slots[i].packing = get_u32(r);
		}
		op->as.place.item = id;
		op->as.place.count = (uint32_t)count;
		op->as.place.slots = slots;
	}
}

static int
get_allocation(struct espl__reader *r, struct espl__arena *arena, struct espl__op *op)
{
	char *text;

	switch (op->type) {
	case ESPL__OP_GRANT: get_grant(r, &op->as.grant); return 0;
	case ESPL__OP_TARGET:
		op->as.target.size = (uint32_t)sizeof op->as.target;
		op->as.target.offer = get_u32(r);
		op->as.target.nodes = get_u32(r);
		op->as.target.max_price_hour = espl__get_z64(r);
		return 0;
	case ESPL__OP_PLAN:
		op->as.plan.experiment = espl__get_v64(r);
		get_plan(r, arena, &op->as.plan.plan);
		return 0;
	case ESPL__OP_WATCH:
		op->as.watch.offer = get_u32(r);
		op->as.watch.on = get_u32(r);
		return 0;
	case ESPL__OP_OBJECTIVE:
		op->as.objective.value = espl__get_f64(r);
		op->as.objective.bound = espl__get_f64(r);
		text = espl__arena_alloc(arena, 64);
		espl__get_str(r, text, 64);
		op->as.objective.status = text;
		return 0;
	case ESPL__OP_CLAIM:
		op->as.claim.node = espl__get_v64(r);
		op->as.claim.bracket = get_u32(r);
		return 0;
	case ESPL__OP_HORIZON:
	case ESPL__OP_PLACE: get_lists(r, arena, op); return 0;
	default: return -1;
	}
}

int
espl__op_get(struct espl__reader *r, uint32_t params, struct espl__arena *arena,
    struct espl__op *op)
{
	if (r->at == r->end)
		return 0;
	memset(op, 0, sizeof *op);
	op->type = (enum espl__op_type)espl__get_u8(r);
	switch (op->type) {
	case ESPL__OP_BEGIN:
		op->as.group.size = (uint32_t)sizeof op->as.group;
		op->as.group.flags = get_u32(r);
		op->as.group.bracket = get_u32(r);
		op->as.group.stage = get_u32(r);
		op->as.group.concurrency = get_u32(r);
		break;
	case ESPL__OP_ADD:
		op->as.add.group = espl__get_v64(r);
		get_start(r, params, arena, &op->as.add.start);
		break;
	case ESPL__OP_CLOSE:
	case ESPL__OP_DROP:
	case ESPL__OP_RETIRE:
	case ESPL__OP_GIVE_UP:
	case ESPL__OP_SUBMIT:
	case ESPL__OP_CANCEL: op->as.id = espl__get_v64(r); break;
	case ESPL__OP_FINISH: break;
	case ESPL__OP_VERDICT:
		op->as.verdict.trial = espl__get_v64(r);
		op->as.verdict.verdict = get_u32(r);
		break;
	case ESPL__OP_HINT:
		op->as.hint.trial = espl__get_v64(r);
		op->as.hint.weight = espl__get_f64(r);
		op->as.hint.gpus_min = get_u32(r);
		op->as.hint.gpus_max = get_u32(r);
		break;
	case ESPL__OP_WAKE: op->as.at = espl__get_z64(r); break;
	default:
		if (get_allocation(r, arena, op) != 0)
			return -1;
	}
	return r->bad ? -1 : 1;
}

static void
print_plan(const struct espl_plan *plan, struct espl__buf *b)
{
	espl__print(b, "plan");
	for (uint32_t i = 0; i < plan->stage_count && i < 12; i++)
		espl__print(b, "%s %u", i > 0 ? "," : "", (unsigned)plan->stages[i]->gpus);
	espl__print(b, "%s GPUs", plan->stage_count > 12 ? ", ..." : "");
}

static void
print_place(const struct espl__op *op, struct espl__buf *b)
{
	espl__print(b, "place item %llu on", (unsigned long long)op->as.place.item);
	for (uint32_t i = 0; i < op->as.place.count && i < 8; i++)
		espl__print(b, " %llu:%u", (unsigned long long)op->as.place.slots[i].node,
		    (unsigned)op->as.place.slots[i].gpu);
	if (op->as.place.count == 0)
		espl__print(b, " nothing");
}

const char *
espl__op_word(uint8_t type)
{
	static const char *const words[] = { [ESPL__OP_BEGIN] = "begin a group",
		[ESPL__OP_ADD] = "add a trial",
		[ESPL__OP_CLOSE] = "close a group",
		[ESPL__OP_FINISH] = "finish",
		[ESPL__OP_VERDICT] = "verdict on a trial",
		[ESPL__OP_DROP] = "drop a trial",
		[ESPL__OP_HINT] = "hint",
		[ESPL__OP_WAKE] = "wake up later",
		[ESPL__OP_GRANT] = "grant",
		[ESPL__OP_TARGET] = "target",
		[ESPL__OP_RETIRE] = "retire a node",
		[ESPL__OP_PLAN] = "plan",
		[ESPL__OP_WATCH] = "watch prices",
		[ESPL__OP_OBJECTIVE] = "objective",
		[ESPL__OP_HORIZON] = "horizon",
		[ESPL__OP_CLAIM] = "claim a node",
		[ESPL__OP_PLACE] = "place",
		[ESPL__OP_GIVE_UP] = "give up a node",
		[ESPL__OP_SUBMIT] = "submit a computation",
		[ESPL__OP_CANCEL] = "cancel a computation" };

	return type < sizeof words / sizeof words[0] && words[type] != NULL ? words[type] : "?";
}

void
espl__op_print(const struct espl__op *op, struct espl__buf *b)
{
	const struct espl_start *s = &op->as.add.start;

	switch (op->type) {
	case ESPL__OP_BEGIN:
		espl__print(b, "start %s group",
		    (op->as.group.flags & ESPL_GROUP_OPEN) ? "an open" : "a closed");
		break;
	case ESPL__OP_ADD:
		espl__print(b, "%s",
		    s->how == ESPL_FRESH       ? "start a new trial"
			: s->how == ESPL_CLONE ? "clone"
					       : "continue");
		if (s->how != ESPL_FRESH)
			espl__print(b, " trial %llu", (unsigned long long)s->trial);
		espl__print(b, " to iteration %llu", (unsigned long long)s->budget);
		if (s->values != NULL)
			espl__print(b, " with %.9g, ...", s->values[0]);
		break;
	case ESPL__OP_CLOSE:
		espl__print(b, "close group %llu", (unsigned long long)op->as.id);
		break;
	case ESPL__OP_FINISH: espl__print(b, "finish the search"); break;
	case ESPL__OP_VERDICT:
		espl__print(b, "%s trial %llu",
		    op->as.verdict.verdict == ESPL_SAVE        ? "save"
			: op->as.verdict.verdict == ESPL_PAUSE ? "pause"
							       : "stop",
		    (unsigned long long)op->as.verdict.trial);
		break;
	case ESPL__OP_DROP: espl__print(b, "drop trial %llu", (unsigned long long)op->as.id); break;
	case ESPL__OP_HINT:
		espl__print(b, "weight of trial %llu", (unsigned long long)op->as.hint.trial);
		break;
	case ESPL__OP_WAKE: espl__print(b, "wake at %.3f s", (double)op->as.at / 1e9); break;
	case ESPL__OP_GRANT:
		espl__print(b, "grant %u/%u GPUs to item %llu", (unsigned)op->as.grant.share.gpus,
		    (unsigned)op->as.grant.share.packing, (unsigned long long)op->as.grant.item);
		break;
	case ESPL__OP_TARGET:
		espl__print(b, "hold %u node%s of offer number %u", (unsigned)op->as.target.nodes,
		    op->as.target.nodes == 1 ? "" : "s", (unsigned)op->as.target.offer + 1);
		break;
	case ESPL__OP_RETIRE:
		espl__print(b, "retire node %llu", (unsigned long long)op->as.id);
		break;
	case ESPL__OP_PLAN: print_plan(&op->as.plan.plan, b); break;
	case ESPL__OP_WATCH:
		espl__print(b, "watch prices of offer number %u", (unsigned)op->as.watch.offer + 1);
		break;
	case ESPL__OP_OBJECTIVE: espl__print(b, "objective %.9g", op->as.objective.value); break;
	case ESPL__OP_CLAIM:
		espl__print(b, "reserve node %llu for bracket %u",
		    (unsigned long long)op->as.claim.node, (unsigned)op->as.claim.bracket);
		break;
	case ESPL__OP_HORIZON:
		espl__print(b, "horizon of item %llu", (unsigned long long)op->as.horizon.item);
		break;
	case ESPL__OP_PLACE: print_place(op, b); break;
	case ESPL__OP_GIVE_UP:
		espl__print(b, "give up node %llu", (unsigned long long)op->as.id);
		break;
	case ESPL__OP_SUBMIT:
		espl__print(b, "submit computation %llu", (unsigned long long)op->as.id);
		break;
	case ESPL__OP_CANCEL:
		espl__print(b, "cancel computation %llu", (unsigned long long)op->as.id);
		break;
	}
}
