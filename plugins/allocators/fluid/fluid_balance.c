/* fluid_balance.c - mode = "improved" beyond the paper: GPUs go to the trial that ends last.
 *
 * A group ends with its last trial. So the trial that would end last gets the idle GPUs. If there
 * are none, it gets what other trials can spare: a GPU of a wider trial, the GPU of trials that can
 * share with others, or the places of its own neighbors. The donor must still end before the
 * receiver would have ended without the change. Every step makes the latest end of the trials it
 * touches earlier, so the search terminates. Changes are free for trials that hold no GPU yet.
 */
#include "fluid.h"

#include <math.h>

#define MARGIN 0.002 /* a change must improve the last end by this fraction */
#define SPARE 0.1    /* ... or its own end, for a trial that is not the last */
#define REST 2       /* treat as an open group: idle GPUs go to any trial that can use them */
#define TRIES 3u     /* shelves that are looked at for one GPU */
#define SOON 0.05    /* an exchange need not wait for so small a part of the donor's time */

/* a way to make the last trial end sooner */
struct offer {
	enum { NOTHING, SHRINK, EXCHANGE, CLEAR, ALONE, MOVE } how;
	uint32_t who;  /* SHRINK, EXCHANGE: the donor; CLEAR, MOVE: the shelf */
	uint32_t gpus; /* SHRINK, EXCHANGE: what the donor keeps */
	double end;    /* latest end of all that it touches */
};
struct leaver {
	uint32_t trial, from, had_packing, moved, yields;
};
struct moves {
	struct leaver list[FLUID_PACKING_MAX * 2];
	uint32_t count;
};

static double
pays_below(double end)
{
	return end * (1 - MARGIN);
}

static void
resize_trial(struct fluid_pool *pool, uint32_t i, uint32_t gpus)
{
	struct fluid_trial *t = &pool->trials[i];
	uint32_t shelf = t->shelf, freed = t->gpus;

	if (shelf != FLUID_NONE) {
		allocator_fluid_shelf_take(pool, i);
		freed = pool->shelves[shelf].count == 0;
		allocator_fluid_shelf_ends(pool, shelf);
	}
	ESPL_ASSERT(gpus > 0 && pool->idle + freed >= gpus);
	pool->idle += freed;
	pool->idle -= gpus;
	t->gpus = gpus;
	t->packing = 1;
	t->moved = 1;
	t->yields = 0;
	allocator_fluid_end(pool, i);
}

/* ---- idle GPUs --------------------------------------------------------------------------- */

static double
end_on(const struct fluid_trial *t, uint32_t gpus)
{
	return t->late + t->eps + allocator_fluid_h(t, gpus, 1);
}

/* GPUs that the trial releases when it changes. */
static uint32_t
own_gpus(const struct fluid_pool *pool, const struct fluid_trial *t)
{
	return t->shelf == FLUID_NONE ? t->gpus : pool->shelves[t->shelf].count == 1 ? 1 : 0;
}

/* The smallest width with which another trial becomes the last, else the best width, if that
 * improves the end by the fraction `margin`. 1: the trial got it. */
static int
widen_trial(struct fluid_pool *pool, uint32_t i, double next, double margin)
{
	const struct fluid_trial *t = &pool->trials[i];
	uint32_t most = own_gpus(pool, t) + pool->idle, best = 0;
	uint32_t now = t->packing == 1 ? t->gpus : own_gpus(pool, t), w;
	double end = t->end * (1 - margin);

	if (pool->idle == 0 || t->fixed)
		return 0;
	for (w = allocator_fluid_wider(t, now); w > 0 && w <= most;
	     w = allocator_fluid_wider(t, w)) {
		double then = end_on(t, w);

		if (then < end && allocator_fluid_places_with(pool, i, w, pays_below(t->end))) {
			end = then;
			best = w;
		}
		if (best > 0 && end <= next)
			break;
	}
	if (best == 0 || !allocator_fluid_places_with(pool, i, best, pays_below(t->end)))
		return 0;
	allocator_fluid_displace(pool);
	resize_trial(pool, i, best);
	return 1;
}

/* ---- what others can do without ---------------------------------------------------------- */

/* Whether `gpus` GPUs can be placed for the trial once the donor has fewer. */
static int
places_then(struct fluid_pool *pool, uint32_t i, uint32_t wide, uint32_t donor, uint32_t less,
    double limit)
{
	uint32_t had = pool->trials[donor].gpus;
	int good;

	pool->trials[donor].gpus = less;
	good = allocator_fluid_places_with(pool, i, wide, limit);
	pool->trials[donor].gpus = had;
	return good;
}

