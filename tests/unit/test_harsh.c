/* test_harsh.c - searches and pools in clouds that do not deliver: machines are few, others want
 * them, requests are refused, wait for hours or come in part, boots take long or never end,
 * machines are taken away with a notice or without, some are bad whenever they are leased, prices
 * move.
 *
 * Whatever happens: the run ends, for a reason that is documented; every trial that was requested
 * was started; nothing is left leased, and the bill is the sum of the leases; a machine that failed
 * is not given again while others are free; requests that are refused do not become a storm; no
 * slots are paid for in vain while a trial waits that fits them; a replay agrees, and a run that is
 * killed at any round and resumed comes to its end.
 *
 * Seeds are new on every run and printed; SEED=n repeats one, SEEDS=n says how many (make soak:
 * many); SHOW=1 prints what a seed is made of.
 */
#include <time.h>

#include "base/rng.h"
#include "exec_run.h"
#include "exec/questions.h"
#include "model/ledger.h"

#define ROOM 6000
#define ROUNDS_MOST 400000u
#define OFFERS_MOST 3u
/* slots that fit, a trial that waits: what may lie between (docs/model.md) */
#define IDLE_MOST (300 * ESPL_SECOND)
/* from a failure on a machine is avoided for this long at least */
#define AVOIDED_FOR (300 * ESPL_SECOND)

/* ---- a world ------------------------------------------------------------------------------ */

struct sold {
	uint32_t gpus, nodes_max, machines; /* ESPL_ANY: no end of them */
	uint32_t bad;                       /* machines 0 .. bad - 1 do not start */
	int shared;                         /* others want its machines, too */
	int canary;                         /* the first one is leased alone */
	const char *market;
	char name[8];
};
struct scenario {
	struct espl__rng rng;
	struct sold sold[OFFERS_MOST];
	uint32_t offers, trials;
	char *config;
	char faults[ROOM], prices[64];
};

static uint32_t
pick(struct scenario *s, uint32_t sides)
{
	return (uint32_t)(espl__rng_next(&s->rng) % sides);
}

static int
chance(struct scenario *s, uint32_t percent)
{
	return pick(s, 100) < percent;
}

static const char *
boot_time(struct scenario *s)
{
	static const char *const times[] = { "\"15s\"", "\"2m\"",
		"{ dist = \"lognormal\"; mean = \"1m\"; sd = \"4m\"; }",
		"{ dist = \"lognormal\"; mean = \"10m\"; sd = \"30m\"; }" };

	return times[pick(s, sizeof times / sizeof times[0])];
}

/* One offer of the cloud; the first is good enough for a run to end. */
static size_t
draw_offer(struct scenario *s, uint32_t number, char *to, size_t room)
{
	static const char *const waits[] = { "0s", "0s", "30s", "10m", "12h", "200h" };
	struct sold *o = &s->sold[number];
	size_t used;

	(void)snprintf(o->name, sizeof o->name, "n%u", (unsigned)number);
	o->gpus = 1 + pick(s, 4);
	o->nodes_max = 1 + pick(s, 4);
	o->market = chance(s, 35) ? "spot" : "on-demand";
	o->machines = chance(s, 70) ? pick(s, o->nodes_max + 2) : ESPL_ANY;
	if (number == 0 && o->machines == 0)
		o->machines = 1;
	used = (size_t)snprintf(to, room,
	    "%s{ name = \"%s\"; gpus = %u; nodes_max = %u; price = %u.6; market = \"%s\"; notice = "
	    "\"%us\"; provision = %s; init = \"%us\"; zone = \"z%u\";",
	    number > 0 ? ", " : "", o->name, (unsigned)o->gpus, (unsigned)o->nodes_max,
	    (unsigned)pick(s, 4), o->market, (unsigned)pick(s, 120), boot_time(s),
	    (unsigned)pick(s, 60), (unsigned)number);
	if (strcmp(o->market, "spot") == 0 && chance(s, 40))
		used += (size_t)snprintf(to + used, room - used, " hazard_hour = %u.0;",
		    (unsigned)(1 + pick(s, 12)));
	if (chance(s, 20))
		used += (size_t)snprintf(to + used, room - used,
		    " minimum_charge = \"5m\"; billing_step = \"60s\";");
	o->canary = chance(s, 30);
	if (o->canary)
		used += (size_t)snprintf(to + used, room - used, " canary = true;");
	if (o->machines != ESPL_ANY) {
		used += (size_t)snprintf(to + used, room - used, " machines = %u; wait = \"%s\";",
		    (unsigned)o->machines, waits[pick(s, sizeof waits / sizeof waits[0])]);
		o->shared = chance(s, 50);
		if (o->shared)
			used += (size_t)snprintf(to + used, room - used,
			    " free_for = \"%um\"; taken_for = \"%um\";",
			    (unsigned)(3 + pick(s, 90)), (unsigned)(1 + pick(s, 60)));
		if (o->machines > 1 && chance(s, 35))
			o->bad = 1 + pick(s, o->machines - 1);
	}
	return used + (size_t)snprintf(to + used, room - used, " }");
}

