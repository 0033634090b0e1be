/* searches_ask.c - asks the algorithms. */
#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items_tiers.h"
#include "exec/searches_confirm.h"
#include "exec/searches_decisions.h"
#include "exec/searches_end.h"
#include "exec/searches_faults.h"
#include "exec/searches_more.h"
#include "exec/searches_plan.h"
#include "exec/searches_trials.h"

/* calls of next_group in one round: with more the algorithm is in an endless loop */
#define ASKS_MAX 10000u

/* Whether the source can still produce a checkpoint that it does not have. A paused one that lost
 * it trains again. */
static int
will_save(struct espl__exec *x, struct espl__trial *source)
{
	if (source->gang != NULL || source->item != NULL || espl__clone_waits(source))
		return 1;
	if (!espl__trial_unsaved(source) ||
	    source->failures > source->search->config->trial.retries)
		return 0;
	espl__trial_train_again(x, source);
	return 1;
}

/* Starts or fails waiting clones; called when trials and checkpoints may have changed. The
 * algorithm is notified of each clone that fails and may stop others, so the list is scanned again
 * from the start. */
static espl_status
look_at_clones(struct espl__search *s, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	espl_status status = ESPL_OK;

	for (uint32_t i = 0; i < s->waiter_count && status == ESPL_OK && x->round.ending == 0;) {
		struct espl__waiter w = s->waiters[i];
		struct espl__trial *source = espl__trial_at(&s->trials, w.trial->source);
		uint64_t kept = source->pub.checkpoint;
		char name[48];

		if ((kept == 0 || kept < w.wanted) && will_save(x, source)) {
			i++;
			continue;
		}
		if (kept == 0 || kept >= w.trial->pub.budget) {
			espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(w.trial),
			    "cannot start: trial %s has no checkpoint to clone",
			    espl__trial_name(espl__trial_uid(source), name));
			status = espl__trial_over(x, w.trial, ESPL_END_FAILED, diag);
			i = 0;
			continue;
		}
		espl__clone_gone(w.trial);
		espl__clone_let_in(x, w.trial, kept, &w);
		espl__trial_show(x, w.trial);
	}
	return status;
}

/* ---- asking ------------------------------------------------------------------------------- */

/* The number of trials that could start at once in addition to those that run or wait. */
static uint32_t
count_startable(const struct espl__search *s)
{
	const struct espl__exec *x = s->exec;
	uint64_t gpus = 0, places,
		 active = s->trials.running + s->trials.waiting - s->faults.held_count;
	const struct espl__trial_config *c = &s->config->trial;

	for (uint32_t i = 0; i < x->fleet.offer_count; i++)
		gpus += (uint64_t)x->fleet.targets[i] * x->fleet.offers[i]->gpus;
	if (gpus == 0)
		gpus = espl__cluster_potential(x);
	if (x->config->pool && gpus > s->config->gpus_limit)
		gpus = s->config->gpus_limit;
	places = s->config->asked ? x->searches.places
	    : c->gpus_min == 1    ? gpus * c->packing_max
				  : gpus / c->gpus_min;
	if (places <= active)
		return 0;
	return places - active > UINT32_MAX - 1 ? UINT32_MAX - 1 : (uint32_t)(places - active);
}

static espl_status
ask_algorithm(struct espl__search *s, uint32_t why, uint64_t group, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	struct espl_search_view view = ESPL_INIT(struct espl_search_view);
	struct espl__diag reason;
	struct espl__reader answer;
	espl_status status;
	uint64_t potential = espl__cluster_potential(x);

	espl__diag_clear(&reason);
	/* a configuration also where not all of its trials could start: GPUs are not left idle */
	view.want = count_startable(s);
	view.want = view.want / s->seeds + (view.want % s->seeds != 0);
	view.why = why | (view.want > 0 ? ESPL_ASK_CAPACITY : 0);
	view.now = x->now;
	view.group = group;
	view.trials = s->configs->trials.count;
	view.running = (uint32_t)s->configs->running;
	view.waiting = (uint32_t)s->configs->waiting;
	view.gpus = x->fleet.gpus_held;
	view.gpus_max = potential > UINT32_MAX ? UINT32_MAX : (uint32_t)potential;
	view.outcomes = s->outcomes.list;
	view.outcome_count = s->outcomes.count;
	espl__search_turn(s);
	status = espl__call_next_group(&x->caller, s->algorithm, &view, &reason);
	espl__outcomes_clear(&s->outcomes);
	status = espl__search_answer(s, status, &reason, &answer, diag);
	return status == ESPL_OK ? espl__search_apply(x, s, &answer, diag) : status;
}

static espl_status
search_on(struct espl__search *s, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;
	espl_status status = look_at_clones(s, diag);
	uint32_t asks = 0;

	while (status == ESPL_OK && x->round.ending == 0 && !s->finished) {
		struct espl__trial_group *g = espl__search_group_over(s);
		uint32_t why = s->why;

		if (g == NULL && why == 0)
			break;
		if (++asks > ASKS_MAX) {
			espl__search_wind_up(s, ESPL__RUN_FAILED, "%s keeps creating empty groups",
			    s->algorithm->who);
			break;
		}
		s->why = 0;
		if (g != NULL) {
			g->end_reported = 1;
			espl__group_show(s, g, 1);
			why |= ESPL_ASK_GROUP;
		}
		status = ask_algorithm(s, why, g != NULL ? g->id : ESPL_NONE, diag);
		if (status == ESPL_OK)
			status = look_at_clones(s, diag);
		if (status == ESPL_OK)
			status = espl__search_stop_unwanted(s, diag);
	}
	return status;
}

/* Retries for which the algorithm has left room: where trials have worked, all of them. */
static void
retry_held(struct espl__search *s)
{
	uint64_t active = s->trials.running + s->trials.waiting - s->faults.held_count;
	uint32_t most;

	if (s->faults.held_count == 0 || s->exec->round.ending != 0 || s->ending != 0)
		return;
	most = s->reported ? UINT32_MAX : count_startable(s);
	espl__search_retry(s, most > 0 || active > 0 ? most : 1);
}

espl_status
espl__searches_ask(struct espl__exec *x, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	ESPL__CHECK(x, EXEC);
	if (!x->cluster.cloud_ready)
		return ESPL_OK;
	for (uint32_t i = 0; i < x->searches.count && status == ESPL_OK; i++)
		if (x->searches.list[i]->algorithm != NULL && x->searches.list[i]->planned &&
		    x->searches.list[i]->come) {
			status = search_on(x->searches.list[i], diag);
			if (status != ESPL_OK)
				break;
			retry_held(x->searches.list[i]);
			/* before the allocator is asked, which would let the nodes go */
			if (espl__search_idle(x->searches.list[i]))
				(void)espl__search_confirm(x->searches.list[i]);
		}
	return status;
}
