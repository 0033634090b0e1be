/* forecast_dag.c - the explicit graph of a plan and its sampled critical paths (Algorithm 1).
 *
 * SCALE (request to boot) and INIT_INSTANCE (boot to ready) for each new node, TRAIN for each
 * trial of a stage, SYNC for its barrier; GATE, of no length, is where all nodes of a stage are
 * ready, ASK where nodes are asked for ahead of it.  Under planning.queue = "chain" a queued
 * trial follows another, and a path is a longest path; under "list" it follows the slot that
 * comes free first, which differs from sample to sample.  Nodes are in topological order and
 * evaluated for a block of samples at once.
 */
#include "base/hash.h"
#include "forecast/forecast_impl.h"

#define BLOCK 64u
#define FINISH_MAX ((uint64_t)4 << 20) /* numbers kept of a block */
#define NODES_MAX ((uint64_t)1 << 24)

enum kind { ASK, SCALE, INIT_INSTANCE, GATE, TRAIN, TRAIN_LISTED, SYNC };

struct piece {
	struct espl__sum sum;
	double scale;
};
/* of the length of nodes of one kind in one step */
struct law {
	double constant;
	struct piece pieces[5];
	uint32_t piece_count, draws;
};
struct vertex {
	uint64_t key;
	const struct law *law;
	uint32_t step;
	uint32_t edges; /* where those to its predecessors begin */
	enum kind kind;
};
/* of the graph: a step's vertices */
struct part {
	struct law scale, init, sync;
	struct law *trains;                                   /* [cohort] */
	uint32_t ask, first_init, gate, first_train, sync_at; /* ask ESPL_ANY: none */
	const double **rows; /* [fresh] when the bill of a new node begins */
	double *busy;        /* [block] */
	double *until;       /* [block][entries] where nodes go before the step ends; NULL */
	uint32_t *entry;     /* likewise */
};
struct graph {
	struct espl__forecast *f;
	struct espl__arena arena;
	struct part *parts;      /* [step] */
	struct vertex *vertices; /* one more than count: its edges end the last one's */
	uint32_t count, edge_count, block;
	uint32_t *edges; /* predecessors */
	double *finish;  /* [count][block] */
	uint64_t key;
};

/* ---- building ------------------------------------------------------------------------ */

static const struct law nothing = { 0 };

/* Normal ones join the law's first such piece: their sum is normal too. */
static int
join_normal(struct law *law, const struct espl__sum *sum, double scale)
{
	const struct espl__dist *d = &sum->one;

	if (!espl__dist_whole(d) || sum->times != 1)
		return 0;
	for (uint32_t p = 0; p < law->piece_count; p++) {
		struct piece *piece = &law->pieces[p];
		struct espl__dist *to = &piece->sum.one;

		if (!espl__dist_whole(to) || piece->sum.times != 1)
			continue;
		to->a = to->mean = piece->scale * to->mean + scale * d->mean;
		to->b = to->sd = hypot(piece->scale * to->sd, scale * d->sd);
		to->keep = 1.0;
		piece->scale = 1.0;
		return 1;
	}
	return 0;
}

static void
add_piece(struct law *law, const struct espl__sum *sum, double scale)
{
	if (!espl__sum_random(sum)) {
		law->constant += scale * espl__sum_mean(sum);
		return;
	}
	if (join_normal(law, sum, scale))
		return;
	law->pieces[law->piece_count++] = (struct piece){ *sum, scale };
	law->draws += sum->times;
}

static void
add_dist(struct law *law, const struct espl__dist *d)
{
	struct espl__sum sum = { *d, 1 };

	add_piece(law, &sum, 1.0);
}

static void
lay_down_train(struct espl__forecast *f, const struct espl__step *step,
    const struct espl__cohort *c, struct law *train)
{
	const struct espl__stage_table *t = &f->tables[step->table];
	double ratio = espl__ratio(f, step->terms, step->view.gpus_per_trial);

	add_piece(train, &t->train, ratio);
	if ((step->warm & ESPL__WARM_BEFORE) == 0) {
		add_piece(train, &c->again, ratio);
		add_dist(train, &f->start);
		if (c->restores)
			add_dist(train, &f->restore);
	}
	train->constant += f->checkpoint.mean *
	    espl__saves_on_the_way(f, t, step->terms, (int)c->restores, step->view.gpus_per_trial,
		step->warm);
	if ((step->warm & ESPL__WARM_AFTER) == 0)
		add_dist(train, &f->checkpoint);
}

static void
lay_down_laws(struct graph *g, const struct espl__step *step, struct part *part)
{
	struct espl__forecast *f = g->f;
	const struct espl__stage_table *t = &f->tables[step->table];

	add_dist(&part->scale, &step->terms->provision);
	add_dist(&part->init, &step->terms->init);
	add_dist(&part->sync, &f->sync);
	part->trains = espl__arena_alloc(&g->arena, t->cohort_count * sizeof *part->trains);
	for (uint32_t i = 0; i < t->cohort_count; i++)
		lay_down_train(f, step, &t->cohorts[i], &part->trains[i]);
}