/* A file in which the prices of markets move. */
static void
draw_prices(struct scenario *s)
{
	int fd;
	FILE *f;

	strcpy(s->prices, "/tmp/espl-harsh-XXXXXX");
	fd = mkstemp(s->prices);
	f = fdopen(fd, "w");
	fputs("offer,market,time,price\n", f);
	for (uint32_t i = 0; i < s->offers; i++)
		for (uint32_t at = 0, k = 0; k < 20; k++, at += 60 + pick(s, 3000))
			if (strcmp(s->sold[i].market, "spot") == 0)
				fprintf(f, "%s,spot,%u,%u.%u\n", s->sold[i].name, (unsigned)at,
				    (unsigned)pick(s, 5), (unsigned)pick(s, 10));
	fclose(f);
}

static void
draw_cloud(struct scenario *s, char *to, size_t room)
{
	size_t used = (size_t)snprintf(to, room, "use = \"sim\"; offers = ( ");
	int markets = 0;

	s->offers = 1 + pick(s, OFFERS_MOST);
	for (uint32_t i = 0; i < s->offers; i++) {
		used += draw_offer(s, i, to + used, room - used);
		markets |= strcmp(s->sold[i].market, "spot") == 0;
	}
	used += (size_t)snprintf(to + used, room - used, " );");
	if (!markets || !chance(s, 40))
		return;
	draw_prices(s);
	(void)snprintf(to + used, room - used, " prices = \"%s\";", s->prices);
}

static size_t
bad_machines(struct scenario *s, char *to, size_t room)
{
	size_t used = 0;

	for (uint32_t i = 0; i < s->offers; i++)
		for (uint32_t m = 0; m < s->sold[i].bad; m++)
			used += (size_t)snprintf(to + used, room - used,
			    ", { kind = \"boot-fails\"; machine = \"%s-%s-%u\"; after = \"%us\"; }",
			    s->sold[i].name, s->sold[i].market, (unsigned)m,
			    (unsigned)(1 + pick(s, 600)));
	return used;
}

static size_t
one_fault(struct scenario *s, char *to, size_t room)
{
	static const char *const reasons[] = { "capacity", "capacity", "quota", "refused" };
	unsigned at = 1 + pick(s, 2000), node = pick(s, 6), trial = pick(s, s->trials);
	const struct sold *o = &s->sold[pick(s, s->offers)];
	unsigned machine = o->machines != ESPL_ANY && o->machines > 0 ? pick(s, o->machines) : 0;

	switch (pick(s, 14)) {
	case 0:
		return (size_t)snprintf(to, room, "kind = \"node-lost\"; node = %u; at = \"%us\";",
		    node, at);
	case 1:
		return (size_t)snprintf(to, room, "kind = \"notice\"; node = %u; at = \"%us\";",
		    node, at);
	case 2:
		return (size_t)snprintf(to, room,
		    "kind = \"no-capacity\"; offer = \"%s\"; reason = \"%s\"; probability = 0.%u; "
		    "from "
		    "= \"%us\"; to = \"%us\";",
		    o->name, reasons[pick(s, 4)], (unsigned)(1 + pick(s, 9)), at - 1,
		    at + (unsigned)pick(s, 20000));
	case 3:
		return (size_t)snprintf(to, room,
		    "kind = \"boot-fails\"; probability = 0.%u; after = \"%us\"; to = \"%us\";",
		    (unsigned)(1 + pick(s, 6)), (unsigned)(1 + pick(s, 900)), at);
	case 4: return (size_t)snprintf(to, room, "kind = \"no-notice\"; probability = 0.6;");
	case 5:
		return (size_t)snprintf(to, room, "kind = \"bad-gpu\"; machine = \"%s-%s-%u\"; %s",
		    o->name, o->market, machine, o->gpus > 1 ? "gpu = 0;" : "from = \"2000h\";");
	case 6:
		return (size_t)snprintf(to, room,
		    "kind = \"slow\"; machine = \"%s-%s-%u\"; factor = 8.0;", o->name, o->market,
		    machine);
	case 7:
		return (size_t)snprintf(to, room,
		    "kind = \"unreachable\"; node = %u; at = \"%us\"; for = \"%us\";", node, at,
		    (unsigned)(1 + pick(s, 300)));
	case 8:
		return (size_t)snprintf(to, room,
		    "kind = \"trial-fails\"; trial = %u; iteration = %u; times = %u;", trial,
		    (unsigned)(1 + pick(s, 4)), (unsigned)(1 + pick(s, 3)));
	case 9:
		return (size_t)snprintf(to, room,
		    "kind = \"gpu-lost\"; node = %u; at = \"%us\"; gpu = 0;", node, at);
	case 10: return (size_t)snprintf(to, room, "kind = \"crash-rate\"; probability = 0.02;");
	case 12:
		return (size_t)snprintf(to, room,
		    "kind = \"kills-node\"; trial = %u; iteration = %u; times = %u;", trial,
		    (unsigned)(1 + pick(s, 4)), (unsigned)(1 + pick(s, 8)));
	case 11: return (size_t)snprintf(to, room, "kind = \"no-route\"; from = \"%us\";", at - 1);
	default:
		return (size_t)snprintf(to, room,
		    "kind = \"slow-boot\"; factor = %u.0; from = \"0s\"; to = \"%us\";",
		    (unsigned)(1 + pick(s, 9)), at);
	}
}

