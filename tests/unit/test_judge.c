/* test_judge.c - the engine's sinks and those of the test kit, in the same state: 10,000 random
 * answers of each kind of policy are played to both, which accept and refuse the same calls for the
 * same reasons, and the same answers as a whole. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/space.h"
#include "policy/call.h"
#include "../../sdk/testkit/kit.h"

#define ANSWERS 10000
#define CALLS_MAX 8
#define HERE (5 * ESPL_SECOND)

static uint64_t stream;

static uint64_t
draw(uint64_t below)
{
	uint64_t z = stream += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (z ^ (z >> 31)) % below;
}

static int
often(void)
{
	return draw(4) > 0;
}

static int
seldom(void)
{
	return draw(12) == 0;
}

/* ---- answers ----------------------------------------------------------------------------- */

enum act {
	BEGIN,
	ADD,
	CLOSE,
	FINISH,
	VERDICT,
	DROP,
	HINT,
	WAKE,
	GRANT,
	TARGET,
	RETIRE,
	CLAIM,
	WATCH,
	OBJECTIVE,
	HORIZON,
	PLAN,
	PLACE,
	GIVE_UP,
	SPEC,
	ACTS
};
static const char *const act_words[] = { "begin", "add", "close", "finish", "verdict", "drop",
	"hint", "wake_at", "grant", "target", "retire", "claim", "watch_prices", "objective",
	"horizon", "plan", "place", "give_up", "spec" };

struct call {
	enum act act;
	uint64_t id, group;
	uint32_t number, low, high;
	double weight;
	espl_time at;
	const char *word;
	int given; /* values, slots and lists are there */
	double values[4];
	const double *wide; /* the values, if they are more */
	struct espl_group begin;
	struct espl_start start;
	struct espl_grant grant;
	struct espl_target target;
	struct espl_plan plan;
	struct espl_plan_stage stages[2];
	const struct espl_plan_stage *stage_list[2];
	struct espl_slot slots[6];
	struct espl_spec spec;
	struct espl_bracket bracket;
	const struct espl_bracket *bracket_list[1];
	struct espl_stage stage;
	const struct espl_stage *spec_stages[1];
};

/* What a side said. */
struct said {
	espl_status status[CALLS_MAX], whole;
	uint64_t made[CALLS_MAX];
	char why[CALLS_MAX][320], why_whole[400];
};

static struct call answer[CALLS_MAX];
static uint32_t answer_count;
static struct said *side;
static const char *(*reason)(void);
static uint32_t accepted[ACTS], refused[ACTS];
static struct espl_kit *kit;
static struct espl__caller caller;

static const char *
engine_reason(void)
{
	return caller.why;
}

static const char *
kit_reason(void)
{
	return kit->judge.text;
}

static void
note(uint32_t i, espl_status status)
{
	side->status[i] = status;
	(void)snprintf(side->why[i], sizeof side->why[i], "%s", status != ESPL_OK ? reason() : "");
}

static void
play_search(struct espl_search_sink *sink)
{
	for (uint32_t i = 0; i < answer_count; i++) {
		const struct call *c = &answer[i];
		struct espl_start start = c->start;

		start.values = c->wide != NULL ? c->wide : c->given ? c->values : NULL;
		side->made[i] = 0;
		switch (c->act) {
		case BEGIN: note(i, sink->begin(sink, &c->begin, &side->made[i])); break;
		case ADD: note(i, sink->add(sink, c->group, &start, &side->made[i])); break;
		case CLOSE: note(i, sink->close(sink, c->group)); break;
		case FINISH: note(i, sink->finish(sink)); break;
		case VERDICT: note(i, sink->verdict(sink, c->id, c->number)); break;
		case DROP: note(i, sink->drop(sink, c->id)); break;
		case HINT: note(i, sink->hint(sink, c->id, c->weight, c->low, c->high)); break;
		default: note(i, sink->wake_at(sink, c->at)); break;
		}
	}
}

static void
play_alloc(struct espl_alloc_sink *sink)
{
	static const uint32_t steps[10003] = { 1, 2, 3 }; /* as many as are ever drawn */

	for (uint32_t i = 0; i < answer_count; i++) {
		const struct call *c = &answer[i];
		struct espl_plan plan = c->plan;

		plan.stages = c->given ? c->stage_list : NULL;
		switch (c->act) {
		case GRANT: note(i, sink->grant(sink, &c->grant)); break;
		case TARGET: note(i, sink->target(sink, &c->target)); break;
		case RETIRE: note(i, sink->retire(sink, c->id)); break;
		case CLAIM: note(i, sink->claim(sink, c->id, c->number)); break;
		case WATCH: note(i, sink->watch_prices(sink, c->number, 1)); break;
		case OBJECTIVE: note(i, sink->objective(sink, 1.0, 2.0, c->word)); break;
		case HORIZON:
			note(i, sink->horizon(sink, c->id, c->given ? steps : NULL, c->number));
			break;
		case PLAN: note(i, sink->plan(sink, c->id, &plan)); break;
		default: note(i, sink->wake_at(sink, c->at)); break;
		}
	}
}

