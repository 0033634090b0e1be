/* test_faults.c - searches of every kind under faults of every kind, on the simulated world.
 * Whatever happens: the run ends, every trial is accounted for, no node is left, nothing is paid
 * for that can do nothing, a replay agrees, and so does a run that is cut anywhere and resumed come
 * to its end.
 *
 * Seeds are new on every run and printed; SEED=n repeats one, SEEDS=n says how many (make soak:
 * many).
 */
#include <time.h>

#include "base/rng.h"
#include "exec_run.h"

#define ROOM 4000
#define ROUNDS_MOST 200000u
/* nodes that are there, nothing runs, trials wait */
#define IDLE_MOST (5 * 60 * ESPL_SECOND)

struct scenario {
	struct espl__rng rng;
	char *config;
	char faults[ROOM];
};

static uint32_t
pick(struct scenario *s, uint32_t sides)
{
	return (uint32_t)(espl__rng_next(&s->rng) % sides);
}

static const char *
algorithm(struct scenario *s, uint32_t trials, uint32_t most, char *to)
{
	static const char *const kinds[] = { "random", "sha", "hyperband", "asha", "bohb",
		"bohb\"; mode = \"sync", "tpe", "median", "pbt", "sobol", "stages" };
	uint32_t k = pick(s, sizeof kinds / sizeof kinds[0]);

	if (strcmp(kinds[k], "stages") == 0)
		(void)snprintf(to, ROOM,
		    "use = \"stages\"; stages = ( (%u, %u), (%u, %u), (1, %u) );", trials,
		    1 + pick(s, 3), trials / 2 + 1, 1 + pick(s, 4), 1 + pick(s, 4));
	else if (strcmp(kinds[k], "pbt") == 0)
		(void)snprintf(to, ROOM,
		    "use = \"pbt\"; population = %u; interval = %u; iterations_max = %u;",
		    2 + trials / 3, 1 + pick(s, 3), most + 4);
	else
		(void)snprintf(to, ROOM, "use = \"%s\"; trials = %u; iterations_max = %u;",
		    kinds[k], trials, most);
	return to;
}

static const char *
allocator(struct scenario *s)
{
	static const char *const policies[] = { "use = \"static\"; gpus = 4;", "use = \"static\";",
		"use = \"fair\";", "use = \"fair\"; resize = \"always\";",
		"use = \"fair\"; packing = 3;", "use = \"fluid\";",
		"use = \"fluid\"; mode = \"paper\";", "use = \"greedy\";", "use = \"milp\";",
		"use = \"milp\"; engine = \"marginal\";", "use = \"fifo\";" };

	return policies[pick(s, sizeof policies / sizeof policies[0])];
}

