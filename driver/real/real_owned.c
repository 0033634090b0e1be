/* real_owned.c - machines of this run that the provider lists but the run does not know: released,
 * and reported in one line each.
 *
 * A failed listing proves nothing, and a machine that is missing in a listing has not ended: only
 * the cloud's own events end leases.
 */
#include "real/real.h"
#include <stdlib.h>
#include <string.h>
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/tick.h"
#include "plugin/instance.h"

#define LIST_LIMIT (60 * ESPL__REAL_SECOND)
#define CLOSE_LIMIT (120 * ESPL__REAL_SECOND) /* for the last listing and all releases */
#define PAUSE_MAX (30 * ESPL__REAL_SECOND)
/* Lease numbers for machines whose token does not contain one. */
#define NUMBERS (UINT64_C(1) << 48)

struct espl__orphan {
	char *token, *id, *address; /* id, address: NULL where unknown */
	uint64_t number;            /* of the lease that it was made for */
	int listed;                 /* by a listing that was not answered to its end yet */
	int ended;                  /* it costs nothing any more */
	int64_t release_at;         /* tick at which release is called (again) */
	uint32_t releases;
};

static void
free_orphan(struct espl__orphan *o)
{
	free(o->token);
	free(o->id);
	free(o->address);
	free(o);
}

static void
drop_orphan(struct espl__sweep *sweep, uint32_t i)
{
	free_orphan(sweep->list[i]);
	sweep->list[i] = sweep->list[--sweep->count];
}

void
espl__real_owned_free(struct espl__real *real)
{
	while (real->sweep.count > 0)
		drop_orphan(&real->sweep, real->sweep.count - 1);
	free(real->sweep.list);
	espl__names_free(&real->sweep.ended);
}

static const char *
name_of(const struct espl__orphan *o)
{
	return o->id != NULL ? o->id : o->token;
}

/* ---- what is listed ---- */

/* Even if a provider lists machines of other runs, too: those are not ours to release. */
static int
is_ours(const struct espl__real *real, const struct espl_node_event *event)
{
	size_t size = strlen(real->run);

	if (event->token == NULL)
		return 0;
	if (event->run != NULL)
		return strcmp(event->run, real->run) == 0;
	return strncmp(event->token, "espl-", 5) == 0 &&
	    strncmp(event->token + 5, real->run, size) == 0 && event->token[5 + size] == '-';
}

static uint64_t
number_of(const struct espl__real *real, const char *token)
{
	size_t prefix = 5 + strlen(real->run) + 1;
	const char *digits = strlen(token) > prefix ? token + prefix : "";

	if (*digits != '\0' && digits[strspn(digits, "0123456789")] == '\0' && strlen(digits) < 15)
		return strtoull(digits, NULL, 10);
	return NUMBERS + real->sweep.what * UINT64_C(65536) + real->sweep.count;
}

static struct espl__orphan *
orphan_of(const struct espl__sweep *sweep, const struct espl_node_event *event, uint32_t *at)
{
	for (uint32_t i = 0; i < sweep->count; i++) {
		struct espl__orphan *o = sweep->list[i];

		*at = i;
		if (event->lease != ESPL_NONE
			? event->lease == o->number
			: event->token != NULL && strcmp(event->token, o->token) == 0)
			return o;
	}
	return NULL;
}

static void
add_orphan(struct espl__real *real, const struct espl_node_event *event)
{
	struct espl__sweep *sweep = &real->sweep;
	struct espl__orphan *o = espl__alloc(sizeof *o);

	o->token = espl__strdup(event->token);
	o->id = event->provider_id != NULL ? espl__strdup(event->provider_id) : NULL;
	o->address = event->address != NULL ? espl__strdup(event->address) : NULL;
	o->number = number_of(real, event->token);
	o->ended = event->state == ESPL_NODE_ENDED;
	o->listed = 1;
	ESPL__GROW(sweep->list, sweep->cap, sweep->count + 1);
	sweep->list[sweep->count++] = o;
}

static void
report_released(const struct espl__orphan *o, espl_money charged)
{
	char usd[32];

	if (o->ended)
		return;
	if (charged >= 0)
		espl__log(ESPL_WARN,
		    "machine '%s' of this run was not among its leases and has been released; it "
		    "cost "
		    "$%s, which the cost of the run does not include",
		    name_of(o), espl__format_money(charged, usd));
	else
		espl__log(ESPL_WARN,
		    "machine '%s' of this run was not among its leases and has been released; "
		    "its cost is unknown, and the cost of the run does not include it",
		    name_of(o));
}