static void
play_place(struct espl_place_sink *sink)
{
	for (uint32_t i = 0; i < answer_count; i++) {
		const struct call *c = &answer[i];

		if (c->act == PLACE)
			note(i, sink->place(sink, c->id, c->given ? c->slots : NULL, c->number));
		else
			note(i, sink->give_up(sink, c->id));
	}
}

/* ---- the plugins ------------------------------------------------------------------------- */

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)view;
	(void)error;
	play_search(sink);
	return ESPL_OK;
}

static espl_status
on_report(void *self, const struct espl_trial *trial, const struct espl_observation *seen,
    struct espl_search_sink *sink, struct espl_error *error)
{
	(void)self;
	(void)trial;
	(void)seen;
	(void)error;
	play_search(sink);
	return ESPL_OK;
}

static espl_status
declare(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	(void)self;
	(void)error;
	for (uint32_t i = 0; i < answer_count; i++)
		note(i, sink->spec(sink, &answer[i].spec));
	return ESPL_OK;
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)view;
	(void)error;
	play_alloc(sink);
	return ESPL_OK;
}

static espl_status
place(void *self, const struct espl_place_view *view, struct espl_place_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)view;
	(void)error;
	play_place(sink);
	return ESPL_OK;
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	(void)host;
	(void)config;
	(void)error;
	*self = NULL;
	return ESPL_OK;
}

static void
destroy(void *self)
{
	(void)self;
}

static const struct espl_algorithm_ops search_ops = { ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group, .on_report = on_report, .spec = declare };
static const struct espl_allocator_ops alloc_ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate };
static const struct espl_placer_ops place_ops = { ESPL_TABLE(struct espl_placer_ops),
	.place = place };

#define DESCRIBE(name_, kind_, ops_) \
	static const struct espl_plugin name_ = { ESPL_HEAD(kind_, "random"), .version = "1", \
		.summary = "plays what it is given", \
		.option_size = (uint32_t)sizeof(struct espl_option), .ops = &(ops_).head, \
		.create = create, .destroy = destroy }
DESCRIBE(algorithm, ESPL_ALGORITHM, search_ops);
DESCRIBE(allocator, ESPL_ALLOCATOR, alloc_ops);
DESCRIBE(placer, ESPL_PLACER, place_ops);

/* An instance in the engine, of a plugin that is in the test. */
static void
host(const struct espl_plugin *desc, struct espl__plugin *plugin, struct espl__instance *instance)
{
	memset(instance, 0, sizeof *instance);
	*plugin = (struct espl__plugin){ desc, "(test)" };
	instance->magic = ESPL__INSTANCE_MAGIC;
	instance->plugin = plugin;
	instance->ops = desc->ops;
	(void)snprintf(instance->who, sizeof instance->who, "the policy");
}

static void
begin(const struct espl_plugin *desc, void (*make_space)(void))
{
	kit = espl_kit_new(1);
	espl_kit_set_time(kit, HERE);
	if (make_space != NULL)
		make_space();
	cr_assert_eq(espl_kit_open(kit, desc, "", NULL), ESPL_OK);
	memset(&caller, 0, sizeof caller);
	caller.rejected = 1000; /* nothing of it is logged */
}

static void
end(void)
{
	espl_kit_free(kit);
	espl__caller_free(&caller);
}

/* The kit's reason to discard an answer: the line that begins with "!! ". */
static void
read_whole(struct said *kits)
{
	const char *line = strstr(espl_kit_log(kit), "!! ");

	kits->why_whole[0] = '\0';
	if (line != NULL)
		(void)snprintf(kits->why_whole, sizeof kits->why_whole, "%.*s",
		    (int)strcspn(line + 3, "\n"), line + 3);
}

static void
compare(const struct said *engine, const struct said *kits, uint32_t number)
{
	for (uint32_t i = 0; i < answer_count; i++) {
		const char *word = act_words[answer[i].act];

		cr_assert(engine->status[i] == kits->status[i] &&
			strcmp(engine->why[i], kits->why[i]) == 0 &&
			engine->made[i] == kits->made[i],
		    "answer %u, %s: engine %d '%s' (id %llu), kit %d '%s' (id %llu)", number, word,
		    engine->status[i], engine->why[i], (unsigned long long)engine->made[i],
		    kits->status[i], kits->why[i], (unsigned long long)kits->made[i]);
		if (engine->status[i] == ESPL_OK)
			accepted[answer[i].act]++;
		else
			refused[answer[i].act]++;
	}
	cr_assert(engine->whole == kits->whole && strcmp(engine->why_whole, kits->why_whole) == 0,
	    "answer %u as a whole: engine %d '%s', kit %d '%s'", number, engine->whole,
	    engine->why_whole, kits->whole, kits->why_whole);
}

/* So that the comparison says something. */
static void
expect_both(enum act from, enum act to, uint32_t least)
{
	for (enum act act = from; act <= to; act++)
		cr_expect(accepted[act] >= least && refused[act] >= least,
		    "%s: %u accepted, %u refused", act_words[act], accepted[act], refused[act]);
}

/* ---- algorithms -------------------------------------------------------------------------- */