static void
seek_donor(struct fluid_pool *pool, uint32_t i, uint32_t wide, uint32_t need, struct offer *best)
{
	uint32_t k;

	for (k = 0; k < pool->count; k++) {
		const struct fluid_trial *t = &pool->trials[k];
		uint32_t less = t->gpus > t->least && t->packing == 1 && !t->fixed && k != i
		    ? allocator_fluid_fit(t, t->gpus - (need < t->gpus ? need : t->gpus))
		    : 0;

		if (less > 0 && end_on(t, less) < best->end &&
		    places_then(pool, i, wide, k, less, best->end))
			*best = (struct offer){ SHRINK, k, less, end_on(t, less) };
	}
}

/* On nodes where no width between fits, a wide trial and a narrow one can end together if they
 * exchange their GPUs on the way: when the donor would then end no later than the receiver, because
 * before that they would only be turned around.  It must be better than to wait for the donor's
 * end. pool->exchange: seconds until the first such time. */
static void
seek_exchange(struct fluid_pool *pool, uint32_t i, struct offer *best)
{
	const struct fluid_trial *t = &pool->trials[i];
	uint32_t k;

	for (k = 0; k < pool->count; k++) {
		const struct fluid_trial *d = &pool->trials[k];
		double faster, slower, at, end, wait;

		if (d->packing > 1 || d->fixed || d->gpus <= t->gpus || d->gpus > t->most ||
		    t->gpus < d->least || allocator_fluid_fit(t, d->gpus) != d->gpus ||
		    allocator_fluid_fit(d, t->gpus) != t->gpus)
			continue;
		faster = allocator_fluid_h(t, d->gpus, 1) / allocator_fluid_h(t, t->gpus, 1);
		slower = allocator_fluid_h(d, t->gpus, 1) / allocator_fluid_h(d, d->gpus, 1);
		at = (d->end * slower - t->end * faster) / (slower - faster);
		at = at > 0 ? at : 0;
		end = at + t->eps + (t->end - at) * faster;
		wait = d->end + t->eps + (t->end - d->end) * faster;
		if (at >= d->end || end >= pays_below(wait) || end >= best->end ||
		    !places_then(pool, i, d->gpus, k, t->gpus, best->end))
			continue;
		if (at <= SOON * d->end)
			*best = (struct offer){ EXCHANGE, k, t->gpus, end };
		else if (at < pool->exchange)
			pool->exchange = at;
	}
}

/* The shelf on which the trial disturbs others least: the fewest trials, then the earliest end. */
static uint32_t
find_refuge(const struct fluid_pool *pool, uint32_t trial, uint32_t not_this, uint32_t nor_this)
{
	const struct fluid_trial *t = &pool->trials[trial];
	uint32_t k, best = FLUID_NONE, fewest = t->c - 1; /* a trial that shares frees one place */
	double best_end = INFINITY;

	for (k = 0; k < pool->shelf_count; k++) {
		const struct fluid_shelf *s = &pool->shelves[k];
		const struct fluid_trial *head;

		if (s->count > fewest || s->count == 0 || s->cap != t->c || k == not_this ||
		    k == nor_this || k == t->shelf)
			continue;
		if (s->count == fewest && !(s->end < best_end))
			continue;
		head = &pool->trials[s->head];
		if (head->packing == 1 && head->fixed)
			continue;
		best = k;
		best_end = s->end;
		fewest = s->count;
	}
	return best;
}

static void
note_move(struct fluid_pool *pool, struct moves *moves, uint32_t trial)
{
	struct fluid_trial *t = &pool->trials[trial];

	moves->list[moves->count++] =
	    (struct leaver){ trial, t->shelf, t->packing, t->moved, t->yields };
	t->packing = t->c;
	t->moved = 1;
}

/* Moves a trial to another shelf. A trial that had that GPU alone must now share it, which costs it
 * a pause, too. */
static void
move_in(struct fluid_pool *pool, struct moves *moves, uint32_t trial, uint32_t to)
{
	uint32_t from = pool->trials[trial].shelf, head = pool->shelves[to].head;

	if (pool->shelves[to].count == 1 && pool->trials[head].packing == 1)
		note_move(pool, moves, head);
	note_move(pool, moves, trial);
	pool->trials[trial].yields = 1;
	allocator_fluid_shelf_take(pool, trial);
	allocator_fluid_shelf_add(pool, to, trial);
	allocator_fluid_shelf_ends(pool, from);
	allocator_fluid_shelf_ends(pool, to);
}

static void
undo_moves(struct fluid_pool *pool, struct moves *moves)
{
	while (moves->count > 0) {
		const struct leaver *was = &moves->list[--moves->count];
		struct fluid_trial *t = &pool->trials[was->trial];
		uint32_t now = t->shelf;

		t->packing = was->had_packing;
		t->moved = was->moved;
		t->yields = was->yields;
		if (now != was->from) {
			allocator_fluid_shelf_take(pool, was->trial);
			allocator_fluid_shelf_add(pool, was->from, was->trial);
			allocator_fluid_shelf_ends(pool, now);
		}
		allocator_fluid_shelf_ends(pool, was->from);
	}
}