static const char *
one_fault(struct scenario *s, uint32_t trials, char *to)
{
	uint32_t at = 1 + pick(s, 200), node = pick(s, 5), trial = pick(s, trials),
		 iteration = 1 + pick(s, 4);

	switch (pick(s, 15)) {
	case 0:
		(void)snprintf(to, ROOM, "kind = \"node-lost\"; node = %u; at = \"%us\";", node,
		    at);
		break;
	case 1:
		(void)snprintf(to, ROOM,
		    "kind = \"notice\"; node = %u; at = \"%us\"; notice = \"%us\";", node, at,
		    pick(s, 60));
		break;
	case 2:
		(void)snprintf(to, ROOM,
		    "kind = \"trial-fails\"; trial = %u; iteration = %u; times = %u;", trial,
		    iteration, 1 + pick(s, 4));
		break;
	case 3:
		(void)snprintf(to, ROOM,
		    "kind = \"trial-lost\"; trial = %u; iteration = %u; times = %u;", trial,
		    iteration, 1 + pick(s, 4));
		break;
	case 4:
		(void)snprintf(to, ROOM, "kind = \"nan\"; trial = %u; iteration = %u;", trial,
		    iteration);
		break;
	case 5:
		(void)snprintf(to, ROOM, "kind = \"hang\"; trial = %u; iteration = %u;", trial,
		    iteration);
		break;
	case 6:
		(void)snprintf(to, ROOM, "kind = \"gpu-lost\"; node = %u; at = \"%us\"; %s", node,
		    at, pick(s, 3) == 0 ? "" : "gpu = 1;");
		break;
	case 7:
		(void)snprintf(to, ROOM, "kind = \"no-capacity\"; from = \"%us\"; to = \"%us\"; %s",
		    at, at + 1 + pick(s, 300), pick(s, 2) == 0 ? "" : "retry_after = \"45s\";");
		break;
	case 8:
		(void)snprintf(to, ROOM, "kind = \"boot-fails\"; from = \"%us\"; to = \"%us\";", at,
		    at + 1 + pick(s, 60));
		break;
	case 9:
		(void)snprintf(to, ROOM, "kind = \"crash-rate\"; probability = %s;",
		    pick(s, 12) == 0 ? "1.0" : "0.04");
		break;
	case 10:
		(void)snprintf(to, ROOM,
		    "kind = \"slow\"; factor = %u.5; from = \"%us\"; to = \"%us\";", pick(s, 4), at,
		    at + 100);
		break;
	case 11: (void)snprintf(to, ROOM, "kind = \"bad-checkpoint\"; trial = %u;", trial); break;
	case 12:
		(void)snprintf(to, ROOM, "kind = \"stop\"; at = \"%us\";", at + 400 * pick(s, 4));
		break;
	case 13:
		(void)snprintf(to, ROOM,
		    "kind = \"unreachable\"; node = %u; at = \"%us\"; for = \"%us\";", node, at,
		    1 + pick(s, 150));
		break;
	default:
		(void)snprintf(to, ROOM,
		    "kind = \"slow-boot\"; factor = %u.0; from = \"0s\"; to = \"5m\";",
		    1 + pick(s, 5));
		break;
	}
	return to;
}

/* A pool of plain jobs, of one to four nodes each. */
static char *
pool_of_jobs(struct scenario *s, const char *cloud, const char *placer)
{
	static const char *const policies[] = { "use = \"fair\";", "use = \"greedy\";",
		"use = \"milp\";", "use = \"milp\"; engine = \"marginal\";", "use = \"fifo\";",
		"use = \"fluid\";" };

	return espl__format("experiment = { name = \"t\"; seed = %u; };\n"
			    "workload = { jobs = %u; span = \"10m\"; mean = \"3m\"; least = "
			    "\"1m\"; iteration = \"10s\"; nodes_max = %u; };\n"
			    "trial = { retries = %u; profile = { iteration = \"1s\"; start = "
			    "\"2s\"; checkpoint = \"1s\"; }; };\n"
			    "cloud = { %s }; allocator = { %s }; placer = { use = \"%s\"; };\n",
	    pick(s, 1000), 5 + pick(s, 20), 1 + pick(s, 3), pick(s, 3), cloud,
	    policies[pick(s, sizeof policies / sizeof policies[0])], placer);
}

