/* search.c - a whole search in the kit, round by round.
 */
#include "kit.h"

struct run {
	struct espl_kit *kit;
	uint32_t slots;
	double (*loss)(void *ctx, const struct espl_trial *, uint64_t iteration);
	void *ctx;
};

static int
is_training(const struct espl_trial *trial)
{
	return trial->state == ESPL_TRIAL_WAITING || trial->state == ESPL_TRIAL_RUNNING;
}

/* With BUSY nothing is decided, and the search continues; so it does where failures are watched. */
static espl_status
pass_status(const struct espl_kit *kit, espl_status status)
{
	return status == ESPL_E_BUSY || kit->watch != NULL ? ESPL_OK : status;
}

/* Trials that a verdict has stopped or paused: the algorithm is told. */
static espl_status
report_ends(struct espl_kit *kit)
{
	espl_status status = ESPL_OK;
	uint64_t id;

	for (id = 0; id < kit->trial_count && status == ESPL_OK; id++) {
		const struct kit_trial *trial = kit->trials[id];

		if (trial->untold)
			status = pass_status(kit,
			    espl_kit_end(kit, id,
				trial->pub.state == ESPL_TRIAL_ENDED ? ESPL_END_STOPPED
								     : ESPL_END_PAUSED,
				trial->pub.loss));
	}
	return status;
}

/* One iteration of up to `slots` trials, the earliest first.  Returns how many there were. */
static uint32_t
run_iteration(struct run *run, espl_status *status)
{
	struct espl_kit *kit = run->kit;
	uint32_t busy = 0;
	uint64_t id;

	for (id = 0; id < kit->trial_count && busy < run->slots && *status == ESPL_OK; id++) {
		const struct espl_trial *trial = &kit->trials[id]->pub;
		uint64_t next = trial->iteration + 1;
		double loss;

		if (!is_training(trial))
			continue;
		busy++;
		loss = run->loss(run->ctx, trial, next);
		*status = pass_status(kit, espl_kit_report(kit, id, next, loss));
		if (*status == ESPL_OK && is_training(trial) && next >= trial->budget)
			*status = pass_status(kit, espl_kit_end(kit, id, ESPL_END_BUDGET, loss));
	}
	if (*status == ESPL_OK)
		*status = report_ends(kit);
	return busy;
}

static uint32_t
count_training(const struct espl_kit *kit)
{
	uint32_t count = 0;
	uint64_t id;

	for (id = 0; id < kit->trial_count; id++)
		count += is_training(&kit->trials[id]->pub);
	return count;
}

/* One call for each group that has ended since, or one for the round. */
static espl_status
ask_algorithm(struct run *run)
{
	struct espl_kit *kit = run->kit;
	espl_status status = ESPL_OK;
	uint32_t busy, asked = 0;
	uint64_t group;

	for (group = 0; group < kit->group_count && status == ESPL_OK && !kit->finished; group++) {
		if (kit->groups[group].told || kit->groups[group].left > 0 ||
		    (kit->groups[group].flags & ESPL_GROUP_OPEN) != 0)
			continue;
		kit->groups[group].told = 1;
		busy = count_training(kit);
		status = pass_status(kit,
		    espl_kit_ask(kit, ESPL_ASK_GROUP | ESPL_ASK_RESULT, group,
			busy < run->slots ? run->slots - busy : 0));
		asked = 1;
	}
	busy = count_training(kit);
	if (status == ESPL_OK && !asked && !kit->finished)
		status = pass_status(kit,
		    espl_kit_ask(kit, ESPL_ASK_RESULT | (busy < run->slots ? ESPL_ASK_CAPACITY : 0),
			ESPL_NONE, busy < run->slots ? run->slots - busy : 0));
	return status;
}

/* What follows a round in which `busy` trials trained. */
static espl_status
go_on(struct run *run, uint32_t busy)
{
	struct espl_kit *kit = run->kit;

	kit->now += kit->pace;
	if (kit->wake <= kit->now) {
		kit->wake = ESPL_NEVER;
		return pass_status(kit, espl_kit_ask(kit, ESPL_ASK_TIME, ESPL_NONE, run->slots));
	}
	if (busy == 0 && kit->wake != ESPL_NEVER) {
		kit->now = kit->wake;
		return ESPL_OK;
	}
	return kit->finished ? ESPL_OK : ask_algorithm(run);
}

espl_status
espl__kit_rounds(struct espl_kit *kit, uint32_t slots, uint64_t rounds,
    double (*loss)(void *ctx, const struct espl_trial *, uint64_t iteration), void *ctx)
{
	struct run run = { kit, slots, loss, ctx };
	espl_status status = ESPL_OK;

	kit->idle = 0;
	for (; status == ESPL_OK && rounds > 0 && kit->idle < 3; rounds--) {
		uint32_t busy = run_iteration(&run, &status);

		if (kit->full || (kit->finished && busy == 0))
			return status;
		if (status == ESPL_OK)
			status = go_on(&run, busy);
		kit->idle = busy == 0 && kit->wake == ESPL_NEVER ? kit->idle + 1 : 0;
	}
	return status != ESPL_OK                        ? status
	    : kit->finished && count_training(kit) == 0 ? ESPL_OK
							: ESPL_E_LIMIT;
}

espl_status
espl_kit_search(struct espl_kit *kit, uint32_t slots, uint64_t rounds,
    double (*loss)(void *ctx, const struct espl_trial *, uint64_t iteration), void *ctx)
{
	espl_status status = pass_status(kit, espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, slots));

	return status == ESPL_OK ? espl__kit_rounds(kit, slots, rounds, loss, ctx) : status;
}
