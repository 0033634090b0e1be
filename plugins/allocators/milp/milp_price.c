/* milp_price.c - depth-first search over one job's sequences (milp_price.h). */
#include "milp_price.h"
#include <math.h>
#include <string.h>

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

double
allocator_milp_profit(const struct milp_problem *problem, const struct milp_job *job,
    const double *price, const uint8_t *choice)
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
