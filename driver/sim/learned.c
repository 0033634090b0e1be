/* learned.c - observes a run, and draws futures of it. */
#include "sim/learned.h"
#include <math.h>
#include <string.h>
#include <espalier/market.h>
#include "base/assert.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/profile.h"

#define UNSEEN_SLOPE 0.3
enum {
	POINTS_MAX = 512,  /* of a curve; then every second one is dropped */
	TRIALS_MAX = 4096, /* whose curves are kept; then every second new one is */
	SHARES_MAX = 3,    /* on which a trial's iterations were timed */
	SAMPLES_MAX = 64,  /* of each span */
	BEYOND_MOST = 3,   /* times the longest curve: so far losses are told */
	NEAREST = 5        /* trials from which the continuation of a curve is drawn */
};

struct point {
	uint32_t iteration;
	float seconds; /* since the report before; NaN: not timed */
	double loss;
};
struct timed {
	struct espl_share share;
	uint32_t offer, count;
	double sum_s;
};
/* One trial: as it was observed, and in the present future. */
struct course {
	uint64_t trial;
	struct point *points;
	uint32_t count, cap, stride, skipped;
	struct timed timed[SHARES_MAX];
	uint32_t timed_count;
	uint32_t offer;    /* that its processes are on */
	espl_time last_at; /* its processes: last report, or when they ran; NEVER: none */
	uint8_t in_gang;   /* reports of this gang: 0, 1: the next one is timed */
	uint32_t failures; /* attempts that failed */
	uint64_t fail_at;  /* iteration after which the last of them did */
	uint8_t doomed;    /* it failed for good */
	uint64_t last;     /* at which its program was complete; 0 */
	struct espl__metric *metrics;
	uint32_t metric_count;
	double pace; /* its iterations, relative to what the model expects */
	/* in this future */
	uint32_t future; /* that this is of */
	uint32_t donor;  /* of the curve, at `at`; ESPL_ANY: none */
	uint32_t model;  /* of everything else; ESPL_ANY: itself */
	uint64_t at;
	double loss, offset, shift; /* offset: from the donor, at iteration `since` */
	uint64_t since;
	uint8_t fails; /* 1: yes, 2: no */
};
/* of a node */
struct node {
	uint32_t offer;
	espl_node_state state;
	espl_time asked;
};
/* From running ranks to a first report. */
struct warm {
	uint64_t trial;
	struct timed first;
};
struct samples {
	double list[SAMPLES_MAX];
	uint32_t count;
	uint64_t seen;
	struct espl_latency latency;
};
struct offer {
	struct samples provision;
	uint64_t asked, refused;
};

#define ESPL__LEARNED_MAGIC 0x6e72616cu
struct espl__learned {
	uint32_t magic; /* ESPL__LEARNED_MAGIC */
	struct espl__observer observer;
	struct espl__pool courses;
	struct espl__map by_trial; /* -> course */
	struct espl__map gangs;    /* gang -> when it was started, plus 1 */
	struct samples spans[ESPL__SPANS];
	struct warm warm[SAMPLES_MAX];
	uint64_t warm_seen;
	struct node *nodes; /* by number */
	uint64_t node_count, node_cap;
	struct offer *offers;
	uint32_t offer_count, offer_cap;
	struct espl__learned_best *best;
	uint32_t best_count, best_cap;
	struct espl__learned_best *costs; /* of them only `at` and `cost_usd` */
	uint32_t cost_count, cost_cap;
	uint64_t iterations; /* reported */
	/* settled */
	const struct espl__exec *exec;
	uint32_t observed; /* courses; those behind are of a future */
	uint32_t *young;   /* that a new trial may be like, the newest first */
	uint32_t young_count;
	/* trials of which an attempt failed, and whose fate is known; those that failed for good */
	uint32_t failed, doomed;
	double transient;     /* failures an iteration that did not come again */
	struct timed *pooled; /* of all trials, by share and offer */
	uint32_t pooled_count, pooled_cap;
	double noise, mean_s;
	uint32_t paced;  /* trials whose pace is known */
	double error;    /* of their mean, relative */
	double first_sd; /* of losses at the first report */
	/* how the longest curves fell in their second half: as a + slope / iteration, or, where all
	 * losses are above 0, by the factor exp(-slope) when iterations double */
	double slope;
	double least; /* of all losses, a quarter: below it no future goes, if they are above 0 */
	uint8_t positive;
	uint64_t longest;
	/* of this future */
	uint32_t future;
	uint64_t seed;
	double pace;       /* of all trials: the mean is not known exactly */
	uint64_t farthest; /* iteration that was asked for */
	double fall;       /* behind the longest curve, relative to `slope` */
};

