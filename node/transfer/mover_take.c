/* mover_take.c - the end that gets a directory: writes chunks, and puts it in place. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "transfer/mover_private.h"

static void
end_taking(struct espl__move *v, const struct espl__diag *diag, int64_t now)
{
	struct espl__mover *m = v->mover;

	espl__move_tell_end(m, ESPL__MSG_TREE_KEPT, v, diag);
	if (diag->status == ESPL_OK && v->stage != ESPL__MOVE_CHECKING)
		espl__move_sum(v, now);
	espl__move_finish(v, v->asked || diag->status == ESPL_OK, diag);
}

void
espl__move_stored(struct espl__move *v, const struct espl__diag *diag, int64_t now)
{
	struct espl__mover *m = v->mover;

	ESPL__CHECK(v, MOVE);
	ESPL__ASSERT(v->stage == ESPL__MOVE_STORING);
	if (!v->outgoing) {
		end_taking(v, diag, now);
		return;
	}
	ESPL__ASSERT(diag->status != ESPL_OK); /* that is for the other end to say */
	espl__move_tell_end(m, ESPL__MSG_TREE_GONE, v, diag);
	espl__move_finish(v, !v->asked, diag);
	espl__mover_open(m);
}

/* The sender may go on before it is written, or a slow turn of a disk would stop it: but what waits
 * here is limited. */
static void
tell_taken(struct espl__move *v)
{
	uint64_t most = v->known + ESPL__MOVE_UNWRITTEN,
		 taken = v->passed < most ? v->passed : most;

	if (taken <= v->told)
		return;
	v->told = taken;
	espl__move_tell_taken(v->mover, v);
}

static void
write_more(struct espl__move *v)
{
	struct espl__buf swap = v->block;

	if (v->working || v->ready.size == 0)
		return;
	v->block = v->ready;
	v->ready = swap;
	espl__buf_clear(&v->ready);
	espl__move_start(v);
}

void
espl__move_written(struct espl__move *v, int64_t now)
{
	struct espl__mover *m = v->mover;

	m->moved_at = now;
	if (v->diag.status != ESPL_OK || v->same) {
		end_taking(v, &v->diag, now);
		return;
	}
	if (v->stage == ESPL__MOVE_CHECKING) {
		v->stage = ESPL__MOVE_TAKING;
		if (m->ops.store != NULL && !v->loose) {
			espl__move_store(v);
			return;
		}
		espl__move_note(m, ESPL__MSG_TREE_WANT, v);
		return;
	}
	v->known += v->block.size;
	espl__buf_clear(&v->block);
	if (v->known == v->size) {
		end_taking(v, &v->diag, now);
		return;
	}
	tell_taken(v);
	write_more(v);
}

int
espl__mover_take_offer(struct espl__mover *m, uint64_t serial, struct espl__reader *r, int64_t now)
{
	char name[ESPL__MOVE_NAME];
	struct espl__move *v;

	espl__get_str(r, name, sizeof name);
	if (r->bad)
		return -1;
	v = espl__move_by_name(m, name, 0);
	if (v != NULL && v->stage != ESPL__MOVE_ASKED) { /* it begins again */
		struct espl__move *old = v;

		v = espl__move_add(m, name, 0, old->asked, ESPL__MOVE_ASKED);
		espl__move_end(old);
	} else if (v == NULL) {
		v = espl__move_add(m, name, 0, 0, ESPL__MOVE_ASKED);
	}
	v->serial = serial;
	v->digest = espl__get_u64(r);
	v->size = espl__get_v64(r);
	v->since = now;
	v->stage = ESPL__MOVE_CHECKING;
	if (r->bad)
		return -1;
	espl__move_start(v);
	return 0;
}

int
espl__move_take_data(struct espl__move *v, struct espl__reader *r, int64_t now)
{
	uint64_t offset = espl__get_v64(r);
	size_t size;
	const void *bytes = espl__get_bytes(r, &size);

	if (r->bad || size == 0)
		return -1;
	if (v == NULL) /* it failed here, which the sender does not know yet */
		return 0;
	if (v->stage != ESPL__MOVE_TAKING || offset != v->passed || size > v->size - v->passed)
		return -1;
	espl__put(&v->ready, bytes, size);
	v->passed += size;
	v->mover->moved_at = now;
	write_more(v);
	tell_taken(v);
	return 0;
}

/* The other end cannot send it. */
int
espl__mover_take_gone(struct espl__mover *m, uint64_t serial, struct espl__reader *r)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__move *v = espl__move_by_serial(m, serial, 0);
	char name[ESPL__MOVE_NAME];

	espl__get_str(r, name, sizeof name);
	espl__move_read_end(r, &diag);
	if (r->bad || diag.status == ESPL_OK)
		return -1;
	diag.status = ESPL_E_UNKNOWN; /* whatever it is, it is not here */
	if (v == NULL)
		v = espl__move_by_name(m, name, 0);
	if (v == NULL)
		return 0;
	espl__move_finish(v, v->asked, &diag);
	return 0;
}
