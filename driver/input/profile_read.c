/* profile_read.c - reads a profile: in place, or a JSON or libconfig file. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <jansson.h>
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "config/schema.h"
#include "input/input.h"
#include "model/profile.h"

#define FILE_MAX (16u << 20)
#define DEPTH_MAX 16
#define POINTS_MAX 4096u
#define SECONDS_MOST 9.2e9 /* of a span, which is nanoseconds */

#define FAIL(node_, ...) \
	espl__fail_at(diag, ESPL_E_CONFIG, (node_)->file, (node_)->line, __VA_ARGS__)

static const char *const keys[] = { "iteration", "latency", "scaling", "packing", "start",
	"checkpoint", "restore", "resize", "speed",
	/* told by `espalier profile` about itself, not read: */
	"version", "made", "trainable", "command", "device", "gpus", "comment", "measured" };
#define KEY_COUNT (sizeof keys / sizeof keys[0])

/* ---- JSON as nodes, so that one reader serves all forms ------------------------------- */

static struct espl__node *json_node(struct espl__arena *, const json_t *, const char *name,
    const char *file, int depth);

static void
json_children(struct espl__arena *arena, const json_t *from, struct espl__node *to, int depth)
{
	size_t count = json_is_object(from) ? json_object_size(from) : json_array_size(from);
	struct espl__node **list = espl__arena_alloc(arena, (count + 1) * sizeof *list);
	uint32_t k = 0;

	if (json_is_object(from)) {
		for (void *it = json_object_iter((json_t *)from); it != NULL;
		     it = json_object_iter_next((json_t *)from, it)) {
			list[k] = json_node(arena, json_object_iter_value(it),
			    json_object_iter_key(it), to->file, depth);
			k += list[k] != NULL;
		}
	} else {
		for (size_t i = 0; i < count; i++) {
			list[k] = json_node(arena, json_array_get(from, i), NULL, to->file, depth);
			k += list[k] != NULL;
		}
	}
	to->children = list;
	to->child_count = k;
}

