/* record_cloud.c - what a cloud reports: checked against the contract, logged, and remembered.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/util.h>
#include "kit_cloud.h"

#define KIT(events_) ((struct espl_kit *)(events_)->ctx)
#define ALIVE(kit_) ((kit_)->cloud->dead == 0)

static const char *const states[] = { "?", "REQUESTED", "BOOTING", "READY", "NOTICE", "ENDED" };
static const char *const reasons[] = { "none", "user", "provider", "fault", "capacity", "quota",
	"expiry", "refusal" };

struct line {
	char text[900];
	size_t used;
};

static void ESPL_PRINTF(2, 3) append_line(struct line *line, const char *format, ...)
{
	va_list list;
	int count;

	va_start(list, format);
	count = vsnprintf(line->text + line->used, sizeof line->text - line->used, format, list);
	va_end(list);
	if (count > 0)
		line->used += (size_t)count;
	if (line->used >= sizeof line->text)
		line->used = sizeof line->text - 1;
}

static void
append_field(struct line *line, const char *name, const char *value)
{
	if (value != NULL)
		append_line(line, " %s=%s", name, value);
}

static espl_status
report_wrong(struct espl_kit *kit, const char *why, const struct line *line)
{
	if (why != NULL && kit->weight == KIT_REFUSED)
		kit->weight = KIT_GRAVE;
	if (kit->entry != NULL)
		kit->call = kit->entry; /* the entry explains more than the name of the event */
	return espl__kit_told(kit, why, "%s", line->text);
}

/* ---- offers and prices ------------------------------------------------------------------- */

static uint32_t
find_offer(const struct espl_kit *kit, const char *name, const char *market)
{
	uint32_t i = 0;

	while (i < kit->offer_count &&
	    (strcmp(kit->offers[i]->name, name) != 0 ||
		strcmp(kit->offers[i]->market, market) != 0))
		i++;
	return i < kit->offer_count ? i : ESPL_ANY;
}

