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
trains(const struct espl_trial *trial)
{
	return trial->state == ESPL_TRIAL_WAITING || trial->state == ESPL_TRIAL_RUNNING;
}

/* One iteration of up to `slots` trials, the earliest first.  Returns how many there were. */
static uint32_t
step(struct run *run, espl_status *status)
{
	struct espl_kit *kit = run->kit;
	uint32_t busy = 0;
	uint64_t id;

	for (id = 0; id < kit->trial_count && busy < run->slots && *status == ESPL_OK; id++) {
		const struct espl_trial *trial = &kit->trials[id]->pub;
		uint64_t next = trial->iteration + 1;
		double loss;

		if (!trains(trial))
			continue;
		busy++;
		loss = run->loss(run->ctx, trial, next);
		*status = espl_kit_report(kit, id, next, loss);
		if (*status == ESPL_OK && trains(trial) && next >= trial->budget)
			*status = espl_kit_end(kit, id, ESPL_END_BUDGET, loss);
	}
	return busy;
}

static uint32_t
training(const struct espl_kit *kit)
{
	uint32_t count = 0;
	uint64_t id;

	for (id = 0; id < kit->trial_count; id++)
		count += trains(&kit->trials[id]->pub);
	return count;
}

/* One call for each group that has ended since, or one for the round. */
static espl_status
ask(struct run *run)
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
		busy = training(kit);
		status = espl_kit_ask(kit, ESPL_ASK_GROUP | ESPL_ASK_RESULT, group,
		    busy < run->slots ? run->slots - busy : 0);
		asked = 1;
	}
	busy = training(kit);
	if (status == ESPL_OK && !asked && !kit->finished)
		status =
		    espl_kit_ask(kit, ESPL_ASK_RESULT | (busy < run->slots ? ESPL_ASK_CAPACITY : 0),
			ESPL_NONE, busy < run->slots ? run->slots - busy : 0);
	return status;
}

espl_status
espl_kit_search(struct espl_kit *kit, uint32_t slots, uint64_t rounds,
    double (*loss)(void *ctx, const struct espl_trial *, uint64_t iteration), void *ctx)
{
	struct run run = { kit, slots, loss, ctx };
	espl_status status = espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, slots);

	for (; status == ESPL_OK && rounds > 0; rounds--) {
		uint32_t busy = step(&run, &status);

		if (kit->finished && busy == 0)
			return status;
		kit->now += ESPL_SECOND;
		if (status == ESPL_OK && !kit->finished)
			status = ask(&run);
	}
	return status != ESPL_OK                  ? status
	    : kit->finished && training(kit) == 0 ? ESPL_OK
						  : ESPL_E_LIMIT;
}