void
espl__real_owned_event(struct espl__real *real, const struct espl_node_event *event)
{
	uint32_t at = 0;
	const struct espl__orphan *o = orphan_of(&real->sweep, event, &at);

	if (o != NULL && event->state == ESPL_NODE_ENDED && !o->listed) {
		report_released(o, event->charged);
		drop_orphan(&real->sweep, at);
	} else if (o == NULL && real->sweep.asking &&
	    (event->state < ESPL_NODE_ENDED || event->run != NULL) && is_ours(real, event) &&
	    espl__names_find(&real->sweep.ended, event->token) == ESPL_ANY) {
		add_orphan(real, event);
	}
}

/* ---- listings ---- */

static void
end_listing(struct espl__real *real, espl_status status, const char *text)
{
	struct espl__sweep *sweep = &real->sweep;

	sweep->asking = 0;
	for (uint32_t i = sweep->count; i-- > 0;) {
		if (sweep->list[i]->listed && status != ESPL_OK)
			drop_orphan(sweep, i);
		else if (sweep->list[i]->listed)
			sweep->list[i]->release_at = espl__tick();
		if (status == ESPL_OK)
			sweep->list[i]->listed = 0;
	}
	espl__names_free(&sweep->ended);
	sweep->ended = (struct espl__names){ 0 };
	if (status != ESPL_OK)
		espl__log(ESPL_WARN,
		    "%s: the machines of this run could not be listed (%s); if some are left, "
		    "`espalier nodes %s` shows them",
		    real->cloud->who, text, real->dir);
}

void
espl__real_owned_done(struct espl__real *real, uint64_t what, espl_status status, const char *text)
{
	if (real->sweep.asking && what == real->sweep.what)
		end_listing(real, status, text);
}

void
espl__real_owned_ended(struct espl__real *real, const struct espl__rlease *lease)
{
	if (real->sweep.asking)
		(void)espl__names_add(&real->sweep.ended, lease->token);
}

void
espl__real_owned_ask(struct espl__real *real)
{
	struct espl__sweep *sweep = &real->sweep;
	struct espl_error error = ESPL_INIT(struct espl_error);
	espl_status status;

	if (!real->cloud_up || sweep->asking || !ESPL_HAS(struct espl_cloud_ops, real->ops, owned))
		return;
	sweep->what++;
	sweep->asking = 1;
	sweep->until = espl__tick() + LIST_LIMIT;
	espl__real_enter(real);
	status = real->ops->owned(real->cloud->self, real->run, sweep->what, &error);
	if (status != ESPL_OK && sweep->asking)
		end_listing(real, status, error.text);
}

/* ---- releases ---- */

static void
release_orphan(struct espl__real *real, struct espl__orphan *o, int64_t tick)
{
	struct espl_lease view = ESPL_INIT(struct espl_lease);
	const struct espl_lease *pointer = &view;
	struct espl_error error = ESPL_INIT(struct espl_error);
	int64_t pause = ESPL__REAL_SECOND << (o->releases < 5 ? o->releases : 5);

	o->releases++;
	o->release_at = tick + (pause < PAUSE_MAX ? pause : PAUSE_MAX);
	view.state = ESPL_NODE_READY;
	view.lease = o->number;
	view.token = o->token;
	view.offer = view.market = "";
	view.provider_id = o->id;
	view.address = o->address;
	espl__real_enter(real);
	if (real->ops->release(real->cloud->self, &pointer, 1, &error) != ESPL_OK) /* may free o */
		espl__log(ESPL_WARN, "%s: releasing a machine failed, retrying: %s",
		    real->cloud->who, error.text);
}

void
espl__real_owned_tick(struct espl__real *real, int64_t tick)
{
	struct espl__sweep *sweep = &real->sweep;

	if (sweep->asking && tick >= sweep->until)
		end_listing(real, ESPL_E_LIMIT, "no answer within 60 s");
	for (uint32_t i = sweep->count; i-- > 0;) /* backwards: the one at i may be freed */
		if (i < sweep->count && !sweep->list[i]->listed &&
		    tick >= sweep->list[i]->release_at)
			release_orphan(real, sweep->list[i], tick);
}

void
espl__real_owned_close(struct espl__real *real)
{
	int64_t until = espl__tick() + CLOSE_LIMIT;

	espl__real_owned_ask(real);
	while ((real->sweep.asking || real->sweep.count > 0) && espl__tick() < until) {
		(void)uv_run(&real->loop, UV_RUN_ONCE);
		real->batch[real->filling].count = 0;
	}
	for (uint32_t i = 0; i < real->sweep.count; i++)
		espl__log(ESPL_WARN,
		    "machine '%s' of this run was not among its leases, could not be released and "
		    "may still be running; see `espalier nodes %s`",
		    name_of(real->sweep.list[i]), real->dir);
}
