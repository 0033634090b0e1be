/* event.c - events as bytes: the journal's record of the outside world.
 *
 * A byte of type, then the fields in order. Decoding checks every number, since a journal may come
 * from a damaged disk: bytes that are not a valid event return -1, never crash.
 */
#include "exec/event.h"

#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/notes.h"

#define LABEL_MAX 4096u /* longest text in an event */
#define SAMPLES_MAX 100000u

ESPL__CODES void
code_latency(struct espl__codec *c, const struct espl_latency **to)
{
	struct espl_latency *latency = (struct espl_latency *)(uintptr_t)*to;
	uint8_t given = latency != NULL;
	double *samples;

	ESPL__CODE_U8(c, given);
	if (c->from != NULL)
		*to = latency = given ? espl__arena_alloc(c->arena, sizeof *latency) : NULL;
	if (!given)
		return;
	ESPL__CODE_SIZE(c, *latency);
	ESPL__CODE_V64(c, latency->kind);
	ESPL__CODE_F64(c, latency->mean_s);
	ESPL__CODE_F64(c, latency->sd_s);
	samples =
	    espl__code_list(c, latency->samples_s, &latency->sample_count, sizeof *samples, 8);
	for (uint32_t i = 0; i < latency->sample_count; i++)
		ESPL__CODE_F64(c, samples[i]);
	if (c->from == NULL)
		return;
	latency->samples_s = latency->sample_count > 0 ? samples : NULL;
	if (latency->kind < ESPL_CONSTANT || latency->kind > ESPL_EMPIRICAL ||
	    latency->sample_count > SAMPLES_MAX)
		c->from->bad = 1;
}

ESPL__CODES void
code_offer(struct espl__codec *c, const struct espl_offer **to)
{
	struct espl_offer *o = (struct espl_offer *)(uintptr_t)*to;

	if (c->from != NULL) {
		*to = o = espl__arena_alloc(c->arena, sizeof *o);
		o->number = ESPL_ANY;
	}
	ESPL__CODE_SIZE(c, *o);
	ESPL__CODE_U32(c, o->flags);
	ESPL__CODE_U32(c, o->gpus);
	ESPL__CODE_U32(c, o->cpus);
	ESPL__CODE_U32(c, o->nodes_max);
	espl__code_text(c, &o->name, LABEL_MAX);
	espl__code_text(c, &o->market, LABEL_MAX);
	espl__code_text(c, &o->gpu_type, LABEL_MAX);
	espl__code_text(c, &o->zone, LABEL_MAX);
	ESPL__CODE_V64(c, o->memory_bytes);
	ESPL__CODE_V64(c, o->gpu_memory_bytes);
	ESPL__CODE_Z64(c, o->price_hour);
	ESPL__CODE_Z64(c, o->fixed_price_hour);
	ESPL__CODE_Z64(c, o->data_gb);
	ESPL__CODE_U32(c, o->billing);
	ESPL__CODE_U32(c, o->billed_from);
	ESPL__CODE_Z64(c, o->billing_step);
	ESPL__CODE_Z64(c, o->minimum_charge);
	ESPL__CODE_Z64(c, o->refund_before);
	ESPL__CODE_Z64(c, o->notice);
	ESPL__CODE_Z64(c, o->lease_max);
	code_latency(c, &o->provision);
	code_latency(c, &o->init);
	ESPL__CODE_F64(c, o->hazard_hour);
	ESPL__CODE_F64(c, o->hazard_hours);
}

ESPL__CODES void
code_outcome(struct espl__codec *c, const struct espl_outcome **to)
{
	struct espl_outcome *o = (struct espl_outcome *)(uintptr_t)*to;
	const void *bytes;
	size_t size;

	if (c->from != NULL)
		*to = o = espl__arena_alloc(c->arena, sizeof *o);
	ESPL__CODE_SIZE(c, *o);
	ESPL__CODE_Z64(c, o->status);
	ESPL__CODE_V64(c, o->token);
	ESPL__CODE_Z64(c, o->took);
	if (c->from == NULL) {
		espl__put_bytes(c->to, o->output, o->output == NULL ? 0 : (size_t)o->output_size);
		return;
	}
	bytes = espl__get_bytes(c->from, &size);
	if (bytes != NULL && o->status == ESPL_OK) {
		void *copy = espl__arena_alloc(c->arena, size + 1);
		memcpy(copy, bytes, size);
		o->output = copy;
		o->output_size = size;
	}
}

