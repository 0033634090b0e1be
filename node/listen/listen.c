/* listen.c - see listen.h. */
#include "listen/listen.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/text.h"
#include "listen/line.h"

/* Lines with the metric in an iteration that are counted to know the last; where there are more
 * their number is likely to vary, as that of the batches does. */
#define COUNTED_LINES 3u
/* Values without a number that wait for the first one, where the pattern has a place for it: so
 * many may come from before the training, for example from a sanity check.  If there are more, the
 * output names no iterations, and each value is one. */
#define HELD_MOST 8u

/* What has been read of one iteration. */
struct collected {
	uint64_t iteration; /* 0: the output has not named it */
	struct espl__names names;
	char *texts[ESPL__METRICS_IN_REPORT];
	int metric; /* the metric is among the names */
	int sent;   /* it was reported */
	uint32_t lines, after;
};

struct espl__listen {
	struct espl__line *line;
	char *metric;
	double per;
	struct espl__listen_layout layout;
	struct espl__listen_counts counts;
	int may_name;           /* lines can name an iteration */
	int counting;           /* no line does: each with the metric is one iteration */
	int from_zero;          /* the first label was 0, and nothing is known against it */
	double at;              /* amount named last */
	uint64_t named;         /* iteration that a line with the metric named last */
	int apart;              /* the other lines count something else, such as batches */
	uint32_t begun;         /* iterations that lines have named */
	int nameless;           /* a value came before the first name of an iteration */
	struct collected now;   /* what is printed now */
	struct collected back;  /* the values before it, if `nameless` */
	struct collected rival; /* the last one wanted, while another one is printed after it */
	struct collected held[HELD_MOST + 1]; /* those that wait, and how many were reported */
	uint32_t held_count, held_done;
	uint64_t before;  /* iteration of the last line with the metric */
	uint64_t fallen;  /* lines in a row, each of an earlier iteration than the one before */
	uint64_t restart; /* iteration up to which it has counted from 1 again */
	int ended;
	uint64_t last, budget, most;
};

/* ---- making one -------------------------------------------------------------------------- */

espl_status
espl__listen_new(const struct espl__listen_spec *spec, struct espl__listen **to,
    struct espl__diag *diag)
{
	struct espl__listen *l = espl__alloc(sizeof *l);
	espl_status status;

	*to = NULL;
	l->metric = espl__strdup(spec->metric);
	l->per = spec->per > 0 ? spec->per : 1;
	l->layout = (struct espl__listen_layout)ESPL__LISTEN_LAYOUT_INIT;
	l->layout.first = spec->first;
	l->layout.amounts = l->per != 1;
	l->budget = UINT64_MAX;
	status = espl__line_new(spec->pattern, spec->iteration, spec->metric, &l->line, diag);
	if (status == ESPL_OK) {
		/* JSON whose member was named is expected to have it. */
		l->may_name = spec->pattern[0] != '\0' ? espl__line_may_name(l->line)
						       : strcmp(spec->iteration, "iteration") != 0;
		*to = l;
	} else {
		espl__listen_free(l);
	}
	return status;
}

static int
layout_of(const json_t *array, struct espl__listen_layout *to)
{
	int64_t values[ESPL__LISTEN_LAYOUT_SIZE];

	if (!json_is_array(array) || json_array_size(array) != ESPL__LISTEN_LAYOUT_SIZE)
		return -1;
	for (size_t i = 0; i < ESPL__LISTEN_LAYOUT_SIZE; i++)
		values[i] = json_integer_value(json_array_get(array, i));
	return espl__listen_layout_read(values, to);
}

espl_status
espl__listen_new_json(const char *text, struct espl__listen **to, int *from, char **file,
    struct espl__diag *diag)
{
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL),
	       *first = json_object_get(root, "first"), *per = json_object_get(root, "per"),
	       *known = json_object_get(root, "layout");
	const char *name = json_string_value(json_object_get(root, "file"));
	struct espl__listen_spec spec = { json_string_value(json_object_get(root, "from")),
		name != NULL ? name : "", json_string_value(json_object_get(root, "pattern")),
		json_string_value(json_object_get(root, "iteration")),
		json_string_value(json_object_get(root, "metric")),
		first != NULL ? (int)json_integer_value(first) : -1,
		per != NULL ? json_number_value(per) : 1 };
	struct espl__listen_layout layout = ESPL__LISTEN_LAYOUT_INIT;
	espl_status status;

	*to = NULL;
	if (spec.from == NULL || spec.pattern == NULL || spec.iteration == NULL ||
	    spec.metric == NULL || (known != NULL && layout_of(known, &layout) != 0)) {
		json_decref(root);
		return espl__fail(diag, ESPL_E_CONFIG, "not a valid SPEC: %s", text);
	}
	*from = strcmp(spec.from, "stderr") == 0 ? 2 : 1;
	status = espl__listen_new(&spec, to, diag);
	if (file != NULL)
		*file = status == ESPL_OK && name != NULL ? espl__strdup(name) : NULL;
	if (status == ESPL_OK)
		(void)espl__listen_layout_learn(&(*to)->layout, &layout);
	json_decref(root);
	return status;
}

