/* real_gangs.c - gangs on agents: answered, killed, and ended once (real_start.c starts them).
 *
 * A gang has ended when its part on every node has: either the agent says so, or the agent is gone
 * and the driver killed everything that it left behind.
 */
#include "base/assert.h"
#include "real/real.h"
#include <stdarg.h>
#include <string.h>
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/tick.h"

void
espl__real_gangs_free(struct espl__real *real)
{
	ESPL__CHECK(real, REAL);
	while (real->gangs != NULL)
		espl__real_gang_free(real, real->gangs);
	espl__real_reach_free(real);
	espl__map_free(&real->gang_map);
	espl__real_kinds_free(real);
	free(real->arrived);
}

/* ---- the end ---- */

/* Another part has ended; the rest of a gang without it is ended too. May free the gang. */
static void
part_gone(struct espl__real *real, struct espl__rgang *gang, struct espl__part *part, int failed,
    uint64_t grace_ms)
{
	if (part->ended)
		return;
	part->ended = 1;
	gang->ended++;
	if (gang->ended == gang->part_count ||
	    gang->plan != NULL) { /* a plan left: nothing was started */
		/* Reports that did not wait for their answers precede the end; lines sent during a
		 * change of ranks that was not completed are lost with it. */
		gang->over = gang->held_count > 0 && gang->started == gang->part_count &&
		    gang->resize != ESPL__CHANGING && !gang->lost && !gang->killed &&
		    gang->broken == NULL;
		if (!gang->over)
			espl__real_gang_finish(real, gang);
		return;
	}
	if (failed)
		espl__real_gang_kill_parts(real, gang, grace_ms);
}

void
espl__real_gangs_lost(struct espl__real *real, uint64_t lease)
{
	struct espl__rgang *gang, *next;
	uint32_t i;

	ESPL__CHECK(real, REAL);
	for (gang = real->gangs; gang != NULL; gang = next) {
		next = gang->next;
		for (i = 0; i < gang->part_count; i++) {
			if (gang->parts[i].lease == lease && !gang->parts[i].ended) {
				gang->lost = gang->parts[i].lost = 1;
				part_gone(real, gang, &gang->parts[i], 1, 0);
				break;
			}
		}
	}
}

/* ---- orders ---- */

void
espl__real_reply(struct espl__real *real, const struct espl__effect *fx)
{
	struct espl__rgang *gang = espl__real_gang(real, fx->as.reply.gang);

	if (gang == NULL || gang->killed || gang->broken != NULL)
		return;
	gang->waiting = 0;
	gang->asked_at = espl__tick();
	if (fx->as.reply.directive == ESPL__STOP) /* nothing to save */
		gang->stay_until = gang->asked_at + gang->kind->of->config->trial.grace;
	else if (fx->as.reply.directive == ESPL__PAUSE &&
	    gang->kind->of->config->trial.save_limit > 0)
		gang->stay_until = gang->asked_at + gang->kind->of->config->trial.save_limit;
	if (fx->as.reply.directive == ESPL__PAUSE || fx->as.reply.directive == ESPL__STOP)
		gang->directive = fx->as.reply.directive;
	else if (fx->as.reply.budget > 0)
		gang->budget = fx->as.reply.budget;
	if (gang->directive != 0)
		espl__real_resize_off(real, gang);
	if (fx->as.reply.directive != ESPL__CONTINUE ||
	    !espl__real_resize_now(real, gang, fx->as.reply.budget))
		espl__real_send_reply(real, gang, fx->as.reply.directive, fx->as.reply.budget);
	if (gang->directive != 0 &&
	    gang->kind->of->config->trial.metrics != NULL) { /* no rank listens */
		gang->stay_until = 0;
		espl__real_gang_kill_parts(real, gang,
		    (uint64_t)(gang->kind->of->config->trial.grace / 1000000));
	}
	espl__real_lines_held(real, gang);
}

