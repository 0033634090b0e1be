/* leases_state.c - a lease from the request to the end: what follows from each answer.
 *
 * Two rules prevent machines from being lost: a request whose outcome is unknown is settled by its
 * token or by listings, and what is not listed has not ended for that alone.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leases_inner.h"

#define BACKOFF_MOST (30 * ESPL_SECOND)
#define PROBE_PAUSE (3 * ESPL_SECOND)

static void
copy_text(char to[ESPL_LEASE_TEXT], const char *text)
{
	(void)snprintf(to, ESPL_LEASE_TEXT, "%s", text != NULL ? text : "");
}

/* -1: out of memory, and nothing has changed. */
static int
replace_text(char **at, const char *text)
{
	char *copy;

	if (text == NULL || (*at != NULL && strcmp(*at, text) == 0))
		return 0;
	copy = strdup(text);
	if (copy == NULL)
		return -1;
	free(*at);
	*at = copy;
	return 0;
}

void
espl_lease_begin(struct espl_leased *lease, espl_time now)
{
	lease->stage = ESPL_STAGE_REQUESTED;
	lease->since = lease->due = now;
	lease->missing_at = lease->failing_at = lease->ending_at = ESPL_NEVER;
}

static void
enter_stage(struct espl_leased *lease, enum espl_lease_stage stage, espl_time now)
{
	if (stage == lease->stage)
		return;
	lease->stage = stage;
	lease->since = now;
	lease->told = 0;
}

void
espl_lease_wait(struct espl_leased *lease, espl_time now)
{
	espl_span pause = ESPL_SECOND << (lease->tries < 5 ? lease->tries : 5);

	if (pause > BACKOFF_MOST)
		pause = BACKOFF_MOST;
	/* Leases that failed together do not come back together. */
	pause -= pause / 2 * (espl_span)((lease->serial * 7 + lease->tries * 3) % 10) / 10;
	lease->tries++;
	lease->due = now + pause;
}

/* No answer tells whether there is a machine. */
static void
lose_track(struct espl_leases *set, struct espl_leased *lease, espl_time now)
{
	lease->step = ESPL_LEASE_LOST;
	lease->missing = 0;
	lease->due = now;
	espl_leases_list_now(set, now);
}

/* ---- ends ---- */

void
espl_lease_end(struct espl_leases *set, struct espl_leased *lease, espl_reason reason,
    const char *text, espl_money charged, int sure, espl_time now)
{
	struct espl_node_event event;
	int watched = !sure || lease->second[0] != '\0' || now < lease->doubt_at;

	lease->gone |= !watched || set->calls->list == NULL || set->rules->late_lists == 0;
	if (lease->over)
		return;
	lease->over = 1;
	lease->clean = 0;
	event = espl_leases_event(lease, ESPL_NODE_ENDED);
	event.reason = lease->releasing ? ESPL_BY_USER : lease->ending ? lease->end_reason : reason;
	event.text = lease->releasing ? NULL : lease->ending ? lease->why : text;
	event.charged = charged;
	if (event.reason == ESPL_BY_CAPACITY || event.reason == ESPL_BY_QUOTA)
		event.retry_after = lease->retry_after;
	lease->reported = ESPL_NODE_ENDED;
	if (lease->busy != ESPL_LEASE_CANCELS) /* perhaps of a second machine */
		espl_leases_stop(set, lease);
	espl_leases_report(set, lease, &event);
}

void
espl_leases_give_up(struct espl_leases *set, struct espl_leased *lease, espl_reason reason,
    const char *text, espl_time now)
{
	if (lease->over || lease->ending)
		return;
	lease->ending = 1;
	lease->end_reason = reason;
	copy_text(lease->why, text);
	if (lease->ending_at == ESPL_NEVER)
		lease->ending_at = now;
	lease->due = now;
	lease->tries = 0;
	if (lease->busy == ESPL_LEASE_PROBES)
		espl_leases_stop(set, lease);
	if (lease->step == ESPL_LEASE_WANTED && !lease->unsure && lease->busy == ESPL_LEASE_IDLE)
		espl_lease_end(set, lease, reason, lease->why, 0, 1, now);
}