ESPL__CODES void
code_report(struct espl__codec *c, struct espl__event *e)
{
	struct espl__metric *list;

	ESPL__CODE_V64(c, e->as.report.gang);
	ESPL__CODE_V64(c, e->as.report.iteration);
	list = espl__code_list(c, e->as.report.metrics, &e->as.report.count, sizeof *list, 9);
	for (uint32_t i = 0; i < e->as.report.count; i++) {
		ESPL__CODE_U32(c, list[i].metric);
		ESPL__CODE_F64(c, list[i].value);
	}
	if (c->from != NULL)
		e->as.report.metrics = e->as.report.count > 0 ? list : NULL;
}

static void
code_extend(struct espl__codec *c, struct espl__event *e)
{
	double *list;

	ESPL__CODE_V64(c, e->as.extend.number);
	ESPL__CODE_V64(c, e->as.extend.trials);
	list = espl__code_list(c, e->as.extend.values, &e->as.extend.count, sizeof *list, 8);
	for (uint32_t i = 0; i < e->as.extend.count; i++)
		ESPL__CODE_F64(c, list[i]);
	if (c->from != NULL)
		e->as.extend.values = e->as.extend.count > 0 ? list : NULL;
}

/* What is known of nodes and GPUs. */
ESPL__CODES int
code_of_node(struct espl__codec *c, struct espl__event *e)
{
	switch (e->type) {
	case ESPL__EV_NODE:
		ESPL__CODE_V64(c, e->as.node.lease);
		ESPL__CODE_U32(c, e->as.node.state);
		ESPL__CODE_U32(c, e->as.node.reason);
		ESPL__CODE_U32(c, e->as.node.gpus);
		ESPL__CODE_Z64(c, e->as.node.ends_at);
		ESPL__CODE_Z64(c, e->as.node.charged);
		return e->as.node.state >= ESPL_NODE_REQUESTED &&
		    e->as.node.state <= ESPL_NODE_ENDED;
	case ESPL__EV_RISK:
	case ESPL__EV_HOST:
	case ESPL__EV_MACHINE:
	case ESPL__EV_UNFIT:
	case ESPL__EV_NODE_WHY:
		ESPL__CODE_V64(c, e->as.node_why.lease);
		espl__code_text(c, &e->as.node_why.text, LABEL_MAX);
		return 1;
	case ESPL__EV_RETRY:
		ESPL__CODE_V64(c, e->as.retry.lease);
		ESPL__CODE_Z64(c, e->as.retry.after);
		return 1;
	case ESPL__EV_REACH:
		ESPL__CODE_V64(c, e->as.reach.lease);
		ESPL__CODE_U8(c, e->as.reach.reachable);
		espl__code_text(c, &e->as.reach.text, LABEL_MAX);
		return 1;
	case ESPL__EV_DRAIN:
		ESPL__CODE_V64(c, e->as.drain.lease);
		ESPL__CODE_U8(c, e->as.drain.on);
		return 1;
	case ESPL__EV_NO_ROUTE:
		ESPL__CODE_V64(c, e->as.no_route.lease);
		ESPL__CODE_V64(c, e->as.no_route.gang);
		espl__code_text(c, &e->as.no_route.text, LABEL_MAX);
		return 1;
	case ESPL__EV_GPU:
		ESPL__CODE_U32(c, e->as.gpu.what);
		ESPL__CODE_V64(c, e->as.gpu.id);
		ESPL__CODE_V64(c, e->as.gpu.number);
		espl__code_text(c, &e->as.gpu.text, LABEL_MAX);
		return e->as.gpu.what >= ESPL__GPU_SHARED && e->as.gpu.what <= ESPL__GPU_ASIDE &&
		    (e->as.gpu.what == ESPL__GPU_MEMORY || e->as.gpu.number <= UINT32_MAX);
	default: return 0;
	}
}