/* ---- observing ------------------------------------------------------------------------------- */

static struct course *
course_of(struct espl__learned *l, uint64_t trial)
{
	struct course *c = espl__map_get(&l->by_trial, trial);

	if (c != NULL)
		return c;
	c = espl__pool_add(&l->courses);
	memset(c, 0, sizeof *c);
	c->trial = trial;
	c->stride = 1;
	c->last_at = ESPL_NEVER;
	c->pace = NAN;
	c->donor = c->model = ESPL_ANY;
	espl__map_set(&l->by_trial, trial, c);
	return c;
}

static void
add_sample(struct samples *s, double value)
{
	uint64_t i = s->seen++;

	if (!(value >= 0))
		return;
	if (s->count < SAMPLES_MAX)
		s->list[s->count++] = value;
	else
		s->list[i % SAMPLES_MAX] = value; /* the latest ones */
}

/* A curve keeps at most POINTS_MAX points, evenly spaced. */
static void
add_point(struct espl__learned *l, struct course *c, uint64_t iteration, double loss,
    double seconds)
{
	int kept = l->courses.count <= TRIALS_MAX || (c->trial & 1) == 0;

	if (!kept || iteration > UINT32_MAX)
		return;
	if (++c->skipped < c->stride && c->count > 1) {
		c->points[c->count - 1] =
		    (struct point){ (uint32_t)iteration, (float)seconds, loss };
		return;
	}
	c->skipped = 0;
	if (c->count == POINTS_MAX) {
		for (uint32_t i = 1; i < POINTS_MAX / 2; i++)
			c->points[i] = c->points[2 * i];
		c->count = POINTS_MAX / 2;
		c->stride *= 2;
	}
	ESPL__GROW(c->points, c->cap, c->count + 1);
	c->points[c->count++] = (struct point){ (uint32_t)iteration, (float)seconds, loss };
}

static void
add_time(struct course *c, struct espl_share share, uint32_t offer, double seconds, uint64_t steps)
{
	for (uint32_t i = 0; i < c->timed_count; i++)
		if (c->timed[i].share.gpus == share.gpus &&
		    c->timed[i].share.packing == share.packing && c->timed[i].offer == offer) {
			c->timed[i].count += (uint32_t)steps;
			c->timed[i].sum_s += seconds;
			return;
		}
	if (c->timed_count < SHARES_MAX)
		c->timed[c->timed_count++] =
		    (struct timed){ share, offer, (uint32_t)steps, seconds };
}

static void
take_best(struct espl__learned *l, espl_time now, double loss)
{
	struct espl__exec_summary sum;

	if (!isfinite(loss) || (l->best_count > 0 && !(loss < l->best[l->best_count - 1].loss)))
		return;
	espl__exec_summary(l->observer.exec, &sum); /* knows what counts: experiment.require */
	if (sum.lowest.trial == ESPL_NONE ||
	    (l->best_count > 0 && !(sum.lowest.loss < l->best[l->best_count - 1].loss)))
		return;
	ESPL__GROW(l->best, l->best_cap, l->best_count + 1);
	l->best[l->best_count++] =
	    (struct espl__learned_best){ now, sum.lowest.loss, (double)sum.cost / ESPL_USD };
}

/* What had been spent when; the intervals grow with the run. */
static void
take_cost(struct espl__learned *l, espl_time now)
{
	struct espl__exec_summary sum;

	if (l->cost_count > 0 &&
	    now <
		l->costs[l->cost_count - 1].at + l->costs[l->cost_count - 1].at / 64 + ESPL_SECOND)
		return;
	espl__exec_summary(l->observer.exec, &sum);
	ESPL__GROW(l->costs, l->cost_cap, l->cost_count + 1);
	l->costs[l->cost_count++] =
	    (struct espl__learned_best){ now, NAN, (double)sum.cost / ESPL_USD };
}

static void
on_report(void *ctx, espl_time now, const struct espl_trial *trial, uint64_t iteration, double loss,
    const struct espl__metric *metrics, uint32_t count, struct espl_share share)
{
	struct espl__learned *l = ctx;
	struct course *c = course_of(l, trial->id);
	uint64_t before = c->count > 0 ? c->points[c->count - 1].iteration : 0;
	uint64_t steps = iteration > before ? iteration - before : 1;
	double seconds = c->last_at == ESPL_NEVER ? NAN : (double)(now - c->last_at) / 1e9;

	int timed = c->in_gang == 1 && !isnan(seconds);

	l->iterations += steps;
	if (timed)
		add_time(c, share, c->offer, seconds, steps);
	else if (!isnan(seconds))
		l->warm[l->warm_seen++ % SAMPLES_MAX] =
		    (struct warm){ c->trial, { share, c->offer, (uint32_t)steps, seconds } };
	c->in_gang = 1;
	c->last_at = now;
	add_point(l, c, iteration, loss, timed ? seconds / (double)steps : NAN);
	if (count > c->metric_count)
		c->metrics = espl__realloc(c->metrics, count, sizeof *c->metrics);
	if (count > 0)
		memcpy(c->metrics, metrics, count * sizeof *metrics);
	c->metric_count = count;
	take_best(l, now, loss);
	take_cost(l, now);
}

