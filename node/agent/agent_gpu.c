/* agent_gpu.c - a GPU from one trial to the next: claimed, held, left; and how trials that share it
 * continue when MPS fails.
 *
 * Between the verification of its checkpoint and its start a gang waits here until its GPUs are
 * clean and, if it shares one by MPS, until the daemon has proven to be alive. When a daemon or its
 * server fails, the trial that caused it is unknown: all trials that share it return to their
 * checkpoints without counting a failure, and next time they run without MPS, where a fault affects
 * only the trial that causes it, until they have ended well once.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/assert.h"
#include "base/ids.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/tick.h"
#include "agent/agent_gpu.h"

#define MS INT64_C(1000000)
#define MIB ((uint64_t)1 << 20)
#define LINGER (1000 * MS) /* an idle daemon waits for the next trial so long */
/* after a failure: time in which other trials that share the GPU may fail, too */
#define GATHER (500 * MS)
/* consecutive failures of a daemon after which MPS is considered broken */
#define FAULTS_MAX 3
#define LIMIT (10000 * MS) /* for a GPU to come clean */

/* the reason why a trial must not use MPS; any address that is not NULL */
static char suspected;

void
espl__gpus_open(struct espl__agent *a)
{
	const char *said = getenv("ESPALIER_GPU_LIMIT");
	espl_span limit;

	ESPL__CHECK(a, AGENT);
	a->gpu_limit = LIMIT;
	if (a->gpus == NULL)
		return;
	if (said != NULL && espl__parse_span(said, &limit) == 0)
		a->gpu_limit = limit;
	else if (said != NULL)
		espl__agent_log(a, ESPL_WARN,
		    "ESPALIER_GPU_LIMIT = '%s' is not a time span; using 10s", said);
	a->cards = espl__alloc(a->slots * sizeof *a->cards);
	for (uint32_t i = 0; i < a->slots; i++) {
		struct espl__card *c = &a->cards[i];

		c->agent = a;
		c->index = i;
		c->mps.card = c;
		c->mps.link = c->mps.ask.out = c->mps.directory.lock = -1;
	}
}

void
espl__gpus_free(struct espl__agent *a)
{
	for (uint32_t i = 0; a->cards != NULL && i < a->slots; i++) {
		struct espl__card *c = &a->cards[i];

		espl__ask_end(&c->mps.ask);
		espl__mps_directory_remove(&c->mps.directory);
		espl__strings_free(&c->mps.env);
		free(c->mps.program);
		free(c->why);
		free(c->no_mps);
	}
	free(a->cards);
	a->cards = NULL;
	espl__map_free(&a->suspects);
	espl__nvml_close();
}

void
espl__gpus_report(struct espl__agent *a, enum espl__gpu_news what, uint64_t gang, uint64_t number,
    const char *text)
{
	size_t mark = espl__frame_begin(&a->outbox, ESPL__MSG_GPU);

	ESPL__CHECK(a, AGENT);
	espl__put_u8(&a->outbox, (uint8_t)what);
	espl__put_v64(&a->outbox, gang);
	espl__put_v64(&a->outbox, number);
	espl__put_str(&a->outbox, text);
	espl__frame_end(&a->outbox, mark);
}

/* ---- what goes wrong ----------------------------------------------------------------------- */

void
espl__card_aside(struct espl__card *c, const char *format, ...)
{
	char text[200];
	va_list args;

	ESPL__ASSERT(c == &c->agent->cards[c->index]);
	if (c->state == ESPL__CARD_ASIDE)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	c->state = ESPL__CARD_ASIDE;
	c->why = espl__strdup(text);
	c->agent->changed = 1;
	espl__agent_log(c->agent, ESPL_ERROR, "GPU %" PRIu32 " (%s) is set aside: %s", c->index,
	    c->agent->gpus[c->index].uuid, text);
	espl__gpus_report(c->agent, ESPL__GPU_ASIDE, 0, c->index, text);
}

void
espl__card_no_mps(struct espl__card *c, const char *format, ...)
{
	char text[500];
	va_list args;

	ESPL__ASSERT(c == &c->agent->cards[c->index]);
	if (c->no_mps != NULL)
		return;
	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	c->no_mps = espl__strdup(text);
	c->agent->changed = 1;
}

static int
on_card(const struct espl__agent_gang *g, const struct espl__card *c)
{
	for (uint32_t i = 0; i < g->start.rank_count; i++)
		if (g->ranks[i].on_gpu && g->start.ranks[i].gpu == c->index)
			return 1;
	return 0;
}

