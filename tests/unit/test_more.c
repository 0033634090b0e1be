/* test_more.c - what a user adds to a search, or takes from it, while it runs: trials that are
 * stopped, configurations of his own, more trials; with every algorithm, while trials fail and
 * nodes are lost.
 *
 * Whatever he does, the search ends; a trial that he stopped never trains again; every
 * configuration of his is tried; and a replay of the events comes to the same decisions.
 *
 * SEED=n repeats one search.
 */
#include <time.h>

#include "base/rng.h"
#include "exec/questions.h"
#include "exec_run.h"

#define TRIALS_MOST 2000u
#define ROUNDS_MOST 20000u

static const char *const head =
    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; seed = %u; deadline = "
    "\"10h\"; };\n"
    "trial = { trainable = \"hartmann6\"; options = { bias = 2.5; noise = 2.0; }; gpus_max = 1;\n"
    "  retries = 1; checkpoint_every = \"6s\";\n"
    "  profile = { iteration = { mean = \"4s\"; sd = \"1s\"; }; start = \"2s\"; checkpoint = "
    "\"1s\"; }; };\n"
    "space = { x0 = { type = \"real\"; low = 0.0; high = 1.0; }; x1 = { type = \"real\"; low = "
    "0.0; high = 1.0; };\n"
    "  x2 = { type = \"real\"; low = 0.0; high = 1.0; }; x3 = { type = \"choice\"; values = [ 0.1, "
    "0.9 ]; };\n"
    "  x4 = { type = \"real\"; low = 0.0; high = 1.0; }; x5 = 0.5; };\n"
    "cloud = { use = \"sim\"; offers = ( { name = \"n\"; gpus = 4; price = 3.6; market = "
    "\"on-demand\"; provision = \"15s\"; } ); nodes_max = 1; };\n"
    "algorithm = { %s }; allocator = { use = \"fair\"; }; placer = { use = \"colocate\"; };\n";

/* extends: takes more trials; the other ones have a number that is part of their method. */
static const struct {
	const char *text;
	int extends;
} algorithms[] = {
	{ "use = \"random\"; trials = 24; iterations_max = 5;", 1 },
	{ "use = \"grid\"; points = 2; iterations_max = 4;", 0 },
	{ "use = \"sobol\"; trials = 24; iterations_max = 5;", 1 },
	{ "use = \"stages\"; stages = ( (12, 2), (4, 4), (2, 8) );", 0 },
	{ "use = \"sha\"; trials = 18; iterations_min = 1; iterations_max = 9; eta = 3;", 0 },
	{ "use = \"hyperband\"; iterations_min = 1; iterations_max = 9; eta = 3;", 0 },
	{ "use = \"asha\"; trials = 24; iterations_min = 1; iterations_max = 9; eta = 3;", 1 },
	{ "use = \"asha\"; trials = 24; iterations_min = 1; iterations_max = 9; eta = 3; mode = "
	  "\"stopping\";",
	    1 },
	{ "use = \"hypersched\"; trials = 24; iterations_min = 1; iterations_max = 9; eta = 3;",
	    0 },
	{ "use = \"median\"; trials = 24; iterations_max = 6;", 1 },
	{ "use = \"bohb\"; trials = 18; iterations_min = 1; iterations_max = 9; eta = 3;", 0 },
	{ "use = \"tpe\"; trials = 24; iterations_max = 3;", 1 },
	{ "use = \"pbt\"; population = 4; interval = 2; iterations_max = 8;", 0 },
};
#define ALGORITHMS (sizeof algorithms / sizeof algorithms[0])

struct user {
	struct espl__observer observer;
	struct espl__rng rng;
	uint8_t stopped[TRIALS_MOST]; /* [trial] */
	double wanted[TRIALS_MOST];   /* x0 of the configurations that were added */
	uint8_t found[TRIALS_MOST];   /* that this one was tried */
	uint64_t trials, stops, added, more, trained_on;
};

static void
see_trial(void *ctx, espl_time now, const struct espl_trial *t)
{
	struct user *u = ctx;

	(void)now;
	u->trials = t->id >= u->trials ? t->id + 1 : u->trials;
	for (uint64_t i = 0; i < u->added; i++)
		u->found[i] |= fabs(t->values[0] - u->wanted[i]) < 1e-9;
}

static void
see_gang(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct user *u = ctx;

	(void)now, (void)gang, (void)share, (void)slots, (void)text;
	cr_assert_lt(trial, TRIALS_MOST);
	u->trained_on += phase == ESPL__PHASE_STARTING && u->stopped[trial];
}

static uint32_t
pick(struct user *u, uint32_t sides)
{
	return (uint32_t)(espl__rng_next(&u->rng) % sides);
}

/* What the user does in this round; 1: *event is it. */
static int
draw_wish(struct user *u, const struct run *r, int extends, double *values,
    struct espl__event *event)
{
	uint64_t trials = u->trials;
	uint32_t what = pick(u, 100);