void
espl__real_kill(struct espl__real *real, const struct espl__effect *fx)
{
	struct espl__rgang *gang = espl__real_gang(real, fx->as.kill.gang);
	uint64_t grace = fx->as.kill.grace > 0 ? (uint64_t)(fx->as.kill.grace / 1000000) : 0;

	if (gang == NULL)
		return;
	espl__real_resize_off(real, gang);
	if (gang->directive != 0 && grace > 0 && gang->plan == NULL && !gang->over) {
		/* It may be saving, and a signal would kill it: it gets the grace period to finish.
		 */
		espl__real_stay_at_most(gang, fx->as.kill.grace);
		gang->killed = 1;
		return;
	}
	if (gang->waiting && grace > 0 &&
	    !gang->killed) { /* it is blocked in a read: send the same request to wake it */
		gang->waiting = 0;
		espl__real_send_reply(real, gang, ESPL__PAUSE, 0);
	}
	gang->killed = 1;
	espl__real_gang_kill_parts(real, gang, grace);
	if (gang->plan != NULL ||
	    gang->over) { /* no process was started yet; a late PORT finds nobody */
		gang->lost |= gang->plan != NULL;
		espl__real_gang_finish(real, gang);
	}
}

/* A gang that was asked to leave is still running. */
static void
end_overstay(struct espl__real *real, struct espl__rgang *gang)
{
	int64_t stayed = gang->stay_until - gang->asked_at;
	char span[32], name[48];

	gang->stay_until = 0;
	if (gang->directive == ESPL__PAUSE && gang->saved < gang->last && !gang->killed) {
		espl__real_gang_break(real, gang,
		    "no checkpoint within %s after the request to pause",
		    espl__format_short(stayed, span));
		return;
	}
	gang->killed = 1;
	espl__log(ESPL_WARN, "trial %s did not exit when asked to %s; killing it",
	    espl__trial_name(gang->trial, name), gang->directive == ESPL__PAUSE ? "pause" : "stop");
	espl__real_gang_kill_parts(real, gang, 0);
}

/* An agent that answers but cannot start or kill processes: its node cannot be used. */
static void
end_late_agents(struct espl__real *real, struct espl__rgang *gang, int64_t tick)
{
	for (uint32_t p = 0; p < gang->part_count; p++) {
		struct espl__part *part = &gang->parts[p];
		struct espl__ragent *agent = espl__real_part_agent(real, part);
		char name[48];

		if (part->ended || part->answer_by == 0 || tick < part->answer_by || agent == NULL)
			continue;
		part->answer_by = 0;
		espl__agent_break(agent,
		    part->started ? "it did not end the processes of trial %s when asked to"
				  : "it did not start trial %s when asked to",
		    espl__trial_name(gang->trial, name));
	}
}

static void
delay_gang(struct espl__rgang *gang, int64_t late)
{
	if (gang->stay_until != 0)
		gang->stay_until += late;
	for (uint32_t p = 0; p < gang->part_count; p++)
		if (gang->parts[p].answer_by != 0)
			gang->parts[p].answer_by += late;
}

void
espl__real_gangs_tick(struct espl__real *real, int64_t tick)
{
	struct espl__rgang *gang;
	int64_t since = real->gangs_at == 0 ? 0 : tick - real->gangs_at;

	ESPL__CHECK(real, REAL);
	real->gangs_at = tick;
	espl__real_reach_tick(real, tick, since);
	for (gang = real->gangs; gang != NULL; gang = gang->next) {
		if (espl__real_gang_unreachable(real, gang))
			continue;
		if (espl__real_relay_busy(real, gang, tick)) { /* not the fault of the trial */
			delay_gang(gang, since);
			continue;
		}
		if (gang->stay_until != 0 && tick >= gang->stay_until)
			end_overstay(real, gang);
		end_late_agents(real, gang, tick);
	}
}

void
espl__real_gangs_held(struct espl__real *real, int64_t late)
{
	ESPL__CHECK(real, REAL);
	espl__real_reach_held(real, late);
	for (struct espl__rgang *gang = real->gangs; gang != NULL; gang = gang->next)
		delay_gang(gang, late);
}

void
espl__real_gangs_away(struct espl__real *real, uint64_t lease, int64_t lost)
{
	ESPL__CHECK(real, REAL);
	for (struct espl__rgang *gang = real->gangs; gang != NULL; gang = gang->next)
		for (uint32_t p = 0; p < gang->part_count; p++)
			if (gang->parts[p].lease == lease) {
				delay_gang(gang, lost);
				break;
			}
}

/* ---- messages of an agent ---- */

static int
on_ended(struct espl__real *real, struct espl__rgang *gang, struct espl__part *part,
    struct espl__reader *reader)
{
	uint8_t clean = espl__get_u8(reader);
	uint32_t i, count = espl__get_u32(reader), first = gang->end_count;
	int failed = 0;
	char text[512], name[48];