static void
draw_faults(struct scenario *s)
{
	size_t used = (size_t)snprintf(s->faults, ROOM,
	    "faults = ( { kind = \"slow-boot\"; factor = 1.0; from = \"0s\"; to = \"1s\"; }");

	used += bad_machines(s, s->faults + used, ROOM - used);
	for (uint32_t i = pick(s, 7); i > 0; i--) {
		used += (size_t)snprintf(s->faults + used, ROOM - used, ", { ");
		used += one_fault(s, s->faults + used, ROOM - used);
		used += (size_t)snprintf(s->faults + used, ROOM - used, " }");
	}
	(void)snprintf(s->faults + used, ROOM - used, " );");
}

/* ---- what runs in it ---------------------------------------------------------------------- */

static void
draw_algorithm(struct scenario *s, uint32_t most, char *to)
{
	static const char *const kinds[] = { "random", "grid", "sha", "hyperband", "asha",
		"hypersched", "bohb", "bohb\"; mode = \"sync", "tpe", "median", "pbt", "sobol",
		"stages", "spottune" };
	const char *kind = kinds[pick(s, sizeof kinds / sizeof kinds[0])];

	if (strcmp(kind, "stages") == 0)
		(void)snprintf(to, ROOM,
		    "use = \"stages\"; stages = ( (%u, %u), (%u, %u), (1, %u) );",
		    (unsigned)s->trials, (unsigned)(1 + pick(s, 3)), (unsigned)(s->trials / 2 + 1),
		    (unsigned)(1 + pick(s, 4)), (unsigned)(1 + pick(s, 4)));
	else if (strcmp(kind, "pbt") == 0)
		(void)snprintf(to, ROOM,
		    "use = \"pbt\"; population = %u; interval = %u; iterations_max = %u;",
		    (unsigned)(2 + s->trials / 3), (unsigned)(1 + pick(s, 3)),
		    (unsigned)(most + 4));
	else if (strcmp(kind, "grid") == 0)
		(void)snprintf(to, ROOM, "use = \"grid\"; points = 2; iterations_max = %u;",
		    (unsigned)most);
	else
		(void)snprintf(to, ROOM, "use = \"%s\"; trials = %u; iterations_max = %u;", kind,
		    (unsigned)s->trials, (unsigned)most);
}

static int
has_single_gpus(const struct scenario *s)
{
	for (uint32_t i = 0; i < s->offers; i++)
		if (s->sold[i].gpus == 1)
			return 1;
	return 0;
}