/* Listings, or a proof, have shown that there is no machine. */
static void
take_absent(struct espl_leases *set, struct espl_leased *lease, int sure, espl_time now)
{
	const struct espl_lease_rules *rules = set->rules;
	char text[ESPL_LEASE_TEXT];

	if (lease->over) {
		lease->gone |= sure && now >= lease->doubt_at;
		return;
	}
	if (lease->step == ESPL_LEASE_KNOWN || lease->claimed) {
		if (lease->claimed && lease->id != NULL && rules->listing != NULL)
			espl_leases_log(set, NULL,
			    "%s does not show %s '%.100s' of leases.json with token '%.64s' of "
			    "this run: it has ended, or is not of this run, and is not released; "
			    "if it is yours, release it yourself",
			    rules->listing, rules->noun, lease->id, lease->token);
		espl_lease_end(set, lease, ESPL_BY_FAULT, rules->missing, -1, sure, now);
		return;
	}
	lease->missing = 0;
	if (lease->releasing || lease->ending || rules->lost != ESPL_LOST_AGAIN) {
		espl_lease_end(set, lease, ESPL_BY_FAULT, lease->said, -1, sure, now);
	} else if (rules->asks_most > 0 && lease->asks >= rules->asks_most) {
		(void)snprintf(text, sizeof text, "%s has not accepted its %s in %u attempts",
		    rules->provider, rules->noun, lease->asks);
		espl_lease_end(set, lease, ESPL_BY_CAPACITY, text, -1, sure, now);
	} else { /* what was lost is known now: it was not done */
		lease->step = ESPL_LEASE_WANTED;
		lease->unsure = 0;
		lease->due = now;
		lease->listed = 1;
	}
}

/* ---- a machine ---- */

int
espl_lease_copy(struct espl_leased *lease, const struct espl_lease_row *row)
{
	int failed = replace_text(&lease->id, row->id);

	failed |= replace_text(&lease->address, row->address);
	failed |= replace_text(&lease->machine, row->machine);
	failed |= replace_text(&lease->detail, row->detail);
	return failed;
}

/* What it waits for, when that changes. */
static int
report_wait(struct espl_leases *set, struct espl_leased *lease, const char *text)
{
	struct espl_node_event event = espl_leases_event(lease, ESPL_NODE_BOOTING);
	char line[ESPL_LEASE_TEXT + 60];

	if (text == NULL || lease->stage >= ESPL_STAGE_JOINING || strcmp(text, lease->text) == 0)
		return 0;
	copy_text(lease->text, text);
	(void)snprintf(line, sizeof line, "%s %.100s waits: %.450s", set->rules->noun,
	    lease->id != NULL ? lease->id : lease->token, text);
	event.text = line;
	if (lease->reported < ESPL_NODE_BOOTING)
		lease->reported = ESPL_NODE_BOOTING;
	lease->told = 1;
	espl_leases_report(set, lease, &event);
	return 1;
}

static void
report_stage(struct espl_leases *set, struct espl_leased *lease)
{
	espl_node_state state =
	    lease->stage == ESPL_STAGE_READY ? ESPL_NODE_READY : set->rules->told[lease->stage];
	struct espl_node_event event = espl_leases_event(lease, state);

	if (state <= lease->reported)
		return;
	lease->reported = state;
	espl_leases_report(set, lease, &event);
}

static void
report_warnings(struct espl_leases *set, struct espl_leased *lease,
    const struct espl_lease_row *row)
{
	struct espl_node_event event;

	if (row->at_risk && !lease->at_risk && lease->reported == ESPL_NODE_READY) {
		lease->at_risk = 1;
		event = espl_leases_event(lease, ESPL_NODE_READY);
		event.flags = ESPL_NODE_AT_RISK;
		espl_leases_report(set, lease, &event);
	}
	if (row->notice && lease->reported < ESPL_NODE_NOTICE) {
		lease->reported = ESPL_NODE_NOTICE;
		event = espl_leases_event(lease, ESPL_NODE_NOTICE);
		event.ends_at = row->ends_at;
		event.text = row->text;
		espl_leases_report(set, lease, &event);
	}
}

