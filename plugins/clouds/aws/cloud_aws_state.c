/* cloud_aws_state.c - a lease from the request to the end, according to answers and listings.
 *
 * Two rules prevent machines from being lost: a request whose outcome is unknown is repeated with
 * its token or looked up in listings, and a machine does not count as ended because listings lack
 * it: TerminateInstances must say so, which ends it if it is there.
 */
#include <stdio.h>
#include <string.h>

#include "cloud_aws.h"

#define BACKOFF_MOST (30 * ESPL_SECOND)
#define PROBE_PAUSE (3 * ESPL_SECOND)
#define TERMINATE_PAUSE (30 * ESPL_SECOND) /* until it is asked for again */
/* A request that is not accepted costs nothing: it may wait for as long as so many boots. */
#define ACCEPT_BOOTS 3
#define TOLD_AFTER (30 * ESPL_SECOND) /* a shorter wait is not worth a line */
#define TAKE_S 300                    /* after its notice EC2 has ended a machine */

void
cloud_aws_state_begin(struct aws_lease *lease, espl_time now)
{
	lease->step = AWS_WANTED;
	lease->due = lease->since = now;
	lease->missing = lease->ends_at = lease->asked_at = lease->strange_at = ESPL_NEVER;
	lease->failing_at = ESPL_NEVER;
}

static void
wait_longer(struct aws_lease *lease, espl_time now)
{
	espl_span pause = ESPL_SECOND << (lease->tries < 5 ? lease->tries : 5);

	if (pause > BACKOFF_MOST)
		pause = BACKOFF_MOST;
	/* Leases that failed together do not come back together. */
	pause -= pause / 2 * (espl_span)((lease->serial * 7 + lease->tries * 3) % 10) / 10;
	lease->tries++;
	lease->due = now + pause;
}

static void
end_lease(struct aws_lease *lease, espl_reason reason, const char *text)
{
	if (lease->over)
		return;
	lease->over = 1;
	if (reason == ESPL_BY_PROVIDER || !lease->ending) {
		lease->end_reason = reason;
		(void)snprintf(lease->why, sizeof lease->why, "%s", text);
	}
	if (lease->releasing && reason != ESPL_BY_PROVIDER)
		lease->end_reason = ESPL_BY_USER;
}

/* The driver itself gives the machine up. */
static void
give_up(struct aws_lease *lease, espl_reason reason, const char *text, espl_time now)
{
	if (lease->ending)
		return;
	lease->ending = 1;
	lease->end_reason = reason;
	(void)snprintf(lease->why, sizeof lease->why, "%s", text);
	lease->due = now;
}

void
cloud_aws_state_lost(struct aws_lease *lease, espl_time now)
{
	lease->step = AWS_LOST;
	lease->since = now;
}

void
cloud_aws_state_failed(struct aws_lease *lease, enum aws_class class, const char *text,
    espl_time now)
{
	espl_reason reason = class == AWS_CAPACITY ? ESPL_BY_CAPACITY
	    : class == AWS_QUOTA                   ? ESPL_BY_QUOTA
						   : ESPL_BY_REFUSAL;

	lease->busy = 0;
	lease->step = AWS_WANTED;
	switch (class) {
	case AWS_AGAIN:
	case AWS_UNKNOWN:
		lease->unsure |= class == AWS_UNKNOWN;
		if (lease->failing_at == ESPL_NEVER)
			lease->failing_at = now;
		(void)snprintf(lease->said, sizeof lease->said, "%s", text);
		wait_longer(lease, now);
		if (lease->releasing)
			cloud_aws_state_release(lease, now);
		return;
	case AWS_MISMATCH:
		lease->unsure = 1;
		give_up(lease, ESPL_BY_FAULT, text, now);
		cloud_aws_state_lost(lease, now);
		return;
	default: break;
	}
	/* A token that EC2 knows is answered before there is any question of capacity. A refusal,
	 * of keys for example, says nothing of what an earlier request has made. */
	if (lease->unsure && reason == ESPL_BY_REFUSAL) {
		give_up(lease, reason, text, now);
		cloud_aws_state_lost(lease, now);
		return;
	}
	lease->never = 1;
	end_lease(lease, reason, text);
}

void
cloud_aws_state_expire(struct aws_lease *lease, const struct aws_limits *limits, espl_time now)
{
	char text[AWS_TEXT];

	if (lease->over || lease->releasing || lease->busy || lease->step != AWS_WANTED ||
	    lease->failing_at == ESPL_NEVER ||
	    now - lease->failing_at < ACCEPT_BOOTS * limits->boot)
		return;
	(void)snprintf(text, sizeof text, "EC2 has not accepted its request for %lld s: %.400s",
	    (long long)((now - lease->failing_at) / ESPL_SECOND), lease->said);
	if (lease->unsure) { /* one of them may have made a machine */
		give_up(lease, ESPL_BY_CAPACITY, text, now);
		cloud_aws_state_lost(lease, now);
		return;
	}
	lease->never = 1;
	end_lease(lease, ESPL_BY_CAPACITY, text);
}

