/* report_html_svg.c - text that is safe in a page, axes, and the few shapes it is drawn with. */
#include "report/report_html_impl.h"

#include <math.h>
#include <string.h>

#include "base/text.h"

/* ---- text --------------------------------------------------------------------------------- */

/* One character of UTF-8; *length 1 and U+FFFD for what is none. */
static uint32_t
decode_utf8(const unsigned char *p, uint32_t *length)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c = p[0],
		 n = c < 0x80       ? 1
	    : c >= 0xc2 && c < 0xe0 ? 2
	    : c >= 0xe0 && c < 0xf0 ? 3
	    : c >= 0xf0 && c < 0xf5 ? 4
				    : 0,
		 i;

	*length = 1;
	if (n == 1)
		return c;
	if (n == 0)
		return 0xfffd;
	c &= 0x7fu >> n;
	for (i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80) /* the NUL at the end too */
			return 0xfffd;
		c = c << 6 | (p[i] & 0x3fu);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return 0xfffd;
	*length = n;
	return c;
}

/* May it stand in XML, and does it leave the direction of its neighbours alone? */
static int
is_printable(uint32_t c)
{
	return c >= 0x20 && (c < 0x7f || c >= 0xa0) && (c < 0x202a || c > 0x202e) &&
	    (c < 0x2066 || c > 0x2069) && (c & 0xfffe) != 0xfffe && c != 0xfffd;
}

void
espl__html_text(struct espl__buf *b, const char *text, uint32_t most)
{
	const unsigned char *p = (const unsigned char *)(text != NULL ? text : "");
	uint32_t c, length;

	for (; *p != '\0'; p += length) {
		c = decode_utf8(p, &length);
		if (most-- == 0) {
			espl__print(b, "\xe2\x80\xa6");
			return;
		}
		switch (c) {
		case '&': espl__print(b, "&amp;"); break;
		case '<': espl__print(b, "&lt;"); break;
		case '>': espl__print(b, "&gt;"); break;
		case '"': espl__print(b, "&quot;"); break;
		case '\'': espl__print(b, "&#39;"); break;
		case '\t':
		case '\n':
		case '\r': espl__print(b, " "); break;
		default:
			if (is_printable(c))
				espl__put(b, p, length);
			else
				espl__print(b, "\xef\xbf\xbd");
		}
	}
}

char *
espl__html_seconds(double s, char to[32])
{
	if (!isfinite(s))
		(void)snprintf(to, 32, "-");
	else if (s > -0.0005 && s < 0.0005)
		(void)snprintf(to, 32, "0s");
	else if (fabs(s) > 8e9)
		(void)snprintf(to, 32, "%.3gs", s);
	else /* rounded as it is shown, so that 59.96 s is not 59 s */
		(void)espl__format_short((espl_span)((fabs(s) >= 9.95 ? rint(s)
							     : fabs(s) >= 0.9995
							     ? rint(s * 10) / 10
							     : rint(s * 1e3) / 1e3) *
					     1e9),
		    to);
	return to;
}

char *
espl__html_money(double usd, char to[32])
{
	double size = fabs(usd);
	int digits = 2;

	if (!isfinite(usd)) {
		(void)snprintf(to, 32, "-");
		return to;
	}
	for (; size > 0 && size < 0.0995 && digits < 6; size *= 10)
		digits++;
	(void)snprintf(to, 32, fabs(usd) < 1e12 ? "%s$%.*f" : "%s$%.*e", usd < 0 ? "-" : "", digits,
	    fabs(usd));
	return to;
}

/* ---- shapes ------------------------------------------------------------------------------- */

void
espl__html_number(struct espl__buf *b, double v)
{
	char text[32];
	int length;

	if (!(fabs(v) < 1e6))
		v = v > 0 ? 1e6 : v < 0 ? -1e6 : 0;
	length = snprintf(text, sizeof text, "%.1f", v);
	if (text[length - 1] == '0')
		text[length - 2] = '\0';
	espl__print(b, "%s", strcmp(text, "-0") == 0 ? "0" : text);
}

