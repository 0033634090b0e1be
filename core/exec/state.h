/* state.h - the executor's own state, shared only by its files.
 *
 * One executor holds one fleet, one ledger and one allocator, and any number of searches: an
 * ordinary run has one, a pool one for each experiment and one for its plain jobs.
 *
 * Ownership: everything hangs on struct espl__exec and is freed by espl__exec_free.  Items live
 * while a trial has a budget to train; gangs while processes exist, from START to ENDED.
 */
#ifndef ESPL__EXEC_STATE_H
#define ESPL__EXEC_STATE_H
#include <stddef.h>

#include "exec/cluster.h"
#include "exec/executor.h"
#include "exec/gangs.h"
#include "exec/items.h"
#include "exec/round.h"
#include "exec/searches.h"
#include "model/fleet.h"
#include "model/ledger.h"
#include "model/market.h"
#include "policy/call.h"

#define ESPL__EXEC_MAGIC 0x617c6167u
struct espl__exec {
	struct espl__exec_setup setup;
	uint32_t magic;                        /* ESPL__EXEC_MAGIC */
	const struct espl__run_config *config; /* of the run, or of the pool */
	struct espl__arena arena;              /* lives as long as the executor */
	struct espl__arena ops_arena;          /* until the next round */
	struct espl__host_env env;
	struct espl__caller caller;
	struct espl__fleet fleet;
	struct espl__ledger *ledger;
	struct espl__market market;
	espl_time now;
	/* each is written by its owner alone (tests/policy/owners.py) */
	struct espl__cluster cluster;
	struct espl__items items;
	struct espl__gangs gangs;
	struct espl__searches searches;
	struct espl__rounds round;
};

/* Whether the run follows the executor's rules of this journal format (run/journal.h). */
static inline int
espl__exec_follows(const struct espl__exec *x, uint32_t format)
{
	return x->setup.rules == 0 || x->setup.rules >= format;
}
#define ESPL__RULES_SUPPLY 3u /* idle slots are used, equal offers share a target */
#define ESPL__RULES_LOCKED 6u /* gangs that start are locked */
#define ESPL__RULES_QUEUES 7u /* requests that only queue give way to another offer */
#define ESPL__RULES_LOSSES 8u /* announced ends of nodes, and trials apart on several nodes */
#define ESPL__RULES_MARKET 9u /* interruptions and refusals are counted as they are */
#define ESPL__RULES_ROW 9u    /* trials that fail one after the other for lack of a disk end it */

/* A trial's id outside of its own search; in an ordinary run it is the trial's number. */
static inline uint64_t
espl__trial_uid(const struct espl__trial *t)
{
	return (uint64_t)t->search->number << ESPL__TRIAL_BITS | t->pub.id;
}

/* As ESPL__DIAG_INIT, for what is done in every round: it does not clear 1.5 kB. */
static inline void
espl__diag_clear(struct espl__diag *diag)
{
	diag->status = ESPL_OK;
	diag->line = diag->late = 0;
	diag->file[0] = diag->text[0] = diag->hint[0] = '\0';
}
#endif
