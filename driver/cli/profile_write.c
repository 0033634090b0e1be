/* profile_write.c - measurements put together: fitted, as the profile that `trial.profile` reads,
 * and as a table for people.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/mem.h"
#include "cli/profile.h"
#include "config.h"
#include "report/totals.h"

/* ---- the fit -------------------------------------------------------------------------------- */

/* Of the reciprocal of the variance; a single value contains no information about it, equal values
 * would claim too much. */
static double
weight_of(const struct espl__measurement *m)
{
	double error = espl__tally_error(&m->iteration);

	error = !isfinite(error) ? 0.1 : error < 0.001 ? 0.001 : error;
	return 1.0 / (m->speed * m->speed * error * error);
}

/* What comes after the fastest is left out: it must not pull the others down. */
static void
fit_speeds(struct espl__measurement *const *list, uint32_t count)
{
	double *values = espl__alloc(count * sizeof *values),
	       *weights = espl__alloc(count * sizeof *weights);
	uint32_t fastest = 0;

	for (uint32_t i = 0; i < count; i++) {
		values[i] = list[i]->speed;
		weights[i] = weight_of(list[i]);
		fastest = values[i] > values[fastest] ? i : fastest;
	}
	espl__fit_rising(values, weights, fastest + 1);
	for (uint32_t i = 0; i < count; i++)
		list[i]->fitted = i <= fastest ? values[i] : 0;
	free(values);
	free(weights);
}

/* A trial that needs m GPUs is assumed to be m times as fast as on one: no run will use fewer. */
void
espl__profiled_fit(struct espl__profiled *p)
{
	const struct espl__measurement *base = &p->list[0];
	struct espl__measurement **list = espl__alloc((p->wides + p->packs) * sizeof *list);

	for (uint32_t i = 0; i < p->wides + p->packs; i++)
		p->list[i].speed = base->iteration.mean / p->list[i].iteration.mean *
		    (i < p->wides ? base->gpus : p->list[i].packing);
	for (uint32_t i = 0; i < p->wides; i++)
		list[i] = &p->list[i];
	fit_speeds(list, p->wides);
	for (uint32_t i = 0; i < p->packs; i++)
		list[i + 1] = &p->list[p->wides + i];
	if (p->packs > 0)
		fit_speeds(list, p->packs + 1);
	free(list);
}

static int
is_adjusted(const struct espl__measurement *m)
{
	return fabs(m->fitted - m->speed) > 1e-9 * m->speed;
}

/* Start, checkpoint and restore of all widths together. */
struct around {
	struct espl__tally start, save, restore;
};