static void
draw(struct scenario *s, uint64_t seed)
{
	static const char *const placers[] = { "colocate", "scatter", "pack" };
	static const char *const resizes[] = { "", "resize = \"300ms\";", "resize = \"7s\";" };
	char search[ROOM], fault[ROOM], cloud[ROOM];
	size_t used = 0;
	uint32_t trials, most;
	const char *placer;

	memset(s, 0, sizeof *s);
	espl__rng_seed(&s->rng, seed, "faults");
	trials = 3 + pick(s, 25);
	most = 1 + pick(s, 14);
	placer = placers[pick(s, 3)];
	(void)snprintf(cloud, sizeof cloud,
	    "use = \"sim\"; nodes_max = %u; offers = ( { name = \"n\"; gpus = %u; price = 3.6; %s "
	    "provision = \"15s\"; %s} );",
	    2 + pick(s, 4), 1 + pick(s, 4),
	    pick(s, 4) == 0 ? "market = \"spot\"; hazard_hour = 20.0; notice = \"20s\";" : "",
	    pick(s, 4) == 0 ? "minimum_charge = \"5m\"; billing_step = \"60s\"; " : "");
	s->config = pick(s, 4) == 0
	    ? pool_of_jobs(s, cloud, placer)
	    : espl__format("experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; "
			   "seed = %u; %s };\n"
			   "trial = { trainable = \"hartmann6\"; options = { bias = 2.5; noise = "
			   "2.0; }; gpus_max = %u; packing_max = %u;\n"
			   "  checkpoint_every = \"%us\"; checkpoint = %s; retries = %u; colocate "
			   "= %s; report_limit = \"5m\";\n"
			   "  profile = { iteration = { mean = \"4s\"; sd = \"1s\"; }; scaling = "
			   "((1, 1.0), (2, 1.9), (4, 3.4));\n"
			   "    packing = ((1, 1.0), (2, 1.6), (3, 2.0), (4, 2.2)); start = "
			   "\"2s\"; checkpoint = \"1s\"; %s }; };\n"
			   "space = { x0 = { type = \"real\"; low = 0.0; high = 1.0; }; x1 = { "
			   "type = \"real\"; low = 0.0; high = 1.0; };\n"
			   "  x2 = { type = \"real\"; low = 0.0; high = 1.0; }; x3 = { type = "
			   "\"real\"; low = 0.0; high = 1.0; };\n"
			   "  x4 = { type = \"real\"; low = 0.0; high = 1.0; }; x5 = { type = "
			   "\"real\"; low = 0.0; high = 1.0; }; };\n"
			   "cloud = { %s };\n"
			   "algorithm = { %s }; allocator = { %s }; placer = { use = \"%s\"; }; "
			   "planning = { warm = %s; };\n",
		  pick(s, 1000),
		  pick(s, 8) == 0       ? "deadline = \"90s\";"
		      : pick(s, 8) == 0 ? "budget = 0.3;"
					: "",
		  1 + pick(s, 5), 1 + pick(s, 4), 1 + pick(s, 20), "true", pick(s, 4),
		  pick(s, 2) ? "true" : "false", resizes[pick(s, 3)], cloud,
		  algorithm(s, trials, most, search), allocator(s), placer,
		  pick(s, 2) ? "true" : "false");
	used = (size_t)snprintf(s->faults, ROOM,
	    "faults = ( { kind = \"slow-boot\"; factor = 1.0; from = \"0s\"; to = \"1s\"; }");
	for (uint32_t i = pick(s, 9); i > 0; i--)
		used += (size_t)snprintf(s->faults + used, ROOM - used, ", { %s }",
		    one_fault(s, trials, fault));
	(void)snprintf(s->faults + used, ROOM - used, " );");
}

/* Pumps to the end, and watches that nobody pays for nothing: nodes that are all there, nothing
 * runs, trials wait. */
static espl_status
pump_watching(struct run *r, struct tape *tape, uint64_t seed)
{
	espl_time idle_since = ESPL_NEVER;

	for (uint32_t n = 0; !espl__exec_view(r->exec).ended; n++) {
		struct espl__exec_summary s;
		struct espl__lease_info leases[8];
		espl_status status = pump(r, tape, 1);
		uint32_t i, count;

		if (status != ESPL_OK)
			return status;
		cr_assert_lt(n, ROUNDS_MOST, "SEED=%llu does not end", (unsigned long long)seed);
		espl__exec_summary(r->exec, &s);
		count = espl__exec_leases(r->exec, leases, 8);
		for (i = 0; i < count && i < 8 && leases[i].state == ESPL_NODE_READY; i++)
			;
		if (count == 0 || i < count || s.gpus_busy > 0 || s.waiting == 0)
			idle_since = ESPL_NEVER;
		else if (idle_since == ESPL_NEVER)
			idle_since = s.now;
		cr_assert(idle_since == ESPL_NEVER || s.now - idle_since < IDLE_MOST,
		    "SEED=%llu: %u nodes are paid for, %llu trials wait, and nothing has run for "
		    "five minutes",
		    (unsigned long long)seed, (unsigned)count, (unsigned long long)s.waiting);
	}
	espl__exec_summary(r->exec, &r->summary);
	return ESPL_OK;
}

