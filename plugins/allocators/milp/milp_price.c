/* milp_price.c - the best sequences of one job at given prices of nodes, and the prices at which
 * the linear relaxation over sequences is optimal. */
#include <math.h>
#include <string.h>
#include "milp_problem.h"

/* ---- sequences ------------------------------------------------------------------------------- */

struct search {
	const struct milp_job *job;
	const double *price;
	uint32_t steps;
	milp_take *take;
	void *ctx;
	double least, missed;
	uint32_t looks;
	double open[MILP_STEPS + 1]; /* profit of the steps from t on, never done */
	double done[MILP_STEPS + 1]; /* the same, done before step t */
	uint8_t choice[MILP_STEPS];
};

static void
descend_step(struct search *s, uint32_t t, double served, double profit)
{
	const struct milp_job *job = s->job;
	uint32_t c, left = s->steps - t;

	if (served >= 1 || left == 0) {
		profit += s->done[t];
		if (profit < s->least)
			return;
		memset(s->choice + t, 0, left);
		s->least = s->take(s->ctx, s->choice, profit, s->least);
		return;
	}
	for (c = 0; c < job->count; c++) {
		double now = served + milp_gain(job, t, c), here, open;

		if (now > 1)
			now = 1;
		here = profit + job->weight * now - s->price[t] * job->width[c];
		open = job->weight * now * (left - 1) + s->open[t + 1];
		if (open > s->done[t + 1])
			open = s->done[t + 1];
		if (here + open >= s->least && s->looks == 0) {
			s->missed = here + open > s->missed ? here + open : s->missed;
		} else if (here + open >= s->least) {
			s->looks--;
			s->choice[t] = (uint8_t)c;
			descend_step(s, t + 1, now, here);
		}
		if (now >= 1)
			return;
	}
}

static void
prepare_search(struct search *s, const struct milp_problem *problem, const struct milp_job *job,
    const double *price)
{
	uint32_t t, c;

	s->job = job;
	s->price = price;
	s->steps = problem->steps;
	s->open[s->steps] = s->done[s->steps] = 0;
	for (t = s->steps; t-- > 0;) {
		double best = -INFINITY;

		for (c = 0; c < job->count; c++) {
			double profit = job->weight * (s->steps - t) * milp_gain(job, t, c) -
			    price[t] * job->width[c];

			if (profit > best)
				best = profit;
		}
		s->open[t] = s->open[t + 1] + best;
		s->done[t] = s->done[t + 1] + job->weight - price[t] * job->width[0];
	}
}

double
allocator_milp_sequences(const struct milp_problem *problem, const struct milp_job *job,
    const double *price, double least, milp_take *take, void *ctx)
{
	struct search s;

	prepare_search(&s, problem, job, price);
	s.take = take;
	s.ctx = ctx;
	s.least = least;
	s.missed = -INFINITY;
	s.looks = MILP_LOOKS;
	descend_step(&s, 0, 0, 0);
	return s.missed;
}

struct best {
	struct milp_seq *seq;
	uint32_t steps;
	int found;
};

static double
keep_best(void *ctx, const uint8_t *choice, double profit, double least)
{
	struct best *best = ctx;

	if (best->found && profit <= best->seq->profit)
		return least;
	memcpy(best->seq->choice, choice, best->steps);
	best->seq->profit = profit;
	best->found = 1;
	return nextafter(profit, INFINITY);
}

int
allocator_milp_best(const struct milp_problem *problem, const struct milp_job *job,
    const double *price, double above, struct milp_seq *seq, double *bound)
{
	struct best best = { seq, problem->steps, 0 };
	double missed = allocator_milp_sequences(problem, job, price, nextafter(above, INFINITY),
	    keep_best, &best);

	if (bound != NULL)
		*bound = missed;
	return best.found;
}

static double
sum_profit(const struct milp_problem *problem, const struct milp_job *job, const double *price,
    const uint8_t *choice)
{
	double profit = allocator_milp_worth(job, choice, problem->steps);
	uint32_t t;

	for (t = 0; t < problem->steps; t++)
		profit -= price[t] * job->width[choice[t]];
	return profit;
}

double
allocator_milp_bound(const struct milp_problem *problem, const double *price)
{
	struct milp_seq best;
	double sum = 0, missed;
	uint32_t i, t;

	for (t = 0; t < problem->steps; t++)
		sum += price[t] * problem->total;
	for (i = 0; i < problem->job_count; i++)
		if (allocator_milp_best(problem, &problem->jobs[i], price, -INFINITY, &best,
			&missed))
			sum += best.profit > missed ? best.profit : missed;
	return sum;
}

