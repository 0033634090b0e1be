/* espalier kit: roster.h - the items of an allocator's view, kept up to date.
 *
 * The roster holds an entry for each item, at the item's index in the view, and the sums that a
 * decision needs, so that a call costs O(changes) with 100,000 items queued.  Departures are found
 * by comparing the two lists, in O(log items) each.  It also knows which grants are legal for an
 * item.
 *
 * Use: call espl_roster_sync first in allocate; then entry i of the roster is view->items[i];
 * espl_roster_grant to change a grant; espl_roster_free in destroy.
 */
#ifndef ESPALIER_KIT_ROSTER_H
#define ESPALIER_KIT_ROSTER_H
#include <espalier/allocator.h>
#ifdef __cplusplus
extern "C" {
#endif

#define ESPL_ROSTER_PACKING \
	64u /* highest packing that is counted separately; higher ones count as this one */

/* one item, as of its last change */
struct espl_entry {
	uint64_t id;
	espl_time arrived;
	uint32_t gpus, packing; /* its grant in force: gpus 0 waits */
	uint32_t least;         /* smallest legal grant; 0: no grant is legal */
	uint32_t most;          /* largest useful grant; ESPL_ANY: no limit */
	uint32_t fixed;         /* 1: a resize would lose its work (ITEM_NO_SAVE) */
	uint32_t want;          /* for the plugin's own use; 0 at arrival */
};
struct espl_touch {
	uint64_t id;
	espl_time arrived;
};
/* all zero to begin with; fields may be read */
struct espl_roster {
	struct espl_entry *room;
	uint32_t head, count, size; /* entries are room[head .. head + count) */
	uint32_t fresh;             /* entries from this index on arrived in this call */
	uint32_t gone;              /* items that left since the last call */
	uint32_t cursor;            /* no item before this index waits */
	uint32_t granted;           /* items with a grant */
	uint32_t wholes;            /* of these, with exactly one whole GPU */
	uint32_t packed;            /* of these, with a share of one */
	uint32_t per_node;          /* GPUs a node */
	uint64_t whole;             /* whole GPUs granted */
	uint64_t excess;            /* of these, beyond `least` of items not fixed */
	uint64_t least, most;       /* sums over all items; an unlimited most counts 2^32 */
	uint32_t sharers[ESPL_ROSTER_PACKING + 1]; /* items granted 1/c, [c] */
	struct espl_touch *touched;                /* grants changed in the last call */
	uint32_t touched_count, touched_size;
	uint32_t broken; /* 1: the last sync ran out of memory */
	uint32_t zero;
	/* An item's `most`, where not every legal grant is considered; NULL: espl_useful. */
	uint32_t (*widest)(const struct espl_item *, uint32_t per_node);
};

/* ---- which grants are legal -------------------------------------------------------------- */

/* The largest grant of whole GPUs of at most `most` that the item can take on nodes of per_node
 * GPUs: a multiple of its unit, within its limits, on one node or on whole nodes if it is to be
 * colocated.  0: none. */
uint32_t espl_fit(const struct espl_item *item, uint32_t per_node, uint32_t most);
/* The smallest legal grant; 0: none. */
uint32_t espl_least(const struct espl_item *item, uint32_t per_node);
/* How many gangs of `gpus` GPUs fit on this many nodes, each on one node or on whole ones. */
uint64_t espl_side_by_side(uint32_t gpus, uint32_t nodes, uint32_t per_node);
/* GPUs of the whole nodes that `count` such gangs need if the rest of a node is too small for
 * another one; `gpus` if they leave no rest. */
uint64_t espl_room_for(uint32_t count, uint32_t each, uint64_t gpus, uint32_t per_node);
/* Nodes of an offer to hold so that *gpus GPUs can be used. If some are set aside, additional nodes
 * compensate for them, as far as `limit` GPUs (UINT64_MAX: none) and the cloud's quota allow; *gpus
 * becomes the number that can then be used. */
uint32_t espl_nodes_for(const struct espl_alloc_view *view, uint32_t number, uint64_t limit,
    uint64_t *gpus);
/* Number of the offer with this name, or of the first one that is not withdrawn (name NULL or "").
 * ESPL_ANY: there is none. */
uint32_t espl_find_offer(const struct espl_offer *const *offers, uint32_t count, const char *name);
/* The same, into *number; ESPL_E_CONFIG with the known names, at `option`, if the cloud has no such
 * offer.  An offer that was withdrawn is not an error: *number is then ESPL_ANY.  The offers are
 * known from an allocator's first call on. */
espl_status espl_choose_offer(const struct espl_offer *const *offers, uint32_t count,
    const char *name, uint32_t option, uint32_t *number, struct espl_error *error);
/* The cloud does not sell it any more, and no node of it is left: another may be chosen. */
int espl_offer_is_lost(const struct espl_alloc_view *view, uint32_t number);
/* Throughput on that many whole GPUs, `unit` GPUs being 1: linear between measured points, constant
 * beyond the last (RubberBand 4.1); proportional if nothing was measured. */
double espl_throughput(const struct espl_item *item, uint32_t gpus);
/* The fastest grant of whole GPUs of at most `most`, by the item's measured speeds; of equally fast
 * ones the smallest, so that every smaller grant is slower.  0: none is legal. */
uint32_t espl_useful(const struct espl_item *item, uint32_t per_node, uint32_t most);

/* ---- the list ---------------------------------------------------------------------------- */

static inline struct espl_entry *
espl_roster_at(const struct espl_roster *roster, uint32_t index)
{
	return roster->room + roster->head + index;
}

void espl_roster_free(struct espl_roster *roster);
/* Index of the entry, or ESPL_ANY. */
uint32_t espl_roster_find(const struct espl_roster *roster, uint64_t id, espl_time arrived);
/* Updates the roster from the view.  per_node: GPUs of the nodes that the items will run on.
 * ESPL_E_NOMEM. */
espl_status espl_roster_sync(struct espl_roster *roster, const struct espl_alloc_view *view,
    uint32_t per_node);
/* ESPL_E_CONFIG at this option of the plugin if every item needs more than `most` GPUs (0: no
 * limit), the option's value. */
espl_status espl_roster_within(const struct espl_roster *roster, uint32_t most, uint32_t option,
    struct espl_error *error);
/* Number of whole GPUs that all grants take, if items that share GPUs are packed as closely as
 * possible. */
uint64_t espl_roster_used(const struct espl_roster *roster);
/* What espl_roster_used would return if entry `index` had this grant. */
uint64_t espl_roster_used_with(struct espl_roster *roster, uint32_t index, uint32_t gpus,
    uint32_t packing);
/* Index of the first item from `from` on that waits; the roster's count if none does. */
uint32_t espl_roster_waiting(struct espl_roster *roster, uint32_t from);
/* As espl_roster_grant, with ESPL_GRANT_* flags. */
espl_status espl_roster_grant_as(struct espl_roster *roster, struct espl_alloc_sink *sink,
    uint32_t index, uint32_t gpus, uint32_t packing, uint32_t flags);
/* Grants through the sink and updates the roster.  gpus 0 preempts.  ESPL_E_REJECTED: the host
 * refused and nothing changed. */
espl_status espl_roster_grant(struct espl_roster *roster, struct espl_alloc_sink *sink,
    uint32_t index, uint32_t gpus, uint32_t packing);

#ifdef __cplusplus
}
#endif
#endif
