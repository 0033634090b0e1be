/* gp.c - the posterior, and the choice of a candidate; see gp.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "gp.h"

#define ROOT_5 2.2360679774997897
#define JITTER 1e-8
#define FEASIBLE_LEAST 1e-9 /* probability */
#define WORK 9e6            /* multiplications that a suggestion may take */
#define LEAST 160.0         /* candidates looked at, whatever they take */
#define MOST 900.0
#define STARTS 5u /* best configurations from which steps are taken */
#define ROUNDS 5u /* of smaller and smaller steps */
#define KEPT 6u   /* of a round, the best */

espl_status
gp_init(struct gp *gp, struct samples *samples, struct espl_error *error)
{
	size_t axes = samples->axis_count + (size_t)1;
	int made;

	memset(gp, 0, sizeof *gp);
	gp->samples = samples;
	gp->features = calloc(GP_SIZE * axes, sizeof *gp->features);
	gp->rows = calloc(GP_SIZE, sizeof *gp->rows);
	gp->losses = calloc(GP_SIZE, sizeof *gp->losses);
	gp->factor = calloc((size_t)GP_SIZE * GP_SIZE, sizeof *gp->factor);
	gp->alpha = calloc(GP_SIZE, sizeof *gp->alpha);
	gp->inverse_scales = calloc(axes, sizeof *gp->inverse_scales);
	gp->points = calloc(GP_CANDIDATES * axes, sizeof *gp->points);
	gp->gains = calloc(GP_CANDIDATES, sizeof *gp->gains);
	gp->order = calloc(GP_CANDIDATES + GP_SIZE, sizeof *gp->order);
	gp->lanes = calloc(2 * (size_t)GP_SIZE * GP_LANES, sizeof *gp->lanes);
	gp->room = calloc(GP_SIZE + GP_LANES * axes + GP_FIT_MAX * axes, sizeof *gp->room);
	made = gp_fit_init(&gp->fit, samples->axis_count) == ESPL_OK;
	return made && gp->features != NULL && gp->rows != NULL && gp->losses != NULL &&
		gp->factor != NULL && gp->alpha != NULL && gp->inverse_scales != NULL &&
		gp->points != NULL && gp->gains != NULL && gp->order != NULL && gp->lanes != NULL &&
		gp->room != NULL
	    ? ESPL_OK
	    : espl_fail(error, ESPL_E_NOMEM, "out of memory");
}

void
gp_free(struct gp *gp)
{
	gp_fit_free(&gp->fit);
	free(gp->features);
	free(gp->rows);
	free(gp->losses);
	free(gp->factor);
	free(gp->alpha);
	if (gp->shortfall != NULL)
		gp_free(gp->shortfall);
	free(gp->shortfall);
	free(gp->inverse_scales);
	free(gp->points);
	free(gp->gains);
	free(gp->order);
	free(gp->lanes);
	free(gp->room);
}

/* ---- the matrix ------------------------------------------------------------------------------ */

double
gp_kernel(double square)
{
	double r = ROOT_5 * sqrt(square);

	return (1 + r + 5.0 / 3 * square) * portable_exp(-r);
}

/* What is off is a label of its own, or the middle of the range. */
void
gp_features(const struct samples *s, const double *point, double *features)
{
	uint32_t a;

	for (a = 0; a < s->axis_count; a++)
		features[a] = !isnan(point[a]) ? point[a] : s->axes[a].labels > 0 ? -1 : 0.5;
}

static double
covariance(const struct gp *gp, const double *x, const double *y)
{
	const struct samples *s = gp->samples;
	double square = 0;
	uint32_t a;

	for (a = 0; a < s->axis_count; a++) {
		double off = x[a] - y[a];

		square += gp->inverse_scales[a] * (s->axes[a].labels > 0 ? off != 0 : off * off);
	}
	return gp->amplitude * gp_kernel(square);
}

