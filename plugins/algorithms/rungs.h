/* rungs.h - ASHA's rungs: results of one bracket, of which the best 1/eta may be promoted at any
 * time.
 *
 * Rung k is reached at iterations first * eta^k; the last one at `last`, whatever the rule says.  A
 * result is recorded once for each rung that a trial reaches, NaN for one that failed on the way.
 * Ranks are by (loss, id), NaN last, so the order of arrival does not influence them.
 *
 * Promotion form: rungs_record when a trial pauses at a rung; rungs_promote returns the trial to
 * continue. Stopping form: rungs_record when it passes a rung; it stops unless it is among the
 * best. A call costs O(log n); a result takes 16 bytes and at most two places of 8 in heaps.
 */
#ifndef RUNGS_H
#define RUNGS_H
#include <espalier/algorithm.h>
#include <espalier/util.h>
#include "shared.h"

#define RUNGS_MAGIC 0x726e6773u

struct rungs_result; /* of one trial at one rung */
/* a result's index; key: the first bits of its loss */
struct rungs_place {
	uint32_t key, item;
};
struct rungs_heap {
	struct rungs_place *places;
	uint32_t count, room;
};
struct rungs_rung {
	uint64_t until; /* cumulative iterations at which it is reached */
	struct rungs_result *results;
	uint32_t count, room;     /* results; those that failed included */
	struct rungs_heap top;    /* the best count / eta, the worst first */
	struct rungs_heap others; /* the rest, the best first */
	struct rungs_heap ready;  /* of the top, those not promoted yet, the best first */
};
struct rungs {
	struct rungs_rung *rungs; /* [count], rising; no trial is promoted out of the last */
	uint32_t count;
	uint32_t round_up; /* 1: the best ceil(n / eta) are the top (stopping form: the first
			    * to arrive continues); 0: floor(n / eta) (the paper) */
	uint64_t eta;
	uint32_t magic; /* RUNGS_MAGIC between init and free */
};

/* Rungs at first, first * eta, ... below last, and last; 1 <= first <= last, eta >= 2.
 * ESPL_E_NOMEM. Also after a failure rungs_free must be called. */
espl_status rungs_init(struct rungs *, uint64_t first, uint64_t last, uint64_t eta,
    uint32_t round_up, struct espl_error *);
void rungs_free(struct rungs *);

/* The trial has reached rung `rung` (or failed on the way: NaN) and may continue (or not: it is
 * complete). *top, unless NULL: 1 if it is now among the best one in eta and not NaN. ESPL_E_NOMEM:
 * nothing changed. */
espl_status rungs_record(struct rungs *, uint32_t rung, uint64_t trial, double loss, int may_go_on,
    int *top, struct espl_error *);
/* The trial that the paper's get_job promotes: the best of the top not promoted yet, of the highest
 * rung that has one. *rung is where it is paused; continue it to rungs[*rung + 1].until.  0: none.
 */
int rungs_peek(struct rungs *, uint64_t *trial, uint32_t *rung);
/* The same, and marks it: no trial is promoted twice out of a rung. */
int rungs_promote(struct rungs *, uint64_t *trial, uint32_t *rung);

/* For searches that run out of configurations before a trial was promoted to the last rung.  Has a
 * trial reached that rung with a loss that is a number? */
int rungs_ended(const struct rungs *);
/* The best of those paused at the highest rung that has any, in the top or not.  0: none is paused.
 * O(n): for when nothing else is left to do. */
int rungs_rest(struct rungs *, uint64_t *trial, uint32_t *rung, double *loss);
/* The same, and marks it as rungs_promote does. */
int rungs_force(struct rungs *, uint64_t *trial, uint32_t *rung);

#endif
