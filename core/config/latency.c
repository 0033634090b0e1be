/* latency.c - latencies as users write them: a span, or a distribution in a group. */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "config/schema_value.h"

static espl_status
span_of(const struct espl__node *node, const char *name, const char *part, int numbers, double *to,
    struct espl__diag *diag)
{
	espl_span span;

	if (node->type == ESPL__STRING && espl__parse_span(node->text, &span) == 0) {
		*to = (double)span / 1e9;
		return ESPL_OK;
	}
	if ((node->type == ESPL__INT || node->type == ESPL__REAL) && (numbers || node->r == 0) &&
	    node->r >= 0 && node->r < 9e9) {
		*to = node->r;
		return ESPL_OK;
	}
	if (node->type == ESPL__STRING)
		espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line,
		    "%s%s: '%s' is not a time span", name, part, node->text);
	else
		espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line,
		    "%s%s must be a time span, not %s", name, part, espl__node_kind(node));
	espl__hint(diag, "write a time span with its unit: \"250ms\", \"90s\", \"1h30m\"");
	return ESPL_E_CONFIG;
}

static espl_status
check_members(const struct espl__node *node, const char *name, struct espl__diag *diag)
{
	static const char *const known[] = { "dist", "mean", "sd", "samples" };

	for (uint32_t i = 0; i < node->child_count; i++) {
		const struct espl__node *child = node->children[i];
		const char *near;
		size_t k;

		for (k = 0; k < 4 && strcmp(known[k], child->name) != 0; k++)
			;
		if (k < 4)
			continue;
		espl__fail_at(diag, ESPL_E_CONFIG, child->file, child->line,
		    "%s: a latency has no '%s'", name, child->name);
		near = espl__nearest(child->name, known, 4);
		if (near != NULL)
			espl__hint(diag, "did you mean '%s'?", near);
		else
			espl__hint(diag, "the keys of a latency are dist, mean, sd and samples");
		return ESPL_E_CONFIG;
	}
	return ESPL_OK;
}

static espl_status
read_samples(const struct espl__node *node, const char *name, struct espl__arena *arena,
    struct espl_latency *latency, struct espl__diag *diag)
{
	double *samples, sum = 0, squares = 0;

	if ((node->type != ESPL__LIST && node->type != ESPL__ARRAY) || node->child_count == 0) {
		espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line,
		    "%s: samples must be a list of spans", name);
		espl__hint(diag, "for example samples = [ \"12s\", \"15s\", \"31s\" ]");
		return ESPL_E_CONFIG;
	}
	samples = espl__arena_alloc(arena, node->child_count * sizeof *samples);
	for (uint32_t i = 0; i < node->child_count; i++) {
		espl_status status =
		    span_of(node->children[i], name, ".samples", 1, &samples[i], diag);

		if (status != ESPL_OK)
			return status;
		sum += samples[i];
	}
	latency->samples_s = samples;
	latency->sample_count = node->child_count;
	latency->mean_s = sum / node->child_count;
	for (uint32_t i = 0; i < node->child_count; i++)
		squares += (samples[i] - latency->mean_s) * (samples[i] - latency->mean_s);
	latency->sd_s = sqrt(squares / node->child_count);
	return ESPL_OK;
}

static espl_status
distribution_of(const struct espl__node *group, const char *name, struct espl_latency *latency,
    struct espl__diag *diag)
{
	static const char *const names[] = { "constant", "normal", "lognormal", "empirical" };
	const struct espl__node *node = espl__node_get(group, "dist");
	const char *near;

