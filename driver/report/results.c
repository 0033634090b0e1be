/* results.c - writes results.db as events occur.
 *
 * Rows are inserted through prepared statements inside one transaction that is committed every 200
 * ms or 10,000 rows. It is never synced to the disk: the journal is.
 */
#include "base/assert.h"
#include "report/results.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/tick.h"
#include "report/results_impl.h"
#include "model/fleet.h"

#define COMMIT_NS INT64_C(200000000)
#define COMMIT_ROWS 10000u

static void
write_totals(struct espl__results *r)
{
	const struct espl__total_field *f;
	const char *at;
	uint32_t i;

	for (i = 0; i < espl__total_field_count; i++) {
		f = &espl__total_fields[i];
		at = (const char *)&r->totals + f->offset;
		if (!espl__total_applies(&r->totals, f))
			continue;
		if (f->type == ESPL__TOTAL_TEXT)
			espl__results_put(r, PUT_META, "tt", f->name,
			    *(char *const *)(const void *)at);
		else if (f->type == ESPL__TOTAL_INT)
			espl__results_put(r, PUT_META, "ti", f->name,
			    *(const int64_t *)(const void *)at);
		else
			espl__results_put(r, PUT_META, "tr", f->name,
			    *(const double *)(const void *)at);
	}
}

/* The wall clock at the run's time jct_s: while nothing happens nothing is written, but readers can
 * compute the run's time. NULL: the run's clock is stopped. */
static void
write_clock(struct espl__results *r, int goes_on)
{
	struct timespec utc = { 0, 0 };
	double at = NAN;

	if (r->setup.simulated)
		return;
	if (goes_on && r->now_tick != 0 && clock_gettime(CLOCK_REALTIME, &utc) == 0)
		at = (double)utc.tv_sec + (double)utc.tv_nsec / 1e9 -
		    (double)(espl__tick() - r->now_tick) / 1e9;
	espl__results_put(r, PUT_META, "tr", "jct_utc_s", at);
}

static const struct espl__space *
space_of(const struct espl__results *r, uint64_t trial)
{
	const struct espl__inputs *of = espl__inputs_of_trial(&r->observer, r->setup.config, trial);

	return of != NULL ? of->space : r->setup.space;
}

/* The space of all trials; NULL: those of a pool have several. */
static const struct espl_space *
shared_space(const struct espl__results *r)
{
	return r->setup.config->pool || r->setup.space == NULL ? NULL
							       : espl__space_view(r->setup.space);
}

static void
refresh_totals(struct espl__results *r, const struct espl__exec *exec)
{
	struct espl__exec_summary summary;
	const struct espl_trial *best;
	int64_t before = r->totals.best;

	espl__exec_summary(exec, &summary);
	espl__totals_take(&r->totals, &summary);
	espl__buf_clear(&r->text);
	espl__causes_text(&r->causes, shared_space(r), &r->text);
	espl__totals_set(&r->totals.causes, espl__buf_text(&r->text));
	espl__totals_experiments(&r->totals, exec);
	espl__results_experiments(r, exec);
	espl__results_jobs(r, exec);
	if (r->totals.best < 0) {
		espl__totals_set(&r->totals.best_params, NULL);
	} else if (r->totals.best != before) {
		best = espl__exec_trial(exec, (uint64_t)r->totals.best);
		espl__buf_clear(&r->text);
		if (best != NULL)
			espl__space_json(space_of(r, best->id), best->values, &r->text);
		espl__totals_set(&r->totals.best_params,
		    best != NULL ? espl__buf_text(&r->text) : NULL);
	}
}

/* ---- what the executor tells ---------------------------------------------------------------- */

static double
raw_metric(const struct espl__results *r, uint64_t trial, double loss)
{
	return espl__reported_metric(espl__inputs_of_trial(&r->observer, r->setup.config, trial),
	    r->setup.config, loss);
}

/* NONE: not known, or nothing is required. */
static uint64_t
feasible(const struct espl__results *r, uint64_t trial)
{
	int meets =
	    r->observer.exec != NULL ? espl__exec_trial_info(r->observer.exec, trial).meets : -1;

	return meets < 0 ? ESPL_NONE : (uint64_t)meets;
}

