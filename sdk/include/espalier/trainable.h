/* espalier SDK: trainable.h - a trial in C, hosted by a worker process (one per rank).
 *
 * Same descriptor as a policy (kind ESPL_TRAINABLE): its options are trial.options.  The global
 * batch of a trial does not depend on the size of its gang: the trainable divides it by world,
 * remainder included, and accumulates gradients.  So a resize does not change what is learned: with
 * allreduce only the order of sums differs, with sum_shards not a single bit.  `simulate` hosts
 * trainables in process: world 1, CPU, no files, no globals.
 */
#ifndef ESPALIER_TRAINABLE_H
#define ESPALIER_TRAINABLE_H
#include <espalier/abi.h>
#include <espalier/host.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t espl_device_kind; /* where memory is, or where a rank computes */
enum { ESPL_CPU = 1, ESPL_CUDA = 2 };
typedef uint32_t espl_dtype; /* of elements in collective calls */
enum { ESPL_F32 = 1, ESPL_F64, ESPL_F16, ESPL_BF16, ESPL_I32, ESPL_I64, ESPL_U8 };
typedef uint32_t espl_reduce;
enum { ESPL_SUM = 1, ESPL_MEAN, ESPL_MIN, ESPL_MAX };

struct espl_device {
	uint32_t size;
	espl_device_kind kind;
	uint32_t ordinal; /* its number in the device's own library, in this process */
	uint32_t packing; /* 1: exclusive; c: shared with at most c-1 others */
	uint32_t threads; /* CPU threads this rank may use */
	uint32_t zero;
	void *stream;          /* cudaStream_t, non-default; NULL on CPU */
	uint64_t memory_limit; /* bytes of device memory, 0: all */
	const char *uuid;      /* the vendor's unique name of the device; "" none */
};

/* The communicator of one generation of the gang.  All ranks make the same calls in the same order.
 * With a stream, calls are queued on it and return at once; without one, they are complete on
 * return.  ESPL_E_PEER: a rank is gone or the host aborts: return this status from step at once,
 * and do not use the communicator again.  Wait for the stream only with `wait`. */
struct espl_comm {
	uint32_t size;
	uint32_t rank, world; /* world 1: all calls succeed and do nothing (or copy) */
	uint32_t node_rank;   /* rank among those on this node */
	uint32_t node_world;  /* number of ranks on this node */
	uint32_t generation;  /* increases with every resize */
	void *ctx;            /* the host's */
	void *native;         /* ncclComm_t, for CUDA graphs and kernels of your own; else NULL */
	/* Data is in the device's memory.  in == out is allowed.  Bitwise repeatable for a given
	 * world on CPU.  count elements; MEAN of integers: E_UNSUPPORTED. */
	espl_status (*allreduce)(const struct espl_comm *, const void *in, void *out,
	    uint64_t count, espl_dtype, espl_reduce);
	/* Copies the data of rank `root` to all ranks. */
	espl_status (*broadcast)(const struct espl_comm *, void *data, uint64_t count, espl_dtype,
	    uint32_t root);
	/* out has world * count elements, those of rank 0 first. */
	espl_status (*allgather)(const struct espl_comm *, const void *in, void *out,
	    uint64_t count, espl_dtype);
	/* Returns when every rank has called it. */
	espl_status (*barrier)(const struct espl_comm *);
	/* out = shard 0 + shard 1 + ... in this order, whatever ranks hold them: bitwise the same
	 * for every world.  This rank holds `mine` vectors of count elements, beginning with number
	 * `first`.  For trainables that cut the batch into fixed micro-shards (slower). */
	espl_status (*sum_shards)(const struct espl_comm *, const void *shards, void *out,
	    uint64_t count, espl_dtype, uint32_t first, uint32_t mine, uint32_t total);
	/* Waits until everything on the device's stream is done; notices lost ranks and aborts. */
	espl_status (*wait)(const struct espl_comm *);
	/* Reduces a few numbers in host memory (loss, counts); complete on return.  Call wait
	 * first. */
	espl_status (
	    *reduce_host)(const struct espl_comm *, double *values, uint32_t count, espl_reduce);
};

