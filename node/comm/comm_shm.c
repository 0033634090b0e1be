/* comm_shm.c - collectives in memory that all ranks of a node share.
 *
 * Each rank has an area twice over, and there is one for results, twice over too: a step uses
 * the half that the step before did not, so that one barrier less is needed.  A barrier sleeps
 * on a futex, and looks up at least every 10 ms whether all others still live.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/tick.h"
#include "comm/comm_private.h"

#define HALF ((uint64_t)4 << 20)   /* bytes of an area's half; touched only as needed */
#define SHORT ((uint64_t)16 << 10) /* bytes up to which every rank folds all by itself */
#define MAX_IDLE INT64_C(10000000)

struct slot {
	_Alignas(64) struct espl__span span;
};
struct head {
	_Alignas(64) _Atomic uint32_t arrived;
	_Alignas(64) _Atomic uint32_t phase;
	_Alignas(64) _Atomic uint32_t gone; /* a rank has left, or found one missing */
	_Alignas(64) uint32_t world;
};

struct shm {
	struct head *head;
	struct slot *slots;
	/* rank r, half h: (2 r + h) HALF; results are rank `world` */
	uint8_t *areas;
	size_t size;
	uint32_t half; /* the one to use next */
	uint32_t others;
	int32_t *pids;
	int *watches; /* pidfds of the others, -1: ask by number */
	int spin;
};

static size_t
front_size(uint32_t world)
{
	return (sizeof(struct head) + world * sizeof(struct slot) + 4095) / 4096 * 4096;
}

size_t
espl__shm_size(uint32_t world)
{
	return front_size(world) + ((size_t)world + 1) * 2 * HALF;
}

void
espl__shm_format(void *memory, uint32_t world)
{
	struct head *h = memory;

	ESPL__ASSERT(world > 1);
	atomic_init(&h->arrived, 0);
	atomic_init(&h->phase, 0);
	atomic_init(&h->gone, 0);
	h->world = world;
}

static uint8_t *
area_of_rank(const struct shm *s, uint32_t rank)
{
	return s->areas + ((uint64_t)rank * 2 + s->half) * HALF;
}

static void
next_half(struct shm *s)
{
	s->half ^= 1;
}

/* ---- waiting ----------------------------------------------------------------------------- */

static void
futex_wait(_Atomic uint32_t *word, uint32_t while_it_is, int64_t ns)
{
	struct timespec t = { ns / 1000000000, ns % 1000000000 };

	(void)syscall(SYS_futex, (void *)word, FUTEX_WAIT, while_it_is, &t, NULL, 0);
}