static const char *
copy_text(struct espl_kit *kit, const char *text)
{
	return espl__kit_text(kit, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

static const struct espl_latency *
copy_latency(struct espl_kit *kit, const struct espl_latency *from)
{
	struct espl_latency *to = espl__kit_alloc(kit, sizeof *to);

	to->size = (uint32_t)sizeof *to;
	to->kind = ESPL_CONSTANT;
	if (from != NULL)
		*to = *from;
	if (from != NULL && from->samples_s != NULL)
		to->samples_s = memcpy(espl__kit_alloc(kit, from->sample_count * sizeof(double)),
		    from->samples_s, from->sample_count * sizeof(double));
	return to;
}

static uint32_t
keep_offer(struct espl_kit *kit, const struct espl_offer *offer)
{
	uint32_t number = find_offer(kit, offer->name, offer->market);
	struct espl_offer *mine;

	if (number == ESPL_ANY)
		number = espl_kit_offer(kit, offer->name, offer->gpus, offer->nodes_max, 0);
	mine = espl_kit_offer_at(kit, number);
	*mine = *offer;
	mine->number = number;
	mine->name = copy_text(kit, offer->name);
	mine->market = copy_text(kit, offer->market);
	mine->gpu_type = copy_text(kit, offer->gpu_type);
	mine->zone = copy_text(kit, offer->zone);
	mine->provision = copy_latency(kit, offer->provision);
	mine->init = copy_latency(kit, offer->init);
	return number;
}

static espl_status
on_offer(const struct espl_cloud_events *events, const struct espl_offer *offer)
{
	struct espl_kit *kit = KIT(events);
	struct line line = { .text = "" };
	const char *why = NULL, *name = offer->name != NULL ? offer->name : "";

	if (!ALIVE(kit))
		return ESPL_OK;
	why = espl__kit_handed(kit, "offer", name, strlen(name), 0, 0);
	if (why == NULL && (offer->size < sizeof *offer || name[0] == '\0' || offer->gpus == 0))
		why = "an offer without size, name or GPUs";
	if (why == NULL && offer->market == NULL)
		why = "an offer without a market";
	append_line(&line, "offer %s %s gpus=%u price=%.10g%s", name,
	    offer->market != NULL ? offer->market : "?", offer->gpus,
	    (double)offer->price_hour / (double)ESPL_USD,
	    (offer->flags & ESPL_OFFER_GONE) != 0 ? " gone" : "");
	if (why == NULL)
		(void)keep_offer(kit, offer);
	return report_wrong(kit, why, &line);
}

static espl_status
on_prices(const struct espl_cloud_events *events, const char *offer, const char *market,
    const struct espl_price *prices, uint32_t count)
{
	struct espl_kit *kit = KIT(events);
	struct line line = { .text = "" };
	const char *why;

	if (!ALIVE(kit))
		return ESPL_OK;
	why = espl__kit_heard(kit, "prices", prices, count * sizeof *prices);
	if (why == NULL &&
	    (offer == NULL || find_offer(kit, offer, market != NULL ? market : "") == ESPL_ANY))
		why = "prices of an offer that was not reported";
	for (uint32_t i = 1; why == NULL && i < count; i++)
		if (prices[i].from < prices[i - 1].from)
			why = "prices must be reported from oldest to newest";
	append_line(&line, "prices %s %s count=%u", offer != NULL ? offer : "?",
	    market != NULL ? market : "", count);
	return report_wrong(kit, why, &line);
}

/* ---- nodes ------------------------------------------------------------------------------- */

static struct kit_lease *
lease_of(const struct espl_kit *kit, const struct espl_node_event *event)
{
	struct kit_cloud *c = kit->cloud;

	if (event->lease != ESPL_NONE)
		return event->lease < c->lease_count ? c->leases[event->lease] : NULL;
	for (uint32_t i = 0; event->token != NULL && i < c->lease_count; i++)
		if (strcmp(c->leases[i]->pub.token, event->token) == 0)
			return c->leases[i];
	return NULL;
}

static uint32_t
find_stray(const struct espl_kit *kit, const struct espl_node_event *event)
{
	const struct kit_cloud *c = kit->cloud;

	for (uint32_t i = 0; i < c->stray_count; i++)
		if (event->lease != ESPL_NONE
			? event->lease == KIT_STRAYS + i
			: event->token != NULL && strcmp(c->strays[i].token, event->token) == 0)
			return i;
	return ESPL_ANY;
}

/* A machine that `owned` reports can be released only by its token, and only if it is the run's. */
static const char *
listed_wrong(struct espl_kit *kit, const struct espl_node_event *event)
{
	const struct kit_cloud *c = kit->cloud;

	if (event->lease == ESPL_NONE && event->token == NULL)
		return "reported a machine without its token";
	if (event->run != NULL && c->owned_run != NULL && strcmp(event->run, c->owned_run) != 0)
		return espl__kit_why(kit, KIT_GRAVE,
		    "was asked for run '%s' and reported a machine of run '%s'", c->owned_run,
		    event->run);
	return NULL;
}

static const char *
check_end_reason(struct espl_kit *kit, const struct kit_lease *lease,
    const struct espl_node_event *event)
{
	int used = lease->pub.state >= ESPL_NODE_READY;
	int refused = event->reason == ESPL_BY_CAPACITY || event->reason == ESPL_BY_QUOTA ||
	    event->reason == ESPL_BY_REFUSAL;

	if (event->reason == 0)
		return "a lease ends without a reason";
	if (event->reason > ESPL_BY_REFUSAL)
		return espl__kit_why(kit, KIT_GRAVE, "ENDED with the unknown reason %u",
		    event->reason);
	if (used && refused)
		return espl__kit_why(kit, KIT_GRAVE,
		    "ENDED by %s, which is for requests, but the machine was READY",
		    reasons[event->reason]);
	if (event->reason == ESPL_BY_USER && lease->releases == 0)
		return "ENDED by user, but release was not called";
	if (event->retry_after < 0 ||
	    (event->retry_after > 0 && event->reason != ESPL_BY_CAPACITY &&
		event->reason != ESPL_BY_QUOTA))
		return "retry_after is for ENDED by capacity or quota, and positive";
	if (event->charged < -1)
		return "charged is negative (-1: unknown)";
	if (event->charged == 0 && event->reason == ESPL_BY_USER && used &&
	    kit->now > lease->ready_at && kit->offers[lease->offer]->price_hour > 0)
		return "charged is 0, although the machine has a price (-1: unknown)";
	return NULL;
}

static const char *
node_wrong(struct espl_kit *kit, const struct kit_lease *lease, const struct espl_node_event *event)
{
	const struct kit_cloud *c = kit->cloud;

	if (c->describing)
		return "reported a machine, but must not know any";
	if (event->state < ESPL_NODE_REQUESTED || event->state > ESPL_NODE_ENDED)
		return espl__kit_why(kit, KIT_GRAVE, "reported an unknown state %u", event->state);
	if (c->owning && (lease == NULL || event->run != NULL))
		return listed_wrong(kit, event);
	if (lease == NULL && find_stray(kit, event) == ESPL_ANY)
		return "reported a machine that is not a lease of this run, and `owned` was not "
		       "asked";
	if (lease == NULL)
		return event->state == ESPL_NODE_ENDED && event->reason == 0
		    ? "a lease ends without a reason"
		    : NULL;
	if (event->state < lease->pub.state && lease->pub.state == ESPL_NODE_ENDED)
		return espl__kit_why(kit, KIT_GRAVE, "reported %s of a lease that has ENDED",
		    states[event->state]);
	if (event->state == ESPL_NODE_READY && event->gpus == 0)
		return "READY with 0 GPUs (ESPL_ANY: as offered)";
	if ((event->flags & ~ESPL_NODE_AT_RISK) != 0 || event->zero != 0)
		return "a flag that clouds do not have, or `zero` is not 0";
	if (event->flags != 0 && event->state != ESPL_NODE_READY)
		return "AT_RISK is for READY";
	if (event->state == ESPL_NODE_NOTICE && event->ends_at == 0 && kit->now > 0)
		return "NOTICE with ends_at 0 (ESPL_NEVER: not known)";
	if (event->text != NULL && strchr(event->text, '\n') != NULL)
		return "its text has more than one line";
	if (event->machine != NULL &&
	    (event->machine[0] == '\0' || strchr(event->machine, '\n') != NULL))
		return "the name of its machine is empty or has more than one line";
	if (event->at == 0 && kit->now > 0)
		return "its `at` is 0 (ESPL_NEVER: the provider does not say)";
	if (event->state == ESPL_NODE_ENDED && lease->pub.state != ESPL_NODE_ENDED)
		return check_end_reason(kit, lease, event);
	return NULL;
}

static void
keep_text(struct espl_kit *kit, const char **to, const char *text)
{
	if (text != NULL && (*to == NULL || strcmp(*to, text) != 0))
		*to = espl__kit_text(kit, text, strlen(text));
}

static void
keep_node(struct espl_kit *kit, struct kit_lease *lease, const struct espl_node_event *event)
{
	lease->reports++;
	if (event->provider_id != NULL &&
	    (lease->pub.provider_id == NULL ||
		strcmp(event->provider_id, lease->pub.provider_id) != 0))
		lease->machines++;
	keep_text(kit, &lease->pub.provider_id, event->provider_id);
	keep_text(kit, &lease->pub.address, event->address);
	keep_text(kit, &lease->pub.detail, event->detail);
	if (event->state <= lease->pub.state)
		return;
	lease->pub.state = event->state;
	if (event->state == ESPL_NODE_READY)
		lease->ready_at = kit->now;
	if (event->state == ESPL_NODE_NOTICE)
		lease->ends_at = event->ends_at;
	if (event->state != ESPL_NODE_ENDED)
		return;
	lease->ended_at = kit->now;
	lease->reason = event->reason;
	lease->charged = event->charged;
	lease->retry_after = event->retry_after;
}

static void
keep_stray(struct espl_kit *kit, const struct espl_node_event *event)
{
	struct kit_cloud *c = kit->cloud;
	uint32_t known = find_stray(kit, event);

	if (c->owning && known == ESPL_ANY && event->state != ESPL_NODE_ENDED &&
	    event->run != NULL && strcmp(event->run, c->run) == 0)
		espl__kit_add_stray(kit, event->token, event->provider_id);
	if (known != ESPL_ANY && event->state == ESPL_NODE_ENDED)
		c->strays[known].ended = 1;
}

static void
print_node(struct line *line, const struct espl_kit *kit, const struct kit_lease *lease,
    const struct espl_node_event *event)
{
	if (kit->cloud->owning && (lease == NULL || event->run != NULL))
		append_line(line, "owned");
	else
		append_line(line, "node");
	if (lease != NULL)
		append_line(line, " lease=%llu", (unsigned long long)lease->pub.lease);
	else
		append_field(line, "token", event->token);
	append_line(line, " %s",
	    event->state <= ESPL_NODE_ENDED ? states[event->state] : states[0]);
	if (event->state == ESPL_NODE_ENDED)
		append_field(line, "reason",
		    event->reason <= ESPL_BY_REFUSAL ? reasons[event->reason] : "?");
	if ((event->flags & ESPL_NODE_AT_RISK) != 0)
		append_line(line, " at-risk");
	append_field(line, "id", event->provider_id);
	append_field(line, "address", event->address);
	append_field(line, "run", event->run);
	if (event->state == ESPL_NODE_NOTICE && event->ends_at != ESPL_NEVER)
		append_line(line, " ends_in=%.10g", espl_seconds(event->ends_at - kit->now));
	if (event->state == ESPL_NODE_ENDED && event->retry_after != 0)
		append_line(line, " retry_after=%.10g", espl_seconds(event->retry_after));
	if (event->state == ESPL_NODE_ENDED && event->charged >= 0)
		append_line(line, " charged=%.10g", (double)event->charged / (double)ESPL_USD);
	if (event->text != NULL && event->text[0] != '\0')
		append_line(line, ": %s", event->text);
}

static espl_status
on_node(const struct espl_cloud_events *events, const struct espl_node_event *event)
{
	struct espl_kit *kit = KIT(events);
	struct kit_lease *lease;
	struct line line = { .text = "" };
	const char *why;

	if (!ALIVE(kit))
		return ESPL_OK;
	why = espl__kit_handed(kit, "node", event, 2 * sizeof(uint32_t), sizeof *event, 0);
	if (why != NULL)
		return report_wrong(kit, why, &line);
	lease = lease_of(kit, event);
	why = node_wrong(kit, lease, event);
	print_node(&line, kit, lease, event);
	if (why == NULL && lease == NULL)
		keep_stray(kit, event);
	else if (why == NULL && kit->cloud->owning && event->run != NULL)
		lease->listed = 1;
	else if (why == NULL) {
		lease->listed |= kit->cloud->owning;
		keep_node(kit, lease, event);
	}
	return report_wrong(kit, why, &line);
}

static void
on_done(const struct espl_cloud_events *events, uint64_t what, espl_status status, const char *text)
{
	struct espl_kit *kit = KIT(events);
	struct kit_cloud *c = kit->cloud;
	struct line line = { .text = "" };
	const char *why;

	if (!ALIVE(kit))
		return;
	why = espl__kit_heard(kit, "done", &what, sizeof what);
	append_line(&line, "done");
	if (what != 0)
		append_line(&line, " request=%llu", (unsigned long long)what);
	if (status == ESPL_OK)
		append_line(&line, " OK");
	else
		append_line(&line, " status %d: %s", (int)status, text != NULL ? text : "");
	if (what == 0 ? !c->starting : !c->owning || what != c->request)
		why = c->done ? "reported done twice"
			      : "reported done of something that was not asked";
	else if (status != ESPL_OK && (text == NULL || text[0] == '\0'))
		why = "a failure without a text";
	else if (what == 0 && status == ESPL_OK && kit->offer_count == 0)
		why = "reported done without any offer";
	(void)report_wrong(kit, why, &line);
	if (what == 0 ? !c->starting : !c->owning || what != c->request)
		return;
	c->done = 1;
	c->done_status = status;
	(void)snprintf(c->done_text, sizeof c->done_text, "%s", text != NULL ? text : "");
	if (what != 0) {
		c->owning = 0;
		return;
	}
	c->starting = 0;
	c->up = status == ESPL_OK;
	if (c->up) { /* a run does it now, within this call */
		const char *entry = kit->entry;

		espl__kit_cloud_ask(kit);
		kit->entry = entry;
	}
}

void
espl__kit_cloud_open(struct espl_kit *kit)
{
	struct kit_cloud *c = kit->cloud;

	if (c == NULL)
		c = kit->cloud = espl__kit_alloc(kit, sizeof *c);
	espl__kit_cloud_forget(kit);
	c->lease_count = c->stray_count = 0;
	c->resuming = c->resumes = 0;
	c->run = "kit";
	kit->host.simulated = 0;
	if (kit->host.utc_start_s == 0)
		kit->host.utc_start_s = 1700000000;
	espl__kit_cloud_io(kit);
	c->events = (struct espl_cloud_events){ .size = (uint32_t)sizeof c->events,
		.ctx = kit,
		.offer = on_offer,
		.prices = on_prices,
		.node = on_node,
		.done = on_done };
}
