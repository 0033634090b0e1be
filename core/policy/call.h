/* call.h - the host's half of the policy kinds: makes a call, checks every sink call, measures it.
 *
 * The answer is left as ops (ops.h) in caller->ops; nothing is applied here. If a plugin fails, its
 * answer is discarded. Only these functions use the plugins' tables.
 */
#ifndef ESPL__CALL_H
#define ESPL__CALL_H
#include "base/tick.h"
#include "kit/judge.h"
#include "model/fleet.h"
#include "model/trials.h"
#include "plugin/instance.h"
#include "policy/ops.h"

struct espl__submission {
	uint64_t token;
	struct espl_compute_request request;
};

/* zero, then set the first block */
struct espl__caller {
	uint32_t params;                /* doubles of a configuration */
	const struct espl_space *space; /* to check configurations; NULL: they are not */
	struct espl__trials *trials;    /* search calls */
	void *items_ctx;                /* for the next two */
	/* allocator calls: item by id; placer calls: gang of an item with a grant; NULL unknown */
	const struct espl_item *(*item)(void *ctx, uint64_t id);
	const struct espl_gang *(*gang)(void *ctx, uint64_t item);
	const espl_time *now;            /* the instant; NULL: wake_at is not checked */
	int no_saves;                    /* trials make no checkpoints: there are no clones */
	const struct espl__fleet *fleet; /* placer calls */
	/* allocator calls: it divides a share of what others decide about */
	int shares;
	int64_t (*tick)(void); /* NULL: no statistics */
	/* Plans are held to the model: OK, or ESPL_E_REJECTED with the reason.  NULL: any is taken.
	 */
	espl_status (
	    *foretell)(void *ctx, const struct espl_plan *, int from_now, struct espl__diag *why);
	void *foretell_ctx;

	/* of decisions, ns: a call's time is shared among what it answered */
	struct espl__quantiles times;
	struct espl__quantiles call_times;
	/* a call that answers nothing has decided that nothing changes */
	uint64_t calls, decisions;
	uint64_t answered;    /* operations in the last call's answer */
	uint64_t rejected;    /* sink calls refused so far */
	struct espl__buf ops; /* the last call's answer */
	uint32_t stamp;       /* rises with every call */
	char why[320];        /* the last refusal */
	/* search calls: groups that the call has begun: closed by it as well; for the judge */
	uint8_t *closed;
	double *scratch;
	uint32_t closed_cap, scratch_cap;
	/* of a plan call that found nothing: what would do; NaN unknown */
	double least_s, least_usd;
	uint64_t compute_next; /* next token of a computation */
	/* of the last call: requests, copied; freed by the caller of the call */
	struct espl__submission *submitted;
	uint32_t submitted_count, submitted_cap;
};
void espl__caller_free(struct espl__caller *);

/* Each returns the plugin's status (ESPL_OK: ops count).  diag: a failure's message, made of
 * the plugin's error; filled only when the status is not OK. */
espl_status espl__call_spec(struct espl__caller *, struct espl__instance *, struct espl__arena *,
    const struct espl_spec **, struct espl__diag *);
espl_status espl__call_next_group(struct espl__caller *, struct espl__instance *,
    const struct espl_search_view *, struct espl__diag *);
espl_status espl__call_report(struct espl__caller *, struct espl__instance *,
    const struct espl_trial *, const struct espl_observation *, struct espl__diag *);
int espl__call_can_extend(const struct espl__instance *); /* the algorithm has the entry */
/* E_UNSUPPORTED: not with its configuration. */
espl_status espl__call_extend(struct espl__caller *, struct espl__instance *,
    const struct espl_extension *, struct espl__diag *);
espl_status espl__call_trial_end(struct espl__caller *, struct espl__instance *,
    const struct espl_trial *, espl_end, struct espl__diag *);
/* Before the run.  ESPL_E_INFEASIBLE: see least_s, least_usd; ESPL_E_BUSY: a computation was
 * submitted. */
espl_status espl__call_plan(struct espl__caller *, struct espl__instance *,
    const struct espl_plan_view *, struct espl__diag *);
espl_status espl__call_allocate(struct espl__caller *, struct espl__instance *,
    const struct espl_alloc_view *, struct espl__diag *);
espl_status espl__call_place(struct espl__caller *, struct espl__instance *,
    const struct espl_place_view *, struct espl__diag *);

/* ---- call_whole.c ---------------------------------------------------------------------------- */

/* Judges the last call's answer (caller->ops) as a whole: all grants together.  budget->targets:
 * those in force, or NULL. */
espl_status espl__answer_grants(struct espl__caller *, const struct espl__instance *,
    const struct espl_alloc_view *, const struct espl_budget *, struct espl__arena *,
    struct espl__diag *);
/* The same for all placements of an answer.  recorded: they come from the journal, so that they
 * must be judged one by one, too. */
espl_status espl__answer_places(struct espl__caller *, const struct espl__instance *,
    struct espl__reader, int recorded, struct espl__arena *, struct espl__diag *);

/* Service ESPL_COMPUTE for an instance: requests of a call become SUBMIT ops and `submitted`. */
espl_status espl__caller_submit(struct espl__caller *, const struct espl_compute_request *,
    uint64_t *token, struct espl_error *);
#endif