static void
drop_values(struct collected *c)
{
	for (uint32_t i = 0; i < c->names.count; i++) {
		free(c->texts[i]);
		c->texts[i] = NULL;
	}
	espl__names_free(&c->names);
	c->metric = 0;
}

static void
drop_held(struct espl__listen *l)
{
	while (l->held_count > 0)
		drop_values(&l->held[--l->held_count]);
	l->held_done = 0;
}

void
espl__listen_free(struct espl__listen *l)
{
	if (l == NULL)
		return;
	drop_values(&l->now);
	drop_values(&l->rival);
	drop_values(&l->back);
	drop_held(l);
	espl__line_free(l->line);
	free(l->metric);
	free(l);
}

void
espl__listen_begin(struct espl__listen *l, uint64_t done, uint64_t budget, uint64_t most)
{
	l->last = done;
	l->budget = budget;
	l->most = most;
}

void
espl__listen_budget(struct espl__listen *l, uint64_t budget)
{
	l->budget = budget;
}

uint64_t
espl__listen_last(const struct espl__listen *l)
{
	return l->last;
}

const struct espl__listen_layout *
espl__listen_found(const struct espl__listen *l)
{
	return &l->layout;
}

uint64_t
espl__listen_unused(const struct espl__listen *l)
{
	return l->counts.hard + l->counts.grouped_lines + l->counts.again + l->counts.falling;
}

const struct espl__listen_counts *
espl__listen_counts(const struct espl__listen *l)
{
	return &l->counts;
}

/* ---- reports ----------------------------------------------------------------------------- */

static void
put_value(const char *name, const char *printed, struct espl__buf *to)
{
	const char *special = espl__line_special(printed);
	double number;

	if (special == NULL && espl__parse_real(printed, &number) == 0) {
		char text[32];

		espl__json_raw(to, name, espl__format_real(number, text));
	} else {
		char *text = espl__format("%.100s", special != NULL ? special : printed);

		espl__json_text(to, name, text);
		free(text);
	}
}

/* 1: reported; 0: it was before, or the search wants no more for now. */
static int
put_report(struct espl__listen *l, struct collected *c, uint64_t iteration, struct espl__buf *to)
{
	/* a step over the budget has reached it */
	uint64_t n = iteration < l->budget ? iteration : l->budget;

	if (!c->metric || n <= l->last)
		return 0;
	l->last = n;
	espl__json_open(to, NULL, '{');
	espl__json_int(to, "iteration", (int64_t)n);
	espl__json_open(to, "metrics", '{');
	for (uint32_t i = 0; i < c->names.count; i++)
		put_value(c->names.names[i], c->texts[i], to);
	espl__print(to, "}}\n");
	if (!l->nameless)
		drop_values(c);
	c->sent = 1;
	return 1;
}

/* Later values replace earlier ones. */
static void
add_values(struct espl__listen *l, struct collected *c, const struct espl__said *said)
{
	for (uint32_t i = 0; i < said->names.count; i++) {
		const char *name = said->names.names[i];
		int metric = strcmp(name, l->metric) == 0;
		uint32_t k = espl__names_find(&c->names, name);

		/* A place is reserved for the metric of the experiment. */
		if (k == ESPL_ANY && !metric &&
		    c->names.count + !c->metric >= ESPL__METRICS_IN_REPORT) {
			l->counts.dropped++;
			continue;
		}
		if (k == ESPL_ANY)
			k = espl__names_add(&c->names, name);
		free(c->texts[k]);
		c->texts[k] = espl__strdup(said->texts[i]);
		c->metric |= metric;
	}
}

/* ---- no line names its iteration ------------------------------------------------------------ */

/* The next of those that have waited. */
static int
put_held(struct espl__listen *l, struct espl__buf *to)
{
	int reported = 0;

	while (!reported && l->held_done < l->held_count && l->last < l->budget) {
		l->counts.unnamed++;
		reported = put_report(l, &l->held[l->held_done++], l->last + 1, to);
	}
	if (l->held_done == l->held_count)
		drop_held(l);
	return reported;
}

