/* agent_relay.c - an agent with a private disk: checkpoints and logs are sent to the driver, and
 * checkpoints are received from it.  Output files: agent_outputs.c.
 *
 * {"saved": n} reaches the driver when the checkpoint is durable there. A trial never waits for
 * this; but it has not ended before its last checkpoint and the end of its log have arrived.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent.h"
#include "checkpoint/checkpoint.h"
#include "transfer/mover.h"
#include "transfer/pack.h"
#include "transfer/stored.h"

#define MS INT64_C(1000000)
#define OUT_MOST ((size_t)128 << 10) /* unsent bytes beyond which no chunk is added */
#define TAIL_SIZE ((size_t)16 << 10)
#define TAIL_PAUSE (500 * MS)
#define NAME_ROOM 64
#define FETCHES_MOST 5
#define FETCH_PAUSE (500 * MS) /* doubled each time */

/* How much of a trial's log the driver has. */
struct espl__tail {
	uint64_t trial, arrived;
	int waiting; /* for a TAILED */
	int64_t at;  /* not looked at before */
};

/* ---- names -------------------------------------------------------------------------------- */

static void
print_name(char to[NAME_ROOM], uint64_t trial, uint64_t checkpoint)
{
	(void)snprintf(to, NAME_ROOM, "%" PRIu64 "/checkpoint-%" PRIu64, trial, checkpoint);
}

static char *
find_place(void *ctx, const char *name, int incoming)
{
	const struct espl__agent *a = ctx;

	(void)incoming; /* the driver is trusted */
	return espl__named_place(a->dir, name);
}

/* ---- tasks -------------------------------------------------------------------------------- */

struct move_task {
	struct espl__task head;
	struct espl__move *move;
};

static void
run_move(struct espl__task *job)
{
	espl__move_work(((struct move_task *)job)->move);
}

static void
end_move(struct espl__agent *a, struct espl__task *job)
{
	struct espl__move *move = ((struct move_task *)job)->move;

	(void)a;
	free(job);
	espl__move_done(move, espl__tick());
}

static void
start_move(void *ctx, struct espl__move *move)
{
	struct move_task *t = espl__alloc(sizeof *t);

	t->head.run = run_move;
	t->head.done = end_move;
	t->move = move;
	espl__agent_job(ctx, &t->head);
}

/* ---- trials that were here ----------------------------------------------------------------- */

static struct espl__tail *
find_tail(struct espl__agent *a, uint64_t trial)
{
	for (uint32_t i = 0; i < a->tail_count; i++)
		if (a->tails[i].trial == trial)
			return &a->tails[i];
	ESPL__GROW(a->tails, a->tail_cap, a->tail_count + 1);
	a->tails[a->tail_count] = (struct espl__tail){ .trial = trial };
	return &a->tails[a->tail_count++];
}

/* Checkpoints of trials that are elsewhere now are kept as long as there is room: they may come
 * back.  The driver has all of them. */
static void
make_room(struct espl__agent *a)
{
	struct statvfs st;

	if (statvfs(a->dir, &st) != 0 || st.f_bavail >= st.f_blocks / 4)
		return;
	for (uint32_t i = 0; i < a->tail_count; i++)
		espl__files_collect(a, a->tails[i].trial, 0);
}

/* ---- checkpoints to the driver ------------------------------------------------------------ */

static void
put_next(struct espl__agent_gang *g)
{
	char name[NAME_ROOM];

	g->putting = g->unsent;
	g->putting_bytes = g->unsent_bytes;
	g->unsent = 0;
	if (g->putting == 0)
		return;
	print_name(name, g->start.trial, g->putting);
	espl__mover_put(g->agent->mover, name);
}

/* One that is sealed while another is sent waits; a newer one replaces it. */
void
espl__relay_save(struct espl__agent_gang *g, uint64_t iteration, uint64_t bytes)
{
	ESPL__CHECK(g, AGENT_GANG);
	g->unsent = iteration;
	g->unsent_bytes = bytes;
	make_room(g->agent);
	if (g->putting == 0)
		put_next(g);
}

static void
on_put(void *ctx, const char *name, const struct espl__diag *diag)
{
	struct espl__agent *a = ctx;
	uint64_t trial, checkpoint;

	if (espl__outputs_put(a, name, diag) ||
	    espl__checkpoint_name(name, &trial, &checkpoint) != 0)
		return;
	for (uint32_t i = 0; i < a->gang_count; i++) {
		struct espl__agent_gang *g = a->gangs[i];
		char *text;

		if (g->start.trial != trial || g->putting != checkpoint)
			continue;
		if (diag->status == ESPL_OK) {
			espl__files_tell_saved(g, checkpoint, g->putting_bytes);
			put_next(g);
			return;
		}
		g->putting = g->unsent = 0;
		text =
		    espl__format("saving: it cannot be sent to the run directory: %s", diag->text);
		espl__gang_excuse(g, text);
		free(text);
		return;
	}
}

