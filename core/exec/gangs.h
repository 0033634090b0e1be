/* gangs.h - the processes of trials: their slots, their reports and their end. */
#ifndef ESPL__EXEC_GANGS_H
#define ESPL__EXEC_GANGS_H
#include "base/map.h"
#include "exec/executor.h"
#include "model/trials.h"

struct espl__item;
enum espl__gang_state { ESPL__GANG_STARTING = 1, ESPL__GANG_RUNNING, ESPL__GANG_LEAVING };
#define ESPL__GANG_MAGIC 0x63656a63u
struct espl__gang {
	uint32_t magic; /* ESPL__GANG_MAGIC */
	uint64_t id;
	struct espl__trial *trial;
	enum espl__gang_state state;
	struct espl_share share;
	struct espl_slot *slots; /* share.gpus of them: the slots held */
	struct espl_slot *onto;  /* the slots it is moving to, held as well; NULL: none */
	uint32_t onto_count;
	uint64_t iteration;     /* last reported by this gang; what it began from */
	uint64_t reports;       /* of this gang */
	struct espl__mark mark; /* of its last report, whatever it counted */
	espl_time counted;      /* its training until then is in mark.resource */
	uint32_t stuck;         /* reports in a row in which the resource did not grow */
	uint64_t budget;        /* as last sent in a reply */
	espl_time began, last_seen, saved_at; /* start; last sign of life; last checkpoint */
	espl_time over_at;                    /* when it reached its budget; with `over` */
	uint8_t awaiting;                     /* a report wants its reply */
	uint8_t killed;
	uint8_t outlived;  /* the driver that started it; cleared by EV_RESUME */
	uint8_t directive; /* enum espl__directive of its last reply; 0: none yet */
	uint8_t reported;  /* any report came */
	/* with a plan: the id of its item, reported as gone when the GPUs are free; else NONE */
	uint64_t leaves;
	/* it has reported: the next report gives the time of an iteration */
	uint8_t warmed;
	uint8_t sharers;        /* trials on its GPU at its last report, itself included */
	uint8_t hopeless;       /* it failed in a way that is certain to happen again */
	uint8_t timed_out;      /* its trial has trained for as long as it may */
	uint8_t quiet_reported; /* the warning about a missing report was given */
	/* its trial's budget is reached: it leaves, unless kept warm */
	uint8_t over;
	char *fault;                      /* why the executor ends it as failed, or NULL */
	struct espl__gang *prev, *next;   /* all gangs, by id */
	struct espl__gang *older, *newer; /* by last sign of life */
};

/* What is counted of each search. */
struct espl__gang_sums {
	uint32_t count;   /* gangs of its trials */
	uint64_t resized; /* in place */
	double resized_s; /* and what that took together */
	double busy_gpu_s;
};

struct espl__gangs {
	struct espl__map map;
	struct espl__gang *first, *last, *oldest, *newest;
	uint64_t next; /* id */
	uint32_t count;
	struct espl__gang **awaiting; /* a reply */
	uint32_t awaiting_count, awaiting_cap;
	uint64_t resizes, moves; /* as in espl__exec_summary */
	uint32_t gpus_busy;
	double busy_gpu_s;
};

void espl__gangs_free(struct espl__exec *);
struct espl__gang *espl__gang_at(const struct espl__exec *, uint64_t id);
int espl__gang_matches(const struct espl__gang *, const struct espl__item *);
int espl__gang_on(const struct espl__gang *, uint64_t node);    /* has a slot there, or will have */
void espl__gang_seen(struct espl__exec *, struct espl__gang *); /* it lives */
void espl__gangs_kill(struct espl__exec *, struct espl__gang *, espl_span grace);
/* Ends it as failed; hopeless: it is certain to fail again. */
void espl__gang_fault(struct espl__exec *, struct espl__gang *, const char *fault, int hopeless);
/* It has ended for the reason `text`: releases its slots, leaves lists and accounts. */
void espl__gang_free(struct espl__exec *, struct espl__gang *, const char *text);

/* A report came, which awaits its reply. */
void espl__gang_await(struct espl__exec *, struct espl__gang *);
void espl__gangs_sweep(struct espl__exec *); /* keeps those that still await a reply */
int espl__gang_report(struct espl__gang *, uint64_t iteration); /* 1: its first */
/* The iteration for the executor of a report, which becomes the gang's mark; what it has used of a
 * resource that is a metric is given, NaN: it did not say. */
uint64_t espl__gang_counts(struct espl__exec *, struct espl__gang *, uint64_t step, double used);
/* Its budget for the program: with a resource it is ended by a reply. */
uint64_t espl__gang_budget(const struct espl__gang *);
/* An iteration ended, with `sharers` trials on its GPU. 1: its time can be used. */
int espl__gang_timed(struct espl__gang *, uint32_t sharers);
void espl__gang_saved(struct espl__exec *, struct espl__gang *); /* a checkpoint is complete */
/* Its trial's budget is reached, and this item (NONE: none) reported as gone with the gang. */
void espl__gang_over(struct espl__gang *, uint64_t item);
void espl__gang_keep(struct espl__exec *, struct espl__gang *); /* its trial continues in it */
#endif