static const char space_text[] =
    "space = { x = { type = \"real\"; low = 0.0; high = 1.0; };\n"
    "n = { type = \"int\"; low = 1; high = 9; };\n"
    "c = { type = \"choice\"; values = [ \"a\", \"b\" ]; };\n"
    "y = { type = \"real\"; low = 0.0; high = 1.0; when = { c = \"b\"; }; }; };";

static void
make_space(void)
{
	espl_kit_real(kit, "x", 0, 1, ESPL_LINEAR, 0);
	espl_kit_int(kit, "n", 1, 9, ESPL_LINEAR);
	espl_kit_choice(kit, "c", "a|b");
	espl_kit_real(kit, "y", 0, 1, ESPL_LINEAR, 0);
	espl_kit_when(kit, "c", 1);
}

static void
draw_values(double *values)
{
	static const double odd[] = { -1, 0.5, 2, 5.5, 100 };

	values[0] = (double)draw(5) / 4;
	values[1] = (double)(1 + draw(9));
	values[2] = (double)draw(2);
	values[3] = values[2] == 1 ? (double)draw(3) / 2 : NAN;
	if (seldom())
		values[draw(4)] = seldom() ? NAN : odd[draw(5)];
}

static void
draw_start(struct call *c, uint64_t trials)
{
	static const double weights[] = { 0, 0, 1, 2.5, 0, -1, NAN, INFINITY };

	c->start = (struct espl_start)ESPL_INIT(struct espl_start);
	if (seldom())
		c->start.size = 0;
	c->start.how = (espl_how)(seldom() ? draw(6) : 1 + draw(3));
	c->start.trial = draw(trials + 2);
	c->start.checkpoint = draw(2) * draw(7);
	c->start.budget = draw(10);
	c->start.tag = draw(100);
	c->start.weight = weights[seldom() ? draw(8) : draw(5)];
	c->start.gpus_min = seldom() ? (uint32_t)draw(5) : 0;
	c->start.gpus_max = seldom() ? (uint32_t)draw(5) : 0;
	c->given = c->start.how == ESPL_FRESH ? !seldom() : draw(2) == 0;
	draw_values(c->values);
}

static void
draw_search_answer(uint64_t trials, uint64_t groups)
{
	static const double weights[] = { 0, 1, 3, -1, NAN, INFINITY };

	answer_count = 1 + (uint32_t)draw(CALLS_MAX);
	for (uint32_t i = 0; i < answer_count; i++) {
		struct call *c = &answer[i];

		c->act = (enum act)(draw(3) > 0 ? draw(3) : draw(WAKE + 1));
		if (c->act == FINISH && draw(2))
			c->act = ADD;
		c->id = draw(trials + 2);
		c->group = draw(groups + (often() ? 0 : 3));
		c->number = (uint32_t)draw(5);
		c->weight = weights[draw(6)];
		c->low = (uint32_t)draw(3);
		c->high = (uint32_t)draw(4);
		c->at = HERE + (espl_time)draw(4) - 1;
		c->begin = (struct espl_group)ESPL_INIT(struct espl_group);
		c->begin.flags = draw(2) ? ESPL_GROUP_OPEN : 0;
		c->begin.bracket = c->begin.stage = ESPL_ANY;
		if (seldom())
			c->begin.size = 4;
		if (seldom())
			c->begin.zero = 1;
		draw_start(c, trials);
	}
}

static void
add_group(struct espl__trials *trials, uint32_t flags)
{
	struct espl_group wanted = ESPL_INIT(struct espl_group);

	espl__group_new(trials, &wanted)->flags = flags;
	kit->groups = espl__kit_more(kit, kit->groups, kit->group_count, sizeof *kit->groups);
	kit->groups[kit->group_count++] = (struct kit_group){ .flags = flags };
}

static struct espl__trial *
add_trial(struct espl__trials *trials, uint64_t group, const double *values)
{
	static const double none[1];

	return espl__trial_new(trials, espl__group_at(trials, group),
	    values != NULL ? values : none, NULL);
}

/* The kit has the engine's trial, too. */
static void
copy_trial(const struct espl__trial *t)
{
	struct kit_trial *copy = espl__kit_alloc(kit, sizeof *copy);

	copy->pub = t->pub;
	copy->dropped = t->dropped;
	copy->reported = t->can_save ? kit->round : 0;
	kit->trials = espl__kit_more(kit, kit->trials, kit->trial_count, sizeof *kit->trials);
	kit->trials[kit->trial_count++] = copy;
	if (t->pub.state <= ESPL_TRIAL_RUNNING)
		kit->groups[t->pub.group].left++;
}

