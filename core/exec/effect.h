/* effect.h - the executor's orders: the world carries them out and reports the outcome as events.
 *
 * Every START is answered by exactly one ENDED (STARTED before it if the ranks came up); every
 * REPORT event by exactly one REPLY effect, or by KILL, or by the gang's ENDED; every ACQUIRE by
 * NODE events that end in ENDED; every RESIZE by one RESIZED or by the gang's ENDED. A RESIZE does
 * not answer a report: the gang keeps training, and the world turns one of the next CONTINUEs into
 * the change. A gang that gets PAUSE or STOP in the meantime obeys that instead. Effects are
 * carried out in order.
 */
#ifndef ESPL__EFFECT_H
#define ESPL__EFFECT_H
#include <espalier/host.h>
#include <espalier/placer.h>

enum espl__effect_type {
	ESPL__FX_ACQUIRE = 1,
	ESPL__FX_RELEASE,
	ESPL__FX_START,
	ESPL__FX_REPLY,
	/* end the gang: SIGTERM (asks to save and exit), after `grace` SIGKILL */
	ESPL__FX_KILL,
	ESPL__FX_COLLECT, /* remove checkpoints of a trial, all but one */
	/* send EV_TIMER at this instant; replaces the last one; NEVER: none */
	ESPL__FX_TIMER,
	ESPL__FX_COMPUTE, /* run a computation */
	/* take the gang over to these slots while it lives, at its next boundary */
	ESPL__FX_RESIZE,
	ESPL__FX_END /* the run has ended: no more events are accepted */
};
enum espl__directive { ESPL__CONTINUE = 1, ESPL__CHECKPOINT, ESPL__PAUSE, ESPL__STOP };
enum espl__run_end {
	ESPL__RUN_DONE = 1,
	ESPL__RUN_DEADLINE,
	ESPL__RUN_BUDGET,
	ESPL__RUN_INTERRUPTED,
	ESPL__RUN_FAILED,
	ESPL__RUN_CANCELLED /* an experiment of a pool, by the user */
};

struct espl__effect {
	enum espl__effect_type type;
	union {
		uint64_t lease; /* RELEASE */
		espl_time at;   /* TIMER */
		struct {
			uint64_t lease;
			uint32_t offer;
			espl_money max_price_hour;
		} acquire;
		struct {
			uint64_t gang, trial, item; /* items are numbered as they are made */
			uint32_t experiment;
			uint32_t attempt;           /* starts of this trial so far, from 0 */
			uint64_t iteration, budget; /* done so far; train up to */
			uint64_t source;            /* trial whose checkpoint to restore */
			uint64_t checkpoint;        /* its iteration; 0: a fresh start */
			struct espl_share share;
			const struct espl_slot *slots; /* share.gpus of them, in order of rank */
			const double *values;          /* configuration */
		} start;
		struct {
			uint64_t gang, trial;
			uint32_t attempt;
			uint64_t iteration; /* last reported */
			struct espl_share share;
			/* as of start; some of them may be the gang's already */
			const struct espl_slot *slots;
			const double *values;
		} resize;
		struct {
			uint64_t gang, trial;
			enum espl__directive directive;
			uint64_t budget; /* 0: unchanged */
		} reply;
		struct {
			uint64_t gang;
			espl_span grace;
		} kill;
		struct {
			uint32_t experiment;
			uint64_t trial, keep; /* 0: none */
		} collect;
		struct {
			uint64_t token;
			const struct espl_compute_request *request;
			const struct espl__run_config *config; /* its plugin of this kind asks */
			espl_kind kind;
		} compute;
		struct {
			enum espl__run_end how;
			const char *text;
		} end;
	} as;
};
#endif
