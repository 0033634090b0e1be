/* algorithm_hypersched.c - HyperSched (Liaw et al., SoCC 2019): ASHA with a deadline.
 *
 * While there is time, configurations are explored as by ASHA's promotion (rungs.h), each on as few
 * GPUs as possible. As the deadline approaches, no new one starts, and the GPUs that become free go
 * to the best running trials. A trial is widened only if that lets it train further: if the
 * iterations that it could complete in the remaining time on more GPUs, less the pause of the
 * change, exceed those that it will complete where it is.
 *
 * The paper leaves several decisions to a policy. Here a new configuration starts if, before the
 * deadline, it could reach the highest rung reached so far; once it could not, no more start. For
 * the leader (the lowest loss), trials that cannot reach their next rung in time are stopped, the
 * worst first, if widening the leader with their GPUs is worth it. If no trial runs or can be
 * promoted, and there is time, the best trial of the highest rung continues anyway; once a trial
 * has completed, only those continue that can complete, too. The execution model predicts how long
 * iterations and changes take. Where it has no data, the search's own reports are used; while there
 * are none, everything is explored and nothing is widened.
 *
 * Memory: that of the rungs, and 56 bytes for each running trial.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "rungs.h"

enum { TRIALS, ITERATIONS_MIN, ITERATIONS_MAX, ETA, REPEATS };
#define MOST_AT_ONCE 1000000u /* trials in one answer */

static const struct espl_option options[] = {
	{ .name = "trials",
	    .help = "maximum number of configurations; 0: as many as time allows",
	    .type = ESPL_OPT_INT,
	    .fallback = "0",
	    .min = "0",
	    .max = "1000000" },
	SHARED_OPTIONS_CUTS("", "4"),
	ESPL_TRIED_OPTION,
};

/* a trial that trains; its place is the trial's tag */
struct runner {
	uint64_t trial; /* ESPL_NONE: the place is free */
	uint64_t iteration;
	double loss;
	uint32_t rung;  /* for which it trains */
	uint32_t width; /* GPUs that it may have */
	uint32_t next_free;
	uint8_t seen_report; /* it has reported since it started or went on */
	uint8_t stopped;     /* it was told to, and is still there */
	uint16_t zero;
};
struct rank {
	struct espl_score score;
	uint32_t place, zero;
};

#define HYPERSCHED_MAGIC 0x2e550412u

struct hypersched {
	uint32_t magic; /* HYPERSCHED_MAGIC */
	struct shared shared;
	const struct espl_model *model; /* NULL: this host has none */
	const struct espl_experiment *experiment;
	struct rungs rungs;
	struct runner *runners;
	struct rank *ranks; /* [runner_room] */
	uint32_t runner_count, runner_room, free_runner, active;
	uint32_t furthest;     /* rung that somebody has reached */
	uint32_t narrow, wide; /* GPUs of a trial: least, most */
	int closed;            /* no new configuration starts any more */
	double seconds;        /* of iterations on `narrow` GPUs, as reported */
	uint64_t reports;
};

/* ---- making ------------------------------------------------------------------------------- */

static void
destroy(void *self)
{
	struct hypersched *h = self;

	ESPL_ASSERT(h != NULL && h->magic == HYPERSCHED_MAGIC);
	h->magic = 0;
	rungs_free(&h->rungs);
	free(h->runners);
	free(h->ranks);
	shared_free(&h->shared);
	free(h);
}

static espl_status
ask_host(struct hypersched *h, const struct espl_host *host, struct espl_error *error)
{
	h->model = host->service(host, ESPL_MODEL);
	h->experiment = host->service(host, ESPL_EXPERIMENT);
	if (h->experiment == NULL)
		return espl_fail(error, ESPL_E_UNSUPPORTED,
		    "this host does not provide the experiment");
	if (h->experiment->deadline == ESPL_NEVER)
		return espl_hint(error,
		    espl_fail(error, ESPL_E_CONFIG,
			"hypersched needs a deadline, but the experiment has none"),
		    "experiment = { ...; deadline = \"1h\"; };");
	h->narrow = h->experiment->gpus_min > 0 ? h->experiment->gpus_min : 1;
	h->wide = h->experiment->gpus_max > h->narrow ? h->experiment->gpus_max : h->narrow;
	return ESPL_OK;
}

