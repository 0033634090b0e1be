/* ops.c - ops as bytes and as words. */
#include "policy/ops.h"

#include <string.h>

#include "base/codec.h"

#define STATUS_MAX 63u /* bytes of an objective's status */

ESPL__CODES void
code_start(struct espl__codec *c, uint32_t params, struct espl_start *s)
{
	uint64_t trial = s->trial + 1; /* NONE: 0 */
	uint8_t given = s->values != NULL;

	ESPL__CODE_SIZE(c, *s);
	ESPL__CODE_U8(c, s->how);
	ESPL__CODE_V64(c, trial);
	ESPL__CODE_V64(c, s->checkpoint);
	ESPL__CODE_V64(c, s->budget);
	ESPL__CODE_V64(c, s->tag);
	ESPL__CODE_F64(c, s->weight);
	ESPL__CODE_U32(c, s->gpus_min);
	ESPL__CODE_U32(c, s->gpus_max);
	ESPL__CODE_U8(c, given);
	if (c->from != NULL) {
		double *values =
		    given ? espl__arena_alloc(c->arena, (params + 1) * sizeof *values) : NULL;
		if (given)
			espl__get_f64s(c->from, values, params);
		s->trial = trial - 1;
		s->values = values;
	} else if (given) {
		espl__put_f64s(c->to, s->values, params);
	}
}

ESPL__CODES void
code_plan(struct espl__codec *c, struct espl_plan *p)
{
	struct espl_plan_stage *s;
	struct espl_plan_stage **list;

	ESPL__CODE_SIZE(c, *p);
	ESPL__CODE_U32(c, p->flags);
	ESPL__CODE_F64(c, p->gap);
	ESPL__CODE_V64(c, p->searched);
	if ((p->flags & ESPL_PLAN_EFFORT) != 0)
		ESPL__CODE_V64(c, p->effort);
	list = espl__code_list(c, p->stages, &p->stage_count, sizeof *list, 7);
	for (uint32_t i = 0; i < p->stage_count; i++) {
		if (c->from != NULL)
			list[i] = espl__arena_alloc(c->arena, sizeof *s);
		s = list[i];
		ESPL__CODE_SIZE(c, *s);
		ESPL__CODE_U32(c, s->bracket);
		ESPL__CODE_U32(c, s->stage);
		ESPL__CODE_U32(c, s->offer);
		ESPL__CODE_U32(c, s->gpus);
		ESPL__CODE_U32(c, s->gpus_per_trial);
		ESPL__CODE_U32(c, s->nodes);
		ESPL__CODE_Z64(c, s->max_price_hour);
	}
	if (c->from != NULL)
		p->stages = (const struct espl_plan_stage *const *)list;
}

ESPL__CODES void
code_lists(struct espl__codec *c, struct espl__op *op)
{
	uint32_t *gpus;
	struct espl_slot *slots;

	if (op->type == ESPL__OP_HORIZON) {
		ESPL__CODE_V64(c, op->as.horizon.item);
		gpus =
		    espl__code_list(c, op->as.horizon.gpus, &op->as.horizon.steps, sizeof *gpus, 1);
		for (uint32_t i = 0; i < op->as.horizon.steps; i++)
			ESPL__CODE_U32(c, gpus[i]);
		if (c->from != NULL)
			op->as.horizon.gpus = gpus;
		return;
	}
	ESPL__CODE_V64(c, op->as.place.item);
	slots = espl__code_list(c, op->as.place.slots, &op->as.place.count, sizeof *slots, 1);
	for (uint32_t i = 0; i < op->as.place.count; i++) {
		ESPL__CODE_V64(c, slots[i].node);
		ESPL__CODE_U32(c, slots[i].gpu);
		ESPL__CODE_U32(c, slots[i].packing);
	}
	if (c->from != NULL)
		op->as.place.slots = slots;
}