/* Seconds until the trial ends if from now on it has as many GPUs as it can use. */
static double
soonest_end(const struct fluid_trial *t)
{
	uint32_t now = t->packing > 1 ? t->least : t->gpus;
	double gain = allocator_fluid_h(t, now, 1) - allocator_fluid_h(t, t->most, 1) - t->eps;

	return gain > 0 ? t->end - gain : t->end;
}

/* The latest end of the trials that moved and of their new neighbors. Infinite if one of them could
 * no longer end before `ceiling`, however many GPUs it got. */
static double
latest_end(const struct fluid_pool *pool, const struct moves *moves, double ceiling)
{
	double end = 0;
	uint32_t k, i;

	for (k = 0; k < moves->count; k++) {
		uint32_t shelf = pool->trials[moves->list[k].trial].shelf;

		for (i = pool->shelves[shelf].head; i != FLUID_NONE; i = pool->trials[i].next) {
			end = pool->trials[i].end > end ? pool->trials[i].end : end;
			if (soonest_end(&pool->trials[i]) > ceiling)
				return INFINITY;
		}
	}
	return end;
}

/* Moves all trials of the shelf except `stays` to other shelves (not to that of trial `apart`).
 * Returns the latest end that results; infinite if that is impossible or one of them would end
 * after `limit`. */
static double
clear_shelf(struct fluid_pool *pool, struct moves *moves, uint32_t shelf, uint32_t stays,
    uint32_t apart, double limit)
{
	double end;
	uint32_t i, next, home = apart != FLUID_NONE ? pool->trials[apart].shelf : FLUID_NONE;

	moves->count = 0;
	for (i = pool->shelves[shelf].head; i != FLUID_NONE; i = next) {
		uint32_t to = i == stays ? FLUID_NONE : find_refuge(pool, i, shelf, home);

		next = pool->trials[i].next;
		if (i == stays)
			continue;
		if (to == FLUID_NONE || pool->trials[i].fixed ||
		    moves->count + 2 > FLUID_PACKING_MAX * 2) {
			undo_moves(pool, moves);
			return INFINITY;
		}
		move_in(pool, moves, i, to);
	}
	end = latest_end(pool, moves, pool->ceiling);
	if (end < limit)
		return end;
	undo_moves(pool, moves);
	return INFINITY;
}

/* The shelves that are cheapest to clear: few trials that end soon. */
static uint32_t
cheapest_shelves(const struct fluid_pool *pool, uint32_t not_this, uint32_t *list)
{
	uint32_t k, n = 0, at;

	for (k = 0; k < pool->shelf_count; k++) {
		const struct fluid_shelf *s = &pool->shelves[k], *other;

		if (s->count == 0 || k == not_this)
			continue;
		for (at = n < TRIES ? n++ : TRIES; at > 0; at--) {
			other = &pool->shelves[list[at - 1]];
			if (other->count < s->count ||
			    (other->count == s->count && other->work <= s->work))
				break;
			if (at < TRIES)
				list[at] = list[at - 1];
		}
		if (at < TRIES)
			list[at] = k;
	}
	return n;
}

static void
try_clearing(struct fluid_pool *pool, uint32_t i, uint32_t wide, struct offer *best)
{
	uint32_t list[TRIES], n = cheapest_shelves(pool, pool->trials[i].shelf, list), k;
	struct moves moves;

	for (k = 0; k < n; k++) {
		double end = clear_shelf(pool, &moves, list[k], FLUID_NONE, i, best->end);

		if (end < best->end && allocator_fluid_places_with(pool, i, wide, best->end))
			*best = (struct offer){ CLEAR, list[k], 0, end };
		if (end < INFINITY)
			undo_moves(pool, &moves);
	}
}

/* Considers moving the trial's neighbors away, or the trial to a shelf with fewer neighbors. */
static void
try_separating(struct fluid_pool *pool, uint32_t i, struct offer *best)
{
	struct fluid_trial *t = &pool->trials[i];
	struct moves moves = { .count = 0 };
	uint32_t to;
	double end;

	if (t->shelf == FLUID_NONE || pool->shelves[t->shelf].count < 2)
		return;
	end = clear_shelf(pool, &moves, t->shelf, i, FLUID_NONE, best->end);
	if (end < INFINITY) {
		end = t->end > end ? t->end : end;
		if (end < best->end)
			*best = (struct offer){ ALONE, t->shelf, 0, end };
		undo_moves(pool, &moves);
	}
	to = t->fixed ? FLUID_NONE : find_refuge(pool, i, t->shelf, FLUID_NONE);
	if (to == FLUID_NONE || pool->shelves[to].count + 1 >= pool->shelves[t->shelf].count)
		return;
	moves.count = 0;
	move_in(pool, &moves, i, to);
	end = latest_end(pool, &moves, pool->ceiling);
	if (end < best->end)
		*best = (struct offer){ MOVE, to, 0, end };
	undo_moves(pool, &moves);
}

