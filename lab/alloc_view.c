/* alloc_view.c - reads VIEW.json and builds from it what an allocator is shown in a run. */
#include "base/assert.h"
#include "lab/alloc_view.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"

#define VIEW_MAX ((size_t)64 << 20)
#define ITEMS_MAX 1000000u
#define NODES_MAX 100000u

struct reader {
	const char *path;
	struct espl__diag *diag;
	espl_status status;
	char where[48]; /* "item 3: ", or "" */
};

static void
refuse_value(struct reader *r, const char *name, const char *what)
{
	if (r->status == ESPL_OK)
		r->status = espl__fail_at(r->diag, ESPL_E_CONFIG, r->path, 0, "%s'%s' %s", r->where,
		    name, what);
}

static void
check_names(struct reader *r, const json_t *object, const char *const *names, size_t count)
{
	const char *name, *near;
	json_t *value;
	size_t i;

	json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
		for (i = 0; i < count && strcmp(names[i], name) != 0; i++)
			continue;
		if (i < count || r->status != ESPL_OK)
			continue;
		near = espl__nearest(name, names, count);
		refuse_value(r, name, "is not a known key");
		if (near != NULL)
			espl__hint(r->diag, "did you mean '%s'?", near);
	}
}

/* A number within limits; absent or null: `otherwise` (NaN: it must be there). */
static double
read_number(struct reader *r, const json_t *object, const char *name, double least, double most,
    double otherwise)
{
	const json_t *value = json_object_get(object, name);
	double n;

	if (value == NULL || json_is_null(value)) {
		if (isnan(otherwise))
			refuse_value(r, name, "is missing");
		return otherwise;
	}
	if (!json_is_number(value)) {
		refuse_value(r, name, "must be a number");
		return least;
	}
	n = json_number_value(value);
	if (!(n >= least && n <= most)) {
		char text[96], from[32], to[32];

		(void)snprintf(text, sizeof text, "is out of range (%s to %s)",
		    espl__format_real(least, from), espl__format_real(most, to));
		refuse_value(r, name, text);
		return least;
	}
	return n;
}

static uint32_t
read_whole(struct reader *r, const json_t *object, const char *name, double least, double most,
    double otherwise)
{
	double n = read_number(r, object, name, least, most, otherwise);

	if (n != floor(n))
		refuse_value(r, name, "must be a whole number");
	return n >= ESPL_ANY ? ESPL_ANY : (uint32_t)n;
}

static espl_time
time_of_seconds(double seconds)
{
	return (espl_time)(seconds * 1e9);
}

static void
read_granted(struct reader *r, const json_t *object, struct espl_item *item)
{
	static const char *const names[] = { "gpus", "packing" };
	const json_t *granted = json_object_get(object, "granted");

	item->granted = (struct espl_share){ 0, 1 };
	if (granted == NULL || json_is_null(granted))
		return;
	if (!json_is_object(granted)) {
		refuse_value(r, "granted", "must be an object with the keys gpus and packing");
		return;
	}
	check_names(r, granted, names, 2);
	item->granted.gpus = read_whole(r, granted, "gpus", 0, 1e6, NAN);
	item->granted.packing = read_whole(r, granted, "packing", 1, 64, 1);
	if (item->granted.packing > 1 && item->granted.gpus != 1)
		refuse_value(r, "granted",
		    "must be a whole number of GPUs, or one GPU with its packing");
}

static void
read_item(struct reader *r, const json_t *object, const struct espl__inputs *s,
    struct espl_item *item)
{
	static const char *const names[] = { "id", "work_s", "arrived_s", "started_s", "gpus_min",
		"gpus_max", "granted", "open" };
	const struct espl__trial_config *trial = &s->config->trial;
	double gpus_max = trial->gpus_max, started;

	if (!json_is_object(object)) {
		refuse_value(r, "items", "must be a list of objects");
		return;
	}
	check_names(r, object, names, sizeof names / sizeof names[0]);
	item->size = (uint32_t)sizeof *item;
	item->id = (uint64_t)read_number(r, object, "id", 0, 9e15, NAN);
	item->trial = item->id;
	item->bracket = item->stage = ESPL_ANY;
	item->work_s = item->work_total_s = read_number(r, object, "work_s", 0, 1e15, NAN);
	item->arrived = time_of_seconds(read_number(r, object, "arrived_s", -1e9, 9e9, 0));
	started = read_number(r, object, "started_s", -1e9, 9e9, 9e9);
	item->started = started >= 9e9 ? ESPL_NEVER : time_of_seconds(started);
	item->gpus_min = read_whole(r, object, "gpus_min", 1, 1e6, trial->gpus_min);
	item->gpus_max = read_whole(r, object, "gpus_max", item->gpus_min, 4294967295.0,
	    gpus_max < item->gpus_min ? item->gpus_min : gpus_max);
	read_granted(r, object, item);
	item->unit = 1;
	item->packing_max = trial->packing_max;
	item->scaling = s->profile->scaling;
	item->scaling_count = s->profile->scaling_count;
	item->packing = s->profile->packing;
	item->packing_count = s->profile->packing_count;
	item->offer = item->gpu = ESPL_ANY;
	item->weight = 1;
	item->start_s = espl__latency_mean(&s->profile->start);
	item->iterations_left =
	    (uint64_t)ceil(item->work_s / espl__latency_mean(&s->profile->iteration));
	if (json_is_true(json_object_get(object, "open")))
		item->flags |= ESPL_ITEM_OPEN;
	if (item->granted.gpus > 0)
		item->flags |= ESPL_ITEM_RUNNING;
	if (trial->colocate)
		item->flags |= ESPL_ITEM_COLOCATE;
}

