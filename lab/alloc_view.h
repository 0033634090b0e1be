/* alloc_view.h - VIEW.json of `espalier allocate`: a cluster and the items on it, as an allocator
 * sees them. */
#ifndef ESPL__ALLOC_VIEW_H
#define ESPL__ALLOC_VIEW_H
#include <espalier/allocator.h>
#include "cli/inputs.h"
#include "model/fleet.h"

struct espl__alloc_view {
	struct espl_alloc_view view;
	struct espl__fleet fleet;
	struct espl_experiment experiment;
	const struct espl_experiment *experiments[1];
	uint32_t targets[1];
	struct espl_item *items; /* [view.item_count], by (arrived, id) */
	const struct espl_item **list;
	uint8_t *mentioned; /* [item] by an answer */
};
/* E_CONFIG with FILE, and with the line where the file is no JSON. */
espl_status espl__alloc_view_load(const char *path, const struct espl__inputs *,
    struct espl__alloc_view *, struct espl__diag *);
void espl__alloc_view_free(struct espl__alloc_view *);
#endif