/* ---- relaxation ------------------------------------------------------------------------------ */

/* Column generation with a simplex method for many jobs and few steps.
 *
 * Each job's mix sums to 1.  One basic sequence of every job is its key; the basis has `steps`
 * columns besides: further sequences of some jobs, and the unused nodes of some steps.  Replacing a
 * job's key by what is left over from its further sequences leaves a system of `steps` equations,
 * which is small enough to be solved anew at every turn.
 */

#define NOBODY UINT32_MAX
#define PIVOT 1e-9 /* smaller elements are noise */

/* a basic one besides the keys */
struct column {
	uint32_t job; /* NOBODY: unused nodes of `step` */
	uint32_t step;
	double worth;
	uint8_t choice[MILP_STEPS];
};
struct master {
	const struct milp_problem *problem;
	uint32_t steps, zero;
	uint8_t *keys;           /* [job * steps + step] */
	double *worth;           /* of the keys, [job] */
	double room[MILP_STEPS]; /* that the keys leave */
	struct column basic[MILP_STEPS];
	double inverse[MILP_STEPS][MILP_STEPS]; /* [column][step] */
	double price[MILP_STEPS], amount[MILP_STEPS];
};

/* A column in terms of the small system: what it takes beyond its job's key. */
static void
column_direction(const struct master *m, const struct column *column, double *d)
{
	uint32_t t;

	for (t = 0; t < m->steps; t++) {
		if (column->job == NOBODY) {
			d[t] = t == column->step;
		} else {
			const struct milp_job *job = &m->problem->jobs[column->job];

			d[t] = (double)job->width[column->choice[t]] -
			    job->width[m->keys[(size_t)column->job * m->steps + t]];
		}
	}
}

static double
column_advantage(const struct master *m, const struct column *column)
{
	return column->job == NOBODY ? 0 : column->worth - m->worth[column->job];
}

/* Inverts the basis, and from it the prices and amounts.  0: it is singular. */
static int
solve_basis(struct master *m)
{
	double a[MILP_STEPS][2 * MILP_STEPS] = { { 0 } }, d[MILP_STEPS];
	uint32_t n = m->steps, i, j, k;

	for (j = 0; j < n; j++) {
		column_direction(m, &m->basic[j], d);
		for (i = 0; i < n; i++)
			a[i][j] = d[i];
		a[j][n + j] = 1;
	}
	for (j = 0; j < n; j++) {
		uint32_t best = j;

		for (i = j + 1; i < n; i++)
			if (fabs(a[i][j]) > fabs(a[best][j]))
				best = i;
		if (fabs(a[best][j]) < PIVOT)
			return 0;
		for (k = 0; best != j && k < 2 * n; k++) {
			double x = a[j][k];

			a[j][k] = a[best][k];
			a[best][k] = x;
		}
		for (k = 2 * n; k-- > j;)
			a[j][k] /= a[j][j];
		for (i = 0; i < n; i++)
			for (k = 2 * n; i != j && k-- > j;)
				a[i][k] -= a[i][j] * a[j][k];
	}
	for (i = 0; i < n; i++) {
		m->price[i] = m->amount[i] = 0;
		memcpy(m->inverse[i], &a[i][n], n * sizeof a[i][n]);
	}
	for (j = 0; j < n; j++)
		for (i = 0; i < n; i++) {
			m->price[i] += column_advantage(m, &m->basic[j]) * m->inverse[j][i];
			m->amount[j] += m->inverse[j][i] * m->room[i];
		}
	return 1;
}

static double
key_amount(const struct master *m, uint32_t job)
{
	double amount = 1;
	uint32_t j;

	for (j = 0; j < m->steps; j++)
		if (m->basic[j].job == job)
			amount -= m->amount[j];
	return amount;
}

/* Makes a column of the job its key; `at` gets the old key. */
static void
swap_key(struct master *m, uint32_t job, struct column *at)
{
	uint8_t *key = m->keys + (size_t)job * m->steps;
	double worth = m->worth[job];
	uint32_t t;

	for (t = 0; t < m->steps; t++) {
		uint8_t c = key[t];

		m->room[t] += (double)m->problem->jobs[job].width[c] -
		    m->problem->jobs[job].width[at->choice[t]];
		key[t] = at->choice[t];
		at->choice[t] = c;
	}
	m->worth[job] = at->worth;
	at->worth = worth;
}

/* Enters the column into the basis; the one that would become negative first leaves. 0: none does.
 */
