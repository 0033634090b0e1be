/* espalier SDK: host.h - what the host provides to every instance.
 *
 * Time, randomness and logs come only from here: a policy that used anything else could not be
 * replayed.  Whatever a service returns is either a pure function of journaled events or is
 * journaled itself.
 */
#ifndef ESPALIER_HOST_H
#define ESPALIER_HOST_H
#include <espalier/abi.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t espl_level;
enum { ESPL_DEBUG = 1, ESPL_INFO, ESPL_WARN, ESPL_ERROR };

typedef uint32_t espl_subject; /* what a note is about */
enum {
	ESPL_ABOUT_RUN = 1,
	ESPL_ABOUT_TRIAL,
	ESPL_ABOUT_ITEM,
	ESPL_ABOUT_GROUP,
	ESPL_ABOUT_NODE,
	ESPL_ABOUT_OFFER
};

struct espl_host {
	uint32_t size;
	uint32_t abi; /* the host's ESPL_ABI */
	void *ctx;    /* the host's */
	/* The time of the event that is being handled: constant within one call into the plugin. */
	espl_time (*now)(const struct espl_host *);
	/* 64 uniform bits.  One stream per instance, derived from (seed, instance name), so that
	 * adding a plugin does not change the numbers of others.  Not available in compute
	 * children. */
	uint64_t (*random)(const struct espl_host *);
	/* Adds one line (without a newline) to the run's log; may be called from any thread. */
	void (*log)(const struct espl_host *, espl_level, const char *text);
	/* Records the reason for a decision.  `espalier explain` shows reasons about a trial or an
	 * item with that trial, all others with the run.  Cheap to call: when verbose is 0 the
	 * host keeps nothing, and a plugin should not even format the text. */
	void (*note)(const struct espl_host *, espl_subject, uint64_t id, const char *text);
	/* Services by id, below.  NULL: this host does not offer it, or not to this kind.  Ask in
	 * create; the pointer stays valid, its contents may change between calls. */
	const void *(*service)(const struct espl_host *, const char *id);
	/* The bytes of a PATH option (row ESPL_ANY) or of a PATH cell of a TABLE option.  The file
	 * is read once, before create, and its digest is journaled: `resume` refuses a changed
	 * file.  The bytes are valid until destroy.  E_UNKNOWN: the option is not a PATH, or has
	 * no value. */
	espl_status (*file)(const struct espl_host *, uint32_t option, uint32_t row,
	    uint32_t column, const void **bytes, uint64_t *size, struct espl_error *);
	/* Calendar of the run: UTC second of time 0, journaled; in simulation from the scenario.
	 * Policies use it for the hour of the day (RevPred's features), never as a clock. */
	int64_t utc_start_s;
	uint32_t verbose;   /* 1: notes are kept */
	uint32_t simulated; /* 1 in `simulate`; policies must not branch on it */
	/* The rules that the run began with; since minor 2.  A plugin whose decisions have changed
	 * asks with espl_follows (util.h), so that a run which is resumed goes on as it began.  0:
	 * the newest. */
	uint32_t rules;
	uint32_t zero;
};
#define ESPL_RULES_UNIQUE 4u    /* no configuration is tried twice */
#define ESPL_RULES_SAMPLERS 5u  /* `tpe` is random search with the sampler of that name */
#define ESPL_RULES_DEADLINES 9u /* `spottune` waits for spot capacity */

/* Service              id                    type                    who may ask */
#define ESPL_SPACE "espl.space/0"           /* espl_space  (space.h)   algorithm, sampler */
#define ESPL_EXPERIMENT "espl.experiment/0" /* espl_experiment(model.h) algorithm, sampler */
#define ESPL_HISTORY "espl.history/0"       /* espl_history (algorithm.h) algorithm, sampler */
#define ESPL_FIRST "espl.first/0"           /* espl_first  (algorithm.h) algorithm, sampler */
#define ESPL_SAMPLING "espl.sampling/0"     /* espl_sampling(sampler.h) algorithm; NULL: none */
#define ESPL_MODEL "espl.model/0"           /* espl_model  (model.h)   algorithm, allocator */
#define ESPL_MARKET "espl.market/0"         /* espl_market (market.h)  allocator */
#define ESPL_COMPUTE "espl.compute/0"       /* espl_compute (below)    algorithm, allocator */
#define ESPL_IO "espl.io/0"                 /* espl_io     (cloud.h)   cloud */
#define ESPL_RUN "espl.run/0"               /* espl_run    (cloud.h)   cloud */
/* Not NULL: the cloud is started only to list or release machines.  It must not check what only a
 * new lease needs, such as a quota or an image. */
#define ESPL_VISIT "espl.visit/0" /* espl_visit (cloud.h) cloud */

/* ---- bytes ----------------------------------------------------------------------------- */

struct espl_byte_sink {
	uint32_t size, zero;
	/* Copies all of the bytes, or fails permanently: E_LIMIT (too many), E_REMOTE (disk). */
	espl_status (*write)(struct espl_byte_sink *, const void *bytes, uint64_t count);
};
struct espl_byte_source {
	uint32_t size, zero;
	/* Fills exactly count bytes or fails with ESPL_E_LIMIT. */
	espl_status (*read)(struct espl_byte_source *, void *bytes, uint64_t count);
	uint64_t left; /* bytes not read yet */
};

/* ---- computations outside the pure call ------------------------------------------------ */
/* For what needs a child process (a solver that may abort) or a wall-clock limit.  The
 * policy submits bytes; later its normal entry is called with the outcome in its view.  The
 * host journals the outcome, so replay does not run the child again.  In simulation the child
 * runs at once and its outcome is delivered `assumed` later on the virtual clock: to keep two
 * simulations identical the computation should end by a limit on its work, not by `limit`. */

struct espl_compute_request {
	uint32_t size;
	uint32_t zero;
	const char *what;      /* one word, for logs and errors */
	const void *input;     /* copied, aligned to 16; ids in it, never pointers */
	uint64_t input_size;   /* bytes */
	espl_span limit;       /* wall-clock limit, after which the child is killed: E_LIMIT */
	espl_span assumed;     /* duration in simulation */
	uint64_t memory_limit; /* bytes, 0: the host's default */
};
struct espl_compute {
	uint32_t size, zero;
	void *ctx; /* the host's */
	/* *token identifies the request in its outcome.  E_LIMIT: too many requests are pending;
	 * E_UNSUPPORTED: the plugin has no espl_compute_ops. */
	espl_status (*submit)(const struct espl_compute *, const struct espl_compute_request *,
	    uint64_t *token, struct espl_error *);
	/* The outcome will not be delivered.  Unknown tokens are ignored. */
	void (*cancel)(const struct espl_compute *, uint64_t token);
};
/* in a view */
struct espl_outcome {
	uint32_t size;
	espl_status status; /* LIMIT, REMOTE (child died), or what run returned */
	uint64_t token;     /* as submit gave it */
	const void *output; /* the bytes that run wrote, aligned to 16; NULL unless status is OK */
	uint64_t output_size; /* bytes */
	espl_span took;       /* measured, journaled; in simulation: assumed */
};

/* The plugin's half, returned by plugin->extension(self, ESPL_COMPUTE).  run is called in a child
 * process, on an instance that create made there from the same configuration; it may use its own
 * libraries, threads and the CPU clock.  Sinks and host->random are not available there. */
struct espl_compute_ops {
	struct espl_ops head;
	espl_status (*run)(void *self, const void *input, uint64_t input_size,
	    struct espl_byte_sink *output, struct espl_error *);
};

#ifdef __cplusplus
}
#endif
#endif