/* An answer shows it.  A stage never goes back: a listing may be an answer of the past. */
static void
take_row(struct espl_leases *set, struct espl_leased *lease, const struct espl_lease_row *row,
    espl_time now)
{
	enum espl_lease_stage stage = row->stage;

	if (espl_lease_copy(lease, row) != 0)
		return; /* the next answer says it again */
	if (lease->step != ESPL_LEASE_KNOWN) {
		lease->step = ESPL_LEASE_KNOWN;
		lease->tries = 0;
		lease->due = now;
		lease->said[0] = '\0';
	}
	lease->unsure = lease->claimed = lease->doubted = 0;
	lease->missing = 0;
	lease->missing_at = lease->failing_at = ESPL_NEVER;
	if (stage == ESPL_STAGE_ENDED) {
		espl_lease_end(set, lease, row->reason, row->text, row->charged, 1, now);
		return;
	}
	if (lease->releasing || lease->ending)
		return; /* its cancel is due */
	if (stage == ESPL_STAGE_JOINING && set->calls->probe == NULL)
		stage = ESPL_STAGE_READY;
	if (stage > lease->stage)
		enter_stage(lease, stage, now);
	if (stage != ESPL_STAGE_NONE && !report_wait(set, lease, row->text))
		report_stage(set, lease);
	report_warnings(set, lease, row);
}

/* The end of a lease is not the end of its machines. */
static void
take_late(struct espl_leases *set, struct espl_leased *lease, const struct espl_lease_row *row,
    espl_time now)
{
	int known = lease->id != NULL;

	if (row->stage == ESPL_STAGE_ENDED || espl_lease_copy(lease, row) != 0)
		return;
	lease->clean = 0;
	if (!lease->alive && known)
		espl_leases_log(set, lease,
		    "is there again after its lease had ended; it is released");
	else if (!lease->alive)
		espl_leases_log(set, lease, "appeared after its %s had failed; it is released",
		    set->rules->asking);
	if (!lease->alive)
		lease->due = now;
	lease->alive = 1;
	lease->claimed = 0;
	lease->step = ESPL_LEASE_KNOWN;
}

void
espl_leases_seen(struct espl_leases *set, struct espl_leased *lease,
    const struct espl_lease_row *row, espl_time now)
{
	if (lease->over)
		take_late(set, lease, row, now);
	else
		take_row(set, lease, row, now);
}

/* ---- answers to one lease's requests ---- */

/* One that is to end: it was never made, or a listing shows whether it was. */
static void
settle_end(struct espl_leases *set, struct espl_leased *lease, espl_time now)
{
	if ((!lease->releasing && !lease->ending) || lease->over || lease->step == ESPL_LEASE_KNOWN)
		return;
	if (lease->step == ESPL_LEASE_WANTED && !lease->unsure)
		espl_lease_end(set, lease, ESPL_BY_USER, NULL, 0, 1, now);
	else if (lease->step == ESPL_LEASE_WANTED)
		lose_track(set, lease, now);
	else
		espl_leases_list_now(set, now);
}

void
espl_leases_made(struct espl_leases *set, struct espl_leased *lease,
    const struct espl_lease_row *row, espl_time now)
{
	lease->busy = ESPL_LEASE_IDLE;
	lease->list_since = set->list_number + 1;
	espl_leases_seen(set, lease, row, now);
	espl_leases_hurry(set, now);
}

static void
take_refusal(struct espl_leases *set, struct espl_leased *lease, espl_reason reason,
    const char *text, espl_time now)
{
	/* A provider that repeats answers for a token that it knows before there is any question of
	 * capacity; a refusal, of keys for example, says nothing of an earlier request. */
	if (lease->unsure && (reason == ESPL_BY_REFUSAL || set->rules->lost != ESPL_LOST_REPEAT)) {
		espl_leases_give_up(set, lease, reason, text, now);
		lose_track(set, lease, now);
		return;
	}
	espl_lease_end(set, lease, reason, text, 0, 1, now);
}

void
espl_leases_refused(struct espl_leases *set, struct espl_leased *lease,
    enum espl_lease_failure failure, espl_reason reason, const char *text, espl_span retry_after,
    espl_time now)
{
	lease->busy = ESPL_LEASE_IDLE;
	lease->list_since = set->list_number + 1;
	lease->retry_after = retry_after;
	if (failure == ESPL_DID_REFUSE) {
		take_refusal(set, lease, reason, text, now);
		return;
	}
	copy_text(lease->said, text);
	if (lease->failing_at == ESPL_NEVER)
		lease->failing_at = now;
	lease->unsure |= failure != ESPL_DID_LATER;
	if (failure == ESPL_DID_UNSURE) /* it may even be performed later */
		lease->doubt_at = now + set->rules->doubt;
	lease->step = ESPL_LEASE_WANTED;
	espl_lease_wait(lease, now);
	if (failure == ESPL_DID_EXIST && set->calls->look == NULL)
		espl_leases_give_up(set, lease, ESPL_BY_FAULT, text, now);
	if (failure == ESPL_DID_EXIST ||
	    (failure == ESPL_DID_UNSURE && set->rules->lost != ESPL_LOST_REPEAT))
		lose_track(set, lease, now);
	settle_end(set, lease, now);
}

