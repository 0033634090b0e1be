/* real_waits.c - one clock for each state of a lease and of a gang: what has not changed for 30 s
 * is said, with the last word of whoever is responsible, and again after four times as long.
 *
 * The limits are elsewhere: a cloud's own, cluster_clocks.c (requested, booting), real_agent.c
 * (joining, ending), real_gangs.c (starting, saving, ending).
 */
#include "base/assert.h"
#include "real/real.h"
#include <string.h>
#include "base/ids.h"
#include "base/log.h"
#include "base/text.h"

#define SAY_FIRST (30 * ESPL__REAL_SECOND)
#define SAY_AGAIN 4

/* 1: the clock of this state has come to the next line. */
static int
is_due(struct espl__rwait *wait, const char *state, int64_t tick)
{
	if (state == NULL || wait->state == NULL || strcmp(wait->state, state) != 0) {
		wait->state = state;
		wait->since = tick;
		wait->say_at = tick + SAY_FIRST;
		return 0;
	}
	if (tick < wait->say_at)
		return 0;
	wait->say_at = wait->since + SAY_AGAIN * (wait->say_at - wait->since);
	return 1;
}

/* ---- leases ---- */

/* What the lease waits for; NULL: nothing. */
static const char *
state_of(const struct espl__rlease *lease)
{
	if (lease->ended || (lease->releasing && lease->agent != NULL))
		return lease->agent != NULL ? "ending: its agent has not gone" : NULL;
	if (lease->releasing)
		return "being released";
	if (lease->cloud >= ESPL_NODE_READY)
		return lease->agent == NULL || lease->agent->state == ESPL__AGENT_HELLO
		    ? "joining: its agent has not answered"
		    : NULL;
	if (lease->cloud == ESPL_NODE_BOOTING)
		return "starting";
	return lease->asked ? "requested" : NULL;
}

static void
tick_lease(struct espl__rlease *lease, int64_t tick)
{
	const char *word = lease->agent != NULL && lease->agent->last_line[0] != '\0'
	    ? lease->agent->last_line + 2 /* it begins with ": " */
	    : lease->said;
	char span[32];

	if (!is_due(&lease->wait, state_of(lease), tick))
		return;
	espl__log(ESPL_INFO, "node %llu%s%s%s has been %s for %s%s%s",
	    (unsigned long long)lease->id, lease->machine != NULL ? " (" : "",
	    lease->machine != NULL ? lease->machine : "", lease->machine != NULL ? ")" : "",
	    lease->wait.state, espl__format_short(tick - lease->wait.since, span),
	    word != NULL && word[0] != '\0' ? "; last word: " : "", word != NULL ? word : "");
}

/* ---- gangs ---- */

static const char *
state_of_gang(const struct espl__rgang *gang)
{
	if (gang->started < gang->part_count)
		return "starting";
	if (gang->killed)
		return "ending";
	if (gang->directive == ESPL__PAUSE && gang->saved < gang->last)
		return "saving";
	return gang->directive == ESPL__PAUSE || gang->directive == ESPL__STOP ? "leaving" : NULL;
}

static void
tick_gang(const struct espl__real *real, struct espl__rgang *gang, int64_t tick)
{
	char span[32], name[48];

	if (espl__real_gang_unreachable(real, gang) ||
	    !is_due(&gang->wait, state_of_gang(gang), tick))
		return;
	espl__log(ESPL_INFO, "trial %s has been %s on node %llu for %s",
	    espl__trial_name(gang->trial, name), gang->wait.state,
	    (unsigned long long)gang->parts[0].lease,
	    espl__format_short(tick - gang->wait.since, span));
}

void
espl__real_waits_tick(struct espl__real *real, int64_t tick)
{
	ESPL__CHECK(real, REAL);
	for (uint32_t i = 0; i < real->lease_count; i++)
		tick_lease(real->leases[i], tick);
	for (struct espl__rgang *gang = real->gangs; gang != NULL; gang = gang->next)
		tick_gang(real, gang, tick);
}
