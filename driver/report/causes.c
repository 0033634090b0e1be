/* causes.c - why trials failed, and which values of parameters those that failed share. */
#include "report/causes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/totals.h"

#define FAILED_LEAST 2u /* of fewer, and beside fewer others, what is shared may be chance */
#define OTHERS_LEAST 3u
#define SHOWN_MAX 2u /* parameters */

void
espl__causes_free(struct espl__causes *c)
{
	free(c->of_failed);
	free(c->of_others);
	memset(c, 0, sizeof *c);
}

void
espl__causes_gang(struct espl__causes *c, uint64_t trial, const char *text)
{
	c->ended = trial;
	(void)snprintf(c->text, sizeof c->text, "%s", text != NULL ? text : "");
}

/* Failures in the same way have the same words: the many ways to run out of memory have these. */
static void
name_cause(const char *text, char to[80])
{
	static const char *const memory[] = { "out of memory", "OutOfMemory", "Out of memory",
		"MemoryError", "Cannot allocate memory" };
	size_t length;

	for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
		if (strstr(text, memory[i]) != NULL) {
			(void)snprintf(to, 80, "out of memory");
			return;
		}
	length = strcspn(text, ";\n");
	(void)snprintf(to, 80, "%.*s", (int)(length < 79 ? length : 79), text);
}

static void
count_cause(struct espl__causes *c, uint64_t trial)
{
	char text[80] = "";
	uint32_t i = 0;

	if (c->ended == trial)
		name_cause(c->text, text);
	while (i < c->count && strcmp(c->list[i].text, text) != 0)
		i++;
	if (i == c->count && i < ESPL__CAUSES_MAX) {
		(void)snprintf(c->list[i].text, sizeof c->list[i].text, "%s", text);
		c->list[i].count = 0;
		c->count++;
	}
	if (i < c->count)
		c->list[i].count++;
}

void
espl__causes_trial(struct espl__causes *c, const struct espl_trial *t,
    const struct espl_space *space)
{
	int failed = t->state == ESPL_TRIAL_FAILED;
	struct espl__range *ranges;

	c->failed += failed != 0;
	c->others += !failed;
	if (failed)
		count_cause(c, t->id);
	if (space == NULL || t->values == NULL)
		return;
	if (c->of_failed == NULL && space->param_count > 0) {
		c->params = space->param_count;
		c->of_failed = espl__alloc(c->params * sizeof *c->of_failed);
		c->of_others = espl__alloc(c->params * sizeof *c->of_others);
	}
	ranges = failed ? c->of_failed : c->of_others;
	for (uint32_t i = 0; i < c->params && i < space->param_count; i++) {
		struct espl__range *r = &ranges[i];
		double v = t->values[i];

		if (isnan(v))
			continue;
		r->low = r->count == 0 || v < r->low ? v : r->low;
		r->high = r->count == 0 || v > r->high ? v : r->high;
		r->count++;
	}
}

/* " >= 10", " = sgd": what all that failed have, and none of the others; 0: nothing. */
static int
shared_value(const struct espl__causes *c, uint32_t i, const struct espl_param *p, char to[96])
{
	const struct espl__range *f = &c->of_failed[i], *o = &c->of_others[i];
	int named = p->type == ESPL_CHOICE || p->type == ESPL_ORDINAL, above, below;

	if (f->count < c->failed || o->count < OTHERS_LEAST)
		return 0;
	above = f->low > o->high;
	below = f->high < o->low;
	if (!above && !below)
		return 0;
	if (!named)
		(void)snprintf(to, 96, "%.48s %s %.4g", p->name,
		    above ? ">=" : "<=", above ? f->low : f->high);
	else if (f->low == f->high && f->low >= 0 && f->low < p->label_count)
		(void)snprintf(to, 96, "%.40s = %.40s", p->name, p->labels[(uint32_t)f->low]);
	else
		return 0;
	return 1;
}

void
espl__causes_text(const struct espl__causes *c, const struct espl_space *space, struct espl__buf *b)
{
	const struct espl__cause *most = NULL;
	uint32_t shown = 0;
	char text[96];

	for (uint32_t i = 0; i < c->count; i++)
		if (most == NULL || c->list[i].count > most->count)
			most = &c->list[i];
	if (most == NULL)
		return;
	if (most->text[0] != '\0') {
		if (most->count < c->failed)
			espl__print(b, ", %llu of them: ", (unsigned long long)most->count);
		else
			espl__print(b, ", %s", c->failed > 1 ? "all: " : "");
		espl__print_clean(b, most->text);
	}
	if (space == NULL || c->failed < FAILED_LEAST || c->others < OTHERS_LEAST)
		return;
	for (uint32_t i = 0; i < c->params && shown < SHOWN_MAX; i++)
		if (shared_value(c, i, space->params[i], text)) {
			espl__print(b, "%s", shown++ == 0 ? ", all with " : " and ");
			espl__print_clean(b, text);
		}
}