static const char *
allocator(struct scenario *s, int jobs)
{
	static const char *const policies[] = { "use = \"fair\";", "use = \"greedy\";",
		"use = \"fair\"; resize = \"always\";", "use = \"milp\";", "use = \"fifo\";",
		"use = \"milp\"; engine = \"marginal\";", "use = \"fluid\";",
		"use = \"fluid\"; mode = \"paper\";", "use = \"fair\"; packing = 3;" };
	static const char *const planners[] = { "use = \"static\";", "use = \"static\"; gpus = 4;",
		"use = \"elastic-greedy\";", "use = \"elastic-exact\";" };

	if (!jobs && chance(s, 40))
		return planners[pick(s, sizeof planners / sizeof planners[0])];
	if (!jobs && has_single_gpus(s) && chance(s, 10))
		return "use = \"spottune\";";
	return policies[pick(s, jobs ? 7 : (uint32_t)(sizeof policies / sizeof policies[0]))];
}

static const char *
placer(struct scenario *s)
{
	static const char *const placers[] = { "colocate", "scatter", "pack" };

	return placers[pick(s, 3)];
}

/* A pool of plain jobs, of one to three nodes each. */
static char *
pool_of_jobs(struct scenario *s, const char *cloud)
{
	return espl__format(
	    "experiment = { name = \"t\"; seed = %u; };\n"
	    "workload = { jobs = %u; span = \"10m\"; mean = \"3m\"; least = \"1m\"; "
	    "iteration = \"10s\"; nodes_max = %u; };\n"
	    "trial = { retries = %u; profile = { iteration = \"1s\"; start = \"2s\"; "
	    "checkpoint = \"1s\"; }; };\n"
	    "cloud = { %s };\nallocator = { %s }; placer = { use = \"%s\"; };\n",
	    (unsigned)pick(s, 1000), (unsigned)s->trials, (unsigned)(1 + pick(s, 3)),
	    (unsigned)pick(s, 3), cloud, allocator(s, 1), placer(s));
}

static char *
search_of_trials(struct scenario *s, const char *cloud)
{
	static const char *const resizes[] = { "", "resize = \"300ms\";", "resize = \"7s\";" };
	char search[ROOM], space[ROOM] = "", width[40] = "";
	const char *policy = allocator(s, 0);
	size_t used = 0;
	int timed;

	draw_algorithm(s, 1 + pick(s, 14), search);
	for (unsigned i = 0; i < 6; i++)
		used += (size_t)snprintf(space + used, ROOM - used,
		    "x%u = { type = \"real\"; low = 0.0; high = 1.0; }; ", i);
	/* spottune gives a trial a machine to itself, of any size */
	if (chance(s, 60) && strstr(policy, "spottune") == NULL)
		(void)snprintf(width, sizeof width, "gpus_max = %u;", (unsigned)(1 + pick(s, 5)));
	timed = strstr(search, "hypersched") != NULL || chance(s, 8);
	return espl__format(
	    "experiment = { name = \"t\"; metric = \"loss\"; goal = \"minimize\"; "
	    "seed = %u; %s };\n"
	    "trial = { trainable = \"hartmann6\"; options = { bias = 2.5; noise = 2.0; "
	    "}; %s packing_max = %u;\n"
	    "  checkpoint_every = \"%us\"; checkpoint = %s; retries = %u; colocate = %s; "
	    "report_limit = \"15m\";\n"
	    "  profile = { iteration = { mean = \"4s\"; sd = \"1s\"; }; scaling = ((1, "
	    "1.0), (2, 1.9), (4, 3.4));\n"
	    "    packing = ((1, 1.0), (2, 1.6), (3, 2.0), (4, 2.2)); start = \"2s\"; "
	    "checkpoint = \"1s\"; %s }; };\n"
	    "space = { %s };\n"
	    "cloud = { %s };\n"
	    "algorithm = { %s }; allocator = { %s }; placer = { use = \"%s\"; };\n"
	    "planning = { warm = %s; };\n",
	    (unsigned)pick(s, 1000),
	    timed               ? "deadline = \"20m\";"
		: chance(s, 10) ? "budget = 2.0;"
				: "",
	    width, (unsigned)(1 + pick(s, 4)), (unsigned)(1 + pick(s, 20)), "true",
	    (unsigned)(1 + pick(s, 3)), chance(s, 50) ? "true" : "false", resizes[pick(s, 3)],
	    space, cloud, search, policy, placer(s), chance(s, 50) ? "true" : "false");
}

static void
draw(struct scenario *s, uint64_t seed)
{
	char cloud[ROOM];

	memset(s, 0, sizeof *s);
	espl__rng_seed(&s->rng, seed, "harsh");
	s->trials = 3 + pick(s, 25);
	draw_cloud(s, cloud, sizeof cloud);
	s->config = chance(s, 25) ? pool_of_jobs(s, cloud) : search_of_trials(s, cloud);
	draw_faults(s);
	if (getenv("SHOW") != NULL)
		fprintf(stderr, "%s\n%s\n", s->config, s->faults);
}

