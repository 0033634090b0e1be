/* outlook.c - a forecast as JSON and in words. */
#include "report/outlook.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "report/totals.h"

#define FILE_MAX ((size_t)64 << 10)

/* ---- JSON ------------------------------------------------------------------------------------ */

static void
put_band(struct espl__buf *b, const char *name, const struct espl__band *band)
{
	espl__json_open(b, name, '{');
	espl__json_real(b, "low", band->low);
	espl__json_real(b, "mid", band->mid);
	espl__json_real(b, "high", band->high);
	espl__print(b, "}");
}

void
espl__outlook_json(const struct espl__outlook *o, struct espl__buf *b)
{
	espl__json_open(b, NULL, '{');
	espl__json_real(b, "made_s", o->made_s);
	espl__json_int(b, "zero_s", o->zero_s);
	espl__json_int(b, "futures", o->futures);
	put_band(b, "ends_s", &o->ends_s);
	put_band(b, "cost_usd", &o->cost_usd);
	put_band(b, "best", &o->best);
	espl__json_real(b, "keeps_deadline", o->keeps_deadline);
	espl__json_real(b, "keeps_budget", o->keeps_budget);
	espl__json_real(b, "fails", o->fails);
	espl__json_open(b, "trend", '[');
	for (uint32_t i = 0; i < ESPL__TREND; i++)
		espl__json_real(b, NULL, o->trend[i]);
	espl__print(b, "]");
	espl__json_open(b, "past", '{');
	espl__json_real(b, "s", o->past_s);
	espl__json_real(b, "usd", o->past_usd);
	espl__json_real(b, "gain", o->past_gain);
	espl__print(b, "}");
	espl__json_open(b, "rest", '{');
	espl__json_real(b, "s", o->rest_s);
	espl__json_real(b, "usd", o->rest_usd);
	espl__json_real(b, "gain", o->rest_gain);
	espl__print(b, "}}");
}

