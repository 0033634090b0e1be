/* espalier SDK: abi.h - what every plugin and every header below needs.
 *
 * Conventions of all headers
 *   Units    espl_time/espl_span: ns.  espl_money: micro-dollars (10^-6 USD).  A double has its
 *            unit in its name (_s seconds, _usd dollars, _hour per node-hour).
 *   Unknown  double: NaN; 64-bit id: ESPL_NONE; 32-bit number: ESPL_ANY; instant: ESPL_NEVER.
 *   Views    written by the host, const, borrowed until the call returns, as are strings.
 *   Sinks    arguments are copied before the sink returns; a refused call (ESPL_E_REJECTED)
 *            changes nothing, and the plugin may continue.
 *   Size     every struct starts with its size in bytes unless marked frozen.  The side
 *            that allocates it sets it (ESPL_INIT); the other accesses no byte beyond it.
 *   Growth   fields are appended, never moved, never reused; lists are arrays of pointers,
 *            arrays of frozen structs or scalars.  No long, bool, enum type or bit-field.
 *   Threads  all calls into a plugin come from one thread; only host->log may be called
 *            from another one.
 */
#ifndef ESPALIER_ABI_H
#define ESPALIER_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ABI history, newest first.  Appending raises the minor, anything else the major.  While the major
 * is 0, every minor may break plugins: a plugin must have exactly the host's minor.
 *   0.2  espl_trainable_ops.suits, and what is marked "since minor 2"
 *   0.1  first version */
#define ESPL_ABI_MAJOR 0u
#define ESPL_ABI_MINOR 2u
#define ESPL_ABI ((ESPL_ABI_MAJOR << 16) | ESPL_ABI_MINOR)
#define ESPL_MAGIC 0x6c707365u /* "espl" */

#if defined(__GNUC__)
#define ESPL_EXPORT __attribute__((visibility("default")))
#define ESPL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define ESPL_EXPORT
#define ESPL_PRINTF(f, a)
#endif

typedef int64_t espl_time;   /* instant; 0 = start of the run; may be negative (price history) */
typedef int64_t espl_span;   /* length of time, ns */
typedef int64_t espl_money;  /* micro-dollars */
#define ESPL_NEVER INT64_MAX /* never, or an instant that is not known */
#define ESPL_NONE UINT64_MAX /* no such id */
#define ESPL_ANY UINT32_MAX  /* no such number, no limit, or any: as the field says */
#define ESPL_SECOND INT64_C(1000000000) /* espl_span of one second */
#define ESPL_USD INT64_C(1000000)       /* espl_money of one dollar */

typedef uint32_t espl_kind; /* kind of plugin; its file is named KIND_NAME.so */
enum {
	ESPL_ALGORITHM = 1,
	ESPL_ALLOCATOR = 2,
	ESPL_CLOUD = 3,
	ESPL_PLACER = 4,
	ESPL_TRAINABLE = 5, /* same descriptor, same loader, loaded by workers */
	ESPL_SAMPLER = 6    /* chosen by an option of an algorithm; since minor 2 */
};

typedef int32_t espl_status; /* what most functions return; failures are negative */
enum {
	ESPL_OK = 0,
	ESPL_E_CONFIG = -1,       /* an option is unusable; the user can fix it */
	ESPL_E_NOMEM = -2,        /* out of memory */
	ESPL_E_BUSY = -3,         /* not now: the host asks again when something changes */
	ESPL_E_INFEASIBLE = -4,   /* nothing satisfies the constraints */
	ESPL_E_REMOTE = -5,       /* something outside this process failed */
	ESPL_E_REJECTED = -6,     /* a sink refused the decision */
	ESPL_E_BUG = -7,          /* a state that the plugin's author thought impossible */
	ESPL_E_PEER = -8,         /* a rank of the gang is gone, or aborted */
	ESPL_E_LIMIT = -9,        /* a limit of time, memory or size was reached */
	ESPL_E_UNSUPPORTED = -10, /* this host, device or provider cannot do it */
	ESPL_E_UNKNOWN = -11      /* no such name, id, or not measured */
};

/* Owned by the caller, written by the callee, may be NULL.  First failure wins. */
struct espl_error {
	uint32_t size;
	espl_status status; /* ESPL_OK: no error yet; espl_fail fills it once */
	uint32_t
	    option; /* index of the option at fault, for FILE:LINE in the message; else ESPL_ANY */
	uint32_t row;   /* row of a TABLE option, else ESPL_ANY */
	char text[240]; /* what is wrong, one line */
	char hint[240]; /* what to do about it, may be empty */
};

