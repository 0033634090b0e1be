/* event.c - events as bytes: what the journal holds of the outside world.
 *
 * A byte of type, then the fields in order.  Decoding checks every number, since a journal may
 * come from a damaged disk: bytes that are no event give -1, never a crash.
 */
#include "exec/event.h"

#include <string.h>

#define LABEL_MAX 4096u /* longest text in an event */
#define SAMPLES_MAX 100000u

static void
put_latency(struct espl__buf *b, const struct espl_latency *latency)
{
	espl__put_u8(b, latency != NULL);
	if (latency == NULL)
		return;
	espl__put_v64(b, latency->kind);
	espl__put_f64(b, latency->mean_s);
	espl__put_f64(b, latency->sd_s);
	espl__put_v64(b, latency->sample_count);
	for (uint32_t i = 0; i < latency->sample_count; i++)
		espl__put_f64(b, latency->samples_s[i]);
}

static const struct espl_latency *
get_latency(struct espl__reader *r, struct espl__arena *arena)
{
	struct espl_latency *latency;
	uint64_t count;

	if (espl__get_u8(r) == 0)
		return NULL;
	latency = espl__arena_alloc(arena, sizeof *latency);
	latency->size = (uint32_t)sizeof *latency;
	latency->kind = (espl_distribution)espl__get_v64(r);
	latency->mean_s = espl__get_f64(r);
	latency->sd_s = espl__get_f64(r);
	count = espl__get_v64(r);
	if (latency->kind < ESPL_CONSTANT || latency->kind > ESPL_EMPIRICAL ||
	    count > SAMPLES_MAX || count > (uint64_t)(r->end - r->at) / 8) {
		r->bad = 1;
		return latency;
	}
	if (count > 0) {
		double *samples = espl__arena_alloc(arena, count * sizeof *samples);
		for (uint64_t i = 0; i < count; i++)
			samples[i] = espl__get_f64(r);
		latency->samples_s = samples;
		latency->sample_count = (uint32_t)count;
	}
	return latency;
}

static const char *
get_text(struct espl__reader *r, struct espl__arena *arena)
{
	size_t size;
	const void *bytes = espl__get_bytes(r, &size);
	char *text;

	if (bytes == NULL || size > LABEL_MAX || memchr(bytes, 0, size) != NULL) {
		r->bad = 1;
		return "";
	}
	text = espl__arena_alloc(arena, size + 1);
	memcpy(text, bytes, size);
	return text;
}

static void
put_offer(struct espl__buf *b, const struct espl_offer *o)
{
	espl__put_v64(b, o->flags);
	espl__put_v64(b, o->gpus);
	espl__put_v64(b, o->cpus);
	espl__put_v64(b, o->nodes_max);
	espl__put_str(b, o->name);
	espl__put_str(b, o->market);
	espl__put_str(b, o->gpu_type);
	espl__put_str(b, o->zone);
	espl__put_v64(b, o->memory_bytes);
	espl__put_v64(b, o->gpu_memory_bytes);
	espl__put_z64(b, o->price_hour);
	espl__put_z64(b, o->fixed_price_hour);
	espl__put_z64(b, o->data_gb);
	espl__put_v64(b, o->billing);
	espl__put_v64(b, o->billed_from);
	espl__put_z64(b, o->billing_step);
	espl__put_z64(b, o->minimum_charge);
	espl__put_z64(b, o->refund_before);
	espl__put_z64(b, o->notice);
	espl__put_z64(b, o->lease_max);
	put_latency(b, o->provision);
	put_latency(b, o->init);
	espl__put_f64(b, o->hazard_hour);
	espl__put_f64(b, o->hazard_hours);
}

static uint32_t
get_u32(struct espl__reader *r)
{
	uint64_t n = espl__get_v64(r);

	if (n > UINT32_MAX)
		r->bad = 1;
	return (uint32_t)n;
}