void
espl_leases_again(struct espl_leases *set, struct espl_leased *lease, espl_time now)
{
	espl_leases_stop(set, lease);
	free(lease->id);
	lease->id = NULL;
	lease->text[0] = '\0';
	lease->step = ESPL_LEASE_WANTED;
	enter_stage(lease, ESPL_STAGE_REQUESTED, now);
	lease->due = now;
	settle_end(set, lease, now);
}

void
espl_leases_looked(struct espl_leases *set, struct espl_leased *lease,
    enum espl_lease_failure failure, const struct espl_lease_row *row, const char *text,
    espl_time now)
{
	lease->busy = ESPL_LEASE_IDLE;
	if (failure == ESPL_DID_FINE) {
		espl_leases_seen(set, lease, row, now);
	} else if (failure == ESPL_DID_GONE) {
		take_absent(set, lease, 1, now);
	} else {
		copy_text(lease->said, text);
		espl_lease_wait(lease, now);
	}
}

void
espl_leases_probed(struct espl_leases *set, struct espl_leased *lease, int reached,
    const char *text, espl_time now)
{
	lease->busy = ESPL_LEASE_IDLE;
	if (lease->over || lease->releasing || lease->ending)
		return;
	if (!reached) {
		copy_text(lease->said, text);
		lease->due = now + PROBE_PAUSE;
		return;
	}
	enter_stage(lease, ESPL_STAGE_READY, now);
	report_stage(set, lease);
}

/* A cancel that fails is repeated; the same words are logged once. */
static void
note_stuck(struct espl_leases *set, struct espl_leased *lease, const char *text, espl_time now)
{
	if (strcmp(lease->said, text) != 0)
		espl_leases_log(set, lease, "%s: %.400s; trying again", set->rules->stuck, text);
	copy_text(lease->said, text);
	espl_lease_wait(lease, now);
}

void
espl_leases_cancelled(struct espl_leases *set, struct espl_leased *lease,
    enum espl_lease_failure failure, const char *text, espl_money charged, espl_time now)
{
	const struct espl_lease_rules *rules = set->rules;
	int own =
	    lease->target == NULL || lease->id == NULL || strcmp(lease->target, lease->id) == 0;
	int first = lease->tries == 0;

	lease->busy = ESPL_LEASE_IDLE;
	free(lease->target);
	lease->target = NULL;
	if (failure == ESPL_DID_LATER || failure == ESPL_DID_UNSURE) {
		note_stuck(set, lease, text, now);
		return;
	}
	lease->due = now + rules->cancel_again;
	lease->tries = 1;
	if (first)
		espl_leases_hurry(set, now);
	if (!own || lease->over)
		return; /* listings show what is left */
	if (failure == ESPL_DID_FINE && rules->cancel_ends)
		espl_lease_end(set, lease, ESPL_BY_FAULT, rules->missing, charged, !lease->unsure,
		    now);
	else if (failure == ESPL_DID_GONE && (rules->gone_ends || lease->missing > 0))
		espl_lease_end(set, lease, ESPL_BY_FAULT, rules->missing, -1, 1, now);
	else if (lease->doubted && !lease->releasing && !lease->ending) {
		espl_leases_give_up(set, lease, ESPL_BY_FAULT,
		    "it was not listed, but was still there; it is ended", now);
		lease->due = now + rules->cancel_again; /* it was asked for just now */
	}
}

/* ---- listings ---- */

/* That of its own machine; else one that lives; else one that has ended. */
static const struct espl_lease_row *
find_row(const struct espl_leased *lease, const struct espl_lease_row *rows, uint32_t count)
{
	const struct espl_lease_row *found = NULL;

	for (uint32_t i = 0; i < count; i++) {
		if (rows[i].token == NULL || strcmp(rows[i].token, lease->token) != 0)
			continue;
		if (lease->id != NULL && rows[i].id != NULL && strcmp(rows[i].id, lease->id) == 0)
			return &rows[i];
		if (found == NULL ||
		    (found->stage == ESPL_STAGE_ENDED && rows[i].stage != ESPL_STAGE_ENDED))
			found = &rows[i];
	}
	return found;
}