static void
on_trial(void *ctx, espl_time now, const struct espl_trial *t)
{
	struct espl__results *r = ctx;
	enum espl__trial_change change;
	const char *state = espl__trial_state_word(&r->observer, t);
	uint64_t checkpoint = t->checkpoint != 0 ? t->checkpoint : ESPL_NONE;
	double metric = raw_metric(r, t->id, t->loss), cost = (double)t->spent / 1e6;
	struct espl__seen_trial *past;

	if (r->db == NULL)
		return;
	espl__results_begin(r);
	past = espl__seen_trial_of(&r->seen, t->id);
	change = espl__seen_trial_change(past, t);
	if (past->state == 0) {
		if ((t->id & ESPL__TRIAL_NUMBER) == 0)
			espl__results_space(r, t->id >> ESPL__TRIAL_BITS, space_of(r, t->id));
		espl__buf_clear(&r->text);
		espl__space_json(space_of(r, t->id), t->values, &r->text);
		espl__results_put(r, PUT_TRIAL, "nnnntiinrrrrtn", t->id, t->parent, t->tag,
		    t->group, state, (int64_t)t->iteration, (int64_t)t->budget, checkpoint, metric,
		    t->gpu_s, cost, espl__results_s(now), espl__buf_text(&r->text),
		    feasible(r, t->id));
	} else {
		espl__results_put(r, SET_TRIAL, "nnntiinrrrrn", t->id, t->tag, t->group, state,
		    (int64_t)t->iteration, (int64_t)t->budget, checkpoint, metric, t->gpu_s, cost,
		    espl__results_s(now), feasible(r, t->id));
	}
	if (espl__seen_trial_concludes(past, t))
		espl__causes_trial(&r->causes, t, shared_space(r));
	if (t->state != past->state)
		espl__results_job(r, now, t, past->state == 0);
	if (change != ESPL__CHANGE_NONE)
		espl__results_put(r, PUT_DECISION, "rntnii", espl__results_s(now), t->id,
		    espl__change_word(change, state), t->group, (int64_t)t->iteration,
		    (int64_t)t->budget);
	espl__seen_trial_set(past, t);
}

/* The history of the best value of all reports, by the executor's rule. */
static void
put_improvement(struct espl__results *r, espl_time now, uint64_t trial, uint64_t iteration,
    double loss)
{
	uint64_t search = trial >> ESPL__TRIAL_BITS;

	ESPL__GROW(r->lowest, r->lowest_cap, search + 1);
	for (; r->lowest_count <= search; r->lowest_count++)
		espl__lowest_init(&r->lowest[r->lowest_count]);
	if (espl__lowest_take(&r->lowest[search], now, trial, iteration, loss))
		espl__results_put(r, PUT_IMPROVEMENT, "nirr", trial, (int64_t)iteration,
		    espl__results_s(now), raw_metric(r, trial, loss));
}

static void
on_report(void *ctx, espl_time now, const struct espl_trial *t, uint64_t iteration, double loss,
    const struct espl__metric *metrics, uint32_t count, struct espl_share share)
{
	struct espl__results *r = ctx;
	const struct espl__inputs *of = espl__inputs_of_trial(&r->observer, r->setup.config, t->id);
	const struct espl__run_config *c = of != NULL ? of->config : r->setup.config;
	uint32_t i,
	    objective = of != NULL
	    ? espl__names_find(espl__exec_view(r->observer.exec).metrics, of->config->metric)
	    : 0;

	espl__results_begin(r);
	espl__results_put(r, PUT_REPORT, "nirrii", t->id, (int64_t)iteration, espl__results_s(now),
	    raw_metric(r, t->id, loss), (int64_t)share.gpus, (int64_t)share.packing);
	if (c->seeds <= 1 && c->confirm == 0 && /* else of configurations: on_config */
	    (of == NULL || of->requirements == NULL || feasible(r, t->id) == 1))
		put_improvement(r, now, t->id, iteration, loss);
	for (i = 0; i < count; i++) {
		if (metrics[i].metric == objective)
			continue; /* reports.metric */
		espl__results_put(r, PUT_METRIC, "niir", t->id, (int64_t)iteration,
		    (int64_t)metrics[i].metric, metrics[i].value);
	}
}

