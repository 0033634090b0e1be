/* plan_find.c - one planner's answer: runs the executor up to its plan in a world that only
 * describes offers; replaces the file's allocator by others; simulates the run where nodes may be
 * interrupted; and asks the planner for a row of deadlines. */
#include <math.h>
#include <string.h>
#include <time.h>
#include <espalier/allocator.h>

#include "base/assert.h"
#include "cli/plan.h"
#include "driver/worlds.h"
#include "plugin/instance.h"
#include "run/drive.h"

struct finding {
	struct espl__plan_answer *answer;
	struct espl__arena *arena;
};

static void
copy_row(const struct finding *f, const struct espl__exec *exec,
    const struct espl__exec_plan_info *info, uint32_t i)
{
	const struct espl__forecast_stage *from = &info->rows[i];
	const struct espl_stage *stage = info->spec->brackets[from->bracket]->stages[from->stage];
	const struct espl_offer *offer = espl__exec_offer(exec, from->offer);
	struct espl__plan_row *row = &f->answer->rows[i];

	row->offer =
	    espl__arena_strdup(f->arena, offer != NULL && offer->name != NULL ? offer->name : "");
	if (offer != NULL && (offer->flags & ESPL_OFFER_REVOCABLE) != 0 && offer->hazard_hour > 0) {
		f->answer->interrupted = row->offer;
		f->answer->hazard_hour = offer->hazard_hour;
	}
	row->bracket = from->bracket;
	row->stage = from->stage;
	row->trials = stage->trials;
	row->iterations = stage->iterations;
	row->gpus = from->gpus;
	row->gpus_per_trial = from->gpus_per_trial;
	row->nodes = from->nodes;
	row->starts_s = from->starts_s;
	row->ends_s = from->ends_s;
	row->cost_usd = from->cost_usd;
}

/* How long the nodes are held that are new in row `first`: the oldest are released first. */
static double
held_s(const struct espl__exec_plan_info *info, uint32_t first)
{
	const struct espl__forecast_stage *row = &info->rows[first], *last = row;
	int parallel = (info->spec->flags & ESPL_SPEC_PARALLEL) != 0;
	uint64_t younger = 0;

	for (uint32_t i = first + 1; i < info->plan->stage_count; i++) {
		const struct espl__forecast_stage *r = &info->rows[i];

		if (r->offer != row->offer || (parallel && r->bracket != row->bracket))
			break;
		if (r->nodes > last->nodes)
			younger += r->nodes - last->nodes;
		if (r->nodes <= younger)
			break;
		last = r;
	}
	return last->ends_s - row->starts_s;
}

/* Nodes that end before the plan releases them are interrupted, too. */
static void
find_outlived(const struct finding *f, const struct espl__exec *exec,
    const struct espl__exec_plan_info *info)
{
	struct espl__plan_answer *a = f->answer;

	for (uint32_t i = 0; i < a->row_count; i++) {
		const struct espl_offer *offer = espl__exec_offer(exec, info->rows[i].offer);
		double most = offer != NULL ? (double)offer->lease_max / 1e9 : 0.0;

		if (a->interrupted != NULL || !(most > 0) || held_s(info, i) <= most)
			continue;
		a->interrupted = a->rows[i].offer;
		a->lease_max_s = most;
	}
}

/* The executor ends with the drive, so the needed parts of its plan are copied. */
static void
on_tick(void *ctx, struct espl__exec *exec)
{
	const struct finding *f = ctx;
	struct espl__plan_answer *a = f->answer;
	struct espl__exec_plan_info info;

	espl__exec_plan_info(exec, &info);
	if (info.plan == NULL || a->rows != NULL)
		return;
	a->row_count = info.plan->stage_count;
	a->rows = espl__arena_alloc(f->arena, (a->row_count + (size_t)1) * sizeof *a->rows);
	for (uint32_t i = 0; i < a->row_count; i++)
		copy_row(f, exec, &info, i);
	find_outlived(f, exec, &info);
	a->brackets = info.spec->bracket_count;
	a->on_cpu = espl__exec_on_cpu(exec);
	a->meets = info.result->meets;
	a->optimal = (info.plan->flags & ESPL_PLAN_OPTIMAL) != 0;
	a->gap = info.plan->gap;
	a->plans = info.plan->searched;
	a->effort = info.plan->effort;
	a->jct_s = info.result->jct_s;
	a->cost_usd = info.result->cost_usd;
}

