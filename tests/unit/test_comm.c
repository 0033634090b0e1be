/* test_comm.c - gangs of one to eight processes through the communicator, both ways it has.
 *
 * A test forks its ranks; they share a piece of memory with it to write what they got.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "comm/comm.h"
#include "comm/comm_private.h"

#define SHARED (32u << 20)

struct gang;
typedef int rank_fn(struct gang *, struct espl__comm *); /* exit status of the rank */
struct gang {
	uint32_t world, rank, generation;
	int no_shm, listen_fd;
	uint32_t port;
	espl_span init_limit, wait_limit;
	uint8_t key;
	struct espl__diag diag;
	uint8_t *shared;
	int status[8];
	rank_fn *fn;
	long arg;
};

static void
open_gang(struct gang *g, uint32_t world, int no_shm)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	uint16_t port;

	memset(g, 0, sizeof *g);
	g->world = world;
	g->no_shm = no_shm;
	g->key = 99;
	g->init_limit = 60 * ESPL_SECOND;
	g->wait_limit = 60 * ESPL_SECOND;
	g->listen_fd = espl__net_listen((struct sockaddr *)&at, sizeof at, &port);
	cr_assert(g->listen_fd >= 0);
	g->port = port;
	g->shared = mmap(NULL, SHARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(g->shared != MAP_FAILED);
}

static void
close_gang(struct gang *g)
{
	close(g->listen_fd);
	munmap(g->shared, SHARED);
}

static espl_status
enter(struct gang *g, struct espl__comm **c)
{
	struct espl__comm_setup s = { .rank = g->rank,
		.world = g->world,
		.node_rank = g->rank,
		.node_world = g->world,
		.generation = g->generation,
		.key = { g->key },
		.master = "127.0.0.1",
		.port = g->port,
		.listen_fd = g->rank == 0 ? g->listen_fd : -1,
		.init_limit = g->init_limit,
		.wait_limit = g->wait_limit,
		.no_shm = g->no_shm };

	return espl__comm_init(&s, c, &g->diag);
}

static pid_t
fork_rank(struct gang *g, uint32_t rank)
{
	pid_t pid = fork();

	cr_assert(pid >= 0);
	if (pid == 0) {
		struct espl__comm *c;
		int code;

		g->rank = rank;
		alarm(120);
		if (enter(g, &c) != ESPL_OK)
			_exit(strstr(g->diag.text, "have the key of the gang") ? 101 : 100);
		code = g->fn(g, c);
		espl__comm_finish(c);
		_exit(code);
	}
	return pid;
}

/* Runs fn in all ranks; status[r] is its exit status, or -signal. */
static void
run(struct gang *g, rank_fn *fn, long arg)
{
	pid_t pids[8];

	g->fn = fn;
	g->arg = arg;
	for (uint32_t r = 0; r < g->world; r++)
		pids[r] = fork_rank(g, r);
	for (uint32_t r = 0; r < g->world; r++) {
		int status;

		cr_assert_eq(waitpid(pids[r], &status, 0), pids[r]);
		g->status[r] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
	}
}

static void
all_fine(const struct gang *g, const char *what)
{
	for (uint32_t r = 0; r < g->world; r++)
		cr_assert_eq(g->status[r], 0, "%s: rank %u of %u (%s) ended with %d", what, r,
		    g->world, g->no_shm ? "ring" : "shm", g->status[r]);
}

/* A number that depends on place and rank; not exact in single, so that orders matter. */
static float
value(uint32_t rank, uint64_t i)
{
	return (float)((rank * 2654435761u + (uint32_t)i * 40503u) % 100003) / 977.0f - 31.0f;
}

/* ---- what the ranks do ------------------------------------------------------------------- */

/* Sums and leaves rank 0's result in the shared memory; all ranks must have the same bits. */
static int
do_reduce(struct gang *g, struct espl__comm *c)
{
	uint64_t count = (uint64_t)g->arg;
	float *v = malloc((count + 1) * sizeof *v), *all, *shared = (float *)(void *)g->shared;
	int bad = 0;

	for (uint64_t i = 0; i < count; i++)
		v[i] = value(g->rank, i);
	if (c->view.allreduce(&c->view, v, v, count, ESPL_F32, ESPL_SUM) != ESPL_OK)
		return 2;
	if (g->rank == 0)
		memcpy(shared, v, count * sizeof *v);
	if (c->view.barrier(&c->view) != ESPL_OK)
		return 3;
	bad |= memcmp(shared, v, count * sizeof *v) != 0;
	for (uint64_t i = 0; i < count; i++) {
		double exact = 0;

		for (uint32_t r = 0; r < g->world; r++)
			exact += (double)value(r, i);
		bad |= fabs(exact - (double)v[i]) > 1e-3;
	}
	all = malloc(count * g->world * sizeof *all);
	for (uint64_t i = 0; i < count; i++)
		v[i] = value(g->rank, i);
	if (c->view.allgather(&c->view, v, all, count, ESPL_F32) != ESPL_OK)
		return 4;
	for (uint32_t r = 0; r < g->world; r++)
		for (uint64_t i = 0; i < count; i++)
			bad |= all[r * count + i] != value(r, i);
	if (c->view.broadcast(&c->view, v, count, ESPL_F32, g->world - 1) != ESPL_OK)
		return 5;
	for (uint64_t i = 0; i < count; i++)
		bad |= v[i] != value(g->world - 1, i);
	free(v);
	free(all);
	return bad;
}

