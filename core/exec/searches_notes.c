/* searches_notes.c - notes of the executor and of plugins about their decisions, translated from
 * items to trials and experiments.
 *
 * Users know trials and experiments. Allocators and placers know the items that represent them, and
 * the algorithm of one of a pool's experiments has its own numbers for trials and groups. Here all
 * of them become the names in the run's records.
 */
#include "base/assert.h"
#include "exec/effects.h"
#include "exec/items_lists.h"
#include "exec/searches_plan.h"

/* Begins with what it is about: the run's list of reasons holds all sorts. */
static void
spread_of(const struct espl__exec *x, const char *who, espl_subject about, uint64_t id,
    const char *kind, const char *name, const char *text)
{
	struct espl__buf whole = { NULL, 0, 0 };

	espl__print(&whole, "%s '%s': %s", kind, name, text);
	espl__exec_spread(x, who, about, id, (const char *)whole.data);
	espl__buf_free(&whole);
}

/* The trial of an item that is listed as gone in the current view; NONE: it is not listed. */
static uint64_t
gone_trial(const struct espl__tier *tier, uint64_t id)
{
	for (uint32_t i = 0; i < tier->gone_count; i++)
		if (tier->gone[i] == id)
			return tier->gone_of[i];
	return ESPL_NONE;
}

static void
spread_item(const struct espl__exec *x, const char *who, const struct espl__tier *tier, uint64_t id,
    const char *text)
{
	const struct espl__item *item = espl__item_at(tier, id);
	uint64_t trial;

	if (item == NULL)
		/* the placer's may be of an experiment's own allocator */
		item = espl__item_granted(x, id);
	if (item == NULL) {
		trial = gone_trial(tier, id);
		espl__exec_spread(x, who, trial != ESPL_NONE ? ESPL_ABOUT_TRIAL : ESPL_ABOUT_ITEM,
		    trial != ESPL_NONE ? trial : id, text);
	} else if (item->trial != NULL) {
		espl__exec_spread(x, who, ESPL_ABOUT_TRIAL, espl__trial_uid(item->trial), text);
	} else {
		spread_of(x, who, ESPL_ABOUT_RUN, 0, "experiment",
		    item->whole->search->config->name, text);
	}
}

void
espl__searches_plugin_note(void *exec, struct espl__instance *i, espl_subject about, uint64_t id,
    const char *text)
{
	const struct espl__exec *x = exec;

	ESPL__CHECK(i, INSTANCE);
	if (about == ESPL_ABOUT_ITEM)
		spread_item(x, i->who, &x->items.top, id, text);
	else if (about == ESPL_ABOUT_OFFER && id < x->fleet.offer_count)
		spread_of(x, i->who, about, id, "offer", x->fleet.offers[id]->name, text);
	else
		espl__exec_spread(x, i->who, about, id, text);
}

void
espl__search_plugin_note(void *search, struct espl__instance *i, espl_subject about, uint64_t id,
    const char *text)
{
	const struct espl__search *s = search;

	ESPL__CHECK(i, INSTANCE);
	if (about == ESPL_ABOUT_ITEM) {
		spread_item(s->exec, i->who, s->tier, id, text);
		return;
	}
	if (about == ESPL_ABOUT_TRIAL || about == ESPL_ABOUT_GROUP)
		id |= (uint64_t)s->number << ESPL__TRIAL_BITS;
	espl__exec_spread(s->exec, i->who, about, id, text);
}