/* Releases what was held while waiting: the GPU may have to be proven clean first. */
static void
wait_again(struct espl__agent_gang *g)
{
	for (uint32_t i = 0; i < g->start.rank_count; i++)
		espl__gpus_leave(&g->ranks[i]);
	g->sharing = ESPL__SHARE_AUTO;
	g->proof = 0;
}

/* Whether it shares by MPS; also if that failed a moment ago and waits for the verdict. */
static int
shared_it(const struct espl__agent_gang *g, const struct espl__card *c)
{
	return g->sharing == ESPL__SHARE_MPS &&
	    (on_card(g, c) || (g->check != 0 && g->checked_on == c->index));
}

static void
end_sharers(struct espl__card *c, const char *why)
{
	struct espl__agent *a = c->agent;
	char text[300];

	(void)snprintf(text, sizeof text, "gpu: GPU %" PRIu32 " of the node: %s", c->index, why);
	for (uint32_t i = 0; i < a->gang_count; i++) {
		struct espl__agent_gang *g = a->gangs[i];

		if (!shared_it(g, c))
			continue;
		if (g->claiming) {
			wait_again(g);
			continue;
		}
		g->check = 0;
		espl__map_set(&a->suspects, g->start.trial, &suspected);
		espl__gang_excuse(g, text);
	}
}

void
espl__card_fault(struct espl__card *c, const char *format, ...)
{
	struct espl__agent *a = c->agent;
	uint32_t trials = 0;
	char why[160];
	va_list args;

	ESPL__ASSERT(c == &c->agent->cards[c->index]);
	va_start(args, format);
	(void)vsnprintf(why, sizeof why, format, args);
	va_end(args);
	for (uint32_t i = 0; i < a->gang_count; i++)
		trials += !a->gangs[i]->claiming && shared_it(a->gangs[i], c);
	if (a->ending) {
		espl__mps_kill(&c->mps);
		return;
	}
	espl__agent_log(a, ESPL_WARN,
	    "GPU %" PRIu32 ": %s; %" PRIu32 " trial%s go%s back to %s last checkpoint%s", c->index,
	    why, trials, trials == 1 ? "" : "s", trials == 1 ? "es" : "",
	    trials == 1 ? "its" : "their", trials == 1 ? "" : "s");
	if (trials > 0) {
		c->faults++;
		espl__gpus_report(a, ESPL__GPU_FAULT, 0, c->index, why);
	}
	espl__mps_kill(&c->mps);
	end_sharers(c, why);
	if (c->ranks == 0 && c->state == ESPL__CARD_OPEN)
		c->state = ESPL__CARD_DIRTY;
	if (c->faults >= FAULTS_MAX)
		espl__card_no_mps(c, "it failed %d times without a successful trial in between",
		    FAULTS_MAX);
}

/* ---- how a GPU is to be shared ------------------------------------------------------------- */

/* Ranks on this GPU when all shares are taken. */
static uint32_t
count_shares(const struct espl__agent_gang *g, uint32_t gpu)
{
	uint32_t ranks = 0;

	for (uint32_t i = 0; i < g->start.rank_count; i++)
		ranks += g->start.ranks[i].gpu == gpu;
	return ranks * g->start.packing;
}

/* MPS is for gangs that share: 0 does not share, 1 shares with MPS, -1 shares without MPS. */
static int
choose_mps(const struct espl__agent_gang *g, const char **why)
{
	const struct espl__card *c = &g->agent->cards[g->start.ranks[0].gpu];

	*why = "";
	if (count_shares(g, c->index) == 1)
		return 0;
	if (g->start.sharing == ESPL__SHARE_TIMESLICE) {
		*why = "set by trial.sharing";
		return -1;
	}
	for (uint32_t i = 0; i < g->start.rank_count; i++)
		if (g->start.ranks[i].gpu != c->index) {
			*why = "its ranks share more than one GPU";
			return -1;
		}
	if (espl__map_get(&g->agent->suspects, g->start.trial) != NULL) {
		*why = "it was running when MPS failed, and has not ended well without MPS yet";
		return -1;
	}
	*why = c->no_mps;
	return c->no_mps == NULL ? 1 : -1;
}

static const char *
name_of(int sharing)
{
	return sharing == ESPL__SHARE_MPS ? "MPS" : "time slicing";
}