static int
take_offer(struct fluid_pool *pool, uint32_t i, const struct offer *offer, uint32_t wide)
{
	struct moves moves = { .count = 0 };

	switch (offer->how) {
	case EXCHANGE: wide = pool->trials[offer->who].gpus; /* fall through */
	case SHRINK: resize_trial(pool, offer->who, offer->gpus); break;
	case CLEAR:
		(void)clear_shelf(pool, &moves, offer->who, FLUID_NONE, i, offer->end * 2 + 1);
		pool->idle++;
		break;
	case ALONE:
		(void)clear_shelf(pool, &moves, offer->who, i, FLUID_NONE, offer->end * 2 + 1);
		return 1;
	case MOVE: move_in(pool, &moves, i, offer->who); return 1;
	default: return 0;
	}
	if (allocator_fluid_places_with(pool, i, wide, INFINITY))
		allocator_fluid_displace(pool);
	resize_trial(pool, i, wide);
	return 1;
}

/* Gives the trial one more GPU or fewer neighbors, at the expense of a trial that can afford it. */
static int
collect_gpus(struct fluid_pool *pool, uint32_t i)
{
	const struct fluid_trial *t = &pool->trials[i];
	uint32_t wide = allocator_fluid_wider(t, t->packing == 1 ? t->gpus : own_gpus(pool, t));
	uint32_t need =
	    wide > own_gpus(pool, t) + pool->idle ? wide - own_gpus(pool, t) - pool->idle : 0;
	double limit = pays_below(t->end), mine = wide > 0 ? end_on(t, wide) : INFINITY;
	struct offer best = { NOTHING, 0, 0, limit };

	/* no gain: it cannot be placed as the others are */
	if (!t->fixed && wide > 0 && (need > 0 || pool->node_count > 0) && mine < limit) {
		seek_donor(pool, i, wide, need > 0 ? need : 1, &best);
		if (need < 2)
			try_clearing(pool, i, wide, &best);
		if (best.how != NOTHING && best.end < mine)
			best.end = mine;
	}
	if (!t->fixed && t->packing == 1 && pool->node_count > 0)
		seek_exchange(pool, i, &best);
	try_separating(pool, i, &best);
	return take_offer(pool, i, &best, wide);
}

/* ---- all together ------------------------------------------------------------------------ */

/* The trial that ends last before `below`; *next: the end of the one before it. */
static uint32_t
last_to_end(const struct fluid_pool *pool, double below, double *next)
{
	uint32_t i, found = FLUID_NONE;
	double most = -1;

	*next = 0;
	for (i = 0; i < pool->count; i++) {
		double end = pool->ends[i];

		if (end <= *next || end >= below || pool->trials[i].gpus == 0)
			continue;
		if (end > most) {
			*next = found == FLUID_NONE ? 0 : most;
			most = end;
			found = i;
		} else {
			*next = end;
		}
	}
	return found;
}

/* The earliest possible end of all trials: bounded by this trial's own end and by the total work.
 */
static double
earliest_overall_end(const struct fluid_pool *pool)
{
	double sum = 0, longest = 0;
	uint32_t i;

	for (i = 0; i < pool->count; i++) {
		const struct fluid_trial *t = &pool->trials[i];
		double soon = t->gpus > 0 ? soonest_end(t) : 0;

		sum += t->gpus > 0 ? t->work * t->least : 0;
		longest = soon > longest ? soon : longest;
	}
	sum /= pool->total > 0 ? pool->total : 1;
	return sum > longest ? sum : longest;
}

void
allocator_fluid_balance(struct fluid_pool *pool, int open)
{
	uint32_t steps = 4 * (pool->total + pool->count) + 16, i;
	double below = INFINITY, next;

	pool->ceiling = earliest_overall_end(pool);
	for (i = 0; i < pool->count; i++)
		pool->ends[i] = pool->trials[i].end;
	while (steps-- > 0) {
		i = last_to_end(pool, below, &next);
		if (i == FLUID_NONE || (open && pool->idle == 0))
			return;
		if (widen_trial(pool, i, next, open == REST ? SPARE : MARGIN) ||
		    (!open && collect_gpus(pool, i))) {
			below = open == REST ? below : INFINITY;
			continue;
		}
		if (!open && pool->node_count == 0)
			return; /* the group cannot end sooner */
		if (!open)
			/* others use what the last trial cannot place */
			open = REST;
		below = pool->ends[i];
	}
}
