/* leases.c - the table of leases: what the host wants, which events it gets, and what is due. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>
#include <espalier/util.h>

#include "leases_inner.h"

#define TOLD_AFTER (30 * ESPL_SECOND) /* a shorter wait is not worth a line */
#define STEPS_MOST 8                  /* of a lease at one time */

/* ---- the table ---- */

void
espl_leases_begin(struct espl_leases *set, const struct espl_lease_calls *calls,
    const struct espl_lease_rules *rules, void *cloud, const struct espl_host *host,
    size_t lease_size)
{
	ESPL_ASSERT(lease_size >= sizeof(struct espl_leased));
	*set = (struct espl_leases){ .calls = calls,
		.rules = rules,
		.cloud = cloud,
		.host = host,
		.lease_size = lease_size,
		.list_at = ESPL_NEVER,
		.timer_at = ESPL_NEVER,
		.silent = ESPL_NEVER };
}

static void
free_lease(struct espl_leases *set, struct espl_leased *lease)
{
	if (set->calls->drop != NULL)
		set->calls->drop(set->cloud, lease);
	free(lease->id);
	free(lease->address);
	free(lease->machine);
	free(lease->detail);
	free(lease->target);
	free(lease);
}

void
espl_leases_free(struct espl_leases *set)
{
	while (set->first != NULL) {
		struct espl_leased *lease = set->first;

		set->first = lease->next;
		free_lease(set, lease);
	}
}

struct espl_leased *
espl_leases_find(const struct espl_leases *set, const char *token)
{
	struct espl_leased *lease = set->first;

	while (lease != NULL && (lease->gone || strcmp(lease->token, token) != 0))
		lease = lease->next;
	return lease;
}

struct espl_leased *
espl_leases_serial(const struct espl_leases *set, uint64_t serial)
{
	struct espl_leased *lease = set->first;

	while (lease != NULL && lease->serial != serial)
		lease = lease->next;
	return lease;
}

int
espl_leases_has_live(const struct espl_leases *set)
{
	const struct espl_leased *lease = set->first;

	while (lease != NULL && lease->over)
		lease = lease->next;
	return lease != NULL;
}

static struct espl_leased *
add_lease(struct espl_leases *set, uint64_t number, const char *token, espl_time now)
{
	struct espl_leased *lease = calloc(1, set->lease_size);

	if (lease == NULL)
		return NULL;
	if (set->first == NULL && !set->listing) { /* nothing was listed for a while */
		set->pause = set->rules->least;
		set->list_at = now + set->pause;
	}
	espl_lease_begin(lease, now);
	lease->serial = ++set->serial;
	lease->lease = number;
	lease->list_since = set->list_number + 1;
	(void)snprintf(lease->token, sizeof lease->token, "%s", token);
	lease->next = set->first;
	set->first = lease;
	if (set->rules->list_first)
		espl_leases_hurry(set, now);
	return lease;
}

/* ---- events for the host ---- */

struct espl_lease_row
espl_lease_row(const char *token, enum espl_lease_stage stage)
{
	struct espl_lease_row row = { .token = token, .stage = stage };

	row.ends_at = ESPL_NEVER;
	row.charged = -1;
	return row;
}

struct espl_node_event
espl_leases_event(const struct espl_leased *lease, espl_node_state state)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);

	event.state = state;
	event.lease = lease->lease;
	event.token = lease->token;
	event.provider_id = lease->id;
	event.address = lease->address;
	event.machine = lease->machine;
	event.detail = lease->detail;
	event.at = event.ends_at = ESPL_NEVER;
	event.gpus = ESPL_ANY;
	event.charged = -1;
	return event;
}

void
espl_leases_report(const struct espl_leases *set, struct espl_leased *lease,
    struct espl_node_event *event)
{
	if (set->calls->fill != NULL)
		set->calls->fill(set->cloud, lease, event);
	(void)set->events->node(set->events, event);
}

