/* gangs.h - the processes of trials: their seats and their end. */
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
	struct espl_slot *slots; /* share.gpus of them: the seats held */
	struct espl_slot *onto;  /* the slots it is moving to, held as well; NULL: none */
	uint32_t onto_count;
	uint64_t iteration;               /* last reported by this gang; what it began from */
	uint64_t budget;                  /* as told */
	espl_time began, heard, saved_at; /* start; last sign of life; last checkpoint */
	uint8_t awaiting;                 /* a report wants its reply */
	uint8_t killed;
	uint8_t outlived; /* the driver that started it; cleared by EV_RESUME */
	uint8_t told;     /* enum espl__directive of its last reply; 0: none yet */
	uint8_t reported; /* any report came */
	/* with a plan: the id of its item, reported as gone when the GPUs are free; else NONE */
	uint64_t leaves;
	/* it has reported: the next report gives the time of an iteration */
	uint8_t warmed;
	uint8_t sharers;    /* trials on its GPU at its last report, itself included */
	uint8_t hopeless;   /* it failed in a way that is certain to happen again */
	uint8_t quiet_told; /* the warning about a missing report was given */
	/* its trial's budget is reached: it leaves, unless kept warm */
	uint8_t over;
	char *fault;                      /* why the executor ends it as failed, or NULL */
	struct espl__gang *prev, *next;   /* all gangs, by id */
	struct espl__gang *older, *newer; /* by last sign of life */
};

struct espl__gangs {
	struct espl__map map;
	struct espl__gang *first, *last, *oldest, *newest;
	uint64_t next; /* id */
	uint32_t count;
	struct espl__gang **awaiting; /* a reply */
	uint32_t awaiting_count, awaiting_cap;
	uint64_t resizes;
	uint32_t gpus_busy;
	double busy_gpu_s;
};

/* gangs.c */
struct espl__gang *espl__exec_gang(const struct espl__exec *, uint64_t id);
void espl__gang_heard(struct espl__exec *, struct espl__gang *);
int espl__gang_on(const struct espl__gang *, uint64_t node); /* has a slot there, or will have */
/* One of its nodes is unreachable. */
int espl__gang_unreachable(const struct espl__exec *, const struct espl__gang *);
void espl__exec_kill(struct espl__exec *, struct espl__gang *, espl_span grace, const char *fault);
void espl__gang_free(struct espl__exec *, struct espl__gang *); /* seats, lists, accounts */
int espl__gang_matches(const struct espl__gang *, const struct espl__item *);
void espl__gang_account(struct espl__exec *,
    struct espl__gang *); /* GPU time since it was done last */
int espl__seats_clear(const struct espl__exec *,
    const struct espl__item *); /* is its whole place free for it? */
int espl__exec_in_place(
    const struct espl__search *); /* can its gangs be resized while they live? */
int espl__gang_resize(struct espl__exec *, struct espl__gang *,
    const struct espl__item *); /* 1: it is asked for */
void espl__gang_resized(struct espl__exec *, const struct espl__event *);
void espl__gang_resize_off(struct espl__exec *,
    struct espl__gang *); /* frees the new slots that it did not move to */
/* A new gang: its last sign of life is now. */
void espl__gang_listen(struct espl__exec *x, struct espl__gang *g);
int espl__gang_holds(const struct espl_slot *slots, uint32_t count, const struct espl_slot *slot);
#endif
