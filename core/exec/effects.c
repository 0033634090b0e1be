/* effects.c - what every part of the executor may do: effects for the world, notes for observers,
 * and the end of the run. */
#include <string.h>

#include "base/assert.h"
#include "base/log.h"
#include "base/text.h"
#include "exec/effects.h"
#include "exec/questions.h"

void
espl__exec_interrupt(struct espl__exec *x, const char *format, ...)
{
	char text[400];

	ESPL__CHECK(x, EXEC);
	ESPL__FORMAT(text, format);
	if (x->round.ending == 0)
		x->round.user_stops = 0;
	espl__exec_wind_up(x, ESPL__RUN_INTERRUPTED, "%s", text);
}

void
espl__exec_spread(const struct espl__exec *x, const char *who, espl_subject about, uint64_t id,
    const char *text)
{
	ESPL__CHECK(x, EXEC);
	ESPL__OBSERVE(x, note, who, about, id, text);
}

void
espl__exec_note(struct espl__exec *x, espl_subject about, uint64_t id, const char *format, ...)
{
	char text[400];

	if (!x->setup.verbose)
		return;
	ESPL__FORMAT(text, format);
	espl__exec_spread(x, "executor", about, id, text);
}

void
espl__exec_warn(struct espl__exec *x, espl_subject about, uint64_t id, const char *format, ...)
{
	char text[500];

	ESPL__FORMAT(text, format);
	if (x->setup.verbose)
		espl__exec_spread(x, "executor", about, id, text);
	if (!x->round.replaying)
		espl__log(ESPL_WARN, "%s", text);
}

const char *
espl__exec_unit(const struct espl__exec *x, uint64_t count)
{
	return espl__slots_word(espl__exec_on_cpu(x), count == 1 ? 1 : 2);
}

void
espl__exec_fails(struct espl__exec *x, const char *what)
{
	ESPL__CHECK(x, EXEC);
	espl__exec_wind_up(x, ESPL__RUN_FAILED, "%s%s%s", what,
	    x->searches.last_failure != NULL ? "; the last failure: " : "",
	    x->searches.last_failure != NULL ? x->searches.last_failure : "");
}

struct espl__effect *
espl__exec_effect(struct espl__exec *x, enum espl__effect_type type)
{
	struct espl__effect *e;

	ESPL__CHECK(x, EXEC);
	ESPL__GROW(x->round.effects, x->round.effect_cap, x->round.effect_count + 1);
	e = &x->round.effects[x->round.effect_count++];
	memset(e, 0, sizeof *e);
	e->type = type;
	return e;
}

void
espl__exec_wind_up(struct espl__exec *x, enum espl__run_end how, const char *format, ...)
{
	char text[512];

	ESPL__CHECK(x, EXEC);
	if (x->round.ending != 0)
		return;
	ESPL__FORMAT(text, format);
	x->round.ending = how;
	free(x->round.end_text);
	x->round.end_text = espl__strdup(text);
	espl__exec_note(x, ESPL_ABOUT_RUN, 0, "the run ends: %s", text);
}

int
espl__exec_on_cpu(const struct espl__exec *x)
{
	uint32_t cpu = 0;

	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->fleet.offer_count; i++)
		cpu += x->fleet.offers[i]->gpu_type != NULL &&
		    strcmp(x->fleet.offers[i]->gpu_type, "cpu") == 0;
	return cpu > 0 && cpu == x->fleet.offer_count;
}
