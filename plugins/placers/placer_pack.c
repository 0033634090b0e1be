/* placer_pack.c - shelves of shared GPUs, and whole GPUs node by node.
 *
 * For allocators that let trials share a GPU or spread over several (Fluid, MLSys'21, 4.2).  Whole
 * gangs are seated first, the largest first, each on as few nodes as may be, and grow and shrink
 * where they are.  A share of a GPU goes where the fewest share already, for a share is a cap on
 * neighbours and an empty GPU is a fast one; or, with fill, where it fits most tightly.  Shares of
 * equal degree are taken in the order in which they were granted.  When a whole gang lacks GPUs,
 * the GPUs with the fewest sharers are cleared onto those with holes.  A gang for which there is no
 * room yet goes on where it is.
 */
#include <espalier/sitters.h>
#include <espalier/util.h>

enum { SHARES };
enum { SPREAD, FILL };

static const struct espl_option options[] = {
	{ .name = "shares", .help = "spread: a share of a GPU goes where the fewest trials are; fill: "
	  "where the most are that still leave room", .type = ESPL_OPT_CHOICE,
	  .choices = "spread|fill", .fallback = "spread" },
};

struct rank { uint64_t item; uint32_t position, zero; };
struct pack {
	struct espl_floor floor;
	struct espl_moves moves;
	struct espl_sitters sitters;
	struct rank *ranks;		/* scratch, [rank_room] */
	uint32_t rank_room;
	uint32_t fill;
};
struct gpu { uint32_t stand, gpu, residents; };

static void
destroy(void *self)
{
	struct pack *pack = self;

	espl_floor_free(&pack->floor);
	espl_moves_free(&pack->moves);
	espl_sitters_free(&pack->sitters);
	free(pack->ranks);
	free(pack);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
       struct espl_error *error)
{
	struct pack *pack = calloc(1, sizeof *pack);

