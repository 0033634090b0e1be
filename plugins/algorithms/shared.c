/* shared.c - the making of configurations; see shared.h. */
#include <stdlib.h>
#include <string.h>
#include <espalier/util.h>
#include "shared.h"

int
shared_has_end(const struct espl_host *host)
{
	const struct espl_experiment *experiment = host->service(host, ESPL_EXPERIMENT);

	return experiment != NULL &&
	    (experiment->deadline != ESPL_NEVER || experiment->budget != INT64_MAX);
}

espl_status
shared_endless(struct espl_error *error, uint32_t option, const char *give)
{
	return espl_hint(error, espl_blame(error, option, "the search has no end"),
	    "set %s, or give the experiment a deadline or a budget", give);
}

espl_status
shared_check_range(uint64_t least, uint64_t most, uint32_t option, struct espl_error *error)
{
	char text[160];

	if (least <= most)
		return ESPL_OK;
	(void)snprintf(text, sizeof text,
	    "'iterations_min' = %llu is greater than 'iterations_max' = %llu",
	    (unsigned long long)least, (unsigned long long)most);
	return espl_hint(error, espl_blame(error, option, text),
	    "the first rung is at iterations_min, the last at iterations_max");
}

void
shared_tell_rungs(const struct espl_host *host, const uint64_t *until, size_t stride,
    uint32_t count, const char *more)
{
	char text[400] = "";
	size_t used = 0;
	uint32_t i;

	ESPL_ASSERT(count > 0 && stride >= sizeof *until);
	for (i = 0; i < count && used < sizeof text - 40; i++) {
		const uint64_t *at =
		    (const uint64_t *)(const void *)((const char *)until + i * stride);

		used += (size_t)snprintf(text + used, sizeof text - used, "%s%llu",
		    i == 0              ? ""
			: i + 1 < count ? ", "
					: " and ",
		    (unsigned long long)*at);
	}
	espl_logf(host, ESPL_INFO, "rung%s at %s%s iterations%s", count == 1 ? "" : "s", text,
	    i < count ? ", ..." : "", more);
}

espl_status
shared_init(struct shared *s, const struct espl_host *host, uint64_t trials, uint32_t option,
    int repeats, struct espl_error *error)
{
	espl_status status;
	size_t count;

	ESPL_ASSERT(s != NULL && host != NULL);
	memset(s, 0, sizeof *s);
	s->host = host;
	s->group = ESPL_NONE;
	status = espl_tried_init(&s->tried, host, repeats, error);
	if (status != ESPL_OK)
		return status;
	s->space = s->tried.space;
	s->first = host->service(host, ESPL_FIRST);
	s->sampling = host->service(host, ESPL_SAMPLING);
	s->wanted = trials;
	if (trials == 0 && !shared_has_end(host))
		return shared_endless(error, option, "'trials'");
	count = (size_t)s->space->param_count + 1;
	s->unit = calloc(count, sizeof *s->unit);
	s->values = calloc(count, sizeof *s->values);
	return s->unit != NULL && s->values != NULL
	    ? espl_tried_limit(&s->tried, trials, &s->trials, error)
	    : espl_fail(error, ESPL_E_NOMEM, "out of memory");
}

void
shared_free(struct shared *s)
{
	espl_tried_free(&s->tried);
	free(s->unit);
	free(s->values);
	free(s->own);
}

espl_status
shared_first(struct shared *s, const double **values, struct espl_error *error)
{
	ESPL_ASSERT(s->trials == 0 || s->added <= s->trials);
	if (s->own_next < s->own_count) { /* wanted now, even if it was tried before */
		*values = s->own + s->own_next++ * s->space->param_count;
		return espl_tried_add(&s->tried, *values, NULL, error);
	}
	return espl_tried_first(&s->tried, s->first, &s->first_next, values, error);
}

espl_status
shared_values(struct shared *s, espl_tried_draw *draw, void *ctx, const double **values,
    struct espl_error *error)
{
	espl_status status = shared_first(s, values, error);

	if (status != ESPL_OK || *values != NULL)
		return status;
	*values = s->values;
	if (draw == NULL && s->sampling != NULL) {
		draw = espl_sampling_draw;
		ctx = (void *)(uintptr_t)s->sampling;
	}
	return espl_tried_new(&s->tried, draw, ctx, s->values, error);
}

static void
tell_exhausted(const struct shared *s)
{
	espl_logf(s->host, ESPL_INFO, ESPL_TRIED_ALL, (unsigned long long)s->added);
}

void
shared_count(struct shared *s)
{
	s->added++;
	if (s->wanted > s->trials && s->added == s->trials)
		tell_exhausted(s);
}

void
shared_exhausted(struct shared *s)
{
	s->trials = s->added;
	tell_exhausted(s);
}

