/* test_grow.c - GPUs that nobody was granted find somebody: allocators are asked again when a start
 * or a change is over, and when a share was timed of which no profile tells.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "driver/worlds.h"
#include "exec/items_tiers.h"
#include "input/input.h"

#define TRIALS 16u

struct run {
	struct espl__inputs inputs, unknown; /* unknown: without the profile */
	struct espl__world *world;
	struct espl__exec *exec;
	struct espl__exec_summary summary;
	struct espl__diag diag;
	/* the iteration at which it could grow and did not; 0: it could not */
	uint64_t since[TRIALS];
	uint32_t stuck; /* gangs that stayed small for two iterations more */
	/* GPUs of a gang: ever, and of the one that reported last */
	uint32_t widest, last;
	uint32_t in_place;
};

static const char *const head =
    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; };\n"
    "trial = { trainable = \"hartmann6\"; gpus_max = 8; profile = { iteration = { mean = \"4s\"; "
    "sd = \"%s\"; };\n"
    "  scaling = (%s); start = \"%s\"; checkpoint = \"1s\"; %s }; };\n"
    "space = { x0 = { type = \"real\"; low = 0.0; high = 1.0; }; x1 = { type = \"real\"; low = "
    "0.0; high = 1.0; };\n"
    "  x2 = { type = \"real\"; low = 0.0; high = 1.0; }; x3 = { type = \"real\"; low = 0.0; high = "
    "1.0; };\n"
    "  x4 = { type = \"real\"; low = 0.0; high = 1.0; }; x5 = { type = \"real\"; low = 0.0; high = "
    "1.0; }; };\n"
    "cloud = { use = \"sim\"; offers = ( { name = \"n\"; gpus = %u; price = 3.6; market = "
    "\"on-demand\"; provision = \"1s\"; } ); nodes_max = 1; };\n"
    "algorithm = { use = \"random\"; trials = %u; iterations_max = %u; };\n"
    "allocator = { %s }; placer = { use = \"%s\"; };\n";

struct scene {
	const char *sd, *scaling, *start, *resize, *allocator, *placer;
	uint32_t gpus, trials, iterations;
	int unknown; /* the executor is told no profile */
};

static void
quiet(void *ctx, espl_level level, const char *text)
{
	(void)ctx, (void)level, (void)text;
}

static void
make(struct run *r, const struct scene *s, uint64_t seed)
{
	char name[] = "/tmp/espl-grow-XXXXXX";
	struct espl__exec_setup setup = { .simulated = 1 };
	int fd = mkstemp(name);
	FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;

	memset(r, 0, sizeof *r);
	espl__log_to(quiet, NULL, ESPL_ERROR);
	cr_assert(f != NULL);
	fprintf(f, head, s->sd, s->scaling, s->start, s->resize, s->gpus, s->trials, s->iterations,
	    s->allocator, s->placer);
	cr_assert_eq(fclose(f), 0);
	cr_assert_eq(espl__plugins_init(NULL, &r->diag), ESPL_OK, "%s", r->diag.text);
	cr_assert_eq(espl__run_load(name, NULL, 0, ESPL__NEED_TRIAL, &r->inputs.config, &r->diag),
	    ESPL_OK, "%s", r->diag.text);
	unlink(name);
	r->inputs.config->seed = seed;
	cr_assert_eq(espl__space_parse(r->inputs.config->space, &r->inputs.space, &r->diag),
	    ESPL_OK, "%s", r->diag.text);
	cr_assert_eq(espl__profile_load(r->inputs.config->trial.profile,
			 r->inputs.config->directory, &r->inputs.profile, &r->diag),
	    ESPL_OK, "%s", r->diag.text);
	r->unknown = r->inputs;
	cr_assert_eq(espl__profile_load(NULL, NULL, &r->unknown.profile, &r->diag), ESPL_OK);
	setup.inputs = s->unknown ? &r->unknown : &r->inputs;
	cr_assert_eq(espl__exec_new(&setup, &r->exec, &r->diag), ESPL_OK, "%s", r->diag.text);
	cr_assert_eq(espl__world_sim(&r->inputs, seed, NULL, &r->world, &r->diag), ESPL_OK, "%s",
	    r->diag.text);
	r->world->exec = r->exec;
	cr_assert_eq(r->world->ops->begin(r->world, 0, 0, &r->diag), ESPL_OK, "%s", r->diag.text);
}

static void
unmake(struct run *r)
{
	r->world->ops->close(r->world, 0, NULL);
	espl__exec_free(r->exec);
	espl__profile_free(r->inputs.profile);
	espl__profile_free(r->unknown.profile);
	espl__space_free(r->inputs.space);
	espl__run_free(r->inputs.config);
}

/* Who is due more, by equal shares, and at rest: two iterations later it should have been seen to.
 * Near its end a trial is left alone. */
