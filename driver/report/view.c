/* view.c - keeps the counts of a running search for the displays. */
#include "report/view.h"
#include "report/trial_text.h"

#include <math.h>

#include "base/tick.h"

static const struct espl__inputs *
search_of(const struct espl__view *v, uint64_t trial)
{
	return espl__inputs_of_trial(&v->observer, v->config, trial);
}

double
espl__view_raw(const struct espl__view *v, uint64_t trial, double loss)
{
	return espl__reported_metric(search_of(v, trial), v->config, loss);
}

const char *
espl__view_metric(const struct espl__view *v, uint64_t trial)
{
	const struct espl__inputs *of = search_of(v, trial);

	return of != NULL ? of->config->metric : v->config->metric;
}

const struct espl__space *
espl__view_space(const struct espl__view *v, uint64_t trial)
{
	const struct espl__inputs *of = search_of(v, trial);

	return of != NULL ? of->space : v->space;
}

struct espl__view_group *
espl__view_group_of(struct espl__view *v, uint64_t group)
{
	return espl__map_get(&v->group_map, group);
}

static struct espl__view_group *
group_made(struct espl__view *v, uint64_t id)
{
	struct espl__view_group *g = espl__view_group_of(v, id);

	if (g == NULL) {
		g = espl__alloc(sizeof *g);
		g->id = id;
		g->bracket = g->stage = ESPL_ANY;
		ESPL__GROW(v->groups, v->group_cap, v->group_count + 1);
		v->groups[v->group_count++] = g;
		espl__map_set(&v->group_map, id, g);
	}
	return g;
}

void
espl__view_group_name(const struct espl__view_group *g, char to[48])
{
	unsigned long long experiment = g->id >> ESPL__TRIAL_BITS;
	int used = experiment > 0 ? snprintf(to, 48, "%llu: ", experiment) : 0;
	size_t room = 48 - (size_t)used;

	to += used;
	if (g->stage == ESPL_ANY)
		(void)snprintf(to, room, "group %llu",
		    (unsigned long long)(g->id & ESPL__TRIAL_NUMBER));
	else if (g->bracket == ESPL_ANY || g->brackets <= 1)
		(void)snprintf(to, room, "stage %u", g->stage);
	else
		(void)snprintf(to, room, "bracket %u, stage %u", g->bracket, g->stage);
}

/* The space of all trials; NULL: those of a pool have several. */
static const struct espl_space *
shared_space(const struct espl__view *v)
{
	return v->config->pool || v->space == NULL ? NULL : espl__space_view(v->space);
}

static uint64_t *
counter_of_state(struct espl__view_group *g, espl_trial_state state)
{
	switch (state) {
	case ESPL_TRIAL_WAITING: return &g->waiting;
	case ESPL_TRIAL_RUNNING: return &g->running;
	case ESPL_TRIAL_FAILED: return &g->failed;
	default: return &g->done;
	}
}

static void
on_trial(void *ctx, espl_time now, const struct espl_trial *t)
{
	struct espl__view *v = ctx;
	struct espl__seen_trial *past = espl__seen_trial_of(&v->seen, t->id);
	struct espl__view_group *g = group_made(v, t->group);
	struct espl__view_gang *gang = espl__map_get(&v->gangs, t->id);

	v->now = now;
	v->change = espl__seen_trial_change(past, t);
	/* A promoted trial stays counted as done where it came from. */
	if (past->state != 0 && past->group == t->group)
		(*counter_of_state(g, past->state))--;
	(*counter_of_state(g, t->state))++;
	if (t->budget > g->budget)
		g->budget = t->budget;
	if (gang != NULL) {
		gang->iteration = t->iteration;
		gang->budget = t->budget;
	}
	if (espl__seen_trial_concludes(past, t))
		espl__causes_trial(&v->causes, t, shared_space(v));
	espl__seen_trial_set(past, t);
}

/* The order of the executor: the most iterations first, then the better metric, then the lower
 * number. */