static void
cancel_machine(struct espl_leases *set, struct espl_leased *lease, const char *id, espl_time now)
{
	if (lease->busy != ESPL_LEASE_IDLE || replace_text(&lease->target, id) != 0)
		return; /* the next listing shows it again */
	lease->busy = ESPL_LEASE_CANCELS;
	if (set->calls->cancel(set->cloud, lease, id) != ESPL_OK)
		espl_leases_cancelled(set, lease, ESPL_DID_LATER, "it cannot be asked for", -1,
		    now);
}

/* The provider made two machines for one token: the other one is ended. */
static void
cancel_second(struct espl_leases *set, struct espl_leased *lease, const struct espl_lease_row *main,
    const struct espl_lease_row *rows, uint32_t count, espl_time now)
{
	const struct espl_lease_row *row = rows;

	while (row < rows + count &&
	    (row == main || row->token == NULL || row->id == NULL || main->id == NULL ||
		strcmp(row->token, lease->token) != 0 || strcmp(row->id, main->id) == 0 ||
		row->stage == ESPL_STAGE_ENDED))
		row++;
	if (row == rows + count) {
		lease->second[0] = '\0';
		return;
	}
	if (strcmp(lease->second, row->id) != 0)
		espl_leases_log(set, NULL,
		    "%s has two %ss for one node, %.100s and %.100s; cancelling the second",
		    set->rules->provider, set->rules->noun, main->id, row->id);
	(void)snprintf(lease->second, sizeof lease->second, "%s", row->id);
	lease->clean = 0;
	cancel_machine(set, lease, row->id, now);
}

static void
miss_machine(struct espl_leases *set, struct espl_leased *lease, espl_time now)
{
	const struct espl_lease_rules *rules = set->rules;
	uint32_t most = lease->step == ESPL_LEASE_KNOWN || lease->claimed ? rules->missing_lists
									  : rules->absent_lists;

	if (lease->over) {
		lease->alive = 0;
		lease->gone |= ++lease->clean >= rules->late_lists && now >= lease->doubt_at;
		return;
	}
	if (lease->step == ESPL_LEASE_WANTED) {
		lease->listed = 1;
		return;
	}
	if (lease->missing++ == 0)
		lease->missing_at = now;
	if (lease->missing < most || (most > 1 && now - lease->missing_at < rules->settle))
		return;
	if (lease->step == ESPL_LEASE_KNOWN && (rules->cancel_tells || set->calls->look != NULL))
		lease->doubted = 1;
	else
		take_absent(set, lease, 0, now);
}

static void
take_listing(struct espl_leases *set, struct espl_leased *lease, const struct espl_lease_row *rows,
    uint32_t count, espl_time now)
{
	const struct espl_lease_row *row;

	/* what its request changes meanwhile, the next listing shows */
	if (lease->list_since > set->list_number || lease->busy == ESPL_LEASE_ASKS ||
	    lease->busy == ESPL_LEASE_CANCELS)
		return;
	row = find_row(lease, rows, count);
	if (row == NULL || (lease->over && row->stage == ESPL_STAGE_ENDED)) {
		lease->second[0] = '\0';
		miss_machine(set, lease, now);
		return;
	}
	cancel_second(set, lease, row, rows, count, now);
	espl_leases_seen(set, lease, row, now);
}

void
espl_leases_listed(struct espl_leases *set, const struct espl_lease_row *rows, uint32_t count,
    espl_time now)
{
	set->listing = 0;
	if (set->silent != ESPL_NEVER) {
		espl_leases_log(set, NULL, "%s answers again after %lld s", set->rules->provider,
		    (long long)((now - set->silent) / ESPL_SECOND));
		/* its clock stood: nothing could say that a wait was over */
		for (struct espl_leased *l = set->first; l != NULL; l = l->next)
			l->since += now - (l->since > set->silent ? l->since : set->silent);
		set->silent = ESPL_NEVER;
		set->pause = set->rules->least;
	}
	set->list_at = set->sent_at + set->pause;
	if (set->list_at < now + set->pause / 2) /* one that takes long is no reason to hurry */
		set->list_at = now + set->pause / 2;
	set->pause = 2 * set->pause < set->rules->most ? 2 * set->pause : set->rules->most;
	if (set->list_again)
		espl_leases_hurry(set, now);
	set->list_again = 0;
	for (struct espl_leased *lease = set->first; lease != NULL; lease = lease->next)
		take_listing(set, lease, rows, count, now);
}

