/* real_rejoin.c - a run that is resumed while agents of the last driver still run.
 *
 * The journal contains the decisions, the agents report their outcome: the gangs that run, and
 * their messages since the last reply. A report that is not in the journal is a new one; a reply
 * that is in the journal but did not arrive is sent again.
 *
 * An agent that no driver came back to in time has ended its gangs, and left the same messages in
 * RUN/left/NODE-EPOCH (agent/agent_leave.c).  Reports and checkpoints among them are handled as if
 * they had arrived before the last driver ended: what the journal has decided since remains so.
 */
#include "base/assert.h"
#include "real/real.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/tick.h"
#include "session/session.h"

#define LEFT_MOST ((size_t)64 << 20) /* bytes that an agent may have to say */
#define REJOIN_LIMIT (20 * ESPL__REAL_SECOND)
#define SAVING_LIMIT (ESPL__SESSION_LEAVE + ESPL__SESSION_AGENT + REJOIN_LIMIT)

/* ---- what the agents say ------------------------------------------------------------------ */

int
espl__real_rejoin_message(struct espl__rlease *lease, uint8_t type, const struct espl__reader *r)
{
	ESPL__CHECK(lease, RLEASE);
	if (lease->backlog.size > LEFT_MOST)
		return -1;
	if (type == ESPL__MSG_STATED)
		lease->rejoined = 1;
	else
		espl__frame_put(&lease->backlog, (enum espl__message)type, r->at,
		    (size_t)(r->end - r->at));
	return 0;
}

void
espl__real_rejoin_saving(struct espl__rlease *lease)
{
	ESPL__CHECK(lease, RLEASE);
	if (lease->saving != 0)
		return;
	lease->saving = espl__tick();
	espl__log(ESPL_INFO,
	    "node %" PRIu64 ": 'cloud.linger' is over, and its trials save before they end; "
	    "waiting for them (for 'trial.grace', at most 5 minutes)",
	    lease->id);
}

/* A node whose trials save has longer than `until`. */
static int
is_waiting(const struct espl__real *real, int64_t until)
{
	int64_t now = espl__tick();

	for (uint32_t i = 0; i < real->lease_count; i++) {
		const struct espl__rlease *lease = real->leases[i];

		if (lease->agent != NULL && !lease->rejoined &&
		    now < (lease->saving != 0 ? lease->saving + SAVING_LIMIT : until))
			return 1;
	}
	return 0;
}

static int
is_interrupted(const struct espl__real *real)
{
	return real->world.interrupt != NULL && *real->world.interrupt > 0;
}

static void
wake_loop(uv_timer_t *timer)
{
	(void)timer; /* the limit is looked at between two turns */
}

/* What agents have left that have ended. */
static void
read_left(struct espl__real *real)
{
	for (uint32_t i = 0; i < real->lease_count; i++) {
		struct espl__rlease *lease = real->leases[i];
		char *path;

		if (lease->epoch == 0 || lease->rejoined || lease->left)
			continue;
		path = espl__format("%s/left/%" PRIu64 "-%" PRIx64, real->dir, lease->id,
		    lease->epoch);
		espl__buf_clear(&lease->backlog);
		lease->left =
		    espl__file_read_own(path, LEFT_MOST, &lease->backlog, NULL) == ESPL_OK;
		free(path);
	}
}

