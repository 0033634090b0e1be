/* agent_clean.c - observing a GPU through NVML: the proof that it is clean, the memory that trials
 * use.
 *
 * A GPU is clean when none of our processes is on it and no more memory is in use than before our
 * first trial arrived. Processes of other users may come and go: their memory is distinguished from
 * left-overs as far as the driver reports it. Where NVML does not answer, only the supervisors know
 * that a trial's processes are gone, and a warning is logged once.
 */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent_gpu.h"
#include "agent/sweep.h"

#define MS INT64_C(1000000)
#define AGAIN (50 * MS)
#define USAGE_GAP (5000 * MS) /* between two queries of memory use */
#define MIB ((uint64_t)1 << 20)

enum purpose { LEVEL, PROOF, USAGE };

struct look {
	struct espl__task head;
	uint32_t card;
	enum purpose purpose;
	char uuid[ESPL__UUID_ROOM];
	int bad;
	const char *why;
	struct espl__gpu_look seen;
};

/* ---- judging ------------------------------------------------------------------------------- */

/* Whether this is the process that NVML means. In a container NVML may use the host's numbers: then
 * the number belongs to no process here, or to one that has no GPU open. */
static int
has_gpu_open(int64_t pid)
{
	const char *given = getenv("ESPALIER_NVML");
	char path[40], to[64];
	struct dirent *entry;
	DIR *dir;
	int found = 0;

	if (kill((pid_t)pid, 0) != 0)
		return 0;
	if (given != NULL && given[0] != '\0') /* a library made for the purpose knows no device */
		return 1;
	(void)snprintf(path, sizeof path, "/proc/%" PRId64 "/fd", pid);
	dir = opendir(path);
	while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
		ssize_t size = readlinkat(dirfd(dir), entry->d_name, to, sizeof to - 1);

		found = size > 0 && (to[size] = '\0', strncmp(to, "/dev/nvidia", 11) == 0);
	}
	if (dir != NULL)
		(void)closedir(dir);
	return found;
}

/* The gang to whose ranks on this node a process belongs, or NULL. A rank whose supervisor has been
 * given up does not count. */
static struct espl__agent_gang *
gang_of(const struct espl__agent *a, pid_t pid)
{
	for (uint32_t i = 0; i < a->gang_count; i++)
		for (uint32_t j = 0; j < a->gangs[i]->start.rank_count; j++) {
			const struct espl__agent_rank *r = &a->gangs[i]->ranks[j];

			if (r->link >= 0 && r->sup > 0 && espl__descends(pid, r->sup))
				return a->gangs[i];
		}
	return NULL;
}

static void
name_of(int64_t pid, char to[32])
{
	struct espl__buf b = { NULL, 0, 0 };
	char path[40];

	(void)snprintf(path, sizeof path, "/proc/%" PRId64 "/comm", pid);
	(void)snprintf(to, 32, "?");
	if (espl__file_read(path, 4096, &b, NULL) == ESPL_OK) {
		(void)espl__buf_text(&b);
		espl__last_line((const char *)b.data, b.size, to, 32);
	}
	espl__buf_free(&b);
}