static espl_status
add_own(struct shared *s, const double *values, struct espl_error *error)
{
	size_t params = s->space->param_count;
	double *own = realloc(s->own, (s->own_count * params + params + 1) * sizeof *own);

	if (own == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	s->own = own;
	memcpy(own + s->own_count++ * params, values, params * sizeof *values);
	if (s->trials > 0) {
		s->trials++;
		s->wanted++;
	}
	return ESPL_OK;
}

espl_status
shared_extend(struct shared *s, const struct espl_extension *more, struct espl_error *error)
{
	uint64_t wanted = s->wanted + more->trials, trials = 0;
	espl_status status;

	ESPL_ASSERT(more->trials > 0);
	if (more->values != NULL)
		status = add_own(s, more->values, error);
	else if (s->wanted == 0)
		return espl_fail(error, ESPL_E_UNSUPPORTED,
		    "it has no number of trials, but goes on until the deadline or the budget");
	else
		status = espl_tried_limit(&s->tried, wanted - s->own_count, &trials, error);
	if (status == ESPL_OK && more->values == NULL) {
		if (trials + s->own_count <= s->added)
			return espl_fail(error, ESPL_E_UNSUPPORTED,
			    "all configurations of the space have been tried");
		s->wanted = wanted;
		s->trials = trials + s->own_count;
	}
	if (status == ESPL_OK && (more->flags & ESPL_EXTEND_OVER) != 0)
		s->group = ESPL_NONE;
	return status;
}

espl_status
shared_spec(const struct shared *s, uint64_t iterations, struct espl_spec_sink *sink)
{
	struct espl_stage stage = ESPL_INIT(struct espl_stage);
	const struct espl_stage *stages = &stage;
	struct espl_bracket bracket = ESPL_INIT(struct espl_bracket);
	const struct espl_bracket *brackets = &bracket;
	struct espl_spec declared = ESPL_INIT(struct espl_spec);

	ESPL_ASSERT(iterations > 0);
	if (s->trials == 0)
		return ESPL_OK;
	stage.trials = (uint32_t)s->trials;
	stage.iterations = iterations;
	bracket.stage_count = 1;
	bracket.stages = &stages;
	declared.flags = ESPL_SPEC_OPEN;
	declared.bracket_count = 1;
	declared.brackets = &brackets;
	return sink->spec(sink, &declared);
}

uint64_t
shared_room(const struct shared *s, const struct espl_search_view *view)
{
	return s->sampling == NULL
	    ? view->want
	    : espl_sampling_room(s->host, view, s->wanted > 0 ? s->wanted : ESPL_SAMPLING_ENDLESS);
}

uint64_t
shared_want(const struct shared *s, const struct espl_search_view *view)
{
	uint64_t want = shared_room(s, view);

	ESPL_ASSERT(s->trials == 0 || s->added <= s->trials);
	/* Something must ask for GPUs, or there will never be any. */
	if (want == 0 && view->running == 0 && view->waiting == 0)
		want = 1;
	return s->trials > 0 && want > s->trials - s->added ? s->trials - s->added : want;
}

espl_status
shared_begin(struct shared *s, int declared, struct espl_search_sink *sink)
{
	struct espl_group group = ESPL_INIT(struct espl_group);

	if (s->group != ESPL_NONE)
		return ESPL_OK;
	if (s->wanted > s->trials)
		espl_logf(s->host, ESPL_WARN, ESPL_TRIED_FEW, (unsigned long long)s->trials,
		    (unsigned long long)s->wanted);
	group.flags = ESPL_GROUP_OPEN;
	group.bracket = group.stage = declared ? 0 : ESPL_ANY;
	return sink->begin(sink, &group, &s->group);
}

espl_status
shared_fill(struct shared *s, uint64_t want, int declared, shared_add *add, void *ctx,
    struct espl_search_sink *sink, struct espl_error *error)
{
	uint64_t group = s->group, added = s->added;
	espl_status status = espl_tried_reserve(&s->tried, want, error);

	ESPL_ASSERT(add != NULL && (s->trials == 0 || want <= s->trials - s->added));
	if (status == ESPL_OK && want > 0)
		status = shared_begin(s, declared, sink);
	for (; want > 0 && status == ESPL_OK; want--) {
		status = add(ctx, sink, error);
		if (status == ESPL_E_LIMIT) {
			shared_exhausted(s);
			return sink->finish(sink);
		}
		if (status == ESPL_OK)
			shared_count(s);
		if (status == ESPL_OK && s->added == s->trials)
			return sink->finish(sink);
	}
	if (status != ESPL_OK) {
		espl_fail(error, status, "trial %llu was rejected", (unsigned long long)s->added);
		/* The answer is discarded: what it began and added was never made. */
		s->group = group;
		s->added = added;
	}
	return status;
}