/* ---- time --------------------------------------------------------------------------------- */

/* Seconds of an iteration of a trial (ESPL_NONE: a typical one) on this many GPUs; NaN: unknown. */
static double
iteration_s(const struct hypersched *h, uint64_t trial, uint32_t gpus)
{
	struct espl_speed_query query = ESPL_INIT(struct espl_speed_query);
	struct espl_speed speed = ESPL_INIT(struct espl_speed);

	query.offer = ESPL_ANY;
	query.experiment = h->experiment->id;
	query.trial = trial;
	query.share.gpus = gpus;
	query.share.packing = 1;
	if (h->model != NULL && h->model->speed(h->model, &query, &speed) == ESPL_OK &&
	    speed.iteration_s > 0)
		return speed.iteration_s;
	return gpus == h->narrow && h->reports > 0 ? h->seconds / (double)h->reports : NAN;
}

static struct espl_overheads
read_overheads(const struct hypersched *h)
{
	static const struct espl_overheads none = ESPL_INIT(struct espl_overheads);
	struct espl_overheads o = none;

	if (h->model == NULL ||
	    h->model->overheads(h->model, h->experiment->id, ESPL_ANY, &o) != ESPL_OK)
		return none;
	return o;
}

static double
left_s(const struct hypersched *h, espl_time now)
{
	return now < h->experiment->deadline ? espl_seconds(h->experiment->deadline - now) : 0.0;
}

/* Time for a trial at `from` iterations to reach `until` on this many GPUs, including its start; 0:
 * unknown. */
static double
time_to(const struct hypersched *h, uint64_t trial, uint64_t from, uint64_t until, uint32_t gpus)
{
	double seconds = iteration_s(h, trial, gpus);

	return isnan(seconds) || until <= from
	    ? 0.0
	    : read_overheads(h).start_s + (double)(until - from) * seconds;
}

