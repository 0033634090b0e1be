/* espalier SDK: fleet.h - machines and money: what allocators, placers and clouds share.
 *
 * "GPU" is the schedulable unit: on a machine without GPUs, a slot that the configuration defines
 * on its cores.  The host numbers an offer when it is first reported; the number never changes
 * during a run.
 */
#ifndef ESPALIER_FLEET_H
#define ESPALIER_FLEET_H
#include <espalier/abi.h>
#ifdef __cplusplus
extern "C" {
#endif

/* What a trial gets: gpus whole GPUs (packing 1), or 1/packing of one GPU (gpus 1, packing > 1: at
 * most `packing` trials on the GPU, Fluid 3.3), or nothing (gpus 0, packing 1). */
struct espl_share {
	uint32_t gpus, packing;
}; /* frozen, 8 bytes */
struct espl_point {
	double x, y;
}; /* frozen, 16 bytes */
struct espl_price {
	espl_time from;
	espl_money usd_hour;
}; /* frozen; valid until the next record */

typedef uint32_t espl_billing;                   /* RubberBand 4.1: by instance or by function */
enum { ESPL_BILL_NODE = 1, ESPL_BILL_FUNCTION }; /* per lease | per busy GPU-second */
typedef uint32_t espl_bill_start;                /* when billing of a lease begins */
enum { ESPL_BILL_FROM_REQUEST = 1, ESPL_BILL_FROM_BOOT, ESPL_BILL_FROM_READY };

#define ESPL_OFFER_MARKET 0x1u    /* the price varies, and a lease may have a maximum price */
#define ESPL_OFFER_REVOCABLE 0x2u /* the provider may end a lease */
#define ESPL_OFFER_GONE 0x4u      /* no longer offered; listed so that numbers stay valid */
/* Its machines cost money before anything is known of them: one is leased alone, the others when an
 * agent has joined from it.  Set by the host in real runs for offers with a price, too. */
#define ESPL_OFFER_CANARY 0x8u

/* Written by clouds (number is ESPL_ANY then), read by allocators and planners. */
struct espl_offer {
	uint32_t size;
	uint32_t flags;
	uint32_t number;      /* its index in every list of offers of this run */
	uint32_t gpus;        /* per node */
	uint32_t cpus;        /* per node; 0 unknown */
	uint32_t nodes_max;   /* quota; ESPL_ANY: unknown */
	const char *name;     /* the cloud's own name for it, unique per cloud and market */
	const char *market;   /* "on-demand", "spot", ... */
	const char *gpu_type; /* profiles are stored for each type; "" none */
	const char *zone;     /* where the machines are; "" none */
	uint64_t memory_bytes, gpu_memory_bytes; /* per node, per GPU; 0 unknown */
	/* current price of a node-hour (FUNCTION: of all its GPUs) */
	espl_money price_hour;
	espl_money fixed_price_hour; /* the same machine on demand; 0 unknown */
	espl_money data_gb;          /* per GB that a new node downloads (RubberBand 6.1.2) */
	espl_billing billing;
	espl_bill_start billed_from; /* INIT billed or not: RubberBand 6.1.4 */
	espl_span billing_step; /* leases are billed in multiples of it; usually 1 s; 0: exactly */
	espl_span minimum_charge; /* billed at least, if the user ends the lease earlier
				   * (RubberBand 4.1) */
	espl_span refund_before;  /* if the provider ends it earlier, the whole lease is free; 0:
				   * never (SpotTune 3.2: the first hour) */
	espl_span notice;         /* time between the notice and the end; 0 none */
	espl_span lease_max;      /* wall-time limit (Slurm); 0 none */
	const struct espl_latency *provision; /* request to boot, seconds */
	const struct espl_latency *init;      /* boot to ready */
	double hazard_hour;  /* revocations per node-hour, from logs; NaN unknown */
	double hazard_hours; /* node-hours that this estimate is based on (gamma prior) */
};

typedef uint32_t espl_node_state; /* of a lease; they only advance */
enum {
	ESPL_NODE_REQUESTED = 1,
	ESPL_NODE_BOOTING,
	ESPL_NODE_READY,
	ESPL_NODE_NOTICE,
	ESPL_NODE_ENDED /* ENDED: in cloud events only, views do not list it */
};

#define ESPL_NODE_RETIRING 0x1u    /* gets no new gangs, and is released when it is empty */
#define ESPL_NODE_QUARANTINED 0x2u /* every trial fails there: treated as if it had no GPUs */
/* The provider expects to take the node back, but has not said when: its trials have saved, and a
 * placer prefers other nodes.  The flag stays until the node ends. */
#define ESPL_NODE_AT_RISK 0x4u
/* The connection to the node is broken for now: its gangs keep running there, its idle GPUs do not
 * count, and nothing new is placed there. */
#define ESPL_NODE_UNREACHABLE 0x8u

struct espl_gpu {
	uint32_t size;
	uint32_t residents; /* trials on it; 0 idle */
	uint32_t packing;   /* how many trials may share it; 1 exclusive; 0 idle */
	uint32_t blocked;   /* 1: broken, or not yet known to be clean */
};
/* The owner of a node: an item, or (this and its number) a bracket of the plan in force. */
#define ESPL_OWNER_BRACKET (UINT64_C(1) << 63)
struct espl_node {
	uint32_t size;
	espl_node_state state;
	uint64_t id;        /* the lease's number, unique in the run, rising */
	uint32_t offer;     /* number of its offer */
	uint32_t flags;     /* ESPL_NODE_* */
	uint32_t gpus_idle; /* whole GPUs that can be used now; 0 unless READY */
	uint32_t gpu_count;
	const struct espl_gpu *const *gpus; /* [gpu_count] */
	/* item or bracket that owns it (allocator.h), else NONE */
	uint64_t owner;
	espl_time ready_at;    /* when it became READY, or is expected to */
	espl_time billed_from; /* start of the lease; NEVER before it */
	espl_time ends_at;     /* known end: after a notice, or by a wall-time limit; else NEVER */
	espl_money max_price_hour; /* 0: none given */
	espl_money charged;        /* cost so far in the host's ledger */
};

/* Why an allocator or a placer is called: everything that happened in the round. */
#define ESPL_WHY_ARRIVAL 0x001u
#define ESPL_WHY_DEPARTURE 0x002u
#define ESPL_WHY_NODES 0x004u   /* ready, lost, released */
#define ESPL_WHY_NOTICE 0x008u  /* of revocation */
#define ESPL_WHY_TIME 0x010u    /* wake_at */
#define ESPL_WHY_PRICE 0x020u   /* the price of an offer changed that watch_prices named */
#define ESPL_WHY_PROFILE 0x040u /* a share was measured that no profile covers */
#define ESPL_WHY_OUTCOME 0x080u
#define ESPL_WHY_HINT 0x100u /* an algorithm changed a weight or a bound */
/* a start or a change is complete, its item could use more GPUs, and some GPUs are not granted */
#define ESPL_WHY_SETTLED 0x200u

#ifdef __cplusplus
}
#endif
#endif