static void
put_together(const struct espl__profiled *p, struct around *to)
{
	struct espl__tally again = { 0, 0, 0 };
	double spread, a, b;

	memset(to, 0, sizeof *to);
	for (uint32_t i = 0; i < p->wides; i++) {
		const struct espl__measurement *m = &p->list[i];
		double each = m->iteration.mean;

		if (m->begin.count > 0)
			espl__tally_add(&to->start, fmax(0, m->begin.mean - each));
		if (m->begin.count > 0 && m->again.count > 0)
			espl__tally_add(&to->restore, m->again.mean - m->begin.mean);
		if (m->again.count > 0)
			espl__tally_add(&again, fmax(0, m->again.mean - each));
		espl__tally_merge(&to->save, &m->save);
	}
	/* A start from a checkpoint includes both; its additional variation is the restore's. */
	a = espl__tally_sd(&again);
	b = espl__tally_sd(&to->start);
	spread = fmax(0, a * a - b * b);
	if (to->restore.count > 0) {
		to->restore.mean = fmax(0, to->restore.mean);
		to->restore.squares =
		    to->restore.mean > 0 ? spread * (double)(to->restore.count - 1) : 0;
	}
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Normal where that hardly reaches below zero. */
static void
put_latency(struct espl__buf *b, const char *name, double mean, double sd)
{
	espl__print(b, "\"%s\": {", name);
	if (sd > 0 && mean > 0)
		espl__json_text(b, "dist", sd <= mean / 4 ? "normal" : "lognormal");
	espl__json_real(b, "mean", mean);
	if (sd > 0 && mean > 0)
		espl__json_real(b, "sd", sd);
	espl__print(b, "}");
}

static void
put_points(const struct espl__profiled *p, const char *name, uint32_t from, uint32_t count,
    struct espl__buf *b)
{
	espl__print(b, "\"%s\": [", name);
	if (from > 0 || p->list[0].gpus > 1)
		espl__print(b, "[1, 1]");
	for (uint32_t i = from; i < from + count; i++) {
		const struct espl__measurement *m = &p->list[i];

		if (m->fitted <= 0)
			continue;
		espl__print(b, "%s[%u, ", i > 0 || m->gpus > 1 ? ", " : "",
		    m->packing > 1 ? m->packing : m->gpus);
		espl__print_number(b, m->fitted);
		espl__print(b, "]");
	}
	espl__print(b, "]");
}

static void
put_measurement(const struct espl__measurement *m, struct espl__buf *b)
{
	espl__json_open(b, NULL, '{');
	espl__json_int(b, "gpus", m->gpus);
	espl__json_int(b, "packing", m->packing);
	espl__json_int(b, "iterations", (int64_t)m->iteration.count);
	espl__json_real(b, "mean_s", m->iteration.mean);
	espl__json_real(b, "sd_s", espl__tally_sd(&m->iteration));
	espl__json_real(b, "speed", m->speed);
	espl__json_bool(b, "adjusted", is_adjusted(m));
	espl__json_real(b, "first_report_s", m->begin.count > 0 ? m->begin.mean : NAN);
	espl__json_real(b, "restored_report_s", m->again.count > 0 ? m->again.mean : NAN);
	espl__json_real(b, "checkpoint_s", m->save.count > 0 ? m->save.mean : NAN);
	espl__json_real(b, "elapsed_s", m->elapsed_s);
	espl__print(b, "}");
}

static void
put_measured(const struct espl__profiled *p, const char *gap, struct espl__buf *b)
{
	espl__json_open(b, "measured", '{');
	espl__json_raw(b, "configuration", p->subject->json);
	espl__json_real(b, "elapsed_s", p->elapsed_s);
	espl__json_real(b, "gpu_s", p->gpu_s);
	espl__json_real(b, "cost_usd", (double)p->cost / 1e6);
	espl__json_open(b, "notes", '[');
	for (const char *at = (const char *)p->notes.data,
			*end = at != NULL ? at + p->notes.size : at;
	     at < end;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		char *line = espl__format("%.*s", (int)(stop - at), at);

		espl__json_text(b, NULL, line);
		free(line);
		at = stop + 1;
	}
	espl__print(b, "], \"runs\": [");
	for (uint32_t i = 0; i < p->wides + p->packs; i++) {
		espl__print(b, "%s%s%s", i > 0 ? "," : "", gap, gap[0] == '\n' ? "  " : "");
		put_measurement(&p->list[i], b);
	}
	espl__print(b, "]}");
}

static void
put_who(const struct espl__profiled *p, const char *gap, struct espl__buf *b)
{
	const struct espl__trial_config *trial = &p->inputs->config->trial;
	char made[32] = "";
	time_t now = time(NULL);
	struct tm utc;

	if (gmtime_r(&now, &utc) != NULL)
		(void)strftime(made, sizeof made, "%Y-%m-%dT%H:%M:%SZ", &utc);
	espl__print(b, "\"version\": \"%s\",%s\"made\": \"%s\",%s", PACKAGE_VERSION, gap, made,
	    gap);
	if (trial->trainable != NULL) {
		espl__json_text(b, "trainable", trial->trainable);
	} else {
		espl__json_open(b, "command", '[');
		for (uint32_t i = 0; i < trial->command_count; i++)
			espl__json_text(b, NULL, trial->command[i]);
		espl__print(b, "]");
	}
	espl__print(b, ",%s\"device\": ", gap);
	espl__print_json(b, p->subject->device);
	espl__print(b, ",%s", gap);
}

void
espl__profiled_json(const struct espl__profiled *p, int lines, struct espl__buf *b)
{
	const struct espl__measurement *base = &p->list[0];
	const char *gap = lines ? "\n  " : " ";
	struct around around;

	put_together(p, &around);
	espl__print(b, "{%s", lines ? gap : "");
	put_who(p, gap, b);
	put_latency(b, "iteration", base->iteration.mean * base->gpus,
	    espl__tally_sd(&base->iteration) * base->gpus);
	espl__print(b, ",%s", gap);
	put_points(p, "scaling", 0, p->wides, b);
	if (p->packs > 0) {
		espl__print(b, ",%s", gap);
		put_points(p, "packing", p->wides, p->packs, b);
	}
	espl__print(b, ",%s", gap);
	put_latency(b, "start", around.start.mean, espl__tally_sd(&around.start));
	if (around.save.count > 0) {
		espl__print(b, ",%s", gap);
		put_latency(b, "checkpoint", around.save.mean, espl__tally_sd(&around.save));
	}
	if (around.restore.count > 0) {
		espl__print(b, ",%s", gap);
		put_latency(b, "restore", around.restore.mean, espl__tally_sd(&around.restore));
	}
	if (p->resize.count > 0) {
		espl__print(b, ",%s", gap);
		put_latency(b, "resize", p->resize.mean, espl__tally_sd(&p->resize));
	}
	espl__print(b, ",%s", gap);
	put_measured(p, gap, b);
	espl__print(b, "%s}\n", lines ? "\n" : "");
}

/* ---- for people ----------------------------------------------------------------------------- */

char *
espl__format_latency(double s, char to[32])
{
	double shown = s >= 1 ? s : s >= 1e-3 ? s * 1e3 : s * 1e6;
	const char *unit = s >= 1 ? "s" : s >= 1e-3 ? "ms" : "us";

	if (!(s >= 5e-7))
		(void)snprintf(to, 32, "0s");
	else if (s >= 99.95)
		return espl__format_seconds(s, to);
	else
		(void)snprintf(to, 32, "%.*f%s",
		    shown < 9.995       ? 2
			: shown < 99.95 ? 1
					: 0,
		    shown, unit);
	return to;
}

static void
text_times(const struct espl__measurement *m, struct espl__buf *b)
{
	char mean[32], sd[32];

	espl__print(b, "  %10s  %10s", espl__format_latency(m->iteration.mean, mean),
	    m->iteration.count > 1 ? espl__format_latency(espl__tally_sd(&m->iteration), sd) : "-");
}

static void
text_tables(const struct espl__profiled *p, struct espl__buf *b)
{
	espl__print(b, "\n  %8s  %10s  %10s  %8s  %10s  %5s\n",
	    espl__slots_word(p->subject->on_cpu, 0), "iteration", "sd", "speed-up", "efficiency",
	    "timed");
	for (uint32_t i = 0; i < p->wides; i++) {
		const struct espl__measurement *m = &p->list[i];
		double up = m->speed / p->list[0].gpus;

		espl__print(b, "  %8u", m->gpus);
		text_times(m, b);
		espl__print(b, "  %8.2f  %8.0f %%  %5llu\n", up,
		    100 * up * p->list[0].gpus / m->gpus, (unsigned long long)m->iteration.count);
	}
	if (p->packs == 0)
		return;
	espl__print(b, "\n  %9s %10s  %10s  %8s  %10s  %5s\n",
	    p->subject->on_cpu ? "on a slot" : " on a GPU", "iteration", "sd", "together", "each",
	    "timed");
	for (uint32_t i = p->wides; i < p->wides + p->packs; i++) {
		const struct espl__measurement *m = &p->list[i];

		espl__print(b, "  %8u", m->packing);
		text_times(m, b);
		espl__print(b, "  %8.2f  %10.2f  %5llu\n", m->speed, m->speed / m->packing,
		    (unsigned long long)m->iteration.count);
	}
}

static void
text_latency(const char *name, const struct espl__tally *t, struct espl__buf *b)
{
	char mean[32], sd[32];

	if (t->count == 0) {
		espl__print(b, "  %-11s not measured\n", name);
		return;
	}
	espl__print(b, "  %-11s %s", name, espl__format_latency(t->mean, mean));
	if (espl__tally_sd(t) > 0)
		espl__print(b, ", sd %s", espl__format_latency(espl__tally_sd(t), sd));
	espl__print(b, "\n");
}

static void
text_adjusted(const struct espl__profiled *p, struct espl__buf *b)
{
	for (uint32_t i = 0; i < p->wides + p->packs; i++) {
		const struct espl__measurement *m = &p->list[i];

		if (!is_adjusted(m))
			continue;
		espl__print(b, "  %-11s %u %s: measured %.2f times one %s, ",
		    m->fitted > 0 ? "adjusted" : "left out", i < p->wides ? m->gpus : m->packing,
		    i < p->wides             ? espl__slots_word(p->subject->on_cpu, 0)
			: p->subject->on_cpu ? "on a slot"
					     : "on a GPU",
		    m->speed,
		    i < p->wides ? espl__slots_word(p->subject->on_cpu, 1) : "trial alone");
		if (m->fitted > 0)
			espl__print(b,
			    "recorded as %.2f because throughput in a profile must not fall\n",
			    m->fitted);
		else
			espl__print(b, "and fewer are not slower\n");
	}
}

void
espl__profiled_text(const struct espl__profiled *p, struct espl__buf *b)
{
	struct around around;
	char took[32], gpu[32];

	put_together(p, &around);
	espl__print_clean(b, p->inputs->config->name);
	espl__print(b, ": a trial on ");
	espl__print_clean(b, p->subject->device);
	espl__print(b, "\n");
	if (strcmp(p->subject->json, "{}") != 0) {
		espl__print(b, "  measured as ");
		espl__print_params(b, p->subject->json, "  ");
		espl__print(b, "\n");
	}
	text_tables(p, b);
	espl__print(b, "\n");
	text_latency("start", &around.start, b);
	text_latency("checkpoint", &around.save, b);
	text_latency("restore", &around.restore, b);
	if (p->resizes)
		text_latency("resize", &p->resize, b);
	text_adjusted(p, b);
	for (const char *at = (const char *)p->notes.data,
			*end = at != NULL ? at + p->notes.size : at;
	     at < end;) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		espl__print(b, "  note        %.*s\n", (int)(stop - at), at);
		at = stop + 1;
	}
	espl__print(b, "  total cost  $%.2f: %s, %s of %s time\n", (double)p->cost / 1e6,
	    espl__format_seconds(p->elapsed_s, took), espl__format_seconds(p->gpu_s, gpu),
	    espl__slots_word(p->subject->on_cpu, 1));
}