/* lease: begins with its name; NULL: not. */
void
espl_leases_log(const struct espl_leases *set, const struct espl_leased *lease, const char *format,
    ...)
{
	char line[2 * ESPL_LEASE_TEXT];
	size_t used = 0;
	va_list args;

	if (lease != NULL)
		used = (size_t)snprintf(line, sizeof line, "%s '%.100s' ", set->rules->noun,
		    lease->id != NULL ? lease->id : lease->token);
	va_start(args, format);
	(void)vsnprintf(line + used, sizeof line - used, format, args);
	va_end(args);
	set->host->log(set->host, ESPL_WARN, line);
}

/* What it waits for, once in each stage, unless the provider's own words were reported. */
static void
tell_wait(struct espl_leases *set, struct espl_leased *lease, espl_time now)
{
	const char *what = set->rules->waits[lease->stage];
	struct espl_node_event event;
	char text[2 * ESPL_LEASE_TEXT];

	if (lease->over || lease->releasing || lease->ending || lease->told || what == NULL ||
	    lease->claimed || lease->stage >= ESPL_STAGE_READY || now - lease->since < TOLD_AFTER)
		return;
	lease->told = 1;
	(void)snprintf(text, sizeof text, "%s %.100s waits: %.150s, for %lld s%s%.300s",
	    set->rules->noun, lease->id != NULL ? lease->id : lease->token, what,
	    (long long)((now - lease->since) / ESPL_SECOND), lease->said[0] != '\0' ? ": " : "",
	    lease->said);
	if (lease->reported == 0) { /* the host knows no machine yet */
		set->host->log(set->host, ESPL_WARN, text);
		return;
	}
	event = espl_leases_event(lease, lease->reported);
	event.text = text;
	espl_leases_report(set, lease, &event);
}

static espl_time
warning_time(const struct espl_leased *lease)
{
	static const espl_span minutes[] = { 1, 5, 15 };
	const uint32_t count = sizeof minutes / sizeof minutes[0], n = lease->warnings;

	if (lease->over || lease->ending_at == ESPL_NEVER)
		return ESPL_NEVER;
	return lease->ending_at +
	    60 * ESPL_SECOND * (n < count ? minutes[n] : 60 * (espl_span)(n - count + 1));
}

/* Again and again, with longer pauses, while a machine that was to end may cost money. */
static void
warn_late(struct espl_leases *set, struct espl_leased *lease, espl_time now)
{
	if (now < warning_time(lease) || lease->over)
		return;
	lease->warnings++;
	espl_leases_log(set, lease,
	    "may still be running, %lld minutes after its end was first requested; trying again: "
	    "%.400s",
	    (long long)((now - lease->ending_at) / (60 * ESPL_SECOND)),
	    lease->said[0] != '\0' ? lease->said : "the request is accepted, and it does not end");
}

/* ---- what is due ---- */

void
espl_leases_hurry(struct espl_leases *set, espl_time now)
{
	set->list_again |= set->listing;
	if (set->silent != ESPL_NEVER || set->calls->list == NULL)
		return;
	set->pause = set->rules->least;
	if (set->list_at > now + set->rules->soon)
		set->list_at = now + set->rules->soon;
}

/* A machine may exist that nothing but a listing shows. */
void
espl_leases_list_now(struct espl_leases *set, espl_time now)
{
	espl_leases_hurry(set, now);
	if (set->silent == ESPL_NEVER && set->list_at > now && !set->listing)
		set->list_at = now;
}

void
espl_leases_stop(const struct espl_leases *set, struct espl_leased *lease)
{
	if (lease->busy == ESPL_LEASE_IDLE)
		return;
	if (set->calls->stop != NULL)
		set->calls->stop(set->cloud, lease);
	lease->busy = ESPL_LEASE_IDLE;
	free(lease->target);
	lease->target = NULL;
}