	(void)host;
	if (pack == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	pack->fill = config->values[SHARES].as.i == FILL;
	*self = pack;
	return ESPL_OK;
}

/* ---- shares ------------------------------------------------------------------------------ */

/* Is this GPU shared in that degree, with a hole?  Its number of residents; 0: no. */
static uint32_t
sharers(struct pack *pack, uint32_t i, uint32_t gpu, uint32_t c)
{
	const struct espl_floor_gpu *cell = espl_floor_cell(&pack->floor, i, gpu);

	return cell != NULL && cell->blocked == 0 && cell->packing == c && cell->residents < c ?
		cell->residents : 0;
}

/* Does the gang make room on this very GPU? */
static int
yields(const struct pack *pack, const struct espl_gang *gang, uint32_t i, uint32_t gpu)
{
	return (gang->flags & ESPL_GANG_YIELDS) != 0 && espl_gang_holds(gang) &&
		gang->slots[0].gpu == gpu && gang->slots[0].node == pack->floor.stands[i].node->id;
}

/* The shelf for one share more, with the fewest on it, or the most; the last such one, so that what
 * comes in order of length is dealt out and back. */
static struct gpu
shelf(struct pack *pack, const struct espl_gang *gang)
{
	struct gpu best = { ESPL_ANY, 0, 0 };
	uint32_t   i, k;

	for (i = 0; i < pack->floor.count; i++) {
		const struct espl_stand *stand = &pack->floor.stands[i];

		if (stand->idle == stand->node->gpu_count || !espl_floor_admits(&pack->floor, i, gang, ESPL_ANY))
			continue;
		for (k = 0; k < stand->node->gpu_count; k++) {
			uint32_t n = sharers(pack, i, k, gang->share.packing);

			if (n > 0 && !yields(pack, gang, i, k) && (best.stand == ESPL_ANY ||
			              (pack->fill ? n >= best.residents : n <= best.residents)))
				best = (struct gpu){ i, k, n };
		}
	}
	return best;
}

static uint32_t
seat_share(struct pack *pack, const struct espl_gang *gang, struct espl_slot *slots)
{
	uint32_t   c = gang->share.packing, i;
	struct gpu at = { ESPL_ANY, 0, 0 };

	if (pack->fill || (gang->flags & ESPL_GANG_YIELDS) != 0)
		at = shelf(pack, gang);
	if (at.stand != ESPL_ANY)
		return espl_floor_join(&pack->floor, at.stand, at.gpu, c, slots);
	i = espl_floor_fit(&pack->floor, gang, ESPL_ANY, 1, 0);
	if (i != ESPL_ANY)
		return espl_floor_seat(&pack->floor, i, 1, c, slots);
	at = shelf(pack, gang);
	return at.stand == ESPL_ANY ? 0 : espl_floor_join(&pack->floor, at.stand, at.gpu, c, slots);
}

/* ---- whole GPUs -------------------------------------------------------------------------- */

/* More idle GPUs for a gang that has `done`, all of one offer. */
static uint32_t
add_whole(struct pack *pack, const struct espl_gang *gang, uint32_t offer, struct espl_slot *slots,
          uint32_t done)
{
	done = espl_floor_seat_more(&pack->floor, gang, offer, slots, done);
	qsort(slots, done, sizeof *slots, espl_slot_order);
	return done;
}

/* A gang that may straddle nodes keeps what it has and gets more, wherever that is. */
static uint32_t
grow(struct pack *pack, const struct espl_gang *gang, struct espl_slot *slots)
{
	struct espl_floor *floor = &pack->floor;
	uint32_t mark = floor->step_count, k, i = ESPL_ANY;

	if (!espl_gang_holds(gang) || (gang->flags & (ESPL_GANG_MUST | ESPL_GANG_COLOCATE)) != 0 ||
	    gang->share.packing > 1 || gang->slot_count >= gang->share.gpus)
		return 0;
	for (k = 0; k < gang->slot_count; k++) {
		i = espl_floor_find(floor, gang->slots[k].node);
		if (i == ESPL_ANY || !espl_floor_admits(floor, i, gang, ESPL_ANY) ||
		    gang->slots[k].gpu >= floor->stands[i].node->gpu_count ||
		    espl_floor_join(floor, i, gang->slots[k].gpu, 1, &slots[k]) == 0)
			break;
	}
	if (k == gang->slot_count && add_whole(pack, gang, floor->stands[i].node->offer, slots, k) ==
	    gang->share.gpus)
		return gang->share.gpus;
	espl_floor_undo(floor, mark);
	return 0;
}

static uint32_t
seat_whole(struct pack *pack, const struct espl_gang *gang, struct espl_slot *slots)
{
	struct espl_floor *floor = &pack->floor;
	uint32_t count = grow(pack, gang, slots), i, gpus = gang->share.gpus, tried = ESPL_ANY;

	if (count > 0)
		return count;
	i = espl_floor_fit(floor, gang, ESPL_ANY, gpus, 0);
	if (i != ESPL_ANY)
		return espl_floor_seat(floor, i, gpus, 1, slots);
	count = espl_floor_seat_nodes(floor, gang, slots);
	if (count > 0 || (gang->flags & ESPL_GANG_COLOCATE) != 0)
		return count;
	for (i = 0; i < floor->count && count == 0; i++)	/* offers, as they are met */
		if (espl_floor_admits(floor, i, gang, ESPL_ANY) && floor->stands[i].node->offer != tried) {
			tried = floor->stands[i].node->offer;
			count = add_whole(pack, gang, tried, slots, 0);
		}
	return count;
}

/* ---- clearing shelves -------------------------------------------------------------------- */

/* Gangs on a GPU, that all may move; 0: one may not, or there is none. */
static uint32_t
residents(struct pack *pack, uint32_t i, uint32_t gpu, uint32_t *who, uint32_t room)
{
	const struct espl_sitters *sitters = &pack->sitters;
	uint32_t k, count, n = 0;

	for (k = sitters->from[i]; k < sitters->from[i + 1]; k++) {
		uint32_t gang = sitters->who[k];
		const struct espl_slot *slots = espl_sitters_slots(sitters, gang, &count);

		if (count != 1 || slots[0].gpu != gpu || slots[0].packing == 1)
			continue;
		if ((sitters->view->gangs[gang]->flags & ESPL_GANG_LOCKED) != 0 || n == room)
			return 0;
		who[n++] = gang;
	}
	return n;
}

/* Holes on shelves of this degree, apart from one GPU. */
static uint32_t
holes(struct pack *pack, uint32_t c, uint32_t stand, uint32_t gpu)
{
	uint32_t i, k, found = 0;

	for (i = 0; i < pack->floor.count; i++)
		for (k = 0; k < pack->floor.stands[i].node->gpu_count; k++) {
			uint32_t n = (i == stand && k == gpu) || !pack->floor.stands[i].usable ? 0 :
				sharers(pack, i, k, c);

			found += n > 0 ? c - n : 0;
		}
	return found;
}

/* Those who are to make room come off their GPUs at once. */
static espl_status
lift_yielding(struct pack *pack, const struct espl_place_view *view)
{
	struct espl_moves *moves = &pack->moves;
	uint32_t i, k, count = moves->count;

	for (i = 0; i < view->changed_count; i++) {
		const struct espl_gang *gang = view->changed[i];

		if ((gang->flags & ESPL_GANG_YIELDS) == 0 || gang->share.packing == 1 ||
		    (gang->flags & ESPL_GANG_LOCKED) != 0 || !espl_gang_stands(gang))
			continue;	/* or it is lifted already */
		for (k = 0; k < count && moves->list[k].gang != gang; k++)
			continue;
		if (k == count && espl_moves_add(moves, &pack->floor, gang) != ESPL_OK)
			return ESPL_E_NOMEM;
	}
	return ESPL_OK;
}

/* Takes everybody off the GPU with the fewest sharers, if there are holes for them; they are seated
 * again when all whole gangs are.  1: a GPU became idle. */
static int
clear_one(struct pack *pack, const struct espl_gang *gang, uint32_t *promised)
{
	struct espl_floor *floor = &pack->floor;
	struct gpu best = { ESPL_ANY, 0, UINT32_MAX };
	uint32_t   i, k, n, who[64], c = 0;

	if (!espl_sitters_index(&pack->sitters))
		return 0;
	for (i = 0; i < floor->count; i++) {
		if (!espl_floor_admits(floor, i, gang, ESPL_ANY))
			continue;
		for (k = 0; k < floor->stands[i].node->gpu_count; k++) {
			const struct espl_floor_gpu *cell = espl_floor_cell(floor, i, k);

			if (cell == NULL || cell->packing < 2 || cell->residents == 0 ||
			    cell->residents >= best.residents ||
			    residents(pack, i, k, who, 64) != cell->residents)
				continue;
			best = (struct gpu){ i, k, cell->residents };
			c = cell->packing;
		}
	}
	if (best.stand == ESPL_ANY || holes(pack, c, best.stand, best.gpu) < best.residents + *promised)
		return 0;
	n = residents(pack, best.stand, best.gpu, who, 64);
	for (i = 0; i < n; i++)
		espl_sitters_vacate(&pack->sitters, who[i]);
	pack->sitters.indexed = 0;
	*promised += n;
	return !floor->failed;
}

/* ---- the order --------------------------------------------------------------------------- */

static int
rank_order(const void *a, const void *b)
{
	const struct rank *x = a, *y = b;

	return x->item < y->item ? -1 : x->item > y->item;
}

/* Larger gangs first, shares last; of one size those that wait longer, then as they were granted. */
static int
move_order(const void *a, const void *b)
{
	const struct espl_move *x = a, *y = b;
	const struct espl_share *s = &x->gang->share, *t = &y->gang->share;

	if (s->gpus != t->gpus)
		return s->gpus > t->gpus ? -1 : 1;
	if (s->packing != t->packing)
		return s->packing < t->packing ? -1 : 1;
	if (x->zero != y->zero)
		return x->zero < y->zero ? -1 : 1;
	return x->gang->item < y->gang->item ? -1 : x->gang->item > y->gang->item;
}

/* The host names changed gangs in the order of their grants. */
static espl_status
sort_by_grant(struct pack *pack, const struct espl_place_view *view)
{
	struct espl_moves *moves = &pack->moves;
	struct rank *ranks = espl_floor_grow(pack->ranks, &pack->rank_room, view->changed_count + 1,
	                                     sizeof *ranks);
	uint32_t i;

	if (ranks == NULL)
		return ESPL_E_NOMEM;
	pack->ranks = ranks;
	for (i = 0; i < view->changed_count; i++)
		ranks[i] = (struct rank){ view->changed[i]->item, i + 1, 0 };
	qsort(ranks, view->changed_count, sizeof *ranks, rank_order);
	for (i = 0; i < moves->count; i++) {
		struct rank key = { moves->list[i].gang->item, 0, 0 };
		const struct rank *found = bsearch(&key, ranks, view->changed_count, sizeof key,
		                                   rank_order);

		moves->list[i].zero = found != NULL ? found->position : 0;
	}
	qsort(moves->list, moves->count, sizeof *moves->list, move_order);
	return ESPL_OK;
}

/* ---- all together ------------------------------------------------------------------------ */

/* Everybody who can have the new share where it is has it, but for those who are to make room. */
static espl_status
stay(struct pack *pack)
{
	struct espl_moves *moves = &pack->moves;
	uint32_t i, count;

	for (i = 0; i < moves->count; i++) {
		const struct espl_gang *gang = moves->list[i].gang;
		struct espl_slot *slots;

		if (!espl_gang_holds(gang) ||
		    ((gang->flags & ESPL_GANG_YIELDS) != 0 && gang->share.packing > 1))
			continue;
		slots = espl_moves_room(moves, gang);
		if (slots == NULL)
			return ESPL_E_NOMEM;
		count = espl_floor_stay(&pack->floor, gang, slots);
		if (count > 0)
			espl_moves_settle(moves, i, count, ESPL_MOVE_STAYS);
	}
	return pack->floor.failed ? ESPL_E_NOMEM : ESPL_OK;
}

static espl_status
seat(struct pack *pack, uint32_t index, uint32_t *promised)
{
	const struct espl_gang *gang = pack->moves.list[index].gang;
	struct espl_slot *slots = espl_moves_room(&pack->moves, gang);
	uint32_t count;

	if (slots == NULL)
		return ESPL_E_NOMEM;
	for (;;) {
		count = gang->share.packing > 1 ? seat_share(pack, gang, slots)
		                                : seat_whole(pack, gang, slots);
		if (pack->floor.failed)
			return ESPL_E_NOMEM;
		if (count > 0 || gang->share.packing > 1 || !clear_one(pack, gang, promised))
			break;
	}
	if (count > 0)
		espl_moves_settle(&pack->moves, index, count, ESPL_MOVE_GOES);
	return pack->floor.failed ? ESPL_E_NOMEM : ESPL_OK;
}

static espl_status
place(void *self, const struct espl_place_view *view, struct espl_place_sink *sink,
      struct espl_error *error)
{
	struct pack *pack = self;
	struct espl_moves *moves = &pack->moves;
	uint32_t i, promised = 0;
	espl_status status;