/* Counts processes on the GPU; with `end`, ours that must not be there are logged and killed. */
static void
weigh_users(struct espl__card *c, const struct espl__gpu_look *l, int end, struct espl__seen *s)
{
	struct espl__agent *a = c->agent;

	*s = (struct espl__seen){ .used = l->used, .total = l->total };
	for (uint32_t i = 0; i < l->count; i++) {
		const struct espl__gpu_user *u = &l->users[i];
		int mine = espl__descends((pid_t)u->pid, getpid()) && has_gpu_open(u->pid);
		const struct espl__agent_gang *g = mine ? gang_of(a, (pid_t)u->pid) : NULL;
		char name[32], trial[48];

		if (mine && g == NULL) {
			s->ours++;
			if (!end)
				continue;
			name_of(u->pid, name);
			espl__agent_log(a, ESPL_WARN,
			    "GPU %" PRIu32 ": process %" PRId64
			    " (%s) still uses it after the end of its trial; killing it",
			    c->index, u->pid, name);
			(void)kill((pid_t)u->pid, SIGKILL);
			continue;
		}
		if (u->bytes == ESPL__BYTES_UNKNOWN)
			s->vague++;
		else
			s->strangers += u->bytes;
		if (c->foreign_reported)
			continue;
		c->foreign_reported = 1;
		name_of(u->pid, name);
		if (g != NULL)
			espl__agent_log(a, ESPL_WARN,
			    "GPU %" PRIu32 ": process %" PRId64
			    " (%s) of trial %s, which has other GPUs, uses it",
			    c->index, u->pid, name, espl__trial_name(g->start.trial, trial));
		else
			espl__agent_log(a, ESPL_WARN,
			    "GPU %" PRIu32 ": process %" PRId64
			    " (%s), which does not belong to a trial, also uses it",
			    c->index, u->pid, name);
	}
}

/* ---- looking ------------------------------------------------------------------------------- */

static void
look_now(struct espl__task *job)
{
	struct look *l = (struct look *)job;

	l->bad = espl__nvml_look(l->uuid, &l->seen, &l->why);
}

static void
note_blind(struct espl__card *c, const char *why)
{
	if (!c->blind_reported)
		espl__agent_log(c->agent, ESPL_WARN,
		    "GPU %" PRIu32 ": cannot verify that it is clean between trials: %s", c->index,
		    why);
	c->blind_reported = 1;
}

static void
open_again(struct espl__card *c)
{
	c->state = ESPL__CARD_OPEN;
	c->clean_by = 0;
	c->ended_some = 0;
	c->agent->changed = 1;
}

static void
take_level(struct espl__card *c, const struct look *l)
{
	struct espl__seen s;

	weigh_users(c, &l->seen, 0, &s);
	c->level = s.used;
	c->strangers = s.strangers;
	c->level_known = 1;
	if (c->agent->gpus[c->index].memory_bytes == 0)
		c->agent->gpus[c->index].memory_bytes = s.total;
	open_again(c);
}

static void
take_proof(struct espl__card *c, const struct look *l)
{
	int64_t now = espl__tick();
	int late = c->clean_by != 0 && now >= c->clean_by;
	struct espl__seen s;
	enum espl__verdict verdict;

	weigh_users(c, &l->seen, late && !c->ended_some, &s);
	verdict = espl__seen_judge(&s, c->level, c->strangers);
	c->look_at = now + AGAIN;
	if (verdict == ESPL__CLEAN) {
		if (s.used < c->level)
			c->level = s.used;
		if (c->ended_some)
			espl__agent_log(c->agent, ESPL_INFO, "GPU %" PRIu32 " is clean now",
			    c->index);
		open_again(c);
	} else if (late && !c->ended_some) { /* wait once more, after asking them to end */
		c->ended_some = 1;
		c->clean_by = now + c->agent->gpu_limit;
		if (verdict == ESPL__MEMORY_LEFT)
			espl__agent_log(c->agent, ESPL_WARN,
			    "GPU %" PRIu32 ": %" PRIu64 " MiB more are in use than before its last "
			    "trial, but no process of the run uses it",
			    c->index, (s.used - c->level) / MIB);
	} else if (late && verdict == ESPL__PROCESSES_LEFT) {
		espl__card_aside(c, "%" PRIu32 " process%s cannot be killed", s.ours,
		    s.ours == 1 ? "" : "es");
	} else if (late) {
		espl__card_aside(c,
		    "%" PRIu64
		    " MiB more are in use than before, but no process of the run uses it",
		    (s.used - c->level) / MIB);
	}
}

/* NVML reports the memory of MPS clients as the server's: it is attributed to a client only if
 * there is one. */
