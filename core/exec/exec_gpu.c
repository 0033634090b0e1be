/* exec_gpu.c - what is told of GPUs: how one is shared, what a trial uses of it, which failed or is
 * of no use any more.
 */
#include "exec/state.h"

static void
shared(struct espl__exec *x, const struct espl__gang *g, const struct espl__event *e)
{
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(g->trial), "shares its GPU by %s%s%s",
	    e->as.gpu.number == ESPL__SHARE_MPS ? "MPS" : "time slicing",
	    e->as.gpu.text[0] != '\0' ? ": " : "", e->as.gpu.text);
}

static void
memory(struct espl__exec *x, struct espl__trial *t, uint64_t bytes)
{
	if (bytes <= t->gpu_memory)
		return;
	t->gpu_memory = bytes;
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t), "uses %llu MiB of a GPU's memory",
	    (unsigned long long)((bytes + (1u << 20) - 1) >> 20));
	if (t->item == NULL)
		return;
	t->item->pub.gpu_memory_bytes = t->item->view.gpu_memory_bytes = bytes;
	espl__item_changed(t->item, 0);
}

/* Whoever had a place there must go elsewhere; a node without a GPU left is set aside itself. */
static void
aside(struct espl__exec *x, struct espl__machine *n, uint32_t gpu, const char *why)
{
	if (gpu >= n->pub.gpu_count || n->gpus[gpu].pub.blocked)
		return;
	espl__exec_gpu_time(x);
	espl__fleet_block(&x->fleet, n, gpu);
	espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id, "GPU %u of node %llu is set aside: %s",
	    (unsigned)gpu, (unsigned long long)n->pub.id, why);
	for (uint32_t i = 0; i < x->gangs_count; i++) {
		struct espl__item *item = espl__item_of_gang(x->gangs_view[i]);
		uint32_t k;

		for (k = 0; k < item->target_count &&
		     (item->target[k].node != n->pub.id || item->target[k].gpu != gpu);
		     k++)
			;
		if (k == item->target_count)
			continue;
		item->pub.flags |= ESPL_ITEM_EVICTED;
		espl__item_changed(item, ESPL_WHY_NODES);
		espl__item_target(x, item, NULL, 0);
	}
	for (uint32_t i = 0; i < n->pub.gpu_count; i++)
		if (!n->gpus[i].pub.blocked)
			gpu = ESPL_ANY;
	if (gpu != ESPL_ANY && (n->pub.flags & ESPL_NODE_QUARANTINED) == 0) {
		espl__machine_flag(&x->fleet, n, ESPL_NODE_QUARANTINED, 0);
		espl__exec_show_node(x, n, "quarantined");
	}
	x->cluster_dirty = 1;
	espl__exec_why(x, ESPL_WHY_NODES);
	x->place_why |= ESPL_WHY_NODES;
}

void
espl__exec_gpu(struct espl__exec *x, const struct espl__event *e)
{
	int about_gang = e->as.gpu.what == ESPL__GPU_SHARED || e->as.gpu.what == ESPL__GPU_MEMORY;
	struct espl__gang *g = about_gang ? espl__exec_gang(x, e->as.gpu.id) : NULL;
	struct espl__machine *n = about_gang ? NULL : espl__machine_at(&x->fleet, e->as.gpu.id);

	if (e->as.gpu.what == ESPL__GPU_SHARED && g != NULL)
		shared(x, g, e);
	else if (e->as.gpu.what == ESPL__GPU_MEMORY && g != NULL)
		memory(x, g->trial, e->as.gpu.number);
	else if (e->as.gpu.what == ESPL__GPU_FAULT && n != NULL)
		espl__exec_note(x, ESPL_ABOUT_NODE, n->pub.id,
		    "GPU %llu of node %llu: %s; no trial is to blame",
		    (unsigned long long)e->as.gpu.number, (unsigned long long)n->pub.id,
		    e->as.gpu.text);
	else if (e->as.gpu.what == ESPL__GPU_ASIDE && n != NULL && n->live)
		aside(x, n, (uint32_t)e->as.gpu.number, e->as.gpu.text);
}