/* Capabilities.  Low half: promises, which a host may ignore.  High half: demands; a host refuses
 * those that it does not know. */
#define ESPL_CAP_PURE (UINT64_C(1) << 0)      /* same views + same random = same answers */
#define ESPL_CAP_SIMULATED (UINT64_C(1) << 1) /* a cloud that costs nothing */
/* an algorithm that can do nothing without checkpoints */
#define ESPL_CAP_NEEDS_SAVES (UINT64_C(1) << 3)
/* documented with its example instead of in the reference pages */
#define ESPL_CAP_EXAMPLE (UINT64_C(1) << 2)
#define ESPL_NEED_IO (UINT64_C(1) << 32)      /* http, spawn, timers: clouds only */
#define ESPL_NEED_COMPUTE (UINT64_C(1) << 33) /* child-process computations (host.h) */
#define ESPL_NEED_CUDA (UINT64_C(1) << 34)    /* trainables */

/* ---- options: the schema with which the host reads the user's libconfig group ---------- */

typedef uint32_t espl_option_type;
enum {
	ESPL_OPT_BOOL = 1, /* true, false; value 1, 0 */
	ESPL_OPT_INT,      /* 64 bits */
	ESPL_OPT_REAL,     /* never NaN */
	ESPL_OPT_STRING,
	ESPL_OPT_CHOICE,  /* one of choices; value is its index */
	ESPL_OPT_SPAN,    /* "90s", "1h30m"; a bare number is seconds */
	ESPL_OPT_BYTES,   /* "512MiB"; a bare number is bytes */
	ESPL_OPT_MONEY,   /* dollars */
	ESPL_OPT_PATH,    /* the host reads the file; host->file returns its bytes */
	ESPL_OPT_LATENCY, /* "15s" or { dist; mean; sd; } */
	ESPL_OPT_TABLE,   /* ( (32, 1), ... ) or ( { name = ...; }, ... ): see columns */
	/* Another plugin, for this instance: "gp" or { use = "gp"; ... }; choices is its kind, of
	 * which there is "sampler"; value: its name; since minor 2 */
	ESPL_OPT_PLUGIN
};
#define ESPL_OPT_REQUIRED 0x1u /* the user must set it; fallback is not used */
/* Never printed, logged or written to run.cfg.  A STRING may be "env:NAME" or "file:PATH": run.cfg
 * keeps this reference, and create gets the secret, if the cloud is used, or the reference, if it
 * only describes itself (plan, simulate). */
#define ESPL_OPT_SECRET 0x2u
#define ESPL_OPT_EXPERIMENTAL 0x4u /* the help text says so */
#define ESPL_OPT_DEPRECATED 0x8u   /* using it prints a warning */

/* read with the descriptor's option_size as stride */
struct espl_option {
	const char *name;                  /* as in the configuration file; unique in the table */
	const char *help;                  /* one sentence without a full stop */
	const char *fallback;              /* default as text, parsed like user input; NULL: none */
	const char *min, *max;             /* text; NULL: no limit */
	const char *choices;               /* CHOICE: "first|best"; PLUGIN: its kind */
	const struct espl_option *columns; /* TABLE only, same stride; no TABLE inside */
	uint32_t column_count;             /* TABLE only */
	espl_option_type type;
	uint32_t flags; /* ESPL_OPT_* */
	uint32_t zero;  /* all fields of this name are 0 and reserved */
};

typedef uint32_t espl_distribution; /* selects the fields of espl_latency that are used */
enum { ESPL_CONSTANT = 1, ESPL_NORMAL, ESPL_LOGNORMAL, ESPL_EMPIRICAL };

/* truncated at 0 */
struct espl_latency {
	uint32_t size;
	espl_distribution kind;
	double mean_s;           /* of the distribution itself, not of its logarithm */
	double sd_s;             /* NORMAL and LOGNORMAL */
	const double *samples_s; /* EMPIRICAL only: all equally likely */
	uint32_t sample_count;   /* EMPIRICAL only */
	uint32_t zero;
};

typedef uint32_t espl_source; /* where a value came from: no value, the fallback, the configuration
			       * file, --set on the command line */
enum { ESPL_UNSET = 0, ESPL_FALLBACK, ESPL_FILE, ESPL_COMMAND };