static void
drive_plan_only(struct espl__inputs *s, const struct espl__plan_ask *how, struct espl__arena *arena,
    struct espl__plan_answer *a)
{
	struct finding f = { a, arena };
	struct espl__exec_summary summary;
	struct espl__drive drive = { .exec = { .inputs = s,
					 .simulated = 1,
					 .plan_only = 1,
					 .plan_gpus = how->gpus,
					 .plan_gpus_count = how->gpus_count },
		.open_world = espl__world_open,
		.seed = s->config->seed,
		.tick = on_tick,
		.ctx = &f };

	a->status = espl__drive(&drive, &summary, &a->diag);
	a->least_s = summary.least_s;
	a->least_usd = summary.least_usd;
	a->elapsed_ms = (double)summary.call_times.max / 1e6;
	if (a->status == ESPL_E_INFEASIBLE)
		espl__plan_least(&a->diag, s->config, &summary);
	/* The planner failed permanently: the run ended cleanly, but without a plan. */
	if (a->status == ESPL_OK && a->rows == NULL)
		a->status = espl__fail(&a->diag, ESPL_E_REJECTED, "%s",
		    summary.text != NULL && summary.text[0] != '\0' ? summary.text
								    : "no plan was made");
}

void
espl__plan_find(struct espl__inputs *s, const struct espl__plan_ask *how, struct espl__arena *arena,
    struct espl__plan_answer *a)
{
	struct espl__run_config *c = s->config;
	struct espl__section allocator = c->allocator;
	espl_span deadline = c->deadline;
	espl_money budget = c->budget;

	ESPL__CHECK(s->config, RUN_CONFIG);
	memset(a, 0, sizeof *a);
	a->gap = a->least_s = a->least_usd = a->idle_usd = NAN;
	a->allocator = how->allocator != NULL ? how->allocator : c->allocator.use;
	if (how->limits) {
		c->deadline = how->deadline;
		c->budget = how->budget;
	}
	if (how->allocator != NULL)
		a->status = espl__plan_allocator(s, how->allocator, arena, &a->diag);
	if (a->status == ESPL_OK)
		drive_plan_only(s, how, arena, a);
	c->allocator = allocator;
	c->deadline = deadline;
	c->budget = budget;
}

/* The same GPUs in each stage may still make another plan. */
static int
is_same_plan(const struct espl__plan_answer *a, const struct espl__plan_answer *b)
{
	if (a->row_count != b->row_count)
		return 0;
	for (uint32_t i = 0; i < a->row_count; i++)
		if (strcmp(a->rows[i].offer, b->rows[i].offer) != 0 ||
		    a->rows[i].gpus_per_trial != b->rows[i].gpus_per_trial ||
		    a->rows[i].nodes != b->rows[i].nodes)
			return 0;
	return 1;
}

#define WORTH_SAYING 0.01 /* of the cost */

void
espl__plan_idle(struct espl__inputs *s, struct espl__arena *arena, struct espl__plan_answer *a)
{
	struct espl__plan_ask how = { .gpus_count = a->row_count };
	struct espl__plan_answer idle;
	uint32_t *gpus;

	ESPL__ASSERT(a->status == ESPL_OK);
	if (s->config->release_idle || a->row_count == 0)
		return;
	gpus = espl__arena_alloc(arena, a->row_count * sizeof *gpus);
	for (uint32_t i = 0; i < a->row_count; i++)
		gpus[i] = a->rows[i].gpus;
	how.gpus = gpus;
	s->config->release_idle = 1;
	espl__plan_find(s, &how, arena, &idle);
	s->config->release_idle = 0;
	if (idle.status == ESPL_OK && is_same_plan(a, &idle) &&
	    idle.cost_usd.mean < a->cost_usd.mean * (1 - WORTH_SAYING))
		a->idle_usd = idle.cost_usd.mean;
}

