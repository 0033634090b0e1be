/* fashion_course.c - what a trial on Fashion-MNIST is told, and how it goes on from batch to batch:
 * the same for whatever computes it, so that one search has the same course on a processor and on a
 * GPU.
 *
 * Order, masks and rates are functions of (seed, iteration, image or batch).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "fashion.h"

#define KEEP 0.999f /* of adam's second moment */

void
fashion_init(struct fashion *f, const struct espl_value *values)
{
	f->folder = values[FASHION_DATA].as.s;
	f->train = (uint32_t)values[FASHION_TRAIN].as.i;
	f->validate = (uint32_t)values[FASHION_VALIDATE].as.i;
	f->cosine = (int)values[FASHION_SCHEDULE].as.i;
}

espl_status
fashion_load(struct fashion *f, struct espl_error *error)
{
	return f->data != NULL
	    ? ESPL_OK
	    : fashion_data_load(f->folder, f->train, f->validate, &f->data, error);
}

/* ---- settings ------------------------------------------------------------------------------ */

static espl_status
read_knob(struct fashion_knob *k, const struct espl_setting *s, struct espl_error *error)
{
	char *end = NULL;

	k->value = s->value;
	if (isnan(k->value) && s->text != NULL && s->text[0] != '\0') {
		k->value = strtod(s->text, &end);
		if (*end != '\0')
			k->value = NAN;
	}
	if (!(k->value >= k->low && k->value <= k->high) ||
	    (k->whole && k->value != floor(k->value)))
		return espl_fail(error, ESPL_E_CONFIG,
		    "parameter '%s' is '%s', not a%s number from %g to %g", k->name, s->text,
		    k->whole ? " whole" : "", k->low, k->high);
	return ESPL_OK;
}

static espl_status
read_setting(struct fashion_course *course, const struct fashion_told *told,
    const struct espl_setting *s, struct espl_error *error)
{
	uint32_t k = 0;

	if (strcmp(s->name, "optimizer") == 0) {
		course->adam = strcmp(s->text, "adam") == 0;
		return course->adam || strcmp(s->text, "sgd") == 0
		    ? ESPL_OK
		    : espl_fail(error, ESPL_E_CONFIG, "optimizer '%s' is neither 'sgd' nor 'adam'",
			  s->text);
	}
	while (k < told->count &&
	    (told->knobs[k].name == NULL || strcmp(told->knobs[k].name, s->name) != 0))
		k++;
	if (k == told->count)
		return espl_fail(error, ESPL_E_CONFIG,
		    "%s has no parameter '%s': %s, batch_size, optimizer", told->plugin, s->name,
		    told->names);
	return read_knob(&told->knobs[k], s, error);
}

espl_status
fashion_course_read(struct fashion_course *course, const struct fashion *f,
    const struct espl_trial_context *context, const struct fashion_told *told,
    struct espl_error *error)
{
	const struct fashion_knob *knobs = told->knobs;
	espl_status status = ESPL_OK;

	course->cosine = f->cosine;
	for (uint32_t i = 0; i < context->setting_count && status == ESPL_OK; i++)
		status = read_setting(course, told, &context->settings[i], error);
	if (status != ESPL_OK)
		return status;
	if (isnan(knobs[FASHION_RATE].value))
		return espl_fail(error, ESPL_E_CONFIG,
		    "the search space lacks a parameter that %s needs: learning_rate",
		    told->plugin);
	course->batch = (uint32_t)knobs[FASHION_BATCH].value;
	if (course->batch % FASHION_SHARDS != 0 || course->batch > f->train)
		return espl_fail(error, ESPL_E_CONFIG,
		    "batch_size %u must be a multiple of %u and at most the %u training images",
		    course->batch, FASHION_SHARDS, f->train);
	course->batches = f->train / course->batch;
	course->learning_rate = (float)knobs[FASHION_RATE].value;
	course->momentum = (float)knobs[FASHION_MOMENTUM].value;
	return ESPL_OK;
}

/* ---- an iteration ----------------------------------------------------------------------- */

void
fashion_order(uint64_t seed, uint64_t iteration, uint32_t *order, uint32_t count)
{
	uint64_t key = fashion_mix(fashion_mix(seed ^ UINT64_C(0x6f72646572)) ^ iteration);

	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	for (uint32_t i = count - 1; i > 0; i--) {
		uint32_t k = (uint32_t)(fashion_mix(key + i) % (i + 1u)), held = order[i];

		order[i] = order[k];
		order[k] = held;
	}
}

float
fashion_rate(const struct fashion_course *course, double iterations, uint64_t iteration,
    uint32_t batch, uint64_t updates)
{
	double at = ((double)iteration - 1 + (double)batch / course->batches) / iterations;
	double most = (double)updates;
	float rate = course->learning_rate;

	at = at > 1.0 ? 1.0 : at;
	if (course->cosine && iterations >= 1)
		rate *= (float)(0.51 + 0.49 * cos(3.14159265358979323846 * at));
	if (course->adam)
		rate *= (float)(sqrt(1.0 - pow((double)KEEP, most)) /
		    (1.0 - pow((double)course->momentum, most)));
	return rate;
}

/* ---- state and reports ------------------------------------------------------------------ */

espl_status
fashion_next(const struct fashion_counters *counters, uint64_t iteration, struct espl_error *error)
{
	return iteration == counters->iterations + 1
	    ? ESPL_OK
	    : espl_fail(error, ESPL_E_BUG,
		  "iteration %llu follows %llu; the state belongs to another trial",
		  (unsigned long long)iteration, (unsigned long long)counters->iterations);
}

espl_status
fashion_name_regions(struct espl_region_sink *sink, const struct fashion_regions *r)
{
	espl_status st = sink->region(sink, "params", r->params, r->bytes, r->where);

	if (st == ESPL_OK)
		st = sink->region(sink, "velocity", r->velocity, r->bytes, r->where);
	if (st == ESPL_OK && r->square != NULL)
		st = sink->region(sink, "square", r->square, r->bytes, r->where);
	if (st == ESPL_OK)
		st = sink->region(sink, "counters", r->counters, sizeof *r->counters, ESPL_CPU);
	return st;
}

espl_status
fashion_report(struct espl_report_sink *sink, double accuracy, double loss, double train_loss)
{
	espl_status st = sink->metric(sink, "val_accuracy", accuracy);

	if (st == ESPL_OK)
		st = sink->metric(sink, "val_loss", loss);
	if (st == ESPL_OK)
		st = sink->metric(sink, "train_loss", train_loss);
	return st;
}