static int
do_types(struct gang *g, struct espl__comm *c)
{
	const struct espl_comm *v = &c->view;
	uint32_t r = g->rank, n = g->world;
	double d[3] = { r, r == 0 ? NAN : 1.0, -(double)r };
	int32_t i32[2] = { (int32_t)r - 3, INT32_MAX };
	int64_t i64[1] = { (int64_t)r << 40 };
	uint8_t u8[2] = { (uint8_t)(r + 1), 200 };
	uint16_t half[3] = { 0x3c00, 0x3555, 0x7bff }, brain[2] = { 0x3f80, 0x4049 };
	double sum = n * (n - 1) / 2.0;
	int bad = 0;

	bad |= v->allreduce(v, d, d, 3, ESPL_F64, ESPL_MAX) != ESPL_OK || d[0] != n - 1 ||
	    !isnan(d[1]) || d[2] != 0;
	d[0] = r;
	bad |= v->reduce_host(v, d, 1, ESPL_MEAN) != ESPL_OK || d[0] != sum / n;
	d[0] = r + 1.0;
	bad |= v->reduce_host(v, d, 1, ESPL_MIN) != ESPL_OK || d[0] != 1.0;
	bad |= v->allreduce(v, i32, i32, 1, ESPL_I32, ESPL_MIN) != ESPL_OK || i32[0] != -3;
	bad |= v->allreduce(v, i32 + 1, i32 + 1, 1, ESPL_I32, ESPL_SUM) != ESPL_OK ||
	    i32[1] != (int32_t)(n * (uint32_t)INT32_MAX);
	bad |= v->allreduce(v, i64, i64, 1, ESPL_I64, ESPL_SUM) != ESPL_OK ||
	    i64[0] != (int64_t)sum << 40;
	bad |=
	    v->allreduce(v, u8, u8, 2, ESPL_U8, ESPL_MAX) != ESPL_OK || u8[0] != n || u8[1] != 200;
	bad |= v->allreduce(v, half, half, 3, ESPL_F16, ESPL_MEAN) != ESPL_OK ||
	    half[0] != 0x3c00 || half[1] != 0x3555 || half[2] != 0x7bff;
	bad |=
	    v->allreduce(v, brain, brain, 2, ESPL_BF16, ESPL_MAX) != ESPL_OK || brain[1] != 0x4049;
	bad |= v->allreduce(v, d, d, 1, 77, ESPL_SUM) != ESPL_E_BUG;
	bad |= v->broadcast(v, d, 1, ESPL_F64, n) != ESPL_E_BUG;
	bad |= v->wait(v) != ESPL_OK;
	return bad;
}

#define SHARDS 16u
/* arg: count, and (in the sign) whether the last ranks hold the first shards. */
static int
do_shards(struct gang *g, struct espl__comm *c)
{
	uint64_t count = (uint64_t)labs(g->arg);
	uint32_t r = g->arg < 0 ? g->world - 1 - g->rank : g->rank;
	uint32_t first = SHARDS * r / g->world, mine = SHARDS * (r + 1) / g->world - first;
	float *shards = malloc(count * mine * sizeof *shards + 4),
	      *out = malloc(count * sizeof *out);
	float *shared = (float *)(void *)g->shared;
	int bad = 0;

	for (int again = 0; again < 3; again++) {
		for (uint32_t s = 0; s < mine; s++)
			for (uint64_t i = 0; i < count; i++)
				shards[s * count + i] = value(first + s, i);
		if (c->view.sum_shards(&c->view, shards, out, count, ESPL_F32, first, mine,
			SHARDS) != ESPL_OK)
			return 2;
		for (uint64_t i = 0; i < count; i++) {
			float exact = value(0, i);

			for (uint32_t s = 1; s < SHARDS; s++)
				exact += value(s, i);
			bad |= memcmp(&exact, &out[i], sizeof exact) != 0;
		}
	}
	if (g->rank == 0)
		memcpy(shared, out, count * sizeof *out);
	free(shards);
	free(out);
	return bad;
}

