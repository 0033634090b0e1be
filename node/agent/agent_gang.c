/* agent_gang.c - the life of a gang on this node, from START to ENDED.
 *
 * A gang has ended when the supervisors of all its ranks have, that is, when every process that
 * descends from it is gone. Nothing here blocks; the loop calls espl__gang_tend, which does what is
 * due.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent_gpu.h"
#include "agent/agent_sup.h"
#include "agent/agent_warm.h"
#include "agent/sweep.h"

#define MS INT64_C(1000000)
#define GIVE_UP (10000 * MS) /* SIGKILL works at once, unless a disk or driver hangs */

/* ---- what follows a step that ended ------------------------------------------------------- */

/* What never ran is gone; what runs is killed. */
static void
call_off(struct espl__agent_gang *g)
{
	for (uint32_t i = 0; i < g->start.rank_count; i++)
		if (g->ranks[i].state == ESPL__RANK_NONE) {
			g->ranks[i].state = ESPL__RANK_GONE;
			g->ranks[i].code = g->culprit == (int)i ? g->ranks[i].code : -SIGKILL;
			g->gone++;
			espl__gpus_leave(&g->ranks[i]);
		}
	if (g->gone < g->start.rank_count)
		espl__gang_kill(g, 0);
}

static void
gang_prepared(struct espl__agent_gang *g, const struct espl__diag *diag)
{
	char name[48];

	ESPL__CHECK(g, AGENT_GANG);
	if (g->ending) { /* KILL came first */
		call_off(g);
		return;
	}
	if (diag != NULL && diag->status != ESPL_OK) {
		espl__rank_fail(&g->ranks[0], "no checkpoint: %" PRIu64 " of trial %s: %s",
		    g->start.checkpoint, espl__trial_name(g->start.source, name), diag->text);
		call_off(g);
	} else {
		espl__gpus_claim(g);
	}
}

/* Its ranks wait for one another only for a limited time; another node may have to be set up. */
static void
await_others(struct espl__agent_gang *g)
{
	struct espl__buf *out = &g->agent->outbox;
	size_t mark = espl__frame_begin(out, ESPL__MSG_PREPARED);

	espl__put_v64(out, g->start.gang);
	espl__frame_end(out, mark);
	g->prepared = 1;
}

static void
gang_claimed(struct espl__agent_gang *g, const char *why_not)
{
	ESPL__CHECK(g, AGENT_GANG);
	if (g->start.together && !g->ending && why_not == NULL) {
		await_others(g);
		return;
	}
	if (why_not != NULL)
		espl__rank_fail(&g->ranks[0], "%s", why_not);
	if (g->ending || why_not != NULL || espl__gang_launch(g) != 0)
		call_off(g);
}

static void
gang_begin(struct espl__agent_gang *g)
{
	ESPL__CHECK(g, AGENT_GANG);
	if (espl__setup_awaited(g))
		return;
	/* A trainable's checkpoint is read by rank 0 alone: other nodes need not have it. */
	if (g->restore[0] != '\0' && (g->leads || g->start.argc > 0)) {
		if (g->agent->mover != NULL)
			espl__relay_fetch(g);
		else
			espl__files_verify(g);
	} else {
		gang_prepared(g, NULL);
	}
}

/* A sealed checkpoint is reported, or on its way to the driver first. */
static void
gang_sealed(struct espl__agent_gang *g, uint64_t iteration, uint64_t bytes)
{
	ESPL__CHECK(g, AGENT_GANG);
	if (g->agent->mover != NULL)
		espl__relay_save(g, iteration, bytes);
	else
		espl__files_tell_saved(g, iteration, bytes);
}

static void
gang_saved(struct espl__agent_gang *g, uint64_t iteration, const struct espl__diag *diag)
{
	ESPL__CHECK(g, AGENT_GANG);
	if (diag->status != ESPL_OK)
		espl__report_garbage(g, "{\"saved\": %" PRIu64 "}: %s", iteration, diag->text);
	else
		espl__report_take(g);
}

static const struct espl__gang_steps steps = { .begin = gang_begin,
	.prepared = gang_prepared,
	.claimed = gang_claimed,
	.sealed = gang_sealed,
	.saved = gang_saved };

/* ---- start ------------------------------------------------------------------------------- */