	if (node == NULL) {
		latency->kind = espl__node_get(group, "samples") != NULL ? ESPL_EMPIRICAL
		    : latency->sd_s > 0                                  ? ESPL_NORMAL
									 : ESPL_CONSTANT;
		return ESPL_OK;
	}
	if (node->type == ESPL__STRING)
		for (uint32_t i = 0; i < 4; i++)
			if (strcmp(node->text, names[i]) == 0) {
				latency->kind = ESPL_CONSTANT + i;
				return ESPL_OK;
			}
	espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line,
	    "%s: %s%s%s is not a distribution", name, node->type == ESPL__STRING ? "'" : "",
	    node->type == ESPL__STRING ? node->text : espl__node_kind(node),
	    node->type == ESPL__STRING ? "'" : "");
	near = node->type == ESPL__STRING ? espl__nearest(node->text, names, 4) : NULL;
	if (near != NULL)
		espl__hint(diag, "did you mean \"%s\"?", near);
	else
		espl__hint(diag,
		    "use one of \"constant\", \"normal\", \"lognormal\", \"empirical\"");
	return ESPL_E_CONFIG;
}

/* What goes together, and what does not. */
static espl_status
check_latency(const struct espl__node *group, const char *name, const struct espl_latency *latency,
    struct espl__diag *diag)
{
	const struct espl__node *mean = espl__node_get(group, "mean"),
				*sd = espl__node_get(group, "sd");
	const struct espl__node *samples = espl__node_get(group, "samples");
	const struct espl__node *extra;

	if (latency->kind == ESPL_EMPIRICAL) {
		extra = mean != NULL ? mean : sd;
		if (samples == NULL)
			return espl__fail_at(diag, ESPL_E_CONFIG, group->file, group->line,
			    "%s: an empirical latency needs samples", name);
		if (extra != NULL)
			return espl__fail_at(diag, ESPL_E_CONFIG, extra->file, extra->line,
			    "%s: an empirical latency must not have '%s'; it follows from the "
			    "samples",
			    name, extra->name);
		return ESPL_OK;
	}
	if (samples != NULL)
		return espl__fail_at(diag, ESPL_E_CONFIG, samples->file, samples->line,
		    "%s: samples are only valid with dist = \"empirical\"", name);
	if (mean == NULL)
		return espl__fail_at(diag, ESPL_E_CONFIG, group->file, group->line,
		    "%s: this latency needs a mean", name);
	if (latency->kind == ESPL_CONSTANT && latency->sd_s > 0)
		return espl__fail_at(diag, ESPL_E_CONFIG, sd->file, sd->line,
		    "%s: a constant latency must not have sd", name);
	if (latency->kind == ESPL_LOGNORMAL && latency->mean_s <= 0)
		return espl__fail_at(diag, ESPL_E_CONFIG, mean->file, mean->line,
		    "%s: a lognormal latency needs a mean above 0", name);
	return ESPL_OK;
}

static espl_status
read_group(const struct espl__node *group, const char *name, struct espl__arena *arena,
    struct espl_latency *latency, struct espl__diag *diag)
{
	const struct espl__node *mean = espl__node_get(group, "mean"),
				*sd = espl__node_get(group, "sd");
	const struct espl__node *samples = espl__node_get(group, "samples");
	espl_status status = check_members(group, name, diag);

	if (status == ESPL_OK && mean != NULL)
		status = span_of(mean, name, ".mean", 0, &latency->mean_s, diag);
	if (status == ESPL_OK && sd != NULL)
		status = span_of(sd, name, ".sd", 0, &latency->sd_s, diag);
	if (status == ESPL_OK)
		status = distribution_of(group, name, latency, diag);
	if (status == ESPL_OK)
		status = check_latency(group, name, latency, diag);
	if (status == ESPL_OK && samples != NULL)
		status = read_samples(samples, name, arena, latency, diag);
	return status;
}

espl_status
espl__latency_parse(const struct espl__node *node, const char *name, struct espl__arena *arena,
    const struct espl_latency **to, struct espl__diag *diag)
{
	struct espl_latency *latency = espl__arena_alloc(arena, sizeof *latency);
	espl_status status;

	latency->size = (uint32_t)sizeof *latency;
	latency->kind = ESPL_CONSTANT;
	if (node->type == ESPL__GROUP)
		status = read_group(node, name, arena, latency, diag);
	else
		status = span_of(node, name, "", 0, &latency->mean_s, diag);
	*to = status == ESPL_OK ? latency : NULL;
	return status;
}
