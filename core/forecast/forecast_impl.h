/* forecast_impl.h - what the parts of the execution model share among themselves.
 *
 * A plan becomes a course: one step for each stage that has not ended, in order of time, with what
 * happens to the nodes between the steps, which is the same in every sample.  Sampled times of
 * the steps come from the tables (forecast_time.c) or from the explicit graph (forecast_dag.c);
 * either way forecast_bill.c turns them into money.
 */
#ifndef ESPL__FORECAST_IMPL_H
#define ESPL__FORECAST_IMPL_H
#include "base/map.h"
#include "forecast/forecast.h"
#include "forecast/forecast_draw.h"

#define ESPL__SAMPLES_MAX (1u << 20)
#define ESPL__DRAWS_MAX (1u << 20) /* of a stage's trials, or of as many nodes */
#define ESPL__SAMPLES_MIN 8u       /* however many trials or nodes there are */

/* Samples are powers of two, so that a smaller table can be reused evenly: sample s of the
 * plan is sample s & (count - 1) of a table with `count`. */

/* ---- tables -------------------------------------------------------------------------- */

/* of the first `row` + 1 new nodes together */
struct espl__boot_row {
	uint32_t samples, zero;
	double *from; /* [samples] this node's: request to begin of its bill */
	/* [samples] the last one's time to ready; sum of their `from` */
	double *last, *froms;
	double *ready; /* [samples] `last`, its mean corrected */
	double mean_ready, mean_froms;
};
/* of an offer, in seconds and dollars */
struct espl__terms {
	const struct espl_offer *offer;
	double usd_s;              /* of a node; by function: of a GPU */
	double data_usd;           /* of a new node */
	double minimum_s, step_ns; /* 0: none */
	int function;
	int stepped; /* a lease may cost more than its time does */
	struct espl__dist provision, init;
	int random;             /* readiness differs from node to node */
	int random_from;        /* and so does the begin of the bill */
	double ready_s, from_s; /* where they do not */
	uint64_t key;
	double speed;  /* of its type of GPU, relative to the hardware that was profiled */
	uint32_t kind; /* offers of the same speed have the same one */
	struct espl__boot_row *rows;
	const double **froms; /* [row_count] rows[].from */
	uint32_t row_count, row_cap;
	struct espl__boot_means *means;
};

/* of a stage, for a number of GPUs per trial and of slots */
struct espl__timing {
	double mean, sd;          /* seconds, with the barrier */
	double busy;              /* mean GPU-seconds */
	double *seconds, *busy_s; /* [samples of the stage's table] */
	double one[2];            /* where these are if there is but one */
};
/* trials of a stage that have come equally far */
struct espl__cohort {
	uint32_t trials;
	uint32_t restores;      /* 1: from a checkpoint */
	double earlier;         /* iterations of each before this stage */
	struct espl__sum again; /* of these, the iterations that it repeats, on one GPU */
};
struct espl__stage_table {
	const struct espl_stage *stage;
	uint32_t bracket, number; /* its position in the spec */
	uint64_t key;
	uint32_t samples;             /* 0: not yet drawn */
	int random;                   /* its trials differ */
	struct espl__cohort *cohorts; /* by iterations trained, most first; new trials last */
	uint32_t cohort_count;        /* 1 unless a stage has more trials than the one before */
	uint32_t leavers;             /* trials that the next stage does not have */
	struct espl__sum train;       /* on one GPU: the increment */
	double *train_s, *again_s, *enter_s, *leave_s; /* [samples][trials] */
	double *sync_s;                                /* [samples] */
	struct espl__map *timings;  /* [kind][warm before, after]: by GPUs per trial and slots */
	struct espl__map vacancies; /* by GPUs per trial and layout */
};
#define ESPL__WARM_BEFORE 1u /* gangs continue from the previous stage */
#define ESPL__WARM_AFTER 2u  /* ... into the stage after */