static int
do_wrong_shards(struct gang *g, struct espl__comm *c)
{
	float one = 1, out;

	(void)g; /* every rank says that it has number 0 */
	return c->view.sum_shards(&c->view, &one, &out, 1, ESPL_F32, 0, 1, g->world) !=
	    ESPL_E_BUG ||
	    c->view.barrier(&c->view) == ESPL_OK;
}

static int
do_die(struct gang *g, struct espl__comm *c)
{
	static float v[200000];

	for (int i = 0;; i++) {
		espl_status status;

		if (g->rank == (uint32_t)g->arg && i == 5)
			raise(SIGKILL);
		status =
		    c->view.allreduce(&c->view, v, v, i % 2 == 0 ? 200000 : 3, ESPL_F32, ESPL_SUM);
		if (status != ESPL_OK) /* and it stays so */
			return status != ESPL_E_PEER || c->view.barrier(&c->view) != ESPL_E_PEER ||
			    c->view.wait(&c->view) != ESPL_E_PEER;
	}
}

static int
do_leave(struct gang *g, struct espl__comm *c)
{
	if (g->rank == (uint32_t)g->arg)
		return 0; /* finishes while the others wait for it */
	return c->view.barrier(&c->view) != ESPL_E_PEER;
}

static int
do_hang(struct gang *g, struct espl__comm *c)
{
	espl_status status;

	if (g->rank == 1)
		(void)poll(NULL, 0, 400);
	status = c->view.barrier(&c->view);
	return status != ESPL_E_LIMIT && status != ESPL_E_PEER;
}

/* Told late, whatever the limit of other waits is. */
static int
do_tell(struct gang *g, struct espl__comm *c)
{
	uint64_t word = g->rank == 0 ? 4711 : 0;

	if (g->rank == 0)
		(void)poll(NULL, 0, 100);
	return espl__comm_send_all(c, &word, sizeof word, 0) != ESPL_OK || word != 4711;
}

/* ---- tests ------------------------------------------------------------------------------- */

Test(comm, sums_are_the_same_to_the_bit_both_ways)
{
	static const long counts[] = { 1, 7, 3000, 100003 };

	for (uint32_t world = 1; world <= 8; world += world < 4 ? 1 : 2 - world % 2)
		for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
			struct gang shm, ring;

			open_gang(&shm, world, 0);
			open_gang(&ring, world, 1);
			run(&shm, do_reduce, counts[i]);
			run(&ring, do_reduce, counts[i]);
			all_fine(&shm, "reduce");
			all_fine(&ring, "reduce");
			cr_assert_eq(memcmp(shm.shared, ring.shared, (size_t)counts[i] * 4), 0,
			    "world %u, %ld numbers", world, counts[i]);
			close_gang(&shm);
			close_gang(&ring);
		}
	for (int no_shm = 0; no_shm < 2; no_shm++) { /* longer than an area of shared memory */
		struct gang g;

		open_gang(&g, 3, no_shm);
		run(&g, do_reduce, 2500000);
		all_fine(&g, "long reduce");
		close_gang(&g);
	}
}

Test(comm, knows_all_types)
{
	for (int no_shm = 0; no_shm < 2; no_shm++)
		for (uint32_t world = 1; world <= 5; world += 2) {
			struct gang g;

			open_gang(&g, world, no_shm);
			run(&g, do_types, 0);
			all_fine(&g, "types");
			close_gang(&g);
		}
	for (uint32_t h = 0; h < 0x10000; h++) { /* every half survives being widened */
		uint16_t half = (uint16_t)h, back;
		float wide;

		if ((half & 0x7c00) == 0x7c00 && (half & 0x3ff) != 0)
			continue;
		espl__widen(&wide, &half, 1, ESPL_F16);
		espl__narrow(&back, &wide, 1, ESPL_F16);
		cr_assert_eq(back, half, "%04x became %04x", half, back);
	}
	{
		static const struct {
			float f;
			uint16_t half, brain;
		} known[] = {
			{ 65519.0f, 0x7bff, 0x4780 },
			{ 65520.0f, 0x7c00, 0x4780 },
			{ 1.00048828125f, 0x3c00, 0x3f80 },
			{ 1.001f, 0x3c01, 0x3f80 },
			{ 0x1p-25f, 0x0000, 0x3300 },
			{ 0x1.8p-24f, 0x0002, 0x33c0 },
			{ -2.0f, 0xc000, 0xc000 },
		};

		for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
			uint16_t half, brain;

			espl__narrow(&half, &known[i].f, 1, ESPL_F16);
			espl__narrow(&brain, &known[i].f, 1, ESPL_BF16);
			cr_assert_eq(half, known[i].half, "%a -> %04x", (double)known[i].f, half);
			cr_assert_eq(brain, known[i].brain, "%a -> %04x", (double)known[i].f,
			    brain);
		}
	}
}