/* Reports the choice: in the log when it changes, and to the driver for each gang. */
static void
report_sharing(const struct espl__agent_gang *g, const char *why)
{
	struct espl__card *c = &g->agent->cards[g->start.ranks[0].gpu];
	char trial[48];

	if (g->sharing == ESPL__SHARE_EXCLUSIVE)
		return;
	espl__gpus_report(g->agent, ESPL__GPU_SHARED, g->start.gang, (uint64_t)g->sharing, why);
	if (c->said == (int)g->sharing)
		return;
	c->said = (int)g->sharing;
	espl__agent_log(g->agent,
	    g->sharing == ESPL__SHARE_TIMESLICE && g->start.sharing == ESPL__SHARE_AUTO ? ESPL_WARN
											: ESPL_INFO,
	    "GPU %" PRIu32 ": trial %s shares it by %s%s%s", c->index,
	    espl__trial_name(g->start.trial, trial), name_of((int)g->sharing),
	    why[0] != '\0' ? ": " : "", why);
}

/* ---- claiming ------------------------------------------------------------------------------ */

static void
hold_gpus(struct espl__agent_gang *g, enum espl__sharing how)
{
	for (uint32_t i = 0; i < g->start.rank_count; i++) {
		struct espl__card *c = &g->agent->cards[g->start.ranks[i].gpu];

		g->ranks[i].on_gpu = 1;
		c->ranks++;
		c->mps_ranks += how == ESPL__SHARE_MPS;
		c->linger_until = 0;
	}
	g->sharing = how;
}

static void
finish_claim(struct espl__agent_gang *g, const char *why_not)
{
	g->claiming = 0;
	g->steps->claimed(g, why_not);
}

/* Whether its GPUs are clean. -1: one is set aside, and the claim is answered. */
static int
check_ready(struct espl__agent_gang *g, int mps)
{
	int ok = 1;

	for (uint32_t i = 0; i < g->start.rank_count; i++) {
		struct espl__card *c = &g->agent->cards[g->start.ranks[i].gpu];
		char text[300];

		if (c->state == ESPL__CARD_ASIDE) {
			(void)snprintf(text, sizeof text,
			    "gpu: GPU %" PRIu32 " of the node is set aside: %s", c->index, c->why);
			finish_claim(g, text);
			return -1;
		}
		/* A trial that gets the GPU alone or by time slicing must not find an idle daemon
		 * there. */
		if (mps <= 0 && c->state == ESPL__CARD_OPEN && c->mps_ranks == 0 &&
		    c->mps.state != ESPL__MPS_OFF) {
			espl__mps_quit(&c->mps);
			if (c->ranks == 0)
				c->state = ESPL__CARD_DIRTY;
		}
		ok &= c->state == ESPL__CARD_OPEN &&
		    (mps > 0 || c->mps_ranks > 0 || c->mps.state == ESPL__MPS_OFF);
	}
	return ok;
}

/* One step of a claim. */
static void
advance_claim(struct espl__agent_gang *g)
{
	struct espl__card *c = &g->agent->cards[g->start.ranks[0].gpu];
	const char *why;
	char text[600];
	int mps = choose_mps(g, &why);

	if (g->ending) {
		finish_claim(g, NULL);
		return;
	}
	if (mps < 0 && g->start.sharing == ESPL__SHARE_MPS && c->no_mps != NULL &&
	    why == c->no_mps) {
		(void)snprintf(text, sizeof text,
		    "sharing: trial.sharing is \"mps\", but GPU %" PRIu32
		    " cannot be shared by MPS: %s",
		    c->index, why);
		finish_claim(g, text);
		return;
	}
	if (g->sharing == ESPL__SHARE_MPS && mps <= 0)
		wait_again(g);
	if (g->sharing == ESPL__SHARE_AUTO) {
		if (check_ready(g, mps) <= 0)
			return;
		hold_gpus(g,
		    mps > 0       ? ESPL__SHARE_MPS
			: mps < 0 ? ESPL__SHARE_TIMESLICE
				  : ESPL__SHARE_EXCLUSIVE);
		if (mps > 0)
			g->proof = espl__mps_prove(&c->mps);
	}
	if (mps > 0 && c->mps.proved < g->proof)
		return;
	report_sharing(g, why != NULL ? why : "");
	finish_claim(g, NULL);
}

void
espl__gpus_claim(struct espl__agent_gang *g)
{
	struct espl__agent *a = g->agent;
	int gpus = g->start.device_gpu && a->cards != NULL;

	ESPL__CHECK(g, AGENT_GANG);
	for (uint32_t i = 0; gpus && i < g->start.rank_count; i++)
		gpus = g->start.ranks[i].gpu < a->slots;
	if (!gpus) { /* one that is not there is the launch's to tell */
		g->steps->claimed(g, NULL);
		return;
	}
	if (!a->swept) {
		size_t ended = espl__mps_directories_sweep();

		a->swept = 1;
		if (ended > 0)
			espl__agent_log(a, ESPL_WARN,
			    "%zu MPS process%s left by a dead agent %s killed", ended,
			    ended == 1 ? "" : "es", ended == 1 ? "was" : "were");
	}
	g->claiming = 1;
	a->changed = 1;
	advance_claim(g);
}