/* How the trials of a stage are laid out on its nodes (planning.release = "idle"). */
struct espl__slot_layout {
	uint32_t nodes, slots;
	uint32_t each;    /* nodes of a trial; 1: or fewer */
	uint32_t room;    /* trials of a unit, which is `each` nodes */
	uint32_t units;   /* in all */
	uint32_t entries; /* these, and the rest of the nodes if there is one */
};
/* when the nodes of a stage come free after its training began */
struct espl__vacancy {
	uint32_t entries, zero;
	double *until;   /* [samples][entries], rising */
	uint32_t *entry; /* likewise: which one */
};

/* ---- a plan's course ----------------------------------------------------------------- */

struct espl__step {
	struct espl__forecast_stage view;
	uint32_t place;       /* in the plan */
	uint32_t table;       /* of its stage */
	uint32_t warm;        /* ESPL__WARM_* */
	uint32_t first;       /* 1: a bracket, or all, begins with it */
	uint32_t kept, fresh; /* nodes: from the step before, new */
	struct espl__terms *terms;
	const struct espl__timing *timing;
	uint32_t ahead;                      /* 1: the step before asks for the new nodes */
	double past_s;                       /* how long its trials have trained already; 0 */
	uint32_t sample_mask, sample_turn;   /* of its timing; of its new nodes' rows */
	uint32_t floor, releases;            /* nodes that stay to its end; 1: others go earlier */
	struct espl__slot_layout layout;     /* where they do */
	const struct espl__vacancy *vacancy; /* likewise */
	double begin_sum, end_sum, cost_sum; /* over samples */
};
/* nodes that come and go together */
struct espl__holding {
	uint32_t from_step; /* where they are new; ESPL_ANY: held at the beginning */
	uint32_t from, to;  /* of the step's new nodes, or one of the held */
	uint32_t last_step; /* they go at its end */
	const struct espl__terms *terms;
};
/* a step in one sample: seconds from the beginning */
struct espl__moment {
	double begin, train, end; /* the step before ended; training began; barrier over */
	double busy;              /* GPU-seconds */
	/* The bill of new node j begins at base + rows[j][at], or at base where rows is NULL. */
	const double *const *rows;
	uint32_t at, zero;
	double base, froms; /* froms: the sum of these begins */
	/* [entries of the step's layout] after `train`; NULL: all nodes stay until the end */
	const double *until;
	const uint32_t *entry;
};
/* of a node, in one sample */
struct espl__lease {
	double from;    /* its bill began */
	double surplus; /* seconds beyond its time that are paid already */
	uint32_t over, zero;
};
struct espl__runner;

#define ESPL__FORECAST_MAGIC 0x6e677a6du
struct espl__forecast {
	struct espl__forecast_setup setup;
	uint32_t magic; /* ESPL__FORECAST_MAGIC */
	struct espl__dist iteration, sync, start, checkpoint, restore;
	int exact;
	uint32_t samples;
	struct espl__normal *normal; /* NULL if nothing is random */
	struct espl__terms *terms;   /* [offer_count] */
	uint32_t kind_count;         /* of offers that differ in speed; at least 1 */
	struct espl__stage_table *tables;
	uint32_t table_count;
	uint32_t *first_table; /* [bracket] */
	struct espl__arena timings;
	size_t timing_bytes;
	/* scratch of one plan */
	uint32_t *places; /* [table_count] the plan's entry of this stage */
	uint8_t *taken;   /* [held_count] */
	uint32_t *taker;  /* [held_count] 1 + the step that took it; 0 */
	struct espl__step *steps;
	struct espl__moment *moments;
	uint32_t step_count;
	struct espl__holding *holdings; /* [holding_count] that are gone, then those that live */
	struct espl__holding *living;
	uint32_t holding_count, living_head, living_tail;
	double *jct, *cost;         /* [samples] */
	uint32_t *order;            /* [samples] */
	double *trials_s, *slots_s; /* of one sample of one stage */
	uint32_t trials_cap, slots_cap;
	struct espl__lease *leases;
	struct espl__runner *runners;
	uint32_t *unit_busy;
	double *unit_ends;
	uint32_t leases_cap, runners_cap, unit_busy_cap, unit_ends_cap;
};

