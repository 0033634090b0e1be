/* milp_exact.c - the best plan, proven: prices, then all plans that lose little at them. */
#include <math.h>
#include <string.h>
#include <espalier/kit/array.h>
#include "milp_problem.h"

/* ---- core ------------------------------------------------------------------------------------ */

/* The best plan among those that lose little at given prices.
 *
 * At prices with the bound UB, a sequence loses what its profit lacks to its job's best, an unused
 * node its price, and a plan is worth UB less all its losses.  So plans within a loss R consist of
 * sequences of at most that loss, which are few if R is small: dynamic programming finds the best
 * of them, or that there is none.
 *
 * Jobs that may be done within the horizon are taken one after the other; a state is what they took
 * in each step so far and the least loss with which that can be had.  The others are knapsacks
 * (milp_steps.c), which also tell how much a state must lose yet: given the least and the most that
 * the jobs still to come can take in a step, the smallest loss in that window of the step's table.
 */

#define NO_STATE UINT32_MAX
#define FEW 16u  /* states and sequences kept once the effort is spent */
#define CELLS 8u /* of a table are filled in the time of a step of work */

enum milp_core_result { MILP_CORE_NOMEM = -1, MILP_CORE_NONE, MILP_CORE_FOUND };
struct milp_core {
	const struct milp_problem *problem;
	const double *price; /* [steps] */
	double radius;       /* R: of the loss */
	uint64_t effort;     /* steps of work, after which few states are kept */
	uint64_t spent;      /* out: steps of work */
	uint32_t states;     /* kept at most at a time */
	uint32_t cut;        /* out: 1: some were dropped, nothing is proven */
	uint8_t *choice;     /* out, where FOUND: [job * steps + step] */
};

struct option {
	uint8_t choice[MILP_STEPS];
	double loss;
};
/* a job that may be done, with its sequences */
struct member {
	uint32_t job, count, room, zero;
	struct option *options; /* by rising loss */
	uint32_t least[MILP_STEPS], most[MILP_STEPS];
};
struct origin {
	uint32_t state, option;
}; /* of a state: in the level before, and by what */
struct level {
	struct origin *origins;
	uint32_t count;
};
/* of one level */
struct states {
	uint32_t count, room;
	uint32_t *used;       /* [state * steps + step] */
	double *loss, *score; /* score: what it must lose at least in the end */
	struct origin *origins;
};
struct search {
	struct milp_core *core;
	const struct milp_problem *problem;
	uint32_t steps, count, room, nomem;
	double top;     /* profit of the job whose sequences are listed */
	uint64_t spent; /* steps of work so far */
	struct member *members;
	struct level *levels; /* [count + 1] */
	struct milp_steps rest;
	double *window;  /* [step * (total + 1) + used] */
	uint32_t *queue; /* [total + 1] */
	struct states now, next;
	uint32_t *hash;
	uint32_t hash_size;
};

/* ---- the sequences ------------------------------------------------------------------------ */

static double
take_sequence(void *ctx, const uint8_t *choice, double profit, double least)
{
	struct search *s = ctx;
	struct member *m = &s->members[s->count];
	struct option *options;

	s->spent++;
	if (m->count >= s->core->states || s->spent >= s->core->effort) {
		s->core->cut = 1;
		return INFINITY;
	}
	options = espl_array_grow(m->options, &m->room, m->count + 1, sizeof *options);
	if (options == NULL) {
		s->nomem = 1;
		return INFINITY;
	}
	m->options = options;
	memcpy(m->options[m->count].choice, choice, s->steps);
	m->options[m->count++].loss = s->top > profit ? s->top - profit : 0;
	return least;
}

static int
by_loss(const void *a, const void *b)
{
	const struct option *x = a, *y = b;

	return x->loss != y->loss ? (x->loss > y->loss) - (x->loss < y->loss)
				  : memcmp(x->choice, y->choice, sizeof x->choice);
}

