/* searches_decisions.c - carries out what the algorithm decides. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/items.h"
#include "exec/searches_configs.h"
#include "exec/searches_require.h"
#include "exec/searches_decisions.h"
#include "exec/searches_end.h"
#include "exec/searches_faults.h"
#include "exec/searches_jobs.h"
#include "exec/searches_plan.h"
#include "exec/searches_seeds.h"
#include "exec/searches_trials.h"

/* ---- trials that failed for good ------------------------------------------------------------- */

/* Trials that failed for good: counted against experiment.failures_max. */

#define SHARE_LEAST 10 /* trials that have ended before a share of them says anything */

static void
count_failed(struct espl__search *s)
{
	struct espl__exec *x = s->exec;
	const struct espl__run_config *c = s->config;
	uint64_t failed, ended;

	ESPL__CHECK(s, SEARCH);
	s->failed++;
	failed = s->failed - s->faults.failed_before;
	ended = s->trials.trials.count - s->trials.running - s->trials.waiting;
	ended -= s->faults.ended_before < ended ? s->faults.ended_before : ended;
	if (s->ending != 0 || x->round.ending != 0)
		return;
	if (failed > c->failures_most)
		espl__search_wind_up(s, ESPL__RUN_FAILED,
		    "%llu trial%s failed, and experiment.failures_max is %llu; the last failure: "
		    "%s",
		    (unsigned long long)failed, failed == 1 ? "" : "s",
		    (unsigned long long)c->failures_most,
		    x->searches.last_failure != NULL ? x->searches.last_failure : "");
	else if (ended >= SHARE_LEAST && (double)failed > c->failures_share * (double)ended)
		espl__search_wind_up(s, ESPL__RUN_FAILED,
		    "%llu of %llu trials failed, and experiment.failures_max is %.6g%%; the last "
		    "failure: %s",
		    (unsigned long long)failed, (unsigned long long)ended, 100 * c->failures_share,
		    x->searches.last_failure != NULL ? x->searches.last_failure : "");
}

/* ---- decisions ------------------------------------------------------------------------------- */

espl_status
espl__search_answer(struct espl__search *s, espl_status status, struct espl__diag *why,
    struct espl__reader *r, struct espl__diag *diag)
{
	status = espl__exec_answer(s->exec, s->algorithm, &s->failures, status, why, r, diag);
	if (s->failures == ESPL__FAILED_FOR_GOOD)
		espl__search_wind_up(s, ESPL__RUN_FAILED, "%s",
		    why->text[0] != '\0' ? why->text : s->algorithm->who);
	return status;
}

/* A promoted trial whose processes still wait for the reply continues in them (planning.warm). */
static void
keep_warm(struct espl__exec *x, struct espl__trial *t)
{
	struct espl__gang *g = t->gang;
	uint64_t owner = ESPL_NONE;

	if (!t->search->config->warm || g == NULL || !g->awaiting ||
	    g->state != ESPL__GANG_RUNNING || g->killed)
		return;
	espl__gang_seen(x, g); /* waiting for the reply does not count as training */
	for (uint32_t i = 0; i < g->share.gpus; i++) {
		struct espl__machine *n;
		if (espl__gpu_at(&x->fleet, &g->slots[i], &n) == NULL ||
		    n->pub.state != ESPL_NODE_READY ||
		    (n->pub.flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) != 0)
			return;
		owner = n->pub.owner;
	}
	espl__gang_keep(x, g);
	espl__item_keep(x, t->item, g, owner);
	espl__trial_turns(t, ESPL_TRIAL_RUNNING);
	espl__trial_trains(t->search, t);
}

/* A paused trial was chosen to train further. */
static void
note_promotion(struct espl__exec *x)
{
	if (x->searches.promoted_at < x->now)
		x->searches.promoted_cost = espl__ledger_total(x->ledger, x->now);
	x->searches.promoted_at = x->now;
}