/* forecast_boot.c */
void espl__terms_init(struct espl__forecast *, uint32_t offer);
void espl__terms_free(struct espl__terms *);
/* The row of `nodes` > 0 new nodes of a random offer. */
const struct espl__boot_row *espl__boot_row(struct espl__forecast *, struct espl__terms *,
    uint32_t nodes);

/* forecast_table.c.  A timing stays where it is until espl__timings_trim. */
void espl__tables_init(struct espl__forecast *);
void espl__tables_free(struct espl__forecast *);
void espl__timings_trim(struct espl__forecast *);
/* How many samples to take if each costs this many draws. */
uint32_t espl__samples_for(const struct espl__forecast *, uint64_t draws_each);
const struct espl__timing *espl__timing(struct espl__forecast *, uint32_t table,
    const struct espl__terms *, uint32_t gpus, uint32_t slots, uint32_t warm);
/* Seconds on so many GPUs of an offer for each second on the profile's one. */
static inline double
espl__ratio(const struct espl__forecast *f, const struct espl__terms *terms, uint32_t gpus)
{
	struct espl_share share = { gpus, 1 };

	return f->setup.speed / (espl__profile_speed(f->setup.profile, share) * terms->speed);
}
/* Trials on `slots` slots, in order: what each takes becomes when it ends.  Returns when the last
 * one does.  heap: room for `slots` + 1 numbers. */
double espl__queue(double *trials_s, uint32_t trials, uint32_t slots, int chain, double *heap);

/* What each trial of a cold stage takes in one sample. */
void espl__trial_lengths(const struct espl__forecast *, const struct espl__stage_table *,
    const struct espl__terms *, uint32_t gpus, uint32_t sample, double *trials_s);

/* forecast_saves.c: mean number of checkpoints of a trial before its last iteration's end. */
double espl__saves_on_the_way(const struct espl__forecast *, const struct espl__stage_table *,
    const struct espl__terms *, int restores, uint32_t gpus, uint32_t warm);

/* forecast_course.c: the layout of a stage in the plan in force; NULL: it has not begun.
 * *warm: do its trials continue in the gangs of the previous stage? */
const struct espl_plan_stage *espl__begun(const struct espl__forecast *, uint32_t table,
    double *past_s, int *warm);
/* ESPL_E_CONFIG, ESPL_E_INFEASIBLE. */
espl_status espl__course_lay(struct espl__forecast *, const struct espl_plan *,
    struct espl__diag *);

/* forecast_bill.c: one sample's completion time and cost, from the moments; adds these to the
 * steps' sums. */
void espl__bill(struct espl__forecast *, double *jct, double *cost);
/* Seconds that are charged for a lease of this many. */
double espl__charged(const struct espl__terms *, double seconds);

/* forecast_idle.c, for planning.release = "idle".  Are nodes of this step, whose floor is known,
 * released before its end?  Fills in how its trials are laid out. */
int espl__slot_layout_of(const struct espl__forecast *, const struct espl__step *,
    struct espl__slot_layout *);
/* When the nodes come free, from what each trial takes: [entries], rising. */
void espl__vacate(struct espl__forecast *, const struct espl__slot_layout *, const double *lengths,
    uint32_t trials, double *until, uint32_t *entry);
const struct espl__vacancy *espl__vacancy(struct espl__forecast *, const struct espl__step *);
void espl__bill_idle(struct espl__forecast *, double *jct, double *cost);

/* forecast_time.c: the samples of the tables. */
void espl__walk(struct espl__forecast *);

/* forecast_dag.c: samples critical paths of the explicit graph of the course. */
espl_status espl__dag_walk(struct espl__forecast *, uint32_t samples, double *jct, double *cost,
    uint32_t *nodes, struct espl__diag *);
#endif