static void
on_config(void *ctx, espl_time now, const struct espl__config_report *c)
{
	struct espl__results *r = ctx;
	const struct espl__inputs *of =
	    espl__inputs_of_trial(&r->observer, r->setup.config, c->first);

	espl__results_begin(r);
	if (c->seeds > 1)
		espl__results_put(r, PUT_CONFIGURATION, "nniiirr", c->number, c->first,
		    (int64_t)c->seeds, (int64_t)c->counted, (int64_t)c->iteration,
		    raw_metric(r, c->first, c->loss), c->spread);
	if (of == NULL || of->requirements == NULL || feasible(r, c->shown) == 1)
		put_improvement(r, now, c->shown, c->iteration, c->loss);
}

static void
on_failure(void *ctx, espl_time now, const struct espl_trial *t)
{
	struct espl__results *r = ctx;

	(void)now;
	espl__results_begin(r);
	espl__results_put(r, FAIL_GANG, "n", t->id);
	espl__seen_trial_of(&r->seen, t->id)->failed = 1;
}

static void
on_gang(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct espl__results *r = ctx;
	uint32_t i;

	espl__results_begin(r);
	if (r->db == NULL)
		return;
	if (phase == ESPL__PHASE_STARTING || phase == ESPL__PHASE_RESIZED) {
		espl__buf_clear(&r->text);
		for (i = 0; slots != NULL && i < share.gpus; i++)
			espl__print(&r->text, "%s[%llu, %u]", i == 0 ? "[" : ", ",
			    (unsigned long long)slots[i].node, slots[i].gpu);
		espl__print(&r->text, i == 0 ? "[]" : "]");
		if (phase == ESPL__PHASE_RESIZED)
			espl__results_put(r, MOVE_GANG, "niit", gang, (int64_t)share.gpus,
			    (int64_t)share.packing, espl__buf_text(&r->text));
		else
			espl__results_put(r, PUT_GANG, "nniittri", gang, trial, (int64_t)share.gpus,
			    (int64_t)share.packing, espl__buf_text(&r->text),
			    espl__phase_word(phase), espl__results_s(now),
			    r->observer.exec != NULL
				? (int64_t)espl__exec_trial_info(r->observer.exec, trial).restores
				: (int64_t)0);
		return;
	}
	if (phase == ESPL__PHASE_ENDED) {
		espl__causes_gang(&r->causes, trial, text);
		ESPL__GROW(r->used, r->used_cap, r->used_count + 1);
		r->used[r->used_count++] = trial;
	}
	espl__results_put(r, SET_GANG, "ntrrt", gang, espl__phase_word(phase),
	    phase == ESPL__PHASE_RUNNING ? espl__results_s(now) : NAN,
	    phase == ESPL__PHASE_ENDED ? espl__results_s(now) : NAN,
	    text != NULL && text[0] != '\0' ? text : NULL);
}

static void
on_resized(void *ctx, espl_time now, uint64_t gang, double took_s)
{
	struct espl__results *r = ctx;

	espl__results_begin(r);
	espl__results_put(r, PUT_MOVE, "nrr", gang, espl__results_s(now), took_s);
}

