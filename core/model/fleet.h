/* fleet.h - offers, nodes (struct espl__machine, because espl__node is a node of a configuration
 * tree), GPUs and the trials on them; conservation asserted on every change.
 *
 * An occupant is one trial on one GPU (or 1/packing of it).  It is `held` while processes are
 * there, `reserved` while the placement in force says so; usually both.  A GPU never has more
 * occupants than its packing degree; what is free, idle and usable follows from the occupants
 * alone.
 */
#ifndef ESPL__FLEET_H
#define ESPL__FLEET_H
#include <espalier/placer.h>
#include "base/diag.h"
#include "base/mem.h"

struct espl__run_config;
struct espl__trial_config;
struct espl__profile;
struct espl__jobs;

struct espl__occupant {
	const void *owner;
	uint32_t packing, held_packing; /* as reserved; as its processes have it */
	uint8_t held, reserved, zero[6];
};
struct espl__gpu {
	struct espl_gpu pub;
	struct espl__occupant *occupants;
	uint32_t occupant_count, occupant_cap;
};
#define ESPL__MACHINE_FAILED 32u
#define ESPL__MACHINE_MAGIC 0x6a66646fu
struct espl__machine {
	struct espl_node pub;
	uint32_t magic; /* ESPL__MACHINE_MAGIC */
	struct espl__gpu *gpus;
	const struct espl_gpu **gpu_list;
	const char *host;    /* its name at the provider; NULL unknown */
	const char *machine; /* the machine behind it, as its provider names it; NULL unknown */
	const char *risk;    /* why it is at risk; NULL: it is not */
	uint32_t occupants;  /* on all its GPUs */
	uint32_t seen;       /* of gpu_list: its length as offered or found */
	uint32_t offered;    /* GPUs, when it was leased */
	espl_time asked_at;  /* when */
	uint32_t stands_for; /* the offer toward whose target it counts */
	const char *last;    /* what was said about its end; NULL: nothing */
	/* the last trials that failed here, the newest first, since one has got further here; then
	 * ESPL_NONE; after how many reports; and which of them have got further elsewhere since, a
	 * bit each */
	uint64_t failed[ESPL__MACHINE_FAILED], failed_reports[ESPL__MACHINE_FAILED];
	uint32_t elsewhere;
	uint64_t failed_from; /* the next gang's number when the first of these failed */
	espl_time worked_at;  /* when the last gang reported from here for the first time */
	espl_time since;      /* when it came into its state */
	const char *unfit;    /* why it is of no use, though it is ready; NULL: it is */
	uint64_t suspect;     /* the item that it was given to, which runs alone; NONE */
	uint8_t releasing;    /* a release was asked for */
	uint8_t withdrawn;    /* since it only waited in a queue */
	uint8_t live;         /* not ENDED */
	uint8_t used;         /* a trial has run there */
	uint8_t proved;       /* a trial has reported from there */
	uint8_t drained;      /* the user holds it out */
	uint8_t avoided;      /* its machine was to be avoided: the cloud has no other */
};
struct espl__fleet {
	struct espl_offer **offers; /* [number]; strings and latencies in the arena */
	uint32_t *targets;          /* [number] */
	/* [number] unusable GPUs of nodes that count for the target */
	uint32_t *lost;
	espl_money *target_price; /* [number] maximum price of nodes yet to be leased */
	uint32_t offer_count, offer_cap, target_cap, lost_cap, price_cap;
	struct espl__pool nodes;       /* of struct espl__machine *, index = lease */
	const struct espl_node **live; /* not ENDED, by id */
	uint32_t live_count, live_cap;
	const struct espl_node **placeable; /* READY and NOTICE, by id */
	uint32_t placeable_count, placeable_cap;
	/* usable (READY, not retiring, not quarantined, not blocked; of an unreachable node those
	 * in use); of them whole and free */
	uint32_t gpus, gpus_idle;
	uint32_t gpus_held; /* on all READY and NOTICE nodes */
	uint32_t retiring;  /* live nodes that drain */
	int no_route;       /* its machines cannot reach each other */
	struct espl__arena arena;
};
void espl__fleet_init(struct espl__fleet *);
void espl__fleet_free(struct espl__fleet *);
/* New (its number is returned) or changed (same name and market). */
uint32_t espl__fleet_offer(struct espl__fleet *, const struct espl_offer *);
struct espl__machine *espl__machine_lease(struct espl__fleet *, uint32_t offer,
    espl_money max_price_hour); /* REQUESTED */