static struct espl__agent_gang *
only_client(const struct espl__card *c)
{
	struct espl__agent_gang *found = NULL;

	for (uint32_t i = 0; i < c->agent->gang_count; i++) {
		struct espl__agent_gang *g = c->agent->gangs[i];

		for (uint32_t j = 0; j < g->start.rank_count; j++) {
			if (!g->ranks[j].on_gpu || g->start.ranks[j].gpu != c->index ||
			    g->sharing != ESPL__SHARE_MPS)
				continue;
			if (found != NULL && found != g)
				return NULL;
			found = g;
		}
	}
	return found;
}

static void
take_usage(struct espl__card *c, const struct look *l)
{
	struct espl__agent *a = c->agent;

	for (uint32_t k = 0; k < a->gang_count; k++)
		a->gangs[k]->gpu_now = 0;
	for (uint32_t i = 0; i < l->seen.count; i++) {
		const struct espl__gpu_user *u = &l->seen.users[i];
		struct espl__agent_gang *g =
		    has_gpu_open(u->pid) ? gang_of(a, (pid_t)u->pid) : NULL;

		if (g == NULL && u->pid == (int64_t)c->mps.server)
			g = only_client(c);
		if (g != NULL && u->bytes != ESPL__BYTES_UNKNOWN)
			g->gpu_now += u->bytes;
	}
	for (uint32_t k = 0; k < a->gang_count; k++) {
		struct espl__agent_gang *g = a->gangs[k];

		/* Reported only when it has changed, because the driver journals it. */
		if (g->gpu_now <= g->gpu_reported + g->gpu_reported / 8)
			continue;
		g->gpu_reported = g->gpu_now;
		espl__gpus_report(a, ESPL__GPU_MEMORY, g->start.gang, g->gpu_reported, "");
	}
}

static void
look_done(struct espl__agent *a, struct espl__task *job)
{
	struct look *l = (struct look *)job;
	struct espl__card *c = &a->cards[l->card];

	c->looking = 0;
	if (l->bad != 0) {
		note_blind(c, l->why);
		if (l->purpose != USAGE && c->state != ESPL__CARD_ASIDE)
			open_again(c);
	} else if (l->purpose != USAGE && !c->level_known && c->state != ESPL__CARD_ASIDE) {
		take_level(c, l);
	} else if (l->purpose == PROOF && c->state == ESPL__CARD_DIRTY) {
		take_proof(c, l);
	} else if (l->purpose == USAGE) {
		take_usage(c, l);
	}
	free(l->seen.users);
	free(l);
}

static void
start_look(struct espl__card *c, enum purpose purpose)
{
	struct look *l = espl__alloc(sizeof *l);

	l->head.run = look_now;
	l->head.done = look_done;
	l->card = c->index;
	l->purpose = purpose;
	l->why = "";
	memcpy(l->uuid, c->agent->gpus[c->index].uuid, sizeof l->uuid);
	c->looking = 1;
	espl__agent_job(c->agent, &l->head);
}

static void
keep_earlier(int64_t *next, int64_t at)
{
	if (*next == 0 || at < *next)
		*next = at;
}

void
espl__card_clean(struct espl__card *c, int64_t now, int64_t *next)
{
	if (c->looking)
		return;
	if (c->state == ESPL__CARD_NEW) {
		start_look(c, LEVEL);
		return;
	}
	if (c->clean_by == 0) {
		c->clean_by = now + c->agent->gpu_limit;
		c->look_at = now;
	}
	if (now >= c->look_at)
		start_look(c, PROOF);
	else
		keep_earlier(next, c->look_at);
}

void
espl__card_usage(struct espl__card *c, int64_t now, int64_t *next)
{
	if (c->ranks == 0 || c->blind_reported || c->looking)
		return;
	if (c->usage_at == 0)
		c->usage_at =
		    now + USAGE_GAP / 5; /* the first second of a trial is not representative */
	if (now < c->usage_at) {
		keep_earlier(next, c->usage_at);
		return;
	}
	c->usage_at = now + USAGE_GAP;
	start_look(c, USAGE);
}