static int
by_count(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return x->count != y->count ? (x->count > y->count) - (x->count < y->count)
				    : (x->job > y->job) - (x->job < y->job);
}

static void
find_limits(const struct search *s, struct member *m)
{
	const struct milp_job *job = &s->problem->jobs[m->job];
	uint32_t i, t;

	for (t = 0; t < s->steps; t++) {
		m->least[t] = UINT32_MAX;
		m->most[t] = 0;
		for (i = 0; i < m->count; i++) {
			uint32_t width = job->width[m->options[i].choice[t]];

			m->least[t] = width < m->least[t] ? width : m->least[t];
			m->most[t] = width > m->most[t] ? width : m->most[t];
		}
	}
}

/* Every job becomes a member or goes to the knapsacks.  0: out of memory. */
static int
list_sequences(struct search *s)
{
	const struct milp_problem *problem = s->problem;
	uint32_t i;

	s->members = calloc(problem->job_count + 1u, sizeof *s->members);
	if (s->members == NULL)
		return 0;
	s->room = problem->job_count + 1;
	for (i = 0; i < problem->job_count; i++) {
		const struct milp_job *job = &problem->jobs[i];
		struct milp_seq best;
		double missed;

		if (allocator_milp_steps_fits(problem, job, s->core->price, s->core->radius)) {
			if (!allocator_milp_steps_add(&s->rest, i))
				return 0;
			continue;
		}
		(void)allocator_milp_best(problem, job, s->core->price, -INFINITY, &best, &missed);
		s->top = best.profit;
		s->members[s->count].job = i;
		if (allocator_milp_sequences(problem, job, s->core->price,
			best.profit - s->core->radius, take_sequence, s) > -INFINITY ||
		    missed > best.profit)
			s->core->cut = 1;
		if (s->nomem)
			return 0;
		if (s->members[s->count].count > 0)
			qsort(s->members[s->count].options, s->members[s->count].count,
			    sizeof(struct option), by_loss);
		find_limits(s, &s->members[s->count]);
		s->count++;
	}
	qsort(s->members, s->count, sizeof *s->members, by_count);
	s->spent += s->rest.count * s->steps * (problem->total + UINT64_C(1)) / CELLS;
	return allocator_milp_steps_fill(&s->rest, problem, s->core->price, s->core->radius);
}

/* ---- what a state must lose yet ----------------------------------------------------------- */

/* For every used[t]: the least of the step's table over what can be left when the members from
 * `from` on have taken theirs. */
static void
look_ahead(struct search *s, uint32_t from)
{
	uint32_t total = s->problem->total, t, i, u;

	s->spent += s->steps * (total + UINT64_C(1)) / CELLS;
	for (t = 0; t < s->steps; t++) {
		const double *table = s->rest.step[t].table;
		double *window = s->window + (size_t)t * (total + 1u);
		uint64_t least = 0, most = 0;
		uint32_t head = 0, tail = 0, next = 0;

		for (i = from; i < s->count; i++) {
			least += s->members[i].least[t];
			most += s->members[i].most[t];
		}
		/* The window is [left - most, left - least]; it slides up as `left` does. */
		for (u = 0; u <= total; u++) {
			while (next + least <= u) {
				while (tail > head && table[s->queue[tail - 1]] >= table[next])
					tail--;
				s->queue[tail++] = next++;
			}
			while (head < tail && s->queue[head] + most < u)
				head++;
			window[total - u] = head < tail ? table[s->queue[head]] : INFINITY;
		}
	}
}

static double
must_lose(const struct search *s, const uint32_t *used)
{
	double sum = 0;
	uint32_t t;

	for (t = 0; t < s->steps; t++)
		sum += s->window[(size_t)t * (s->problem->total + 1u) + used[t]];
	return sum;
}

/* ---- states ------------------------------------------------------------------------------- */