/* ---- laws --------------------------------------------------------------------------------- */

struct lease {
	espl_node_state state; /* 0: never asked for */
	uint32_t offer;
	char machine[160]; /* "": not told */
	espl_money charged;
	espl_time asked;
	int other; /* another machine that works was free then */
};
struct watch {
	struct espl__observer observer;
	const struct scenario *of;
	uint64_t seed;
	struct lease *leases;
	uint32_t lease_count, lease_cap;
	uint8_t *started; /* [trial] 1: a gang of it was */
	uint64_t trial_count;
	uint32_t trial_cap;
	espl_time failed_at[OFFERS_MOST][8]; /* of a machine; 0: it did not */
	/* a lease of it ended otherwise than by release, or one of its GPUs is bad */
	int lost[OFFERS_MOST][8];
	int resumed;                    /* what failed before is not known */
	int answered[OFFERS_MOST];      /* a node of it was ready */
	int no_route;                   /* machines cannot reach each other */
	uint32_t requests[OFFERS_MOST]; /* instants of requests since a node was ready */
	espl_time first[OFFERS_MOST], last[OFFERS_MOST]; /* of them */
	espl_time now, idle_since;
};

static struct lease *
lease_of(struct watch *w, uint64_t id)
{
	if (id >= w->lease_count) {
		ESPL__GROW(w->leases, w->lease_cap, id + 1);
		memset(w->leases + w->lease_count, 0,
		    (size_t)(id + 1 - w->lease_count) * sizeof *w->leases);
		w->lease_count = (uint32_t)id + 1;
	}
	return &w->leases[id];
}

static void
see_trial(void *ctx, espl_time now, const struct espl_trial *trial)
{
	struct watch *w = ctx;

	(void)now;
	ESPL__GROW(w->started, w->trial_cap, trial->id + 1);
	for (; w->trial_count <= trial->id; w->trial_count++)
		w->started[w->trial_count] = 0;
}

static void
see_gang(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *text)
{
	struct watch *w = ctx;

	(void)now, (void)gang, (void)text;
	if (phase == ESPL__PHASE_STARTING && trial < w->trial_count)
		w->started[trial] = 1;
	for (uint32_t i = 1; w->no_route && phase == ESPL__PHASE_STARTING && i < share.gpus; i++)
		cr_assert_eq(slots[i].node, slots[0].node,
		    "SEED=%llu: trial %llu starts on machines that cannot reach each other",
		    (unsigned long long)w->seed, (unsigned long long)trial);
}

static void
see_node(void *ctx, espl_time now, const struct espl_node *node, const struct espl_offer *offer,
    const char *host, espl_money charged, const char *why)
{
	struct lease *l = lease_of(ctx, node->id);

	(void)now, (void)offer, (void)host, (void)why;
	l->charged = charged;
}

/* Another machine of the offer that works is not leased. */
static int
another_is_free(const struct watch *w, uint32_t offer)
{
	const struct sold *o = &w->of->sold[offer];
	uint32_t good = 0;

	if (w->resumed || o->shared || o->machines == ESPL_ANY || o->machines > 8)
		return 0; /* it is not known */
	for (uint32_t m = o->bad; m < o->machines; m++)
		good += !w->lost[offer][m];
	for (uint32_t i = 0; i < w->lease_count; i++) {
		const struct lease *l = &w->leases[i];

		if (l->offer != offer || l->state == 0 || l->state == ESPL_NODE_ENDED)
			continue;
		if (l->machine[0] == '\0' && good > 0)
			good--; /* it may be on any */
		else if (l->machine[0] != '\0' && good > 0 &&
		    (uint32_t)atoi(strrchr(l->machine, '-') + 1) >= o->bad)
			good--;
	}
	return good > 0;
}

static void
machine_told(struct watch *w, uint64_t id, const char *machine)
{
	struct lease *l = lease_of(w, id);
	uint32_t number = (uint32_t)atoi(strrchr(machine, '-') + 1);

	(void)snprintf(l->machine, sizeof l->machine, "%s", machine);
	if (number < 8 && l->other && l->asked >= w->failed_at[l->offer][number] &&
	    w->failed_at[l->offer][number] != 0)
		cr_assert_geq(l->asked, w->failed_at[l->offer][number] + AVOIDED_FOR,
		    "SEED=%llu: machine %s failed at %g s, and was leased again at %g s",
		    (unsigned long long)w->seed, machine,
		    (double)w->failed_at[l->offer][number] / 1e9, (double)l->asked / 1e9);
}