static void
check_end(const struct run *r, uint64_t seed)
{
	const struct espl__exec_summary *s = &r->summary;
	unsigned long long n = (unsigned long long)seed;

	cr_assert(espl__exec_view(r->exec).ended, "SEED=%llu does not end", n);
	cr_assert_eq(s->nodes_leaked, 0, "SEED=%llu", n);
	cr_assert_eq(espl__exec_leases(r->exec, NULL, 0), 0, "SEED=%llu", n);
	cr_assert_eq(s->gpus_busy, 0, "SEED=%llu", n);
	cr_assert_leq(s->nodes_peak, 5, "SEED=%llu", n);
	cr_assert_leq(s->busy_gpu_s, s->gpu_s + 1e-6, "SEED=%llu: used %f of %f GPU seconds", n,
	    s->busy_gpu_s, s->gpu_s);
	if (s->how == ESPL__RUN_DONE)
		cr_assert_eq(s->finished + s->failed, s->trials, "SEED=%llu", n);
	if (s->how == ESPL__RUN_FAILED)
		cr_assert(s->text[0] != '\0', "SEED=%llu", n);
	cr_assert_null(strstr(s->text, " no place"), "SEED=%llu: %s", n, s->text);
}

/* The driver dies after `after` rounds and is resumed. */
static void
check_resume(const struct scenario *s, const struct tape *tape, uint32_t after, uint64_t seed)
{
	struct run r;
	espl_status status;

	make_run(&r, s->config, s->faults, NULL);
	cr_assert_eq(replay(&r, tape, after), ESPL_OK, "SEED=%llu, replay: %s",
	    (unsigned long long)seed, r.diag.text);
	if (!espl__exec_view(r.exec).ended) {
		cr_assert_eq(r.world->ops->begin(r.world, 1, tape->list[after - 1].now, &r.diag),
		    ESPL_OK);
		status = pump_watching(&r, NULL, seed);
		cr_assert_eq(status, ESPL_OK, "SEED=%llu, resumed after %u rounds: %s",
		    (unsigned long long)seed, (unsigned)after, r.diag.text);
	} else {
		espl__exec_summary(r.exec, &r.summary);
	}
	check_end(&r, seed);
	unmake(&r);
}

static int
check_seed(uint64_t seed)
{
	struct scenario s;
	struct tape tape = { 0 };
	struct run r;
	espl_status status;
	int done = 0;

	draw(&s, seed);
	(void)snprintf(run_label, sizeof run_label, "SEED=%llu: ", (unsigned long long)seed);
	make_run(&r, s.config, s.faults, NULL);
	cr_assert_eq(r.world->ops->begin(r.world, 0, 0, &r.diag), ESPL_OK, "SEED=%llu: %s",
	    (unsigned long long)seed, r.diag.text);
	status = pump_watching(&r, &tape, seed);
	/* its deadline or budget is too small: said at once */
	if (status == ESPL_E_INFEASIBLE) {
		espl__exec_summary(r.exec, &r.summary);
		cr_assert_eq(r.summary.cost, 0, "SEED=%llu", (unsigned long long)seed);
	} else {
		cr_assert_eq(status, ESPL_OK, "SEED=%llu: %s", (unsigned long long)seed,
		    r.diag.text);
		check_end(&r, seed);
		done = r.summary.how == ESPL__RUN_DONE;
		check_resume(&s, &tape, tape.count, seed);
		check_resume(&s, &tape, 1 + pick(&s, tape.count), seed);
	}
	unmake(&r);
	free_tape(&tape);
	free(s.config);
	return done;
}

Test(faults, searches_of_all_kinds_under_faults_of_all_kinds, .timeout = 3600)
{
	const char *one = getenv("SEED"), *many = getenv("SEEDS");
	uint64_t from =
	    one != NULL ? strtoull(one, NULL, 10) : (uint64_t)time(NULL) % 1000000 * 1000000;
	uint64_t count = one != NULL ? 1 : many != NULL ? strtoull(many, NULL, 10) : 200, done = 0;

	fprintf(stderr, "# %llu seeds from %llu on\n", (unsigned long long)count,
	    (unsigned long long)from);
	for (uint64_t seed = from; seed < from + count; seed++)
		done += (uint64_t)check_seed(seed);
	cr_assert(count < 100 || done > count / 8, "only %llu of %llu came to their end",
	    (unsigned long long)done, (unsigned long long)count);
}

/* What a seed once showed stays here.  (A scenario is made of its seed alone: change draw, and
 * these are others.) */
Test(faults, seeds_that_have_failed, .timeout = 600)
{
	static const uint64_t seeds[] = {
		/* nodes set aside were held while milp asked to be woken, again and again */
		UINT64_C(396076000419),
	};

	for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
		(void)check_seed(seeds[i]);
}