/* Waits until all of them have reported everything, or are found to be gone. */
static void
ask_agents(struct espl__real *real)
{
	int64_t until = espl__tick() + REJOIN_LIMIT;
	uv_timer_t timer;

	for (uint32_t i = 0; i < real->lease_count; i++)
		if (real->leases[i]->epoch != 0 && real->leases[i]->adopt && !real->leases[i]->left)
			espl__agent_start(real, real->leases[i]);
	if (!is_waiting(real, until))
		return;
	(void)uv_timer_init(&real->loop, &timer);
	(void)uv_timer_start(&timer, wake_loop, 100, 100);
	/* an interruption ends the wait for those that save, not that for the others */
	while (is_waiting(real, until) && !(is_interrupted(real) && espl__tick() >= until)) {
		espl__agents_flush(real);
		(void)uv_run(&real->loop, UV_RUN_ONCE);
	}
	for (uint32_t i = 0; i < real->lease_count; i++) {
		real->leases[i]->saving = 0;
		if (real->leases[i]->agent != NULL && !real->leases[i]->rejoined)
			espl__agent_kill(real->leases[i]->agent);
	}
	until = espl__tick() + ESPL__REAL_SECOND;
	while (is_waiting(real, until))
		(void)uv_run(&real->loop, UV_RUN_ONCE);
	uv_close((uv_handle_t *)&timer, NULL);
	(void)uv_run(&real->loop, UV_RUN_NOWAIT);
}

/* ---- what becomes of the gangs ------------------------------------------------------------ */

/* Where the messages about a gang begin in the backlog; 0: its agent does not know it, or cannot
 * continue it. *ranks: how many it has there. */
static size_t
find_state(const struct espl__rlease *lease, uint64_t gang)
{
	struct espl__reader r;
	size_t at = 0, used, found = 0;
	uint8_t type;

	while (espl__frame_get(&lease->backlog, at, &type, &r, &used) == 1) {
		at += used;
		if (type == ESPL__MSG_STATE && espl__get_v64(&r) == gang)
			found = espl__get_v64(&r) > 0 && !r.bad ? at : 0;
	}
	return found;
}

static const struct espl__rlease *
lease_of(const struct espl__real *real, const struct espl__gang_info *info)
{
	const struct espl__rlease *lease =
	    info->gpus > 0 ? espl__real_lease(real, info->slots[0].node) : NULL;

	if (lease == NULL || (!lease->rejoined && !lease->left) || info->moving || info->killed)
		return NULL;
	for (uint32_t i = 0; i < info->gpus; i++)
		if (info->slots[i].node != lease->id)
			return NULL;
	return find_state(lease, info->gang) > 0 ? lease : NULL;
}

enum espl__rejoin_line
espl__real_rejoin_line(const struct espl__gang_info *info, uint64_t iteration)
{
	if (iteration == 0 || iteration > info->iteration)
		return ESPL__REJOIN_NEW;
	return !info->awaiting && info->directive != 0 ? ESPL__REJOIN_REPLY : ESPL__REJOIN_KNOWN;
}

/* A line that the journal has; its reply may not have arrived, and is given again. */
static int
is_known(struct espl__real *real, struct espl__rgang *gang, const struct espl__gang_info *info,
    const struct espl__reader *line)
{
	struct espl__reader r = *line;
	enum espl__rejoin_line what;
	const char *text;
	size_t size;

	(void)espl__get_v64(&r);
	text = espl__get_bytes(&r, &size);
	what = espl__real_rejoin_line(info, r.bad ? 0 : espl__real_line_iteration(text, size));
	if (what == ESPL__REJOIN_REPLY)
		espl__real_send_reply(real, gang, info->directive,
		    info->directive == ESPL__CONTINUE ? info->budget : 0);
	return what != ESPL__REJOIN_NEW;
}

/* What it has said since. */
static void
catch_up(struct espl__real *real, struct espl__rgang *gang, const struct espl__gang_info *info)
{
	struct espl__rlease *lease = espl__real_lease(real, info->slots[0].node);
	size_t at = find_state(lease, info->gang), used;
	struct espl__reader r;
	uint8_t type;

	while (espl__frame_get(&lease->backlog, at, &type, &r, &used) == 1 &&
	    type != ESPL__MSG_STATE) {
		at += used;
		if (lease->left && type != ESPL__MSG_STARTED && type != ESPL__MSG_LINE &&
		    type != ESPL__MSG_SAVED)
			continue;
		if (type == ESPL__MSG_LINE && is_known(real, gang, info, &r))
			continue;
		if (espl__real_gang_message(real, lease, type, &r) != 0 ||
		    espl__real_gang(real, info->gang) == NULL)
			return;
	}
}