static const struct espl_offer *
get_offer(struct espl__reader *r, struct espl__arena *arena)
{
	struct espl_offer *o = espl__arena_alloc(arena, sizeof *o);

	o->size = (uint32_t)sizeof *o;
	o->number = ESPL_ANY;
	o->flags = get_u32(r);
	o->gpus = get_u32(r);
	o->cpus = get_u32(r);
	o->nodes_max = get_u32(r);
	o->name = get_text(r, arena);
	o->market = get_text(r, arena);
	o->gpu_type = get_text(r, arena);
	o->zone = get_text(r, arena);
	o->memory_bytes = espl__get_v64(r);
	o->gpu_memory_bytes = espl__get_v64(r);
	o->price_hour = espl__get_z64(r);
	o->fixed_price_hour = espl__get_z64(r);
	o->data_gb = espl__get_z64(r);
	o->billing = get_u32(r);
	o->billed_from = get_u32(r);
	o->billing_step = espl__get_z64(r);
	o->minimum_charge = espl__get_z64(r);
	o->refund_before = espl__get_z64(r);
	o->notice = espl__get_z64(r);
	o->lease_max = espl__get_z64(r);
	o->provision = get_latency(r, arena);
	o->init = get_latency(r, arena);
	o->hazard_hour = espl__get_f64(r);
	o->hazard_hours = espl__get_f64(r);
	return o;
}

static void
put_outcome(struct espl__buf *b, const struct espl_outcome *o)
{
	espl__put_z64(b, o->status);
	espl__put_v64(b, o->token);
	espl__put_z64(b, o->took);
	espl__put_bytes(b, o->output, o->output == NULL ? 0 : (size_t)o->output_size);
}

static const struct espl_outcome *
get_outcome(struct espl__reader *r, struct espl__arena *arena)
{
	struct espl_outcome *o = espl__arena_alloc(arena, sizeof *o);
	const void *bytes;
	size_t size;

	o->size = (uint32_t)sizeof *o;
	o->status = (espl_status)espl__get_z64(r);
	o->token = espl__get_v64(r);
	o->took = espl__get_z64(r);
	bytes = espl__get_bytes(r, &size);
	if (bytes != NULL && o->status == ESPL_OK) {
		void *copy = espl__arena_alloc(arena, size + 1);
		memcpy(copy, bytes, size);
		o->output = copy;
		o->output_size = size;
	}
	return o;
}

static void
put_node(struct espl__buf *b, const struct espl__event *e)
{
	espl__put_v64(b, e->as.node.lease);
	espl__put_v64(b, e->as.node.state);
	espl__put_v64(b, e->as.node.reason);
	espl__put_v64(b, e->as.node.gpus);
	espl__put_z64(b, e->as.node.ends_at);
	espl__put_z64(b, e->as.node.charged);
}

static void
put_gpu(struct espl__buf *b, const struct espl__event *e)
{
	espl__put_v64(b, e->as.gpu.what);
	espl__put_v64(b, e->as.gpu.id);
	espl__put_v64(b, e->as.gpu.number);
	espl__put_str(b, e->as.gpu.text);
}

static void
put_report(struct espl__buf *b, const struct espl__event *e)
{
	espl__put_v64(b, e->as.report.gang);
	espl__put_v64(b, e->as.report.iteration);
	espl__put_v64(b, e->as.report.count);
	for (uint32_t i = 0; i < e->as.report.count; i++) {
		espl__put_v64(b, e->as.report.metrics[i].metric);
		espl__put_f64(b, e->as.report.metrics[i].value);
	}
}

/* Arrivals and cancellations in a pool. */
static void
put_member(struct espl__buf *b, const struct espl__event *e)
{
	espl__put_v64(b,
	    e->type == ESPL__EV_JOB              ? e->as.job.number
		: e->type == ESPL__EV_EXPERIMENT ? e->as.experiment.number
						 : e->as.cancel.number);
	if (e->type == ESPL__EV_CANCEL)
		espl__put_v64(b, e->as.cancel.trial);
}

