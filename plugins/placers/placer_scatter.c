/* placer_scatter.c - every gang where the most GPUs are idle: the baseline.
 *
 * This is the result of placement without a controller (RubberBand, EuroSys'21, 6.2): workers are
 * placed on the emptiest nodes, gangs that need not stay together one worker at a time. No gang is
 * ever moved for another; a node is given up when it is empty.
 */
#include <stdlib.h>
#include <espalier/kit/assert.h>
#include <espalier/kit/moves.h>
#include <espalier/util.h>

#define SCATTER_MAGIC 0x1f3d280eu

struct scatter {
	uint32_t magic; /* SCATTER_MAGIC */
	struct espl_node_map map;
	struct espl_moves moves;
};

static void
destroy(void *self)
{
	struct scatter *scatter = self;

	ESPL_ASSERT(scatter != NULL && scatter->magic == SCATTER_MAGIC);
	scatter->magic = 0;
	espl_node_map_free(&scatter->map);
	espl_moves_free(&scatter->moves);
	free(scatter);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct scatter *scatter = calloc(1, sizeof *scatter);

	(void)host;
	(void)config;
	if (scatter == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	scatter->magic = SCATTER_MAGIC;
	*self = scatter;
	return ESPL_OK;
}

/* A share of a GPU: an idle one if there is, else the one with the fewest sharers. */
static uint32_t
place_share(struct espl_node_map *map, const struct espl_gang *gang, struct espl_slot *slots)
{
	uint32_t c = gang->share.packing, best = ESPL_ANY, best_gpu = 0, least = UINT32_MAX, i, k;

	ESPL_ASSERT(c > 1);
	i = espl_node_map_find_fit(map, gang, ESPL_ANY, 1, 1);
	if (i != ESPL_ANY)
		return espl_node_map_place(map, i, 1, c, slots);
	for (i = 0; i < map->count; i++) {
		if (!espl_node_map_admits(map, i, gang, ESPL_ANY))
			continue;
		for (k = 0; k < map->entries[i].node->gpu_count; k++) {
			const struct espl_node_map_gpu *cell = espl_node_map_cell(map, i, k);

			if (cell == NULL)
				return 0;
			if (cell->blocked == 0 && cell->packing == c && cell->residents < c &&
			    cell->residents > 0 && cell->residents < least) {
				least = cell->residents;
				best = i;
				best_gpu = k;
			}
		}
	}
	return best == ESPL_ANY ? 0 : espl_node_map_join(map, best, best_gpu, c, slots);
}

/* One worker after the other on the emptiest node, all on machines of one offer. */
static uint32_t
place_apart(struct espl_node_map *map, const struct espl_gang *gang, struct espl_slot *slots)
{
	uint32_t i = espl_node_map_find_fit(map, gang, ESPL_ANY, 1, 1), done = 0;
	uint32_t mark = map->step_count, offer;

	if (i == ESPL_ANY)
		return 0;
	offer = map->entries[i].node->offer;
	while (done < gang->share.gpus) {
		i = espl_node_map_find_fit(map, gang, offer, 1, 1);
		if (i == ESPL_ANY || espl_node_map_place(map, i, 1, 1, slots + done) == 0) {
			espl_node_map_undo(map, mark);
			return 0;
		}
		done++;
	}
	qsort(slots, done, sizeof *slots, espl_slot_order);
	return done;
}

static uint32_t
place_gang(struct espl_node_map *map, const struct espl_gang *gang, struct espl_slot *slots)
{
	uint32_t i;

	if (gang->share.packing > 1)
		return place_share(map, gang, slots);
	if ((gang->flags & ESPL_GANG_COLOCATE) == 0)
		return place_apart(map, gang, slots);
	i = espl_node_map_find_fit(map, gang, ESPL_ANY, gang->share.gpus, 1);
	return i != ESPL_ANY ? espl_node_map_place(map, i, gang->share.gpus, 1, slots)
			     : espl_node_map_place_on_nodes(map, gang, slots);
}

static espl_status
place(void *self, const struct espl_place_view *view, struct espl_place_sink *sink,
    struct espl_error *error)
{
	struct scatter *scatter = self;
	struct espl_moves *moves = &scatter->moves;
	espl_status status;
	uint32_t i;

	ESPL_ASSERT(scatter != NULL && scatter->magic == SCATTER_MAGIC);
	if (!espl_moves_needed(moves, view))
		return ESPL_OK;
	status = espl_moves_gather(moves, &scatter->map, view);
	if (status == ESPL_OK)
		status = espl_moves_stay(moves, &scatter->map);
	for (i = 0; i < moves->count && status == ESPL_OK; i++) {
		const struct espl_gang *gang = moves->list[i].gang;
		struct espl_slot *slots = espl_moves_room(moves, gang);
		uint32_t count;

		if (slots == NULL)
			status = ESPL_E_NOMEM;
		if (slots == NULL || moves->list[i].state != ESPL_MOVE_OPEN)
			continue;
		count = place_gang(&scatter->map, gang, slots);
		if (count > 0)
			espl_moves_settle(moves, i, count, ESPL_MOVE_GOES);
	}
	if (status == ESPL_OK)
		status = espl_moves_keep(moves, &scatter->map);
	if (status == ESPL_OK && scatter->map.failed)
		status = ESPL_E_NOMEM;
	if (status == ESPL_OK)
		status = espl_moves_submit(moves, sink);
	if (status == ESPL_OK)
		espl_node_map_give_up(&scatter->map, view, sink);
	if (status == ESPL_OK && scatter->map.failed)
		status = ESPL_E_NOMEM;
	return status == ESPL_OK ? status : espl_fail(error, status, "placing failed");
}

static const struct espl_placer_ops ops = {
	ESPL_TABLE(struct espl_placer_ops),
	.place = place,
};

ESPL_PLUGIN(placer, scatter) = {
	ESPL_HEAD(ESPL_PLACER, "scatter"),
	.version = "0.1",
	.summary =
	    "place gangs on the nodes with the most idle GPUs and never move them (the baseline)",
	.caps = ESPL_CAP_PURE,
	.option_size = (uint32_t)sizeof(struct espl_option),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
