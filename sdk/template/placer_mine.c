/* placer_mine.c - a placer to begin with: the first node that has room.
 *
 * Two parts of the kit do most of the work: espalier/kit/moves.h lists the trials that need a place
 * (also those for which there was no room before) and returns the answer in the right order;
 * espalier/kit/node_map.h is a working copy of the nodes' GPUs.
 *
 *     cc -shared -fPIC $(pkg-config --cflags espalier-kit) -o placer_mine.so placer_mine.c \
 *         $(pkg-config --libs espalier-kit)
 */
#include <stdlib.h>
#include <espalier/kit/moves.h>
#include <espalier/util.h>

struct mine {
	struct espl_node_map map;
	struct espl_moves moves;
};

static void
destroy(void *self)
{
	struct mine *mine = self;

	espl_node_map_free(&mine->map);
	espl_moves_free(&mine->moves);
	free(mine);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct mine *mine = calloc(1, sizeof *mine);

	(void)host;
	(void)config;
	if (mine == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	*self = mine;
	return ESPL_OK;
}

/* Fills slots, one for each GPU of the gang's share.  0: there is no room. */
static uint32_t
place_gang(struct espl_node_map *map, const struct espl_gang *gang, struct espl_slot *slots)
{
	uint32_t i, gpu, gpus = gang->share.gpus, packing = gang->share.packing;

	for (i = 0; i < map->count; i++) {
		if (!espl_node_map_admits(map, i, gang, ESPL_ANY))
			continue;  /* not READY, reserved for another trial, or of another offer */
		if (packing > 1) { /* beside others with the same share of a GPU */
			gpu = espl_node_map_find_hole(map, i, packing);
			if (gpu != ESPL_ANY)
				return espl_node_map_join(map, i, gpu, packing, slots);
		}
		if (map->entries[i].idle >= gpus)
			return espl_node_map_place(map, i, gpus, packing, slots);
	}
	return espl_node_map_place_on_nodes(map, gang, slots); /* more than a node: whole ones */
}

static espl_status
place(void *self, const struct espl_place_view *view, struct espl_place_sink *sink,
    struct espl_error *error)
{
	struct mine *mine = self;
	espl_status status;
	uint32_t i;

	if (!espl_moves_needed(&mine->moves, view))
		return ESPL_OK;
	status = espl_moves_gather(&mine->moves, &mine->map, view);
	if (status == ESPL_OK)
		status = espl_moves_stay(&mine->moves, &mine->map); /* resized where they are */
	for (i = 0; i < mine->moves.count && status == ESPL_OK; i++) {
		const struct espl_gang *gang = mine->moves.list[i].gang;
		struct espl_slot *slots = espl_moves_room(&mine->moves, gang);
		uint32_t count;

		if (slots == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		if (mine->moves.list[i].state != ESPL_MOVE_OPEN)
			continue;
		count = place_gang(&mine->map, gang, slots);
		if (count > 0)
			espl_moves_settle(&mine->moves, i, count, ESPL_MOVE_GOES);
	}
	if (status == ESPL_OK && mine->map.failed)
		status = ESPL_E_NOMEM;
	if (status == ESPL_OK)
		status = espl_moves_submit(&mine->moves, sink);
	if (status == ESPL_OK)
		/* more nodes than wanted: empty ones go */
		espl_node_map_give_up(&mine->map, view, sink);
	return status == ESPL_OK ? status : espl_fail(error, status, "placing failed");
}

static const struct espl_placer_ops ops = {
	ESPL_TABLE(struct espl_placer_ops),
	.place = place,
};

ESPL_PLUGIN(placer, mine) = {
	ESPL_HEAD(ESPL_PLACER, "mine"),
	.version = "0.1",
	.summary = "first node with room",
	.caps = ESPL_CAP_PURE,
	.option_size = (uint32_t)sizeof(struct espl_option), /* no options: only their size */
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