static void
start_trial(struct espl__search *search, struct espl__trial *t, const struct espl_start *s)
{
	struct espl__exec *x = search->exec;

	t->pub.budget = s->budget;
	t->pub.tag = s->tag;
	if (s->how == ESPL_CLONE)
		espl__clone_begin(x, t, s);
	else if (espl__clone_waits(t) && espl__trial_restores(t) == 0) /* paused before it began */
		espl__clone_wait(x,
		    &(struct espl__waiter){ t, t->pub.iteration, s->weight, s->gpus_min,
			s->gpus_max });
	else
		t->item = espl__item_new(x, t, s->weight, s->gpus_min, s->gpus_max);
	if (s->how == ESPL_CONTINUE)
		keep_warm(x, t);
	if (t->unwanted) {
		ESPL__GROW(search->unwanted, search->unwanted_cap, search->unwanted_count + 1);
		search->unwanted[search->unwanted_count++] = t;
	}
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
	    "%s to iteration %llu in group %llu by %s",
	    s->how == ESPL_FRESH       ? "is created to train"
		: s->how == ESPL_CLONE ? "is cloned to train"
				       : "is continued",
	    (unsigned long long)s->budget, (unsigned long long)t->pub.group,
	    search->algorithm->who);
	espl__trial_show(x, t);
}

/* Those of a configuration that can be.  One that is making its last checkpoint again trains on. */
static uint64_t
continue_trials(struct espl__search *search, const struct espl__trial *config,
    struct espl__trial_group *g, const struct espl_start *s)
{
	uint64_t started = 0;

	for (uint32_t i = 0; i < search->seeds; i++) {
		struct espl__trial *t = espl__config_trial(config, i);

		t->unsaved = 0;
		if (t->pub.state == ESPL_TRIAL_PAUSED) {
			espl__trial_continue(&search->trials, t, g);
			start_trial(search, t, s);
			started++;
		} else if (t->item != NULL) {
			t->pub.budget = s->budget;
		}
	}
	return started;
}

static void
create_trial(struct espl__search *search, struct espl__trial_group *g,
    const struct espl__trial *config, const struct espl_start *s)
{
	struct espl__trial *source =
	    s->how == ESPL_CLONE ? espl__trial_at(&search->trials, s->trial) : NULL;
	struct espl__trial *t = espl__trial_new(&search->trials, g, s->values, source);

	t->config = config != NULL ? config->pub.id : ESPL_NONE;
	if (search->config->asked)
		espl__trial_unasked(t);
	start_trial(search, t, s);
}

/* How many trials of the group have started by it. */
static uint64_t
apply_add(struct espl__search *search, uint64_t group_id, const struct espl_start *s)
{
	struct espl__trial_group *g = espl__group_at(&search->trials, group_id);
	struct espl__trial *config =
	    s->how == ESPL_FRESH ? NULL : espl__trial_at(search->configs, s->trial);

	/* only recorded decisions of another version come here */
	if (g == NULL || (s->how != ESPL_FRESH && config == NULL) ||
	    (s->how == ESPL_CONTINUE && config->pub.state != ESPL_TRIAL_PAUSED) ||
	    (s->how == ESPL_CLONE && search->apart))
		return 0;
	if (search->apart)
		config = espl__config_starts(search, group_id, s);
	if (s->how == ESPL_CONTINUE) {
		note_promotion(search->exec);
		return continue_trials(search, config, g, s);
	}
	for (uint32_t i = 0; i < search->seeds; i++)
		create_trial(search, g, search->apart ? config : NULL, s);
	return search->seeds;
}

void
espl__group_show(const struct espl__search *s, const struct espl__trial_group *g, int ended)
{
	struct espl__exec *x = s->exec;

	ESPL__CHECK(s, SEARCH);
	ESPL__OBSERVE(x, group, (uint64_t)s->number << ESPL__TRIAL_BITS | g->id, g->bracket,
	    g->stage, ended);
}