static void
node_told(struct watch *w, const struct espl__event *e)
{
	struct lease *l = lease_of(w, e->as.node.lease);
	espl_reason reason = e->as.node.reason;
	uint32_t number;

	l->state = e->as.node.state;
	if (l->state == ESPL_NODE_READY) {
		w->requests[l->offer] = 0;
		w->answered[l->offer] = 1;
		number = l->machine[0] != '\0' ? (uint32_t)atoi(strrchr(l->machine, '-') + 1) : 8;
		if (number < 8) /* asked for before it had failed, it works now */
			w->failed_at[l->offer][number] = 0;
	}
	if (l->state != ESPL_NODE_ENDED || l->machine[0] == '\0')
		return;
	number = (uint32_t)atoi(strrchr(l->machine, '-') + 1);
	if (number >= 8)
		return;
	w->lost[l->offer][number] |= reason != ESPL_BY_USER;
	if (reason == ESPL__BY_GIVING_UP)
		w->failed_at[l->offer][number] = w->now;
}

static void
gpu_told(struct watch *w, const struct espl__event *e)
{
	const struct lease *l;
	uint32_t number;

	if (e->as.gpu.what != ESPL__GPU_FAULT && e->as.gpu.what != ESPL__GPU_ASIDE)
		return;
	l = lease_of(w, e->as.gpu.id);
	number = l->machine[0] != '\0' ? (uint32_t)atoi(strrchr(l->machine, '-') + 1) : 8;
	if (number < 8)
		w->lost[l->offer][number] = 1;
}

static void
round_told(struct watch *w, const struct espl__round *round)
{
	w->now = round->now;
	for (uint32_t i = 0; i < round->count; i++) {
		const struct espl__event *e = &round->events[i];

		if (e->type == ESPL__EV_MACHINE)
			machine_told(w, e->as.node_why.lease, e->as.node_why.text);
		else if (e->type == ESPL__EV_NODE)
			node_told(w, e);
		else if (e->type == ESPL__EV_GPU)
			gpu_told(w, e);
		else if (e->type == ESPL__EV_NO_ROUTE)
			w->no_route = 1;
	}
}

/* While no node of an offer is ready, requests are made ever more rarely: in t seconds at most
 * some at the start, those that doubling pauses allow, and one each ten minutes. */
static void
lease_asked(struct watch *w, uint64_t id, uint32_t offer)
{
	struct lease *l = lease_of(w, id);
	double minutes;

	for (uint32_t i = 0; i < w->lease_count && w->of->sold[offer].canary; i++)
		cr_assert(w->answered[offer] || i == id || w->leases[i].offer != offer ||
			w->leases[i].state == 0 || w->leases[i].state == ESPL_NODE_ENDED,
		    "SEED=%llu: a machine of offer %u is leased before the first has answered",
		    (unsigned long long)w->seed, (unsigned)offer);
	l->offer = offer;
	l->other = another_is_free(w, offer);
	l->state = ESPL_NODE_REQUESTED;
	l->asked = w->now;
	if (w->requests[offer] > 0 && w->last[offer] == w->now)
		return;
	if (w->requests[offer]++ == 0)
		w->first[offer] = w->now;
	w->last[offer] = w->now;
	minutes = (double)(w->now - w->first[offer]) / 60e9;
	cr_assert_leq(w->requests[offer], 24 + minutes / 5,
	    "SEED=%llu: %u requests of offer %u in %g minutes, and none was met",
	    (unsigned long long)w->seed, (unsigned)w->requests[offer], (unsigned)offer, minutes);
}

static struct watch *
watching(const struct scenario *s, uint64_t seed)
{
	struct watch *w = espl__alloc(sizeof *w);

	w->observer = (struct espl__observer){ .ctx = w,
		.trial = see_trial,
		.gang = see_gang,
		.node = see_node };
	w->of = s;
	w->seed = seed;
	w->idle_since = ESPL_NEVER;
	return w;
}

static void
end_watch(struct watch *w)
{
	free(w->leases);
	free(w->started);
	free(w);
}