static void
on_gang(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct espl__learned *l = ctx;
	struct course *c = course_of(l, trial);
	uintptr_t began = (uintptr_t)espl__map_get(&l->gangs, gang);

	if (share.gpus > 0 && slots[0].node < l->node_count)
		c->offer = l->nodes[slots[0].node].offer;
	switch (phase) {
	case ESPL__PHASE_STARTING:
		espl__map_set(&l->gangs, gang, (void *)((uintptr_t)now + 1));
		c->in_gang = 0;
		c->last_at = ESPL_NEVER;
		break;
	case ESPL__PHASE_RUNNING:
		if (began > 0)
			add_sample(&l->spans[ESPL__SPAN_START],
			    (double)(now + 1 - (espl_time)began) / 1e9);
		c->in_gang = 0;
		c->last_at = now;
		break;
	case ESPL__PHASE_RESIZED: /* the pause is not an iteration's */
		c->in_gang = 1;
		c->last_at = ESPL_NEVER;
		break;
	case ESPL__PHASE_ENDED:
		if (c->in_gang && c->last_at != ESPL_NEVER && (text == NULL || text[0] == '\0'))
			add_sample(&l->spans[ESPL__SPAN_SAVE], (double)(now - c->last_at) / 1e9);
		(void)espl__map_remove(&l->gangs, gang);
		c->last_at = ESPL_NEVER;
		break;
	}
}

static void
on_resized(void *ctx, espl_time now, uint64_t gang, double took_s)
{
	struct espl__learned *l = ctx;

	(void)now, (void)gang;
	add_sample(&l->spans[ESPL__SPAN_RESIZE], took_s);
}

static void
on_failure(void *ctx, espl_time now, const struct espl_trial *trial)
{
	struct course *c = course_of(ctx, trial->id);

	(void)now;
	c->failures++;
	c->fail_at = trial->iteration;
}

static void
on_trial(void *ctx, espl_time now, const struct espl_trial *trial)
{
	(void)now;
	if (trial->state == ESPL_TRIAL_FAILED)
		course_of(ctx, trial->id)->doomed = 1;
}

static void
on_node(void *ctx, espl_time now, const struct espl_node *node, const struct espl_offer *offer,
    const char *host, espl_money charged, const char *why)
{
	struct espl__learned *l = ctx;
	struct offer *o;
	struct node *n;

	(void)host, (void)charged, (void)why;
	ESPL__GROW(l->offers, l->offer_cap, offer->number + (size_t)1);
	while (l->offer_count <= offer->number)
		memset(&l->offers[l->offer_count++], 0, sizeof *l->offers);
	ESPL__GROW(l->nodes, l->node_cap, node->id + 1);
	while (l->node_count <= node->id)
		l->nodes[l->node_count++] = (struct node){ ESPL_ANY, 0, 0 };
	o = &l->offers[offer->number];
	n = &l->nodes[node->id];
	if (n->state == 0) {
		o->asked++;
		n->asked = now;
		n->offer = offer->number;
	} else if (node->state == ESPL_NODE_READY && n->state < ESPL_NODE_READY) {
		add_sample(&o->provision, (double)(now - n->asked) / 1e9);
	} else if (node->state == ESPL_NODE_ENDED && n->state == ESPL_NODE_REQUESTED) {
		o->refused++;
	}
	n->state = node->state;
}

struct espl__learned *
espl__learned_new(void)
{
	struct espl__learned *l = espl__alloc(sizeof *l);

	l->magic = ESPL__LEARNED_MAGIC;
	espl__pool_init(&l->courses, sizeof(struct course));
	l->observer = (struct espl__observer){ .ctx = l,
		.trial = on_trial,
		.report = on_report,
		.gang = on_gang,
		.resized = on_resized,
		.failure = on_failure,
		.node = on_node };
	return l;
}

void
espl__learned_free(struct espl__learned *l)
{
	if (l == NULL)
		return;
	ESPL__CHECK(l, LEARNED);
	for (uint64_t i = 0; i < l->courses.count; i++) {
		struct course *c = espl__pool_at(&l->courses, i);

		free(c->points);
		free(c->metrics);
	}
	espl__pool_free(&l->courses);
	espl__map_free(&l->by_trial);
	espl__map_free(&l->gangs);
	free(l->nodes);
	free(l->offers);
	free(l->best);
	free(l->costs);
	free(l->young);
	free(l->pooled);
	l->magic = 0;
	free(l);
}

