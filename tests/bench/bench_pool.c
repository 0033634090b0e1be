/* bench_pool.c - policies for many jobs on one cluster, in closed loop: one JSON object a line for
 * each cluster size and policy.
 *
 * bench_pool [--trace FILE | --seeds N --m M --sigma S --stratified --arrivals
 * uniform|diurnal|batches --small N --noise P --redraw
 *            --bugs P --terminated P] [--nodes N,N,...] [--delay S] [--each] POLICY...
 *
 * POLICY is [fix:]PLUGIN[:OPTIONS], e.g. greedy or milp:policy=paper; fix: jobs stay on just the
 * nodes asked for.  Figures are means over the seeds.  "additional": 100 (T of the first policy / T
 * - 1), where T is a seed's mean total time.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/text.h"
#include "../unit/pool_sim.h"
#include "input/workload_input.h"

extern const struct espl_plugin allocator_fair_LTX_espalier_plugin,
    allocator_fifo_LTX_espalier_plugin, allocator_greedy_LTX_espalier_plugin,
    allocator_milp_LTX_espalier_plugin;

struct plan {
	struct espl__workload_draw draw;
	const char *trace, **policies;
	uint32_t seeds, sizes[32], size_count, policy_count;
	double delay_s;
	int each; /* 1: a line for each seed, too */
};

static void __attribute__((noreturn)) stop(const char *what, const char *which)
{
	(void)fprintf(stderr, "bench_pool: %s '%s'\n", what, which);
	exit(2);
}

static const struct espl_plugin *
find_plugin(const char *name, size_t length)
{
	const struct espl_plugin *const all[] = { &allocator_fair_LTX_espalier_plugin,
		&allocator_fifo_LTX_espalier_plugin, &allocator_greedy_LTX_espalier_plugin,
		&allocator_milp_LTX_espalier_plugin };

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if (strlen(all[i]->name) == length && strncmp(all[i]->name, name, length) == 0)
			return all[i];
	stop("no such allocator", name);
}

static void
load(const struct plan *p, uint32_t seed, struct espl__workload *w)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__workload_draw draw = p->draw;
	struct espl__buf text = { NULL, 0, 0 };
	espl_status status;

	draw.seed = seed;
	if (p->trace == NULL) {
		status = espl__workload_draw(w, &draw, &diag);
	} else {
		status = espl__file_read(p->trace, (size_t)1 << 30, &text, &diag);
		if (status == ESPL_OK)
			status = espl__workload_read(w, p->trace, &text, ESPL_ANY, &diag);
	}
	espl__buf_free(&text);
	if (status == ESPL_OK)
		return;
	espl__diag_print(stderr, &diag);
	exit(2);
}

static void
add(struct pool_sums *to, const struct pool_sums *s, double n)
{
	to->jobs += s->jobs;
	to->decisions += s->decisions;
	to->resizes += s->resizes;
	to->wrong += s->wrong;
	if (to->why[0] == '\0')
		memcpy(to->why, s->why, sizeof to->why);
	to->total_s += s->total_s / n;
	to->queue_s += s->queue_s / n;
	to->total_p95 += s->total_p95 / n;
	to->queue_p95 += s->queue_p95 / n;
	to->queue_max = fmax(to->queue_max, s->queue_max);
	to->slowdown_p99 += s->slowdown_p99 / n;
	to->crowded_s = fmax(to->crowded_s, s->crowded_s);
	to->makespan_s += s->makespan_s / n;
	to->longest_s += s->longest_s / n;
	to->busy += s->busy / n;
	to->decide_ms += s->decide_ms / n;
	to->decide_max_ms = fmax(to->decide_max_ms, s->decide_max_ms);
}

static void
print(const char *policy, uint32_t nodes, uint32_t runs, const struct pool_sums *s,
    double additional)
{
	printf("{\"nodes\": %u, \"policy\": \"%s\", \"additional\": %.2f, \"total_min\": %.2f, "
	       "\"total_p95_min\": %.1f, \"queue_s\": %.2f, \"queue_p95_s\": %.1f, "
	       "\"queue_max_s\": %.0f, \"crowded_s\": %.0f, \"makespan_h\": %.2f, \"longest_h\": "
	       "%.2f, \"slowdown_p99\": %.2f, \"busy\": %.3f, \"resizes\": %.0f, \"decisions\": "
	       "%.0f, \"decide_ms\": %.3f, \"decide_max_ms\": %.1f, \"wrong\": %u}\n",
	    nodes, policy, additional, s->total_s / 60, s->total_p95 / 60, s->queue_s, s->queue_p95,
	    s->queue_max, s->crowded_s, s->makespan_s / 3600, s->longest_s / 3600, s->slowdown_p99,
	    s->busy, (double)s->resizes / runs, (double)s->decisions / runs, s->decide_ms,
	    s->decide_max_ms, s->wrong);
	if (s->wrong > 0)
		(void)fprintf(stderr, "bench_pool: %s on %u nodes: %s\n", policy, nodes, s->why);
	(void)fflush(stdout);
}