static int
count_line(struct espl__listen *l, const struct espl__said *said, struct espl__buf *to)
{
	int may_come = l->may_name && !l->counting, reported = 0;

	if (l->last >= l->budget) /* nothing is wanted */
		return 0;
	if (said->metric && may_come && l->now.metric) {
		l->held[l->held_count++] = l->now; /* takes over what is in it */
		memset(&l->now, 0, sizeof l->now);
		l->counting = l->held_count > HELD_MOST;
		if (l->counting)
			reported = put_held(l, to);
	}
	add_values(l, &l->now, said);
	if (reported || (may_come && !l->counting) || !said->metric)
		return reported;
	l->counts.unnamed++;
	return put_report(l, &l->now, l->last + 1, to);
}

/* ---- labels -------------------------------------------------------------------------------- */

/* Were all lines of the iteration read that others have? */
static int
is_complete(const struct espl__listen *l)
{
	const struct espl__listen_layout *is = &l->layout;
	uint32_t lines = l->begun == 1 || is->each == 0 ? is->begins : is->each;

	if (l->begun > 1 && is->each == 0 && lines != 1)
		return 0; /* the first one may have had a value from before the training */
	return lines > 0 && lines <= COUNTED_LINES && l->now.lines >= lines &&
	    l->now.after >= is->after;
}

/* Labels from 0 up to the number of iterations: is the first one from before the training, or does
 * the program train longer than is wanted?  What comes after the last one tells. */
static int
is_unclear(const struct espl__listen *l)
{
	return l->from_zero && l->layout.first < 0 && l->most > 0 && l->now.iteration >= l->most;
}

static int
report_if_complete(struct espl__listen *l, struct espl__buf *to)
{
	if (l->now.sent || !l->now.metric || !is_complete(l) || is_unclear(l))
		return 0;
	return put_report(l, &l->now, l->now.iteration, to);
}

/* How many lines it had. Where every second one has a line more, that of the longer holds: a
 * shorter one is known to be complete when the next begins. */
static void
learn_lines(struct espl__listen *l)
{
	if (l->now.lines == 0)
		return;
	if (l->begun == 1)
		l->layout.begins = l->now.lines;
	else if (l->now.lines >= l->layout.each)
		l->layout.each = l->now.lines;
	else
		return;
	l->layout.after = l->now.after;
}

/* Values that came before the first number are from before the training, unless each iteration is
 * named after its values: only the end tells. */
static void
begin_iteration(struct espl__listen *l, uint64_t n)
{
	if (l->now.iteration == 0 && l->now.metric) {
		l->nameless = 1;
		l->counts.before++;
	}
	if (l->nameless && l->now.metric) {
		drop_values(&l->back);
		l->back = l->now; /* takes over what is in it */
		memset(&l->now, 0, sizeof l->now);
	} else if (l->now.iteration > 0) {
		drop_values(&l->now);
	}
	l->now.iteration = n;
	l->now.lines = l->now.after = 0;
	l->now.sent = 0;
	l->begun++;
	l->counts.beyond += l->most > 0 && n > l->most;
}

/* The label after that of the current iteration: 1: `to` is the report. */
static int
end_iteration(struct espl__listen *l, uint64_t n, struct espl__buf *to)
{
	int reported;

	learn_lines(l);
	if (is_unclear(l) && l->rival.iteration == 0 && n == l->most + 1 && l->now.metric) {
		l->rival = l->now; /* takes over what is in it */
		memset(&l->now, 0, sizeof l->now);
		begin_iteration(l, n);
		return 0;
	}
	if (l->rival.iteration > 0) { /* it goes on and on, so its first was trained */
		l->layout.first = 0;
		reported = put_report(l, &l->rival, l->rival.iteration, to);
		l->rival.iteration = 0;
	} else {
		reported = !l->now.sent && put_report(l, &l->now, l->now.iteration, to);
	}
	begin_iteration(l, n);
	return reported;
}

/* Values, and then the number of their iteration. */
static int
trailing_line(struct espl__listen *l, const struct espl__said *said, double label,
    struct espl__buf *to)
{
	int reported = 0;

	add_values(l, &l->now, said);
	if (label < 0)
		return 0;
	if (l->begun++ == 0)
		l->from_zero = l->layout.first == 0 || (l->layout.first < 0 && label == 0);
	reported = put_report(l, &l->now, (uint64_t)label + (l->from_zero ? 1 : 0), to);
	drop_values(&l->now);
	return reported;
}

