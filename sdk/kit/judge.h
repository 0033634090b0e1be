/* judge.h - what a policy may answer.
 *
 * This is the one place that decides it.  The sinks of espalier and those of the test kit ask here
 * before they record a call, so what check-plugin accepts, a run accepts.  Whoever asks fills in
 * struct espl_judge with what is known when the entry is called.  Each function returns NULL, or
 * the reason to refuse, which is valid until the next question; it changes nothing else.
 *
 * An answer is a transaction: its calls are judged by the state before the entry was called,
 * except for what the caller reports to the judge as the answer is recorded: groups begun and
 * closed, trials added and continued, and the end of the search.  What concerns the answer as a
 * whole is judged when the entry has returned: espl_judge_grants, espl_judge_places.
 */
#ifndef ESPALIER_KIT_JUDGE_H
#define ESPALIER_KIT_JUDGE_H
#include <espalier/algorithm.h>
#include <espalier/allocator.h>
#include <espalier/placer.h>

#define ESPL_JUDGE_TRIALS_MAX 1000000u /* trials of an experiment */
#define ESPL_JUDGE_SHARERS_MAX 64u     /* trials that share a GPU */

/* What the judge must know of a trial beside its public state. */
#define ESPL_JUDGE_DROPPED 0x1u   /* it will never be continued or cloned */
#define ESPL_JUDGE_CONTINUED 0x2u /* by this answer */
/* It has just reported its iteration and waits for the reply, or is saving: a clone can begin from
 * there. */
#define ESPL_JUDGE_CAN_SAVE 0x4u

struct espl_judge {
	void *ctx;     /* for the functions below */
	espl_time now; /* INT64_MIN: instants are not judged */
	/* The node with this id, NULL if there is none or its lease has ended. */
	const struct espl_node *(*node)(void *ctx, uint64_t id);

	/* Algorithms.  The trial with this id, NULL if there was none before the call; marks:
	 * ESPL_JUDGE_*. */
	const struct espl_trial *(*trial)(void *ctx, uint64_t id, uint32_t *marks);
	/* Does the group take trials?  It does if it is open, or was begun by this answer, and this
	 * answer has not closed it. */
	int (*takes)(void *ctx, uint64_t group);
	const struct espl_space *space; /* NULL: configurations are not judged */
	double *scratch;                /* room for a configuration */
	uint64_t trials;                /* so far, with those that this answer makes */
	int asking;                     /* next_group is running */
	int finished;                   /* finish was called */
	int no_saves;                   /* trials make no checkpoints */
	int declared;                   /* spec was called */

	/* Allocators.  The item with this id, NULL if there is none. */
	const struct espl_item *(*item)(void *ctx, uint64_t id);
	const struct espl_offer *const *offers;
	const struct espl_experiment *const *experiments;
	uint32_t offer_count, experiment_count;
	int shares; /* it divides the share of an experiment: the machines are not its own */

	/* Placers.  The gang of the item with this id, NULL if it has no grant. */
	const struct espl_gang *(*gang)(void *ctx, uint64_t item);
	/* How many gangs have reserved this GPU, and (if any) with which packing. */
	uint32_t (*reserved)(void *ctx, uint64_t node, uint32_t gpu, uint32_t *packing);

	espl_status status; /* of the last refusal: ESPL_E_REJECTED or ESPL_E_UNKNOWN */
	char text[320];
};

/* ---- algorithms -------------------------------------------------------------------------- */

const char *espl_judge_begin(struct espl_judge *, const struct espl_group *);
/* ESPL_E_UNKNOWN: the checkpoint to clone is not kept and will not be. */
const char *espl_judge_add(struct espl_judge *, uint64_t group, const struct espl_start *);
const char *espl_judge_close(struct espl_judge *, uint64_t group);
const char *espl_judge_finish(struct espl_judge *);
const char *espl_judge_verdict(struct espl_judge *, uint64_t trial, espl_verdict);
const char *espl_judge_drop(struct espl_judge *, uint64_t trial);
const char *espl_judge_hint(struct espl_judge *, uint64_t trial, double weight, uint32_t gpus_min,
    uint32_t gpus_max);
const char *espl_judge_spec(struct espl_judge *, const struct espl_spec *);
const char *espl_judge_wake(struct espl_judge *, espl_time at); /* allocators, too */

/* ---- allocators -------------------------------------------------------------------------- */

const char *espl_judge_grant(struct espl_judge *, const struct espl_grant *);
const char *espl_judge_target(struct espl_judge *, const struct espl_target *);
const char *espl_judge_retire(struct espl_judge *, uint64_t node);
const char *espl_judge_claim(struct espl_judge *, uint64_t node);
const char *espl_judge_watch(struct espl_judge *, uint32_t offer);
const char *espl_judge_objective(struct espl_judge *, const char *status);
const char *espl_judge_horizon(struct espl_judge *, uint64_t item, const uint32_t *gpus,
    uint32_t steps);
/* Its form.  Whether it meets deadline and budget, the model says.  replan: of an online call. */
const char *espl_judge_plan(struct espl_judge *, uint64_t experiment, const struct espl_plan *,
    int replan);

/* GPUs that grants take: whole ones, and those that are shared as tightly as they can be. */
struct espl_sum {
	uint64_t whole;
	uint32_t parts[ESPL_JUDGE_SHARERS_MAX + 1u]; /* grants of 1/c, by c */
	uint32_t most;                               /* the largest c that was ever counted */
};
void espl_sum_count(struct espl_sum *, struct espl_share, int sign);
uint64_t espl_sum_gpus(const struct espl_sum *);

/* What all grants of an allocator may sum up to. */
struct espl_budget {
	const uint32_t *targets;         /* as answered, [offer number]; NULL: only the limit */
	uint64_t limit;                  /* GPUs at most */
	const char *limit_is;            /* what the limit is, for the reason: "the share is" */
	const struct espl_sum *in_force; /* grants before the answer */
	int excused;                     /* these may exceed it already; they must not grow */
};
struct espl_judge_grant {
	uint64_t item;
	struct espl_share share;
};
/* All grants of an answer (without ESPL_GRANT_QUEUED), which it sorts. */
const char *espl_judge_grants(struct espl_judge *, struct espl_judge_grant *, size_t count,
    const struct espl_budget *);

/* ---- placers ----------------------------------------------------------------------------- */

const char *espl_judge_place(struct espl_judge *, uint64_t item, const struct espl_slot *,
    uint32_t count);
const char *espl_judge_give_up(struct espl_judge *, uint64_t node);

struct espl_judge_slot {
	struct espl_slot slot;
	uint64_t item;
	int sign; /* 1: the gang takes it; -1: it has it now */
};
/* The slots of all gangs that an answer places, those that they have now and those of each gang's
 * last placement.  It sorts them. */
const char *espl_judge_places(struct espl_judge *, struct espl_judge_slot *, size_t count);

#endif