struct espl__machine *espl__machine_at(const struct espl__fleet *,
    uint64_t lease); /* NULL unknown */
/* A trial has reported as often there: those that failed after fewer reports are forgotten. */
void espl__machine_forgive(struct espl__machine *, uint64_t reports);
const char *espl__node_state_word(espl_node_state); /* "requested", ...; "unknown" */
/* States only advance, but a resume may take READY and NOTICE back to BOOTING (all trials gone).
 * gpus: found; ESPL_ANY as offered. */
void espl__machine_state(struct espl__fleet *, struct espl__machine *, espl_node_state,
    uint32_t gpus);
void espl__machine_flag(struct espl__fleet *, struct espl__machine *, uint32_t set, uint32_t clear);
/* Blocks a GPU until the node reboots. */
void espl__fleet_block(struct espl__fleet *, struct espl__machine *, uint32_t gpu);
uint32_t espl__fleet_nodes(const struct espl__fleet *, uint32_t offer,
    int retiring_too); /* live ones that count toward an offer's target */
/* Live ones leased from an offer, retiring ones too: its provider counts them. */
uint32_t espl__fleet_leased(const struct espl__fleet *, uint32_t offer);
/* From now on it counts toward this offer's target. */
void espl__machine_stand(struct espl__fleet *, struct espl__machine *, uint32_t offer);

/* Does the slot exist on a node that can be used? */
struct espl__gpu *espl__gpu_at(const struct espl__fleet *, const struct espl_slot *,
    struct espl__machine **);
/* Whether trial `owner` could reserve it: room among the other slots, same packing, not blocked.
 * held: whether its processes could start there now, so that only occupants that hold a slot count.
 */
int espl__gpu_fits(const struct espl__gpu *, const void *owner, uint32_t packing, int held);
/* How many trials have reserved it, and (if any) with which packing. */
uint32_t espl__gpu_reserved(const struct espl__gpu *, uint32_t *packing);
void espl__gpu_occupy(struct espl__fleet *, const struct espl_slot *, const void *owner, int held,
    int reserved);
void espl__gpu_vacate(struct espl__fleet *, const struct espl_slot *, const void *owner, int held,
    int reserved);
/* Whether a trial other than `owner` has reserved it or waits for it. */
int espl__gpu_is_wanted(const struct espl__gpu *, const void *owner);

/* Seconds from a request to a ready node, by what the cloud says of the offer; at most `most`, also
 * where it says nothing. */
double espl__offer_wait_s(const struct espl_offer *, double most);

/* ---- feasibility.c --------------------------------------------------------------------------- */

/* How much the cloud's offers provide, and whether a trial can ever run on them: checked before
 * a run begins, and again when its cloud has reported its offers. */

/* GPUs that could ever be held at once; at most `limit`. */
uint64_t espl__sold_gpus(const struct espl__fleet *, uint64_t limit);
/* GPUs of the largest machine that is sold. */
uint32_t espl__sold_most(const struct espl__fleet *);
/* The most GPUs that one trial gets: trial.gpus_max, or what one machine has if machines cannot
 * reach each other.  Without it a trial stays on one machine,
 * unless its profile says how fast it is on more GPUs.  ESPL_ANY: no machine is offered. */
uint32_t espl__sold_widest(const struct espl__fleet *, const struct espl__trial_config *,
    const struct espl__profile *);
/* E_CONFIG at trial.gpus_min: the search's trials need more GPUs, or others, than nodes can give.
 */
espl_status espl__sold_suits(const struct espl__fleet *, const struct espl__run_config *,
    struct espl__diag *);
/* E_CONFIG at the line of the trace if a job needs more than this many GPUs. */
espl_status espl__sold_suits_jobs(const struct espl__jobs *, uint64_t gpus, const char *cloud,
    struct espl__diag *);
#endif