struct espl__observer *
espl__learned_observer(struct espl__learned *l)
{
	ESPL__CHECK(l, LEARNED);
	return &l->observer;
}

struct espl__learned_best
espl__learned_best(const struct espl__learned *l, espl_time at)
{
	struct espl__learned_best best = { 0, NAN, 0 };

	ESPL__CHECK(l, LEARNED);
	for (uint32_t i = 0; i < l->best_count && l->best[i].at <= at; i++)
		best = l->best[i];
	return best;
}

struct espl__learned_best
espl__learned_first(const struct espl__learned *l)
{
	ESPL__CHECK(l, LEARNED);
	return l->best_count > 0 ? l->best[0] : (struct espl__learned_best){ 0, NAN, 0 };
}

double
espl__learned_cost(const struct espl__learned *l, espl_time at)
{
	double cost = 0;

	ESPL__CHECK(l, LEARNED);
	for (uint32_t i = 0; i < l->cost_count && l->costs[i].at <= at; i++)
		cost = l->costs[i].cost_usd;
	return cost;
}

int
espl__learned_enough(const struct espl__learned *l, int guessed)
{
	ESPL__CHECK(l, LEARNED);
	for (uint64_t i = 0; i < l->courses.count; i++)
		if (((const struct course *)espl__pool_at(&l->courses, i))->timed_count > 0)
			return 1;
	return !guessed;
}

/* ---- what follows from it -------------------------------------------------------------------- */

/* The mean of an iteration of any trial on this share, seconds. */
static double
expected_s(const struct espl__learned *l, uint64_t trial, struct espl_share share, uint32_t offer)
{
	const struct espl_model *model = espl__exec_model(l->exec);
	struct espl_speed_query q = { .size = (uint32_t)sizeof q,
		.offer = offer,
		.experiment = trial >> ESPL__TRIAL_BITS,
		.trial = ESPL_NONE,
		.share = share };
	struct espl_speed speed = ESPL_INIT(struct espl_speed);

	if (model->speed(model, &q, &speed) == ESPL_OK && speed.evidence > ESPL_GUESSED &&
	    speed.iteration_s >= 0 && isfinite(speed.iteration_s))
		return speed.iteration_s;
	for (uint32_t i = 0; i < l->pooled_count; i++)
		if (l->pooled[i].share.gpus == share.gpus &&
		    l->pooled[i].share.packing == share.packing)
			return l->pooled[i].sum_s / l->pooled[i].count;
	return l->mean_s;
}

static void
pool_times(struct espl__learned *l)
{
	double sum = 0, count = 0;

	for (uint32_t i = 0; i < l->observed; i++) {
		const struct course *c = espl__pool_at(&l->courses, i);

		for (uint32_t k = 0; k < c->timed_count; k++) {
			const struct timed *t = &c->timed[k];
			uint32_t at = 0;

			sum += t->sum_s;
			count += t->count;
			while (at < l->pooled_count &&
			    (l->pooled[at].share.gpus != t->share.gpus ||
				l->pooled[at].share.packing != t->share.packing))
				at++;
			ESPL__GROW(l->pooled, l->pooled_cap, at + 1);
			if (at == l->pooled_count)
				l->pooled[l->pooled_count++] =
				    (struct timed){ t->share, t->offer, 0, 0 };
			l->pooled[at].count += t->count;
			l->pooled[at].sum_s += t->sum_s;
		}
	}
	l->mean_s = count > 0 ? sum / count : NAN;
}

/* What is counted of all trials' iterations. */
struct paces {
	double sum, squares;    /* of the logarithms of paces */
	double within, degrees; /* squared deviations from a trial's own mean, relative to it */
	double inverse;         /* of how many iterations each was timed for */
	double iterations;
};

static double
iterations_timed(const struct course *c)
{
	double count = 0;

	for (uint32_t k = 0; k < c->timed_count; k++)
		count += c->timed[k].count;
	return count;
}