/* The fields of an event except its type.  0: the type is unknown. */
ESPL__CODES int
code_event(struct espl__codec *c, struct espl__event *e)
{
	switch (e->type) {
	case ESPL__EV_OFFER: code_offer(c, &e->as.offer); return 1;
	case ESPL__EV_PRICE:
		ESPL__CODE_U32(c, e->as.price.offer);
		ESPL__CODE_Z64(c, e->as.price.price.from);
		ESPL__CODE_Z64(c, e->as.price.price.usd_hour);
		return 1;
	case ESPL__EV_CLOUD:
		ESPL__CODE_Z64(c, e->as.cloud.status);
		espl__code_text(c, &e->as.cloud.text, LABEL_MAX);
		return 1;
	case ESPL__EV_METRIC: espl__code_text(c, &e->as.metric, LABEL_MAX); return 1;
	case ESPL__EV_STARTED:
	case ESPL__EV_OUTLIVED: ESPL__CODE_V64(c, e->as.gang); return 1;
	case ESPL__EV_REPORT: code_report(c, e); return 1;
	case ESPL__EV_SAVED:
		ESPL__CODE_V64(c, e->as.saved.gang);
		ESPL__CODE_V64(c, e->as.saved.iteration);
		ESPL__CODE_V64(c, e->as.saved.bytes);
		return 1;
	case ESPL__EV_ENDED:
		ESPL__CODE_V64(c, e->as.ended.gang);
		ESPL__CODE_U32(c, e->as.ended.how);
		ESPL__CODE_V64(c, e->as.ended.node);
		espl__code_text(c, &e->as.ended.text, LABEL_MAX);
		return e->as.ended.how >= ESPL__END_DONE && e->as.ended.how <= ESPL__END_UNSAVED;
	case ESPL__EV_OUTCOME: code_outcome(c, &e->as.outcome); return 1;
	case ESPL__EV_NOTE:
	case ESPL__EV_TROUBLE: espl__code_text(c, &e->as.text, LABEL_MAX); return 1;
	case ESPL__EV_RESIZED:
		ESPL__CODE_V64(c, e->as.resized.gang);
		ESPL__CODE_Z64(c, e->as.resized.took);
		return 1;
	case ESPL__EV_JOB:
	case ESPL__EV_EXPERIMENT: ESPL__CODE_V64(c, e->as.number); return 1;
	case ESPL__EV_CANCEL:
		ESPL__CODE_V64(c, e->as.cancel.number);
		ESPL__CODE_V64(c, e->as.cancel.trial);
		return 1;
	case ESPL__EV_EXTEND: code_extend(c, e); return 1;
	case ESPL__EV_TRIAL_NOTE:
		ESPL__CODE_V64(c, e->as.trial_note.trial);
		espl__code_text(c, &e->as.trial_note.key, ESPL__NOTE_KEY);
		espl__code_text(c, &e->as.trial_note.text, ESPL__NOTE_TEXT);
		return 1;
	case ESPL__EV_HELD: ESPL__CODE_Z64(c, e->as.late); return 1;
	case ESPL__EV_ASK: ESPL__CODE_V64(c, e->as.count); return 1;
	case ESPL__EV_START:
	case ESPL__EV_RESUME:
	case ESPL__EV_REOPEN:
	case ESPL__EV_TIMER:
	case ESPL__EV_STOP: return 1;
	default: return code_of_node(c, e);
	}
}

void
espl__event_put(const struct espl__event *e, struct espl__buf *b)
{
	struct espl__codec c = { .to = b };

	espl__put_u8(b, (uint8_t)e->type);
	(void)code_event(&c, (struct espl__event *)(uintptr_t)e);
}

int
espl__event_get(struct espl__reader *r, struct espl__arena *arena, struct espl__event *e)
{
	struct espl__codec c = { .from = r, .arena = arena };

	memset(e, 0, sizeof *e);
	e->type = (enum espl__event_type)espl__get_u8(r);
	return code_event(&c, e) && !r->bad ? 0 : -1;
}

/* ---- batches ------------------------------------------------------------------------------ */

struct espl__event *
espl__batch_add(struct espl__batch *batch, enum espl__event_type type)
{
	struct espl__event *event;

	ESPL__GROW(batch->list, batch->cap, batch->count + 1);
	event = &batch->list[batch->count++];
	memset(event, 0, sizeof *event);
	event->type = type;
	return event;
}

void
espl__batch_clear(struct espl__batch *batch)
{
	batch->count = 0;
	espl__arena_free(&batch->arena);
}

void
espl__batch_free(struct espl__batch *batch)
{
	espl__batch_clear(batch);
	free(batch->list);
	batch->list = NULL;
	batch->cap = 0;
}