static uint32_t
add_vertex(struct graph *g, enum kind kind, uint32_t step, const struct law *law)
{
	g->vertices[g->count] =
	    (struct vertex){ espl__subkey(g->key, g->count), law, step, g->edge_count, kind };
	return g->count++;
}

/* The vertex added last comes after this one. */
static void
add_edge(struct graph *g, uint32_t before)
{
	g->edges[g->edge_count++] = before;
}

static void
add_nodes(struct graph *g, uint32_t index)
{
	const struct espl__step *step = &g->f->steps[index];
	struct part *part = &g->parts[index];
	uint32_t after = step->first ? ESPL_ANY : part[-1].sync_at, first;

	part->ask = ESPL_ANY;
	if (step->ahead && step->fresh > 0) {
		part->ask = after = add_vertex(g, ASK, index, &nothing);
		add_edge(g, part[-1].gate);
		add_edge(g, part[-1].sync_at);
	}
	first = g->count;
	for (uint32_t j = 0; j < step->fresh; j++) {
		add_vertex(g, SCALE, index, &part->scale);
		if (after != ESPL_ANY)
			add_edge(g, after);
	}
	part->first_init = g->count;
	for (uint32_t j = 0; j < step->fresh; j++) {
		add_vertex(g, INIT_INSTANCE, index, &part->init);
		add_edge(g, first + j);
	}
	part->gate = add_vertex(g, GATE, index, &nothing);
	if (!step->first)
		add_edge(g, part[-1].sync_at);
	for (uint32_t j = 0; j < step->fresh; j++)
		add_edge(g, part->first_init + j);
	if (step->terms->offer->billed_from == ESPL_BILL_FROM_READY)
		first = part->first_init;
	part->rows = espl__arena_alloc(&g->arena, (step->fresh + 1) * sizeof *part->rows);
	for (uint32_t j = 0; j < step->fresh; j++)
		part->rows[j] = g->finish + (size_t)(first + j) * g->block;
}

static void
add_trials(struct graph *g, uint32_t index)
{
	const struct espl__step *step = &g->f->steps[index];
	struct part *part = &g->parts[index];
	const struct espl__stage_table *t = &g->f->tables[step->table];
	uint32_t trials = t->stage->trials, slots = step->view.slots, cohort = 0,
		 left = t->cohorts[0].trials;
	int listed = slots < trials && !g->f->setup.chain;

	part->first_train = g->count;
	for (uint32_t k = 0; k < trials; k++) {
		for (; left == 0; left = t->cohorts[cohort].trials)
			cohort++;
		left--;
		add_vertex(g, listed ? TRAIN_LISTED : TRAIN, index, &part->trains[cohort]);
		add_edge(g, listed || k < slots ? part->gate : part->first_train + k - slots);
	}
	part->sync_at = add_vertex(g, SYNC, index, &part->sync);
	for (uint32_t k = 0; k < trials; k++)
		add_edge(g, part->first_train + k);
	if (listed) {
		ESPL__GROW(g->f->trials_s, g->f->trials_cap, trials);
		ESPL__GROW(g->f->slots_s, g->f->slots_cap, (size_t)slots + 1);
	}
}

static espl_status
build_graph(struct graph *g, struct espl__diag *diag)
{
	struct espl__forecast *f = g->f;
	uint64_t count = 0;

	for (uint32_t i = 0; i < f->step_count; i++) /* ask, gate and sync; and all edges */
		count += 3 + 2 * (uint64_t)f->steps[i].fresh +
		    f->tables[f->steps[i].table].stage->trials;
	if (count > NODES_MAX)
		return espl__fail(diag, ESPL_E_LIMIT,
		    "the graph of this plan has %llu nodes; at most %llu can be sampled",
		    (unsigned long long)count, (unsigned long long)NODES_MAX);
	g->block = BLOCK;
	while (g->block > 1 && g->block * count > FINISH_MAX)
		g->block /= 2;
	g->key = espl__digest(f->setup.seed, "forecast graph", 14);
	g->parts = espl__arena_alloc(&g->arena, (f->step_count + 1) * sizeof *g->parts);
	g->vertices = espl__arena_alloc(&g->arena, (size_t)(count + 1) * sizeof *g->vertices);
	g->edges = espl__arena_alloc(&g->arena, (size_t)(2 * count + 1) * sizeof *g->edges);
	g->finish =
	    espl__arena_alloc(&g->arena, (size_t)(count + 1) * g->block * sizeof *g->finish);
	for (uint32_t i = 0; i < f->step_count; i++) {
		g->parts[i].busy = espl__arena_alloc(&g->arena, g->block * sizeof(double));
		if (f->steps[i].releases) {
			size_t entries = (size_t)g->block * f->steps[i].layout.entries;

			g->parts[i].until = espl__arena_alloc(&g->arena, entries * sizeof(double));
			g->parts[i].entry =
			    espl__arena_alloc(&g->arena, entries * sizeof(uint32_t));
		}
		lay_down_laws(g, &f->steps[i], &g->parts[i]);
		add_nodes(g, i);
		add_trials(g, i);
	}
	g->vertices[g->count].edges = g->edge_count;
	return ESPL_OK;
}