static void
on_node(void *ctx, espl_time now, const struct espl_node *node, const struct espl_offer *offer,
    const char *host, espl_money charged, const char *why)
{
	struct espl__results *r = ctx;

	espl__results_begin(r);
	if (node->id >= r->charged_count) {
		ESPL__GROW(r->charged, r->charged_cap, node->id + 1);
		memset(r->charged + r->charged_count, 0,
		    (node->id + 1 - r->charged_count) * sizeof *r->charged);
		r->charged_count = node->id + 1;
	}
	espl__results_put(r, PUT_NODE, "nttitrrrrrrrrtt", node->id,
	    offer != NULL ? offer->name : NULL, offer != NULL ? offer->market : NULL,
	    (int64_t)(node->gpu_count != 0 || offer == NULL ? node->gpu_count : offer->gpus),
	    espl__node_state_word(node->state), espl__results_s(now),
	    node->state == ESPL_NODE_BOOTING ? espl__results_s(now) : NAN,
	    node->state == ESPL_NODE_READY ? espl__results_s(now) : NAN,
	    node->state == ESPL_NODE_NOTICE ? espl__results_s(now) : NAN,
	    node->state == ESPL_NODE_ENDED ? espl__results_s(now) : NAN,
	    espl__results_s(node->billed_from),
	    offer != NULL ? (double)offer->price_hour / 1e6 : NAN, (double)charged / 1e6,
	    why != NULL && why[0] != '\0' ? why : NULL, host);
	if (charged != r->charged[node->id])
		espl__results_put(r, PUT_CHARGE, "nrr", node->id, espl__results_s(now),
		    (double)(charged - r->charged[node->id]) / 1e6);
	r->charged[node->id] = charged;
}

static void
on_machine(void *ctx, espl_time now, const struct espl__health *h, const struct espl_offer *offer)
{
	struct espl__results *r = ctx;
	char name[40];

	espl__results_begin(r);
	(void)snprintf(name, sizeof name, "node %llu", (unsigned long long)h->lease);
	espl__results_put(r, PUT_MACHINE, "tttntirrrt", offer->name, offer->market,
	    h->machine != NULL ? h->machine : name, h->lease, espl__health_word(h, now),
	    (int64_t)h->failures, espl__results_s(h->reported_at), espl__results_s(h->failed_at),
	    espl__results_s(h->avoid_until), h->why);
}

static void
on_group(void *ctx, espl_time now, uint64_t group, uint32_t bracket, uint32_t stage, int ended)
{
	struct espl__results *r = ctx;
	uint64_t experiment = group >> ESPL__TRIAL_BITS;
	uint32_t brackets =
	    r->observer.exec != NULL ? espl__exec_brackets(r->observer.exec, experiment) : 0;
	char key[48];

	espl__results_begin(r);
	/* the later ones may be long to come, but names are to stay */
	if (brackets > 1) {
		(void)snprintf(key, sizeof key, experiment > 0 ? "brackets/%llu" : "brackets",
		    (unsigned long long)experiment);
		espl__results_put(r, PUT_META, "ti", key, (int64_t)brackets);
	}
	if (ended)
		espl__results_put(r, END_GROUP, "nr", group, espl__results_s(now));
	else
		espl__results_put(r, PUT_GROUP, "nnnr", group,
		    bracket == ESPL_ANY ? ESPL_NONE : (uint64_t)bracket,
		    stage == ESPL_ANY ? ESPL_NONE : (uint64_t)stage, espl__results_s(now));
}

/* The stages are written when there is an executor to ask what they are made of. */
static void
on_plan(void *ctx, espl_time now, const struct espl__forecast_stage *stages, uint32_t count,
    const struct espl__forecast_result *result, const struct espl_plan *plan)
{
	struct espl__results *r = ctx;
	double at = espl__results_s(now);

	espl__results_begin(r);
	espl__results_put(r, PUT_PREDICTION, "irrrrrrrrir", r->plans, at, at + result->jct_s.mean,
	    result->jct_s.sd, at + result->jct_s.p95, result->cost_usd.mean, result->cost_usd.sd,
	    result->cost_usd.p95, result->data_usd,
	    (int64_t)((plan->flags & ESPL_PLAN_OPTIMAL) != 0), plan->gap);
	ESPL__GROW(r->planned, r->planned_cap, r->planned_count + count);
	for (uint32_t i = 0; i < count; i++)
		r->planned[r->planned_count++] =
		    (struct planned){ stages[i], r->plans, isnan(result->jct_s.mean) ? NAN : at };
	r->plans++;
}