/* Row `row` of the factor, from the features of it and of those before.  0: it cannot be. */
static int
factor_row(struct gp *gp, uint32_t row)
{
	size_t axes = gp->samples->axis_count;
	double *at = &gp->factor[(size_t)row * GP_SIZE], sum;
	uint32_t j, k;

	for (j = 0; j < row; j++) {
		const double *other = &gp->factor[(size_t)j * GP_SIZE];

		sum = covariance(gp, &gp->features[row * axes], &gp->features[j * axes]);
		for (k = 0; k < j; k++)
			sum -= at[k] * other[k];
		at[j] = sum / other[j];
	}
	sum = gp->amplitude + gp->noise + JITTER;
	for (k = 0; k < row; k++)
		sum -= at[k] * at[k];
	if (!(sum > 1e-14))
		return 0;
	at[row] = sqrt(sum);
	return 1;
}

/* to: the inverse of the matrix of the first `count` rows, times `values`. */
static void
solve(const struct gp *gp, const double *values, uint32_t count, double *to)
{
	uint32_t i, k;

	for (i = 0; i < count; i++) {
		double sum = values[i];

		for (k = 0; k < i; k++)
			sum -= gp->factor[(size_t)i * GP_SIZE + k] * to[k];
		to[i] = sum / gp->factor[(size_t)i * GP_SIZE + i];
	}
	for (i = count; i-- > 0;) {
		double own = to[i] / gp->factor[(size_t)i * GP_SIZE + i];

		to[i] = own;
		for (k = 0; k < i; k++)
			to[k] -= gp->factor[(size_t)i * GP_SIZE + k] * own;
	}
}

/* ---- bringing it up to date ------------------------------------------------------------------ */