static void
know_machine(struct aws_lease *lease, const struct aws_machine *m, espl_time now)
{
	if (lease->step != AWS_KNOWN) {
		lease->step = AWS_KNOWN;
		lease->since = lease->due = now;
		lease->tries = 0;
		lease->failing_at = ESPL_NEVER;
		lease->said[0] = '\0';
	}
	(void)snprintf(lease->id, sizeof lease->id, "%s", m->id);
	if (m->launch_s != 0)
		lease->launch_s = m->launch_s;
}

/* Notes the time from which EC2 may charge, by its reported state. A state never goes back. */
static void
note_state(struct aws_lease *lease, const struct aws_machine *m)
{
	if (lease->running)
		return;
	if (m->state == AWS_PENDING && m->seen_s > lease->billed_s)
		lease->billed_s = m->seen_s;
	if (lease->billed_s < lease->launch_s)
		lease->billed_s = lease->launch_s;
	lease->running = m->state == AWS_RUNNING;
}

void
cloud_aws_state_made(struct aws_lease *lease, const struct aws_machine *m, int spot, espl_time now)
{
	lease->busy = 0;
	know_machine(lease, m, now);
	note_state(lease, m);
	if (spot && !m->spot)
		give_up(lease, ESPL_BY_CAPACITY,
		    "EC2 made a machine on demand instead of a spot one; it is ended", now);
}

/* ---- listings ---- */

/* The end as EC2 reports it; otherwise the time of the first listing that shows it, and for an
 * interruption not later than EC2 ends machines. */
static void
note_end(struct aws_lease *lease, const struct aws_machine *m)
{
	int64_t notice_s = lease->notice_s > lease->status_s ? lease->notice_s : lease->status_s;

	if (lease->end_s != 0)
		return;
	lease->end_s = m->end_s != 0 ? m->end_s : m->seen_s;
	if (m->end_s == 0 && lease->interrupted && notice_s != 0 &&
	    lease->end_s > notice_s + TAKE_S)
		lease->end_s = notice_s + TAKE_S;
}

static void
take_end(struct aws_lease *lease, const struct aws_machine *m)
{
	static const struct {
		const char *code;
		espl_reason reason;
		const char *text;
	} table[] = {
		{ "Client.UserInitiatedShutdown", ESPL_BY_FAULT,
		    "its machine was terminated outside espalier" },
		{ "Client.InstanceInitiatedShutdown", ESPL_BY_FAULT,
		    "its machine was shut down from within" },
		{ "Client.VolumeLimitExceeded", ESPL_BY_QUOTA, NULL },
		{ "Server.InsufficientInstanceCapacity", ESPL_BY_CAPACITY, NULL },
	};
	const char *text = m->text[0] != '\0' ? m->text : "EC2 has ended its machine";

	lease->interrupted = strcmp(m->why, "Server.SpotInstanceTermination") == 0;
	note_end(lease, m);
	if (lease->interrupted) { /* before it was ready it counts as no capacity */
		end_lease(lease, lease->used ? ESPL_BY_PROVIDER : ESPL_BY_CAPACITY,
		    "EC2 has interrupted its spot machine");
		return;
	}
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (strcmp(m->why, table[i].code) == 0) {
			lease->unbilled |= !lease->running && table[i].reason == ESPL_BY_CAPACITY;
			end_lease(lease, table[i].reason,
			    i == 0 && lease->asked_at != ESPL_NEVER ? "its machine was terminated"
				: table[i].text != NULL             ? table[i].text
								    : text);
			return;
		}
	end_lease(lease, ESPL_BY_FAULT, text);
}

static void
miss_machine(struct aws_lease *lease, const struct aws_limits *limits, espl_time now)
{
	if (lease->step == AWS_WANTED || now - lease->since < limits->settle)
		return;
	if (lease->step == AWS_LOST && lease->id[0] != '\0') {
		end_lease(lease, ESPL_BY_FAULT,
		    "EC2 no longer lists its machine, or never did with the tag of this run: it is "
		    "not terminated");
	} else if (lease->step == AWS_LOST && lease->old) {
		end_lease(lease, ESPL_BY_FAULT,
		    "EC2 lists no machine for its request, which is more than 12 hours old; if "
		    "there was one it has ended, and its cost is not known");
	} else if (lease->step == AWS_LOST) {
		lease->never = 1;
		end_lease(lease, ESPL_BY_FAULT, "EC2 lists no machine for its request");
	} else if (lease->missing == ESPL_NEVER) {
		lease->missing = now;
	} else if (now - lease->missing >= limits->settle / 5) {
		lease->doubted = 1;
	}
}