static void
on_note(void *ctx, espl_time now, const char *who, espl_subject subject, uint64_t id,
    const char *text)
{
	static const char *const names[] = { "?", "run", "trial", "item", "group", "node",
		"offer" };
	struct espl__results *r = ctx;

	espl__results_begin(r);
	espl__results_put(r, PUT_NOTE, "rttnt", espl__results_s(now), who != NULL ? who : "",
	    names[subject <= ESPL_ABOUT_OFFER ? subject : 0],
	    subject == ESPL_ABOUT_RUN ? ESPL_NONE : id, text != NULL ? text : "");
}

static void
on_trial_note(void *ctx, espl_time now, const struct espl_trial *t, const char *key,
    const char *text)
{
	struct espl__results *r = ctx;

	espl__results_begin(r);
	espl__results_put(r, PUT_TRIAL_NOTE, "ntrt", t->id, key, espl__results_s(now), text);
}

/* ---- life ----------------------------------------------------------------------------------- */

struct espl__results *
espl__results_open(const struct espl__results_setup *setup)
{
	struct espl__results *r = espl__alloc(sizeof *r);
	const char *path;

	r->magic = ESPL__RESULTS_MAGIC;
	r->setup = *setup;
	r->observer = (struct espl__observer){ .ctx = r,
		.trial = on_trial,
		.report = on_report,
		.failure = on_failure,
		.config = on_config,
		.gang = on_gang,
		.resized = on_resized,
		.node = on_node,
		.machine = on_machine,
		.group = on_group,
		.plan = on_plan,
		.experiment = espl__results_experiment,
		.note = on_note,
		.trial_note = on_trial_note };
	espl__totals_init(&r->totals, setup->config, setup->simulated);
	r->path = espl__format("%s/results.db", setup->dir);
	r->fresh = espl__format("%s/results.db.new", setup->dir);
	path = setup->replaying ? r->fresh : r->path;
	espl__results_db_remove(path, 1);
	if (espl__results_db_open(r, path, 1) < 0) {
		espl__results_give_up(r, r->db != NULL ? sqlite3_errmsg(r->db) : "out of memory");
	} else {
		espl__results_begin(r);
		write_totals(r);
		espl__results_put(r, PUT_META, "tt", "goal",
		    setup->config->maximize ? "maximize" : "minimize");
		if (!setup->config->pool) /* its experiments have one each */
			espl__results_put(r, PUT_META, "tt", "algorithm",
			    setup->config->algorithm.use);
		espl__results_put(r, PUT_META, "tt", "allocator", setup->config->allocator.use);
		espl__results_put(r, PUT_META, "tt", "cloud", setup->config->cloud.use);
		espl__results_put(r, PUT_META, "tt", "placer", setup->config->placer.use);
		espl__results_put(r, PUT_META, "ti", "seed", (int64_t)setup->config->seed);
		if (!setup->replaying)
			espl__results_commit(r);
	}
	return r;
}

struct espl__observer *
espl__results_observer(struct espl__results *r)
{
	ESPL__CHECK(r, RESULTS);
	return &r->observer;
}

static void
learn_names(struct espl__results *r, const struct espl__exec *exec)
{
	const struct espl__names *names = espl__exec_view(exec).metrics;

	if (r->names < names->count)
		espl__results_begin(r);
	for (; r->names < names->count; r->names++)
		espl__results_put(r, PUT_NAME, "it", (int64_t)r->names, names->names[r->names]);
}

static void
learn_plan(struct espl__results *r, const struct espl__exec *exec)
{
	struct espl__exec_plan_info info;

	if (r->planned_count == 0)
		return;
	espl__results_begin(r);
	espl__exec_plan_info(exec, &info);
	for (uint32_t i = 0; i < r->planned_count; i++) {
		const struct espl__forecast_stage *s = &r->planned[i].stage;
		const struct espl_stage *stage = info.spec->brackets[s->bracket]->stages[s->stage];
		const struct espl_offer *offer = espl__exec_offer(exec, s->offer);
		double at = r->planned[i].at_s;

		espl__results_put(r, PUT_PLAN, "iiiiiiiitrrri", r->planned[i].plan,
		    (int64_t)s->bracket, (int64_t)s->stage, (int64_t)stage->trials,
		    (int64_t)stage->iterations, (int64_t)s->gpus, (int64_t)s->gpus_per_trial,
		    (int64_t)s->nodes, offer != NULL ? offer->name : NULL, at + s->starts_s,
		    at + s->ends_s, isnan(at) ? NAN : s->cost_usd, (int64_t)s->warm);
	}
	r->planned_count = 0;
}