void
espl_leases_unlisted(struct espl_leases *set, const char *text, espl_time now)
{
	set->listing = set->list_again = 0;
	if (set->silent == ESPL_NEVER) {
		set->silent = now;
		espl_leases_log(set, NULL, "%.450s; waiting for it, the %ss keep running", text,
		    set->rules->noun);
	}
	set->list_at = now + set->pause;
	set->pause =
	    2 * set->pause < set->rules->silent_most ? 2 * set->pause : set->rules->silent_most;
}

/* ---- releases ---- */

void
espl_lease_release(struct espl_leases *set, struct espl_leased *lease, espl_time now)
{
	if (!lease->releasing) {
		lease->releasing = 1;
		lease->due = now;
		lease->tries = 0;
	}
	if (lease->ending_at == ESPL_NEVER)
		lease->ending_at = now;
	if (lease->busy == ESPL_LEASE_ASKS || lease->busy == ESPL_LEASE_CANCELS)
		return; /* its answer says what is left */
	if (lease->busy == ESPL_LEASE_PROBES)
		espl_leases_stop(set, lease);
	settle_end(set, lease, now);
}

/* ---- limits and duties ---- */

espl_time
espl_lease_limit(const struct espl_leases *set, const struct espl_leased *lease)
{
	espl_span limit = set->rules->limits[lease->stage];
	espl_time from = lease->stage == ESPL_STAGE_REQUESTED ? lease->failing_at : lease->since;

	if (lease->over || lease->releasing || lease->ending || limit == 0 || from == ESPL_NEVER ||
	    lease->busy == ESPL_LEASE_ASKS || lease->claimed)
		return ESPL_NEVER;
	if (lease->stage == ESPL_STAGE_REQUESTED)
		return lease->step == ESPL_LEASE_WANTED ? from + limit : ESPL_NEVER;
	return set->silent == ESPL_NEVER ? from + limit : ESPL_NEVER;
}

void
espl_lease_expire(struct espl_leases *set, struct espl_leased *lease, espl_time now)
{
	espl_time limit = espl_lease_limit(set, lease);
	const char *what = set->rules->waits[lease->stage];
	char text[ESPL_LEASE_TEXT];

	if (now < limit || limit == ESPL_NEVER)
		return;
	(void)snprintf(text, sizeof text, "%.150s, for %lld s%s%.400s",
	    what != NULL ? what : "it does not start",
	    (long long)((now - limit + set->rules->limits[lease->stage]) / ESPL_SECOND),
	    lease->said[0] != '\0' ? ": " : "", lease->said);
	if (lease->stage == ESPL_STAGE_REQUESTED && !lease->unsure) {
		espl_lease_end(set, lease, ESPL_BY_CAPACITY, text, 0, 1, now);
		return;
	}
	espl_leases_give_up(set, lease,
	    lease->stage <= ESPL_STAGE_SCHEDULED ? ESPL_BY_CAPACITY : ESPL_BY_FAULT, text, now);
	if (lease->step == ESPL_LEASE_WANTED) /* one of the requests may have made a machine */
		lose_track(set, lease, now);
}

enum espl_lease_busy
espl_lease_duty(const struct espl_leases *set, const struct espl_leased *lease)
{
	int looks = set->calls->look != NULL;

	if (lease->busy != ESPL_LEASE_IDLE || lease->gone)
		return ESPL_LEASE_IDLE;
	if (lease->over)
		return lease->alive ? ESPL_LEASE_CANCELS : ESPL_LEASE_IDLE;
	if (lease->step == ESPL_LEASE_WANTED)
		return set->rules->list_first && !lease->listed ? ESPL_LEASE_IDLE : ESPL_LEASE_ASKS;
	if (lease->step == ESPL_LEASE_LOST && !lease->claimed && lease->releasing &&
	    set->rules->cancel_by_token)
		return ESPL_LEASE_CANCELS;
	if (lease->step == ESPL_LEASE_LOST || lease->claimed)
		return looks ? ESPL_LEASE_LOOKS : ESPL_LEASE_IDLE;
	if (lease->releasing || lease->ending)
		return ESPL_LEASE_CANCELS;
	if (lease->doubted)
		return looks ? ESPL_LEASE_LOOKS : ESPL_LEASE_CANCELS;
	return lease->stage == ESPL_STAGE_JOINING ? ESPL_LEASE_PROBES : ESPL_LEASE_IDLE;
}