	if (reader->bad || count > part->count)
		return -1;
	for (i = 0; i < count; i++) {
		struct espl__rank_end *end;
		size_t size;
		uint64_t rank = espl__get_v64(reader);
		int64_t code = espl__get_z64(reader);
		const char *why = espl__get_bytes(reader, &size);

		if (reader->bad)
			return -1;
		if (part->off)
			continue;
		(void)snprintf(text, sizeof text, "%.*s", (int)(size < 400 ? size : 400),
		    why != NULL ? why : "");
		espl__clean_text(text);
		ESPL__GROW(gang->ends, gang->end_cap, gang->end_count + 1);
		end = &gang->ends[gang->end_count++];
		end->rank = (uint32_t)rank;
		end->code = (int32_t)code;
		end->lease = part->lease;
		end->text = espl__strdup(text);
		end->said = NULL;
		failed |= code != 0 || text[0] != '\0';
	}
	espl__get_str(reader, text, 256);
	if (reader->bad)
		return -1;
	espl__clean_text(text);
	for (i = first; i < gang->end_count; i++)
		gang->ends[i].said = espl__strdup(text);
	if (!clean)
		espl__log(ESPL_WARN,
		    "trial %s: a slot of node %llu is not clean after the end of the trial",
		    espl__trial_name(gang->trial, name), (unsigned long long)part->lease);
	if (!failed && gang->resize == ESPL__CHANGING && part->leaves > 0)
		espl__real_resize_left(real, gang, part);
	part_gone(real, gang, part, failed,
	    (uint64_t)(gang->kind->of->config->trial.grace / 1000000));
	return 0;
}

static void
on_started(struct espl__real *real, struct espl__rgang *gang, struct espl__part *part,
    uint32_t port)
{
	if (port > 0)
		gang->port = port;
	if (part->started)
		return;
	part->started = 1;
	if (!gang->killed && gang->broken == NULL)
		part->answer_by = 0;
	if (++gang->started < gang->part_count)
		return;
	if (gang->begun > 0)
		real->unfetched = 0;
	espl__real_event(real, ESPL__EV_STARTED)->as.gang = gang->id;
	espl__real_lines_held(real, gang);
}

static void
on_saved(struct espl__real *real, struct espl__rgang *gang, uint64_t iteration, uint64_t bytes)
{
	struct espl__event *event;

	/* A run cannot continue from what was never reported; held lines may still report it. */
	if (iteration > gang->last && gang->held_count == 0) {
		espl__real_gang_break(real, gang,
		    "rank 0 saved iteration %llu, but its last report was iteration %llu",
		    (unsigned long long)iteration, (unsigned long long)gang->last);
		return;
	}
	real->saved_in_vain = 0;
	for (uint32_t i = 0; i < gang->part_count; i++) {
		struct espl__rlease *lease = espl__real_lease(real, gang->parts[i].lease);

		if (lease != NULL)
			lease->saved_in_vain = 0;
	}
	event = espl__real_event(real, ESPL__EV_SAVED);
	event->as.saved.gang = gang->id;
	event->as.saved.iteration = iteration;
	event->as.saved.bytes = bytes;
	if (iteration > gang->saved)
		gang->saved = iteration;
	if (gang->directive == ESPL__PAUSE && gang->saved >= gang->last)
		espl__real_stay_at_most(gang, gang->kind->of->config->trial.grace);
}

/* Its ranks wait for one another only for a limited time: they are launched when all its nodes have
 * been set up and have its files and checkpoint. */
static void
on_prepared(struct espl__real *real, struct espl__rgang *gang, struct espl__part *part)
{
	struct espl__buf payload = { NULL, 0, 0 };

	part->prepared = 1;
	for (uint32_t p = 0; p < gang->part_count; p++)
		if (!gang->parts[p].prepared)
			return;
	espl__put_v64(&payload, gang->id);
	for (uint32_t p = 0; p < gang->part_count; p++) {
		struct espl__ragent *agent = espl__real_part_agent(real, &gang->parts[p]);

		if (agent != NULL) /* else: the end of that agent ends the gang */
			espl__agent_send(agent, ESPL__MSG_LAUNCH, &payload);
	}
	espl__buf_free(&payload);
}