static void
measure_pace(const struct espl__learned *l, struct course *c, struct paces *p)
{
	double took = 0, expected = 0, mean = 0, count = 0, square = 0;

	for (uint32_t k = 0; k < c->timed_count; k++) {
		took += c->timed[k].sum_s;
		expected += c->timed[k].count *
		    expected_s(l, c->trial, c->timed[k].share, c->timed[k].offer);
	}
	c->pace = took > 0 && expected > 0 ? took / expected : NAN;
	if (isnan(c->pace))
		return;
	p->sum += log(c->pace);
	p->squares += log(c->pace) * log(c->pace);
	p->inverse += 1 / iterations_timed(c);
	p->iterations += iterations_timed(c);
	for (uint32_t k = 0; k < c->count && c->timed_count == 1; k++)
		if (!isnan(c->points[k].seconds)) {
			double before = mean;

			count++;
			mean += (c->points[k].seconds - mean) / count;
			square += (c->points[k].seconds - before) * (c->points[k].seconds - mean);
		}
	if (count > 1 && mean > 0) {
		p->within += square / (mean * mean);
		p->degrees += count - 1;
	}
}

/* How fast each trial is, and how much that differs between trials and within one.  A trial that
 * was timed for few iterations is drawn to the mean by as much as chance may have moved it. */
static void
settle_paces(struct espl__learned *l)
{
	struct paces p = { 0 };
	double mean, noise, between;

	for (uint32_t i = 0; i < l->observed; i++) {
		struct course *c = espl__pool_at(&l->courses, i);

		measure_pace(l, c, &p);
		l->paced += !isnan(c->pace);
	}
	l->noise = p.degrees > 0 ? fmin(sqrt(p.within / p.degrees), 1.0) : 0;
	if (l->paced == 0)
		return;
	noise = l->noise * l->noise;
	mean = p.sum / l->paced;
	between = l->paced > 1 ? (p.squares - p.sum * mean) / (l->paced - 1) : 0;
	between = fmax(between - noise * p.inverse / l->paced, 0);
	l->error =
	    l->paced > 1 ? sqrt(between / l->paced + noise / p.iterations) : fmax(0.1, l->noise);
	for (uint32_t i = 0; i < l->observed && between + noise > 0; i++) {
		struct course *c = espl__pool_at(&l->courses, i);

		if (!isnan(c->pace))
			c->pace = exp(mean +
			    (log(c->pace) - mean) * between /
				(between + noise / iterations_timed(c)));
	}
}

/* The value at an iteration, between points on a line; NaN before the first and after the last. */
static double
value_at(const struct course *c, uint64_t iteration)
{
	uint32_t low = 0, high = c->count;
	const struct point *p;

	if (c->count == 0 || iteration < c->points[0].iteration ||
	    iteration > c->points[c->count - 1].iteration)
		return NAN;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (c->points[middle].iteration <= iteration)
			low = middle;
		else
			high = middle;
	}
	p = &c->points[low];
	if (p->iteration == iteration || low + 1 == c->count)
		return p->loss;
	return p->loss +
	    (p[1].loss - p->loss) * (double)(iteration - p->iteration) /
	    (double)(p[1].iteration - p->iteration);
}

static uint64_t
reach_of(const struct course *c)
{
	return c->count > 0 ? c->points[c->count - 1].iteration : 0;
}

/* Which trials new ones are like: the younger half, because algorithms learn. */
static void
settle_young(struct espl__learned *l)
{
	double sum = 0, squares = 0;
	uint32_t all = 0, n = 0;

	for (uint32_t i = 0; i < l->observed; i++) {
		const struct course *c = espl__pool_at(&l->courses, i);

		all += c->count > 0 || c->doomed;
	}
	l->young = espl__alloc((all + (size_t)1) * sizeof *l->young);
	for (uint32_t i = l->observed; i > 0 && (n < 20 || n < all / 2); i--) {
		const struct course *c = espl__pool_at(&l->courses, i - 1);

		if (c->count == 0 && !c->doomed)
			continue;
		l->young[n++] = i - 1;
		if (c->count > 0 && isfinite(c->points[0].loss)) {
			sum += c->points[0].loss;
			squares += c->points[0].loss * c->points[0].loss;
		}
	}
	l->young_count = n;
	squares = n > 1 ? (squares - sum * sum / n) / (n - 1) : 0;
	l->first_sd = squares > 0 ? sqrt(squares) : 0;
}

/* What curves do behind the longest that was seen: they fall as those did in their second half. */
static void
settle_slope(struct espl__learned *l)
{
	double sum = 0, least = INFINITY;
	uint32_t count = 0;

	for (uint32_t i = 0; i < l->observed; i++) {
		const struct course *c = espl__pool_at(&l->courses, i);

		l->longest = reach_of(c) > l->longest ? reach_of(c) : l->longest;
		for (uint32_t k = 0; k < c->count; k++)
			least = fmin(least, c->points[k].loss);
	}
	l->positive = isfinite(least) && least > 0;
	l->least = least / 4;
	for (uint32_t i = 0; i < l->observed && l->longest > 1; i++) {
		const struct course *c = espl__pool_at(&l->courses, i);
		double from = (double)((l->longest + 1) / 2), to = (double)reach_of(c);
		double half = value_at(c, (l->longest + 1) / 2), whole = value_at(c, reach_of(c));
		double change = l->positive ? log(half / whole) / log2(to / from)
					    : (half - whole) / (1 / from - 1 / to);

		if (reach_of(c) >= l->longest - l->longest / 8 && isfinite(change)) {
			sum += change;
			count++;
		}
	}
	if (l->longest > 1)
		l->slope = count > 0 && sum > 0 ? sum / count : 0;
	else /* no curve was seen: the order of trials counts, and that they fall at all */
		l->slope = l->positive ? UNSEEN_SLOPE : l->first_sd;
}

