/* answers.c - the answers of policies: compared with the journal's record while a run is replayed,
 * and journaled.
 */
#include <string.h>

#include "base/assert.h"
#include "exec/effects.h"

/* ---- answers ------------------------------------------------------------------------------ */

void
espl__answers_next(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	x->round.recorded_seq = UINT64_MAX;
	if (x->round.replaying && x->round.recorded.at < x->round.recorded.end) {
		x->round.recorded_seq = espl__get_v64(&x->round.recorded);
		x->round.recorded_ops =
		    espl__get_bytes(&x->round.recorded, &x->round.recorded_size);
		if (x->round.recorded.bad)
			x->round.recorded_seq = UINT64_MAX;
	}
}

static void
describe_first(struct espl__exec *x, const void *ops, size_t size, struct espl__buf *text)
{
	struct espl__reader r = espl__reader(ops, size);
	struct espl__op op;

	if (size == 0 || espl__op_get(&r, x->caller.params, &x->ops_arena, &op) != 1)
		espl__print(text, "nothing");
	else
		espl__op_print(&op, text);
}

/* Describes the first operation in which two answers differ. */
static espl_status
explain_difference(struct espl__exec *x, struct espl__instance *i, struct espl__diag *diag)
{
	const uint8_t *a =
			  x->round.recorded_seq == x->round.call_seq ? x->round.recorded_ops : NULL,
		      *b = x->caller.ops.data;
	size_t na = a != NULL ? x->round.recorded_size : 0, nb = x->caller.ops.size;
	struct espl__reader ra = espl__reader(a, na), rb = espl__reader(b, nb);
	struct espl__buf before = { 0 }, after = { 0 };
	espl_status status;

	for (;;) {
		struct espl__reader sa = ra, sb = rb;
		struct espl__op op;
		if (espl__op_get(&ra, x->caller.params, &x->ops_arena, &op) != 1 ||
		    espl__op_get(&rb, x->caller.params, &x->ops_arena, &op) != 1 ||
		    ra.at - sa.at != rb.at - sb.at ||
		    memcmp(sa.at, sb.at, (size_t)(ra.at - sa.at)) != 0) {
			describe_first(x, sa.at, (size_t)(sa.end - sa.at), &before);
			describe_first(x, sb.at, (size_t)(sb.end - sb.at), &after);
			break;
		}
	}
	status = espl__fail(diag, ESPL_E_BUG,
	    "replay mismatch at %.3f s: the journal says %s chose to %s; now it chose to %s",
	    (double)x->now / 1e9, i->who, espl__buf_text(&before), espl__buf_text(&after));
	espl__hint(diag,
	    "espalier, the plugin, its options or a library changed; `espalier resume --accept` "
	    "keeps the recorded decisions");
	espl__buf_free(&before);
	espl__buf_free(&after);
	return status;
}

static void
count_failure(const struct espl__exec *x, uint8_t *failures, espl_status status)
{
	if (status == ESPL_OK)
		*failures = 0;
	if (status == ESPL_OK || status == ESPL_E_BUSY)
		return;
	if (x->setup.simulated || *failures > 0 || status == ESPL_E_CONFIG)
		*failures = ESPL__FAILED_FOR_GOOD;
	else
		++*failures;
}

espl_status
espl__exec_answer(struct espl__exec *x, struct espl__instance *i, uint8_t *failures,
    espl_status status, struct espl__diag *why, struct espl__reader *r, struct espl__diag *diag)
{
	int same = 1;

	ESPL__CHECK(i, INSTANCE);
	/* An error that shows only when the offers are known, before anything has started: the user
	 * can fix it, like any option.
	 */
	if (status == ESPL_E_CONFIG && !x->round.replaying && x->fleet.nodes.count == 0) {
		if (diag != NULL)
			*diag = *why;
		return status;
	}
	count_failure(x, failures, status);
	if (status != ESPL_OK && status != ESPL_E_BUSY && *failures != ESPL__FAILED_FOR_GOOD)
		espl__exec_warn(x, ESPL_ABOUT_RUN, 0,
		    "%s; ignoring its answer and keeping the previous one", why->text);
	espl__buf_reset(&x->round.ops);
	if (x->round.replaying) {
		if (x->round.recorded_seq == x->round.call_seq)
			same = x->round.recorded_size == x->caller.ops.size &&
			    memcmp(x->round.recorded_ops, x->caller.ops.data,
				x->round.recorded_size) == 0;
		else
			same = x->caller.ops.size == 0;
		if (!same && !x->round.accept)
			return explain_difference(x, i, diag);
	}
	if (same)
		espl__put(&x->round.ops, x->caller.ops.data, x->caller.ops.size);
	else if (x->round.recorded_seq == x->round.call_seq)
		espl__put(&x->round.ops, x->round.recorded_ops, x->round.recorded_size);
	if (x->round.replaying && x->round.recorded_seq == x->round.call_seq)
		espl__answers_next(x);
	if (x->round.ops.size > 0) {
		espl__put_v64(&x->round.decisions, x->round.call_seq);
		espl__put_bytes(&x->round.decisions, x->round.ops.data, x->round.ops.size);
	}
	if (x->round.ops.size > 0)
		x->round.last[x->round.last_count++ % ESPL__LAST_DECISIONS] =
		    (struct espl__last_decision){ x->now, i->who,
			    ((const uint8_t *)x->round.ops.data)[0] };
	x->round.call_seq++;
	espl__buf_reset(&x->caller.ops);
	*r = espl__reader(x->round.ops.data, x->round.ops.size);
	return ESPL_OK;
}

void
espl__exec_failed(struct espl__exec *x, const struct espl__instance *i, uint8_t failures,
    const struct espl__diag *why)
{
	ESPL__CHECK(i, INSTANCE);
	if (failures == ESPL__FAILED_FOR_GOOD)
		espl__exec_wind_up(x, ESPL__RUN_FAILED, "%s",
		    why->text[0] != '\0' ? why->text : i->who);
}

int
espl__exec_next_op(struct espl__exec *x, struct espl__reader *r, struct espl__op *op)
{
	int got = espl__op_get(r, x->caller.params, &x->ops_arena, op);

	ESPL__CHECK(x, EXEC);
	if (got < 0)
		espl__exec_wind_up(x, ESPL__RUN_FAILED,
		    "the journal's record of a decision is damaged");
	return got == 1;
}