ESPL__CODES int
code_allocation(struct espl__codec *c, struct espl__op *op)
{
	switch (op->type) {
	case ESPL__OP_GRANT:
		ESPL__CODE_SIZE(c, op->as.grant);
		ESPL__CODE_V64(c, op->as.grant.item);
		ESPL__CODE_U32(c, op->as.grant.flags);
		ESPL__CODE_U32(c, op->as.grant.share.gpus);
		ESPL__CODE_U32(c, op->as.grant.share.packing);
		ESPL__CODE_U32(c, op->as.grant.offer);
		ESPL__CODE_Z64(c, op->as.grant.max_price_hour);
		return 0;
	case ESPL__OP_TARGET:
		ESPL__CODE_SIZE(c, op->as.target);
		ESPL__CODE_U32(c, op->as.target.offer);
		ESPL__CODE_U32(c, op->as.target.nodes);
		ESPL__CODE_Z64(c, op->as.target.max_price_hour);
		return 0;
	case ESPL__OP_PLAN:
		ESPL__CODE_V64(c, op->as.plan.experiment);
		code_plan(c, &op->as.plan.plan);
		return 0;
	case ESPL__OP_WATCH:
		ESPL__CODE_U32(c, op->as.watch.offer);
		ESPL__CODE_U32(c, op->as.watch.on);
		return 0;
	case ESPL__OP_OBJECTIVE:
		ESPL__CODE_F64(c, op->as.objective.value);
		ESPL__CODE_F64(c, op->as.objective.bound);
		espl__code_text(c, &op->as.objective.status, STATUS_MAX);
		return 0;
	case ESPL__OP_CLAIM:
		ESPL__CODE_V64(c, op->as.claim.node);
		ESPL__CODE_U32(c, op->as.claim.bracket);
		return 0;
	case ESPL__OP_HORIZON:
	case ESPL__OP_PLACE: code_lists(c, op); return 0;
	default: return -1;
	}
}

ESPL__CODES int
code_op(struct espl__codec *c, uint32_t params, struct espl__op *op)
{
	switch (op->type) {
	case ESPL__OP_BEGIN:
		ESPL__CODE_SIZE(c, op->as.group);
		ESPL__CODE_U32(c, op->as.group.flags);
		ESPL__CODE_U32(c, op->as.group.bracket);
		ESPL__CODE_U32(c, op->as.group.stage);
		ESPL__CODE_U32(c, op->as.group.concurrency);
		return 0;
	case ESPL__OP_ADD:
		ESPL__CODE_V64(c, op->as.add.group);
		code_start(c, params, &op->as.add.start);
		return 0;
	case ESPL__OP_CLOSE:
	case ESPL__OP_DROP:
	case ESPL__OP_RETIRE:
	case ESPL__OP_GIVE_UP:
	case ESPL__OP_SUBMIT:
	case ESPL__OP_CANCEL: ESPL__CODE_V64(c, op->as.id); return 0;
	case ESPL__OP_FINISH: return 0;
	case ESPL__OP_VERDICT:
		ESPL__CODE_V64(c, op->as.verdict.trial);
		ESPL__CODE_U32(c, op->as.verdict.verdict);
		return 0;
	case ESPL__OP_HINT:
		ESPL__CODE_V64(c, op->as.hint.trial);
		ESPL__CODE_F64(c, op->as.hint.weight);
		ESPL__CODE_U32(c, op->as.hint.gpus_min);
		ESPL__CODE_U32(c, op->as.hint.gpus_max);
		return 0;
	case ESPL__OP_WAKE: ESPL__CODE_Z64(c, op->as.at); return 0;
	default: return code_allocation(c, op);
	}
}

void
espl__op_put(const struct espl__op *op, uint32_t params, struct espl__buf *b)
{
	struct espl__codec c = { .to = b };

	espl__put_u8(b, (uint8_t)op->type);
	(void)code_op(&c, params, (struct espl__op *)(uintptr_t)op);
}

int
espl__op_get(struct espl__reader *r, uint32_t params, struct espl__arena *arena,
    struct espl__op *op)
{
	struct espl__codec c = { .from = r, .arena = arena };

	if (r->at == r->end)
		return 0;
	memset(op, 0, sizeof *op);
	op->type = (enum espl__op_type)espl__get_u8(r);
	return code_op(&c, params, op) != 0 || r->bad ? -1 : 1;
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