/* Even the first trial could not reach the first rung in time: do not start it. */
static espl_status
check_time(const struct hypersched *h, struct espl_error *error)
{
	uint64_t first = h->rungs.rungs[0].until;
	double need = time_to(h, ESPL_NONE, 0, first, h->narrow),
	       deadline = espl_seconds(h->experiment->deadline);

	if (need <= deadline)
		return ESPL_OK;
	return espl_hint(error,
	    espl_fail(error, ESPL_E_INFEASIBLE,
		"no trial can report before the deadline of %.6g s; a start and %llu iteration%s "
		"on %u GPU%s take %.6g s",
		deadline, (unsigned long long)first, first == 1 ? "" : "s", h->narrow,
		h->narrow == 1 ? "" : "s", need),
	    "set experiment.deadline to at least %.10g s%s", ceil(need * 1e3 - 1e-6) / 1e3,
	    first > 1 ? ", or lower iterations_min" : "");
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct hypersched *h = calloc(1, sizeof *h);
	uint64_t first = (uint64_t)config->values[ITERATIONS_MIN].as.i;
	uint64_t last = (uint64_t)config->values[ITERATIONS_MAX].as.i;
	espl_status status;

	if (h == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	h->magic = HYPERSCHED_MAGIC;
	h->free_runner = ESPL_ANY;
	status = shared_check_range(first, last, ITERATIONS_MIN, error);
	if (status == ESPL_OK)
		status = ask_host(h, host, error);
	if (status == ESPL_OK)
		status = shared_init(&h->shared, host, (uint64_t)config->values[TRIALS].as.i,
		    TRIALS, espl_tried_repeats(host, &config->values[REPEATS]), error);
	if (status == ESPL_OK)
		status = rungs_init(&h->rungs, first, last, (uint64_t)config->values[ETA].as.i, 0,
		    error);
	if (status == ESPL_OK)
		status = check_time(h, error);
	if (status != ESPL_OK) {
		destroy(h);
		return status;
	}
	*self = h;
	return ESPL_OK;
}

/* ---- runners ------------------------------------------------------------------------------ */

/* Reserves room for this many more trials before any of them is added: half an answer cannot be
 * undone.
 */
static espl_status
reserve_runners(struct hypersched *h, uint64_t more, struct espl_error *error)
{
	uint64_t room = h->runner_count + more;
	struct runner *runners;
	struct rank *ranks;

	if (room <= h->runner_room)
		return ESPL_OK;
	room += room / 2;
	runners = room < UINT32_MAX ? realloc(h->runners, (size_t)room * sizeof *runners) : NULL;
	if (runners != NULL)
		h->runners = runners;
	ranks = runners != NULL ? realloc(h->ranks, (size_t)room * sizeof *ranks) : NULL;
	if (ranks == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory for %llu trials",
		    (unsigned long long)room);
	h->ranks = ranks;
	h->runner_room = (uint32_t)room;
	return ESPL_OK;
}

static uint32_t
take_place(struct hypersched *h)
{
	uint32_t place = h->free_runner;

	if (place != ESPL_ANY) {
		h->free_runner = h->runners[place].next_free;
		return place;
	}
	ESPL_ASSERT(h->runner_count < h->runner_room);
	h->runners[h->runner_count].trial = ESPL_NONE;
	return h->runner_count++;
}

static void
give_back(struct hypersched *h, uint32_t place)
{
	ESPL_ASSERT(place < h->runner_count);
	h->runners[place].trial = ESPL_NONE;
	h->runners[place].next_free = h->free_runner;
	h->free_runner = place;
}

static struct runner *
runner_of(struct hypersched *h, const struct espl_trial *trial)
{
	struct runner *r = trial->tag < h->runner_count ? &h->runners[trial->tag] : NULL;

	return r != NULL && r->trial == trial->id ? r : NULL;
}

static espl_status
on_report(void *self, const struct espl_trial *trial, const struct espl_observation *seen,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct hypersched *h = self;
	struct runner *r = runner_of(h, trial);

	ESPL_ASSERT(h != NULL && h->magic == HYPERSCHED_MAGIC);
	(void)sink;
	(void)error;
	if (r == NULL)
		return ESPL_OK;
	r->loss = seen->loss;
	r->iteration = seen->iteration;
	r->seen_report = 1;
	if (seen->share.gpus == h->narrow && seen->share.packing <= 1 && seen->iteration_s > 0) {
		h->seconds += seen->iteration_s;
		h->reports++;
	}
	return ESPL_OK;
}

static espl_status
on_trial_end(void *self, const struct espl_trial *trial, espl_end how,
    struct espl_search_sink *sink, struct espl_error *error)
{
	struct hypersched *h = self;
	struct runner *r = runner_of(h, trial);
	double loss = how == ESPL_END_FAILED ? NAN : trial->loss;
	uint32_t rung;
	espl_status status = ESPL_OK;

	ESPL_ASSERT(h != NULL && h->magic == HYPERSCHED_MAGIC);
	if (r == NULL)
		return ESPL_OK;
	ESPL_ASSERT(h->active > 0);
	rung = r->rung;
	give_back(h, (uint32_t)trial->tag);
	h->active--;
	if (how == ESPL_END_STOPPED || how == ESPL_END_PAUSED)
		return ESPL_OK; /* it has reached no rung */
	if (how != ESPL_END_FAILED && rung > h->furthest)
		h->furthest = rung;
	status =
	    rungs_record(&h->rungs, rung, trial->id, loss, how == ESPL_END_BUDGET, NULL, error);
	if (status == ESPL_OK && how == ESPL_END_BUDGET && isnan(loss))
		status = sink->drop(sink, trial->id); /* no rank brings it back */
	return status;
}

/* ---- work --------------------------------------------------------------------------------- */

static espl_status
add_trial(struct hypersched *h, struct espl_start *start, uint32_t rung,
    struct espl_search_sink *sink)
{
	uint64_t trial = ESPL_NONE, from = 0;
	uint32_t place = take_place(h);
	espl_status status;

	ESPL_ASSERT(rung < h->rungs.count);
	if (start->how == ESPL_CONTINUE && rung > 0)
		from = h->rungs.rungs[rung - 1].until;
	start->budget = h->rungs.rungs[rung].until;
	start->tag = place;
	start->gpus_min = start->gpus_max = h->narrow;
	status = sink->add(sink, h->shared.group, start, &trial);
	if (status != ESPL_OK) {
		give_back(h, place);
		return status;
	}
	h->runners[place] = (struct runner){ .trial = trial,
		.iteration = from,
		.loss = NAN,
		.rung = rung,
		.width = h->narrow };
	h->active++;
	return ESPL_OK;
}

/* Is there time for a start and an iteration? */
static int
has_time(const struct hypersched *h, uint64_t trial, double left)
{
	return left > 0 && time_to(h, trial, 0, 1, h->wide) <= left;
}

/* ASHA's promotion.  *done: one went on. */
static espl_status
promote_next(struct hypersched *h, double left, struct espl_search_sink *sink, int *done)
{
	struct espl_start start = ESPL_INIT(struct espl_start);
	uint32_t rung;

	start.how = ESPL_CONTINUE;
	*done = rungs_peek(&h->rungs, &start.trial, &rung) && has_time(h, start.trial, left) &&
	    rungs_promote(&h->rungs, &start.trial, &rung);
	return *done ? add_trial(h, &start, rung + 1, sink) : ESPL_OK;
}

/* No trial is running and none is in the best 1/eta: the best of the highest rung continues while
 * there is time. Once a trial has trained to the end, shorter ones do not count: continue only if
 * there is time to reach the end. */
static espl_status
force_best(struct hypersched *h, double left, struct espl_search_sink *sink)
{
	struct espl_start start = ESPL_INIT(struct espl_start);
	const struct rungs_rung *rungs = h->rungs.rungs;
	uint32_t rung;
	double loss;

	start.how = ESPL_CONTINUE;
	if (!rungs_rest(&h->rungs, &start.trial, &rung, &loss) || !has_time(h, start.trial, left))
		return ESPL_OK;
	if (rungs_ended(&h->rungs) &&
	    time_to(h, start.trial, rungs[rung].until, rungs[h->rungs.count - 1].until, h->wide) >
		left)
		return ESPL_OK;
	(void)rungs_force(&h->rungs, &start.trial, &rung);
	return add_trial(h, &start, rung + 1, sink);
}

/* Whether a configuration that starts now could reach the highest rung reached so far. Asks to be
 * woken when it no longer could. */
static espl_status
look_at_time(struct hypersched *h, const struct espl_search_view *view,
    struct espl_search_sink *sink)
{
	double need = time_to(h, ESPL_NONE, 0, h->rungs.rungs[h->furthest].until, h->narrow);
	double left = left_s(h, view->now);

	if (h->closed || (h->shared.trials > 0 && h->shared.added == h->shared.trials) ||
	    left < need || left <= 0) {
		h->closed = 1;
		return ESPL_OK;
	}
	return sink->wake_at(sink, view->now + (espl_span)((left - need) * 1e9) + 1);
}

static espl_status
add_new(struct hypersched *h, struct espl_search_sink *sink, struct espl_error *error)
{
	struct espl_start start = ESPL_INIT(struct espl_start);
	espl_status status = shared_values(&h->shared, NULL, NULL, &start.values, error);

	start.how = ESPL_FRESH;
	if (status == ESPL_OK)
		status = add_trial(h, &start, 0, sink);
	if (status == ESPL_OK)
		shared_count(&h->shared);
	if (status == ESPL_E_LIMIT) {
		shared_exhausted(&h->shared);
		h->closed = 1;
		return ESPL_OK;
	}
	if (h->shared.trials > 0 && h->shared.added == h->shared.trials)
		h->closed = 1;
	return status;
}

/* ---- the last stretch --------------------------------------------------------------------- */

/* The width, of up to `room` additional GPUs, with which a trial gets furthest in the remaining
 * time: its present one unless another makes up for the pause of the change. */
static uint32_t
best_width(const struct hypersched *h, const struct runner *r, uint32_t room, double left)
{
	struct espl_overheads o = read_overheads(h);
	double usable = left - o.resize_s - o.boundary_s, most,
	       now = iteration_s(h, r->trial, r->width);
	uint32_t width, best = r->width;

	if (isnan(now))
		return best;
	most = left / now;
	for (width = r->width + 1; width <= h->wide && width - r->width <= room; width++) {
		double seconds = iteration_s(h, r->trial, width);

		if (!isnan(seconds) && usable / seconds > most) {
			most = usable / seconds;
			best = width;
		}
	}
	return best;
}

/* Whether it cannot reach its rung in time. A trial that has not reported yet gets that chance. */
static int
is_lost(const struct hypersched *h, const struct runner *r, double left)
{
	double seconds = iteration_s(h, r->trial, r->width);

	return r->seen_report && !isnan(seconds) &&
	    (double)(h->rungs.rungs[r->rung].until - r->iteration) * seconds > left;
}

/* Frees more GPUs for the leader: those of trials that will not reach their rung, the worst first.
 */
static espl_status
free_for_leader(struct hypersched *h, uint32_t count, uint32_t wanted, uint32_t *room, double left,
    struct espl_search_sink *sink)
{
	espl_status status = ESPL_OK;
	uint32_t i;

	for (i = count; i-- > 1 && *room < wanted && status == ESPL_OK;) {
		struct runner *r = &h->runners[h->ranks[i].place];

		if (!is_lost(h, r, left))
			continue;
		status = sink->verdict(sink, r->trial, ESPL_STOP);
		r->stopped = 1;
		*room += r->width;
	}
	return status;
}

static espl_status
concentrate_gpus(struct hypersched *h, const struct espl_search_view *view,
    struct espl_search_sink *sink)
{
	double left = left_s(h, view->now);
	uint32_t i, count = 0, used = 0, lost = 0, room, width;
	espl_status status = ESPL_OK;

	for (i = 0; i < h->runner_count; i++) {
		const struct runner *r = &h->runners[i];

		if (r->trial == ESPL_NONE || r->stopped)
			continue;
		h->ranks[count++] = (struct rank){ { r->loss, r->trial }, i, 0 };
		used += r->width;
	}
	if (count == 0)
		return ESPL_OK;
	qsort(h->ranks, count, sizeof *h->ranks, espl_score_order);
	for (i = 1; i < count; i++)
		lost += is_lost(h, &h->runners[h->ranks[i].place], left)
		    ? h->runners[h->ranks[i].place].width
		    : 0;
	room = view->gpus > used ? view->gpus - used : 0;
	for (i = 0; i < count && status == ESPL_OK; i++) {
		struct runner *r = &h->runners[h->ranks[i].place];

		if (r->stopped)
			continue;
		width = best_width(h, r, i == 0 ? room + lost : room, left);
		if (width == r->width)
			continue;
		if (width - r->width > room)
			status = free_for_leader(h, count, width - r->width, &room, left, sink);
		ESPL_ASSERT(status != ESPL_OK || width - r->width <= room);
		room -= width - r->width;
		r->width = width;
		if (status == ESPL_OK)
			status = sink->hint(sink, r->trial, 1.0, 0, width);
	}
	return status;
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct hypersched *h = self;
	uint64_t want = view->want;
	double left = left_s(h, view->now);
	espl_status status = ESPL_OK;
	int done = 0;

	ESPL_ASSERT(h != NULL && h->magic == HYPERSCHED_MAGIC);
	/* some trial must ask for GPUs, or none will ever be leased */
	if (want == 0 && h->active == 0)
		want = 1;
	status = reserve_runners(h, want < MOST_AT_ONCE ? want + 1 : MOST_AT_ONCE, error);
	if (want >= MOST_AT_ONCE)
		want = MOST_AT_ONCE - 1;
	if (status == ESPL_OK)
		status = espl_tried_reserve(&h->shared.tried, want + 1, error);
	if (status == ESPL_OK)
		status = shared_begin(&h->shared, 0, sink);
	if (status == ESPL_OK)
		status = look_at_time(h, view, sink);
	for (; want > 0 && status == ESPL_OK; want--) {
		status = promote_next(h, left, sink, &done);
		if (status == ESPL_OK && !done && !h->closed) {
			status = add_new(h, sink, error);
			done = 1;
		}
		if (!done)
			break;
	}
	if (status == ESPL_OK && h->closed && h->active == 0)
		status = force_best(h, left, sink);
	if (status == ESPL_OK && h->closed && h->active == 0)
		return sink->finish(sink);
	if (status == ESPL_OK && h->closed)
		status = concentrate_gpus(h, view, sink);
	return status == ESPL_OK ? status
				 : espl_fail(error, status, "trial %llu was rejected",
				       (unsigned long long)h->shared.added);
}

static const struct espl_algorithm_ops ops = {
	ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group,
	.on_report = on_report,
	.on_trial_end = on_trial_end,
};

ESPL_PLUGIN(algorithm, hypersched) = {
	ESPL_HEAD(ESPL_ALGORITHM, "hypersched"),
	.version = "0.1",
	.summary =
	    "ASHA with a deadline: as it nears, stop exploring and give the best trials more GPUs",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
