/* agent_outputs.c - an agent with a private disk: what trials write to ESPALIER_OUTPUT is sent to
 * the driver.
 *
 * It is sent now and then while a trial runs, and when it has ended: then the gang's end waits for
 * it.  Each time that is given up after a while, because the driver delays its own limits while
 * something moves. The loss of such files is reported, and has no other consequence.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/ids.h"
#include "base/tick.h"
#include "agent/agent.h"
#include "transfer/mover.h"

#define SECOND ESPL_SECOND
#define EVERY (30 * SECOND) /* while it runs */
#define SHARE 20            /* and never more than 1/SHARE of the time */
#define WAIT_MOST (60 * SECOND)
#define STILL_MOST (20 * SECOND) /* nothing moves; shorter than the driver's limits */
#define AWAY (10 * SECOND)       /* no message from the driver: it is unreachable */
#define LOOK SECOND
#define NAME_ROOM 48

static void
print_name(char to[NAME_ROOM], uint64_t trial)
{
	(void)snprintf(to, NAME_ROOM, "%" PRIu64 "/output", trial);
}

/* Each kind of loss is reported once for this node. */
enum { INCOMPLETE = 1, FAILED = 2, LATE = 4 };
static void
report_loss(struct espl__agent *a, uint64_t trial, int kind, const char *why)
{
	char name[48];

	if ((a->outputs_told & kind) != 0)
		return;
	a->outputs_told |= kind;
	espl__agent_log(a, ESPL_WARN,
	    "trial %s: not all files in its ESPALIER_OUTPUT were sent to the run directory: %s",
	    espl__trial_name(trial, name), why);
}

/* Whether it is being sent: one transfer at a time. */
static int
is_moving(const struct espl__agent *a, const char *name)
{
	return espl__mover_busy(a->mover, name, INT64_MIN);
}

int
espl__outputs_put(struct espl__agent *a, const char *name, const struct espl__diag *diag)
{
	uint64_t trial;
	int64_t now = espl__tick();

	ESPL__CHECK(a, AGENT);
	if (espl__output_name(name, &trial) != 0)
		return 0;
	if (diag->status != ESPL_OK)
		report_loss(a, trial, FAILED, diag->text);
	else if (diag->text[0] != '\0')
		report_loss(a, trial, INCOMPLETE, diag->text);
	for (uint32_t i = 0; i < a->gang_count; i++) {
		struct espl__agent_gang *g = a->gangs[i];

		if (g->start.trial != trial)
			continue;
		if (g->outputs == ESPL__OUTPUTS_LAST)
			g->outputs = ESPL__OUTPUTS_DONE;
		if (g->outputs_at == 0 && g->outputs_begun != 0) {
			int64_t pause = (now - g->outputs_begun) * SHARE;

			g->outputs_at = now + (pause > EVERY ? pause : EVERY);
		}
	}
	return 1;
}

/* 1: the transfer, or the wait for it, has taken too long. */
static int
is_late(struct espl__agent_gang *g, const char *name, int64_t now)
{
	struct espl__agent *a = g->agent;

	if (now - a->heard_at > AWAY) { /* the gang could not end anyway */
		g->outputs_begun = now;
		return 0;
	}
	return now - g->outputs_begun > WAIT_MOST ||
	    (now - g->outputs_begun > STILL_MOST &&
		!espl__mover_busy(a->mover, name, now - STILL_MOST));
}

int
espl__outputs_settled(struct espl__agent_gang *g)
{
	struct espl__agent *a = g->agent;
	int64_t now = espl__tick();
	char name[NAME_ROOM];

	ESPL__CHECK(g, AGENT_GANG);
	if (!g->launched || g->outputs == ESPL__OUTPUTS_DONE)
		return 1;
	print_name(name, g->start.trial);
	if (g->outputs == ESPL__OUTPUTS_NOW_AND_THEN) {
		g->outputs = ESPL__OUTPUTS_WAIT;
		g->outputs_begun = now;
	}
	if (g->outputs == ESPL__OUTPUTS_WAIT && !is_moving(a, name)) {
		g->outputs = ESPL__OUTPUTS_LAST;
		espl__mover_put(a->mover, name);
	}
	if (!is_late(g, name, now))
		return 0;
	espl__mover_cancel(a->mover, name);
	report_loss(a, g->start.trial, LATE, "it took too long (the limit is 60 s)");
	g->outputs = ESPL__OUTPUTS_DONE;
	return 1;
}

int64_t
espl__outputs_tend(struct espl__agent_gang *g, int64_t now)
{
	char name[NAME_ROOM];

	ESPL__CHECK(g, AGENT_GANG);
	if (g->outputs != ESPL__OUTPUTS_NOW_AND_THEN)
		return g->outputs == ESPL__OUTPUTS_DONE ? 0 : now + LOOK;
	if (g->outputs_begun == 0) { /* it has just been launched */
		g->outputs_begun = now;
		g->outputs_at = now + EVERY;
	}
	print_name(name, g->start.trial);
	if (g->outputs_at == 0 && !is_late(g, name, now)) /* they are being sent */
		return now + LOOK;
	if (g->outputs_at == 0) {
		espl__mover_cancel(g->agent->mover, name);
		g->outputs_at = now + SHARE * WAIT_MOST;
	}
	if (now < g->outputs_at)
		return g->outputs_at;
	if (is_moving(g->agent, name)) {
		g->outputs_at = now + LOOK;
		return g->outputs_at;
	}
	g->outputs_begun = now;
	g->outputs_at = 0;
	espl__mover_put(g->agent->mover, name);
	return now + LOOK;
}