/* Trials and groups in any state, the same on both sides. */
static void
make_search(struct espl__trials *trials, const struct espl__space *space)
{
	static const double values[] = { 0.5, 3, 0, NAN };
	uint64_t count = draw(9), groups = 1 + draw(4);

	espl__trials_init(trials, espl__space_count(space));
	for (uint64_t i = 0; i < groups; i++)
		add_group(trials, often() ? ESPL_GROUP_OPEN : 0);
	for (uint64_t i = 0; i < count; i++) {
		struct espl__trial *t = add_trial(trials, draw(groups), values);

		t->pub.state = (espl_trial_state)(1 + draw(5));
		t->pub.iteration = draw(7);
		t->pub.checkpoint = draw(2) * draw(t->pub.iteration + 1);
		t->pub.budget = 7;
		t->can_save = t->pub.state <= ESPL_TRIAL_ENDED && draw(3) == 0;
		t->dropped = t->pub.state > ESPL_TRIAL_RUNNING && draw(3) == 0;
		copy_trial(t);
	}
	kit->round_at = HERE;
	if (seldom())
		kit->experiment.flags |= ESPL_EXPERIMENT_NO_SAVE;
}

/* The first trial that trains reports; ESPL_NONE: none does. */
static uint64_t
find_running(const struct espl__trials *trials)
{
	for (uint64_t i = 0; i < trials->trials.count; i++)
		if (espl__trial_at(trials, i)->pub.state <= ESPL_TRIAL_RUNNING)
			return i;
	return ESPL_NONE;
}

static void
ask_both(struct espl__trials *trials, struct said *engine, struct said *kits)
{
	struct espl_search_view view = ESPL_INIT(struct espl_search_view);
	struct espl_observation seen = ESPL_INIT(struct espl_observation);
	uint64_t reporter = draw(4) == 0 ? find_running(trials) : ESPL_NONE;
	struct espl__instance instance;
	struct espl__plugin plugin;

	host(&algorithm, &plugin, &instance);
	side = engine;
	reason = engine_reason;
	if (reporter != ESPL_NONE) {
		struct espl__trial *t = espl__trial_at(trials, reporter);

		t->pub.state = ESPL_TRIAL_RUNNING;
		t->pub.iteration++;
		t->can_save = 1;
		engine->whole = espl__call_report(&caller, &instance, &t->pub, &seen, NULL);
	} else {
		engine->whole = espl__call_next_group(&caller, &instance, &view, NULL);
	}
	side = kits;
	reason = kit_reason;
	kits->whole = reporter != ESPL_NONE
	    ? espl_kit_report(kit, reporter, kit->trials[reporter]->pub.iteration + 1, 0.5)
	    : espl_kit_ask(kit, ESPL_ASK_RESULT, ESPL_NONE, 4);
}

Test(judge, ten_thousand_answers_of_algorithms)
{
	static const espl_time here = HERE;
	struct espl__tree *tree;
	struct espl__space *space;

	stream = 1;
	cr_assert_eq(espl__tree_parse(space_text, "(test)", &tree, NULL), ESPL_OK);
	cr_assert_eq(espl__space_parse(espl__node_get(espl__tree_root(tree), "space"), &space,
			 NULL),
	    ESPL_OK);
	for (uint32_t i = 0; i < ANSWERS; i++) {
		struct said engine = { .whole = 0 }, kits = { .whole = 0 };
		struct espl__trials trials;

		begin(&algorithm, make_space);
		make_search(&trials, space);
		caller.params = espl__space_count(space);
		caller.space = espl__space_view(space);
		caller.trials = &trials;
		caller.now = &here;
		caller.no_saves = (kit->experiment.flags & ESPL_EXPERIMENT_NO_SAVE) != 0;
		draw_search_answer(trials.trials.count, trials.groups.count);
		ask_both(&trials, &engine, &kits);
		compare(&engine, &kits, i);
		end();
		espl__trials_free(&trials);
	}
	expect_both(BEGIN, WAKE, 100);
	espl__space_free(space);
	espl__tree_free(tree);
}

static void
draw_spec(struct call *c)
{
	c->act = SPEC;
	c->stage =
	    (struct espl_stage){ (uint32_t)sizeof c->stage, (uint32_t)draw(3), (uint32_t)draw(3) };
	c->spec_stages[0] = &c->stage;
	c->bracket =
	    (struct espl_bracket){ (uint32_t)sizeof c->bracket, !seldom(), c->spec_stages };
	c->bracket_list[0] = &c->bracket;
	c->spec = (struct espl_spec)ESPL_INIT(struct espl_spec);
	c->spec.bracket_count = !seldom();
	c->spec.brackets = c->bracket_list;
}

Test(judge, ten_thousand_specs)
{
	stream = 2;
	for (uint32_t i = 0; i < ANSWERS; i++) {
		struct said engine = { .whole = 0 }, kits = { .whole = 0 };
		struct espl__arena arena = { 0 };
		struct espl__instance instance;
		struct espl__plugin plugin;
		const struct espl_spec *spec;

		begin(&algorithm, NULL);
		host(&algorithm, &plugin, &instance);
		answer_count = 1 + (uint32_t)draw(3);
		for (uint32_t k = 0; k < answer_count; k++)
			draw_spec(&answer[k]);
		side = &engine;
		reason = engine_reason;
		engine.whole = espl__call_spec(&caller, &instance, &arena, &spec, NULL);
		side = &kits;
		reason = kit_reason;
		kits.whole = espl_kit_spec(kit);
		compare(&engine, &kits, i);
		espl__arena_free(&arena);
		end();
	}
	expect_both(SPEC, SPEC, 100);
}