static void
wake_all(_Atomic uint32_t *word)
{
	(void)syscall(SYS_futex, (void *)word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static int
are_all_alive(const struct shm *s, uint32_t world, uint32_t me)
{
	for (uint32_t r = 0; r < world; r++) {
		struct pollfd p = { .fd = s->watches[r], .events = POLLIN };

		if (r == me)
			continue;
		if (p.fd >= 0 ? poll(&p, 1, 0) > 0 : kill(s->pids[r], 0) != 0 && errno == ESRCH)
			return 0;
	}
	return 1;
}

static espl_status
break_shm(struct espl__comm *c, espl_status status)
{
	struct shm *s = c->state;

	if (c->broken == ESPL_OK)
		c->broken = status;
	atomic_store(&s->head->gone, 1);
	wake_all(&s->head->phase);
	return c->broken;
}

static espl_status
wait_phase(struct espl__comm *c, uint32_t phase)
{
	struct shm *s = c->state;
	struct head *h = s->head;
	int64_t deadline = espl__deadline(c->wait_limit), nap = 500000;

	for (int i = 0; i < s->spin; i++)
		if (atomic_load_explicit(&h->phase, memory_order_acquire) != phase)
			return ESPL_OK;
	for (;;) {
		if (atomic_load(&h->phase) != phase)
			return ESPL_OK;
		if (atomic_load(&h->gone))
			return break_shm(c, ESPL_E_PEER);
		futex_wait(&h->phase, phase, nap);
		if (atomic_load(&h->phase) != phase)
			return ESPL_OK;
		if (!are_all_alive(s, c->view.world, c->view.rank) &&
		    atomic_load(&h->phase) == phase)
			return break_shm(c, ESPL_E_PEER);
		if (deadline != 0 && espl__tick() >= deadline)
			return break_shm(c, ESPL_E_LIMIT);
		nap = nap * 2 < MAX_IDLE ? nap * 2 : MAX_IDLE;
	}
}

static espl_status
meet_ranks(struct espl__comm *c)
{
	struct shm *s = c->state;
	struct head *h = s->head;
	uint32_t phase = atomic_load(&h->phase);

	if (atomic_load(&h->gone)) /* a rank that gave up is still counted as arrived */
		return break_shm(c, ESPL_E_PEER);
	if (atomic_fetch_add(&h->arrived, 1) + 1 < c->view.world)
		return wait_phase(c, phase);
	atomic_store(&h->arrived, 0);
	atomic_store(&h->phase, phase + 1);
	wake_all(&h->phase);
	return ESPL_OK;
}

/* ---- collectives ------------------------------------------------------------------------- */

static espl_status
reduce_short(struct espl__comm *c, void *data, uint64_t count, espl_dtype type, espl_reduce how)
{
	struct shm *s = c->state;
	size_t each = espl__dtype_size(type);
	espl_status status;

	memcpy(area_of_rank(s, c->view.rank), data, count * each);
	status = meet_ranks(c);
	for (uint32_t k = 0; k < c->view.world && status == ESPL_OK; k++) {
		uint64_t lo = espl__chunk(count, c->view.world, k),
			 hi = espl__chunk(count, c->view.world, k + 1);

		espl__fold((uint8_t *)data + lo * each, area_of_rank(s, 0) + lo * each, 2 * HALF,
		    c->view.world, k, hi - lo, type, how);
	}
	next_half(s);
	return status;
}

/* Elements of chunk k that belong to the step at `done` with `piece` elements a chunk. */
static uint64_t
part_of_chunk(uint64_t count, uint32_t world, uint32_t k, uint64_t done, uint64_t piece,
    uint64_t *lo)
{
	uint64_t size = espl__chunk(count, world, k + 1) - espl__chunk(count, world, k);

	*lo = espl__chunk(count, world, k) + done;
	if (done >= size)
		return 0;
	return size - done < piece ? size - done : piece;
}

/* Each step takes a piece of every chunk: rank k folds the one of chunk k. */
static espl_status
shm_reduce(struct espl__comm *c, void *data, uint64_t count, espl_dtype type, espl_reduce how)
{
	struct shm *s = c->state;
	size_t each = espl__dtype_size(type);
	uint32_t n = c->view.world, me = c->view.rank;
	uint64_t piece = HALF / n / each, longest = count / n + (count % n != 0), lo, m;
	espl_status status = ESPL_OK;
	uint8_t *v = data;

	if (count * each <= SHORT)
		return reduce_short(c, data, count, type, how);
	if (piece == 0)
		return break_shm(c, ESPL_E_LIMIT);
	for (uint64_t done = 0; done < longest && status == ESPL_OK; done += piece) {
		for (uint32_t k = 0; k < n; k++) {
			m = part_of_chunk(count, n, k, done, piece, &lo);
			memcpy(area_of_rank(s, me) + k * piece * each, v + lo * each, m * each);
		}
		status = meet_ranks(c);
		if (status != ESPL_OK)
			break;
		m = part_of_chunk(count, n, me, done, piece, &lo);
		espl__fold(area_of_rank(s, n) + me * piece * each,
		    area_of_rank(s, 0) + me * piece * each, 2 * HALF, n, me, m, type, how);
		status = meet_ranks(c);
		for (uint32_t k = 0; k < n && status == ESPL_OK; k++) {
			m = part_of_chunk(count, n, k, done, piece, &lo);
			memcpy(v + lo * each, area_of_rank(s, n) + k * piece * each, m * each);
		}
		next_half(s);
	}
	return status;
}

static espl_status
shm_broadcast(struct espl__comm *c, void *data, uint64_t bytes, uint32_t root)
{
	struct shm *s = c->state;
	uint8_t *v = data;
	espl_status status = ESPL_OK;

	for (uint64_t at = 0, m; at < bytes && status == ESPL_OK; at += m) {
		m = bytes - at < HALF ? bytes - at : HALF;
		if (c->view.rank == root)
			memcpy(area_of_rank(s, root), v + at, m);
		status = meet_ranks(c);
		if (status == ESPL_OK && c->view.rank != root)
			memcpy(v + at, area_of_rank(s, root), m);
		next_half(s);
	}
	return status;
}

static espl_status
shm_gather(struct espl__comm *c, const void *in, void *out, uint64_t bytes)
{
	struct shm *s = c->state;
	uint8_t *v = out;
	espl_status status = ESPL_OK;

	if (v + c->view.rank * bytes != in)
		memmove(v + c->view.rank * bytes, in, bytes);
	for (uint64_t at = 0, m; at < bytes && status == ESPL_OK; at += m) {
		m = bytes - at < HALF ? bytes - at : HALF;
		memcpy(area_of_rank(s, c->view.rank), v + c->view.rank * bytes + at, m);
		status = meet_ranks(c);
		for (uint32_t r = 0; r < c->view.world && status == ESPL_OK; r++)
			if (r != c->view.rank)
				memcpy(v + r * bytes + at, area_of_rank(s, r), m);
		next_half(s);
	}
	return status;
}

/* ---- shards ------------------------------------------------------------------------------ */

struct plan {
	struct espl__span *spans;
	uint32_t *order;
	uint64_t step; /* elements of every shard at a time */
};

static espl_status
make_plan(struct espl__comm *c, struct plan *p, uint32_t first, uint32_t mine, uint32_t total,
    size_t each)
{
	struct shm *s = c->state;
	uint64_t most = 1;
	espl_status status;

	s->slots[c->view.rank].span = (struct espl__span){ first, mine };
	status = meet_ranks(c);
	for (uint32_t r = 0; r < c->view.world && status == ESPL_OK; r++) {
		p->spans[r] = s->slots[r].span;
		most = p->spans[r].mine > most ? p->spans[r].mine : most;
	}
	if (status == ESPL_OK && espl__shards_order(p->spans, c->view.world, total, p->order) != 0)
		return break_shm(c, ESPL_E_BUG);
	p->step = HALF / most / each;
	if (status == ESPL_OK && p->step == 0)
		return break_shm(c, ESPL_E_LIMIT);
	return status;
}

/* Elements lo..hi-1 of this step, shard by shard in their order. */
static void
sum_part(const struct shm *s, const struct plan *p, uint32_t world, uint8_t *out, uint64_t m,
    uint64_t lo, uint64_t hi, espl_dtype type)
{
	size_t each = espl__dtype_size(type);
	int begun = 0;

	for (uint32_t k = 0; k < world && hi > lo; k++) {
		uint32_t r = p->order[k];

		for (uint64_t i = 0; i < p->spans[r].mine; i++, begun = 1) {
			const uint8_t *shard = area_of_rank(s, r) + (i * m + lo) * each;

			if (begun)
				espl__combine(out + lo * each, shard, hi - lo, type, ESPL_SUM);
			else
				memcpy(out + lo * each, shard, (hi - lo) * each);
		}
	}
}

static espl_status
shards_step(struct espl__comm *c, const struct plan *p, const uint8_t *shards, uint8_t *out,
    uint64_t count, uint64_t at, uint64_t m, espl_dtype type)
{
	struct shm *s = c->state;
	uint32_t n = c->view.world, me = c->view.rank;
	size_t each = espl__dtype_size(type);
	espl_status status;

	for (uint64_t i = 0; i < p->spans[me].mine; i++)
		memcpy(area_of_rank(s, me) + i * m * each, shards + (i * count + at) * each,
		    m * each);
	status = meet_ranks(c);
	if (status == ESPL_OK && m * each <= SHORT) {
		sum_part(s, p, n, out + at * each, m, 0, m, type);
	} else if (status == ESPL_OK) {
		sum_part(s, p, n, area_of_rank(s, n), m, espl__chunk(m, n, me),
		    espl__chunk(m, n, me + 1), type);
		status = meet_ranks(c);
		if (status == ESPL_OK)
			memcpy(out + at * each, area_of_rank(s, n), m * each);
	}
	next_half(s);
	return status;
}

static espl_status
shm_shards(struct espl__comm *c, const void *shards, void *out, uint64_t count, espl_dtype type,
    uint32_t first, uint32_t mine, uint32_t total)
{
	struct plan p = { espl__alloc(c->view.world * sizeof *p.spans),
		espl__alloc(c->view.world * sizeof *p.order), 0 };
	espl_status status = make_plan(c, &p, first, mine, total, espl__dtype_size(type));

	for (uint64_t at = 0, m; at < count && status == ESPL_OK; at += m) {
		m = count - at < p.step ? count - at : p.step;
		status = shards_step(c, &p, shards, out, count, at, m, type);
	}
	free(p.spans);
	free(p.order);
	return status;
}

static espl_status
shm_look(struct espl__comm *c)
{
	const struct shm *s = c->state;

	return atomic_load(&s->head->gone) || !are_all_alive(s, c->view.world, c->view.rank)
	    ? break_shm(c, ESPL_E_PEER)
	    : ESPL_OK;
}

/* ---- beginning and end ------------------------------------------------------------------- */

static void
shm_finish(struct espl__comm *c)
{
	struct shm *s = c->state;

	atomic_store(&s->head->gone, 1);
	wake_all(&s->head->phase);
	for (uint32_t r = 0; r < c->view.world; r++)
		if (s->watches[r] >= 0)
			close(s->watches[r]);
	(void)munmap(s->head, s->size);
	free(s->watches);
	free(s->pids);
	free(s);
}

const struct espl__comm_way espl__comm_shm = { shm_reduce, shm_broadcast, shm_gather, meet_ranks,
	shm_shards, shm_look, shm_finish };

espl_status
espl__shm_open(struct espl__comm *c, const struct espl__met *met)
{
	struct shm *s = espl__alloc(sizeof *s);
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	ESPL__ASSERT(met->memory != NULL && met->size >= espl__shm_size(c->view.world));
	s->head = met->memory;
	s->size = met->size;
	s->slots = (struct slot *)(void *)((uint8_t *)met->memory + sizeof(struct head));
	s->areas = (uint8_t *)met->memory + front_size(c->view.world);
	s->pids = met->pids;
	s->spin = cpus > 0 && (uint32_t)cpus >= c->view.world ? 2000 : 0;
	s->watches = espl__alloc(c->view.world * sizeof *s->watches);
	for (uint32_t r = 0; r < c->view.world; r++) {
		s->watches[r] = -1;
#ifdef SYS_pidfd_open
		if (r != c->view.rank)
			s->watches[r] = (int)syscall(SYS_pidfd_open, s->pids[r], 0);
#endif
	}
	c->state = s;
	c->way = &espl__comm_shm;
	return ESPL_OK;
}