static char *
restored_from(const char *dir, const struct espl__start *start)
{
	char *folder = espl__trial_dir(dir, start->source);
	char *path = espl__format("%s/checkpoint-%" PRIu64, folder, start->checkpoint);

	free(folder);
	return path;
}

static struct espl__agent_gang *
make_gang(struct espl__agent *a, const struct espl__start *start, const struct espl__arena *memory)
{
	struct espl__agent_gang *g = espl__alloc(sizeof *g);

	g->magic = ESPL__AGENT_GANG_MAGIC;
	g->agent = a;
	g->steps = &steps;
	g->start = *start;
	g->start_memory = *memory;
	g->culprit = -1;
	g->report = g->saving.fd = -1;
	g->leads = start->ranks[0].rank == 0;
	g->dir = espl__trial_dir(a->dir, start->trial);
	g->params = espl__format("%s/params.json", g->dir);
	g->saving.path = espl__format("%s/saving-%" PRIu64, g->dir, start->gang);
	if (start->checkpoint != 0)
		g->restore = restored_from(a->dir, start);
	else
		g->restore = espl__strdup("");
	g->ranks = espl__alloc(start->rank_count * sizeof *g->ranks);
	for (uint32_t i = 0; i < start->rank_count; i++) {
		struct espl__agent_rank *r = &g->ranks[i];

		r->gang = g;
		r->index = i;
		r->link = r->scratch.fd = r->control = -1;
		r->rank = r->was = start->ranks[i].rank;
		r->scratch.path = espl__format("%s/scratch-%" PRIu64 ".%" PRIu32, g->dir,
		    start->gang, start->ranks[i].rank);
	}
	ESPL__GROW(a->gangs, a->gang_cap, a->gang_count + 1);
	a->gangs[a->gang_count++] = g;
	espl__map_set(&a->by_id, start->gang, g);
	return g;
}

void
espl__gang_start(struct espl__agent *a, struct espl__start *start, struct espl__arena *memory)
{
	struct espl__agent_gang *g;

	ESPL__CHECK(a, AGENT);
	ESPL__ASSERT(start->rank_count > 0 && memory != NULL);
	if (espl__gang_find(a, start->gang) != NULL) {
		espl__agent_log(a, ESPL_ERROR, "gang %" PRIu64 " was started twice", start->gang);
		espl__arena_free(memory);
		return;
	}
	g = make_gang(a, start, memory);
	if (!espl__relay_files(g))
		gang_begin(g);
}

/* ---- end --------------------------------------------------------------------------------- */