static int
row_order(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* The rows of the model, in the order in which they were told: all, or the best and the latest.
 * Those that did not change keep their rows of the factor. */
static uint32_t
choose_rows(struct gp *gp, uint32_t *rows)
{
	const struct samples *s = gp->samples;
	uint32_t i, k, n = 0;

	if (s->ranked <= GP_ROWS_MAX) {
		memcpy(rows, s->ranking, s->ranked * sizeof *rows);
		n = s->ranked;
	} else {
		for (; n < GP_BEST_MAX; n++)
			rows[n] = s->ranking[n];
		for (i = s->count; i-- > 0 && n < GP_ROWS_MAX;) {
			for (k = 0; k < GP_BEST_MAX && rows[k] != i; k++)
				;
			if (k == GP_BEST_MAX && s->states[i] != ESPL_SAMPLE_PENDING)
				rows[n++] = i;
		}
	}
	qsort(rows, n, sizeof *rows, row_order);
	return n;
}

/* Rows keep the order in which their results came: new ones behind those that are factored. */
static void
take_rows(struct gp *gp)
{
	const struct samples *s = gp->samples;
	size_t axes = s->axis_count;
	uint32_t *wanted = gp->order, i, k, kept = 0, n = choose_rows(gp, wanted);

	for (i = 0; i < gp->count; i++) {
		uint32_t *found = bsearch(&gp->rows[i], wanted, n, sizeof *wanted, row_order);

		if (found == NULL)
			break;
		kept = i + 1;
	}
	if (gp->factored > kept)
		gp->factored = kept;
	gp->count = kept;
	for (i = 0; i < n; i++) {
		for (k = 0; k < kept && gp->rows[k] != wanted[i]; k++)
			;
		if (k < kept)
			continue;
		gp_features(s, samples_row(s, wanted[i]), &gp->features[gp->count * axes]);
		gp->rows[gp->count++] = wanted[i];
	}
}

static int
is_unmet(double loss)
{
	return loss >= ESPL_LOSS_UNMET && isfinite(loss);
}

/* The worst finite loss of all results, not only of those in the model, that meet what is
 * required.  -HUGE_VAL: there is none. */
static double
worst_loss(const struct samples *s)
{
	uint32_t i;

	for (i = s->finite; i > 0; i--)
		if (!is_unmet(s->values[s->ranking[i - 1]]))
			return s->values[s->ranking[i - 1]];
	return -HUGE_VAL;
}

/* Failed configurations have the worst loss.  Those that miss what is required have theirs: the
 * best that meet it often lie at the edge. */
static void
take_losses(struct gp *gp)
{
	const struct samples *s = gp->samples;
	double worst = worst_loss(s);
	uint32_t i;

	gp->unmet = 0;
	for (i = 0; i < gp->count; i++) {
		double loss = s->values[gp->rows[i]];

		gp->losses[i] = loss;
		if (is_unmet(loss)) {
			gp->unmet++;
			gp->losses[i] = isfinite(s->objectives[gp->rows[i]])
			    ? s->objectives[gp->rows[i]]
			    : worst;
		}
	}
	for (i = 0; i < gp->count; i++)
		if (isfinite(gp->losses[i]) && gp->losses[i] > worst)
			worst = gp->losses[i];
	for (i = 0; i < gp->count; i++)
		if (!isfinite(gp->losses[i]))
			gp->losses[i] = worst > -HUGE_VAL ? worst : 0;
	gp_bend(gp->losses, gp->count, gp->room);
}

/* In units of their spread; 0 is the border, and where nothing is known. */
static void
take_shortfalls(struct gp *gp)
{
	const struct samples *s = gp->samples;
	double sum = 0, spread;
	uint32_t i;

	gp->unmet = 0;
	for (i = 0; i < gp->count; i++) {
		double shortfall = s->shortfalls[gp->rows[i]];

		gp->losses[i] = isnan(shortfall) ? 0 : shortfall;
		sum += gp->losses[i] * gp->losses[i];
	}
	spread = sqrt(sum / gp->count);
	for (i = 0; i < gp->count && spread > 0; i++)
		gp->losses[i] /= spread;
}

/* The results that parameters are fitted to: the best ones, and an even choice of the others.
 * Returns how many. */
static uint32_t
choose_fitted(const struct gp *gp, double *features, double *losses)
{
	const struct samples *s = gp->samples;
	size_t axes = s->axis_count;
	uint32_t i, k, n = 0, all = s->ranked, best = all < GP_FIT_BEST ? all : GP_FIT_BEST;
	uint32_t others = all - best;
	uint32_t some = all < GP_FIT_MAX ? others : GP_FIT_MAX - best;

	for (i = 0; i < all; i++) {
		uint64_t at = i - best;

		if (i >= best && (at + 1) * some / others == at * some / others)
			continue;
		for (k = 0; k < gp->count && gp->rows[k] != s->ranking[i]; k++)
			;
		if (k == gp->count)
			continue; /* not in the model */
		memcpy(&features[n * axes], &gp->features[k * axes], axes * sizeof *features);
		losses[n++] = gp->losses[k];
	}
	return n;
}

static void
fit_scales(struct gp *gp)
{
	size_t axes = gp->samples->axis_count;
	uint32_t i, n, all = gp->samples->ranked;

	if (gp->fit.fitted && all < gp->fit.next)
		return;
	n = choose_fitted(gp, gp->room + GP_SIZE, gp->room);
	gp_fit_run(&gp->fit, gp->samples, gp->room + GP_SIZE, gp->room, n);
	gp->fit.next = all + (all / 15 > 1 ? all / 15 : 1);
	gp->factored = 0;
	for (i = 0; i < axes; i++)
		gp->inverse_scales[i] = portable_exp(-2 * gp->fit.at[i]);
	gp->amplitude = portable_exp(gp->fit.at[axes]);
	gp->noise = portable_exp(gp->fit.at[axes + 1]);
}

/* The means at the model's own points: K alpha = losses - (noise + jitter) alpha. */
static double
least_mean(const struct gp *gp, uint32_t count)
{
	const struct samples *s = gp->samples;
	double least = HUGE_VAL, mean;
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (is_unmet(s->values[gp->rows[i]]))
			continue;
		mean = gp->losses[i] - (gp->noise + JITTER) * gp->alpha[i];
		least = mean < least ? mean : least;
	}
	return least;
}

/* A posterior of its own over how much is missing: its length scales have nothing to do with those
 * of the loss. */