/* ---- leaving ------------------------------------------------------------------------------- */

void
espl__gpus_leave(struct espl__agent_rank *r)
{
	struct espl__agent_gang *g = r->gang;
	struct espl__card *c;

	ESPL__CHECK(g, AGENT_GANG);
	if (!r->on_gpu)
		return;
	r->on_gpu = 0;
	c = &g->agent->cards[g->start.ranks[r->index].gpu];
	ESPL__ASSERT(c->ranks > 0 && c->mps_ranks <= c->ranks);
	c->ranks--;
	c->mps_ranks -= g->sharing == ESPL__SHARE_MPS;
	g->agent->changed = 1;
	if (c->ranks > 0 || c->state != ESPL__CARD_OPEN)
		return;
	if (c->mps.state == ESPL__MPS_UP)
		c->linger_until = espl__tick() + LINGER;
	else
		c->state = ESPL__CARD_DIRTY;
}

void
espl__gpus_failed(struct espl__agent_gang *g)
{
	ESPL__CHECK(g, AGENT_GANG);
	if (g->sharing != ESPL__SHARE_MPS || g->claiming || g->check != 0 || g->agent->ending)
		return;
	g->checked_on = g->start.ranks[0].gpu;
	g->check = UINT64_MAX; /* ask only after the other trials have had time to fail as well */
	g->check_at = espl__tick() + GATHER;
}

int
espl__gpus_settled(const struct espl__agent_gang *g)
{
	ESPL__CHECK(g, AGENT_GANG);
	return g->check == 0 || g->agent->ending;
}

/* Failures that wait for a verdict: the daemon is asked. If it is well, each failure is the trial's
 * own, unless several trials failed at once, which have nothing in common but the GPU. */
static void
judge_failure(struct espl__agent *a, struct espl__agent_gang *g, int64_t now, int64_t *next)
{
	struct espl__card *c = &a->cards[g->checked_on];
	uint32_t failed = 0;

	if (g->check == UINT64_MAX && now < g->check_at) {
		if (*next == 0 || g->check_at < *next)
			*next = g->check_at;
		return;
	}
	for (uint32_t i = 0; i < a->gang_count; i++)
		failed += a->gangs[i]->check != 0 && a->gangs[i]->checked_on == g->checked_on;
	if (failed > 1) {
		espl__card_fault(c, "%" PRIu32 " trials that share it by MPS failed at once",
		    failed);
	} else if (g->check == UINT64_MAX && c->mps.state == ESPL__MPS_UP) {
		g->check = espl__mps_prove(&c->mps);
	} else if (c->mps.state != ESPL__MPS_UP || c->mps.proved >= g->check) {
		g->check = 0;
		a->changed = 1;
	}
}

