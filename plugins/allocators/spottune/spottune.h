/* spottune.h - what the files of allocator spottune share.
 *
 * spottune_offers.c looks at the offers once a call: prices, maximum prices, risks.
 * spottune_choice.c chooses an offer for a trial.  allocator_spottune.c keeps the trials on their
 * machines: one trial per machine, all the machine's GPUs.
 */
#ifndef SPOTTUNE_H
#define SPOTTUNE_H
#include <espalier/allocator.h>
#include <espalier/kit/assert.h>
#include "interrupt.h"
#include <espalier/market.h>
#include <espalier/util.h>

enum { SPOTTUNE_MODERN, SPOTTUNE_PAPER };
enum { SPOTTUNE_FIXED, SPOTTUNE_MARGIN, SPOTTUNE_ALG2, SPOTTUNE_NONE }; /* max_price */
enum { SPOTTUNE_NEVER, SPOTTUNE_DEADLINE, SPOTTUNE_COMPARE };           /* on_demand */

struct spottune_options {
	int refund, redeploy, losses, moves; /* see the options' help */
	int64_t max_price, on_demand;
	double margin_min, margin_max;
	int margin_relative;
	espl_span renew, cooldown;
	double prior_rate, prior_hours;
	struct espl_predictor_options predictor;
};

/* State of an offer; below the line of the present call alone. */
struct spottune_offer {
	struct espl_predictor *predictor; /* NULL: not asked yet */
	espl_time asked;                  /* records before it were shown to the predictor */
	espl_time cool_until;             /* not chosen before: it was interrupted, or sold out */
	espl_money sent;                  /* maximum price of the target in force */
	/* ---- */
	double price_hour; /* mean of the past hour, dollars */
	espl_money most;   /* maximum price to lease at; 0: none */
	double p;          /* of an interruption within the hour that will be refunded */
	double rate_hour;  /* of interruptions */
	double boot_s;
	uint32_t live;  /* nodes that are not being released */
	uint32_t spare; /* of these, ready, idle, and not for a trial that waits for one */
	uint32_t want;  /* nodes to hold */
	uint32_t waits; /* trials that wait for one */
};

/* Where a trial is. */
struct spottune_trial {
	uint64_t id;      /* of the item */
	uint64_t node;    /* it runs there; ESPL_NONE: not yet */
	uint32_t offer;   /* its grant is bound to it; ESPL_ANY: it has none */
	uint32_t onto;    /* a node of it is on its way, to move to; ESPL_ANY: none */
	espl_time review; /* when to choose again */
	espl_time since;  /* when it began to wait for a machine; ESPL_NEVER: it does not */
	uint32_t
	    awaited; /* a machine was ready for it: the call after it was placed was asked for */
	uint32_t zero;
};

struct spottune_choice {
	uint32_t offer; /* ESPL_ANY: none can be had now */
	uint32_t fits;  /* offers that may be used, whose nodes the trial can take whole */
	double step;    /* expected cost of a step there, dollars per hour times seconds */
	double cost;    /* the same, and far more where it would end after the deadline */
	double stays;   /* as cost, where it is now; NaN: it may not stay there */
	double moving;  /* what moving there costs, in the same unit */
	espl_time look; /* when it is to be looked at because of the deadline; NEVER */
};

#define SPOTTUNE_MAGIC 0x5307713eu
struct spottune {
	uint32_t magic; /* SPOTTUNE_MAGIC */
	const struct espl_host *host;
	const struct espl_model *model;   /* may be NULL */
	const struct espl_market *market; /* may be NULL */
	struct spottune_options options;
	struct spottune_offer *offers;
	uint32_t offer_count;
	struct spottune_trial *trials, *before; /* by id; before: of the last call */
	uint32_t trial_count, trial_room, before_room;
	double *costs; /* scratch, [offer_count] */
	espl_time wake_at;
};

/* Prices, maximum prices, risks and nodes of all offers.  ESPL_E_NOMEM. */
espl_status spottune_look(struct spottune *, const struct espl_alloc_view *);
void spottune_offers_free(struct spottune *);

/* at: the offer whose node it runs on, or ESPL_ANY. */
struct spottune_choice spottune_choose(struct spottune *, const struct espl_alloc_view *,
    const struct espl_item *, uint32_t at);
#endif