/* Lines without the metric have counted on, in steps, and one with it names an epoch: from now on
 * only those with it say which iteration it is. */
static void
count_apart(struct espl__listen *l, double label)
{
	l->apart = 1;
	if (l->named == 0) { /* all that is known of the numbers is from the other lines */
		if (l->from_zero != (label == 0) && l->layout.first != 0)
			l->from_zero = label == 0;
		l->begun = 0;
		l->counts.beyond = 0;
	}
	drop_values(&l->now);
	memset(&l->now, 0, sizeof l->now);
}

static int
is_apart(const struct espl__listen *l, const struct espl__said *said, double label)
{
	uint64_t n = (uint64_t)label + (l->from_zero ? 1 : 0);

	return said->metric && !l->now.metric && !l->now.sent && n < l->now.iteration &&
	    n > l->named;
}

/* Is it the iteration at hand, but in a second training that began before it? */
static int
is_again(const struct espl__listen *l, uint64_t n)
{
	return l->counts.restarts > 0 && n == l->now.iteration && n <= l->restart + 1;
}

/* Lines of iterations 1, 2, ... after later ones: the program trains a second time. */
static void
note_restart(struct espl__listen *l, uint64_t n)
{
	if (n == l->restart + 1)
		l->restart = n;
	if (l->counts.restarts > 0)
		l->counts.again++;
	if (l->restart == 2 && l->counts.restarts == 0) {
		l->counts.restarts = l->now.iteration;
		l->counts.again = 2;
	}
}

#define FALLING 3u /* as many lines in a row: an evaluation of one of them again is none */

/* Iterations that count down, as what remains: 9, 8, 7. */
static void
note_falling(struct espl__listen *l, uint64_t n)
{
	l->fallen = n < l->before ? l->fallen + 1 : 0;
	l->before = n;
	if (l->fallen >= FALLING)
		l->counts.falling += l->fallen == FALLING ? FALLING : 1;
}

static int
label_line(struct espl__listen *l, const struct espl__said *said, double label,
    struct espl__buf *to)
{
	int reported = 0, was_complete;
	uint64_t n;

	if (label >= 0) {
		if (l->begun > 0 && is_apart(l, said, label))
			count_apart(l, label);
		if (l->begun == 0 && !l->apart)
			l->from_zero = l->layout.first == 0 || (l->layout.first < 0 && label == 0);
		if (l->begun == 0 && !l->from_zero)
			l->layout.first = 1;
		n = (uint64_t)label + (l->from_zero ? 1 : 0);
		if (said->metric)
			note_falling(l, n);
		if (l->apart && !said->metric && n != l->now.iteration)
			return 0;
		if (n < l->now.iteration || n == 0 || is_again(l, n)) {
			l->counts.before += said->metric && n == 0;
			l->counts.late += said->metric && n > 0;
			if (said->metric && n > 0)
				note_restart(l, n);
			return 0;
		}
		if (l->now.iteration == 0)
			begin_iteration(l, n);
		else if (n > l->now.iteration)
			reported = end_iteration(l, n, to);
		if (said->metric)
			l->named = n;
	}
	was_complete = l->now.sent || (l->now.metric && is_complete(l));
	l->now.lines += said->metric != 0;
	l->now.after = said->metric ? 0 : l->now.after + (said->names.count > 0);
	if (was_complete) { /* an evaluation once more after the end, for example */
		l->counts.late += said->metric != 0;
		return reported;
	}
	add_values(l, &l->now, said);
	return reported || report_if_complete(l, to);
}

/* ---- amounts ------------------------------------------------------------------------------- */

static int
amount_line(struct espl__listen *l, const struct espl__said *said, double number,
    struct espl__buf *to)
{
	double q = number / l->per, whole = floor(q + 0.5);
	int reported = 0;

	if (l->at == 0 && number >= 0 && l->now.metric) { /* it had no number */
		l->counts.before++;
		drop_values(&l->now);
	}
	if (number < 0) { /* it belongs to what was named last */
		add_values(l, &l->now, said);
		return 0;
	}
	if (number == 0) {
		l->counts.before += said->metric != 0;
		return 0;
	}
	l->at = q;
	if (whole >= 1 && fabs(q - whole) <= 1e-6 * whole) {
		add_values(l, &l->now, said);
		l->counts.late += said->metric && (uint64_t)whole <= l->last;
		reported = said->metric && put_report(l, &l->now, (uint64_t)whole, to);
		if (said->metric)
			drop_values(&l->now);
		return reported;
	}
	if (floor(q) > (double)l->last)
		reported = put_report(l, &l->now, (uint64_t)q, to);
	add_values(l, &l->now, said);
	return reported;
}

