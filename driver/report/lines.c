/* lines.c - log lines of a run: nodes, groups, trials that end or fail, each new best.
 *
 * A simulated run passes in moments and may have a million trials: only groups, new bests and
 * failures are logged then.
 */
#include "base/assert.h"
#include "report/view.h"

#include <math.h>

#include "base/tick.h"
#include "model/jobs.h"
#include "report/trial_text.h"

#define PROGRESS_NS INT64_C(10000000000)

#define ESPL__LINES_MAGIC 0x696c6b60u
struct espl__lines {
	struct espl__observer observer;
	uint32_t magic; /* ESPL__LINES_MAGIC */
	struct espl__view *view;
	FILE *to;
	struct espl__buf line;
	int64_t last_line_at; /* tick of the last line of any kind */
	uint64_t best;        /* trial last told as the best */
	double best_loss;
};

static int
begin_line(struct espl__lines *l, espl_time now)
{
	int64_t tenths = now / (ESPL_SECOND / 10);

	if (l->view->replaying)
		return 0;
	espl__buf_clear(&l->line);
	espl__print(&l->line, "%3d:%02d:%02d.%d  ", (int)(tenths / 36000), (int)(tenths / 600 % 60),
	    (int)(tenths / 10 % 60), (int)(tenths % 10));
	return 1;
}

static void
end_line(struct espl__lines *l)
{
	espl__print(&l->line, "\n");
	(void)fwrite(l->line.data, 1, l->line.size, l->to);
	l->last_line_at = espl__tick();
}

/* "trial 2/7 "; a plain job of a pool is known by its name. */
static void
put_trial_name(struct espl__lines *l, uint64_t trial)
{
	const struct espl__jobs *jobs =
	    l->observer.exec != NULL ? espl__exec_view(l->observer.exec).workload : NULL;
	char name[48];

	if (jobs != NULL && trial < jobs->list.count) {
		espl__print(&l->line, "job ");
		espl__print_clean(&l->line, jobs->list.jobs[trial].name);
	} else {
		espl__print(&l->line, "trial %s", espl__trial_name(trial, name));
	}
}

static void
put_metric(struct espl__lines *l, uint64_t trial, double loss)
{
	char number[32];

	if (isnan(loss))
		return;
	espl__print(&l->line, ", ");
	espl__print_clean(&l->line, espl__view_metric(l->view, trial));
	espl__print(&l->line, " %s",
	    espl__format_metric(espl__view_raw(l->view, trial, loss), number));
}

static const char *
slots_word(const struct espl__lines *l, uint32_t count)
{
	return espl__slots_word(l->observer.exec != NULL && espl__exec_on_cpu(l->observer.exec),
	    count);
}

static void
put_share(struct espl__lines *l, struct espl_share share)
{
	if (share.packing > 1)
		espl__print(&l->line, "1/%u of a %s", share.packing, slots_word(l, 1));
	else
		espl__print(&l->line, "%u %s", share.gpus, slots_word(l, share.gpus));
}

/* On what, and what differs from before: that a trial was resized is seen here. */
static void
put_start(struct espl__lines *l, const struct espl_trial *t)
{
	const struct espl__view_gang *g = espl__map_get(&l->view->gangs, t->id);

	espl__print(&l->line, "starts");
	if (g != NULL) {
		espl__print(&l->line, " on ");
		put_share(l, g->share);
		if (g->before > 0 && g->before != g->share.gpus)
			espl__print(&l->line, " (previously %u)", g->before);
	}
	/* Of a gang that starts, the iteration it restores; a promoted trial may keep its gang. */
	espl__print(&l->line, " at iteration %llu of %llu",
	    (unsigned long long)(g != NULL && !g->running ? g->from : t->iteration),
	    (unsigned long long)t->budget);
}