/* ---- other allocators --------------------------------------------------------------------- */

static const struct espl_option *
option_of(const struct espl__plugin *plugin, const char *name)
{
	for (uint32_t i = 0; plugin != NULL && i < plugin->desc->option_count; i++) {
		const struct espl_option *o =
		    espl__option_at(plugin->desc->options, plugin->desc->option_size, i);

		if (strcmp(o->name, name) == 0)
			return o;
	}
	return NULL;
}

/* Does an option mean the same to both? */
static int
is_same_option(const struct espl_option *a, const struct espl_option *b)
{
	return a != NULL && b != NULL && a->type == b->type &&
	    (a->type != ESPL_OPT_CHOICE || strcmp(a->choices, b->choices) == 0);
}

espl_status
espl__plan_allocator(struct espl__inputs *s, const char *name, struct espl__arena *arena,
    struct espl__diag *diag)
{
	const struct espl__node *group = s->config->allocator.group;
	const struct espl__plugin *before, *after;
	struct espl__node *kept;
	struct espl__node **children;
	espl_status status = espl__plugin_find(ESPL_ALLOCATOR, name, &after, diag);

	ESPL__CHECK(s->config, RUN_CONFIG);
	if (status == ESPL_OK)
		status = espl__plugin_find(ESPL_ALLOCATOR, s->config->allocator.use, &before, diag);
	if (status != ESPL_OK)
		return status;
	if (group != NULL) {
		kept = espl__arena_alloc(arena, sizeof *kept);
		children =
		    espl__arena_alloc(arena, (group->child_count + (size_t)1) * sizeof *children);
		*kept = *group;
		kept->child_count = 0;
		kept->children = children;
		for (uint32_t i = 0; i < group->child_count; i++) {
			const char *option = group->children[i]->name;

			/* Options that only the file's allocator knows are dropped; options that
			 * neither knows are reported. */
			if (before == after ||
			    (strcmp(option, "use") != 0 &&
				(option_of(before, option) == NULL ||
				    is_same_option(option_of(before, option),
					option_of(after, option)))))
				children[kept->child_count++] = group->children[i];
		}
		s->config->allocator.group = kept;
	}
	s->config->allocator.use = espl__arena_strdup(arena, after->desc->name);
	return ESPL_OK;
}

struct names {
	struct espl__arena *arena;
	const char **list;
	uint32_t count, cap;
};

static void
add_planner(void *ctx, const struct espl__plugin *plugin)
{
	struct names *names = ctx;
	const struct espl_allocator_ops *ops;

	if (plugin->desc->kind != ESPL_ALLOCATOR)
		return;
	ops = (const struct espl_allocator_ops *)plugin->desc->ops;
	if (!ESPL_HAS(struct espl_allocator_ops, ops, plan))
		return;
	ESPL__GROW(names->list, names->cap, names->count + 1);
	names->list[names->count++] = espl__arena_strdup(names->arena, plugin->desc->name);
}

static uint32_t
rank_allocator(const char *name)
{
	static const char *const first[] = { "static", "naive-elastic", "elastic-greedy",
		"elastic-exact" };
	uint32_t i, count = sizeof first / sizeof first[0];

	for (i = 0; i < count && !espl__plugin_name_equal(first[i], name); i++)
		;
	return i;
}