struct espl_setting {
	const char *name;
	const char *text;
	double value;
}; /* frozen, 24 bytes:
    * a parameter; text is its label or number as written, value NaN for a label */

struct espl_trial_context { /* host-owned, valid from open to close; comm and device
			     * are replaced at resize, never changed in between */
	uint32_t size;
	uint32_t setting_count;
	const struct espl_setting *settings; /* active parameters and constants */
	uint64_t trial;                      /* its id in the experiment */
	uint64_t seed;           /* the trial's; the same on all ranks and at every start */
	uint64_t budget;         /* iteration this start trains up to (may rise) */
	uint64_t iterations_max; /* the search's last iteration (schedules, fidelity) */
	const struct espl_device *device; /* the device of this rank */
	const struct espl_comm *comm; /* the communicator of the gang; world 1 if it has one rank */
	const char *scratch;          /* directory private to this rank; "" in simulation */
};

/* only what rank 0 reports counts; other ranks may call it too */
struct espl_report_sink {
	uint32_t size, zero;
	/* Reports one metric of this iteration; the experiment's own metric must be reported.  If a
	 * name is repeated, the last value counts; names may differ between iterations. */
	espl_status (*metric)(struct espl_report_sink *, const char *name, double value);
	/* Says that the trial is complete before its budget (converged). */
	espl_status (*finished)(struct espl_report_sink *);
};

/* Memory that is the trial's whole state: parameters, optimizer, generators, counters.  The host
 * copies it for checkpoints and broadcasts it from rank 0 at a resize. */
struct espl_region_sink {
	uint32_t size, zero;
	/* bytes of memory at data, on the host or the device, valid until the next resize or
	 * close; names are unique, at most 63 bytes. */
	espl_status (*region)(struct espl_region_sink *, const char *name, void *data,
	    uint64_t bytes, espl_device_kind where);
};

struct espl_trainable_ops {
	struct espl_ops head;
	/* A fresh trial on this rank.  The same seed must give the same start on every rank. */
	espl_status (*open)(void *self, const struct espl_trial_context *, void **trial,
	    struct espl_error *);
	/* Frees everything that open allocated, also after a failed step. */
	void (*close)(void *trial);
	/* One iteration (number `iteration`, from 1).  All ranks of the gang run it at the same
	 * time.  Verdicts, saving and resizing happen between two steps, so if a step is longer
	 * than a cloud's notice, a revocation loses everything since the last checkpoint. */
	espl_status (
	    *step)(void *trial, uint64_t iteration, struct espl_report_sink *, struct espl_error *);
	/* State: either regions (same names, order and sizes on every rank and at every world), or
	 * save and load, or both (save and load are then used for checkpoint files). */
	espl_status (*regions)(void *trial, struct espl_region_sink *, struct espl_error *);
	/* The whole state as bytes; load gets the same bytes, on a trial that was just opened. */
	espl_status (*save)(void *trial, struct espl_byte_sink *, struct espl_error *);
	espl_status (*load)(void *trial, struct espl_byte_source *, struct espl_error *);
	/* Optional: grow, shrink, move in place.  Between two steps, on every rank that stays
	 * (old communicator gone: destroy graphs that captured it; new one in the context), and on
	 * new ranks, which opened the trial alone.  Then the state comes from rank 0 by regions or
	 * load, and `resized` is called on all.  NULL: the gang restarts from a checkpoint. */
	espl_status (*resize)(void *trial, const struct espl_trial_context *, struct espl_error *);
	espl_status (*resized)(void *trial, struct espl_error *);
	/* Optional: checks whether a trial with these settings could be opened.  Called in the
	 * driver's process before anything is started; must be quick and do no I/O.  Only settings
	 * and iterations_max (at least 1) of the context are filled in; device and comm are NULL.
	 * E_CONFIG: what is missing or wrong, in the words that open would use. */
	espl_status (*suits)(void *self, const struct espl_trial_context *, struct espl_error *);
};

#ifdef __cplusplus
}
#endif
#endif