/* null becomes no node at all: "not known". */
static struct espl__node *
json_node(struct espl__arena *arena, const json_t *from, const char *name, const char *file,
    int depth)
{
	struct espl__node *n;
	char room[32];

	if (json_is_null(from) || depth > DEPTH_MAX)
		return NULL;
	n = espl__arena_alloc(arena, sizeof *n);
	n->file = file;
	n->name = espl__arena_strdup(arena, name);
	n->source = ESPL_FILE;
	if (json_is_object(from) || json_is_array(from)) {
		n->type = json_is_object(from) ? ESPL__GROUP : ESPL__LIST;
		json_children(arena, from, n, depth + 1);
	} else if (json_is_string(from)) {
		n->type = ESPL__STRING;
		n->text = espl__arena_strdup(arena, json_string_value(from));
	} else if (json_is_boolean(from)) {
		n->type = ESPL__BOOL;
		n->i = json_is_true(from);
	} else if (name != NULL && (strcmp(name, "mean") == 0 || strcmp(name, "sd") == 0)) {
		/* JSON has plain seconds where the configuration wants a unit. */
		char *text = espl__format("%.9fs", json_number_value(from));

		n->type = ESPL__STRING;
		n->text = espl__arena_strdup(arena, text);
		free(text);
	} else {
		n->type = json_is_integer(from) ? ESPL__INT : ESPL__REAL;
		n->i = json_is_integer(from) ? json_integer_value(from) : 0;
		n->r = json_number_value(from);
		n->text = espl__arena_strdup(arena, espl__format_real(n->r, room));
	}
	return n;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* Seconds of a span or a number of seconds. */
static espl_status
read_seconds(const struct espl__node *n, const char *name, double *to, struct espl__diag *diag)
{
	espl_span span;

	if (n->type == ESPL__INT || n->type == ESPL__REAL)
		*to = n->r;
	else if (n->type == ESPL__STRING && espl__parse_span(n->text, &span) == 0)
		*to = (double)span / 1e9;
	else {
		FAIL(n, "'%s' of the profile is not a time span", name);
		espl__hint(diag, "write a time span such as \"1.5s\", or a number of seconds");
		return ESPL_E_CONFIG;
	}
	if (!(*to >= 0) || !isfinite(*to))
		return FAIL(n, "'%s' of the profile must be finite and not negative", name);
	if (*to > SECONDS_MOST)
		return FAIL(n, "'%s' of the profile is too long: %g s, but the maximum is %g s",
		    name, *to, SECONDS_MOST);
	return ESPL_OK;
}

/* ( (x, y), ... ): x rising whole numbers from 1, y > 0. */
static espl_status
read_points(const struct espl__node *n, int spans, struct espl__arena *arena,
    struct espl_point **points, uint32_t *count, struct espl__diag *diag)
{
	int list = n->type == ESPL__LIST || n->type == ESPL__ARRAY;

	if (!list || n->child_count == 0 || n->child_count > POINTS_MAX) {
		FAIL(n, "'%s' of the profile is not a list of points", n->name);
		espl__hint(diag, "write  %s = ( (1, 1.0), (2, 1.9) );", n->name);
		return ESPL_E_CONFIG;
	}
	*points = espl__arena_alloc(arena, n->child_count * sizeof **points);
	for (uint32_t i = 0; i < n->child_count; i++) {
		const struct espl__node *c = n->children[i];
		struct espl_point *to = *points + i;
		espl_status st;

		if ((c->type != ESPL__LIST && c->type != ESPL__ARRAY) || c->child_count != 2 ||
		    (c->children[0]->type != ESPL__INT && c->children[0]->type != ESPL__REAL))
			return FAIL(c, "point %u of '%s' is not a pair of numbers", i + 1, n->name);
		to->x = c->children[0]->r;
		if (spans)
			st = read_seconds(c->children[1], n->name, &to->y, diag);
		else if (c->children[1]->type == ESPL__INT || c->children[1]->type == ESPL__REAL)
			st = (to->y = c->children[1]->r, ESPL_OK);
		else
			st = FAIL(c, "point %u of '%s' is not a pair of numbers", i + 1, n->name);
		if (st != ESPL_OK)
			return st;
		if (!(to->x >= 1 && to->x <= 1e6) || to->x != floor(to->x))
			return FAIL(c,
			    "point %u of '%s': the first number must be a positive whole number",
			    i + 1, n->name);
		if (i > 0 && to->x <= (*points)[i - 1].x)
			return FAIL(c, "the points of '%s' must increase, but %g follows %g",
			    n->name, to->x, (*points)[i - 1].x);
		if (!(to->y > 0) || !isfinite(to->y))
			return FAIL(c, "point %u of '%s' must have a value above 0", i + 1,
			    n->name);
		if (i == 0 && to->x != 1)
			return FAIL(c, "the first point of '%s' must be for 1", n->name);
	}
	*count = n->child_count;
	return ESPL_OK;
}

static espl_status
read_speeds(const struct espl__node *n, struct espl__arena *arena, struct espl_point **points,
    uint32_t *count, struct espl__diag *diag)
{
	espl_status st = read_points(n, 0, arena, points, count, diag);
	int packing = strcmp(n->name, "packing") == 0;

	if (st != ESPL_OK)
		return st;
	if ((*points)[0].y != 1.0) {
		FAIL(n->children[0], "'%s' must start with (1, 1.0)", n->name);
		espl__hint(diag,
		    packing ? "each element is a number of trials on one GPU and their total "
			      "throughput relative to one trial alone"
			    : "each element is a number of GPUs and the throughput relative to one "
			      "GPU");
		return ESPL_E_CONFIG;
	}
	for (uint32_t i = 1; i < *count; i++)
		if ((*points)[i].y < (*points)[i - 1].y) {
			FAIL(n->children[i], "the throughput of '%s' falls from %g to %g", n->name,
			    (*points)[i - 1].y, (*points)[i].y);
			espl__hint(diag,
			    packing ? "end the table where more trials do not help"
				    : "end the table where more GPUs do not help; it is constant "
				      "after its last point");
			return ESPL_E_CONFIG;
		}
	return ESPL_OK;
}

/* speed = ( ("V100", 3.4), ("T4", 1.2) ): of other types of GPU than the one profiled. */
static espl_status
read_types(const struct espl__node *n, struct espl__profile *p, struct espl__diag *diag)
{
	if ((n->type != ESPL__LIST && n->type != ESPL__ARRAY) || n->child_count == 0 ||
	    n->child_count > POINTS_MAX) {
		FAIL(n, "'speed' of the profile is not a list of GPU types");
		espl__hint(diag, "write  speed = ( (\"K80\", 1.0), (\"V100\", 3.4) );");
		return ESPL_E_CONFIG;
	}
	p->speeds = espl__arena_alloc(p->arena, n->child_count * sizeof *p->speeds);
	for (uint32_t i = 0; i < n->child_count; i++) {
		const struct espl__node *c = n->children[i];
		const struct espl__node *speed = c->child_count == 2 ? c->children[1] : NULL;

		if (speed == NULL || c->children[0]->type != ESPL__STRING ||
		    (speed->type != ESPL__INT && speed->type != ESPL__REAL))
			return FAIL(c, "entry %u of 'speed' is not a GPU type and a number", i + 1);
		if (!(speed->r > 0) || !isfinite(speed->r))
			return FAIL(speed, "the speed of '%s' must be above 0",
			    c->children[0]->text);
		for (uint32_t k = 0; k < i; k++)
			if (strcmp(p->speeds[k].gpu_type, c->children[0]->text) == 0)
				return FAIL(c, "'speed' lists '%s' twice", c->children[0]->text);
		p->speeds[i].gpu_type = espl__arena_strdup(p->arena, c->children[0]->text);
		p->speeds[i].speed = speed->r;
		p->speed_count = i + 1;
	}
	return ESPL_OK;
}

/* latency = ( (1, 12.0), (2, 8.0) ): gives iteration's mean and scaling. */
static espl_status
read_table(const struct espl__node *n, struct espl__profile *p, struct espl__diag *diag)
{
	espl_status st = read_points(n, 1, p->arena, &p->scaling, &p->scaling_count, diag);
	double one;

	if (st != ESPL_OK)
		return st;
	one = p->scaling[0].y;
	for (uint32_t i = 1; i < p->scaling_count; i++)
		if (p->scaling[i].y > p->scaling[i - 1].y) {
			FAIL(n->children[i], "the latency rises from %g s to %g s with more GPUs",
			    p->scaling[i - 1].y, p->scaling[i].y);
			espl__hint(diag,
			    "end the table where more GPUs do not help; it is constant after its "
			    "last point");
			return ESPL_E_CONFIG;
		}
	for (uint32_t i = 0; i < p->scaling_count; i++)
		p->scaling[i].y = one / p->scaling[i].y;
	p->iteration.mean_s = one;
	return ESPL_OK;
}

static espl_status
read_latency(const struct espl__node *group, const char *key, struct espl__profile *p,
    struct espl_latency *to, struct espl__diag *diag)
{
	const struct espl__node *n = espl__node_get(group, key);
	const struct espl_latency *l;
	espl_status st;

	if (n == NULL)
		return ESPL_OK;
	if (n->type == ESPL__INT || n->type == ESPL__REAL)
		return read_seconds(n, key, &to->mean_s, diag);
	st = espl__latency_parse(n, key, p->arena, &l, diag);
	if (st == ESPL_OK)
		*to = *l;
	return st;
}

/* iteration beside latency: it may tell the spread alone. */
static espl_status
read_spread(const struct espl__node *n, struct espl__profile *p, struct espl__diag *diag)
{
	const struct espl__node *sd = espl__node_get(n, "sd");
	const struct espl__node *dist = espl__node_get(n, "dist");
	espl_status st;

	if (n->type != ESPL__GROUP || espl__node_get(n, "mean") != NULL) {
		FAIL(n, "the profile has both 'latency' and a mean of 'iteration'");
		espl__hint(diag, "with 'latency', write only  iteration = { sd = \"0.1s\"; };");
		return ESPL_E_CONFIG;
	}
	for (uint32_t i = 0; i < n->child_count; i++)
		if (n->children[i] != sd && n->children[i] != dist)
			return FAIL(n->children[i],
			    "with 'latency', 'iteration' must not have '%s'", n->children[i]->name);
	if (sd == NULL)
		return ESPL_OK;
	st = read_seconds(sd, "sd", &p->iteration.sd_s, diag);
	if (st != ESPL_OK)
		return st;
	p->iteration.kind = p->iteration.sd_s > 0 ? ESPL_NORMAL : ESPL_CONSTANT;
	if (dist != NULL && dist->type == ESPL__STRING && strcmp(dist->text, "lognormal") == 0) {
		p->iteration.kind = ESPL_LOGNORMAL;
	} else if (dist != NULL &&
	    (dist->type != ESPL__STRING ||
		(strcmp(dist->text, "normal") != 0 && strcmp(dist->text, "constant") != 0))) {
		FAIL(dist,
		    "with 'latency', 'dist' must be \"constant\", \"normal\" or \"lognormal\"");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static espl_status
check_keys(const struct espl__node *group, struct espl__diag *diag)
{
	for (uint32_t i = 0; i < group->child_count; i++) {
		const struct espl__node *c = group->children[i];
		const char *near;
		size_t k = 0;

		while (k < KEY_COUNT && strcmp(keys[k], c->name) != 0)
			k++;
		if (k < KEY_COUNT)
			continue;
		FAIL(c, "unknown key '%s' in a profile", c->name);
		near = espl__nearest(c->name, keys, KEY_COUNT);
		if (near != NULL)
			espl__hint(diag, "did you mean '%s'?", near);
		else
			espl__hint(diag,
			    "the keys are iteration, scaling or latency, packing, start, "
			    "checkpoint, restore, resize, speed");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static espl_status
read_group(const struct espl__node *group, struct espl__profile *p, struct espl__diag *diag)
{
	const struct espl__node *table = espl__node_get(group, "latency");
	const struct espl__node *iteration = espl__node_get(group, "iteration");
	const struct espl__node *scaling = espl__node_get(group, "scaling");
	const struct espl__node *packing = espl__node_get(group, "packing");
	espl_status st = check_keys(group, diag);

	if (st != ESPL_OK)
		return st;
	if (table != NULL && scaling != NULL)
		return FAIL(scaling, "the profile has both 'latency' and 'scaling'");
	if (table == NULL && iteration == NULL) {
		FAIL(group, "the profile does not say how long an iteration takes");
		espl__hint(diag,
		    "add  iteration = \"4s\";  or  latency = ( (1, 12.0), (2, 8.0) );");
		return ESPL_E_CONFIG;
	}
	if (table != NULL) {
		st = read_table(table, p, diag);
		if (st == ESPL_OK && iteration != NULL)
			st = read_spread(iteration, p, diag);
	} else {
		st = read_latency(group, "iteration", p, &p->iteration, diag);
		if (st == ESPL_OK && !(espl__latency_mean(&p->iteration) > 0)) {
			FAIL(iteration, "the duration of an iteration in the profile is 0");
			st = ESPL_E_CONFIG;
		}
		if (st == ESPL_OK && scaling != NULL)
			st = read_speeds(scaling, p->arena, &p->scaling, &p->scaling_count, diag);
	}
	if (st == ESPL_OK && packing != NULL)
		st = read_speeds(packing, p->arena, &p->packing, &p->packing_count, diag);
	if (st == ESPL_OK && espl__node_get(group, "speed") != NULL)
		st = read_types(espl__node_get(group, "speed"), p, diag);
	if (st == ESPL_OK)
		st = read_latency(group, "start", p, &p->start, diag);
	if (st == ESPL_OK)
		st = read_latency(group, "checkpoint", p, &p->checkpoint, diag);
	p->restore = p->checkpoint;
	if (st == ESPL_OK)
		st = read_latency(group, "restore", p, &p->restore, diag);
	p->resizes = espl__node_get(group, "resize") != NULL;
	if (st == ESPL_OK && p->resizes)
		st = read_latency(group, "resize", p, &p->resize, diag);
	return st;
}

static espl_status
read_json(const char *path, struct espl__buf *text, struct espl__profile *p,
    struct espl__diag *diag)
{
	json_error_t error;
	json_t *root =
	    json_loadb((const char *)text->data, text->size, JSON_REJECT_DUPLICATES, &error);
	struct espl__node *n;
	espl_status st;

	if (root == NULL)
		return espl__fail_at(diag, ESPL_E_CONFIG, path,
		    error.line > 0 ? (uint32_t)error.line : 0, "not valid JSON: %s", error.text);
	n = json_node(p->arena, root, NULL, espl__arena_strdup(p->arena, path), 0);
	json_decref(root);
	if (n == NULL || n->type != ESPL__GROUP)
		return espl__fail_at(diag, ESPL_E_CONFIG, path, 1,
		    "a profile must be a JSON object");
	st = read_group(n, p, diag);
	return st;
}

static espl_status
read_file(const char *path, struct espl__profile *p, struct espl__diag *diag)
{
	struct espl__buf text = { NULL, 0, 0 };
	espl_status st = espl__file_read(path, FILE_MAX, &text, diag);
	size_t i = 0;

	while (st == ESPL_OK && i < text.size && strchr(" \t\r\n", text.data[i]) != NULL &&
	    text.data[i] != '\0')
		i++;
	if (st == ESPL_OK && i < text.size && (text.data[i] == '{' || text.data[i] == '[')) {
		st = read_json(path, &text, p, diag);
	} else if (st == ESPL_OK) {
		struct espl__tree *tree = NULL;

		st = espl__tree_load(path, &tree, diag);
		if (st == ESPL_OK) {
			const struct espl__node *root = espl__tree_root(tree);
			const struct espl__node *in = espl__node_get(root, "profile");

			if (in != NULL && in->type != ESPL__GROUP)
				st = FAIL(in, "'profile' is %s, not a group", espl__node_kind(in));
			else
				st = read_group(in != NULL ? in : root, p, diag);
			espl__tree_free(tree);
		}
	}
	espl__buf_free(&text);
	return st;
}

espl_status
espl__profile_load(const struct espl__node *node, const char *directory, struct espl__profile **out,
    struct espl__diag *diag)
{
	struct espl__profile *p = espl__alloc(sizeof *p);
	struct espl_latency zero = { .size = sizeof zero, .kind = ESPL_CONSTANT };
	espl_status st = ESPL_OK;

	*out = NULL;
	p->arena = espl__alloc(sizeof(struct espl__arena));
	p->iteration = p->start = p->checkpoint = p->restore = p->resize = zero;
	if (node == NULL || (node->type == ESPL__STRING && strcmp(node->text, "auto") == 0)) {
		p->guessed = 1;
		p->iteration.mean_s = 1.0;
	} else if (node->type == ESPL__GROUP) {
		st = read_group(node, p, diag);
	} else if (node->type == ESPL__STRING) {
		char *path = node->text[0] == '/' || directory == NULL || directory[0] == '\0'
		    ? espl__strdup(node->text)
		    : espl__format("%s/%s", directory, node->text);

		st = read_file(path, p, diag);
		free(path);
	} else {
		st = FAIL(node, "'profile' is %s", espl__node_kind(node));
		espl__hint(diag,
		    "write \"auto\", the name of a file, or a group { iteration = ...; }");
	}
	if (st != ESPL_OK) {
		espl__profile_free(p);
		return st;
	}
	if (p->scaling_count == 0) {
		p->scaling = espl__arena_alloc(p->arena, sizeof *p->scaling);
		p->scaling[0] = (struct espl_point){ 1.0, 1.0 };
		p->scaling_count = 1;
	}
	*out = p;
	return ESPL_OK;
}