void
espl__event_put(const struct espl__event *e, struct espl__buf *b)
{
	espl__put_u8(b, (uint8_t)e->type);
	switch (e->type) {
	case ESPL__EV_OFFER: put_offer(b, e->as.offer.offer); break;
	case ESPL__EV_PRICE:
		espl__put_v64(b, e->as.price.offer);
		espl__put_z64(b, e->as.price.price.from);
		espl__put_z64(b, e->as.price.price.usd_hour);
		break;
	case ESPL__EV_CLOUD:
		espl__put_z64(b, e->as.cloud.status);
		espl__put_str(b, e->as.cloud.text);
		break;
	case ESPL__EV_NODE: put_node(b, e); break;
	case ESPL__EV_RISK:
	case ESPL__EV_NODE_WHY:
		espl__put_v64(b, e->as.node_why.lease);
		espl__put_str(b, e->as.node_why.text);
		break;
	case ESPL__EV_RETRY:
		espl__put_v64(b, e->as.retry.lease);
		espl__put_z64(b, e->as.retry.after);
		break;
	case ESPL__EV_REACH:
		espl__put_v64(b, e->as.reach.lease);
		espl__put_u8(b, e->as.reach.reachable != 0);
		espl__put_str(b, e->as.reach.text);
		break;
	case ESPL__EV_METRIC: espl__put_str(b, e->as.metric.name); break;
	case ESPL__EV_STARTED:
	case ESPL__EV_OUTLIVED: espl__put_v64(b, e->as.started.gang); break;
	case ESPL__EV_REPORT: put_report(b, e); break;
	case ESPL__EV_SAVED:
		espl__put_v64(b, e->as.saved.gang);
		espl__put_v64(b, e->as.saved.iteration);
		espl__put_v64(b, e->as.saved.bytes);
		break;
	case ESPL__EV_ENDED:
		espl__put_v64(b, e->as.ended.gang);
		espl__put_v64(b, e->as.ended.how);
		espl__put_v64(b, e->as.ended.node);
		espl__put_str(b, e->as.ended.text);
		break;
	case ESPL__EV_OUTCOME: put_outcome(b, e->as.outcome.outcome); break;
	case ESPL__EV_TROUBLE: espl__put_str(b, e->as.trouble.text); break;
	case ESPL__EV_RESIZED:
		espl__put_v64(b, e->as.resized.gang);
		espl__put_z64(b, e->as.resized.took);
		break;
	case ESPL__EV_GPU: put_gpu(b, e); break;
	case ESPL__EV_JOB:
	case ESPL__EV_EXPERIMENT:
	case ESPL__EV_CANCEL: put_member(b, e); break;
	case ESPL__EV_HELD: espl__put_z64(b, e->as.held.late); break;
	case ESPL__EV_ASK: espl__put_v64(b, e->as.ask.count); break;
	case ESPL__EV_START:
	case ESPL__EV_RESUME:
	case ESPL__EV_TIMER:
	case ESPL__EV_STOP: break;
	}
}

static void
get_member(struct espl__reader *r, struct espl__event *e)
{
	uint64_t number = espl__get_v64(r);

	if (e->type == ESPL__EV_JOB)
		e->as.job.number = number;
	else if (e->type == ESPL__EV_EXPERIMENT)
		e->as.experiment.number = number;
	else
		e->as.cancel.number = number;
	if (e->type == ESPL__EV_CANCEL)
		e->as.cancel.trial = espl__get_v64(r);
}

static void
get_report(struct espl__reader *r, struct espl__arena *arena, struct espl__event *e)
{
	uint64_t count;

	e->as.report.gang = espl__get_v64(r);
	e->as.report.iteration = espl__get_v64(r);
	count = espl__get_v64(r);
	if (r->bad || count > (uint64_t)(r->end - r->at) / 9) {
		r->bad = 1;
		return;
	}
	e->as.report.count = (uint32_t)count;
	if (count > 0) {
		struct espl__metric *list = espl__arena_alloc(arena, count * sizeof *list);
		for (uint64_t i = 0; i < count; i++) {
			list[i].metric = get_u32(r);
			list[i].value = espl__get_f64(r);
		}
		e->as.report.metrics = list;
	}
}

static void
get_node(struct espl__reader *r, struct espl__event *e)
{
	e->as.node.lease = espl__get_v64(r);
	e->as.node.state = get_u32(r);
	e->as.node.reason = get_u32(r);
	e->as.node.gpus = get_u32(r);
	e->as.node.ends_at = espl__get_z64(r);
	e->as.node.charged = espl__get_z64(r);
	if (e->as.node.state < ESPL_NODE_REQUESTED || e->as.node.state > ESPL_NODE_ENDED)
		r->bad = 1;
}

static void
get_node_why(struct espl__reader *r, struct espl__arena *arena, struct espl__event *e)
{
	e->as.node_why.lease = espl__get_v64(r);
	e->as.node_why.text = get_text(r, arena);
}