static double
real_of(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

static struct espl__band
band_of(const json_t *object, const char *name)
{
	const json_t *band = json_object_get(object, name);

	return (
	    struct espl__band){ real_of(band, "low"), real_of(band, "mid"), real_of(band, "high") };
}

/* What espl__outlook_json has written.  0; -1: it is something else. */
static int
parse_outlook(const char *text, struct espl__outlook *o)
{
	json_t *root = json_loads(text, 0, NULL);
	const json_t *past = json_object_get(root, "past"), *rest = json_object_get(root, "rest");

	memset(o, 0, sizeof *o);
	o->made_s = real_of(root, "made_s");
	o->zero_s = json_integer_value(json_object_get(root, "zero_s"));
	o->futures = json_integer_value(json_object_get(root, "futures"));
	o->ends_s = band_of(root, "ends_s");
	o->cost_usd = band_of(root, "cost_usd");
	o->best = band_of(root, "best");
	o->keeps_deadline = real_of(root, "keeps_deadline");
	o->keeps_budget = real_of(root, "keeps_budget");
	o->fails = real_of(root, "fails");
	for (size_t i = 0; i < ESPL__TREND; i++) {
		const json_t *value = json_array_get(json_object_get(root, "trend"), i);

		o->trend[i] = json_is_number(value) ? json_number_value(value) : NAN;
	}
	o->past_s = real_of(past, "s");
	o->past_usd = real_of(past, "usd");
	o->past_gain = real_of(past, "gain");
	o->rest_s = real_of(rest, "s");
	o->rest_usd = real_of(rest, "usd");
	o->rest_gain = real_of(rest, "gain");
	json_decref(root);
	return o->futures > 0 && isfinite(o->made_s) && isfinite(o->ends_s.mid) ? 0 : -1;
}

struct espl__outlook *
espl__outlook_read(const char *dir)
{
	char *path = espl__format("%s/" ESPL__OUTLOOK_FILE, dir);
	struct espl__outlook *o = espl__alloc(sizeof *o);
	struct espl__buf text = { NULL, 0, 0 };

	if (espl__file_read_own(path, FILE_MAX, &text, NULL) != ESPL_OK ||
	    parse_outlook(espl__buf_text(&text), o) != 0) {
		free(o);
		o = NULL;
	}
	free(path);
	espl__buf_free(&text);
	return o;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The clock at this time of the run: "14:55", of what is near "14:55:10", on another day "Tue
 * 14:55", later "3 Dec 14:55". */
static char *
clock_text(const struct espl__outlook *o, double at_s, char to[32])
{
	time_t then = (time_t)((double)o->zero_s + at_s),
	       made = (time_t)((double)o->zero_s + o->made_s);
	struct tm clock, today;

	if (localtime_r(&then, &clock) == NULL || localtime_r(&made, &today) == NULL)
		(void)snprintf(to, 32, "?");
	else if (then - made < 600)
		(void)strftime(to, 32, "%H:%M:%S", &clock);
	else if (clock.tm_year == today.tm_year && clock.tm_yday == today.tm_yday)
		(void)strftime(to, 32, "%H:%M", &clock);
	else if (then - made < (time_t)6 * 86400)
		(void)strftime(to, 32, "%a %H:%M", &clock);
	else
		(void)strftime(to, 32, "%e %b %H:%M", &clock);
	return to;
}

static void
put_end(const struct espl__outlook *o, double at_s, struct espl__buf *b)
{
	char text[32];

	if (o->zero_s != 0)
		espl__print(b, "%s", clock_text(o, at_s, text));
	else
		espl__print(b, "%s", espl__format_seconds(at_s, text));
}

void
espl__outlook_sentence(const struct espl__outlook *o, struct espl__buf *b)
{
	char usd[32];

	espl__print(b, "ends %sabout ", o->zero_s != 0 ? "" : "after ");
	put_end(o, o->ends_s.mid, b);
	if (o->cost_usd.mid > 0)
		espl__print(b, ", %s", espl__format_usd(o->cost_usd.mid, usd));
}

/* "0.3 %", of little "0.02 %", of nothing "0 %"; where the best comes close to 0 a part of it says
 * no more than that it is much */
static char *
share_text(double part, char to[32])
{
	if (part < 0.1)
		(void)snprintf(to, 32, "%.2g %%", part < 0.00005 ? 0.0 : 100 * part);
	else if (part < 1)
		(void)snprintf(to, 32, "%.0f %%", 100 * part);
	else
		(void)snprintf(to, 32, "100 %% or more");
	return to;
}

static char *
chance_text(double chance, int64_t futures, char to[32])
{
	if (chance >= 1)
		(void)snprintf(to, 32, "> %.0f %%", 100 - 100.0 / (double)(futures + 1));
	else if (chance <= 0)
		(void)snprintf(to, 32, "< %.0f %%", ceil(100.0 / (double)(futures + 1)));
	else
		(void)snprintf(to, 32, "%.0f %%", 100 * chance);
	return to;
}

static void
worth_text(const struct espl__outlook *o, struct espl__buf *b)
{
	char span[32], usd[32], part[32];

	espl__print(b, "  worth   ");
	if (isfinite(o->past_gain)) {
		espl__print(b, "the last %s", espl__format_seconds(o->past_s, span));
		if (o->past_usd > 0)
			espl__print(b, " and %s", espl__format_usd(o->past_usd, usd));
		espl__print(b, " improved the best by %s; ", share_text(o->past_gain, part));
	}
	espl__print(b, "the rest (%s", espl__format_seconds(o->rest_s, span));
	if (o->rest_usd > 0)
		espl__print(b, ", %s", espl__format_usd(o->rest_usd, usd));
	if (isfinite(o->rest_gain))
		espl__print(b, ") is expected to bring %s\n", share_text(o->rest_gain, part));
	else
		espl__print(b, ") trains trials further than any has been trained\n");
}

/* The best so far as a row of blocks. */
static void
trend_text(const struct espl__outlook *o, struct espl__buf *b)
{
	static const char blocks[] = "▁▂▃▄▅▆▇█"; /* of 3 bytes each */
	double low = INFINITY, high = -INFINITY;
	char first[32], last[32];
	uint32_t from = 0;

	while (from < ESPL__TREND && !isfinite(o->trend[from]))
		from++;
	for (uint32_t i = from; i < ESPL__TREND; i++) {
		low = fmin(low, o->trend[i]);
		high = fmax(high, o->trend[i]);
	}
	if (from == ESPL__TREND || !(high - low >= 0))
		return;
	espl__print(b, "  trend   %s ", espl__format_metric(o->trend[from], first));
	for (uint32_t i = 0; i < ESPL__TREND; i++) {
		double part = high > low ? (o->trend[i] - low) / (high - low) : 0;

		if (i < from)
			espl__print(b, " ");
		else
			espl__print(b, "%.3s", blocks + 3 * (size_t)(7 * part + 0.5));
	}
	espl__print(b, " %s, the best so far\n",
	    espl__format_metric(o->trend[ESPL__TREND - 1], last));
}

void
espl__outlook_text(const struct espl__outlook *o, struct espl__buf *b)
{
	char low[32], high[32], mid[32];

	espl__print(b, "  ends    %s ", o->zero_s != 0 ? "about" : "after about");
	put_end(o, o->ends_s.mid, b);
	espl__print(b, " (80 %%: ");
	put_end(o, o->ends_s.low, b);
	espl__print(b, " to ");
	put_end(o, o->ends_s.high, b);
	espl__print(b, ")\n");
	if (o->cost_usd.high > 0)
		espl__print(b, "  costs   about %s (80 %%: %s to %s)\n",
		    espl__format_usd(o->cost_usd.mid, mid), espl__format_usd(o->cost_usd.low, low),
		    espl__format_usd(o->cost_usd.high, high));
	if (isfinite(o->best.mid))
		espl__print(b, "  best    about %s at the end (80 %%: %s to %s)\n",
		    espl__format_metric(o->best.mid, mid), espl__format_metric(o->best.low, low),
		    espl__format_metric(o->best.high, high));
	if (isfinite(o->keeps_deadline))
		espl__print(b, "  chance  %s to be done before the deadline\n",
		    chance_text(o->keeps_deadline, o->futures, mid));
	if (isfinite(o->keeps_budget))
		espl__print(b, "  chance  %s to be done within the budget\n",
		    chance_text(o->keeps_budget, o->futures, mid));
	if (o->fails > 0)
		espl__print(b, "  chance  %s that the run fails\n",
		    chance_text(o->fails, o->futures, mid));
	trend_text(o, b);
	worth_text(o, b);
}