static int
by_arrival(const void *a, const void *b)
{
	const struct espl_item *x = a, *y = b;

	if (x->arrived != y->arrived)
		return x->arrived < y->arrived ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static void
read_items(struct reader *r, const json_t *root, const struct espl__inputs *s,
    struct espl__alloc_view *g)
{
	const json_t *items = json_object_get(root, "items");
	uint32_t count, i;

	if (!json_is_array(items) || json_array_size(items) > ITEMS_MAX) {
		refuse_value(r, "items",
		    items == NULL ? "is missing" : "must be a list of at most 1000000 items");
		return;
	}
	count = (uint32_t)json_array_size(items);
	g->items = espl__alloc((count + 1) * sizeof *g->items);
	g->list = espl__alloc((count + 1) * sizeof *g->list);
	g->mentioned = espl__alloc(count + 1);
	for (i = 0; i < count && r->status == ESPL_OK; i++) {
		(void)snprintf(r->where, sizeof r->where, "item %u: ", i);
		read_item(r, json_array_get(items, i), s, &g->items[i]);
	}
	r->where[0] = '\0';
	if (r->status != ESPL_OK)
		return;
	qsort(g->items, count, sizeof *g->items, by_arrival);
	for (i = 0; i < count; i++)
		g->list[i] = &g->items[i];
	g->view.items = g->view.changed = g->list;
	g->view.item_count = g->view.changed_count = count;
}

/* Items with GPUs occupy the first free ones, in order. */
static void
place_items(struct reader *r, struct espl__alloc_view *g, uint32_t nodes, uint32_t gpus)
{
	struct espl_item *item;
	uint64_t total = (uint64_t)nodes * gpus, at, from = 0;
	uint32_t i, left;
	int room;

	for (i = 0; i < g->view.item_count && r->status == ESPL_OK; i++) {
		item = &g->items[i];
		left = item->granted.gpus;
		for (at = item->granted.packing > 1 ? 0 : from; at < total && left > 0; at++) {
			struct espl_slot slot = { at / gpus, (uint32_t)(at % gpus),
				item->granted.packing };
			struct espl__machine *machine;
			struct espl__gpu *gpu = espl__gpu_at(&g->fleet, &slot, &machine);

			room = gpu != NULL &&
			    (gpu->pub.residents == 0 ||
				(item->granted.packing > 1 &&
				    gpu->pub.packing == item->granted.packing &&
				    espl__gpu_fits(gpu, item, item->granted.packing, 0)));
			if (!room)
				continue;
			espl__gpu_occupy(&g->fleet, &slot, item, 1, 1);
			left--;
		}
		if (item->granted.packing == 1)
			from = at;
		if (left > 0)
			refuse_value(r, "items", "use more GPUs than the cluster has");
	}
}

static void
make_cluster(struct reader *r, const json_t *root, struct espl__alloc_view *g)
{
	struct espl_offer offer = ESPL_INIT(struct espl_offer);
	uint32_t nodes = read_whole(r, root, "nodes", 0, NODES_MAX, NAN);
	uint32_t gpus = read_whole(r, root, "gpus_per_node", 1, 1024, NAN), i, number_of;

	if (r->status != ESPL_OK)
		return;
	offer.name = "node";
	offer.market = offer.gpu_type = offer.zone = "";
	offer.number = ESPL_ANY;
	offer.gpus = offer.cpus = gpus;
	offer.nodes_max = nodes;
	offer.billing = ESPL_BILL_NODE;
	offer.billed_from = ESPL_BILL_FROM_REQUEST;
	offer.hazard_hour = NAN;
	number_of = espl__fleet_offer(&g->fleet, &offer);
	for (i = 0; i < nodes; i++) {
		struct espl__machine *machine = espl__machine_lease(&g->fleet, number_of, 0);

		machine->pub.ready_at = g->view.now;
		espl__machine_state(&g->fleet, machine, ESPL_NODE_READY, gpus);
	}
	g->targets[0] = nodes;
	g->view.targets = g->targets;
	place_items(r, g, nodes, gpus);
	g->view.offers = (const struct espl_offer *const *)g->fleet.offers;
	g->view.offer_count = g->fleet.offer_count;
	g->view.nodes = g->fleet.live;
	g->view.node_count = g->fleet.live_count;
	g->view.gpus = g->fleet.gpus;
	g->view.gpus_idle = g->fleet.gpus_idle;
	g->view.gpus_granted = g->fleet.gpus - g->fleet.gpus_idle;
}

static void
read_event(struct reader *r, const json_t *root, struct espl__alloc_view *g)
{
	static const struct {
		const char *name;
		uint32_t why;
	} events[] = { { "arrival", ESPL_WHY_ARRIVAL }, { "departure", ESPL_WHY_DEPARTURE },
		{ "nodes", ESPL_WHY_NODES }, { "period", ESPL_WHY_TIME } };
	const json_t *event = json_object_get(root, "event");
	size_t i;

	for (i = 0; json_is_string(event) && i < 4; i++) {
		if (strcmp(events[i].name, json_string_value(event)) == 0)
			g->view.why = events[i].why;
	}
	if (g->view.why == 0)
		refuse_value(r, "event",
		    "must be \"arrival\", \"departure\", \"nodes\" or \"period\"");
}

static int
has_repeated_item(const struct espl__alloc_view *g)
{
	struct espl_item *sorted = espl__realloc(NULL, g->view.item_count + 1, sizeof *sorted);
	uint32_t i;
	int found = 0;

	memcpy(sorted, g->items, g->view.item_count * sizeof *sorted);
	for (i = 0; i < g->view.item_count; i++)
		sorted[i].arrived = 0;
	qsort(sorted, g->view.item_count, sizeof *sorted, by_arrival);
	for (i = 1; i < g->view.item_count; i++)
		found |= sorted[i].id == sorted[i - 1].id;
	free(sorted);
	return found;
}

static json_t *
parse_view(struct reader *r)
{
	struct espl__buf bytes = { NULL, 0, 0 };
	json_error_t error;
	json_t *root = NULL;

	r->status = espl__file_read(r->path, VIEW_MAX, &bytes, r->diag);
	if (r->status == ESPL_OK) {
		root = json_loadb((const char *)bytes.data, bytes.size, JSON_REJECT_DUPLICATES,
		    &error);
		if (root == NULL)
			r->status = espl__fail_at(r->diag, ESPL_E_CONFIG, r->path,
			    error.line > 0 ? (uint32_t)error.line : 0, "not valid JSON: %s",
			    error.text);
		else if (!json_is_object(root))
			r->status = espl__fail_at(r->diag, ESPL_E_CONFIG, r->path, 1,
			    "must contain a JSON object");
	} else if (r->status != ESPL_E_NOMEM) {
		r->status = ESPL_E_CONFIG;
	}
	espl__buf_free(&bytes);
	return root;
}

espl_status
espl__alloc_view_load(const char *path, const struct espl__inputs *s, struct espl__alloc_view *g,
    struct espl__diag *diag)
{
	static const char *const names[] = { "now_s", "event", "nodes", "gpus_per_node", "items" };
	struct reader r = { path, diag, ESPL_OK, "" };
	json_t *root;

	ESPL__CHECK(s->config, RUN_CONFIG);
	memset(g, 0, sizeof *g);
	espl__fleet_init(&g->fleet);
	g->view.size = (uint32_t)sizeof g->view;
	root = parse_view(&r);
	if (r.status == ESPL_OK) {
		check_names(&r, root, names, sizeof names / sizeof names[0]);
		g->view.now = time_of_seconds(read_number(&r, root, "now_s", -1e9, 9e9, 0));
		read_event(&r, root, g);
		read_items(&r, root, s, g);
		if (r.status == ESPL_OK && has_repeated_item(g))
			refuse_value(&r, "items", "contain the same id twice");
	}
	if (r.status == ESPL_OK) {
		espl__describe_experiment(s, &g->experiment);
		g->experiments[0] = &g->experiment;
		g->view.experiments = g->experiments;
		g->view.experiment_count = 1;
		make_cluster(&r, root, g);
	}
	json_decref(root);
	if (r.status != ESPL_OK)
		espl__alloc_view_free(g);
	return r.status;
}

void
espl__alloc_view_free(struct espl__alloc_view *g)
{
	espl__fleet_free(&g->fleet);
	free(g->items);
	free(g->list);
	free(g->mentioned);
	memset(g, 0, sizeof *g);
}