/* Ranks on other nodes may not notice for long. */
static void
on_failed(struct espl__real *real, struct espl__rgang *gang)
{
	if (!gang->failing)
		espl__real_gang_kill_parts(real, gang,
		    (uint64_t)(gang->kind->of->config->trial.grace / 1000000));
	gang->failing = 1;
}

static int
is_about_a_gang(uint8_t type)
{
	return (type >= ESPL__MSG_PORT && type <= ESPL__MSG_ENDED) || type == ESPL__MSG_LEFT ||
	    type == ESPL__MSG_FAILED || type == ESPL__MSG_PREPARED || type == ESPL__MSG_TRIED ||
	    type == ESPL__MSG_NOTE;
}

/* Other agents are sent it. */
static uint32_t
get_port(struct espl__reader *reader)
{
	uint32_t port = espl__get_u32(reader);

	reader->bad |= port > 65535;
	return port;
}

/* The part of a gang (may be NULL) that an agent knows by this number; NULL: it has ended for us.
 */
static struct espl__part *
find_part(const struct espl__rgang *gang, uint64_t lease, uint64_t wing)
{
	for (uint32_t p = 0; gang != NULL && p < gang->part_count; p++)
		if (gang->parts[p].lease == lease && gang->parts[p].wing == wing &&
		    !gang->parts[p].ended)
			return &gang->parts[p];
	return NULL;
}

/* What rank 0 printed: a report, a line that is not a valid report, or a note. */
static void
on_text(struct espl__real *real, struct espl__rgang *gang, uint8_t type,
    struct espl__reader *reader)
{
	size_t size;
	const char *text = espl__get_bytes(reader, &size);

	if (reader->bad)
		return;
	if (type == ESPL__MSG_NOTE)
		espl__real_line_note(real, gang, text, size);
	else if (type == ESPL__MSG_GARBAGE)
		espl__real_gang_break(real, gang, "rank 0: %.*s", (int)(size < 200 ? size : 200),
		    text != NULL ? text : "");
	else if (!espl__real_resize_line(real, gang, text, size))
		espl__real_line(real, gang, text, size);
}

int
espl__real_gang_message(struct espl__real *real, struct espl__rlease *lease, uint8_t type,
    struct espl__reader *reader)
{
	uint64_t id = espl__get_v64(reader);
	struct espl__rgang *gang = espl__real_gang(real, id);
	struct espl__part *part;
	uint64_t a, b;

	ESPL__CHECK(lease, RLEASE);
	if (reader->bad || !is_about_a_gang(type))
		return -1;
	if (espl__real_reach_is_try(id))
		return espl__real_reach_message(real, lease, type, id, reader);
	part = find_part(gang, lease->id, id);
	if (part == NULL) /* about a gang that has ended for us already */
		return 0;
	switch (type) {
	case ESPL__MSG_PORT:
		a = get_port(reader);
		if (!reader->bad)
			espl__real_start_port(real, gang, (uint32_t)a);
		break;
	case ESPL__MSG_STARTED:
		a = get_port(reader);
		if (!reader->bad)
			on_started(real, gang, part, (uint32_t)a);
		break;
	case ESPL__MSG_LINE:
	case ESPL__MSG_GARBAGE:
	case ESPL__MSG_NOTE: on_text(real, gang, type, reader); break;
	case ESPL__MSG_CLOSED: /* one that has been told to leave need not say more */
		if (gang->directive == 0 && !gang->finished && !gang->killed)
			espl__real_gang_break(real, gang,
			    "rank 0 closed its report descriptor at iteration %llu of %llu and "
			    "continued without it",
			    (unsigned long long)gang->last, (unsigned long long)gang->budget);
		break;
	case ESPL__MSG_SAVED:
		a = espl__get_v64(reader);
		b = espl__get_v64(reader);
		if (!reader->bad)
			on_saved(real, gang, a, b);
		break;
	case ESPL__MSG_LEFT:
		a = espl__get_v64(reader);
		if (!reader->bad && a == gang->generation)
			espl__real_resize_left(real, gang, part);
		break;
	case ESPL__MSG_PREPARED: on_prepared(real, gang, part); break;
	case ESPL__MSG_FAILED:
		(void)espl__get_v64(reader);
		if (!reader->bad)
			on_failed(real, gang);
		break;
	default: return on_ended(real, gang, part, reader);
	}
	return reader->bad ? -1 : 0;
}