/* ---- sampling ------------------------------------------------------------------------ */

/* Adds the piece's draws number `draw`, `draw` + step, ... of the stream. */
static void
draw_piece(const struct piece *piece, const struct espl__normal *normal, uint64_t key,
    uint64_t draw, uint32_t step, uint32_t samples, double *out)
{
	const struct espl__dist *d = &piece->sum.one;

	if (d->kind == ESPL_NORMAL) { /* by far the most frequent */
		for (uint32_t s = 0; s < samples; s++, draw += step) {
			double q = (1.0 - espl__unit(key, draw)) * d->keep;
			double v = d->a + d->b * espl__normal_upper(normal, q);

			out[s] += piece->scale * (v > 0 ? v : 0.0);
		}
		return;
	}
	for (uint32_t s = 0; s < samples; s++, draw += step)
		out[s] += piece->scale * espl__dist_at(d, normal, espl__unit(key, draw));
}

static void
draw_lengths(const struct graph *g, const struct vertex *v, uint64_t first, uint32_t samples,
    double *out)
{
	uint64_t draw = first * v->law->draws;

	for (uint32_t s = 0; s < samples; s++)
		out[s] = v->law->constant;
	for (uint32_t p = 0; p < v->law->piece_count; p++)
		for (uint32_t i = 0; i < v->law->pieces[p].sum.times; i++)
			draw_piece(&v->law->pieces[p], g->f->normal, v->key, draw++, v->law->draws,
			    samples, out);
}

/* Adds when the last of the predecessors has finished. */
static void
add_ready(const struct graph *g, const struct vertex *v, uint32_t samples, double *out)
{
	double ready[BLOCK];
	uint32_t e = v->edges, end = v[1].edges;

	if (e == end)
		return;
	memcpy(ready, g->finish + (size_t)g->edges[e] * g->block, samples * sizeof *ready);
	while (++e < end) {
		const double *from = g->finish + (size_t)g->edges[e] * g->block;

		for (uint32_t s = 0; s < samples; s++)
			ready[s] = from[s] > ready[s] ? from[s] : ready[s];
	}
	for (uint32_t s = 0; s < samples; s++)
		out[s] += ready[s];
}

static double
finish_time(const struct graph *g, uint32_t vertex, uint32_t s)
{
	return g->finish[(size_t)vertex * g->block + s];
}

/* Nodes are asked for at the instant that was planned, or when the stage ends before it. */
static void
finish_asks(const struct graph *g, const struct vertex *v, uint32_t samples, double *out)
{
	const double *gate = g->finish + (size_t)g->edges[v->edges] * g->block;
	const double *sync = g->finish + (size_t)g->edges[v->edges + 1] * g->block;
	double asks_s = g->f->steps[v->step - 1].view.asks_s;

	for (uint32_t s = 0; s < samples; s++) /* and not before now, if it has begun */
		out[s] = gate[s] + asks_s < sync[s] ? gate[s] + asks_s < 0 ? 0 : gate[s] + asks_s
						    : sync[s];
}

/* When the nodes of a step come free in sample `s`, from the lengths of its trials. */
static void
compute_vacancy(const struct graph *g, uint32_t step, uint32_t s, const double *lengths)
{
	const struct part *part = &g->parts[step];
	const struct espl__slot_layout *layout = &g->f->steps[step].layout;

	if (part->until != NULL)
		espl__vacate(g->f, layout, lengths, part->sync_at - part->first_train,
		    part->until + (size_t)s * layout->entries,
		    part->entry + (size_t)s * layout->entries);
}

/* The same of trials that are finished: each began at the gate or when another had ended. */
static void
vacate_finished(const struct graph *g, uint32_t step, uint32_t samples)
{
	const struct part *part = &g->parts[step];

	ESPL__GROW(g->f->trials_s, g->f->trials_cap, part->sync_at - part->first_train);
	for (uint32_t s = 0; part->until != NULL && s < samples; s++) {
		for (uint32_t n = part->first_train; n < part->sync_at; n++)
			g->f->trials_s[n - part->first_train] = finish_time(g, n, s) -
			    finish_time(g, g->edges[g->vertices[n].edges], s);
		compute_vacancy(g, step, s, g->f->trials_s);
	}
}