static int
states_room(struct states *states, uint32_t steps, uint32_t count)
{
	uint32_t room = states->room > 0 ? states->room : 64;
	void *more;

	if (count <= states->room)
		return 1;
	while (room < count)
		room *= 2;
	if ((more = realloc(states->used, (size_t)room * steps * sizeof *states->used)) == NULL)
		return 0;
	states->used = more;
	if ((more = realloc(states->loss, room * sizeof *states->loss)) == NULL)
		return 0;
	states->loss = more;
	if ((more = realloc(states->score, room * sizeof *states->score)) == NULL)
		return 0;
	states->score = more;
	if ((more = realloc(states->origins, room * sizeof *states->origins)) == NULL)
		return 0;
	states->origins = more;
	states->room = room;
	return 1;
}

static uint32_t
hash_of(const uint32_t *used, uint32_t steps)
{
	uint64_t h = 0;
	uint32_t t;

	for (t = 0; t < steps; t++)
		h = (h + used[t] + 1) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(h >> 32);
}

static int
grow_hash(struct search *s)
{
	uint32_t size = s->hash_size > 0 ? 2 * s->hash_size : 1024, i, at;
	uint32_t *more = realloc(s->hash, size * sizeof *more);

	if (more == NULL)
		return 0;
	s->hash = more;
	s->hash_size = size;
	memset(more, 255, size * sizeof *more);
	for (i = 0; i < s->next.count; i++) {
		at = hash_of(s->next.used + (size_t)i * s->steps, s->steps) & (size - 1);
		while (more[at] != NO_STATE)
			at = (at + 1) & (size - 1);
		more[at] = i;
	}
	return 1;
}

/* Adds a state to the next level, or improves it.  0: out of memory. */
static int
reach_state(struct search *s, const uint32_t *used, double loss, double score, struct origin origin)
{
	struct states *next = &s->next;
	size_t size = s->steps * sizeof *used;
	uint32_t at, i;

	if (2 * (next->count + 1) > s->hash_size && !grow_hash(s))
		return 0;
	at = hash_of(used, s->steps) & (s->hash_size - 1);
	while ((i = s->hash[at]) != NO_STATE &&
	    memcmp(next->used + (size_t)i * s->steps, used, size) != 0)
		at = (at + 1) & (s->hash_size - 1);
	if (i != NO_STATE && next->loss[i] <= loss)
		return 1;
	if (i == NO_STATE) {
		if (!states_room(next, s->steps, next->count + 1))
			return 0;
		i = s->hash[at] = next->count++;
		memcpy(next->used + (size_t)i * s->steps, used, size);
	}
	next->loss[i] = loss;
	next->score[i] = score;
	next->origins[i] = origin;
	return 1;
}

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Drops the worst of too many states.  0: out of memory. */
static int
cut_states(struct search *s)
{
	struct states *next = &s->next;
	uint32_t i, to = 0, most = s->spent < s->core->effort ? s->core->states : FEW;
	double *sorted, limit;

	if (next->count <= most)
		return 1;
	sorted = malloc(next->count * sizeof *sorted);
	if (sorted == NULL)
		return 0;
	memcpy(sorted, next->score, next->count * sizeof *sorted);
	qsort(sorted, next->count, sizeof *sorted, by_value);
	limit = sorted[most];
	free(sorted);
	for (i = 0; i < next->count; i++) {
		if (next->score[i] >= limit)
			continue;
		memmove(next->used + (size_t)to * s->steps, next->used + (size_t)i * s->steps,
		    s->steps * sizeof *next->used);
		next->loss[to] = next->loss[i];
		next->score[to] = next->score[i];
		next->origins[to++] = next->origins[i];
	}
	next->count = to;
	s->core->cut = 1;
	return 1;
}

/* ---- levels ------------------------------------------------------------------------------- */