/* Nodes that are all there, nothing runs, trials wait: not for long. */
static void
check_idle(const struct run *r, struct watch *w)
{
	struct espl__exec_summary s;
	struct espl__lease_info leases[16];
	uint32_t i, count;

	espl__exec_summary(r->exec, &s);
	count = espl__exec_leases(r->exec, leases, 16);
	for (i = 0; i < count && i < 16 && leases[i].state == ESPL_NODE_READY; i++)
		;
	if (count == 0 || i < count || s.gpus_busy > 0 || s.waiting == 0)
		w->idle_since = ESPL_NEVER;
	else if (w->idle_since == ESPL_NEVER)
		w->idle_since = s.now;
	cr_assert(w->idle_since == ESPL_NEVER || s.now - w->idle_since < IDLE_MOST,
	    "SEED=%llu: %u nodes are paid for, %llu trials wait, and nothing has run for five "
	    "minutes before %g s",
	    (unsigned long long)w->seed, (unsigned)count, (unsigned long long)s.waiting,
	    (double)s.now / 1e9);
	cr_assert_eq(s.standing_late_s, 0,
	    "SEED=%llu: trials waited beside idle slots for %g s too long, before %g s",
	    (unsigned long long)w->seed, s.standing_late_s, (double)s.now / 1e9);
}

static espl_status
pump_watching(struct run *r, struct tape *tape, struct watch *w)
{
	for (uint32_t n = 0; !espl__exec_view(r->exec).ended; n++) {
		const struct espl__effect *effects;
		struct espl__round round;
		espl_status status;
		uint32_t count;

		cr_assert_lt(n, ROUNDS_MOST, "SEED=%llu does not end", (unsigned long long)w->seed);
		status = r->world->ops->next(r->world, &round, &r->diag);
		if (status != ESPL_OK)
			return status;
		cr_assert_gt(round.count, 0, "SEED=%llu: nothing is to be told",
		    (unsigned long long)w->seed);
		round_told(w, &round);
		status = espl__exec_round(r->exec, round.now, round.events, round.count, NULL, 0,
		    &r->diag);
		if (status != ESPL_OK)
			return status;
		if (tape != NULL)
			keep(tape, &round, espl__exec_decisions(r->exec));
		effects = espl__exec_effects(r->exec, &count);
		for (uint32_t i = 0; i < count; i++)
			if (effects[i].type == ESPL__FX_ACQUIRE)
				lease_asked(w, effects[i].as.acquire.lease,
				    effects[i].as.acquire.offer);
		status = r->world->ops->apply(r->world, effects, count, &r->diag);
		if (status != ESPL_OK)
			return status;
		check_idle(r, w);
	}
	return ESPL_OK;
}

/* Whole: all of the run was watched. */
static void
check_end(struct run *r, const struct watch *w, int whole)
{
	struct espl__exec_summary *s = &r->summary;
	unsigned long long n = (unsigned long long)w->seed;
	espl_money sum = 0;

	espl__exec_summary(r->exec, s);
	cr_assert(espl__exec_view(r->exec).ended, "SEED=%llu does not end", n);
	cr_assert_eq(s->nodes_leaked, 0, "SEED=%llu", n);
	cr_assert_eq(espl__exec_leases(r->exec, NULL, 0), 0, "SEED=%llu", n);
	cr_assert_eq(s->gpus_busy, 0, "SEED=%llu", n);
	cr_assert_leq(s->busy_gpu_s, s->gpu_s + 1e-6, "SEED=%llu: used %f of %f GPU seconds", n,
	    s->busy_gpu_s, s->gpu_s);
	if (s->how == ESPL__RUN_DONE)
		cr_assert_eq(s->finished + s->failed, s->trials, "SEED=%llu", n);
	else if (s->how != ESPL__RUN_DEADLINE && s->how != ESPL__RUN_BUDGET)
		cr_assert(s->text[0] != '\0', "SEED=%llu ends without a reason", n);
	cr_assert_null(strstr(s->text, " no place"), "SEED=%llu: %s", n, s->text);
	if (!whole)
		return;
	for (uint64_t i = 0; s->how == ESPL__RUN_DONE && i < w->trial_count; i++)
		cr_assert(w->started[i], "SEED=%llu: trial %llu was never started", n,
		    (unsigned long long)i);
	for (uint32_t i = 0; i < w->lease_count; i++)
		sum += w->leases[i].charged;
	cr_assert_eq(sum, s->cost, "SEED=%llu: the leases cost %lld, the run %lld", n,
	    (long long)sum, (long long)s->cost);
}