static void
send_cancel(struct espl_leases *set, struct espl_leased *lease, espl_time now)
{
	const char *id = lease->id != NULL ? lease->id : "";

	free(lease->target);
	lease->target = strdup(id);
	if (lease->target == NULL || set->calls->cancel(set->cloud, lease, id) != ESPL_OK)
		espl_leases_cancelled(set, lease, ESPL_DID_LATER, "it cannot be asked for", -1,
		    now);
}

/* 0: there is nothing to do now. */
static int
do_duty(struct espl_leases *set, struct espl_leased *lease, espl_time now)
{
	static const char failed[] = "its request cannot be sent";
	enum espl_lease_busy duty = espl_lease_duty(set, lease);

	if (duty == ESPL_LEASE_IDLE || now < lease->due)
		return 0;
	lease->busy = duty;
	switch (duty) {
	case ESPL_LEASE_ASKS:
		lease->asks++;
		if (set->calls->ask(set->cloud, lease) != ESPL_OK)
			espl_leases_refused(set, lease, ESPL_DID_LATER, 0, failed, 0, now);
		break;
	case ESPL_LEASE_LOOKS:
		if (set->calls->look(set->cloud, lease) != ESPL_OK)
			espl_leases_looked(set, lease, ESPL_DID_LATER, NULL, failed, now);
		break;
	case ESPL_LEASE_CANCELS: send_cancel(set, lease, now); break;
	default:
		if (set->calls->probe(set->cloud, lease) != ESPL_OK)
			espl_leases_probed(set, lease, 0, failed, now);
		break;
	}
	return lease->busy == ESPL_LEASE_IDLE;
}

static void
list_machines(struct espl_leases *set, espl_time now)
{
	if (set->calls->list == NULL || set->listing || set->first == NULL || now < set->list_at)
		return;
	set->list_number++;
	set->listing = 1;
	set->sent_at = now;
	set->list_at = ESPL_NEVER;
	if (set->calls->list(set->cloud) != ESPL_OK)
		espl_leases_unlisted(set, "the list of machines cannot be asked for", now);
}

static void
sweep_gone(struct espl_leases *set)
{
	struct espl_leased **at = &set->first;

	while (*at != NULL) {
		struct espl_leased *lease = *at;

		if (!lease->gone) {
			at = &lease->next;
			continue;
		}
		*at = lease->next;
		espl_leases_stop(set, lease);
		free_lease(set, lease);
	}
}

static espl_time
first_of(espl_time a, espl_time b)
{
	return a < b ? a : b;
}

/* When something will be due next. */
static espl_time
next_time(const struct espl_leases *set)
{
	espl_time at = set->first != NULL && !set->listing && set->calls->list != NULL
	    ? set->list_at
	    : ESPL_NEVER;

	for (const struct espl_leased *l = set->first; l != NULL; l = l->next) {
		if (espl_lease_duty(set, l) != ESPL_LEASE_IDLE)
			at = first_of(at, l->due);
		at = first_of(at, first_of(espl_lease_limit(set, l), warning_time(l)));
		if (!l->told && !l->over && !l->claimed && l->stage < ESPL_STAGE_READY &&
		    set->rules->waits[l->stage] != NULL && !l->releasing && !l->ending)
			at = first_of(at, l->since + TOLD_AFTER);
	}
	return at;
}

void
espl_leases_due(struct espl_leases *set, espl_time now)
{
	espl_time at;

	if (set->working) /* called by a translator */
		return;
	set->working = 1;
	for (struct espl_leased *lease = set->first; lease != NULL; lease = lease->next) {
		espl_lease_expire(set, lease, now);
		tell_wait(set, lease, now);
		warn_late(set, lease, now);
		for (int i = 0; i < STEPS_MOST && do_duty(set, lease, now); i++)
			continue;
	}
	sweep_gone(set);
	list_machines(set, now);
	set->working = 0;
	at = next_time(set);
	if (at < set->timer_at && set->calls->timer(set->cloud, at > now ? at - now : 0) == ESPL_OK)
		set->timer_at = at;
}

/* A timer may be a little early: another one is asked for then. */
void
espl_leases_timer(struct espl_leases *set, espl_time now)
{
	set->timer_at = ESPL_NEVER;
	espl_leases_due(set, now);
}

