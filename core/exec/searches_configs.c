/* searches_configs.c - configurations and their trials: which belong together, and their states. */
#include "exec/searches_configs.h"

#include <math.h>

#include "base/assert.h"
#include "exec/effects.h"

void
espl__search_seeds_init(struct espl__search *s)
{
	ESPL__CHECK(s, SEARCH);
	s->seeds = s->config->seeds > 1 && s->inputs->jobs == NULL ? s->config->seeds : 1;
	s->configs = &s->trials;
	s->apart = s->seeds > 1 || (s->config->confirm > 0 && s->inputs->jobs == NULL);
	if (!s->apart)
		return;
	espl__trials_init(&s->repeated, s->trials.params);
	s->repeated.search = s;
	s->repeated.mirror = 1;
	s->configs = &s->repeated;
}

void
espl__config_forget_report(struct espl__seed_report *r)
{
	free(r->metrics);
	*r = (struct espl__seed_report){ 0 };
}

void
espl__config_forget(struct espl__seed_reports *r)
{
	for (; r->from < r->count; r->from++)
		espl__config_forget_report(&r->list[r->from]);
	espl__config_forget_report(&r->last);
	free(r->list);
	r->list = NULL;
	r->from = r->count = r->cap = 0;
}

void
espl__search_seeds_free(struct espl__search *s)
{
	if (!s->apart)
		return;
	for (uint64_t i = 0; i < s->configs->trials.count; i++) {
		struct espl__repeats *r = espl__trial_at(s->configs, i)->repeats;

		for (uint32_t k = 0; k < s->seeds; k++)
			espl__config_forget(&r->of[k]);
		free(r->of);
		free(r);
	}
	espl__trials_free(&s->repeated);
}

espl_status
espl__search_seeds_spec(struct espl__search *s, struct espl__diag *diag)
{
	const struct espl_spec *spec = s->experiment.spec;

	ESPL__CHECK(s, SEARCH);
	for (uint32_t b = 0; spec != NULL && b < spec->bracket_count; b++)
		for (uint32_t k = 0; k < spec->brackets[b]->stage_count; k++) {
			/* the executor's own copy (espl__call_spec) */
			struct espl_stage *stage =
			    (struct espl_stage *)(uintptr_t)spec->brackets[b]->stages[k];

			if (stage->trials > ESPL__TRIALS_MAX / s->seeds)
				return espl__fail(diag, ESPL_E_CONFIG,
				    "%u trials of each of %u configurations (experiment.seeds) are "
				    "more than the limit of %u trials",
				    s->seeds, stage->trials, ESPL__TRIALS_MAX);
			stage->trials *= s->seeds;
		}
	return ESPL_OK;
}

struct espl__trial *
espl__config_of(const struct espl__trial *t)
{
	const struct espl__search *s = t->search;

	ESPL__CHECK(s, SEARCH);
	return espl__trial_at(s->configs, s->apart ? t->config : t->pub.id);
}

struct espl__trial *
espl__config_trial(const struct espl__trial *config, uint32_t which)
{
	const struct espl__search *s = config->search;

	ESPL__CHECK(s, SEARCH);
	ESPL__ASSERT(which < s->seeds);
	return espl__trial_at(&s->trials,
	    s->apart ? config->repeats->first + which : config->pub.id);
}

int
espl__trial_is_active(const struct espl__trial *t)
{
	return t->pub.state == ESPL_TRIAL_WAITING || t->pub.state == ESPL_TRIAL_RUNNING;
}

/* One of its trials trains; not one that only makes its last checkpoint again. */
int
espl__config_trains(const struct espl__trial *config)
{
	for (uint32_t i = 0; i < config->search->seeds; i++)
		if (espl__trial_is_active(espl__config_trial(config, i)))
			return 1;
	return 0;
}

const char *
espl__config_name(const struct espl__trial *config, char to[64])
{
	const struct espl__search *s = config->search;
	uint64_t first = espl__trial_uid(espl__config_trial(config, 0));
	char name[48];

	ESPL__CHECK(s, SEARCH);
	if (s->seeds == 1) {
		(void)snprintf(to, 64, "trial %s", espl__trial_name(first, name));
		return to;
	}
	(void)snprintf(to, 64, "trials %s to %llu", espl__trial_name(first, name),
	    (unsigned long long)((first & ESPL__TRIAL_NUMBER) + s->seeds - 1));
	return to;
}

uint64_t
espl__config_shown(const struct espl__trial *config)
{
	ESPL__CHECK(config->search, SEARCH);
	for (uint32_t i = 0; i < config->search->seeds; i++) {
		const struct espl__trial *t = espl__config_trial(config, i);

		if (t->pub.state != ESPL_TRIAL_FAILED)
			return t->pub.id;
	}
	return espl__config_trial(config, 0)->pub.id;
}

uint64_t
espl__search_best(const struct espl__search *s)
{
	const struct espl__trial *best = espl__trial_at(s->configs, s->best);

	ESPL__CHECK(s, SEARCH);
	return best != NULL ? espl__config_shown(best) : ESPL_NONE;
}

double
espl__search_best_spread(const struct espl__search *s, uint32_t *count)
{
	const struct espl__trial *best = espl__trial_at(s->configs, s->best);

	ESPL__CHECK(s, SEARCH);
	*count = best == NULL ? 0 : best->repeats != NULL ? best->repeats->counted : 1;
	return best != NULL && best->repeats != NULL ? best->repeats->spread : NAN;
}

struct espl__trial *
espl__config_starts(struct espl__search *s, uint64_t group, const struct espl_start *start)
{
	struct espl__trial_group *g = espl__group_at(s->configs, group);
	struct espl__trial *config;

	ESPL__CHECK(s, SEARCH);
	ESPL__ASSERT(s->apart && g != NULL);
	if (start->how == ESPL_CONTINUE) {
		config = espl__trial_at(s->configs, start->trial);
		espl__trial_continue(s->configs, config, g);
	} else {
		config = espl__trial_new(s->configs, g, start->values, NULL);
		config->repeats = espl__alloc(sizeof *config->repeats);
		config->repeats->of = espl__alloc(s->seeds * sizeof *config->repeats->of);
		config->repeats->first = s->trials.trials.count;
		config->repeats->spread = NAN;
		config->repeats->share = (struct espl_share){ 1, 1 };
	}
	config->pub.budget = start->budget;
	config->pub.tag = start->tag;
	return config;
}

void
espl__trial_seed_turns(const struct espl__trial *t)
{
	const struct espl__search *s = t->search;
	struct espl__trial *config = s->apart ? espl__config_of(t) : NULL;
	int waiting = 0, running = 0;

	ESPL__CHECK(s, SEARCH);
	if (config == NULL || !espl__trial_is_active(config))
		return;
	for (uint32_t i = 0; i < s->seeds; i++) {
		const struct espl__trial *other = espl__config_trial(config, i);

		waiting |= other->pub.state == ESPL_TRIAL_WAITING;
		running |= other->pub.state == ESPL_TRIAL_RUNNING;
	}
	if (running || waiting)
		espl__trial_state(s->configs, config,
		    running ? ESPL_TRIAL_RUNNING : ESPL_TRIAL_WAITING);
}

void
espl__trial_seed_stops(const struct espl__trial *t)
{
	const struct espl__search *s = t->search;
	struct espl__trial *config = s->apart ? espl__config_of(t) : NULL;

	ESPL__CHECK(s, SEARCH);
	if (config == NULL || !espl__trial_is_active(config) || espl__config_trains(config))
		return;
	config->cut = t->cut;
	espl__trial_state(s->configs, config, ESPL_TRIAL_ENDED);
}
