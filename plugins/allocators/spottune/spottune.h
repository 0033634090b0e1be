/* spottune.h - what the files of allocator spottune share.
 *
 * spottune_offers.c looks at the offers once a call: prices, maximum prices, risks.
 * spottune_choice.c chooses an offer for a trial by the price of a step.  spottune_policy.c decides
 * when to pay for a machine on demand, with deadline.c.  allocator_spottune.c keeps the trials on
 * their machines: one trial per machine, all the machine's GPUs.
 */
#ifndef SPOTTUNE_H
#define SPOTTUNE_H
#include <espalier/allocator.h>
#include <espalier/kit/assert.h>
#include "deadline.h"
#include "interrupt.h"
#include <espalier/market.h>
#include <espalier/util.h>

enum { SPOTTUNE_MODERN, SPOTTUNE_PAPER };
enum { SPOTTUNE_FIXED, SPOTTUNE_MARGIN, SPOTTUNE_ALG2, SPOTTUNE_NONE }; /* max_price */
enum { SPOTTUNE_NEVER, SPOTTUNE_DEADLINE, SPOTTUNE_COMPARE };           /* on_demand */

enum { SPOTTUNE_EXACT, SPOTTUNE_GREEDY, SPOTTUNE_UNIFORM, SPOTTUNE_RULE }; /* policy */

struct spottune_options {
	int refund, redeploy, losses, moves; /* see the options' help */
	int64_t max_price, on_demand, policy;
	espl_span wait;        /* ESPL_NEVER: without end */
	double lost_h, back_h; /* rates that are assumed of capacity */
	double margin_min, margin_max;
	int margin_relative;
	espl_span renew, cooldown;
	int asks_again; /* no cooldown where a policy decides: a refused request costs nothing */
	double prior_rate, prior_hours;
	struct espl_predictor_options predictor;
};

/* State of an offer; below the line of the present call alone. */
struct spottune_offer {
	struct espl_predictor *predictor; /* NULL: not asked yet */
	espl_time asked;                  /* records before it were shown to the predictor */
	espl_time cool_until;             /* not chosen before: it was interrupted, or sold out */
	espl_money sent;                  /* maximum price of the target in force */
	int out;                          /* there was no capacity at the last call */
	uint32_t backs;                   /* how often there was again */
	espl_time seen;                   /* the last call */
	double out_s;                     /* without capacity so far */
	/* ---- */
	double lost_h, back_h; /* capacity: what is assumed and what was seen, an hour */
	double price_hour;     /* mean of the past hour, dollars */
	espl_money most;       /* maximum price to lease at; 0: none */
	double p;              /* of an interruption within the hour that will be refunded */
	double rate_hour;      /* of interruptions */
	double boot_s;
	uint32_t live;  /* nodes that are not being released */
	uint32_t spare; /* of these, ready, idle, and not for a trial that waits for one */
	uint32_t want;  /* nodes to hold */
	uint32_t waits; /* trials that wait for one */
};

/* What is kept of a trial while it has no grant, too. */
struct spottune_past {
	espl_time begun;       /* when it was first seen; NEVER: not yet */
	espl_time waits;       /* it has waited for spot capacity since; NEVER: it does not */
	double work_s, left_s; /* to do and to the deadline, at `begun` */
	uint32_t locked;       /* it stays on demand to its end (greedy, uniform) */
	uint32_t sought;       /* the offer that it was last said to move to */
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
	struct spottune_past past;
};

/* The solved problem of an experiment with a deadline. */
struct spottune_table {
	uint64_t experiment;
	struct deadline *solved; /* NULL: not yet */
	espl_time checked;       /* whether it has become too large */
	int warned, used;
};

/* A trial's prospects. */
struct spottune_prospect {
	const struct espl_item *item;
	double left_s;  /* until the deadline; INFINITY: none */
	int lost;       /* no machine can keep it, were it ready now */
	double steps;   /* to its budget */
	double away_s;  /* without training at each start elsewhere, the machine's boot apart */
	double save_s;  /* of these, on the old machine */
	double every_s; /* it saves that often; 0: only when it leaves */
	double known_s; /* a step on a machine of known_size; NaN: no speed is known */
	double known_size;
};

struct spottune_choice {
	uint32_t offer; /* ESPL_ANY: none can be had now */
	uint32_t fits;  /* offers that may be used, whose nodes the trial can take whole */
	double step;    /* expected cost of a step there, dollars per hour times seconds */
	double cost;    /* the same, and far more where it would end after the deadline */
	double stays;   /* as cost, where it is now; NaN: it may not stay there */
	double moving;  /* what moving there costs, in the same unit */
	espl_time look; /* when it is to be looked at because of the deadline; NEVER */
	int leaves;     /* it should give up its machine and wait */
	int rents;      /* it takes a machine on demand although it could wait */
	double spare_s; /* before it must be on demand; NaN: no deadline */
	double wait_s;  /* it waits for capacity while it has more to spare; NaN: no such limit */
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
	struct spottune_table *tables;
	uint32_t table_count;
	espl_span cooldown;
	espl_time
	    without; /* since when no machine that can be interrupted was there; NEVER: one is */
	uint32_t failed; /* 1: out of memory in this call */
	espl_time wake_at;
};

/* Prices, maximum prices, risks and nodes of all offers.  ESPL_E_NOMEM. */
espl_status spottune_look(struct spottune *, const struct espl_alloc_view *);
void spottune_offers_free(struct spottune *);

/* For view->items[i].  at: the offer whose node it runs on, or ESPL_ANY. */
struct spottune_choice spottune_choose(struct spottune *, const struct espl_alloc_view *,
    uint32_t i, uint32_t at);

/* ---- spottune_choice.c for spottune_policy.c ---- */
struct spottune_prospect spottune_weigh(const struct spottune *, const struct espl_alloc_view *,
    const struct espl_item *);
/* Seconds of a step on the whole machine; with the saves on the way. */
double spottune_pace(const struct spottune *, const struct spottune_prospect *,
    const struct espl_offer *);
/* Of a step, dollars per hour times seconds; it may be interrupted: refunded, or lost time. */
double spottune_cost(const struct spottune *, const struct spottune_prospect *,
    const struct espl_offer *);
/* What an interruption loses beside the step that is under way. */
double spottune_unsaved(const struct spottune *, const struct spottune_prospect *,
    const struct espl_offer *);
int spottune_fits(const struct espl_item *, const struct espl_offer *);
/* It can be asked for machines now; at: a machine of it is held. */
int spottune_available(const struct spottune *, const struct espl_alloc_view *, uint32_t offer,
    uint32_t at);
const struct espl_experiment *spottune_experiment(const struct espl_alloc_view *, uint64_t id);

/* ---- spottune_policy.c ---- */
/* There are offers of both kinds, and a policy may choose between them. */
int spottune_may_wait(const struct spottune *, const struct espl_alloc_view *);
/* Does a policy decide for this trial, instead of the rule of spottune_choice.c? */
int spottune_has_policy(const struct spottune *, const struct espl_alloc_view *,
    const struct espl_item *);
void spottune_decide(struct spottune *, const struct espl_alloc_view *,
    const struct spottune_prospect *, uint32_t i, uint32_t at, struct spottune_choice *);
/* Says once that an experiment's deadline cannot be kept. */
void spottune_warn_late(struct spottune *, const struct espl_item *, double left_s);
/* Frees what belongs to experiments that have ended; view NULL: everything. */
void spottune_forget(struct spottune *, const struct espl_alloc_view *);
#endif