static void
take_best(struct espl__view *v, uint64_t trial, const double *values, uint64_t iteration,
    double loss)
{
	v->better = !v->config->pool && !isnan(loss) &&
	    (v->config->require == NULL ||
		espl__exec_trial_info(v->observer.exec, trial).meets == 1) &&
	    (v->best == ESPL_NONE || iteration > v->best_iteration ||
		(iteration == v->best_iteration &&
		    (loss < v->best_loss || (loss == v->best_loss && trial < v->best))));
	if (!v->better)
		return;
	if (v->best != trial) {
		espl__buf_clear(&v->scratch);
		espl__space_json(espl__view_space(v, trial), values, &v->scratch);
		espl__totals_set(&v->best_params, espl__buf_text(&v->scratch));
	}
	v->best = trial;
	v->best_loss = loss;
	v->best_iteration = iteration;
}

static void
on_report(void *ctx, espl_time now, const struct espl_trial *t, uint64_t iteration, double loss,
    const struct espl__metric *metrics, uint32_t count, struct espl_share share)
{
	struct espl__view *v = ctx;
	struct espl__view_gang *gang = espl__map_get(&v->gangs, t->id);

	(void)metrics, (void)count, (void)share;
	v->now = now;
	espl__seen_trial_of(&v->seen, t->id)->loss = loss;
	if (gang != NULL) {
		gang->iteration = iteration;
		gang->metric = espl__view_raw(v, t->id, loss);
	}
	v->better = 0;
	if (v->config->seeds <= 1 && v->config->confirm == 0)
		take_best(v, t->id, t->values, iteration, loss);
}

static void
on_config(void *ctx, espl_time now, const struct espl__config_report *c)
{
	struct espl__view *v = ctx;
	const struct espl_trial *t =
	    v->observer.exec != NULL ? espl__exec_trial(v->observer.exec, c->shown) : NULL;

	v->now = now;
	if (t != NULL)
		take_best(v, c->shown, t->values, c->iteration, c->loss);
}

static void
on_failure(void *ctx, espl_time now, const struct espl_trial *t)
{
	struct espl__view *v = ctx;

	v->now = now;
	espl__seen_trial_of(&v->seen, t->id)->failed = 1;
}

static void
on_gang(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct espl__view *v = ctx;
	struct espl__view_gang *g = espl__map_get(&v->gangs, trial);

	(void)slots;
	v->now = now;
	if (phase == ESPL__PHASE_ENDED)
		espl__causes_gang(&v->causes, trial, text);
	if (g == NULL && phase != ESPL__PHASE_ENDED) {
		g = espl__alloc(sizeof *g);
		g->trial = trial;
		/* What it reported in an earlier rung, or before the run was taken up again. */
		g->metric = espl__view_raw(v, trial, espl__seen_trial_of(&v->seen, trial)->loss);
		g->previous = v->last;
		*(v->last != NULL ? &v->last->next : &v->first) = g;
		v->last = g;
		v->gang_count++;
		espl__map_set(&v->gangs, trial, g);
	}
	if (g == NULL || (phase == ESPL__PHASE_ENDED && g->gang != gang))
		return; /* the end of a gang that another one has followed already */
	if (phase != ESPL__PHASE_ENDED) {
		if (g->gang != gang || g->budget == 0) {
			g->iteration = g->from =
			    v->observer.exec != NULL && phase == ESPL__PHASE_STARTING
			    ? espl__exec_trial_info(v->observer.exec, trial).restores
			    : espl__seen_trial_of(&v->seen, trial)->iteration;
			g->budget = espl__seen_trial_of(&v->seen, trial)->budget;
		}
		g->gang = gang;
		g->share = share;
		if (phase != ESPL__PHASE_RUNNING) {
			g->before = espl__seen_trial_of(&v->seen, trial)->gpus;
			espl__seen_trial_of(&v->seen, trial)->gpus = (uint16_t)share.gpus;
		}
		g->running = phase != ESPL__PHASE_STARTING;
		return;
	}
	*(g->previous != NULL ? &g->previous->next : &v->first) = g->next;
	*(g->next != NULL ? &g->next->previous : &v->last) = g->previous;
	v->gang_count--;
	(void)espl__map_remove(&v->gangs, trial);
	free(g);
}