static void
settle_failures(struct espl__learned *l)
{
	uint64_t passing = 0;

	for (uint32_t i = 0; i < l->observed; i++) {
		struct course *c = espl__pool_at(&l->courses, i);
		const struct espl_trial *t = espl__exec_trial(l->exec, c->trial);
		const char *word = espl__exec_trial_info(l->exec, c->trial).word;

		if (t != NULL && word != NULL && strcmp(word, "completed") == 0 &&
		    t->iteration < t->budget)
			c->last = t->iteration;
		if (c->failures == 0)
			continue;
		if (c->doomed) {
			l->failed++;
			l->doomed++;
		} else if (reach_of(c) > c->fail_at) {
			l->failed++;
			passing += c->failures;
		}
	}
	l->transient = l->iterations > 0 ? (double)passing / (double)l->iterations : 0;
}

/* What a start takes beside the first iteration, as far as that one's time is known. */
static void
settle_warm(struct espl__learned *l)
{
	for (uint32_t i = 0; i < SAMPLES_MAX && i < l->warm_seen; i++) {
		const struct warm *w = &l->warm[i];
		double pace = course_of(l, w->trial)->pace;
		double iteration_s = expected_s(l, w->trial, w->first.share, w->first.offer) *
		    w->first.count * (isnan(pace) ? 1 : pace);

		if (!isnan(iteration_s))
			add_sample(&l->spans[ESPL__SPAN_WARM],
			    fmax(w->first.sum_s - iteration_s, 0));
	}
}

static void
fill_latency(struct samples *s)
{
	s->latency = (struct espl_latency){ .size = (uint32_t)sizeof s->latency,
		.kind = ESPL_EMPIRICAL,
		.samples_s = s->list,
		.sample_count = s->count };
}

void
espl__learned_settle(struct espl__learned *l, const struct espl__exec *exec)
{
	ESPL__CHECK(l, LEARNED);
	ESPL__ASSERT(l->young == NULL);
	l->exec = exec;
	l->observed = (uint32_t)l->courses.count;
	pool_times(l);
	settle_paces(l);
	settle_young(l);
	settle_slope(l);
	settle_failures(l);
	settle_warm(l);
	for (uint32_t i = 0; i < ESPL__SPANS; i++)
		fill_latency(&l->spans[i]);
	for (uint32_t i = 0; i < l->offer_count; i++)
		fill_latency(&l->offers[i].provision);
}

/* ---- draws ----------------------------------------------------------------------------------- */

enum {
	DRAW_MODEL = 1,
	DRAW_DONOR,
	DRAW_FIRST,
	DRAW_NOISE,
	DRAW_DOOM,
	DRAW_FAIL,
	DRAW_PACE,
	DRAW_FALL,
	DRAW_SHIFT
};

/* No draw depends on the order of events: each follows from what it is for. */
static double
uniform(const struct espl__learned *l, uint64_t id, uint32_t what, uint64_t n)
{
	uint64_t state =
	    espl__mix_bits(espl__mix_bits(espl__mix_bits(l->seed + what) ^ id) + n * 2 + 1);

	return (double)(espl__split_mix(&state) >> 11) * 0x1p-53;
}

static double
normal(const struct espl__learned *l, uint64_t id, uint32_t what, uint64_t n)
{
	double u = uniform(l, id, what, 2 * n), v = uniform(l, id, what, 2 * n + 1);

	return sqrt(-2 * log1p(-u)) * cos(6.283185307179586 * v);
}

void
espl__learned_future(struct espl__learned *l, uint64_t seed)
{
	ESPL__CHECK(l, LEARNED);
	l->future++;
	l->seed = espl__mix_bits(seed + UINT64_C(0x6c6561726e6564));
	l->pace = exp((l->paced > 0 ? l->error : 0.2) * normal(l, 0, DRAW_PACE, 0));
	l->fall = 2 * uniform(l, 0, DRAW_FALL, 0);
}