static int
enter_column(struct master *m, struct column *in)
{
	double d[MILP_STEPS], y[MILP_STEPS] = { 0 }, least = INFINITY, size = 0;
	uint32_t i, j, out = NOBODY, n = m->steps, key = NOBODY;

	column_direction(m, in, d);
	for (j = 0; j < n; j++)
		for (i = 0; i < n; i++)
			y[j] += m->inverse[j][i] * d[i];
	for (j = 0; j < n; j++) {
		double rise = 0, amount = m->amount[j] > 0 ? m->amount[j] : 0;
		uint32_t job = m->basic[j].job;

		if (y[j] > PIVOT &&
		    (amount / y[j] < least || (amount / y[j] == least && y[j] > size))) {
			least = amount / (size = y[j]);
			out = j;
			key = NOBODY;
		}
		if (job == NOBODY || job == in->job)
			continue;
		for (i = 0; i < n; i++) /* this job's key makes room for its others */
			rise += m->basic[i].job == job ? y[i] : 0;
		amount = key_amount(m, job) > 0 ? key_amount(m, job) : 0;
		if (rise < -PIVOT && y[j] < -PIVOT && amount / -rise < least) {
			least = amount / -rise;
			size = -rise;
			out = j;
			key = job;
		}
	}
	if (in->job != NOBODY) {
		double fall = 1, amount = key_amount(m, in->job) > 0 ? key_amount(m, in->job) : 0;

		for (i = 0; i < n; i++)
			fall -= m->basic[i].job == in->job ? y[i] : 0;
		if (fall > PIVOT && amount / fall < least) {
			/* it becomes the key, the old key is gone */
			swap_key(m, in->job, in);
			return 1;
		}
	}
	if (out == NOBODY)
		return 0;
	if (key != NOBODY)
		swap_key(m, key, &m->basic[out]);
	m->basic[out] = *in;
	return 1;
}

/* One turn: the first job from *from on that has a better sequence, or unused nodes, come in.  0:
 * the prices are optimal. */
static int
improve_basis(struct master *m, uint32_t *from)
{
	uint32_t t, k, count = m->problem->job_count;
	struct column in;

	memset(&in, 0, sizeof in);
	for (t = 0; t < m->steps; t++)
		if (m->price[t] < -1e-12) {
			in.job = NOBODY;
			in.step = t;
			return enter_column(m, &in);
		}
	for (t = 0; t < m->steps; t++)
		m->price[t] = m->price[t] > 0 ? m->price[t] : 0;
	for (k = 0; k < count; k++, *from = *from + 1 < count ? *from + 1 : 0) {
		const struct milp_job *job = &m->problem->jobs[*from];
		struct milp_seq seq;
		double key =
		    sum_profit(m->problem, job, m->price, m->keys + (size_t)*from * m->steps);

		if (!allocator_milp_best(m->problem, job, m->price,
			key + 1e-10 * job->weight * m->steps, &seq, NULL))
			continue;
		in.job = *from;
		in.worth = allocator_milp_worth(job, seq.choice, m->steps);
		memcpy(in.choice, seq.choice, m->steps);
		*from = *from + 1 < count ? *from + 1 : 0;
		return enter_column(m, &in);
	}
	return 0;
}

int
allocator_milp_dual(const struct milp_problem *problem, const uint8_t *start, double *price)
{
	struct master m = { .problem = problem, .steps = problem->steps };
	size_t size = (size_t)problem->job_count * problem->steps;
	uint64_t used[MILP_STEPS], turns = 0, most = 200 + 60 * (uint64_t)problem->job_count;
	uint32_t i, t, from = 0;

	m.keys = malloc(size + 1);
	m.worth = calloc(problem->job_count + 1u, sizeof *m.worth);
	if (m.keys != NULL && m.worth != NULL) {
		memcpy(m.keys, start, size);
		(void)allocator_milp_used(problem, start, used);
		for (t = 0; t < m.steps; t++) {
			m.basic[t].job = NOBODY;
			m.basic[t].step = t;
			m.room[t] = (double)problem->total - (double)used[t];
		}
		for (i = 0; i < problem->job_count; i++)
			m.worth[i] = allocator_milp_worth(&problem->jobs[i],
			    start + (size_t)i * m.steps, m.steps);
		while (solve_basis(&m) && turns++ < most && improve_basis(&m, &from))
			;
		for (t = 0; t < m.steps; t++)
			price[t] = m.price[t] > 0 ? m.price[t] : 0;
	}
	i = m.keys != NULL && m.worth != NULL;
	free(m.keys);
	free(m.worth);
	return (int)i;
}