static void
on_trial(void *ctx, espl_time now, const struct espl_trial *t)
{
	struct espl__lines *l = ctx;
	enum espl__trial_change change = l->view->change;
	const char *word;
	int quiet = l->view->totals.simulated && t->state != ESPL_TRIAL_FAILED;

	if (change == ESPL__CHANGE_NONE || quiet || change == ESPL__CHANGE_CREATED ||
	    change == ESPL__CHANGE_BUDGET || change == ESPL__CHANGE_QUEUED || !begin_line(l, now))
		return;
	word = espl__change_word(change, espl__trial_state_word(&l->observer, t));
	put_trial_name(l, t->id);
	espl__print(&l->line, " ");
	if (change == ESPL__CHANGE_STARTED)
		put_start(l, t);
	else if (change == ESPL__CHANGE_PROMOTED)
		espl__print(&l->line, "promoted, up to iteration %llu",
		    (unsigned long long)t->budget);
	else if (change == ESPL__CHANGE_RETRIED)
		espl__print(&l->line, "is retried from iteration %llu",
		    (unsigned long long)t->checkpoint);
	else if (t->iteration == t->budget)
		espl__print(&l->line, "%s at iteration %llu", word,
		    (unsigned long long)t->iteration);
	else
		espl__print(&l->line, "%s at iteration %llu of %llu", word,
		    (unsigned long long)t->iteration, (unsigned long long)t->budget);
	if (change != ESPL__CHANGE_STARTED && change != ESPL__CHANGE_RETRIED)
		put_metric(l, t->id, t->loss);
	end_line(l);
}

static void
on_report(void *ctx, espl_time now, const struct espl_trial *t, uint64_t iteration, double loss,
    const struct espl__metric *metrics, uint32_t count, struct espl_share share)
{
	struct espl__lines *l = ctx;

	(void)metrics, (void)count, (void)share;
	/* The same trial going on is news only where it got better. */
	if (!l->view->better || (l->best == t->id && !(loss < l->best_loss)) || !begin_line(l, now))
		return;
	l->best = t->id;
	l->best_loss = loss;
	put_trial_name(l, t->id);
	espl__print(&l->line, " at iteration %llu", (unsigned long long)iteration);
	put_metric(l, t->id, loss);
	espl__print(&l->line, ", the best so far");
	end_line(l);
}

static void
on_config(void *ctx, espl_time now, const struct espl__config_report *c)
{
	struct espl__lines *l = ctx;
	char spread[32];

	if (!l->view->better || (l->best == c->shown && !(c->loss < l->best_loss)) ||
	    !begin_line(l, now))
		return;
	l->best = c->shown;
	l->best_loss = c->loss;
	if (c->seeds == 1)
		put_trial_name(l, c->shown);
	else
		espl__print(&l->line, "trials %llu to %llu",
		    (unsigned long long)(c->first & ESPL__TRIAL_NUMBER),
		    (unsigned long long)(c->first & ESPL__TRIAL_NUMBER) + c->seeds - 1);
	espl__print(&l->line, " at iteration %llu", (unsigned long long)c->iteration);
	put_metric(l, c->shown, c->loss);
	if (c->counted > 1)
		espl__print(&l->line, " ± %s", espl__format_metric(c->spread, spread));
	espl__print(&l->line, "%s, the best so far", c->seeds > 1 ? " on average" : "");
	end_line(l);
}

static void
on_gang(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct espl__lines *l = ctx;

	(void)gang, (void)slots;
	if (phase == ESPL__PHASE_RESIZED && !l->view->totals.simulated && begin_line(l, now)) {
		const struct espl__view_gang *g = espl__map_get(&l->view->gangs, trial);

		put_trial_name(l, trial);
		espl__print(&l->line, " resized");
		if (g != NULL && g->before > 0)
			espl__print(&l->line, " from %u", g->before);
		espl__print(&l->line, " to ");
		put_share(l, share);
		end_line(l);
		return;
	}
	if (phase != ESPL__PHASE_ENDED || text == NULL || text[0] == '\0' || !begin_line(l, now))
		return;
	put_trial_name(l, trial);
	espl__print(&l->line, ": ");
	espl__print_clean(&l->line, text);
	end_line(l);
}

static void
on_node(void *ctx, espl_time now, const struct espl_node *node, const struct espl_offer *offer,
    const char *host, espl_money charged, const char *why)
{
	static const char *const words[] = { NULL, NULL, NULL, "is ready",
		"has an interruption notice", "ended" };
	struct espl__lines *l = ctx;
	const char *word = words[node->state <= ESPL_NODE_ENDED ? node->state : 0];

	if (node->state == ESPL_NODE_READY && (node->flags & ESPL_NODE_QUARANTINED) != 0)
		word = "is set aside";
	if (word == NULL || l->view->totals.simulated || !begin_line(l, now))
		return;
	espl__print(&l->line, "node %llu (", (unsigned long long)node->id);
	espl__print_clean(&l->line, offer != NULL ? offer->name : "?");
	if (host != NULL) {
		espl__print(&l->line, ", ");
		espl__print_clean(&l->line, host);
	}
	espl__print(&l->line, ") %s", word);
	if (node->state == ESPL_NODE_READY)
		espl__print(&l->line, ": %u %s", node->gpu_count, slots_word(l, node->gpu_count));
	if (node->state == ESPL_NODE_ENDED && charged > 0)
		espl__print(&l->line, ", $%.4f", (double)charged / 1e6);
	if (node->state == ESPL_NODE_ENDED && why != NULL && why[0] != '\0') {
		espl__print(&l->line, ": ");
		espl__print_clean(&l->line, why);
	}
	end_line(l);
}