uint32_t
espl__plan_allocators(struct espl__arena *arena, const char *const **sorted)
{
	struct names names = { arena, NULL, 0, 0 };
	const char **list;
	uint32_t i, k;

	espl__plugins_each(add_planner, NULL, &names);
	list = espl__arena_alloc(arena, (names.count + (size_t)1) * sizeof *list);
	for (i = 0; i < names.count; i++) {
		for (k = i; k > 0 && rank_allocator(list[k - 1]) > rank_allocator(names.list[i]);
		     k--)
			list[k] = list[k - 1];
		list[k] = names.list[i];
	}
	free(names.list);
	*sorted = list;
	return names.count;
}

/* ---- interruptions --------------------------------------------------------------------------- */

/* Plans on nodes that the provider may interrupt. The model does not cover that, so the run is
 * simulated. */

#define RUNS 20u
#define SPENT 2.0 /* seconds after which no further run begins */

static double
seconds_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void
espl__plan_try(struct espl__inputs *s, struct espl__plan_answer *a)
{
	struct espl__plan_tries *tries = &a->tries;
	struct espl__profile *truth = s->truth;
	struct espl__exec_summary summary;
	struct espl__diag diag = ESPL__DIAG_INIT;
	double began = seconds_now();

	espl__instance_log_from(ESPL_WARN);
	/* A prediction is of the whole search. */
	s->config->has_target = 0;
	s->config->no_better = 0;
	s->truth = NULL; /* plans use the profile that policies are given */
	for (uint32_t i = 0; i < RUNS && seconds_now() - began < SPENT; i++) {
		struct espl__drive drive = { .exec = { .inputs = s, .simulated = 1 },
			.open_world = espl__world_open,
			.seed = s->config->seed + i };

		memset(&summary, 0, sizeof summary);
		if (espl__drive(&drive, &summary, &diag) != ESPL_OK)
			break;
		tries->kept += summary.how == ESPL__RUN_DONE;
		tries->jct_s += ((double)summary.now / 1e9 - tries->jct_s) / (i + 1);
		tries->cost_usd += ((double)summary.cost / 1e6 - tries->cost_usd) / (i + 1);
		tries->runs++;
	}
	s->truth = truth;
}

/* ---- frontier -------------------------------------------------------------------------------- */

/* What each deadline would cost: the planner is asked again for deadlines from
 * the soonest that can be kept to four times that, in equal ratios. */

#define WIDEST 4.0 /* last deadline over the first */

/* The soonest, asked for with a deadline that nothing can keep. */
static double
find_soonest(struct espl__inputs *s, struct espl__plan_ask *how, struct espl__arena *arena,
    struct espl__frontier *frontier)
{
	struct espl__plan_answer answer;

	how->deadline = 0;
	espl__plan_find(s, how, arena, &answer);
	if (answer.status == ESPL_OK)
		return 0; /* a search that takes no time */
	if (answer.status == ESPL_E_INFEASIBLE && answer.least_s >= 0)
		return answer.least_s;
	frontier->diag = answer.diag;
	return NAN;
}

void
espl__plan_frontier(struct espl__inputs *s, const char *allocator, struct espl__arena *arena,
    struct espl__frontier *frontier)
{
	struct espl__plan_ask how = { .allocator = allocator, .limits = 1, .budget = INT64_MAX };
	double least;

	memset(frontier, 0, sizeof *frontier);
	least = find_soonest(s, &how, arena, frontier);
	/* A configuration file cannot express longer deadlines. */
	if (!(least * WIDEST < (double)ESPL_NEVER / 2e9))
		return;
	frontier->count = least > 0 ? ESPL__FRONTIER_POINTS : 1;
	for (uint32_t i = 0; i < frontier->count; i++) {
		double deadline = least * pow(WIDEST, (double)i / (ESPL__FRONTIER_POINTS - 1));

		/* Up to whole nanoseconds: the soonest plan must not miss its own time. */
		how.deadline = (espl_span)ceil(deadline * 1e9) + 1;
		frontier->deadline_s[i] = deadline;
		espl__plan_find(s, &how, arena, &frontier->answers[i]);
	}
}
