/* wait_times.c - one sorted list of all changes of a pool's nodes and stays, which is used to
 * divide any wait by its reasons.
 *
 * Each change contains the slots that are free, used, set aside and coming from then on. A wait is
 * a walk over the changes within it. What another trial held meanwhile is a sum over the same
 * changes: if it holds u GPUs at the end, and took d more when p seconds of the P in use had
 * passed, it held u * P - sum(d * p) GPU seconds.
 */
#include "base/assert.h"
#include "report/wait_times.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

#define GPUS_MAX 1000000
#define PACKING_MAX 1024
#define NEAR 1e-6 /* of a GPU: sums of parts of GPUs are inexact */

struct change {
	double at_s;
	/* change in the number of GPUs; once sorted, the number from then on */
	double free, coming, used, aside;
	/* change in the GPUs of the holder, used or no longer available */
	double held;
	uint32_t holder; /* NONE: it is about a node */
};
#define NONE UINT32_MAX
struct level {
	double at_s, gpus;
}; /* a holder's, from then on */
struct holder {
	int64_t id; /* of the plain job; of an experiment its number << 40 */
	char *name;
	double needs;          /* GPUs, at least */
	uint32_t first, count; /* of levels */
};
/* From leaves_s on it accepts no new trials. It can be used from ready_s on. */
struct node {
	int64_t id;
	double gpus, ready_s, leaves_s;
};
struct aside {
	int64_t node, gpu;
	double from_s, until_s;
}; /* gpu ALL: the node's, whichever */
#define ALL INT64_C(-1)

#define ESPL__WAITS_MAGIC 0x72646c71u
struct espl__waits {
	uint32_t magic; /* ESPL__WAITS_MAGIC */
	struct change *changes;
	uint32_t change_count, change_cap;
	struct holder *holders;
	uint32_t holder_count, holder_cap;
	struct node *nodes;
	uint32_t node_count, node_cap;
	struct aside *asides;
	uint32_t aside_count, aside_cap; /* few */
	struct level *levels;            /* holder by holder */
	double *sums;                    /* [holder], of the wait that is looked at */
	double unit;                     /* GPUs of a node of the workload */
	int on_cpu;
};

static double
clamp_value(int64_t v, int64_t least, int64_t most)
{
	return (double)(v < least ? least : v > most ? most : v);
}

static struct change *
add_change(struct espl__waits *w, double at_s, uint32_t holder)
{
	struct change *c;

	ESPL__GROW(w->changes, w->change_cap, w->change_count + 1);
	c = &w->changes[w->change_count++];
	*c = (struct change){ .at_s = at_s, .holder = holder };
	return c;
}

/* ---- loading ------------------------------------------------------------------------------ */

typedef void row_fn(struct espl__waits *, sqlite3_stmt *);

static espl_status
read_rows(struct espl__waits *w, struct espl__reading *r, const char *sql, row_fn *take,
    struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r, sql, -1, -1, diag);
	int more = -1;

	while (st != NULL && (more = espl__reading_next(r, st, diag)) == 1)
		take(w, st);
	(void)sqlite3_finalize(st);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}

static void
take_unit(struct espl__waits *w, sqlite3_stmt *st)
{
	w->unit = clamp_value(sqlite3_column_int64(st, 0), 1, GPUS_MAX);
}

/* In order of id.  An experiment's needs are known by its stays. */
static void
take_holder(struct espl__waits *w, sqlite3_stmt *st)
{
	int64_t id = sqlite3_column_int64(st, 0);
	const char *name = (const char *)sqlite3_column_text(st, 1);
	struct holder *h;

	if (w->holder_count > 0 && id <= w->holders[w->holder_count - 1].id)
		return;
	ESPL__GROW(w->holders, w->holder_cap, w->holder_count + 1);
	h = &w->holders[w->holder_count++];
	memset(h, 0, sizeof *h);
	h->id = id;
	h->name = espl__strdup(name != NULL ? name : "");
	h->needs = sqlite3_column_type(st, 2) == SQLITE_NULL
	    ? NAN
	    : clamp_value(sqlite3_column_int64(st, 2), 1, GPUS_MAX) * w->unit;
}