/* Ends gangs of these agents that cannot continue, or that the journal does not know. */
static void
end_others(struct espl__real *real, const struct espl__rlease *lease)
{
	struct espl__buf payload = { NULL, 0, 0 };
	struct espl__reader r;
	size_t at = 0, used;
	uint8_t type;

	while (espl__frame_get(&lease->backlog, at, &type, &r, &used) == 1) {
		uint64_t gang;

		at += used;
		if (type != ESPL__MSG_STATE)
			continue;
		gang = espl__get_v64(&r);
		if (espl__real_gang(real, gang) != NULL)
			continue;
		espl__buf_clear(&payload);
		espl__put_v64(&payload, gang);
		espl__put_v64(&payload, 0);
		espl__agent_send(lease->agent, ESPL__MSG_KILL, &payload);
	}
	espl__buf_free(&payload);
}

/* Gangs that have ended since; EV_RESUME follows, and starts their trials again. */
static void
take_left(struct espl__real *real, const struct espl__gang_info *list, uint32_t count)
{
	uint32_t saved = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct espl__rlease *lease = lease_of(real, &list[i]);
		struct espl__rgang *gang = NULL;

		if (lease != NULL && lease->left)
			gang = espl__real_gang_again(real, &list[i]);
		if (gang == NULL)
			continue;
		catch_up(real, gang, &list[i]);
		gang = espl__real_gang(real, list[i].gang);
		saved += gang != NULL && gang->saved > 0;
		if (gang != NULL)
			espl__real_gang_free(real, gang);
	}
	if (saved > 0)
		espl__log(ESPL_INFO,
		    "%u of %u running trials saved a checkpoint when 'cloud.linger' was over",
		    (unsigned)saved, (unsigned)count);
}

static void
go_on(struct espl__real *real, const struct espl__gang_info *list, uint32_t count)
{
	struct espl__rgang **gangs = espl__alloc((count + (size_t)1) * sizeof *gangs);
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++) {
		const struct espl__rlease *lease = lease_of(real, &list[i]);

		if (lease == NULL || lease->left)
			continue;
		gangs[i] = espl__real_gang_again(real, &list[i]);
		if (gangs[i] == NULL)
			continue;
		espl__real_event(real, ESPL__EV_OUTLIVED)->as.gang = list[i].gang;
		kept++;
	}
	(void)espl__real_event(real, ESPL__EV_RESUME);
	for (uint32_t i = 0; i < real->lease_count; i++)
		if (real->leases[i]->rejoined) {
			espl__real_tell_ready(real, real->leases[i]);
			end_others(real, real->leases[i]);
		}
	for (uint32_t i = 0; i < count; i++)
		if (gangs[i] != NULL)
			catch_up(real, gangs[i], &list[i]);
	for (uint32_t i = 0; i < real->lease_count; i++)
		espl__buf_free(&real->leases[i]->backlog);
	if (kept > 0)
		espl__log(ESPL_INFO, "%u of %u running trials kept running without this program",
		    (unsigned)kept, (unsigned)count);
	free(gangs);
}

void
espl__real_rejoin(struct espl__real *real)
{
	struct espl__gang_info *list;
	uint32_t count;

	ESPL__CHECK(real, REAL);
	if (real->config->pool) { /* shares of experiments are not taken up again */
		(void)espl__real_event(real, ESPL__EV_REOPEN);
		(void)espl__real_event(real, ESPL__EV_RESUME);
		return;
	}
	real->rejoining = 1;
	read_left(real);
	ask_agents(real);
	read_left(real);
	real->rejoining = 0;
	count = espl__exec_gangs(real->world.exec, NULL, 0);
	list = espl__alloc((count + (size_t)1) * sizeof *list);
	(void)espl__exec_gangs(real->world.exec, list, count);
	take_left(real, list, count);
	go_on(real, list, count);
	espl__real_relay_rejoined(real);
	free(list);
}