/* The driver dies after `after` rounds and is resumed. */
static void
check_resume(const struct scenario *s, const struct tape *tape, uint32_t after, uint64_t seed)
{
	struct watch *w = watching(s, seed);
	struct espl__lease_info held[64];
	struct run r;
	uint32_t count;

	w->resumed = 1;
	make_run(&r, s->config, s->faults, &w->observer);
	cr_assert_eq(replay(&r, tape, after), ESPL_OK, "SEED=%llu, replay: %s",
	    (unsigned long long)seed, r.diag.text);
	count = espl__exec_leases(r.exec, held, 64);
	for (uint32_t i = 0; i < count && i < 64; i++)
		*lease_of(w, held[i].lease) =
		    (struct lease){ .state = held[i].state, .offer = held[i].offer };
	for (uint32_t i = 0; i < OFFERS_MOST; i++)
		w->answered[i] = 1; /* it is not known */
	if (!espl__exec_view(r.exec).ended) {
		espl_status status;

		cr_assert_eq(r.world->ops->begin(r.world, 1, tape->list[after - 1].now, &r.diag),
		    ESPL_OK);
		status = pump_watching(&r, NULL, w);
		cr_assert_eq(status, ESPL_OK, "SEED=%llu, resumed after %u rounds: %s",
		    (unsigned long long)seed, (unsigned)after, r.diag.text);
	}
	check_end(&r, w, 0);
	unmake(&r);
	end_watch(w);
}

static int
check_seed(uint64_t seed)
{
	struct scenario s;
	struct tape tape = { 0 };
	struct watch *w;
	struct run r;
	espl_status status;
	int done = 0;

	draw(&s, seed);
	w = watching(&s, seed);
	(void)snprintf(run_label, sizeof run_label, "SEED=%llu: ", (unsigned long long)seed);
	make_run(&r, s.config, s.faults, &w->observer);
	cr_assert_eq(r.world->ops->begin(r.world, 0, 0, &r.diag), ESPL_OK, "SEED=%llu: %s",
	    (unsigned long long)seed, r.diag.text);
	status = pump_watching(&r, &tape, w);
	if (status == ESPL_E_INFEASIBLE) { /* its deadline or budget is too small: said at once */
		espl__exec_summary(r.exec, &r.summary);
		cr_assert_eq(r.summary.cost, 0, "SEED=%llu", (unsigned long long)seed);
	} else {
		cr_assert_eq(status, ESPL_OK, "SEED=%llu: %s", (unsigned long long)seed,
		    r.diag.text);
		check_end(&r, w, 1);
		done = r.summary.how == ESPL__RUN_DONE;
		check_resume(&s, &tape, tape.count, seed);
		check_resume(&s, &tape, 1 + pick(&s, tape.count), seed);
	}
	if (getenv("SHOW") != NULL)
		fprintf(stderr, "ends %d after %g s: %s\n", (int)r.summary.how,
		    (double)r.summary.now / 1e9, r.summary.text);
	unmake(&r);
	free_tape(&tape);
	end_watch(w);
	free(s.config);
	if (s.prices[0] != '\0')
		unlink(s.prices);
	return done;
}

Test(harsh, searches_and_pools_in_clouds_that_do_not_deliver, .timeout = 36000)
{
	const char *one = getenv("SEED"), *many = getenv("SEEDS");
	uint64_t from =
	    one != NULL ? strtoull(one, NULL, 10) : (uint64_t)time(NULL) % 1000000 * 1000000;
	uint64_t count = many != NULL ? strtoull(many, NULL, 10) : one != NULL ? 1 : 40, done = 0;

	fprintf(stderr, "# %llu seeds from %llu on\n", (unsigned long long)count,
	    (unsigned long long)from);
	for (uint64_t seed = from; seed < from + count; seed++)
		done += (uint64_t)check_seed(seed);
	cr_assert(count < 40 || done > count / 2, "only %llu of %llu came to their end",
	    (unsigned long long)done, (unsigned long long)count);
}

Test(harsh, seeds_that_have_failed, .timeout = 600)
{
	static const uint64_t seeds[] = { UINT64_C(910003000016), UINT64_C(914568000090),
		UINT64_C(914700003559), UINT64_C(914800002453), UINT64_C(981781000574),
		UINT64_C(982038000699), UINT64_C(982431008594), UINT64_C(987204007035),
		UINT64_C(988001004798) };

	for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++)
		(void)check_seed(seeds[i]);
}