/* ---- checkpoints from the driver ---------------------------------------------------------- */

void
espl__relay_fetch(struct espl__agent_gang *g)
{
	char name[NAME_ROOM];

	ESPL__CHECK(g, AGENT_GANG);
	make_room(g->agent);
	(void)find_tail(g->agent, g->start.source);
	print_name(name, g->start.source, g->start.checkpoint);
	g->fetching = 1;
	g->fetch_at = 0;
	g->fetches++;
	espl__mover_get(g->agent->mover, name);
}

/* ---- the files of the search -------------------------------------------------------------- */

/* The name of what a gang works in, if that is below the run directory; else NULL. */
static const char *
find_files(const struct espl__agent_gang *g)
{
	const char *dir = g->agent->run_dir;
	size_t size = dir != NULL ? strlen(dir) : 0;

	if (g->agent->mover == NULL || size == 0 || strncmp(g->wanted, dir, size) != 0 ||
	    g->wanted[size] != '/' || !espl__is_files_name(g->wanted + size + 1))
		return NULL;
	return g->wanted + size + 1;
}

int
espl__relay_files(struct espl__agent_gang *g)
{
	const char *name;

	ESPL__CHECK(g, AGENT_GANG);
	g->wanted = g->start.directory;
	name = find_files(g);
	if (name == NULL)
		return 0;
	g->files = espl__format("%s/%s", g->agent->dir, name);
	g->start.directory = g->files;
	if (espl__stored_digest(g->files) != 0) /* a run's files never change */
		return 0;
	g->fetching = g->lacks_files = 1;
	espl__mover_get(g->agent->mover, name);
	return 1;
}

static struct espl__agent_gang *
find_lacking(const struct espl__agent *a, const char *name)
{
	for (uint32_t i = 0; i < a->gang_count; i++)
		if (a->gangs[i]->lacks_files && strcmp(find_files(a->gangs[i]), name) == 0)
			return a->gangs[i];
	return NULL;
}

/* Gangs that waited for them begin. */
static void
take_files(struct espl__agent *a, const char *name, const struct espl__diag *diag)
{
	struct espl__agent_gang *g;

	if (diag->status == ESPL_OK)
		espl__agent_log(a, ESPL_INFO, "the files of the search have arrived");
	while ((g = find_lacking(a, name)) != NULL) {
		g->fetching = g->lacks_files = 0;
		if (diag->status == ESPL_OK) {
			g->steps->begin(g);
		} else {
			char *text = espl__format("run folder: the files of the search: %s",
			    espl__reason(diag));

			g->steps->claimed(g, text);
			free(text);
		}
	}
}

static struct espl__agent_gang *
find_fetching(const struct espl__agent *a, uint64_t source, uint64_t checkpoint)
{
	for (uint32_t i = 0; i < a->gang_count; i++)
		if (a->gangs[i]->fetching && !a->gangs[i]->lacks_files &&
		    a->gangs[i]->start.source == source &&
		    a->gangs[i]->start.checkpoint == checkpoint)
			return a->gangs[i];
	return NULL;
}

/* It was not fetched, and not because it is missing or damaged. */
static void
fetch_failed(struct espl__agent_gang *g, const struct espl__diag *diag)
{
	int died = diag->status == ESPL__COURIER_DIED;
	int64_t pause = FETCH_PAUSE << (g->fetches - 1);
	char *text, name[48];

	if (died && g->fetches < FETCHES_MOST) {
		g->fetch_at = espl__tick() + pause;
		espl__agent_log(g->agent, ESPL_WARN,
		    "checkpoint %" PRIu64 " of trial %s is fetched again in %.1f s: %s",
		    g->start.checkpoint, espl__trial_name(g->start.source, name),
		    (double)pause / (double)ESPL_SECOND, diag->text);
		return;
	}
	if (died)
		text = espl__format("checkpoint %" PRIu64 " of trial %s could not be fetched: %s",
		    g->start.checkpoint, espl__trial_name(g->start.source, name), diag->text);
	else
		text = espl__format("%s: %s",
		    diag->status == ESPL__COURIER_REFUSED ? "store" : "run folder",
		    diag->status == ESPL__COURIER_REFUSED ? diag->text : espl__reason(diag));
	g->steps->claimed(g, text);
	free(text);
}

