/* layout.c - what is known of how a program prints, and the words from the driver to
 * espalier-listen: see listen.h.
 */
#include "listen/listen.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"

char *
espl__listen_spec_text(const struct espl__listen_spec *spec)
{
	struct espl__buf to = { NULL, 0, 0 };
	char *text;

	espl__json_open(&to, NULL, '{');
	espl__json_text(&to, "from", spec->from);
	if (spec->file[0] != '\0')
		espl__json_text(&to, "file", spec->file);
	espl__json_text(&to, "pattern", spec->pattern);
	espl__json_text(&to, "iteration", spec->iteration);
	espl__json_text(&to, "metric", spec->metric);
	espl__json_int(&to, "first", spec->first);
	espl__json_real(&to, "per", spec->per);
	espl__print(&to, "}");
	text = espl__strdup(espl__buf_text(&to));
	espl__buf_free(&to);
	return text;
}

char *
espl__listen_spec_known(const char *spec, const struct espl__listen_layout *layout)
{
	size_t size = strlen(spec);
	struct espl__buf known = { NULL, 0, 0 };
	char *text;

	ESPL__ASSERT(size > 0 && spec[size - 1] == '}');
	espl__listen_layout_put(layout, &known);
	text = espl__format("%.*s, \"layout\": %s}", (int)(size - 1), spec, espl__buf_text(&known));
	espl__buf_free(&known);
	return text;
}

void
espl__listen_layout_put(const struct espl__listen_layout *l, struct espl__buf *to)
{
	espl__print(to, "[%d, %u, %u, %u, %d, %d]", l->first, l->begins, l->each, l->after,
	    l->amounts, l->trailing);
}

int
espl__listen_layout_read(const int64_t values[ESPL__LISTEN_LAYOUT_SIZE],
    struct espl__listen_layout *to)
{
	if (values[0] < -1 || values[0] > 1 || values[4] < 0 || values[4] > 1 || values[5] < 0 ||
	    values[5] > 1)
		return -1;
	for (int i = 1; i < 4; i++)
		if (values[i] < 0 || values[i] > UINT32_MAX)
			return -1;
	*to = (struct espl__listen_layout){ (int)values[0], (uint32_t)values[1],
		(uint32_t)values[2], (uint32_t)values[3], (int)values[4], (int)values[5] };
	return 0;
}

int
espl__listen_layout_learn(struct espl__listen_layout *to, const struct espl__listen_layout *from)
{
	struct espl__listen_layout before = *to;

	if (to->first < 0)
		to->first = from->first;
	if (to->begins == 0)
		to->begins = from->begins;
	if (to->each == 0) {
		to->each = from->each;
		to->after = from->after;
	}
	to->amounts |= from->amounts;
	to->trailing |= from->trailing;
	return to->first != before.first || to->begins != before.begins ||
	    to->each != before.each || to->after != before.after || to->amounts != before.amounts ||
	    to->trailing != before.trailing;
}

void
espl__listen_layout_say(const struct espl__listen_layout *l, struct espl__buf *to)
{
	uint32_t lines = l->each > 0 ? l->each : l->begins;

	if (l->amounts) {
		espl__print(to,
		    "numbers of iterations are amounts of training: iteration n is complete at n");
		return;
	}
	if (l->trailing) {
		espl__print(to, "an iteration is named after its values");
		return;
	}
	if (l->first == 0)
		espl__print(to, "iterations are counted from 0; ");
	else if (l->first == 1)
		espl__print(to, "iterations are numbered as printed; ");
	if (l->begins > lines)
		espl__print(to, "the first iteration has %u lines with the metric; ", l->begins);
	if (lines == 1)
		espl__print(to, "each iteration has one line with the metric");
	else
		espl__print(to,
		    "each iteration has %u lines with the metric, and its value is the last",
		    lines);
}