/* Kill the processes left by a rank that left its gang; the other ranks continue. */
static void
sweep_after(const struct espl__agent_rank *r)
{
	char what = ESPL__SUP_KILL;

	while (send(r->link, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static uint32_t
count_in(const struct espl__agent_gang *g, enum espl__rank_state state)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->start.rank_count; i++)
		n += g->ranks[i].state == state;
	return n;
}

static void
rank_runs(struct espl__agent_rank *r)
{
	struct espl__agent_gang *g = r->gang;
	struct espl__buf *out = &g->agent->outbox;
	size_t mark;

	r->state = ESPL__RANK_RUNS;
	if (++g->running < g->start.rank_count || g->start_reported)
		return;
	g->start_reported = 1; /* from now on rank 0 is read */
	g->agent->changed = 1;
	mark = espl__frame_begin(out, ESPL__MSG_STARTED);
	espl__put_v64(out, g->start.gang);
	espl__put_u32(out, g->leads && g->start.trainable != NULL ? g->port : 0);
	espl__frame_end(out, mark);
	espl__agent_keep(g, mark);
}

/* Which rank failed first?  One that only missed another is not to blame if a better one comes,
 * even if that was asked to end in between. */
static void
blame_rank(struct espl__agent_rank *r)
{
	struct espl__agent_gang *g = r->gang;
	int missed = g->culprit >= 0 && g->ranks[g->culprit].code == ESPL__EXIT_PEER;

	/* a SIGKILL before ours was sent by another process */
	if (r->code == 0 ||
	    (r->by_us && (!missed || r->code == -SIGTERM || (r->code == -SIGKILL && g->killing))))
		return;
	if (g->culprit < 0 || (missed && r->code != ESPL__EXIT_PEER))
		g->culprit = (int)r->index;
}

/* Ranks on other nodes may not notice before they need this one. */
static void
report_failed(const struct espl__agent_rank *r)
{
	const struct espl__agent_gang *g = r->gang;
	struct espl__buf *out = &g->agent->outbox;
	size_t mark;

	if (g->start.nodes == 1 && g->start.join.generation == 0 && g->slots_generation == 0)
		return;
	mark = espl__frame_begin(out, ESPL__MSG_FAILED);
	espl__put_v64(out, g->start.gang);
	espl__put_v64(out, r->rank);
	espl__frame_end(out, mark);
}

static void
rank_exited(struct espl__agent_rank *r, int code)
{
	struct espl__agent_gang *g = r->gang;

	r->state = ESPL__RANK_EXITED;
	r->code = code;
	blame_rank(r);
	if (code != 0 && !r->by_us) {
		report_failed(r);
		espl__gpus_failed(g);
	}
	if (count_in(g, ESPL__RANK_EXITED) + g->gone == g->start.rank_count) {
		espl__gang_kill_now(g); /* whatever they left behind */
	} else if (code == 0 && r->leaves) {
		sweep_after(r);
	} else if (code != 0 && !r->by_us) {
		espl__gang_kill(g, g->start.grace_ms);
	} else if (r->rank == 0 && code == 0 && !g->ending) {
		g->linger_until = espl__tick() + (int64_t)g->start.grace_ms * MS + 1;
	}
}

static void
rank_gone(struct espl__agent_rank *r)
{
	struct espl__agent_gang *g = r->gang;
	int early = r->state == ESPL__RANK_STARTING || r->state == ESPL__RANK_RUNS;

	espl__launch_forget(r);
	close(r->link);
	r->link = -1;
	r->state = ESPL__RANK_GONE;
	g->gone++;
	g->agent->changed = 1;
	espl__gpus_leave(r);
	if (early && r->text == NULL) { /* its supervisor was killed: it dies with it */
		r->code = -SIGKILL;
		g->agent->strays = 1;
		if (!r->by_us && g->culprit < 0)
			g->culprit = (int)r->index;
		if (!r->by_us)
			report_failed(r);
	}
	if (g->culprit == (int)r->index && g->gone < g->start.rank_count)
		espl__gang_kill(g, r->text != NULL ? 0 : g->start.grace_ms);
}

/* The text goes into the driver's journal, which must not contain paths of this machine: they are
 * in a log line. */
static void
report_no_start(struct espl__agent_rank *r, const struct espl__sup_note *note)
{
	const struct espl__start *t = &r->gang->start;
	const char *program = t->trainable != NULL   ? "espalier-worker"
	    : t->metrics[0] != '\0' && r->index == 0 ? "espalier-listen"
						     : t->argv[0];
	char name[48];

	switch (note->what) {
	case ESPL__SUP_NO_EXEC:
		espl__rank_fail(r, "cannot run '%s': %s", program, strerror(note->value));
		break;
	case ESPL__SUP_NO_FOLDER:
		espl__rank_fail(r, "cannot enter the working directory: %s" ESPL__LACKS_FOLDER,
		    strerror(note->value));
		espl__agent_log(r->gang->agent, ESPL_WARN,
		    "trial %s: cannot enter '%s': %s" ESPL__LACKS_FOLDER,
		    espl__trial_name(t->trial, name), t->directory, strerror(note->value));
		break;
	case ESPL__SUP_NO_LIMIT:
		espl__rank_fail(r, "cannot limit the size of its files to %" PRId64 " bytes: %s",
		    t->file_max, strerror(note->value));
		break;
	default: espl__rank_fail(r, "cannot create a process: %s", strerror(note->value));
	}
}

/* It starts warm, and from now on its supervisor answers for it. */
static void
rank_adopted(struct espl__agent_rank *r, pid_t sup)
{
	r->sup = sup;
	espl__launch_forget(r);
}

/* The process that was to fork it did not. */
static void
rank_unforked(struct espl__agent_rank *r)
{
	struct espl__agent_gang *g = r->gang;

	espl__launch_cold(r);
	if (r->link >= 0)
		return;
	r->state = ESPL__RANK_GONE; /* it carries the reason */
	g->gone++;
	espl__gpus_leave(r);
	if (g->gone < g->start.rank_count)
		espl__gang_kill(g, 0);
}

void
espl__gang_note(struct espl__agent_rank *r)
{
	struct espl__sup_note note;
	ssize_t got;

	ESPL__ASSERT(r == &r->gang->ranks[r->index]);
	while (r->link >= 0) {
		/* A supervisor that ends before it has read an order resets the connection: that
		 * is returned once, before its last notes. */
		do
			got = recv(r->link, &note, sizeof note, MSG_DONTWAIT);
		while (got < 0 && (errno == EINTR || errno == ECONNRESET));
		if (got < 0 && errno == EAGAIN)
			return;
		if (got != (ssize_t)sizeof note && r->launch != NULL && !r->gang->ending)
			rank_unforked(r);
		else if (got != (ssize_t)sizeof note)
			rank_gone(r);
		else if (note.what == ESPL__SUP_ADOPTED)
			rank_adopted(r, note.value);
		else if (note.what == ESPL__SUP_RUNS)
			rank_runs(r);
		else if (note.what == ESPL__SUP_EXITED)
			rank_exited(r, note.value);
		else
			report_no_start(r, &note);
	}
}

/* ---- what is due ------------------------------------------------------------------------- */

static void
put_rank(struct espl__buf *out, const struct espl__agent_gang *g, uint32_t i)
{
	const struct espl__agent_rank *r = &g->ranks[i];
	int forgiven = g->lingered && g->culprit < 0 && r->by_us;

	espl__put_v64(out, r->leaves ? r->was : r->rank);
	espl__put_z64(out, forgiven ? 0 : r->code);
	espl__put_str(out, r->text);
}

static void
report_ended(struct espl__agent_gang *g, int clean)
{
	struct espl__buf *out = &g->agent->outbox;
	size_t mark = espl__frame_begin(out, ESPL__MSG_ENDED);
	char said[ESPL__LAST_LINE_MAX] = "";

	espl__put_v64(out, g->start.gang);
	espl__put_u8(out, clean ? 1 : 0);
	espl__put_u32(out, g->start.rank_count);
	if (g->culprit >= 0)
		put_rank(out, g, (uint32_t)g->culprit);
	for (uint32_t i = 0; i < g->start.rank_count; i++)
		if ((int)i != g->culprit)
			put_rank(out, g, i);
	if (g->launched && (g->culprit >= 0 || !g->ending))
		espl__gang_last_line(g, said);
	espl__put_str(out, said);
	espl__frame_end(out, mark);
	if (g->agent->leaving == NULL) /* else it ended because the agent does */
		espl__agent_keep(g, mark);
	espl__agent_gang_over(g);
}

static void
take_away(struct espl__agent *a, uint32_t index, int clean)
{
	struct espl__agent_gang *g = a->gangs[index];

	if (a->home_lost)
		espl__agent_gang_over(g);
	else
		report_ended(g, clean);
	espl__gpus_bye(g);
	espl__files_leave(g);
	if (g->report >= 0)
		close(g->report);
	for (uint32_t i = 0; i < g->start.rank_count; i++) {
		if (g->ranks[i].link >= 0) /* its supervisor keeps killing by itself */
			close(g->ranks[i].link);
		if (g->ranks[i].control >= 0)
			close(g->ranks[i].control);
		espl__launch_forget(&g->ranks[i]);
		espl__buf_free(&g->ranks[i].words);
		free(g->ranks[i].text);
		free(g->ranks[i].scratch.path);
	}
	espl__agent_unreserve(a, g->start.gang);
	(void)espl__map_remove(&a->by_id, g->start.gang);
	a->gangs[index] = a->gangs[--a->gang_count];
	a->changed = 1;
	espl__buf_free(&g->in);
	espl__buf_free(&g->out);
	espl__backlog_free(&g->backlog);
	free(g->saving.path);
	free(g->dir);
	free(g->params);
	free(g->restore);
	free(g->files);
	free(g->ranks);
	espl__arena_free(&g->start_memory);
	free(g);
}

/* Orphans of supervisors that something killed belong to the agent now. */
static void
sweep_strays(struct espl__agent *a)
{
	pid_t *spare = NULL, pid;
	size_t count = 0, cap = 0;

	for (uint32_t i = 0; i < a->gang_count; i++)
		for (uint32_t j = 0; j < a->gangs[i]->start.rank_count; j++)
			if (a->gangs[i]->ranks[j].link >= 0 && a->gangs[i]->ranks[j].sup > 0) {
				ESPL__GROW(spare, cap, count + 1);
				spare[count++] = a->gangs[i]->ranks[j].sup;
			}
	for (uint32_t i = 0; (pid = espl__gpus_pid(a, i)) != 0; i++) {
		ESPL__GROW(spare, cap, count + 1);
		spare[count++] = pid;
	}
	for (uint32_t i = 0; (pid = espl__courier_pid(a, i)) != 0; i++) {
		ESPL__GROW(spare, cap, count + 1);
		spare[count++] = pid;
	}
	for (uint32_t i = 0; (pid = espl__setup_pid(a, i)) != 0; i++) {
		ESPL__GROW(spare, cap, count + 1);
		spare[count++] = pid;
	}
	for (uint32_t i = 0; (pid = espl__warm_pid(a, i)) != 0; i++) {
		ESPL__GROW(spare, cap, count + 1);
		spare[count++] = pid;
	}
	if (espl__sweep(getpid(), spare, count, SIGKILL) == 0)
		a->strays = 0;
	free(spare);
}

static void
keep_earlier(int64_t *next, int64_t at)
{
	if (at != 0 && (*next == 0 || at < *next))
		*next = at;
}

/* 1: nothing is left of it. */
static int
tend_gang(struct espl__agent *a, struct espl__agent_gang *g, int64_t now, int64_t *next)
{
	char name[48];

	if (g->linger_until != 0 && now >= g->linger_until && !g->ending) {
		espl__agent_log(a, ESPL_WARN,
		    "trial %s: rank 0 has exited but other ranks are still running; killing them",
		    espl__trial_name(g->start.trial, name));
		g->lingered = 1;
		g->linger_until = 0;
		espl__gang_kill(g,
		    g->start.grace_ms < ESPL__AGENT_GRACE ? g->start.grace_ms : ESPL__AGENT_GRACE);
	}
	if (g->mute_at != 0 && now >= g->mute_at)
		espl__report_mute(g);
	if (g->kill_at != 0 && now >= g->kill_at)
		espl__gang_kill_now(g);
	espl__gang_tell_left(g);
	if (g->gone == g->start.rank_count && espl__report_drained(g) && g->jobs == 0 &&
	    !a->strays && espl__gpus_settled(g) && espl__relay_settled(g)) {
		if ((g->culprit < 0 && !g->spoilt) || g->probed || a->ending)
			return 1;
		g->probed = 1; /* the trial may have failed for want of room */
		espl__files_probe(g);
	}
	if (!g->ending)
		keep_earlier(next, g->linger_until);
	keep_earlier(next, g->mute_at);
	keep_earlier(next, g->kill_at);
	if (g->gone < g->start.rank_count)
		keep_earlier(next, g->give_up_at);
	return 0;
}

int64_t
espl__gang_tend(struct espl__agent *a, int64_t now)
{
	int64_t next = 0;

	ESPL__CHECK(a, AGENT);
	if (a->strays)
		sweep_strays(a);
	if (a->strays)
		keep_earlier(&next, now + 10 * MS);
	for (uint32_t i = 0; i < a->gang_count;) {
		struct espl__agent_gang *g = a->gangs[i];

		if (tend_gang(a, g, now, &next))
			take_away(a, i, 1);
		else if (g->give_up_at != 0 && now >= g->give_up_at && g->jobs == 0 &&
		    (g->gone < g->start.rank_count || a->strays))
			take_away(a, i, 0);
		else
			i++;
	}
	return next;
}

void
espl__agent_end(struct espl__agent *a, int code)
{
	ESPL__CHECK(a, AGENT);
	if (a->ending)
		return;
	a->ending = 1;
	atomic_store(&a->reach_off, 1);
	a->exit_code = code;
	a->changed = 1;
	for (uint32_t i = 0; i < a->gang_count; i++)
		espl__gang_kill(a->gangs[i], 0);
	while (a->reserved_count > 0)
		espl__agent_unreserve(a, a->reserved[0].number);
}