/* All that a state can become with one more member. */
static int
extend_state(struct search *s, const struct member *m, uint32_t state)
{
	const struct milp_job *job = &s->problem->jobs[m->job];
	uint32_t i, t, used[MILP_STEPS], count = m->count;

	if (s->spent >= s->core->effort && count > FEW) {
		count = FEW;
		s->core->cut = 1;
	}
	for (i = 0; i < count; i++) {
		const uint32_t *from = s->now.used + (size_t)state * s->steps;
		double loss = s->now.loss[state] + m->options[i].loss, score;

		if (loss > s->core->radius)
			break;
		s->spent++;
		for (t = 0; t < s->steps; t++) {
			used[t] = from[t] + job->width[m->options[i].choice[t]];
			if (used[t] > s->problem->total)
				break;
		}
		if (t < s->steps)
			continue;
		score = loss + must_lose(s, used);
		if (score <= s->core->radius &&
		    !reach_state(s, used, loss, score, (struct origin){ state, i }))
			return 0;
	}
	return 1;
}

/* 0: out of memory.  Where nothing is left the last level is empty. */
static int
run_levels(struct search *s)
{
	uint32_t level, i;
	int late;

	if (!states_room(&s->now, s->steps, 1))
		return 0;
	memset(s->now.used, 0, s->steps * sizeof *s->now.used);
	s->now.loss[0] = 0;
	s->now.count = 1;
	for (level = 0; level < s->count && s->now.count > 0; level++) {
		struct states was = s->now;

		look_ahead(s, level + 1);
		late = s->spent >= s->core->effort;
		s->next.count = 0;
		if (s->hash != NULL)
			memset(s->hash, 255, s->hash_size * sizeof *s->hash);
		for (i = 0; i < s->now.count && (late || s->spent < s->core->effort); i++)
			if (!extend_state(s, &s->members[level], i))
				return 0;
		s->core->cut |= i < s->now.count;
		if (!cut_states(s))
			return 0;
		s->levels[level].origins = malloc((s->next.count + 1u) * sizeof *s->next.origins);
		if (s->levels[level].origins == NULL)
			return 0;
		if (s->next.count > 0)
			memcpy(s->levels[level].origins, s->next.origins,
			    s->next.count * sizeof *s->next.origins);
		s->now = s->next;
		s->next = was;
	}
	return 1;
}

/* The best of the last states, written down.  0: there is none within the radius. */
static int
choose_best(struct search *s)
{
	uint32_t i, t, level, best = NO_STATE, left;
	double least = s->core->radius;

	look_ahead(s, s->count);
	for (i = 0; i < s->now.count; i++) {
		double loss = s->now.loss[i] + must_lose(s, s->now.used + (size_t)i * s->steps);

		if (loss <= least && (best == NO_STATE || loss < least)) {
			least = loss;
			best = i;
		}
	}
	if (best == NO_STATE)
		return 0;
	for (t = 0; t < s->steps; t++) {
		left = s->problem->total - s->now.used[(size_t)best * s->steps + t];
		allocator_milp_steps_choose(&s->rest, s->problem, t, left, s->core->choice);
	}
	for (level = s->count; level-- > 0;) {
		const struct member *m = &s->members[level];
		struct origin origin = s->levels[level].origins[best];

		memcpy(s->core->choice + (size_t)m->job * s->steps,
		    m->options[origin.option].choice, s->steps);
		best = origin.state;
	}
	return 1;
}

static void
search_free(struct search *s)
{
	uint32_t i;

	for (i = 0; i < s->room; i++)
		free(s->members[i].options);
	for (i = 0; s->levels != NULL && i < s->count; i++)
		free(s->levels[i].origins);
	free(s->members);
	free(s->levels);
	free(s->window);
	free(s->queue);
	free(s->hash);
	for (i = 0; i < 2; i++) {
		struct states *states = i == 0 ? &s->now : &s->next;

		free(states->used);
		free(states->loss);
		free(states->score);
		free(states->origins);
	}
	allocator_milp_steps_free(&s->rest);
}