void
cloud_aws_state_listed(struct aws_lease *lease, const struct aws_machine *m,
    const struct aws_limits *limits, espl_time now)
{
	if (lease->over || lease->step == AWS_ASKED)
		return;
	if (m == NULL) {
		miss_machine(lease, limits, now);
		return;
	}
	know_machine(lease, m, now);
	lease->missing = ESPL_NEVER;
	lease->doubted = 0;
	note_state(lease, m);
	switch (m->state) {
	case AWS_ENDED: take_end(lease, m); return;
	case AWS_STOPPED:
		give_up(lease, ESPL_BY_FAULT,
		    "its machine was stopped outside espalier; terminating it", now);
		return;
	case AWS_RUNNING: break;
	default: /* pending, perhaps an answer of the past */
		if (!lease->running && now - lease->since >= limits->boot)
			give_up(lease, ESPL_BY_FAULT, "EC2 does not start its machine", now);
		return;
	}
	(void)snprintf(lease->address, sizeof lease->address, "%s",
	    limits->inner ? m->private_address : m->public_address);
	if (lease->address[0] == '\0' && now - lease->since >= limits->settle)
		give_up(lease, ESPL_BY_REFUSAL,
		    "its machine has no public address: set address = \"private\", or use a subnet "
		    "that assigns one",
		    now);
}

static int
ends_with(const char *text, const char *end)
{
	size_t size = strlen(text), more = strlen(end);

	return size >= more && strcmp(text + size - more, end) == 0;
}

int
cloud_aws_state_spot(struct aws_lease *lease, const char *code, int64_t update_s, int64_t utc_s,
    espl_time now)
{
	int64_t left;

	if (code[0] == '\0') /* it does not tell */
		return 0;
	if (update_s == 0)
		update_s = utc_s;
	left = update_s + AWS_NOTICE_S - utc_s;
	if (strncmp(code, "instance-terminated", 19) == 0)
		lease->status_s = update_s;
	if (strcmp(code, "marked-for-termination") != 0 && !ends_with(code, "-by-price") &&
	    !ends_with(code, "-no-capacity")) {
		lease->notice_s = 0; /* never given, or taken back */
		return 0;
	}
	if (lease->notice_s != 0 || !lease->running)
		return 0;
	lease->notice_s = update_s;
	if (left > AWS_NOTICE_S)
		left = AWS_NOTICE_S;
	lease->ends_at = now + (left > 0 ? left : 0) * ESPL_SECOND;
	return lease->reported == ESPL_NODE_READY;
}

/* ---- release ---- */

void
cloud_aws_state_release(struct aws_lease *lease, espl_time now)
{
	if (!lease->releasing)
		lease->due = lease->step == AWS_KNOWN ? now : lease->due;
	lease->releasing = 1;
	if (lease->over || lease->step != AWS_WANTED)
		return;
	if (lease->unsure) {
		cloud_aws_state_lost(lease, now);
		return;
	}
	lease->never = 1;
	end_lease(lease, ESPL_BY_USER, "");
}

void
cloud_aws_state_terminated(struct aws_lease *lease, enum aws_class class, const char *before,
    espl_time now)
{
	int gone = class == AWS_MISSING || strcmp(before, "shutting-down") == 0 ||
	    strcmp(before, "terminated") == 0;

	lease->busy = 0;
	lease->unbilled |= !lease->running && strcmp(before, "pending") == 0;
	if (lease->doubted && gone) {
		end_lease(lease, ESPL_BY_FAULT, "EC2 no longer lists its machine");
		return;
	}
	if (!lease->releasing && class == AWS_FINE)
		give_up(lease, ESPL_BY_FAULT,
		    "EC2 did not list its machine, which was still there; it is ended", now);
	if (class == AWS_FINE) {
		lease->tries = 0;
		lease->due = now + TERMINATE_PAUSE;
	} else {
		wait_longer(lease, now);
	}
}

espl_span
cloud_aws_state_patience(uint32_t warnings)
{
	static const espl_span minutes[] = { 1, 5, 15 };
	const uint32_t count = sizeof minutes / sizeof minutes[0];

	return 60 * ESPL_SECOND *
	    (warnings < count ? minutes[warnings] : 60 * (espl_span)(warnings - count + 1));
}