static void
get_reach(struct espl__reader *r, struct espl__arena *arena, struct espl__event *e)
{
	e->as.reach.lease = espl__get_v64(r);
	e->as.reach.reachable = espl__get_u8(r) != 0;
	e->as.reach.text = get_text(r, arena);
}

static void
get_gpu(struct espl__reader *r, struct espl__arena *arena, struct espl__event *e)
{
	e->as.gpu.what = (enum espl__gpu_news)get_u32(r);
	e->as.gpu.id = espl__get_v64(r);
	e->as.gpu.number = espl__get_v64(r);
	e->as.gpu.text = get_text(r, arena);
	if (e->as.gpu.what < ESPL__GPU_SHARED || e->as.gpu.what > ESPL__GPU_ASIDE ||
	    (e->as.gpu.what != ESPL__GPU_MEMORY && e->as.gpu.number > UINT32_MAX))
		r->bad = 1;
}

static void
get_ended(struct espl__reader *r, struct espl__arena *arena, struct espl__event *e)
{
	e->as.ended.gang = espl__get_v64(r);
	e->as.ended.how = (enum espl__gang_end)get_u32(r);
	e->as.ended.node = espl__get_v64(r);
	e->as.ended.text = get_text(r, arena);
	if (e->as.ended.how < ESPL__END_DONE || e->as.ended.how > ESPL__END_UNSAVED)
		r->bad = 1;
}

int
espl__event_get(struct espl__reader *r, struct espl__arena *arena, struct espl__event *e)
{
	memset(e, 0, sizeof *e);
	e->type = (enum espl__event_type)espl__get_u8(r);
	switch (e->type) {
	case ESPL__EV_OFFER: e->as.offer.offer = get_offer(r, arena); break;
	case ESPL__EV_PRICE:
		e->as.price.offer = get_u32(r);
		e->as.price.price.from = espl__get_z64(r);
		e->as.price.price.usd_hour = espl__get_z64(r);
		break;
	case ESPL__EV_CLOUD:
		e->as.cloud.status = (espl_status)espl__get_z64(r);
		e->as.cloud.text = get_text(r, arena);
		break;
	case ESPL__EV_NODE: get_node(r, e); break;
	case ESPL__EV_METRIC: e->as.metric.name = get_text(r, arena); break;
	case ESPL__EV_RISK:
	case ESPL__EV_NODE_WHY: get_node_why(r, arena, e); break;
	case ESPL__EV_RETRY:
		e->as.retry.lease = espl__get_v64(r);
		e->as.retry.after = espl__get_z64(r);
		break;
	case ESPL__EV_REACH: get_reach(r, arena, e); break;
	case ESPL__EV_STARTED:
	case ESPL__EV_OUTLIVED: e->as.started.gang = espl__get_v64(r); break;
	case ESPL__EV_REPORT: get_report(r, arena, e); break;
	case ESPL__EV_SAVED:
		e->as.saved.gang = espl__get_v64(r);
		e->as.saved.iteration = espl__get_v64(r);
		e->as.saved.bytes = espl__get_v64(r);
		break;
	case ESPL__EV_ENDED: get_ended(r, arena, e); break;
	case ESPL__EV_OUTCOME: e->as.outcome.outcome = get_outcome(r, arena); break;
	case ESPL__EV_TROUBLE: e->as.trouble.text = get_text(r, arena); break;
	case ESPL__EV_RESIZED:
		e->as.resized.gang = espl__get_v64(r);
		e->as.resized.took = espl__get_z64(r);
		break;
	case ESPL__EV_GPU: get_gpu(r, arena, e); break;
	case ESPL__EV_JOB:
	case ESPL__EV_EXPERIMENT:
	case ESPL__EV_CANCEL: get_member(r, e); break;
	case ESPL__EV_HELD: e->as.held.late = espl__get_z64(r); break;
	case ESPL__EV_ASK: e->as.ask.count = espl__get_v64(r); break;
	case ESPL__EV_START:
	case ESPL__EV_RESUME:
	case ESPL__EV_TIMER:
	case ESPL__EV_STOP: break;
	default: return -1;
	}
	return r->bad ? -1 : 0;
}