	memset(event, 0, sizeof *event);
	if (what < 6 && trials > 0) {
		uint64_t trial = pick(u, (uint32_t)trials);

		event->type = ESPL__EV_CANCEL;
		event->as.cancel.number = 0;
		event->as.cancel.trial = trial;
		if (espl__exec_stops(r->exec, 0, trial) != NULL)
			return 0;
		u->stopped[trial] = 1;
		u->stops++;
		return 1;
	}
	if (espl__exec_extends(r->exec, 0) != NULL) {
		cr_assert(!extends ||
			strcmp(espl__exec_extends(r->exec, 0), "the run is ending") == 0,
		    "%s%s", run_label, espl__exec_extends(r->exec, 0));
		return 0;
	}
	cr_assert(extends);
	if (what < 10 && extends && u->added < 20) {
		event->type = ESPL__EV_EXTEND;
		event->as.extend.trials = 1;
		event->as.extend.count = 5;
		event->as.extend.values = values;
		for (uint32_t i = 0; i < 5; i++)
			values[i] =
			    i == 3 ? (double)pick(u, 2) : (double)pick(u, 1000000) / 1000000.0;
		u->wanted[u->added++] = values[0];
		return 1;
	}
	if (what < 12 && extends && u->more < 30) {
		event->type = ESPL__EV_EXTEND;
		event->as.extend.trials = 1 + pick(u, 4);
		u->more += event->as.extend.trials;
		return 1;
	}
	return 0;
}

/* Pumps to the end, the user's wishes among the events. */
static void
pump_wishes(struct run *r, struct user *u, int extends, struct tape *tape)
{
	for (uint32_t n = 0; n < ROUNDS_MOST && !espl__exec_view(r->exec).ended; n++) {
		struct espl__event events[64];
		struct espl__round round;
		const struct espl__effect *effects;
		double values[8];
		uint32_t count;

		cr_assert_eq(r->world->ops->next(r->world, &round, &r->diag), ESPL_OK, "%s%s",
		    run_label, r->diag.text);
		cr_assert_lt(round.count, 60);
		memcpy(events, round.events, round.count * sizeof *events);
		round.count +=
		    (uint32_t)(n > 2 && draw_wish(u, r, extends, values, &events[round.count]));
		round.events = events;
		cr_assert_eq(espl__exec_round(r->exec, round.now, round.events, round.count, NULL,
				 0, &r->diag),
		    ESPL_OK, "%s%s", run_label, r->diag.text);
		keep(tape, &round, espl__exec_decisions(r->exec));
		effects = espl__exec_effects(r->exec, &count);
		cr_assert_eq(r->world->ops->apply(r->world, effects, count, &r->diag), ESPL_OK,
		    "%s%s", run_label, r->diag.text);
	}
	cr_assert(espl__exec_view(r->exec).ended, "%sthe search does not end", run_label);
	espl__exec_summary(r->exec, &r->summary);
}

static void
check_wishes(const struct user *u)
{
	for (uint64_t i = 0; i < u->added; i++)
		cr_assert(u->found[i], "%sconfiguration %d of the user was not tried", run_label,
		    (int)i);
	cr_assert_eq(u->trained_on, 0, "%sa trial that was stopped trained again", run_label);
}

static void
one_search(uint64_t seed, struct user *u)
{
	size_t kind = seed % ALGORITHMS;
	char *text = espl__format(head, (unsigned)(seed % 1000), algorithms[kind].text);
	const char *faults = seed / ALGORITHMS % 2 == 0
	    ? NULL
	    : "faults = ( { kind = \"crash-rate\"; probability = 0.05; } );";
	struct tape tape = { NULL, 0, 0 };
	struct run r, again;

	memset(u, 0, sizeof *u);
	espl__rng_seed(&u->rng, seed, "user");
	u->observer.ctx = u;
	u->observer.gang = see_gang;
	u->observer.trial = see_trial;
	(void)snprintf(run_label, sizeof run_label, "SEED=%llu: ", (unsigned long long)seed);
	make_run(&r, text, faults, &u->observer);
	cr_assert_eq(r.world->ops->begin(r.world, 0, 0, &r.diag), ESPL_OK);
	pump_wishes(&r, u, algorithms[kind].extends, &tape);
	cr_assert_eq(r.summary.how, ESPL__RUN_DONE, "%s%s", run_label, r.summary.text);
	if (kind == 0 && faults == NULL)
		cr_assert_eq(r.summary.trials, 24 + u->added + u->more, "%s", run_label);
	check_wishes(u);
	make_run(&again, text, faults, NULL);
	cr_assert_eq(replay(&again, &tape, tape.count), ESPL_OK, "%s%s", run_label,
	    again.diag.text);
	unmake(&again);
	unmake(&r);
	free_tape(&tape);
	free(text);
}

Test(more, a_user_stops_and_adds_trials, .timeout = 300)
{
	const char *one = getenv("SEED");
	uint64_t first = one != NULL ? strtoull(one, NULL, 10) : (uint64_t)time(NULL) * 1000;
	uint64_t stops = 0, added = 0, more = 0;
	struct user *u = espl__alloc(sizeof *u);

	printf("# seeds from %llu on\n", (unsigned long long)first);
	for (uint64_t seed = first; seed < first + (one != NULL ? 1 : 4 * ALGORITHMS); seed++) {
		one_search(seed, u);
		stops += u->stops;
		added += u->added;
		more += u->more;
	}
	free(u);
	cr_assert(one != NULL || (stops > 20 && added > 20 && more > 20));
}