static void
make_wide_space(void)
{
	char name[16];

	for (int i = 0; i < 300; i++) {
		(void)snprintf(name, sizeof name, "p%d", i);
		espl_kit_int(kit, name, 0, 4, ESPL_LINEAR);
	}
}

/* A space may have any number of parameters. */
Test(judge, a_configuration_of_three_hundred_parameters)
{
	static double values[300];
	struct said kits = { .whole = 0 };

	begin(&algorithm, make_wide_space);
	side = &kits;
	reason = kit_reason;
	answer_count = 3;
	memset(answer, 0, sizeof answer);
	answer[0].act = BEGIN;
	answer[0].begin = (struct espl_group)ESPL_INIT(struct espl_group);
	for (int i = 1; i < 3; i++) {
		answer[i].act = ADD;
		answer[i].start = (struct espl_start)ESPL_INIT(struct espl_start);
		answer[i].start.how = ESPL_FRESH;
		answer[i].start.budget = 1;
		answer[i].wide = values;
	}
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 1), ESPL_OK);
	cr_expect_eq(espl_kit_trials(kit), 2, "%s", espl_kit_log(kit));
	values[299] = 5;
	answer_count = 2;
	cr_assert_eq(espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, 1), ESPL_OK);
	cr_expect_eq(espl_kit_trials(kit), 2, "the last one is out of its bounds");
	end();
	memset(answer, 0, sizeof answer);
}

/* A trial that was stopped before it saved, and whose processes are gone, has nothing to clone. */
Test(judge, a_clone_of_a_trial_that_was_stopped_without_a_checkpoint)
{
	struct said engine = { .whole = 0 }, kits = { .whole = 0 };
	struct espl__trial *t;
	struct espl__trials trials;

	begin(&algorithm, NULL);
	espl__trials_init(&trials, 0);
	caller.trials = &trials;
	add_group(&trials, ESPL_GROUP_OPEN);
	t = add_trial(&trials, 0, NULL);
	t->pub.state = ESPL_TRIAL_ENDED;
	t->pub.iteration = 1;
	copy_trial(t);
	memset(answer, 0, sizeof answer);
	answer_count = 2;
	for (uint64_t i = 0; i < 2; i++) {
		answer[i].act = ADD;
		answer[i].start = (struct espl_start)ESPL_INIT(struct espl_start);
		answer[i].start.how = ESPL_CLONE;
		answer[i].start.budget = 6;
		answer[i].start.checkpoint = i; /* the newest; the one at iteration 1 */
	}
	stream = 5;
	ask_both(&trials, &engine, &kits);
	compare(&engine, &kits, 0);
	cr_expect_eq(engine.status[0], ESPL_E_UNKNOWN);
	cr_expect_eq(engine.status[1], ESPL_E_UNKNOWN);
	cr_expect_str_eq(engine.why[0],
	    "a clone of trial 0, which has no checkpoint and cannot save one");
	end();
	espl__trials_free(&trials);
}

/* ---- machines, on both sides ------------------------------------------------------------- */

#define ITEMS_MAX 8u
static struct espl__fleet fleet;
static struct espl_item *items[ITEMS_MAX]; /* the kit's: the engine's item is the same */
static struct espl_gang gangs[ITEMS_MAX];  /* as the engine's placer sees them */
static uint32_t item_count;
static int reserved_here[ITEMS_MAX]; /* the address of an item is its owner's name */

static const struct espl_item *
item_of(void *ctx, uint64_t id)
{
	(void)ctx;
	return id < item_count ? items[id] : NULL;
}

static const struct espl_gang *
gang_of(void *ctx, uint64_t id)
{
	(void)ctx;
	return id < item_count && items[id]->granted.gpus > 0 ? &gangs[id] : NULL;
}

static struct espl__machine *
add_node(uint32_t offer, espl_node_state state)
{
	struct espl__machine *n = espl__machine_lease(&fleet, offer, 0);
	uint64_t id = espl_kit_node(kit, offer, state);

	cr_assert_eq(n->pub.id, id);
	for (espl_node_state s = ESPL_NODE_BOOTING; s <= state; s++)
		espl__machine_state(&fleet, n, s, ESPL_ANY);
	if (state == ESPL_NODE_ENDED)
		espl_kit_node_state(kit, id, state);
	return n;
}

static void
make_node(uint32_t offer, espl_node_state state)
{
	static const uint32_t flags[] = { 0, 0, 0, 0, 0, ESPL_NODE_RETIRING, ESPL_NODE_QUARANTINED,
		ESPL_NODE_AT_RISK, ESPL_NODE_UNREACHABLE };
	struct espl__machine *n = add_node(offer, state);
	uint64_t id = n->pub.id;
	uint32_t flag = flags[draw(9)];

	if (state == ESPL_NODE_ENDED)
		return;
	n->pub.owner = seldom() ? 77 : ESPL_NONE;
	espl__machine_flag(&fleet, n, flag, 0);
	espl_kit_node_flags(kit, id, flag, n->pub.owner);
	if (seldom()) {
		uint32_t gpu = (uint32_t)draw(n->pub.gpu_count);

		espl__fleet_block(&fleet, n, gpu);
		espl_kit_block(kit, id, gpu);
	}
}