static struct pool_sums
run_one(const struct plan *p, const char *policy, uint32_t nodes, uint32_t seed)
{
	int fix = strncmp(policy, "fix:", 4) == 0;
	const char *name = fix ? policy + 4 : policy, *colon = strchr(name, ':');
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__workload w;
	struct pool_sums sums;
	struct pool_sim sim = { .nodes = nodes,
		.doubling = 0.8,
		.delay_s = p->delay_s,
		.redraw_s = 300 };

	load(p, seed, &w);
	if (fix && espl__workload_fix(&w, p->trace, nodes, &diag) != ESPL_OK) {
		espl__diag_print(stderr, &diag);
		exit(2);
	}
	sim.plugin = find_plugin(name, colon != NULL ? (size_t)(colon - name) : strlen(name));
	sim.options = colon != NULL ? colon + 1 : "";
	sim.workload = &w;
	if (pool_sim_run(&sim, &sums, NULL) != ESPL_OK)
		stop(sums.why[0] != '\0' ? sums.why : "fails:", policy);
	espl__workload_free(&w);
	return sums;
}

static int
run_all(const struct plan *p)
{
	uint32_t seeds = p->trace != NULL ? 1 : p->seeds, bad = 0;

	for (uint32_t n = 0; n < p->size_count; n++) {
		double first[1024], additional;

		for (uint32_t k = 0; k < p->policy_count; k++) {
			struct pool_sums all = { 0 };

			additional = 0;
			for (uint32_t seed = 1; seed <= seeds; seed++) {
				struct pool_sums one =
				    run_one(p, p->policies[k], p->sizes[n], seed);

				if (k == 0)
					first[seed - 1] = one.total_s;
				additional += 100 * (first[seed - 1] / one.total_s - 1) / seeds;
				if (p->each)
					print(p->policies[k], p->sizes[n], 1, &one,
					    100 * (first[seed - 1] / one.total_s - 1));
				add(&all, &one, seeds);
			}
			print(p->policies[k], p->sizes[n], seeds, &all, additional);
			bad += all.wrong;
		}
	}
	return bad > 0;
}

/* ---- the command line --------------------------------------------------------------------- */

static double
number(const char *text)
{
	double to;

	if (text == NULL || espl__parse_real(text, &to) != 0)
		stop("not a number:", text == NULL ? "" : text);
	return to;
}

static void
read_sizes(struct plan *p, char *text)
{
	char *save = NULL, *part;

	p->size_count = 0;
	for (part = strtok_r(text, ",", &save); part != NULL && p->size_count < 32;
	     part = strtok_r(NULL, ",", &save))
		p->sizes[p->size_count++] = (uint32_t)number(part);
}

static enum espl__arrivals
read_arrivals(const char *text)
{
	static const char *const names[] = { "uniform", "diurnal", "batches" };

	for (int i = 0; i < 3; i++)
		if (strcmp(text, names[i]) == 0)
			return (enum espl__arrivals)i;
	stop("no such arrivals:", text);
}

static int
read_option(struct plan *p, const char *name, char *value)
{
	static const struct {
		const char *name;
		size_t at;
	} reals[] = {
		{ "--m", offsetof(struct espl__workload_draw, m) },
		{ "--sigma", offsetof(struct espl__workload_draw, sigma) },
		{ "--noise", offsetof(struct espl__workload_draw, noise) },
		{ "--bugs", offsetof(struct espl__workload_draw, bugs) },
		{ "--terminated", offsetof(struct espl__workload_draw, terminated) },
	};

	for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
		if (strcmp(name, reals[i].name) == 0) {
			*(double *)(void *)((char *)&p->draw + reals[i].at) = number(value);
			return 1;
		}
	if (strcmp(name, "--trace") == 0)
		p->trace = value;
	else if (strcmp(name, "--seeds") == 0)
		p->seeds = (uint32_t)fmin(number(value), 1024);
	else if (strcmp(name, "--nodes") == 0)
		read_sizes(p, value);
	else if (strcmp(name, "--small") == 0)
		p->draw.small = (uint32_t)number(value);
	else if (strcmp(name, "--arrivals") == 0)
		p->draw.arrivals = read_arrivals(value);
	else if (strcmp(name, "--delay") == 0)
		p->delay_s = number(value);
	else
		return 0;
	return 1;
}

int
main(int argc, char **argv)
{
	struct plan p = { .draw = ESPL__WORKLOAD_DRAW,
		.seeds = 6,
		.sizes = { 70, 90, 110, 130, 150, 170, 190 },
		.size_count = 7 };
	static const char *usual[] = { "greedy", "milp:policy=paper",
		"milp:policy=paper engine=marginal", "milp" };
	int i;

	for (i = 1; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
		if (strcmp(argv[i], "--stratified") == 0)
			p.draw.stratified = 1;
		else if (strcmp(argv[i], "--redraw") == 0)
			p.draw.redraw = 1;
		else if (strcmp(argv[i], "--each") == 0)
			p.each = 1;
		else if (i + 1 < argc && read_option(&p, argv[i], argv[i + 1]))
			i++;
		else
			stop("no such option, or it lacks its value:", argv[i]);
	}
	p.policies = i < argc ? (const char **)(void *)(argv + i) : usual;
	p.policy_count = i < argc ? (uint32_t)(argc - i) : sizeof usual / sizeof usual[0];
	return run_all(&p);
}