/* The course of a trial in this future, ready to be continued. */
static struct course *
future_of(struct espl__learned *l, uint64_t trial)
{
	struct course *c = course_of(l, trial), *model;
	const struct espl_trial *t = espl__exec_trial(l->exec, trial);

	if (c->future == l->future)
		return c;
	c->future = l->future;
	c->at = reach_of(c);
	c->loss = c->count > 0 ? c->points[c->count - 1].loss : NAN;
	c->fails = 2;
	if (c->failures > 0 && !c->doomed && reach_of(c) <= c->fail_at)
		c->fails =
		    uniform(l, trial, DRAW_DOOM, 0) * (l->failed + 1.0) < l->doomed + 0.5 ? 1 : 2;
	if (c->count > 0)
		return c;
	if (t != NULL && t->parent != ESPL_NONE) {
		uint64_t parent = (trial >> ESPL__TRIAL_BITS << ESPL__TRIAL_BITS) |
		    (t->parent & ESPL__TRIAL_NUMBER);
		const struct course *from = future_of(l, parent);

		c = course_of(l, trial);
		c->at = t->iteration < from->at ? from->at : t->iteration;
		c->loss = from->loss;
		c->pace = from->pace;
		return c;
	}
	if (l->young_count == 0)
		return c;
	c->model = l->young[(uint32_t)(uniform(l, trial, DRAW_MODEL, 0) * l->young_count)];
	model = espl__pool_at(&l->courses, c->model);
	if (isnan(c->pace))
		c->pace = model->pace;
	if (model->doomed && c->failures == 0) {
		c->fails = 1;
		c->fail_at = model->fail_at;
	}
	return c;
}

/* A trial that was observed beyond this iteration, and was about there before: one of the nearest.
 * ESPL_ANY: none was.  *spacing: how far away the last of these is. */
static uint32_t
draw_donor(const struct espl__learned *l, const struct course *c, uint64_t next, double *spacing)
{
	struct {
		uint32_t course;
		double distance;
	} near[NEAREST];
	uint32_t count = 0;

	for (uint32_t i = 0; i < l->observed && next <= l->longest; i++) {
		const struct course *other = espl__pool_at(&l->courses, i);
		double distance;
		uint32_t k;

		if (other == c || reach_of(other) < next)
			continue;
		distance = fabs(value_at(other, next - 1) - c->loss);
		if (isnan(distance))
			distance =
			    isnan(c->loss) && isnan(value_at(other, next - 1)) ? 0 : INFINITY;
		if (count == NEAREST && !(distance < near[NEAREST - 1].distance))
			continue;
		k = count < NEAREST ? count++ : NEAREST - 1;
		for (; k > 0 && distance < near[k - 1].distance; k--)
			near[k] = near[k - 1];
		near[k].course = i;
		near[k].distance = distance;
	}
	*spacing = count > 1 && isfinite(near[count - 1].distance) ? near[count - 1].distance : 0;
	if (count == 0)
		return ESPL_ANY;
	return near[(uint32_t)(uniform(l, c->trial, DRAW_DONOR, next) * count)].course;
}

/* The first value of a trial that is yet to begin: of the one that it is like, smoothed. */
static void
begin_course(struct espl__learned *l, struct course *c)
{
	const struct course *model =
	    c->model != ESPL_ANY ? espl__pool_at(&l->courses, c->model) : NULL;
	double width = 0.5 * l->first_sd * pow(l->young_count + 1.0, -0.2);

	c->loss = model != NULL && model->count > 0 ? model->points[0].loss : NAN;
	if (isfinite(c->loss))
		c->loss += width * normal(l, c->trial, DRAW_FIRST, 0);
	c->donor = model != NULL && model->count > 0 ? c->model : ESPL_ANY;
	c->at = model != NULL && model->count > 0 ? model->points[0].iteration : 1;
	c->offset = c->donor != ESPL_ANY ? c->loss - model->points[0].loss : 0;
	c->since = c->at;
	c->shift = 0;
}

/* Beyond the longest curve: between as flat as can be and twice as steep as those fell. */
static double
fall_on(const struct espl__learned *l, double loss, uint64_t at)
{
	double from = (double)at, to = from + 1;

	return l->positive ? loss * exp(-l->fall * l->slope * log2(to / from))
			   : loss - l->fall * l->slope * (1 / from - 1 / to);
}

/* As its donor continues.  How it differs from that fades, or else noise of early reports would
 * last; but it is another trial, and differs in the end by about as much as neighbors do. */