static espl_status
update_shortfall(struct gp *gp, struct espl_error *error)
{
	espl_status status;

	if (gp->unmet == 0)
		return ESPL_OK;
	if (gp->shortfall == NULL) {
		gp->shortfall = malloc(sizeof *gp->shortfall);
		if (gp->shortfall == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		status = gp_init(gp->shortfall, gp->samples, error);
		gp->shortfall->is_shortfall = 1;
		if (status != ESPL_OK)
			return status;
	}
	return gp_update(gp->shortfall, error);
}

espl_status
gp_update(struct gp *gp, struct espl_error *error)
{
	uint32_t i;

	ESPL_ASSERT(gp->samples->ranked > 0);
	take_rows(gp);
	if (gp->is_shortfall)
		take_shortfalls(gp);
	else
		take_losses(gp);
	fit_scales(gp);
	for (i = gp->factored; i < gp->count; i++)
		if (!factor_row(gp, i)) {
			gp->noise = gp->noise * 10 + 1e-6; /* once or twice at most */
			if (gp->noise > 1)
				return espl_fail(error, ESPL_E_BUG, "the model has no factor");
			i = UINT32_MAX; /* from the beginning */
		}
	gp->factored = gp->count;
	solve(gp, gp->losses, gp->count, gp->alpha);
	gp->best = least_mean(gp, gp->count);
	return update_shortfall(gp, error);
}

/* Pending configurations get the posterior's mean, one after the other. */
static uint32_t
add_pending(struct gp *gp)
{
	const struct samples *s = gp->samples;
	size_t axes = s->axis_count;
	uint32_t i, count = gp->count, known = gp->count;

	for (i = 0; i < s->pending_count && i < GP_PENDING_MAX; i++) {
		double *features = &gp->features[count * axes];
		uint32_t k;

		gp_features(s, samples_row(s, s->pending[i]), features);
		gp->losses[count] = 0;
		for (k = 0; k < known; k++)
			gp->losses[count] +=
			    covariance(gp, features, &gp->features[k * axes]) * gp->alpha[k];
		if (factor_row(gp, count)) {
			gp->best = fmin(gp->best, gp->losses[count]);
			count++;
		}
	}
	if (count > known)
		solve(gp, gp->losses, count, gp->alpha);
	return count;
}

/* ---- the posterior --------------------------------------------------------------------------- */

/* Of GP_LANES points at once, so that compilers can vectorize. */
static void
predict_lanes(struct gp *gp, const double *features, uint32_t lanes, uint32_t count, double *means,
    double *deviations)
{
	size_t axes = gp->samples->axis_count;
	double squares[GP_LANES] = { 0 };
	uint32_t i, k, l;

	memset(means, 0, GP_LANES * sizeof *means);
	for (i = 0; i < count; i++) {
		double *own = &gp->lanes[(size_t)i * GP_LANES], sums[GP_LANES] = { 0 };
		const double *row = &gp->factor[(size_t)i * GP_SIZE];

		for (l = 0; l < lanes; l++) {
			sums[l] = covariance(gp, &features[l * axes], &gp->features[i * axes]);
			means[l] += sums[l] * gp->alpha[i];
		}
		for (k = 0; k < i; k++) {
			const double *other = &gp->lanes[(size_t)k * GP_LANES];
			double part = row[k];

			for (l = 0; l < GP_LANES; l++)
				sums[l] -= part * other[l];
		}
		for (l = 0; l < GP_LANES; l++) {
			own[l] = sums[l] / row[i];
			squares[l] += own[l] * own[l];
		}
	}
	for (l = 0; l < GP_LANES; l++)
		deviations[l] = sqrt(fmax(gp->amplitude - squares[l], 1e-12));
}

void
gp_predict(struct gp *gp, const double *features, uint32_t count, double *means, double *deviations)
{
	double m[GP_LANES], d[GP_LANES];

	ESPL_ASSERT(count <= GP_LANES);
	predict_lanes(gp, features, count, gp->factored, m, d);
	memcpy(means, m, count * sizeof *means);
	memcpy(deviations, d, count * sizeof *deviations);
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* Without a configuration that meets what is required, one is looked for. */
static double
log_gain(const struct gp *gp, double mean, double deviation)
{
	if (!(gp->best < HUGE_VAL))
		return 0;
	return portable_log_improvement((gp->best - mean) / deviation) + portable_log(deviation);
}

/* Adds the logarithms of the probability that each meets what is required. */
static void
add_feasibility(const struct gp *gp, const double *features, uint32_t lanes, double *gains)
{
	double means[GP_LANES], deviations[GP_LANES];
	uint32_t l;

	gp_predict(gp->shortfall, features, lanes, means, deviations);
	for (l = 0; l < lanes; l++)
		gains[l] +=
		    portable_log(portable_normal(-means[l] / deviations[l]) + FEASIBLE_LEAST);
}

static void
measure_gains(struct gp *gp, uint32_t from, uint32_t until, uint32_t rows)
{
	size_t axes = gp->samples->axis_count;
	double *features = gp->room, means[GP_LANES], deviations[GP_LANES];
	uint32_t l, lanes;

	for (; from < until; from += lanes) {
		lanes = until - from < GP_LANES ? until - from : GP_LANES;
		for (l = 0; l < lanes; l++)
			gp_features(gp->samples, &gp->points[(from + l) * axes],
			    &features[l * axes]);
		predict_lanes(gp, features, lanes, rows, means, deviations);
		for (l = 0; l < lanes; l++)
			gp->gains[from + l] = log_gain(gp, means[l], deviations[l]);
		if (gp->unmet > 0)
			add_feasibility(gp, features, lanes, &gp->gains[from]);
	}
}

/* A step from a point.  Numeric parameters move by about `scale`, choices are resampled, and one
 * move in three of an ordered parameter with levels goes to a neighboring level. */
static espl_status
step_point(struct gp *gp, const double *from, double scale, double *to)
{
	struct samples *s = gp->samples;
	double chance = 1.5 / s->axis_count > 0.35 ? 1.5 / s->axis_count : 0.35;
	uint32_t a, one = (uint32_t)(espl_uniform(s->host) * s->axis_count);

	for (a = 0; a < s->axis_count; a++) {
		const struct samples_axis *axis = &s->axes[a];
		double u = espl_uniform(s->host);

		to[a] = isnan(from[a]) ? samples_draw_axis(s, a) : from[a];
		if (a != one && u >= chance)
			continue;
		if (axis->labels > 0) {
			if (espl_uniform(s->host) < 0.5)
				to[a] = samples_draw_axis(s, a);
			continue;
		}
		if (axis->levels > 1 && espl_uniform(s->host) < 0.3) {
			uint32_t cell = samples_cell(axis, to[a]);
			int up = espl_uniform(s->host) < 0.5;

			if (up ? cell + 1 < axis->levels : cell > 0)
				to[a] = axis->middles[up ? cell + 1 : cell - 1];
			continue;
		}
		to[a] += scale * samples_normal(s->host);
		to[a] = to[a] < 0 ? 0 : to[a] > 1 ? 1 : to[a];
	}
	return samples_decode(s, to, s->configuration);
}

/* Uniform points, and steps from the best configurations. */
static espl_status
first_points(struct gp *gp, uint32_t count)
{
	static const double scales[] = { 0.2, 0.05, 0.01 };
	struct samples *s = gp->samples;
	uint32_t i, starts = s->finite < STARTS ? s->finite : STARTS;
	espl_status status = ESPL_OK;

	for (i = 0; i < count && status == ESPL_OK; i++) {
		double *point = &gp->points[(size_t)i * s->axis_count];

		status = i % 3 == 0 && starts > 0
		    ? step_point(gp, samples_row(s, s->ranking[i / 3 % starts]),
			  scales[i / 3 / starts % 3], point)
		    : samples_uniform(s, point, s->configuration);
	}
	return status;
}

/* The best KEPT of the points to the front. */
static void
keep_best(struct gp *gp, uint32_t count)
{
	size_t axes = gp->samples->axis_count;
	uint32_t i, k;

	for (i = 0; i < KEPT && i < count; i++) {
		uint32_t best = i;
		double gain;

		for (k = i + 1; k < count; k++)
			if (gp->gains[k] > gp->gains[best])
				best = k;
		gain = gp->gains[best];
		gp->gains[best] = gp->gains[i];
		gp->gains[i] = gain;
		for (k = 0; k < axes; k++) {
			double other = gp->points[i * axes + k];

			gp->points[i * axes + k] = gp->points[best * axes + k];
			gp->points[best * axes + k] = other;
		}
	}
}

/* How many candidates can be afforded with so many rows, in all. */
static uint32_t
afford_candidates(const struct gp *gp, uint32_t rows)
{
	double each = 0.5 * rows * rows + (double)rows * (2.0 * gp->samples->axis_count + 40);
	double count = WORK / (each + 1);

	return (uint32_t)(count < LEAST ? LEAST : count > MOST ? MOST : count);
}

static espl_status
search_points(struct gp *gp, uint32_t rows, uint32_t *count)
{
	static const double scales[ROUNDS] = { 0.1, 0.03, 0.01, 0.003, 0.001 };
	struct samples *s = gp->samples;
	uint32_t all = afford_candidates(gp, rows), round, i;
	uint32_t first = all / 2, each = all / 2 / ROUNDS;
	espl_status status = first_points(gp, first);

	*count = first;
	if (status == ESPL_OK)
		measure_gains(gp, 0, first, rows);
	for (round = 0; round < ROUNDS && status == ESPL_OK; round++) {
		keep_best(gp, *count);
		*count = KEPT + each;
		for (i = 0; i < each && status == ESPL_OK; i++)
			status = step_point(gp, &gp->points[(size_t)(i % KEPT) * s->axis_count],
			    scales[round], &gp->points[(size_t)(KEPT + i) * s->axis_count]);
		if (status == ESPL_OK)
			measure_gains(gp, KEPT, *count, rows);
	}
	return status;
}

/* The best that was not tried, or the best. */
static espl_status
choose_point(struct gp *gp, uint32_t count, double *values)
{
	struct samples *s = gp->samples;
	espl_status status = ESPL_OK;
	double most = -HUGE_VAL;
	uint32_t i, a;
	int chosen_tried = 2;

	for (i = 0; i < count && status == ESPL_OK; i++) {
		double *point = &gp->points[(size_t)i * s->axis_count];
		int tried;

		if (chosen_tried == 0 && gp->gains[i] <= most)
			continue;
		for (a = 0; a < s->axis_count; a++)
			if (isnan(point[a]))
				point[a] = 0; /* switched off again when it is decoded */
		status = samples_decode(s, point, s->configuration);
		tried = espl_tried_has(&s->tried, s->configuration);
		if (tried > chosen_tried || (tried == chosen_tried && gp->gains[i] <= most))
			continue;
		most = gp->gains[i];
		chosen_tried = tried;
		if (s->axis_count > 0)
			memcpy(values, s->configuration, s->axis_count * sizeof *values);
	}
	return status;
}

espl_status
gp_suggest(struct gp *gp, double *values, struct espl_error *error)
{
	struct samples *s = gp->samples;
	uint32_t rows, count = 0, i;
	espl_status status = gp_update(gp, error);

	if (status == ESPL_OK)
		status = espl_tried_rest(&s->tried, SAMPLES_REST_MAX, s->rest, &count, error);
	if (status != ESPL_OK)
		return status;
	rows = add_pending(gp);
	for (i = 0; i < count && status == ESPL_OK; i++)
		status = samples_point(s, &s->rest[(size_t)i * s->axis_count],
		    &gp->points[(size_t)i * s->axis_count]);
	if (status == ESPL_OK && count > 0)
		measure_gains(gp, 0, count, rows);
	else if (status == ESPL_OK)
		status = search_points(gp, rows, &count);
	if (status == ESPL_OK)
		status = choose_point(gp, count, values);
	return status == ESPL_OK ? status
				 : espl_fail(error, status, "no configuration could be drawn");
}