static void
apply_begin(struct espl__search *s, const struct espl_group *wanted)
{
	struct espl__trial_group *g = espl__group_new(&s->trials, wanted);

	if (s->apart)
		(void)espl__group_new(s->configs, wanted);
	if (g->bracket < s->experiment.standing_count) {
		struct espl_standing *standing = &s->standing[g->bracket];
		standing->stage = g->stage;
		standing->stage_started = s->exec->now;
		standing->trains_since = ESPL_NEVER;
		standing->trials_left = 0;
		s->pauses[g->bracket] = (struct espl__search_pause){ ESPL_NEVER, 0 };
	}
	espl__group_show(s, g, 0);
}

static void
count_standing(struct espl__search *s, uint64_t group, uint64_t trials)
{
	const struct espl__trial_group *g = espl__group_at(&s->trials, group);

	if (g != NULL && g->bracket < s->experiment.standing_count)
		s->standing[g->bracket].trials_left += (uint32_t)trials;
}

static void
apply_hint(const struct espl__search *s, const struct espl__op *op)
{
	const struct espl__trial *config = espl__trial_at(s->configs, op->as.hint.trial);

	for (uint32_t i = 0; config != NULL && i < s->seeds; i++) {
		const struct espl__trial *t = espl__config_trial(config, i);

		if (t->item != NULL)
			espl__item_hint(t->item, op->as.hint.weight, op->as.hint.gpus_min,
			    op->as.hint.gpus_max);
	}
}

static void
close_group(struct espl__search *s, uint64_t id)
{
	struct espl__trial_group *g = espl__group_at(&s->trials, id);

	if (g != NULL && s->apart)
		espl__group_close(s->configs, espl__group_at(s->configs, id));
	if (g != NULL)
		espl__group_close(&s->trials, g);
}

static void
drop_trial(struct espl__exec *x, struct espl__trial *t)
{
	if (t->dropped)
		return;
	espl__trial_drop(&t->search->trials, t);
	if (t->pub.state == ESPL_TRIAL_PAUSED)
		espl__trial_show(x, t);
	espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
	    "is stopped early: it will not be promoted");
	espl__trial_collect_later(x, t);
}

static void
apply_drop(struct espl__search *s, uint64_t id)
{
	struct espl__trial *config = espl__trial_at(s->configs, id);

	if (config == NULL)
		return;
	for (uint32_t i = 0; i < s->seeds; i++)
		drop_trial(s->exec, espl__config_trial(config, i));
	if (s->apart && !config->dropped)
		espl__trial_drop(s->configs, config);
}

static espl_status
apply_verdict(struct espl__search *s, uint64_t id, espl_verdict verdict, struct espl__diag *diag)
{
	struct espl__trial *config = espl__trial_at(s->configs, id);

	if (config == NULL || config->pub.state == ESPL_TRIAL_ENDED ||
	    config->pub.state == ESPL_TRIAL_FAILED)
		return ESPL_OK;
	return s->apart ? espl__config_verdict(s->exec, config, verdict, diag)
			: espl__trial_verdict(s->exec, config, verdict, 0, diag);
}

static espl_status
apply_one(struct espl__search *s, const struct espl__op *op, struct espl__diag *diag)
{
	struct espl__exec *x = s->exec;

	switch (op->type) {
	case ESPL__OP_BEGIN: apply_begin(s, &op->as.group); break;
	case ESPL__OP_ADD:
		count_standing(s, op->as.add.group,
		    apply_add(s, op->as.add.group, &op->as.add.start));
		break;
	case ESPL__OP_CLOSE: close_group(s, op->as.id); break;
	case ESPL__OP_FINISH:
		s->finished = 1;
		espl__exec_note(x, ESPL_ABOUT_RUN, 0,
		    x->config->pool ? "%s has finished the search of experiment '%s'"
				    : "%s has finished the search",
		    s->algorithm->who, s->config->name);
		break;
	case ESPL__OP_VERDICT:
		return apply_verdict(s, op->as.verdict.trial, op->as.verdict.verdict, diag);
	case ESPL__OP_DROP: apply_drop(s, op->as.id); break;
	case ESPL__OP_HINT: apply_hint(s, op); break;
	case ESPL__OP_WAKE:
		espl__haste_asks(&s->haste, op->as.at, x->now);
		if (op->as.at < s->wake_at)
			s->wake_at = op->as.at;
		break;
	case ESPL__OP_SUBMIT: espl__searches_submit(x, s, NULL, op->as.id); break;
	default: break;
	}
	return ESPL_OK;
}