/* ---- what the host wants ---- */

struct espl_leased *
espl_leases_acquire(struct espl_leases *set, const struct espl_acquire *wanted, int *fresh,
    espl_time now)
{
	struct espl_leased *lease = espl_leases_find(set, wanted->token);

	*fresh = lease == NULL || lease->over;
	if (*fresh) {
		int unsure = lease != NULL;

		if (unsure)
			lease->gone = 1; /* the new lease of its token is the one that watches */
		lease = add_lease(set, wanted->lease, wanted->token, now);
		if (lease != NULL)
			lease->unsure = unsure;
		return lease;
	}
	if (lease->reported != 0) {
		struct espl_node_event event = espl_leases_event(lease, lease->reported);

		espl_leases_report(set, lease, &event);
	}
	return lease;
}

static struct espl_leased *
add_claimed(struct espl_leases *set, const struct espl_lease *view, espl_time now)
{
	struct espl_leased *lease = add_lease(set, view->lease, view->token, now);
	struct espl_lease_row row;

	if (lease == NULL)
		return NULL;
	lease->step = ESPL_LEASE_LOST;
	lease->claimed = lease->unsure = 1;
	row = espl_lease_row(view->token, ESPL_STAGE_NONE);
	row.id = view->provider_id;
	row.address = view->address;
	row.detail = view->detail;
	if (espl_lease_copy(lease, &row) != 0) {
		lease->gone = 1;
		return NULL;
	}
	espl_leases_list_now(set, now);
	return lease;
}

struct espl_leased *
espl_leases_adopt(struct espl_leases *set, const struct espl_lease *view, espl_time now)
{
	struct espl_leased *lease = espl_leases_find(set, view->token);

	return lease != NULL ? lease : add_claimed(set, view, now);
}

struct espl_leased *
espl_leases_release(struct espl_leases *set, const struct espl_lease *view, espl_time now)
{
	struct espl_leased *lease = espl_leases_find(set, view->token);

	if (lease == NULL)
		lease = add_claimed(set, view, now);
	if (lease == NULL)
		return NULL;
	if (lease->over) { /* the host knows of its machine again */
		lease->over = lease->ending = 0;
		lease->reported = 0;
		lease->lease = view->lease;
		lease->claimed = !lease->alive;
		if (!lease->alive)
			lease->step = ESPL_LEASE_LOST;
		lease->unsure = 1;
		lease->missing = 0;
	}
	espl_lease_release(set, lease, now);
	return lease;
}

/* ---- lists of them ---- */

espl_status
espl_leases_acquire_all(struct espl_leases *set, const struct espl_acquire *const *list,
    uint32_t count, espl_status (*begin)(void *, struct espl_leased *, const struct espl_acquire *),
    struct espl_error *error)
{
	espl_time now = set->host->now(set->host);

	for (uint32_t i = 0; i < count; i++) {
		int fresh;
		struct espl_leased *lease = espl_leases_acquire(set, list[i], &fresh, now);

		if (lease == NULL ||
		    (fresh && begin != NULL && begin(set->cloud, lease, list[i]) != ESPL_OK))
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	espl_leases_due(set, now);
	return ESPL_OK;
}

espl_status
espl_leases_claim_all(struct espl_leases *set,
    struct espl_leased *(*claim)(struct espl_leases *, const struct espl_lease *, espl_time),
    const struct espl_lease *const *list, uint32_t count,
    void (*begin)(void *, struct espl_leased *, const struct espl_lease *),
    struct espl_error *error)
{
	espl_time now = set->host->now(set->host);

	for (uint32_t i = 0; i < count; i++) {
		int known = espl_leases_find(set, list[i]->token) != NULL;
		struct espl_leased *lease = claim(set, list[i], now);

		if (lease == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		if (!known && begin != NULL)
			begin(set->cloud, lease, list[i]);
	}
	espl_leases_due(set, now);
	return ESPL_OK;
}