static void
make_fleet(void)
{
	uint32_t offers = 1 + (uint32_t)draw(3), nodes = 1 + (uint32_t)draw(5);

	espl__fleet_init(&fleet);
	for (uint32_t i = 0; i < offers; i++) {
		char name[8];

		(void)snprintf(name, sizeof name, "o%u", i);
		(void)espl_kit_offer(kit, name, 1 + (uint32_t)draw(4),
		    draw(2) ? ESPL_ANY : (uint32_t)draw(6), 1.0);
		cr_assert_eq(espl__fleet_offer(&fleet, espl_kit_offer_at(kit, i)), i);
		fleet.targets[i] = (uint32_t)draw(4);
		espl_kit_set_target(kit, i, fleet.targets[i]);
	}
	for (uint32_t i = 0; i < nodes; i++)
		make_node((uint32_t)draw(offers),
		    often() ? ESPL_NODE_READY : (espl_node_state)(1 + draw(5)));
}

/* Is there room for one more gang on this GPU, with this packing? */
static int
has_room(const struct espl_slot *slot)
{
	struct espl__machine *n;
	const struct espl__gpu *gpu = espl__gpu_at(&fleet, slot, &n);
	uint32_t packing = 0, others = gpu != NULL ? espl__gpu_reserved(gpu, &packing) : 0;

	return gpu != NULL && n->live && n->pub.state >= ESPL_NODE_READY &&
	    (others == 0 || packing == slot->packing) && others < slot->packing;
}

/* Some gangs have slots, as many as they were granted at some time. */
static void
put_gang(uint32_t i)
{
	struct espl_slot slots[6];
	uint32_t count = 0, k;
	struct espl_slot slot = { draw(6), 0, items[i]->granted.packing };

	for (; slot.gpu < 4 && count < items[i]->granted.gpus; slot.gpu++)
		if (has_room(&slot))
			slots[count++] = slot;
	for (k = 0; k < count; k++)
		espl__gpu_occupy(&fleet, &slots[k], &reserved_here[i], 0, 1);
	if (count > 0)
		espl_kit_put(kit, i, slots, count);
}

static void
make_items(void)
{
	item_count = (uint32_t)draw(ITEMS_MAX);
	for (uint32_t i = 0; i < item_count; i++) {
		uint32_t least = 1 + (uint32_t)draw(3);

		cr_assert_eq(espl_kit_item(kit, least, least + (uint32_t)draw(4)), i);
		items[i] = espl_kit_item_at(kit, i);
		items[i]->unit = seldom() ? 2 : 1;
		items[i]->packing_max = 1 + (uint32_t)draw(4);
		items[i]->flags = draw(3) == 0 ? ESPL_ITEM_COLOCATE : 0;
		if (seldom())
			items[i]->flags |= ESPL_ITEM_EXPERIMENT;
		if (draw(3) == 0)
			continue;
		if (items[i]->packing_max > 1 && draw(2))
			espl_kit_grant(kit, i, 1, 2 + (uint32_t)draw(items[i]->packing_max - 1));
		else
			espl_kit_grant(kit, i, 1 + (uint32_t)draw(4), 1);
		if (draw(3) > 0)
			put_gang(i);
	}
}

/* ---- allocators -------------------------------------------------------------------------- */

static void
draw_plan(struct call *c)
{
	c->plan = (struct espl_plan)ESPL_INIT(struct espl_plan);
	c->plan.stage_count = (uint32_t)draw(3);
	if (seldom())
		c->plan.size = 8;
	if (seldom())
		c->plan.zero = 1;
	for (int k = 0; k < 2; k++) {
		c->stages[k] = (struct espl_plan_stage)ESPL_INIT(struct espl_plan_stage);
		c->stages[k].gpus = !seldom();
		c->stages[k].offer = (uint32_t)(seldom() ? draw(5) : 0);
		c->stage_list[k] = seldom() ? NULL : &c->stages[k];
	}
}

static void
draw_grant(struct call *c)
{
	uint32_t packing = (uint32_t)(draw(3) == 0 ? draw(6) : 1);

	c->grant = (struct espl_grant)ESPL_INIT(struct espl_grant);
	c->grant.item = draw(item_count + 1);
	c->grant.share =
	    (struct espl_share){ packing > 1 && often() ? 1 : (uint32_t)draw(5), packing };
	c->grant.offer = often() ? ESPL_ANY : (uint32_t)draw(4);
	c->grant.flags = often() ? 0 : (uint32_t)draw(64);
	if (seldom())
		c->grant.size = (uint32_t)draw(8);
	if (seldom())
		c->grant.zero = 1;
}