/* Applies an answer.  A verdict's end may call the algorithm again (on_trial_end), which makes
 * a new answer: so the ops are taken out first. */
espl_status
espl__search_apply(struct espl__exec *x, struct espl__search *s, struct espl__reader *answer,
    struct espl__diag *diag)
{
	uint64_t groups = s->trials.groups.count;
	size_t size = (size_t)(answer->end - answer->at);
	struct espl__reader r;
	struct espl__op op;
	espl_status status = ESPL_OK;
	uint8_t *copy;

	ESPL__CHECK(x, EXEC);
	ESPL__CHECK(s, SEARCH);
	if (size == 0)
		return ESPL_OK;
	copy = espl__arena_alloc(&x->ops_arena, size);
	memcpy(copy, answer->at, size);
	r = espl__reader(copy, size);
	while (status == ESPL_OK && espl__exec_next_op(x, &r, &op))
		status = apply_one(s, &op, diag);
	/* A closed group closes when the call that began it is over. */
	for (uint64_t id = groups; id < s->trials.groups.count; id++)
		if (espl__group_at(&s->trials, id)->will_close)
			close_group(s, id);
	return status;
}

/* A config failed permanently. The best of the failed ones is remembered, and its checkpoint is
 * kept in case no other trial has a result. If it was the best of all, finds the new best.
 * O(trials), once for each such failure. */
static void
replace_best(struct espl__exec *x, struct espl__trial *t)
{
	struct espl__search *s = t->search;
	struct espl__trial *failed = espl__trial_at(s->configs, s->best_failed);
	uint64_t left = t->pub.id == s->best ? s->configs->trials.count : 0;

	if (!isnan(espl__trial_eligible(t, t->pub.objective)) &&
	    (failed == NULL || t->pub.iteration > failed->pub.iteration ||
		(t->pub.iteration == failed->pub.iteration &&
		    t->pub.objective < failed->pub.objective))) {
		s->best_failed = t->pub.id;
		if (failed != NULL)
			espl__config_collect_later(x, failed);
	}
	for (uint64_t i = 0; i < left; i++) {
		struct espl__trial *other = espl__trial_at(s->configs, i);

		if (other->pub.iteration > 0)
			espl__trial_best(x, other, other->pub.iteration,
			    espl__trial_eligible(other, other->pub.objective));
	}
}

void
espl__config_failed(struct espl__exec *x, struct espl__trial *t)
{
	ESPL__CHECK(x, EXEC);
	replace_best(x, t);
	espl__search_goal_failed(t);
}

espl_status
espl__config_ended(struct espl__exec *x, struct espl__trial *t, espl_end how,
    struct espl__diag *diag)
{
	struct espl__search *s = t->search;
	struct espl__diag why;
	struct espl__reader answer;
	espl_status status;

	ESPL__CHECK(x, EXEC);
	s->why |= ESPL_ASK_RESULT;
	espl__searches_capacity(x);
	if (!espl__search_gets_results(s) || s->algorithm == NULL)
		return ESPL_OK;
	espl__diag_clear(&why);
	espl__search_turn(s);
	status = espl__call_trial_end(&x->caller, s->algorithm, &t->pub, how, &why);
	status = espl__search_answer(s, status, &why, &answer, diag);
	if (status == ESPL_OK)
		status = espl__search_apply(x, s, &answer, diag);
	return status;
}