/* The trials of a step, whose lengths are drawn, take the slots that come free first. */
static void
run_trial_queue(const struct graph *g, uint32_t step, uint32_t samples)
{
	const struct part *part = &g->parts[step];
	uint32_t trials = part->sync_at - part->first_train;
	double *row = g->finish + (size_t)part->first_train * g->block;
	const double *gate = g->finish + (size_t)part->gate * g->block;

	for (uint32_t s = 0; s < samples; s++) {
		for (uint32_t k = 0; k < trials; k++)
			g->f->trials_s[k] = row[(size_t)k * g->block + s];
		compute_vacancy(g, step, s, g->f->trials_s);
		(void)espl__queue(g->f->trials_s, trials, g->f->steps[step].view.slots, 0,
		    g->f->slots_s);
		for (uint32_t k = 0; k < trials; k++)
			row[(size_t)k * g->block + s] = gate[s] + g->f->trials_s[k];
	}
}

static void
sample_block(const struct graph *g, uint64_t first, uint32_t samples)
{
	for (uint32_t i = 0; i < g->f->step_count; i++)
		memset(g->parts[i].busy, 0, samples * sizeof(double));
	for (uint32_t n = 0; n < g->count; n++) {
		const struct vertex *v = &g->vertices[n];
		double *out = g->finish + (size_t)n * g->block, *busy = g->parts[v->step].busy;

		draw_lengths(g, v, first, samples, out);
		if (v->kind == TRAIN || v->kind == TRAIN_LISTED)
			for (uint32_t s = 0; s < samples; s++)
				busy[s] += out[s];
		if (v->kind == ASK)
			finish_asks(g, v, samples, out);
		else if (v->kind != TRAIN_LISTED)
			add_ready(g, v, samples, out);
		else if (n + 1 == g->parts[v->step].sync_at)
			run_trial_queue(g, v->step, samples);
		if (v->kind == TRAIN && n + 1 == g->parts[v->step].sync_at)
			vacate_finished(g, v->step, samples);
		for (uint32_t s = 0; g->f->steps[v->step].past_s > 0 && s < samples; s++) {
			if (v->kind == GATE) /* it began before now, and ends after it */
				out[s] = -g->f->steps[v->step].past_s;
			else if (v->kind == SYNC && out[s] < 0)
				out[s] = 0;
		}
	}
}

/* Sample s of the block as moments of the steps. */
static void
take_moments(const struct graph *g, uint32_t s)
{
	for (uint32_t i = 0; i < g->f->step_count; i++) {
		const struct espl__step *step = &g->f->steps[i];
		const struct part *part = &g->parts[i];
		struct espl__moment *m = &g->f->moments[i];

		m->begin = step->first ? 0.0 : m[-1].end;
		m->train = finish_time(g, part->gate, s);
		m->end = finish_time(g, part->sync_at, s);
		m->busy = part->busy[s] * step->view.gpus_per_trial;
		if (step->past_s > 0)
			m->busy *= m->end / (m->end - m->train);
		if ((step->warm & ESPL__WARM_AFTER) != 0) /* all wait in their processes */
			m->busy = ((m->end - m->train) * (part->sync_at - part->first_train) +
				      g->f->tables[step->table].leavers * g->f->checkpoint.mean) *
			    step->view.gpus_per_trial;
		m->base = (part->ask != ESPL_ANY ? finish_time(g, part->ask, s) : m->begin) +
		    step->terms->from_s;
		m->froms = step->fresh * m->base;
		m->until = NULL;
		if (part->until != NULL) {
			m->until = part->until + (size_t)s * step->layout.entries;
			m->entry = part->entry + (size_t)s * step->layout.entries;
		}
		m->rows = NULL;
		if (!step->terms->random_from || step->fresh == 0)
			continue;
		m->rows = part->rows;
		m->at = s;
		m->base = m->froms = 0.0;
		for (uint32_t j = 0; j < step->fresh; j++)
			m->froms += part->rows[j][s];
	}
}

espl_status
espl__dag_walk(struct espl__forecast *f, uint32_t samples, double *jct, double *cost,
    uint32_t *nodes, struct espl__diag *diag)
{
	struct graph g = { .f = f };
	espl_status status = build_graph(&g, diag);

	for (uint64_t first = 0; first < samples && status == ESPL_OK; first += g.block) {
		uint32_t count = samples - first < g.block ? (uint32_t)(samples - first) : g.block;

		sample_block(&g, first, count);
		for (uint32_t s = 0; s < count; s++) {
			take_moments(&g, s);
			espl__bill(f, &jct[first + s], &cost[first + s]);
		}
	}
	*nodes = g.count;
	espl__arena_free(&g.arena);
	return status;
}