static void
look(struct run *r)
{
	const struct espl__exec *x = r->exec;

	for (const struct espl__gang *g = x->gangs.first; g != NULL; g = g->next) {
		const struct espl__item *item = g->trial->item;
		uint64_t trial = g->trial->pub.id;

		cr_assert_lt(trial, TRIALS);
		r->widest = g->share.gpus > r->widest ? g->share.gpus : r->widest;
		if (item == NULL || g->state != ESPL__GANG_RUNNING ||
		    g->iteration + 14 > g->trial->pub.budget ||
		    (item->pub.flags & ESPL_ITEM_CHANGING) != 0 ||
		    item->pub.granted.gpus != g->share.gpus ||
		    g->share.gpus >= item->pub.gpus_max ||
		    g->share.gpus >= x->fleet.gpus / x->items.count ||
		    espl__tier_gpus(&x->items.top) >= x->fleet.gpus) {
			r->since[trial] = 0;
		} else if (r->since[trial] == 0) {
			r->since[trial] = g->iteration + 1;
		} else if (g->iteration + 1 == r->since[trial] + 2) {
			r->stuck++;
			r->since[trial]--; /* once */
		}
	}
}

static void
run(struct run *r, const struct scene *s, uint64_t seed)
{
	make(r, s, seed);
	while (!espl__exec_view(r->exec).ended) {
		struct espl__round round;
		const struct espl__effect *effects;
		uint32_t count;

		cr_assert_eq(r->world->ops->next(r->world, &round, &r->diag), ESPL_OK, "%s",
		    r->diag.text);
		for (uint32_t i = 0; i < round.count; i++) {
			const struct espl__gang *g = round.events[i].type == ESPL__EV_REPORT
			    ? espl__gang_at(r->exec, round.events[i].as.report.gang)
			    : NULL;

			r->last = g != NULL ? g->share.gpus : r->last;
			r->in_place += round.events[i].type == ESPL__EV_RESIZED;
		}
		cr_assert_eq(espl__exec_round(r->exec, round.now, round.events, round.count, NULL,
				 0, &r->diag),
		    ESPL_OK, "%s", r->diag.text);
		look(r);
		effects = espl__exec_effects(r->exec, &count);
		cr_assert_eq(r->world->ops->apply(r->world, effects, count, &r->diag), ESPL_OK,
		    "%s", r->diag.text);
	}
	espl__exec_summary(r->exec, &r->summary);
	cr_assert_eq(r->summary.how, ESPL__RUN_DONE, "%s", r->summary.text);
}

/* A trial ends while another is just starting, or going over to more GPUs. */
Test(grow, nobody_stays_small_beside_idle_gpus, .timeout = 120)
{
	static const char *const scaling = "(1, 1.0), (2, 1.9), (4, 3.6), (8, 6.8)";
	static const struct scene scenes[] = { { "1s", scaling, "6s", "", "use = \"fair\";",
						   "colocate", 4, 6, 40, 0 },
		{ "1s", scaling, "6s", "resize = \"5s\";", "use = \"fair\";", "colocate", 8, 5, 40,
		    0 },
		{ "1s", scaling, "6s", "", "use = \"fair\";", "scatter", 8, 3, 40, 0 },
		{ "1s", scaling, "6s", "resize = \"5s\";", "use = \"fair\"; resize = \"always\";",
		    "scatter", 6, 4, 40, 0 } };
	uint32_t resized = 0;

	for (uint32_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++)
		for (uint64_t seed = 1; seed <= 20; seed++) {
			struct run r;

			run(&r, &scenes[i], seed);
			cr_expect_eq(r.stuck, 0, "scene %u, seed %u: %u gangs stay small",
			    (unsigned)i, (unsigned)seed, (unsigned)r.stuck);
			resized += r.in_place;
			unmake(&r);
		}
	cr_assert_gt(resized, 0);
}

/* One trial, no profile: what a doubling brings is tried, and kept as far as it pays. */
Test(grow, a_lone_trial_without_a_profile_is_widened, .timeout = 60)
{
	static const char *const fluid = "use = \"fluid\";";
	static const struct {
		const char *scaling;
		uint32_t widest, last;
	} cases[] = { { "(1, 1.0), (2, 1.9), (4, 3.6), (8, 6.8)", 8, 8 },
		{ "(1, 1.0), (2, 1.9), (4, 3.6)", 8, 4 },
		{ "(1, 1.0), (2, 1.6), (4, 1.7)", 8, 3 }, /* by the law between 2 and 4 */
		{ "(1, 1.0)", 2, 1 } };

	for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct scene s = { "0s", cases[i].scaling, "1s", "", fluid, "pack", 8, 1, 100, 1 };
		struct run r;

		run(&r, &s, 3);
		cr_expect_eq(r.widest, cases[i].widest, "case %u: at most %u GPUs", (unsigned)i,
		    (unsigned)r.widest);
		cr_expect_eq(r.last, cases[i].last, "case %u: %u GPUs at last", (unsigned)i,
		    (unsigned)r.last);
		unmake(&r);
	}
}