static void
on_group(void *ctx, espl_time now, uint64_t group, uint32_t bracket, uint32_t stage, int ended)
{
	struct espl__view *v = ctx;
	struct espl__view_group *g = group_made(v, group);

	v->now = now;
	g->bracket = bracket;
	g->brackets = v->observer.exec != NULL
	    ? espl__exec_brackets(v->observer.exec, group >> ESPL__TRIAL_BITS)
	    : 0;
	g->stage = stage;
	g->ended = ended;
}

void
espl__view_init(struct espl__view *v, const struct espl__run_config *config,
    const struct espl__space *space, int simulated, int replaying)
{
	memset(v, 0, sizeof *v);
	v->config = config;
	v->space = space;
	v->replaying = replaying;
	v->best = ESPL_NONE;
	v->best_loss = NAN;
	v->observer = (struct espl__observer){ .ctx = v,
		.trial = on_trial,
		.report = on_report,
		.config = on_config,
		.failure = on_failure,
		.gang = on_gang,
		.group = on_group };
	espl__totals_init(&v->totals, config, simulated);
}

void
espl__view_free(struct espl__view *v)
{
	struct espl__view_gang *g, *next;
	uint32_t i;

	for (g = v->first; g != NULL; g = next) {
		next = g->next;
		free(g);
	}
	for (i = 0; i < v->group_count; i++)
		free(v->groups[i]);
	free(v->groups);
	espl__map_free(&v->gangs);
	espl__map_free(&v->group_map);
	espl__seen_trials_free(&v->seen);
	free(v->best_params);
	espl__causes_free(&v->causes);
	espl__totals_free(&v->totals);
	espl__buf_free(&v->scratch);
}

void
espl__view_clock(struct espl__view *v, const struct espl__exec *exec)
{
	espl_time now = espl__exec_view(exec).now;

	if (now == v->round_at && v->round_tick != 0)
		return;
	v->round_at = now;
	v->round_tick = espl__tick();
}

void
espl__view_refresh(struct espl__view *v, const struct espl__exec *exec)
{
	struct espl__exec_summary summary;
	const struct espl_trial *best;

	v->exec = exec;
	espl__exec_summary(exec, &summary);
	espl__totals_take(&v->totals, &summary);
	espl__buf_clear(&v->scratch);
	espl__causes_text(&v->causes, shared_space(v), &v->scratch);
	espl__totals_set(&v->totals.causes, espl__buf_text(&v->scratch));
	espl__totals_experiments(&v->totals, exec);
	espl__view_clock(v, exec);
	v->now = summary.now;
	if (!v->totals.simulated && !v->replaying && summary.how == 0) {
		v->now += espl__tick() - v->round_tick;
		espl__totals_pass(&v->totals, (double)(v->now - summary.now) / 1e9);
	}
	if (summary.best == ESPL_NONE) {
		espl__totals_set(&v->totals.best_params, NULL);
		return;
	}
	best = espl__exec_trial(exec, summary.best);
	espl__buf_clear(&v->scratch);
	if (best != NULL)
		espl__space_json(v->space, best->values, &v->scratch);
	espl__totals_set(&v->totals.best_params, best != NULL ? espl__buf_text(&v->scratch) : NULL);
}

void
espl__view_finish(struct espl__view *v, const struct espl__exec_summary *summary)
{
	int64_t before = v->totals.best;

	espl__totals_take(&v->totals, summary);
	if (v->totals.best < 0)
		espl__totals_set(&v->totals.best_params, NULL);
	else if (v->totals.best != before || v->totals.best_params == NULL)
		espl__totals_set(&v->totals.best_params,
		    summary->best == v->best ? v->best_params : NULL);
	v->now = summary->now;
}