void
espl__gpus_bye(struct espl__agent_gang *g)
{
	int well = g->launched && !g->spoilt;

	ESPL__CHECK(g, AGENT_GANG);
	for (uint32_t i = 0; i < g->start.rank_count; i++) {
		espl__gpus_leave(&g->ranks[i]);
		well &= g->ranks[i].code == 0 && g->ranks[i].text == NULL;
	}
	if (!well || g->agent->cards == NULL || !g->start.device_gpu)
		return;
	if (g->sharing == ESPL__SHARE_MPS)
		g->agent->cards[g->start.ranks[0].gpu].faults = 0;
	else
		(void)espl__map_remove(&g->agent->suspects, g->start.trial);
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void
tend_card(struct espl__card *c, int64_t now, int64_t *next)
{
	struct espl__agent *a = c->agent;

	if (a->ending && c->mps_ranks == 0 && c->mps.state != ESPL__MPS_OFF &&
	    c->mps.state != ESPL__MPS_ENDING)
		espl__mps_quit(&c->mps);
	espl__mps_tend(&c->mps, now, next);
	if (a->ending)
		return;
	if (c->ranks == 0 && c->state == ESPL__CARD_OPEN && c->mps.state == ESPL__MPS_UP &&
	    c->mps.proved >= c->mps.wanted) {
		if (now >= c->linger_until) {
			espl__mps_quit(&c->mps);
			c->state = ESPL__CARD_DIRTY;
		} else if (*next == 0 || c->linger_until < *next) {
			*next = c->linger_until;
		}
	}
	if (c->state == ESPL__CARD_DIRTY && c->mps.state == ESPL__MPS_OFF)
		espl__card_clean(c, now, next);
	espl__card_usage(c, now, next);
}

int64_t
espl__gpus_tend(struct espl__agent *a, int64_t now)
{
	int64_t next = 0;

	ESPL__CHECK(a, AGENT);
	if (a->cards == NULL)
		return 0;
	for (uint32_t i = 0; i < a->gang_count; i++) {
		struct espl__agent_gang *g = a->gangs[i];

		for (uint32_t j = 0; g->claiming && j < g->start.rank_count; j++)
			if (a->cards[g->start.ranks[j].gpu].state == ESPL__CARD_NEW)
				espl__card_clean(&a->cards[g->start.ranks[j].gpu], now, &next);
		if (g->claiming)
			advance_claim(g);
		if (g->check != 0 && !a->ending)
			judge_failure(a, g, now, &next);
	}
	for (uint32_t i = 0; i < a->slots; i++)
		tend_card(&a->cards[i], now, &next);
	return a->changed ? now : next; /* gangs that wait for a change check again at once */
}

int
espl__gpus_over(const struct espl__agent *a)
{
	ESPL__CHECK(a, AGENT);
	for (uint32_t i = 0; a->cards != NULL && i < a->slots; i++)
		if (a->cards[i].mps.state != ESPL__MPS_OFF)
			return 0;
	return 1;
}

int
espl__gpus_fd(const struct espl__agent *a, uint32_t n)
{
	for (uint32_t i = 0; a->cards != NULL && i < a->slots; i++) {
		const struct espl__mps *m = &a->cards[i].mps;

		if (m->link >= 0 && n-- == 0)
			return m->link;
		if (m->ask.out >= 0 && n-- == 0)
			return m->ask.out;
	}
	return -1;
}

pid_t
espl__gpus_pid(const struct espl__agent *a, uint32_t n)
{
	for (uint32_t i = 0; a->cards != NULL && i < a->slots; i++) {
		const struct espl__mps *m = &a->cards[i].mps;

		if (m->link >= 0 && n-- == 0)
			return m->sup;
		if (m->ask.pid > 0 && n-- == 0)
			return m->ask.pid;
	}
	return 0;
}

void
espl__gpus_receive(struct espl__agent *a, int fd)
{
	ESPL__CHECK(a, AGENT);
	ESPL__ASSERT(fd >= 0);
	for (uint32_t i = 0; a->cards != NULL && i < a->slots; i++) {
		struct espl__mps *m = &a->cards[i].mps;

		if (fd == m->link || fd == m->ask.out) {
			espl__mps_receive(m, fd);
			return;
		}
	}
}

void
espl__gpus_reaped(struct espl__agent *a, pid_t pid, int status)
{
	for (uint32_t i = 0; a->cards != NULL && i < a->slots; i++) {
		struct espl__ask *q = &a->cards[i].mps.ask;

		if (q->pid != pid)
			continue;
		q->gone = 1;
		q->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
}

/* ---- what a rank sees of it ------------------------------------------------------------- */

void
espl__gpus_env(const struct espl__agent_rank *r, struct espl__strings *s)
{
	const struct espl__agent_gang *g = r->gang;
	uint32_t gpu = g->start.ranks[r->index].gpu, n;
	uint64_t each, total;

	if (g->sharing == ESPL__SHARE_AUTO)
		return;
	espl__env_set(s,
	    espl__format("ESPALIER_SHARING=%s",
		g->sharing == ESPL__SHARE_MPS             ? "mps"
		    : g->sharing == ESPL__SHARE_TIMESLICE ? "timeslice"
							  : "exclusive"));
	if (g->sharing == ESPL__SHARE_EXCLUSIVE)
		return;
	/* A framework that reserves most of the memory leaves none for the other trials. */
	if (espl__env_get(s, "XLA_PYTHON_CLIENT_PREALLOCATE") == NULL)
		espl__env_set(s, espl__strdup("XLA_PYTHON_CLIENT_PREALLOCATE=false"));
	if (g->sharing != ESPL__SHARE_MPS)
		return;
	n = count_shares(g, gpu);
	total = g->agent->gpus[gpu].memory_bytes;
	each = total / n;
	espl__env_set(s,
	    espl__format("CUDA_MPS_PIPE_DIRECTORY=%s", g->agent->cards[gpu].mps.directory.path));
	espl__env_set(s,
	    espl__format("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%" PRIu32, (100 + n - 1) / n));
	/* Something stays for the server's own context. */
	each -= each / 4 < 512 * MIB ? each / 4 : 512 * MIB;
	if (each >= MIB)
		espl__env_set(s,
		    espl__format("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=%" PRIu64 "M", each / MIB));
}