static void
write_attribute(struct espl__buf *b, const char *name, double value)
{
	espl__print(b, " %s=\"", name);
	espl__html_number(b, value);
	espl__print(b, "\"");
}

void
espl__html_rect(struct espl__buf *b, const char *classes, double x, double y, double w, double h)
{
	espl__print(b, "<rect");
	if (classes != NULL)
		espl__print(b, " class=\"%s\"", classes);
	write_attribute(b, "x", x);
	write_attribute(b, "y", y);
	write_attribute(b, "width", w > 0.3 ? w : 0.3); /* what was short is still there */
	write_attribute(b, "height", h > 0.3 ? h : 0.3);
	espl__print(b, "/>");
}

void
espl__html_line(struct espl__buf *b, const char *classes, double x1, double y1, double x2,
    double y2)
{
	espl__print(b, "<line class=\"%s\"", classes);
	write_attribute(b, "x1", x1);
	write_attribute(b, "y1", y1);
	write_attribute(b, "x2", x2);
	write_attribute(b, "y2", y2);
	espl__print(b, "/>");
}

void
espl__html_label(struct espl__buf *b, const char *classes, double x, double y, const char *text)
{
	espl__print(b, "<text class=\"%s\"", classes);
	write_attribute(b, "x", x);
	write_attribute(b, "y", y);
	espl__print(b, ">%s</text>", text);
}

void
espl__html_open(struct espl__buf *b, double height, const char *what)
{
	espl__print(b,
	    "<div class=\"scroll\"><svg role=\"img\" viewBox=\"0 0 %.0f %.0f\" aria-label=\"%s\">",
	    ESPL__HTML_WIDTH, ceil(height), what);
}

#define TICK_ROOM 22.0 /* that the number at a tick takes */

/* ---- axes --------------------------------------------------------------------------------- */

static double
scale_value(const struct espl__html_axis *a, double value)
{
	return a->kind != ESPL__HTML_LOG ? value : value > 0 ? log(value) : log(a->low);
}

double
espl__html_at(const struct espl__html_axis *a, double value)
{
	double low = scale_value(a, a->low),
	       part = (scale_value(a, value) - low) / (scale_value(a, a->high) - low);

	if (!(part > 0)) /* what is not a number too */
		part = 0;
	return a->from + (a->to - a->from) * (part < 1 ? part : 1);
}

struct espl__html_axis
espl__html_time(const struct espl__html *h)
{
	struct espl__html_axis a = { .high = h->end_s,
		.from = ESPL__HTML_LEFT,
		.to = ESPL__HTML_RIGHT };

	return a;
}

double
espl__html_round_up(double v)
{
	double unit;

	if (!(v > 1e-300 && v < 1e300))
		return 1;
	unit = pow(10, floor(log10(v)));
	return v <= unit * 1.000001 ? unit
	    : v <= unit * 2.000001  ? unit * 2
	    : v <= unit * 5.000001  ? unit * 5
				    : unit * 10;
}

static double
time_step(double most)
{
	static const double steps[] = { 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600,
		7200, 10800, 21600, 43200, 86400, 172800, 604800 };
	uint32_t i, count = sizeof steps / sizeof steps[0];

	if (most < 1)
		return espl__html_round_up(most);
	for (i = 0; i < count && steps[i] < most; i++)
		;
	return i < count ? steps[i] : 86400 * espl__html_round_up(most / 86400);
}

/* "2m" for "2m00s". */
static const char *
format_tick(double at, char to[32])
{
	size_t length = strlen(espl__html_seconds(at, to));

	if (length > 4 && strncmp(to + length - 3, "00", 2) == 0 &&
	    strchr("mhd", to[length - 4]) != NULL)
		to[length - 3] = '\0';
	return to;
}