static uint32_t
holder_of(const struct espl__waits *w, int64_t id)
{
	uint32_t low = 0, high = w->holder_count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (w->holders[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < w->holder_count && w->holders[low].id == id ? low : NONE;
}

/* Starting until it is ready, then available until its notice or its end. */
static void
take_node(struct espl__waits *w, sqlite3_stmt *st)
{
	double gpus = clamp_value(sqlite3_column_int64(st, 1), 0, GPUS_MAX),
	       requested = espl__reading_real(st, 2);
	double ready = espl__reading_real(st, 3), leaves = INFINITY;
	struct change *c;

	for (int i = 4; i < 6; i++)
		if (espl__reading_real(st, i) < leaves)
			leaves = espl__reading_real(st, i);
	ESPL__GROW(w->nodes, w->node_cap, w->node_count + 1);
	w->nodes[w->node_count++] =
	    (struct node){ sqlite3_column_int64(st, 0), gpus, ready, leaves };
	if (!isfinite(requested))
		return;
	add_change(w, requested, NONE)->coming = gpus;
	if (ready < leaves) {
		c = add_change(w, ready, NONE);
		c->coming = -gpus;
		c->free = gpus;
	}
	if (!isfinite(leaves))
		return;
	c = add_change(w, leaves, NONE);
	if (ready < leaves)
		c->free = -gpus;
	else
		c->coming = -gpus;
}

static const struct node *
node_of(const struct espl__waits *w, int64_t id)
{
	uint32_t low = 0, high = w->node_count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (w->nodes[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return low < w->node_count && w->nodes[low].id == id ? &w->nodes[low] : NULL;
}

/* "GPU 1 of node 0 is set aside: ...", or the whole node, with those of its GPUs that were not
 * before.  Whoever resumes begins with all of them again. */
static void
take_aside(struct espl__waits *w, sqlite3_stmt *st)
{
	const struct node *n = node_of(w, sqlite3_column_int64(st, 0));
	const char *text = (const char *)sqlite3_column_text(st, 1);
	struct aside a = { sqlite3_column_int64(st, 0), ALL, espl__reading_real(st, 2), INFINITY };
	struct change *c;
	double gpus;

	if (n == NULL || text == NULL || !(n->ready_s <= a.from_s) || !(a.from_s < n->leaves_s))
		return;
	if (strncmp(text, "GPU ", 4) == 0)
		a.gpu = strtoll(text + 4, NULL, 10);
	a.until_s =
	    espl__reading_real(st, 3) < n->leaves_s ? espl__reading_real(st, 3) : n->leaves_s;
	gpus = a.gpu == ALL ? n->gpus : 1;
	for (uint32_t i = 0; i < w->aside_count; i++)
		if (w->asides[i].node == a.node && w->asides[i].until_s > a.from_s)
			gpus -= a.gpu == ALL || w->asides[i].gpu == ALL;
	gpus = gpus > 0 ? gpus : 0;
	ESPL__GROW(w->asides, w->aside_cap, w->aside_count + 1);
	w->asides[w->aside_count++] = a;
	c = add_change(w, a.from_s, NONE);
	c->free = -gpus;
	c->aside = gpus;
	if (!isfinite(a.until_s))
		return;
	c = add_change(w, a.until_s, NONE);
	c->free = gpus;
	c->aside = -gpus;
}

/* When a slot of a stay that began at from_s is lost: with its node, or its GPU, if that is lost
 * before the stay ends. */
static double
place_ends_at(const struct espl__waits *w, int64_t node, int64_t gpu, double from_s)
{
	const struct node *n = node_of(w, node);
	double at = n != NULL ? n->leaves_s : INFINITY;

	for (uint32_t i = 0; i < w->aside_count; i++) {
		const struct aside *a = &w->asides[i];

		if (a->node == node && (a->gpu == gpu || a->gpu == ALL) && a->until_s > from_s &&
		    a->from_s < at)
			at = a->from_s;
	}
	return at;
}

/* Next of the numbers in [[node, GPU], ...]; -1: there is none. */
static int64_t
next_number(const char **at)
{
	int64_t n = 0;

	*at += strcspn(*at, "0123456789");
	if (**at == '\0')
		return -1;
	for (; **at >= '0' && **at <= '9'; (*at)++)
		if (n < INT32_MAX)
			n = n * 10 + (**at - '0');
	return n;
}

/* GPUs held on a node that has a notice, or is set aside, will not become free. */
static void
take_stay(struct espl__waits *w, sqlite3_stmt *st)
{
	int64_t trial = sqlite3_column_int64(st, 0), node, gpu;
	double packing = clamp_value(sqlite3_column_int64(st, 2), 1, PACKING_MAX), gone = 0;
	double share = clamp_value(sqlite3_column_int64(st, 1), 1, GPUS_MAX) / packing;
	double from = espl__reading_real(st, 3), until = espl__reading_real(st, 4), at;
	const char *slots = (const char *)sqlite3_column_text(st, 5);
	uint32_t holder = holder_of(w,
	    trial >> ESPL__TRIAL_BITS > 0 ? trial & ~(int64_t)ESPL__TRIAL_NUMBER : trial);
	struct change *c;

	if (!isfinite(from) || until <= from)
		return;
	if (isnan(until))
		until = INFINITY;
	c = add_change(w, from, holder);
	c->free = -share;
	c->used = c->held = share;
	while (slots != NULL && (node = next_number(&slots)) >= 0 &&
	    (gpu = next_number(&slots)) >= 0) {
		at = place_ends_at(w, node, gpu, from);
		if (at < until) {
			c = add_change(w, at > from ? at : from, NONE);
			c->free = 1 / packing;
			c->used = -1 / packing;
			gone += 1 / packing;
		}
	}
	if (isfinite(until)) {
		c = add_change(w, until, holder);
		c->free = share - gone;
		c->used = gone - share;
		c->held = -share;
	}
	if (holder != NONE && w->holders[holder].id > (int64_t)ESPL__TRIAL_NUMBER &&
	    !(w->holders[holder].needs <= share))
		w->holders[holder].needs = share;
}

/* ---- in order ----------------------------------------------------------------------------- */

static int
by_time(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	if (x->at_s < y->at_s || x->at_s > y->at_s)
		return x->at_s < y->at_s ? -1 : 1;
	if (x->holder != y->holder)
		return x->holder < y->holder ? -1 : 1;
	return x->free < y->free ? -1 : x->free > y->free;
}

/* Sums up all changes before, of the pool and of each holder. */
static void
sum_up(struct espl__waits *w)
{
	struct change *c = w->changes;
	struct holder *h;
	uint32_t i, room = 0;

	if (w->change_count > 0)
		qsort(c, w->change_count, sizeof *c, by_time);
	for (i = 0; i < w->change_count; i++)
		if (c[i].holder != NONE)
			w->holders[c[i].holder].count++;
	for (i = 0; i < w->holder_count; i++) {
		w->holders[i].first = room;
		room += w->holders[i].count;
		w->holders[i].count = 0;
		if (isnan(w->holders[i].needs))
			w->holders[i].needs = 1;
	}
	w->levels = espl__alloc((room + (size_t)1) * sizeof *w->levels);
	w->sums = espl__alloc((w->holder_count + (size_t)1) * sizeof *w->sums);
	for (i = 0; i < w->change_count; i++) {
		if (i > 0) {
			c[i].free += c[i - 1].free;
			c[i].coming += c[i - 1].coming;
			c[i].used += c[i - 1].used;
			c[i].aside += c[i - 1].aside;
		}
		if (c[i].holder == NONE)
			continue;
		h = &w->holders[c[i].holder];
		w->levels[h->first + h->count] = (struct level){ c[i].at_s,
			c[i].held + (h->count > 0 ? w->levels[h->first + h->count - 1].gpus : 0) };
		h->count++;
	}
}

/* The executor's notes mention it, and its return. */
static const char aside_sql[] = "SELECT n.subject_id, n.text, n.at_s, (SELECT min(b.at_s) FROM "
				"notes b WHERE b.subject = 'run' AND b.who = 'executor'"
				" AND b.text LIKE 'the driver came back%' AND b.id > n.id) FROM "
				"notes n WHERE n.subject = 'node' AND n.who = 'executor'"
				" AND (n.text LIKE 'GPU % of node % is set aside: %' OR n.text "
				"LIKE 'node % is set aside: %') ORDER BY n.id";

espl_status
espl__waits_open(struct espl__reading *r, struct espl__waits **to, struct espl__diag *diag)
{
	struct espl__waits *w = espl__alloc(sizeof *w);
	espl_status status;

	ESPL__CHECK(r, READING);
	w->magic = ESPL__WAITS_MAGIC;
	w->on_cpu = r->totals.on_cpu != 0;
	w->unit = 1;
	status = read_rows(w, r, "SELECT value FROM meta WHERE key = 'unit'", take_unit, diag);
	if (status == ESPL_OK)
		status = read_rows(w, r, "SELECT id, name, nodes_min FROM jobs ORDER BY id",
		    take_holder, diag);
	if (status == ESPL_OK)
		status = read_rows(w, r, "SELECT id << 40, name, NULL FROM experiments ORDER BY id",
		    take_holder, diag);
	if (status == ESPL_OK)
		status = read_rows(w, r,
		    "SELECT id, gpus, requested_s, ready_s, notice_s, ended_s FROM nodes ORDER BY "
		    "id",
		    take_node, diag);
	if (status == ESPL_OK)
		status = read_rows(w, r, aside_sql, take_aside, diag);
	if (status == ESPL_OK)
		status = read_rows(w, r,
		    "SELECT trial, gpus, packing, from_s, until_s, slots FROM stays", take_stay,
		    diag);
	if (status == ESPL_OK) {
		sum_up(w);
	} else {
		espl__waits_free(w);
		w = NULL;
	}
	*to = w;
	return status;
}

void
espl__waits_free(struct espl__waits *w)
{
	if (w == NULL)
		return;
	for (uint32_t i = 0; i < w->holder_count; i++)
		free(w->holders[i].name);
	free(w->holders);
	free(w->changes);
	free(w->nodes);
	free(w->asides);
	free(w->levels);
	free(w->sums);
	w->magic = 0;
	free(w);
}

/* ---- a wait ------------------------------------------------------------------------------- */

static enum espl__wait_part
part_of(const struct change *c, double needs)
{
	double free = c != NULL ? c->free : 0, coming = c != NULL ? c->coming : 0,
	       used = c != NULL ? c->used : 0;
	double aside = c != NULL ? c->aside : 0;

	if (free >= needs - NEAR)
		return ESPL__WAIT_FREE;
	if (free + coming >= needs - NEAR)
		return ESPL__WAIT_COMING;
	if (used > NEAR && free + coming + used >= needs - NEAR)
		return ESPL__WAIT_IN_USE;
	return aside > NEAR && free + coming + used + aside >= needs - NEAR ? ESPL__WAIT_ASIDE
									    : ESPL__WAIT_NO_NODES;
}

/* The first change later than at_s. */
static uint32_t
first_after(const struct espl__waits *w, double at_s)
{
	uint32_t low = 0, high = w->change_count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (w->changes[middle].at_s <= at_s)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* GPUs that it holds just before at_s. */
static double
gpus_held_before(const struct espl__waits *w, const struct holder *h, double at_s)
{
	uint32_t low = h->first, high = h->first + h->count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (w->levels[middle].at_s < at_s)
			low = middle + 1;
		else
			high = middle;
	}
	return low > h->first ? w->levels[low - 1].gpus : 0;
}

/* The largest users of the GPUs in use before to_s. */
static void
take_holders(const struct espl__waits *w, double to_s, struct espl__wait *wait)
{
	double all = 0, had, in_use = wait->part_s[ESPL__WAIT_IN_USE];

	for (uint32_t i = 0; i < w->holder_count; i++) {
		uint32_t at = wait->holder_count;

		had = gpus_held_before(w, &w->holders[i], to_s) * in_use - w->sums[i];
		if (!(had > NEAR * in_use))
			continue;
		all += had;
		while (at > 0 && wait->holders[at - 1].share < had)
			at--;
		if (at == ESPL__WAIT_HOLDERS)
			continue;
		if (wait->holder_count < ESPL__WAIT_HOLDERS)
			wait->holder_count++;
		memmove(&wait->holders[at + 1], &wait->holders[at],
		    (wait->holder_count - 1 - at) * sizeof *wait->holders);
		wait->holders[at].name = w->holders[i].name;
		wait->holders[at].share = had;
	}
	for (uint32_t i = 0; i < wait->holder_count; i++)
		wait->holders[i].share /= all;
}

static void
divide_wait(const struct espl__waits *w, double needs, double from_s, double to_s,
    struct espl__wait *wait)
{
	uint32_t i = first_after(w, from_s);
	const struct change *c = i > 0 ? &w->changes[i - 1] : NULL;
	double at = from_s, next;

	if (!(to_s > from_s) || !isfinite(to_s - from_s))
		return;
	wait->all_s = to_s - from_s;
	memset(w->sums, 0, w->holder_count * sizeof *w->sums);
	for (; at < to_s; at = next, i++) {
		next = i < w->change_count && w->changes[i].at_s < to_s ? w->changes[i].at_s : to_s;
		wait->part_s[part_of(c, needs)] += next - at;
		if (!(next < to_s))
			break;
		c = &w->changes[i];
		if (c->holder != NONE)
			w->sums[c->holder] += c->held * wait->part_s[ESPL__WAIT_IN_USE];
	}
	if (wait->part_s[ESPL__WAIT_IN_USE] > 0)
		take_holders(w, to_s, wait);
}

void
espl__waits_first(const struct espl__waits *w, int64_t who, double arrived_s, double end_s,
    struct espl__wait *wait)
{
	uint32_t at = holder_of(w, who);
	const struct holder *h = at != NONE ? &w->holders[at] : NULL;

	ESPL__CHECK(w, WAITS);
	memset(wait, 0, sizeof *wait);
	wait->on_cpu = w->on_cpu;
	if (h != NULL)
		divide_wait(w, h->needs, arrived_s, h->count > 0 ? w->levels[h->first].at_s : end_s,
		    wait);
}

void
espl__waits_now(const struct espl__waits *w, int64_t who, double since_s, double now_s,
    struct espl__wait *wait)
{
	uint32_t at = holder_of(w, who);
	const struct holder *h = at != NONE ? &w->holders[at] : NULL;
	const struct level *last =
	    h != NULL && h->count > 0 ? &w->levels[h->first + h->count - 1] : NULL;

	ESPL__CHECK(w, WAITS);
	memset(wait, 0, sizeof *wait);
	wait->on_cpu = w->on_cpu;
	if (last != NULL && last->at_s > since_s)
		since_s = last->at_s;
	if (h != NULL)
		divide_wait(w, h->needs, since_s, now_s, wait);
}

/* ---- in words ----------------------------------------------------------------------------- */

static void
holders_text(const struct espl__wait *wait, struct espl__buf *b)
{
	uint32_t count = 0;

	while (count < wait->holder_count && wait->holders[count].share >= 0.005)
		count++;
	if (count > 0 && wait->holders[0].share >= 0.995) {
		espl__print(b, ", all by %s", wait->holders[0].name);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		espl__print(b, "%s%s (%.0f %%)",
		    i == 0              ? ", most by "
			: i + 1 < count ? ", "
					: " and ",
		    wait->holders[i].name, wait->holders[i].share * 100);
}

void
espl__wait_text(const struct espl__wait *wait, struct espl__buf *b)
{
	static const char *const words[ESPL__WAIT_PARTS] = { "were in use",
		"nodes were on their way", "were free", "were set aside",
		"there were too few nodes" };
	static const int of_slots[ESPL__WAIT_PARTS] = { 1, 0, 1, 1, 0 };
	double nothing = wait->all_s < 100 ? wait->all_s / 200 : 0.5;
	int count = 0;
	char time[32];

	if (nothing < 0.0005)
		nothing = 0.0005;
	for (int i = 0; i < ESPL__WAIT_PARTS; i++) {
		if (!(wait->part_s[i] >= nothing))
			continue;
		espl__print(b, "%s%s %s%s%s", count++ > 0 ? "; " : "",
		    espl__format_seconds(wait->part_s[i], time),
		    of_slots[i] ? espl__slots_word(wait->on_cpu, 0) : "", of_slots[i] ? " " : "",
		    words[i]);
		if (i == ESPL__WAIT_IN_USE)
			holders_text(wait, b);
	}
}

void
espl__wait_json(const struct espl__wait *wait, struct espl__buf *b)
{
	static const char *const names[ESPL__WAIT_PARTS] = { "in_use_s", "coming_s", "free_s",
		"aside_s", "no_nodes_s" };

	espl__print(b, "{");
	for (int i = 0; i < ESPL__WAIT_PARTS; i++)
		espl__json_real(b, names[i], wait->part_s[i]);
	espl__json_open(b, "holders", '[');
	for (uint32_t i = 0; i < wait->holder_count; i++) {
		espl__json_open(b, NULL, '{');
		espl__json_text(b, "name", wait->holders[i].name);
		espl__json_real(b, "share", wait->holders[i].share);
		espl__print(b, "}");
	}
	espl__print(b, "]}");
}