static void
on_group(void *ctx, espl_time now, uint64_t group, uint32_t bracket, uint32_t stage, int ended)
{
	struct espl__lines *l = ctx;
	const struct espl__view_group *g = espl__view_group_of(l->view, group);
	char name[48];

	(void)bracket, (void)stage;
	if (g == NULL || !begin_line(l, now))
		return;
	espl__view_group_name(g, name);
	espl__print(&l->line, "%s %s", name, ended ? "finished" : "begins");
	if (ended) {
		espl__print(&l->line, ": %llu trial%s", (unsigned long long)(g->done + g->failed),
		    g->done + g->failed == 1 ? "" : "s");
		if (g->failed > 0)
			espl__print(&l->line, ", %llu failed", (unsigned long long)g->failed);
	}
	end_line(l);
}

static void
on_experiment(void *ctx, espl_time now, uint64_t number, const struct espl__search_summary *s)
{
	struct espl__lines *l = ctx;

	/* The executor shows it again when it begins to end; it has arrived only once. */
	if (!s->come || (s->how == 0 && s->arrived != now) ||
	    (s->how != 0 && s->ended == ESPL_NEVER) || !begin_line(l, now))
		return;
	espl__print(&l->line, "experiment %llu (", (unsigned long long)number);
	espl__print_clean(&l->line, s->name);
	espl__print(&l->line, s->how == 0 ? ") arrived" : ") ended: %s",
	    espl__run_end_name(s->how));
	if (s->how != 0 && s->text != NULL) {
		espl__print(&l->line, ", ");
		espl__print_clean(&l->line, s->text);
	}
	end_line(l);
}

struct espl__lines *
espl__lines_new(struct espl__view *view, FILE *to)
{
	struct espl__lines *l = espl__alloc(sizeof *l);

	l->magic = ESPL__LINES_MAGIC;
	l->view = view;
	l->to = to;
	l->last_line_at = espl__tick();
	l->best = ESPL_NONE;
	l->observer = (struct espl__observer){ .ctx = l,
		.trial = on_trial,
		.report = on_report,
		.config = on_config,
		.gang = on_gang,
		.node = on_node,
		.group = on_group,
		.experiment = on_experiment };
	return l;
}

struct espl__observer *
espl__lines_observer(struct espl__lines *l)
{
	ESPL__CHECK(l, LINES);
	return &l->observer;
}

void
espl__lines_tick(struct espl__lines *l, const struct espl__exec *exec)
{
	const struct espl__totals *t = &l->view->totals;
	char usd[32];

	ESPL__CHECK(l, LINES);
	espl__view_clock(l->view, exec);
	if (espl__tick() - l->last_line_at > PROGRESS_NS) {
		espl__view_refresh(l->view, exec);
		if (begin_line(l, l->view->now)) {
			espl__print(&l->line,
			    "%lld trial%s: %lld running, %lld waiting, %lld paused, %lld finished",
			    (long long)t->trials, t->trials == 1 ? "" : "s", (long long)t->running,
			    (long long)t->waiting, (long long)espl__totals_paused(t),
			    (long long)espl__totals_finished(t));
			if (t->failed > 0)
				espl__print(&l->line, ", %lld failed", (long long)t->failed);
			espl__print(&l->line, "; %lld of %lld %s in use, %s",
			    (long long)t->gpus_busy, (long long)t->gpus,
			    slots_word(l, (uint32_t)t->gpus), espl__format_usd(t->cost_usd, usd));
			end_line(l);
		}
	}
	if (!t->simulated)
		(void)fflush(l->to);
}

void
espl__lines_free(struct espl__lines *l)
{
	if (l == NULL)
		return;
	(void)fflush(l->to);
	espl__buf_free(&l->line);
	l->magic = 0;
	free(l);
}