static void
on_got(void *ctx, const char *name, const struct espl__diag *diag)
{
	struct espl__agent *a = ctx;
	struct espl__agent_gang *g;
	uint64_t source, checkpoint;

	if (espl__is_files_name(name))
		take_files(a, name, diag);
	if (espl__checkpoint_name(name, &source, &checkpoint) != 0)
		return;
	while ((g = find_fetching(a, source, checkpoint)) != NULL) {
		g->fetching = 0;
		if (diag->status == ESPL_OK) {
			espl__files_verify(g);
		} else if (espl__checkpoint_is_system(diag->status)) {
			fetch_failed(g, diag);
		} else {
			g->steps->prepared(g, diag);
		}
	}
}

/* ---- logs --------------------------------------------------------------------------------- */

/* Sends more of the log, if there is more. */
static void
send_tail(struct espl__agent_gang *g, struct espl__tail *t)
{
	struct espl__buf *out = &g->agent->outbox;
	char *path = espl__format("%s/log", g->dir);
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char block[TAIL_SIZE];
	ssize_t got = fd < 0 ? 0 : pread(fd, block, sizeof block, (off_t)t->arrived);
	size_t mark;

	if (fd >= 0)
		close(fd);
	free(path);
	if (got <= 0)
		return;
	mark = espl__frame_begin(out, ESPL__MSG_TAIL);
	espl__put_v64(out, t->trial);
	espl__put_v64(out, t->arrived);
	espl__put_bytes(out, block, (size_t)got);
	espl__frame_end(out, mark);
	t->waiting = 1;
}

static int
take_tailed(struct espl__agent *a, struct espl__reader *r)
{
	uint64_t trial = espl__get_v64(r), offset = espl__get_v64(r);
	struct espl__tail *t;

	if (r->bad || r->at != r->end)
		return -1;
	t = find_tail(a, trial);
	if (t->waiting && offset >= t->arrived) {
		t->arrived = offset;
		t->waiting = 0;
		t->at = 0;
	}
	return 0;
}

int
espl__relay_settled(struct espl__agent_gang *g)
{
	struct espl__tail *t;

	ESPL__CHECK(g, AGENT_GANG);
	if (g->agent->mover == NULL || g->agent->ending)
		return 1;
	if (g->putting != 0 || g->fetching)
		return 0;
	t = find_tail(g->agent, g->start.trial);
	if (!t->waiting && g->launched)
		send_tail(g, t);
	return !t->waiting && espl__outputs_settled(g);
}

/* ---- the agent's turns -------------------------------------------------------------------- */

int64_t
espl__relay_tend(struct espl__agent *a, int64_t now)
{
	int64_t next = 0;

	if (a->mover == NULL)
		return 0;
	for (uint32_t i = 0; i < a->gang_count; i++) {
		struct espl__agent_gang *g = a->gangs[i];
		struct espl__tail *t;
		int64_t outputs_at;

		if (g->fetch_at != 0 && now >= g->fetch_at)
			espl__relay_fetch(g);
		if (g->fetch_at != 0 && (next == 0 || g->fetch_at < next))
			next = g->fetch_at;
		if (!g->launched)
			continue;
		t = find_tail(a, g->start.trial);
		if (!t->waiting && now >= t->at) {
			send_tail(g, t);
			t->at = now + TAIL_PAUSE;
		}
		if (!t->waiting && (next == 0 || t->at < next))
			next = t->at;
		outputs_at = espl__outputs_tend(g, now);
		if (outputs_at != 0 && (next == 0 || outputs_at < next))
			next = outputs_at;
	}
	for (;;) {
		size_t unsent;

		espl__agent_flush(a);
		unsent = espl__agent_unsent(a);
		if (a->ending || a->unread || unsent >= OUT_MOST ||
		    espl__mover_pump(a->mover, &a->outbox, a->outbox_at + OUT_MOST, now) == 0)
			return next;
	}
}

int
espl__relay_receive(struct espl__agent *a, uint8_t type, struct espl__reader *r)
{
	if (a->mover == NULL)
		return -1;
	return type == ESPL__MSG_TAILED ? take_tailed(a, r)
					: espl__mover_receive(a->mover, type, r, espl__tick());
}

int
espl__relay_begin(struct espl__agent *a)
{
	struct espl__mover_ops ops = { .ctx = a,
		.place = find_place,
		.work = start_move,
		.put = on_put,
		.got = on_got,
		.line = espl__courier_line,
		.gone = espl__courier_gone };

	ESPL__CHECK(a, AGENT);
	if (espl__home_make(a) != 0)
		return -1;
	a->mover = espl__mover_new(&ops, (uint64_t)espl__tick());
	return 0;
}

void
espl__relay_again(struct espl__agent *a)
{
	if (a->mover == NULL)
		return;
	for (uint32_t i = 0; i < a->tail_count; i++)
		a->tails[i].waiting = 0;
	espl__mover_restart(a->mover);
}

void
espl__relay_free(struct espl__agent *a)
{
	espl__mover_free(a->mover);
	free(a->tails);
}