/* Labels turn out to be amounts: 0, 0.5, 1. */
static int
change_to_amounts(struct espl__listen *l, struct espl__buf *to)
{
	uint64_t n = l->now.iteration;
	int reported = 0;

	l->layout.amounts = 1;
	if (l->from_zero && n == 1) {
		l->counts.before += l->now.lines;
		drop_values(&l->now);
	} else if (n > 0) {
		reported = !l->now.sent && put_report(l, &l->now, n - (l->from_zero ? 1 : 0), to);
	}
	drop_values(&l->now);
	l->now.iteration = 0;
	return reported;
}

/* ---- lines --------------------------------------------------------------------------------- */

/* -1: none is named; -2: it is none that can be counted, such as -1 before the first, or nan. */
static double
number_of(const struct espl__said *said, int *amount)
{
	double number;
	const char *text = said->iteration, *point;

	*amount = 0;
	if (text == NULL)
		return -1;
	if (espl__line_special(text) != NULL)
		return -2;
	if (espl__parse_real(text, &number) != 0)
		return -1;
	if (number < 0 || number > (double)ESPL__ITERATION_MOST)
		return -2;
	point = strchr(text, '.'); /* "Epoch 3." ends a sentence */
	*amount = floor(number) != number || (point != NULL && point[1] >= '0' && point[1] <= '9');
	return number;
}

int
espl__listen_line(struct espl__listen *l, const char *line, size_t size, struct espl__buf *to)
{
	const struct espl__said *said;
	double number;
	int amount;

	espl__buf_clear(to);
	if (size > ESPL__LISTEN_LINE)
		size = ESPL__LISTEN_LINE;
	said = espl__line_read(l->line, line, size);
	l->counts.hard = espl__line_hard(l->line);
	l->counts.grouped = espl__line_grouped(l->line, &l->counts.grouped_lines);
	l->counts.dropped += said->dropped;
	if (said->names.count == 0 && said->iteration == NULL)
		return 0;
	number = number_of(said, &amount);
	if (number == -2) {
		l->counts.before += said->metric != 0;
		return 0;
	}
	if (number >= 0 && !l->counting && l->held_count > 0) { /* so they were untrained */
		l->counts.before += l->held_count;
		drop_held(l);
	}
	if (amount && !l->layout.amounts && change_to_amounts(l, to)) {
		(void)amount_line(l, said, number, to);
		return 1;
	}
	if (l->layout.amounts && (number >= 0 || l->at > 0))
		return amount_line(l, said, number, to);
	if (l->layout.trailing)
		return trailing_line(l, said, number, to);
	if (number < 0 && l->now.iteration == 0)
		return count_line(l, said, to);
	return label_line(l, said, number, to);
}

int
espl__listen_more(struct espl__listen *l, struct espl__buf *to)
{
	espl__buf_clear(to);
	if (l->layout.amounts || l->layout.trailing)
		return 0;
	if (l->now.iteration > 0)
		return report_if_complete(l, to);
	if (l->counting && l->held_count > 0)
		return put_held(l, to);
	if (!l->counting || !l->now.metric || l->last >= l->budget)
		return 0;
	l->counts.unnamed++;
	return put_report(l, &l->now, l->last + 1, to);
}

int
espl__listen_end(struct espl__listen *l, struct espl__buf *to)
{
	struct collected *c = &l->now;
	uint64_t n = c->iteration;

	espl__buf_clear(to);
	if (l->ended)
		return 0;
	l->ended = 1;
	if (l->begun > 0)
		learn_lines(l);
	if (l->held_count > 0 && !l->counting) { /* no number has come */
		l->counting = 1;
		return put_held(l, to);
	}
	if (l->layout.amounts) {
		n = (uint64_t)(l->at + 0.5);
		c->sent = 0;
	} else if (l->layout.trailing) {
		return 0; /* values without a number */
	} else if (l->nameless && n > 0 && c->lines == 0 && l->back.metric) {
		l->layout.trailing = 1;
		l->counts.before--;
		c = &l->back;
		c->sent = 0;
	} else if (n == 0) {
		n = l->last + 1;
		l->counts.unnamed += c->metric != 0;
	} else if (l->rival.iteration > 0) { /* one more than was wanted: the first was too early */
		l->layout.first = 1;
		l->counts.before++;
		l->counts.beyond--;
		c = c->metric ? c : &l->rival;
		n = l->rival.iteration;
	} else if (is_unclear(l)) {
		l->layout.first = 0;
	}
	return !c->sent && put_report(l, c, n, to);
}