	if (!espl_moves_any(moves, view))
		return ESPL_OK;
	status = espl_moves_gather(moves, &pack->floor, view);
	if (status == ESPL_OK)
		status = lift_yielding(pack, view);
	if (status == ESPL_OK)
		status = sort_by_grant(pack, view);
	if (status == ESPL_OK)
		status = stay(pack);
	espl_sitters_begin(&pack->sitters, view, &pack->floor, moves);
	for (i = 0; i < moves->count && status == ESPL_OK; i++)	/* clearing appends shares */
		if (moves->list[i].state == ESPL_MOVE_OPEN)
			status = seat(pack, i, &promised);
	if (status == ESPL_OK)
		status = espl_moves_keep(moves, &pack->floor);
	if (status == ESPL_OK)
		status = espl_moves_tell(moves, sink);
	if (status == ESPL_OK)
		espl_floor_give_up(&pack->floor, view, sink);
	if (status == ESPL_OK && pack->floor.failed)
		status = ESPL_E_NOMEM;
	return status == ESPL_OK ? status : espl_fail(error, status, "placing failed");
}

static const struct espl_placer_ops ops = {
	ESPL_TABLE(struct espl_placer_ops),
	.place = place,
};

ESPL_PLUGIN(placer, pack) = {
	ESPL_HEAD(ESPL_PLACER, "pack"),
	.version = "0.1",
	.summary = "shelves of shared GPUs, the emptiest first, and whole GPUs node by node",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
