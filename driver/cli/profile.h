/* profile.h - the parts of `espalier profile`: the subject of the measurements, one measurement,
 * writing the profile, and the cache for `trial.profile = "auto"`.
 */
#ifndef ESPL__CLI_PROFILE_H
#define ESPL__CLI_PROFILE_H
#include "cli/inputs.h"
#include "input/input.h"

/* ---- profile_subject.c: the trial that is measured, and the hardware ---- */

struct espl__subject {
	double *values;           /* the configuration: the user's first one, or the middle
				   * of the space */
	char *point;              /* the same as a libconfig group */
	char *json;               /* the same as JSON */
	char *offer;              /* the leased offer; NULL: the cloud has not named one yet */
	int on_cpu;               /* measures CPU slots, not GPUs */
	char *device;             /* for people: "NVIDIA H200", or the processor's name */
	uint32_t gpus, nodes_max; /* of the offer; gpus 0: not known */
	uint64_t digest;          /* of everything that the profile depends on */
};
espl_status espl__subject_find(const struct espl__inputs *, struct espl__subject *,
    struct espl__diag *);
void espl__subject_free(struct espl__subject *);

/* ---- profile_measure.c: one measurement, an ordinary run in a directory of its own ---- */

/* how the trial is made to change in place */
enum espl__measure_resize {
	ESPL__RESIZE_NONE,
	ESPL__RESIZE_LESS, /* another one comes: it goes to half of its GPUs */
	ESPL__RESIZE_MORE  /* another one is stopped: it gets all of them */
};
struct espl__measure_ask {
	const char *file; /* the user's, with what is set there (--set) */
	const char *const *sets;
	uint32_t set_count;
	const struct espl__subject *subject;
	const char *dir;                  /* does not exist yet; is removed */
	uint32_t gpus, packing;           /* packing > 1: trials on one GPU */
	enum espl__measure_resize resize; /* nothing else is measured then */
	int checkpoint;                   /* trials can save: pause one in between */
	int torchrun;         /* a single rank has torchrun's variables, as it would in a search */
	uint32_t least, most; /* iterations that are timed */
	espl_span limit;      /* of the time it trains; 0: none */
	double iteration_s;   /* packing: of a trial alone */
	espl_money budget;    /* INT64_MAX: none */
};
enum espl__measure_end {
	ESPL__MEASURED = 1,
	ESPL__MEASURE_FAILED,  /* a trial failed */
	ESPL__MEASURE_STOPPED, /* by the user */
	ESPL__MEASURE_BROKE,   /* the budget was used up before an iteration was timed */
	ESPL__MEASURE_LATE     /* and so was the time */
};
struct espl__measurement {
	enum espl__measure_end end; /* 0: it could not be made at all */
	uint32_t gpus, packing;
	/* Seconds.  An iteration; from the start of a gang to its first report, of a fresh trial
	 * and of one that resumes from a checkpoint; from the last report to the gang's end, the
	 * checkpoint included. */
	struct espl__tally iteration, begin, again, save;
	struct espl__tally resize; /* seconds without training */
	double elapsed_s, gpu_s;   /* of the whole run */
	espl_money cost;
	double speed;   /* throughput, relative to one trial on one GPU */
	double fitted;  /* the same as it goes into the profile; 0: left out */
	char log[2048]; /* FAILED: the end of what the trial printed */
};
/* MEASURED with at least one iteration timed (of resizes: perhaps none), or the diag says why not.
 */
espl_status espl__measure(const struct espl__measure_ask *, struct espl__measurement *,
    struct espl__diag *);

/* ---- profile_write.c: all measurements as a profile, and as a table ---- */

struct espl__profiled {
	const struct espl__inputs *inputs;
	const struct espl__subject *subject;
	struct espl__measurement *list; /* GPUs rising, then packings rising */
	uint32_t wides, packs, cap;     /* how many of each */
	int resizes;                    /* the trial can be resized in place */
	struct espl__tally resize;      /* of all widths together */
	double elapsed_s, gpu_s;        /* of all, failed ones too */
	espl_money cost;
	struct espl__buf notes; /* lines: what was left out, and why */
};
/* Fits throughput to what a profile must keep: speed -> fitted. */
void espl__profiled_fit(struct espl__profiled *);
/* The profile as JSON: of several lines, or of one. */
void espl__profiled_json(const struct espl__profiled *, int lines, struct espl__buf *);
void espl__profiled_text(const struct espl__profiled *, struct espl__buf *);
char *espl__format_latency(double s, char to[32]); /* three digits: "1.03s", "12.4ms" */

/* ---- profile_cache.c: what was measured before ---- */

/* Where the profile of this subject is kept; E_CONFIG with a hint if there is none.
 * free() it. */
espl_status espl__profile_place(const struct espl__subject *, char **path, struct espl__diag *);
/* espl__inputs_load for what has no directory yet: `trial.profile = "auto"`, which is the default,
 * becomes the kept profile of this trial on this hardware, if there is one; `tell`: says so. */
espl_status espl__inputs_load_auto(const char *path, const char *const *sets, uint32_t set_count,
    enum espl__need, int tell, struct espl__inputs *, struct espl__diag *);
/* check_all.c: loads as above and calls espl__inputs_check.  If there are several mistakes, all
 * but the last are printed to standard error; the last is left in the diag. */
espl_status espl__inputs_check_all(const char *path, const char *const *sets, uint32_t set_count,
    struct espl__inputs *, struct espl__diag *);
#endif