static void
step_course(struct espl__learned *l, struct course *c)
{
	uint64_t next = c->at + 1;
	const struct course *donor =
	    c->donor != ESPL_ANY ? espl__pool_at(&l->courses, c->donor) : NULL;
	double spacing;

	if (donor == NULL || reach_of(donor) < next) {
		c->donor = draw_donor(l, c, next, &spacing);
		donor = c->donor != ESPL_ANY ? espl__pool_at(&l->courses, c->donor) : NULL;
		c->since = c->at > 0 ? c->at : 1;
		c->shift = 0.5 * spacing * normal(l, c->trial, DRAW_SHIFT, next);
		c->offset = donor != NULL ? c->loss - value_at(donor, c->at) - c->shift : 0;
		if (isnan(c->offset))
			c->offset = 0;
	}
	if (donor != NULL && donor->points[0].iteration <= next)
		c->loss = value_at(donor, next) + c->shift +
		    c->offset * sqrt((double)c->since / (double)next);
	else if (donor == NULL && c->at > 0)
		c->loss = fall_on(l, c->loss, c->at);
	if (l->positive && c->loss < l->least)
		c->loss = l->least;
	c->at = next;
}

double
espl__learned_loss(struct espl__learned *l, uint64_t trial, uint64_t iteration)
{
	struct course *c = future_of(l, trial);

	ESPL__CHECK(l, LEARNED);
	if (c->at == 0)
		begin_course(l, c);
	while (c->at < iteration)
		step_course(l, c);
	if (iteration > l->farthest)
		l->farthest = iteration;
	return c->loss;
}

int
espl__learned_left_behind(const struct espl__learned *l)
{
	ESPL__CHECK(l, LEARNED);
	return l->farthest > BEYOND_MOST * l->longest;
}

const struct espl__metric *
espl__learned_metrics(struct espl__learned *l, uint64_t trial, uint32_t *count)
{
	struct course *c = future_of(l, trial);

	if (c->metric_count == 0 && c->model != ESPL_ANY)
		c = espl__pool_at(&l->courses, c->model);
	*count = c->metric_count;
	return c->metrics;
}

double
espl__learned_iteration_s(struct espl__learned *l, uint64_t trial, uint64_t iteration,
    struct espl_share share, uint32_t offer)
{
	const struct course *c = future_of(l, trial);
	double pace = isnan(c->pace) ? 1 : c->pace, noise = l->noise;

	pace *= l->pace * expected_s(l, trial, share, offer);
	return pace * exp(noise * normal(l, trial, DRAW_NOISE, iteration) - noise * noise / 2);
}

int
espl__learned_fails(struct espl__learned *l, uint64_t trial, uint32_t attempt, uint64_t iteration)
{
	const struct course *c = future_of(l, trial);

	if (c->fails == 1 && iteration > c->fail_at)
		return 1;
	return uniform(l, trial, DRAW_FAIL, (uint64_t)attempt << 32 | iteration) < l->transient;
}

uint64_t
espl__learned_last(struct espl__learned *l, uint64_t trial)
{
	const struct course *c = future_of(l, trial);

	if (c->model != ESPL_ANY)
		c = espl__pool_at(&l->courses, c->model);
	return c->last > 0 ? c->last : UINT64_MAX;
}

const struct espl_latency *
espl__learned_span(const struct espl__learned *l, enum espl__learned_span span,
    const struct espl_latency *given)
{
	ESPL__CHECK(l, LEARNED);
	return l->spans[span].count > 0 ? &l->spans[span].latency : given;
}

const struct espl_latency *
espl__learned_provision(const struct espl__learned *l, uint32_t offer)
{
	ESPL__CHECK(l, LEARNED);
	return offer < l->offer_count && l->offers[offer].provision.count > 0
	    ? &l->offers[offer].provision.latency
	    : NULL;
}

double
espl__learned_refused(const struct espl__learned *l, uint32_t offer)
{
	ESPL__CHECK(l, LEARNED);
	return offer < l->offer_count && l->offers[offer].asked > 0
	    ? (double)l->offers[offer].refused / (double)(l->offers[offer].asked + 1)
	    : 0;
}

double
espl__learned_hazard(struct espl__learned *l, uint32_t offer, const struct espl_offer *terms)
{
	const struct espl_market *market = espl__exec_market(l->exec);
	struct espl_hazard known = ESPL_INIT(struct espl_hazard);
	double shape, error;

	if (market->hazard(market, offer, &known) != ESPL_OK || isnan(known.rate_hour))
		return terms->hazard_hour;
	if (!(known.hours > 0)) /* taken as given */
		return known.rate_hour;
	/* a gamma distribution of half an event more, about as a lognormal one */
	shape = known.rate_hour * known.hours + 0.5;
	error = sqrt(log1p(1 / shape));
	return shape / known.hours *
	    exp(error * normal(l, offer, DRAW_PACE, 1) - error * error / 2);
}