/* The use of a gang is added up when it has ended, after the last report about the trial. */
static void
learn_usage(struct espl__results *r, const struct espl__exec *exec)
{
	const struct espl_trial *t;
	uint32_t i;

	for (i = 0; i < r->used_count; i++) {
		t = espl__exec_trial(exec, r->used[i]);
		if (t != NULL)
			espl__results_put(r, SET_USAGE, "nrr", r->used[i], t->gpu_s,
			    (double)t->spent / 1e6);
	}
	r->used_count = 0;
}

void
espl__results_tick(struct espl__results *r, const struct espl__exec *exec)
{
	const struct espl__exec_view run = espl__exec_view(exec);

	ESPL__CHECK(r, RESULTS);
	if (r->db == NULL)
		return;
	if (run.now != r->now || r->now_tick == 0) {
		if (r->now_tick == 0) /* the first round, perhaps of a resumed run */
			espl__results_begin(r);
		r->now = run.now;
		r->now_tick = r->setup.simulated ? 1 : espl__tick();
	}
	learn_names(r, exec);
	learn_usage(r, exec);
	learn_plan(r, exec);
	if (r->open &&
	    (r->rows >= COMMIT_ROWS || espl__tick() - r->begun >= COMMIT_NS || run.ended)) {
		refresh_totals(r, exec);
		write_totals(r);
		write_clock(r, !run.ended);
		espl__results_commit(r);
	}
}

void
espl__results_live(struct espl__results *r, const struct espl__exec *exec)
{
	if (!r->setup.replaying)
		return;
	r->setup.replaying = 0;
	if (r->db == NULL)
		return;
	espl__results_begin(r);
	learn_names(r, exec);
	learn_usage(r, exec);
	learn_plan(r, exec);
	refresh_totals(r, exec);
	write_totals(r);
	espl__results_commit(r);
	if (r->db == NULL)
		return;
	espl__results_db_close(r);
	espl__results_db_remove(r->path, 0);
	if (rename(r->fresh, r->path) < 0) {
		espl__log(ESPL_WARN, "cannot rebuild results.db: %s", strerror(errno));
		(void)unlink(r->fresh);
	} else if (espl__results_db_open(r, r->path, 0) < 0) {
		espl__results_give_up(r, r->db != NULL ? sqlite3_errmsg(r->db) : "out of memory");
	}
}

void
espl__results_close(struct espl__results *r, const struct espl__totals *last)
{
	if (r == NULL)
		return;
	if (r->setup.replaying && r->db != NULL) {
		/* The replay failed, or another process drives the run: keep the old file. */
		espl__results_db_close(r);
		(void)unlink(r->fresh);
	}
	if (r->db != NULL && last != NULL) {
		struct espl__totals own = r->totals;

		r->totals = *last; /* lent for the moment */
		espl__results_begin(r);
		write_totals(r);
		write_clock(r, 0);
		r->totals = own;
	}
	espl__results_commit(r);
	/* Make it a single file again, which can be read from a read-only directory too; SQLite
	 * refuses while there is a reader, which is harmless. */
	if (r->db != NULL)
		(void)espl__results_sql(r, "PRAGMA journal_mode = DELETE");
	espl__results_db_close(r);
	espl__totals_free(&r->totals);
	espl__buf_free(&r->text);
	espl__seen_trials_free(&r->seen);
	free(r->charged);
	free(r->lowest);
	espl__causes_free(&r->causes);
	free(r->used);
	free(r->planned);
	free(r->path);
	free(r->fresh);
	r->magic = 0;
	free(r);
}