Test(comm, shards_sum_alike_in_every_world)
{
	static const long counts[] = { 1, 1000, 70001, -1000, -20000 };
	static const uint32_t worlds[] = { 1, 2, 3, 4, 8 };

	for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++)
		for (int no_shm = 0; no_shm < 2; no_shm++)
			for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
				struct gang g;

				open_gang(&g, worlds[w], no_shm);
				run(&g, do_shards, counts[i]);
				all_fine(&g, "shards");
				close_gang(&g);
			}
	for (int no_shm = 0; no_shm < 2; no_shm++) {
		struct gang g;

		open_gang(&g, 3, no_shm);
		run(&g, do_wrong_shards, 0);
		all_fine(&g, "wrong shards");
		close_gang(&g);
	}
}

Test(comm, a_lost_rank_is_seen_by_all)
{
	for (int no_shm = 0; no_shm < 2; no_shm++)
		for (long who = 0; who < 4; who += 3) {
			struct gang g;

			open_gang(&g, 4, no_shm);
			run(&g, do_die, who);
			cr_assert_eq(g.status[who], -SIGKILL);
			g.status[who] = 0;
			all_fine(&g, "a killed rank");
			run(&g, do_leave, who);
			all_fine(&g, "a rank that left");
			g.wait_limit = ESPL_SECOND / 20;
			run(&g, do_hang, 0);
			all_fine(&g, "a rank that hangs");
			run(&g, do_tell, 0);
			all_fine(&g, "a late word");
			close_gang(&g);
		}
}

static int
do_nothing(struct gang *g, struct espl__comm *c)
{
	(void)g;
	return c->view.barrier(&c->view) != ESPL_OK;
}

/* Two generations over one door, the second with another world. */
static int
do_resize(struct gang *g, struct espl__comm *c)
{
	struct espl__comm *next;
	uint32_t old = g->world;
	int bad = c->view.barrier(&c->view) != ESPL_OK;

	g->generation++;
	g->world = (uint32_t)g->arg;
	if (g->rank >= g->world || bad)
		return bad;
	if (enter(g, &next) != ESPL_OK)
		return 50;
	bad = next->view.generation != 1 || next->view.world != g->world || do_types(g, next);
	espl__comm_finish(next);
	g->world = old;
	return bad;
}

static int
rude(uint32_t port, const void *bytes, size_t size)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
	cr_assert(size == 0 || send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size);
	return fd;
}

Test(comm, meets_only_its_own)
{
	struct gang g;
	int a, b;

	open_gang(&g, 3, 0); /* strangers are at the door first */
	a = rude(g.port,
	    "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\nxxxxxxxxxxxxx", 65);
	b = rude(g.port, "", 0);
	close(b);
	run(&g, do_nothing, 0);
	all_fine(&g, "strangers");
	close(a);
	run(&g, do_resize, 2);
	all_fine(&g, "resize");
	close_gang(&g);
	open_gang(&g, 2, 0); /* one is missing: told, not waited for */
	g.init_limit = ESPL_SECOND / 10;
	g.fn = do_nothing;
	{
		pid_t pid = fork_rank(&g, 0);
		int status;

		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 100);
		pid = fork_rank(&g, 1);
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 100);
	}
	close_gang(&g);
}

/* Bytes of rank 0 that an eavesdropper may have: a challenge, an offer and a table. */
static pid_t
fork_impostor(int door)
{
	pid_t pid = fork();

	cr_assert(pid >= 0);
	if (pid == 0) {
		int64_t until = espl__deadline(20 * ESPL_SECOND);
		uint8_t bytes[512] = { 0 };
		int fd;

		alarm(60);
		if (espl__net_accept(door, until, &fd) != ESPL_OK ||
		    espl__net_send(fd, bytes, 16, until) != ESPL_OK ||
		    espl__net_recv(fd, bytes, 88, until) != ESPL_OK)
			_exit(1);
		memset(bytes + 8, 0, sizeof bytes - 8); /* a knock's magic number is an offer's */
		_exit(espl__net_send(fd, bytes, sizeof bytes, until) == ESPL_OK ? 0 : 2);
	}
	return pid;
}

Test(comm, nobody_without_the_key_is_let_in)
{
	struct gang g;
	pid_t pids[2];
	int status;

	open_gang(&g, 2, 0);
	g.init_limit = 2 * ESPL_SECOND;
	g.fn = do_nothing;
	pids[0] = fork_rank(&g, 0);
	g.key++;
	pids[1] = fork_rank(&g, 1);
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(waitpid(pids[i], &status, 0), pids[i]);
		cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 100, "rank %d", i);
	}
	pids[0] = fork_impostor(g.listen_fd);
	pids[1] = fork_rank(&g, 1);
	cr_assert_eq(waitpid(pids[0], &status, 0), pids[0]);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the impostor: %d", status);
	cr_assert_eq(waitpid(pids[1], &status, 0), pids[1]);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 101, "with an impostor");
	close_gang(&g);
}