static void
draw_alloc_answer(void)
{
	static const char *const words[] = { "optimal", "bounded", "", NULL,
		"a status that is much too long for one word of a report, as anybody can see" };

	answer_count = 1 + (uint32_t)draw(CALLS_MAX);
	for (uint32_t i = 0; i < answer_count; i++) {
		struct call *c = &answer[i];

		c->act = (enum act)(draw(3) == 0 ? GRANT + draw(2) : WAKE + draw(PLAN - WAKE + 1));
		c->id = draw(8);
		if (c->act == PLAN && often())
			c->id = 0;
		c->number = (uint32_t)(seldom() ? 10000 + draw(3) : draw(5));
		c->given = !seldom();
		c->word = words[draw(5)];
		c->at = HERE + (espl_time)draw(4) - 1;
		c->target = (struct espl_target)ESPL_INIT(struct espl_target);
		c->target.offer = (uint32_t)draw(4);
		c->target.nodes = (uint32_t)draw(7);
		if (seldom())
			c->target.size = 0;
		if (seldom())
			c->target.zero = 1;
		if (c->act == HORIZON && c->number < 10000 && c->number > 3)
			c->number = 3;
		draw_grant(c);
		draw_plan(c);
	}
}

static void
allocate_both(struct said *engine, struct said *kits)
{
	struct espl_alloc_view view = ESPL_INIT(struct espl_alloc_view);
	struct espl_sum in_force = { .whole = 0 };
	struct espl_budget budget = { .targets = fleet.targets,
		.limit = kit->experiment.gpus_limit,
		.limit_is = "experiment.gpus_max is",
		.in_force = &in_force };
	struct espl__arena arena = { 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__instance instance;
	struct espl__plugin plugin;

	for (uint32_t i = 0; i < item_count; i++)
		espl_sum_count(&in_force, items[i]->granted, 1);
	host(&allocator, &plugin, &instance);
	view.offers = (const struct espl_offer *const *)fleet.offers;
	view.offer_count = fleet.offer_count;
	view.experiments = kit->experiments;
	view.experiment_count = 1;
	side = engine;
	reason = engine_reason;
	cr_assert_eq(espl__call_allocate(&caller, &instance, &view, NULL), ESPL_OK);
	engine->whole = espl__answer_grants(&caller, &instance, &view, &budget, &arena, &diag);
	if (engine->whole != ESPL_OK)
		(void)snprintf(engine->why_whole, sizeof engine->why_whole, "%.300s",
		    diag.text + strlen("the policy "));
	espl__arena_free(&arena);
	side = kits;
	reason = kit_reason;
	kits->whole = espl_kit_allocate(kit);
	read_whole(kits);
}

Test(judge, ten_thousand_answers_of_allocators)
{
	static const espl_time here = HERE;
	uint32_t whole = 0;

	stream = 3;
	for (uint32_t i = 0; i < ANSWERS; i++) {
		struct said engine = { .whole = 0 }, kits = { .whole = 0 };

		begin(&allocator, NULL);
		make_fleet();
		make_items();
		kit->experiment.gpus_limit = often() ? ESPL_ANY : (uint32_t)draw(12);
		caller.fleet = &fleet;
		caller.item = item_of;
		caller.now = &here;
		draw_alloc_answer();
		allocate_both(&engine, &kits);
		compare(&engine, &kits, i);
		whole += engine.whole == ESPL_OK;
		end();
		espl__fleet_free(&fleet);
	}
	expect_both(WAKE, PLAN, 100);
	cr_expect(whole > 300 && ANSWERS - whole > 300, "%u answers fit as a whole", whole);
}

/* ---- placers ----------------------------------------------------------------------------- */

/* The gang as the engine lists it: espl__items_place. */
static void
list_gang(uint32_t i)
{
	struct espl_gang *from = espl_kit_gang_at(kit, i);
	int must = 0;

	from->owner = seldom() ? 77 : ESPL_NONE;
	from->offer = seldom() ? (uint32_t)draw(3) : ESPL_ANY;
	gangs[i] = *from;
	gangs[i].share = items[i]->granted;
	gangs[i].flags = (items[i]->flags & ESPL_ITEM_COLOCATE) != 0 ? ESPL_GANG_COLOCATE : 0;
	for (uint32_t k = 0; k < from->slot_count; k++) {
		const struct espl__machine *n = espl__machine_at(&fleet, from->slots[k].node);

		must |= n->pub.state != ESPL_NODE_READY ||
		    (n->pub.flags & (ESPL_NODE_RETIRING | ESPL_NODE_QUARANTINED)) != 0;
	}
	if (!seldom())
		return;
	espl_kit_lock(kit, i, 1);
	if (from->slot_count > 0 && !must)
		gangs[i].flags |= ESPL_GANG_LOCKED;
}

static void
draw_slots(struct call *c, uint32_t count)
{
	const struct espl_gang *gang = gang_of(NULL, c->id);
	struct espl_slot slot = { draw(3), 0, gang != NULL ? gang->share.packing : 1 };

	for (uint32_t k = 0; k < count && k < 6; k++, slot.gpu++) {
		if (slot.gpu >= 4 || (k > 0 && draw(5) == 0)) {
			slot.gpu = (uint32_t)draw(2);
			slot.node = draw(6);
		}
		if (seldom() && seldom())
			slot.gpu = (uint32_t)draw(6);
		if (seldom() && seldom())
			slot.packing = (uint32_t)draw(4);
		if (gang != NULL && k < gang->slot_count && draw(4) == 0)
			slot = gang->slots[k];
		c->slots[k] = slot;
	}
}

static void
draw_place_answer(void)
{
	answer_count = 1 + (uint32_t)draw(CALLS_MAX);
	for (uint32_t i = 0; i < answer_count; i++) {
		struct call *c = &answer[i];
		const struct espl_gang *gang;

		c->act = draw(6) == 0 ? GIVE_UP : PLACE;
		c->id = c->act == PLACE ? draw(item_count + 1) : draw(7);
		gang = gang_of(NULL, c->id);
		c->number = gang != NULL && !seldom() ? gang->share.gpus : (uint32_t)draw(6);
		if (draw(6) == 0)
			c->number = 0;
		c->given = !seldom() || !seldom();
		draw_slots(c, c->number);
	}
}

static void
place_both(struct said *engine, struct said *kits)
{
	struct espl_place_view view = ESPL_INIT(struct espl_place_view);
	struct espl__arena arena = { 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__instance instance;
	struct espl__plugin plugin;

	host(&placer, &plugin, &instance);
	side = engine;
	reason = engine_reason;
	cr_assert_eq(espl__call_place(&caller, &instance, &view, NULL), ESPL_OK);
	engine->whole = espl__answer_places(&caller, &instance,
	    espl__reader(caller.ops.data, caller.ops.size), 0, &arena, &diag);
	if (engine->whole != ESPL_OK)
		(void)snprintf(engine->why_whole, sizeof engine->why_whole, "%.300s",
		    diag.text + strlen("the policy "));
	espl__arena_free(&arena);
	side = kits;
	reason = kit_reason;
	kits->whole = espl_kit_place(kit);
	read_whole(kits);
}

Test(judge, ten_thousand_answers_of_placers)
{
	uint32_t whole = 0;

	stream = 4;
	for (uint32_t i = 0; i < ANSWERS; i++) {
		struct said engine = { .whole = 0 }, kits = { .whole = 0 };

		begin(&placer, NULL);
		make_fleet();
		make_items();
		for (uint32_t k = 0; k < item_count; k++)
			list_gang(k);
		caller.fleet = &fleet;
		caller.gang = gang_of;
		draw_place_answer();
		place_both(&engine, &kits);
		compare(&engine, &kits, i);
		whole += engine.whole == ESPL_OK;
		end();
		espl__fleet_free(&fleet);
	}
	expect_both(PLACE, GIVE_UP, 1000);
	cr_expect(whole > 300 && ANSWERS - whole > 300, "%u answers fit as a whole", whole);
}

/* Gang 0 is locked.  Gang 1 is on a node under notice: it may keep its slot there, and no other. */
Test(judge, a_locked_gang_and_a_node_under_notice)
{
	struct said engine = { .whole = 0 }, kits = { .whole = 0 };
	const struct espl_slot free_slot = { 0, 1, 1 }, noticed = { 1, 0, 1 }, other = { 1, 1, 1 };

	begin(&placer, NULL);
	espl__fleet_init(&fleet);
	(void)espl_kit_offer(kit, "box", 2, ESPL_ANY, 1.0);
	(void)espl__fleet_offer(&fleet, espl_kit_offer_at(kit, 0));
	stream = 0;
	add_node(0, ESPL_NODE_READY);
	add_node(0, ESPL_NODE_NOTICE);
	for (item_count = 0; item_count < 2; item_count++) {
		const struct espl_slot slot = { item_count, 0, 1 };

		(void)espl_kit_item(kit, 1, 1);
		items[item_count] = espl_kit_item_at(kit, item_count);
		espl_kit_grant(kit, item_count, 1, 1);
		espl__gpu_occupy(&fleet, &slot, &reserved_here[item_count], 0, 1);
		espl_kit_put(kit, item_count, &slot, 1);
		gangs[item_count] = *espl_kit_gang_at(kit, item_count);
		gangs[item_count].share = items[item_count]->granted;
	}
	espl_kit_lock(kit, 0, 1);
	gangs[0].flags = ESPL_GANG_LOCKED;
	gangs[1].flags = ESPL_GANG_MUST;
	caller.fleet = &fleet;
	caller.gang = gang_of;
	memset(answer, 0, sizeof answer);
	answer_count = 4;
	for (uint32_t i = 0; i < 4; i++) {
		answer[i].act = PLACE;
		answer[i].id = i > 1;
		answer[i].number = i > 0;
		answer[i].given = 1;
	}
	answer[1].slots[0] = free_slot;
	answer[2].slots[0] = other;
	answer[3].slots[0] = noticed;
	place_both(&engine, &kits);
	compare(&engine, &kits, 0);
	cr_expect_str_eq(engine.why[0], "a placement of item 0, whose gang is locked");
	cr_expect_eq(engine.status[1], ESPL_E_REJECTED, "nor can it be moved");
	cr_expect_str_eq(engine.why[2],
	    "a placement of item 1 on GPU 1 of node 1, which is on a node that takes no new gangs");
	cr_expect_eq(engine.status[3], ESPL_OK, "%s", engine.why[3]);
	end();
	espl__fleet_free(&fleet);
}