void
cloud_aws_state_reached(struct aws_lease *lease, int answers, const char *text,
    const struct aws_limits *limits, espl_time now)
{
	lease->busy = 0;
	if (!lease->releasing && !lease->ending) /* else its end is not put off */
		lease->due = now + PROBE_PAUSE;
	if (!answers)
		(void)snprintf(lease->said, sizeof lease->said, "%s", text);
	if (!answers && now - lease->since >= limits->boot)
		give_up(lease, ESPL_BY_FAULT, text, now);
}

int
cloud_aws_state_strange(struct aws_lease *lease, const char *text, espl_time now)
{
	if (lease->strange_at == ESPL_NEVER)
		lease->strange_at = now;
	if (!lease->used && now - lease->strange_at < AWS_STRANGE)
		return 1;
	give_up(lease, ESPL_BY_FAULT, text, now);
	return 0;
}

/* ---- waits ---- */

static enum aws_wait
find_wait(const struct aws_lease *lease)
{
	if (lease->over || lease->releasing || lease->ending || lease->reported >= ESPL_NODE_READY)
		return AWS_NO_WAIT;
	if (lease->strange_at != ESPL_NEVER) /* that was said */
		return AWS_NO_WAIT;
	if (lease->step == AWS_WANTED || lease->step == AWS_ASKED)
		return lease->failing_at != ESPL_NEVER ? AWS_WAITS_ACCEPTED : AWS_NO_WAIT;
	if (lease->step == AWS_LOST)
		return AWS_WAITS_LISTED;
	return lease->running ? AWS_WAITS_SSH : AWS_WAITS_RUNNING;
}

int
cloud_aws_state_waits(struct aws_lease *lease, espl_time now, char text[AWS_TEXT])
{
	static const char *const words[] = { [AWS_WAITS_ACCEPTED] =
						 "EC2 has not accepted its request",
		[AWS_WAITS_LISTED] = "EC2 has not listed it",
		[AWS_WAITS_RUNNING] = "EC2 is starting it",
		[AWS_WAITS_SSH] = "it runs, and ssh has not reached it" };
	enum aws_wait wait = find_wait(lease);

	if (wait != lease->wait) {
		lease->wait = wait;
		lease->wait_at = now;
		lease->told = 0;
	}
	if (wait == AWS_NO_WAIT || lease->told || now - lease->wait_at < TOLD_AFTER)
		return 0;
	lease->told = 1;
	(void)snprintf(text, AWS_TEXT, "machine %s waits: %s, for %lld s%s%.300s",
	    lease->id[0] != '\0' ? lease->id : lease->token, words[wait],
	    (long long)((now - lease->wait_at) / ESPL_SECOND), lease->said[0] != '\0' ? ": " : "",
	    lease->said);
	return 1;
}

/* A machine that EC2 ends within the first hour costs nothing; ended by us it would be paid for. */
static int
is_free_soon(const struct aws_lease *lease, espl_time now)
{
	return lease->notice_s != 0 && lease->billed_s != 0 &&
	    lease->notice_s + AWS_NOTICE_S - lease->billed_s < AWS_FREE_S &&
	    now < lease->ends_at + TAKE_S * ESPL_SECOND;
}

enum aws_duty
cloud_aws_state_duty(const struct aws_lease *lease, espl_time now)
{
	if (lease->over)
		return AWS_TELL_END;
	if (lease->busy || now < lease->due)
		return AWS_NOTHING;
	if (lease->step == AWS_WANTED)
		return AWS_SEND_RUN;
	if (lease->step != AWS_KNOWN)
		return AWS_NOTHING;
	if (lease->releasing || lease->ending || lease->doubted)
		return is_free_soon(lease, now) ? AWS_NOTHING : AWS_SEND_TERMINATE;
	return lease->running && lease->address[0] != '\0' && lease->reported < ESPL_NODE_READY
	    ? AWS_PROBE
	    : AWS_NOTHING;
}

/* ---- money ---- */

espl_money
cloud_aws_state_charge(const struct aws_lease *lease, int spot, const struct aws_price *prices,
    uint32_t count)
{
	int64_t begin = lease->billed_s, end = lease->end_s, total = 0;

	if (lease->never || lease->unbilled)
		return 0;
	if (begin == 0 || end == 0)
		return -1;
	if (spot && lease->interrupted && end - begin < AWS_FREE_S)
		return 0;
	if (count == 0 || prices[0].from_s > begin)
		return -1;
	if (end < begin + 60)
		end = begin + 60; /* the least that is charged */
	for (uint32_t i = 0; i < count; i++) {
		int64_t from = prices[i].from_s > begin ? prices[i].from_s : begin;
		int64_t to =
		    i + 1 < count && prices[i + 1].from_s < end ? prices[i + 1].from_s : end;

		if (to > from)
			total += prices[i].usd_hour * (to - from);
	}
	return (total + 1800) / 3600;
}