static enum milp_core_result
search_core(struct milp_core *core)
{
	struct search s;
	size_t size = (size_t)core->problem->total + 1;
	enum milp_core_result result = MILP_CORE_NOMEM;

	memset(&s, 0, sizeof s);
	s.core = core;
	s.problem = core->problem;
	s.steps = core->problem->steps;
	core->cut = 0;
	s.window = malloc(size * s.steps * sizeof *s.window);
	s.queue = malloc(size * sizeof *s.queue);
	if (s.window != NULL && s.queue != NULL && list_sequences(&s)) {
		s.levels = calloc(s.count + 1u, sizeof *s.levels);
		if (s.levels != NULL && run_levels(&s))
			result = choose_best(&s) ? MILP_CORE_FOUND : MILP_CORE_NONE;
	}
	core->spent = s.spent;
	search_free(&s);
	return result;
}

/* ---- widening -------------------------------------------------------------------------------- */

/* Prices, then all plans that lose little at them.
 *
 * The search begins with a small radius of loss and widens it until it finds a plan, which is then
 * the best there is, or is as wide as what the best known plan loses, which is then the best.  An
 * empty search lowers the bound by its radius.
 */

#define LOOKS 10u  /* at each state that may be kept */
#define FIRST 64.0 /* the first radius is this part of the gap */
#define WIDER 1.5  /* work grows with a high power of the radius */

/* Widens the search until it is over.  0: out of memory. */
static int
search_exact(const struct milp_problem *problem, const double *price, uint32_t effort, double gap,
    uint8_t *choice, struct milp_plan *plan)
{
	double lagrange = plan->bound, loss, close = gap > MILP_CLOSE ? gap : MILP_CLOSE;
	struct milp_core core = { .problem = problem, .price = price, .choice = choice };

	core.states = effort / LOOKS + 1;

	for (loss = (lagrange - plan->value) / FIRST;; loss *= WIDER) {
		enum milp_core_result result;
		int last = loss >= lagrange - plan->value;
		double value;

		core.effort = effort - plan->spent;
		core.radius = last ? lagrange - plan->value : loss;
		result = search_core(&core);
		plan->spent += core.spent;
		if (result == MILP_CORE_NOMEM)
			return 0;
		if (result == MILP_CORE_FOUND) {
			value = allocator_milp_value(problem, choice);
			if (value > plan->value) {
				memcpy(plan->choice, choice,
				    (size_t)problem->job_count * problem->steps);
				plan->value = value;
			}
		}
		if (!core.cut && (result == MILP_CORE_FOUND || last)) {
			plan->bound = plan->value;
			break;
		}
		if (!core.cut)
			plan->bound = lagrange - core.radius;
		if (core.cut || plan->spent >= effort ||
		    plan->bound - plan->value <= close * fabs(plan->value))
			break; /* wider ones would be cut, too */
	}
	return 1;
}

int
allocator_milp_exact(const struct milp_problem *problem, uint32_t effort, double gap,
    struct milp_plan *plan)
{
	double price[MILP_STEPS];
	size_t size = (size_t)problem->job_count * problem->steps;
	uint8_t *choice;
	int done = 1;

	if (!allocator_milp_dual(problem, plan->choice, price))
		return 0;
	plan->spent = 0;
	plan->bound = allocator_milp_bound(problem, price);
	if (plan->bound < plan->value)
		plan->bound = plan->value; /* rounding */
	if (effort > 0 &&
	    plan->bound - plan->value > (gap > MILP_CLOSE ? gap : MILP_CLOSE) * fabs(plan->value)) {
		choice = malloc(size + 1);
		done = choice != NULL && search_exact(problem, price, effort, gap, choice, plan);
		free(choice);
	}
	if (plan->bound - plan->value <= MILP_CLOSE * fabs(plan->value))
		plan->status = MILP_OPTIMAL;
	else if (effort > 0)
		plan->status = MILP_BOUNDED;
	return done;
}