/* The trial has nothing to train for now: remove its item and notify the algorithm. Its gang, if
 * any, gets its reply at the end of the round. */
espl_status
espl__trial_over(struct espl__exec *x, struct espl__trial *t, espl_end how, struct espl__diag *diag)
{
	static const char *const words[] = { "", "reached its budget",
		"reported that it is complete", "is paused", "is stopped",
		"failed, with no retries left" };
	struct espl__search *s = t->search;
	int silent = t->unsaved; /* it only made its last checkpoint again */
	int rests = s->algorithm != NULL && espl__config_of(t) != NULL &&
	    (how == ESPL_END_BUDGET || how == ESPL_END_PAUSED);

	if (t->held)
		espl__trial_unhold(t);
	else if (t->item == NULL)
		espl__clone_gone(t);
	espl__cluster_paid_off(x);
	espl__trial_leave(x, t);
	t->unsaved = 0;
	if (t->pub.group != ESPL_NONE && s->experiment.spec != NULL) {
		const struct espl__trial_group *g = espl__group_at(&s->trials, t->pub.group);
		if (g->bracket < s->experiment.standing_count &&
		    s->standing[g->bracket].trials_left > 0)
			s->standing[g->bracket].trials_left--;
	}
	t->itself = how == ESPL_END_ITSELF;
	espl__trial_turns(t,
	    rests                        ? ESPL_TRIAL_PAUSED
		: how == ESPL_END_FAILED ? ESPL_TRIAL_FAILED
					 : ESPL_TRIAL_ENDED);
	if (how == ESPL_END_FAILED) {
		count_failed(s);
		if (!s->apart)
			espl__config_failed(x, t);
	}
	if (s->jobs != NULL)
		espl__job_ended(t);
	if ((how == ESPL_END_BUDGET || how == ESPL_END_ITSELF) && s->jobs == NULL)
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
		    "%s at iteration %llu with %s %.9g", words[how],
		    (unsigned long long)t->pub.iteration, s->config->metric,
		    s->config->maximize ? -t->pub.objective : t->pub.objective);
	else
		espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t), "%s at iteration %llu",
		    words[how], (unsigned long long)t->pub.iteration);
	espl__trial_collect_later(x, t);
	espl__trial_show(x, t);
	if (silent)
		return ESPL_OK;
	return s->apart ? espl__trial_seed_over(x, t, how, diag)
			: espl__config_ended(x, t, how, diag);
}

espl_status
espl__trial_verdict(struct espl__exec *x, struct espl__trial *t, espl_verdict verdict,
    int at_boundary, struct espl__diag *diag)
{
	int awaiting = t->gang != NULL && t->gang->awaiting && t->gang->state != ESPL__GANG_LEAVING;

	if (verdict == ESPL_SAVE) {
		t->save_asked = 1;
		return ESPL_OK;
	}
	if (t->pub.state == ESPL_TRIAL_PAUSED) {
		if (verdict == ESPL_STOP) {
			espl__trial_state(&t->search->trials, t, ESPL_TRIAL_ENDED);
			espl__exec_note(x, ESPL_ABOUT_TRIAL, espl__trial_uid(t),
			    "is stopped while paused");
			espl__trial_collect_later(x, t);
			espl__trial_show(x, t);
			return espl__config_ended(x, t, ESPL_END_STOPPED, diag);
		}
		return ESPL_OK;
	}
	if (t->item == NULL && !espl__clone_waits(t) && !t->held)
		return ESPL_OK;
	if (t->gang != NULL && !awaiting && !at_boundary) {
		t->verdict = (uint8_t)verdict; /* at its next boundary */
		return ESPL_OK;
	}
	return espl__trial_over(x, t, verdict == ESPL_STOP ? ESPL_END_STOPPED : ESPL_END_PAUSED,
	    diag);
}