void
espl__html_time_grid(struct espl__buf *b, const struct espl__html_axis *a, double top,
    double bottom)
{
	double step = time_step(a->high / 11), at, x;
	char text[32];
	int i;

	for (i = 0; i < 20 && (at = step * i) <= a->high; i++) {
		x = espl__html_at(a, at);
		espl__html_line(b, "gd", x, top, x, bottom);
		espl__html_label(b, "tm", x, bottom + 13, format_tick(at, text));
	}
}

/* Round values where the axis is even, those of 1, 2, 5, ... (or powers of ten) where it is
 * logarithmic. */
static double
first_value(const struct espl__html_axis *a, double step)
{
	return a->kind == ESPL__HTML_LOG ? pow(10, floor(log10(a->low)))
					 : ceil(a->low / step - 1e-9) * step;
}

static double
next_value(const struct espl__html_axis *a, double step, double v)
{
	double decades = a->kind == ESPL__HTML_LOG ? log10(a->high / a->low) : 0;

	if (a->kind == ESPL__HTML_EVEN)
		return v + step;
	return decades > 3 ? v * pow(10, ceil(decades / 6)) : espl__html_round_up(v * 1.5);
}

/* Money where the unit is "$", whole numbers where it is "GPUs". */
void
espl__html_value_grid(struct espl__buf *b, const struct espl__html_axis *a, const char *unit)
{
	double step = espl__html_round_up((a->high - a->low) / 5), at, y;
	char text[32];
	int i;

	if (strcmp(unit, "GPUs") == 0 && step < 1)
		step = 1;
	at = first_value(a, step);
	for (i = 0; i < 30 && at <= a->high + (a->high - a->low) * 1e-6; i++) {
		if (fabs(at) < step * 1e-6 && a->kind == ESPL__HTML_EVEN)
			at = 0;
		y = espl__html_at(a, at);
		if (strcmp(unit, "$") == 0 && step < 1)
			(void)espl__html_money(at, text);
		else
			(void)snprintf(text, sizeof text, fabs(at) < 1e6 ? "%s%.5g" : "%s%.3g",
			    strcmp(unit, "$") == 0 ? "$" : "", at);
		if (at >= a->low) {
			espl__html_line(b, "gd", ESPL__HTML_LEFT, y, ESPL__HTML_RIGHT, y);
			espl__html_label(b, "vl", ESPL__HTML_LEFT - 7, y + 3.5, text);
		}
		at = next_value(a, step, at);
	}
}

/* Is there room for a label between those of the rungs? */
static int
room_at(const struct espl__html_axis *a, double x, const int64_t *rungs, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (fabs(espl__html_at(a, (double)rungs[i]) - x) < TICK_ROOM)
			return 0;
	return 1;
}

static void
iteration_tick(struct espl__buf *b, double value, double x, double top, double bottom)
{
	char text[32];

	espl__html_line(b, "gd", x, top, x, bottom);
	(void)snprintf(text, sizeof text, value < 1e6 ? "%.0f" : "%.3g", value);
	espl__html_label(b, "tm", x, bottom + 13, text);
}

void
espl__html_iteration_grid(struct espl__buf *b, const struct espl__html_axis *a, double top,
    double bottom, const int64_t *rungs, uint32_t rung_count)
{
	int log_scale = a->kind == ESPL__HTML_LOG;
	double step = log_scale ? 0 : ceil(espl__html_round_up(a->high / 11)), at = log_scale, x,
	       last = a->to + TICK_ROOM;

	/* The last rungs first: on an even axis the first ones crowd. */
	for (uint32_t i = rung_count; i > 0; i--) {
		x = espl__html_at(a, (double)rungs[i - 1]);
		if (last - x < TICK_ROOM)
			continue;
		iteration_tick(b, (double)rungs[i - 1], x, top, bottom);
		last = x;
	}
	for (int i = 0; i < 40 && at <= a->high * 1.000001; i++) {
		x = espl__html_at(a, at);
		if (at >= a->low && room_at(a, x, rungs, rung_count))
			iteration_tick(b, at, x, top, bottom);
		/* 1, 2, 5, 10, 20, 50 ... */
		at = log_scale ? espl__html_round_up(at * 1.5) : at + step;
	}
}
