/* call_whole.c - answers as a whole: what their calls, each of them allowed, come to together. */
#include <string.h>

#include "base/assert.h"
#include "policy/call_private.h"

espl_status
espl__answer_grants(struct espl__caller *c, const struct espl__instance *i,
    const struct espl_alloc_view *view, const struct espl_budget *budget, struct espl__arena *arena,
    struct espl__diag *diag)
{
	struct espl_judge judge = { .ctx = c,
		.item = espl__caller_item,
		.offers = view->offers,
		.offer_count = view->offer_count };
	struct espl__reader r = espl__reader(c->ops.data, c->ops.size);
	struct espl_judge_grant *grants =
	    espl__arena_alloc(arena, (size_t)(c->answered + 1) * sizeof *grants);
	struct espl_budget asked = *budget;
	uint32_t *targets =
	    espl__arena_alloc(arena, ((size_t)view->offer_count + 1) * sizeof *targets);
	struct espl__op op;
	const char *why;
	size_t count = 0;

	ESPL__CHECK(i, INSTANCE);
	if (budget->targets != NULL) {
		memcpy(targets, budget->targets, view->offer_count * sizeof *targets);
		asked.targets = targets;
	}
	while (espl__op_get(&r, c->params, arena, &op) == 1) {
		if (op.type == ESPL__OP_TARGET)
			targets[op.as.target.offer] = op.as.target.nodes;
		if (op.type == ESPL__OP_GRANT && (op.as.grant.flags & ESPL_GRANT_QUEUED) == 0)
			grants[count++] =
			    (struct espl_judge_grant){ op.as.grant.item, op.as.grant.share };
	}
	why = espl_judge_grants(&judge, grants, count, &asked);
	return why == NULL ? ESPL_OK : espl__fail(diag, ESPL_E_REJECTED, "%s %s", i->who, why);
}

static uint32_t
count_reserved(void *ctx, uint64_t node, uint32_t gpu, uint32_t *packing)
{
	const struct espl__caller *c = ctx;
	const struct espl_slot slot = { node, gpu, 0 };

	return espl__gpu_reserved(espl__gpu_at(c->fleet, &slot, NULL), packing);
}

struct placed {
	uint64_t item;
	uint32_t order, count;
	const struct espl_slot *slots;
};

static int
order_placed(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	if (x->item != y->item)
		return x->item < y->item ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* The slots that the placed gangs have, and those of each one's last placement. */
static const char *
judge_placed(struct espl__caller *c, struct espl_judge *judge, struct placed *placed,
    uint32_t count, struct espl__arena *arena)
{
	struct espl_judge_slot *slots;
	size_t total = 0;

	if (count > 1)
		qsort(placed, count, sizeof *placed, order_placed);
	for (uint32_t k = 0; k < count; k++) {
		const struct espl_gang *gang = c->gang(c->items_ctx, placed[k].item);

		total += placed[k].count + (gang != NULL ? gang->slot_count : 0);
	}
	slots = espl__arena_alloc(arena, (total + 1) * sizeof *slots);
	total = 0;
	for (uint32_t k = 0; k < count; k++) {
		const struct espl_gang *gang = c->gang(c->items_ctx, placed[k].item);

		if (gang == NULL || (k + 1 < count && placed[k + 1].item == placed[k].item))
			continue;
		for (uint32_t s = 0; s < gang->slot_count; s++)
			slots[total++] =
			    (struct espl_judge_slot){ gang->slots[s], placed[k].item, -1 };
		for (uint32_t s = 0; s < placed[k].count; s++)
			slots[total++] =
			    (struct espl_judge_slot){ placed[k].slots[s], placed[k].item, 1 };
	}
	return espl_judge_places(judge, slots, total);
}

espl_status
espl__answer_places(struct espl__caller *c, const struct espl__instance *i, struct espl__reader r,
    int recorded, struct espl__arena *arena, struct espl__diag *diag)
{
	struct espl_judge judge = { .ctx = c,
		.node = espl__caller_node,
		.gang = espl__caller_gang,
		.reserved = count_reserved };
	struct espl__reader first = r;
	struct espl__op op;
	struct placed *placed;
	const char *why = NULL;
	uint32_t count = 0;

	ESPL__CHECK(i, INSTANCE);
	while (espl__op_get(&r, c->params, arena, &op) == 1)
		count += op.type == ESPL__OP_PLACE;
	placed = espl__arena_alloc(arena, ((size_t)count + 1) * sizeof *placed);
	for (r = first, count = 0; espl__op_get(&r, c->params, arena, &op) == 1;)
		if (op.type == ESPL__OP_PLACE) {
			if (recorded && why == NULL)
				why = espl_judge_place(&judge, op.as.place.item, op.as.place.slots,
				    op.as.place.count);
			placed[count] = (struct placed){ op.as.place.item, count, op.as.place.count,
				op.as.place.slots };
			count++;
		}
	if (why == NULL)
		why = judge_placed(c, &judge, placed, count, arena);
	return why == NULL ? ESPL_OK : espl__fail(diag, ESPL_E_REJECTED, "%s %s", i->who, why);
}