struct espl_table;
/* frozen, 16 bytes; lives as long as the instance */
struct espl_value {
	union {
		int64_t i; /* BOOL INT CHOICE BYTES; SPAN ns; MONEY micro-dollars */
		double r;
		const char *s; /* STRING, PLUGIN; PATH: as the user wrote it */
		const struct espl_latency *latency;
		const struct espl_table *table;
	} as;
	espl_source source; /* UNSET: no value; the union is all zero */
	uint32_t line;      /* line in the file; 0 unless source is FILE */
};
struct espl_table {
	uint32_t size;
	uint32_t row_count;
	uint32_t column_count; /* equals the option's */
	uint32_t zero;
	const struct espl_value *cells; /* row-major */
};
struct espl_config {
	uint32_t size;
	uint32_t count;                  /* equals the descriptor's option_count */
	const char *instance;            /* the user's name for this instance */
	const struct espl_value *values; /* in the order of the plugin's options */
};

/* ---- the one exported object ----------------------------------------------------------- */

struct espl_host; /* host.h */
struct espl_ops {
	uint32_t size;
	uint32_t zero;
}; /* frozen head of every table */

struct espl_plugin {
	uint32_t magic, abi, size;         /* frozen up to name: checked before the rest is read */
	espl_kind kind;                    /* the same as in the file's name */
	const char *name;                  /* the same as in the file's name */
	const char *version;               /* the plugin's own */
	const char *summary;               /* one line, for lists */
	uint64_t caps;                     /* ESPL_CAP_*, ESPL_NEED_* */
	const struct espl_option *options; /* NULL: none */
	uint32_t option_count;
	uint32_t option_size;       /* stride: sizeof(struct espl_option), also without options */
	const struct espl_ops *ops; /* entries of the kind: espl_algorithm_ops, ... */
	/* One instance per experiment (algorithm), run or level of a pool (allocator), run
	 * (placer), cloud of the configuration, worker process (trainable).  host and config stay
	 * valid until destroy.  create does no I/O and makes no decisions.  *self is the plugin's
	 * own state, passed to every entry; it is ignored if create fails.  ESPL_E_CONFIG: an
	 * option is unusable (espl_blame); ESPL_E_UNSUPPORTED: a service that the plugin needs is
	 * not offered; ESPL_E_NOMEM. */
	espl_status (*create)(const struct espl_host *, const struct espl_config *, void **self,
	    struct espl_error *);
	void (*destroy)(void *self); /* called once for each create that succeeded */
	/* Optional parts by id ("espl.compute/0"); returns NULL for an unknown id.  The pointer may
	 * be NULL. */
	const void *(*extension)(void *self, const char *id);
};

/* Does the struct at p, as its author compiled it, have this member?  ESPL_HAS: is this entry also
 * filled in? */
#define ESPL_KNOWS(type_, p_, member_) \
	((p_)->size >= offsetof(type_, member_) + sizeof((p_)->member_))
#define ESPL_HAS(type_, ops_, member_) \
	((ops_)->head.size >= offsetof(type_, member_) + sizeof((ops_)->member_) && \
	    (ops_)->member_ != NULL)

/* A struct with its size set and the rest zero: struct espl_grant grant = ESPL_INIT(struct
 * espl_grant); */
#ifdef __cplusplus
}
template <class type_>
inline type_
espl_init()
{
	type_ value = type_();

	value.size = (uint32_t)sizeof value;
	return value;
}
#define ESPL_INIT(type_) espl_init<type_>()
extern "C" {
#else
#define ESPL_INIT(type_) \
	{ \
		.size = (uint32_t)sizeof(type_) \
	}
#endif
/* clang-format off */
#define ESPL_TABLE(type_) .head = { (uint32_t)sizeof(type_), 0u }
/* clang-format on */

/* ESPL_PLUGIN(allocator, fair) = { ESPL_HEAD(ESPL_ALLOCATOR, "fair"), ... };  in the file that
 * becomes allocator_fair.so.  With the infix, libltdl can also link the module into the program. */
#ifdef __cplusplus
#define ESPL_EXTERN extern "C"
#else
#define ESPL_EXTERN extern
#endif
#define ESPL_PLUGIN(kind_, name_) ESPL_PLUGIN_(kind_##_##name_##_LTX_espalier_plugin)
#define ESPL_PLUGIN_(symbol_) \
	ESPL_EXTERN ESPL_EXPORT const struct espl_plugin symbol_; \
	const struct espl_plugin symbol_
/* clang-format off */
#define ESPL_HEAD(kind_, name_) \
	.magic = ESPL_MAGIC, .abi = ESPL_ABI, \
	.size = (uint32_t)sizeof(struct espl_plugin), .kind = (kind_), .name = (name_)
/* clang-format on */
#define ESPL_OPTIONS(table_) \
	.options = (table_), .option_count = (uint32_t)(sizeof(table_) / sizeof((table_)[0])), \
	.option_size = (uint32_t)sizeof((table_)[0])

#ifdef __cplusplus
}
#endif
#endif
