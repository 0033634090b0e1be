/* pbt.h - the parts of population based training: members, their ranking, and how one begins.
 */
#ifndef PBT_H
#define PBT_H
#include "../shared.h"
#include <espalier/kit/assert.h>

#define MEMBER_TRAINS 1u  /* has a trial that waits or runs */
#define MEMBER_SCORED 2u  /* its loss is of its last interval */
#define MEMBER_READY 4u   /* it came to an interval since the last look */
#define MEMBER_ASKED 8u   /* its trial has not reported since it was added */
#define MEMBER_PAUSED 16u /* its trial is paused so that another can train */
#define MEMBER_FAILED 32u /* its trial has failed and will be replaced */
#define MEMBER_OVER 64u   /* it trains no more */

struct member {
	uint64_t trial;
	uint64_t iteration;  /* last known */
	uint64_t saved;      /* iteration at which it last saved on request, or is paused; 0 none */
	double loss;         /* at its last interval */
	uint32_t population; /* its number */
	uint16_t failures;   /* since its last interval */
	uint16_t flags;      /* MEMBER_* */
};
struct score {
	struct espl_score of;
	uint32_t population, member;
};
/* where one population stands in the ranking */
struct standing {
	uint32_t population;  /* ESPL_ANY: none is known */
	uint32_t from, count; /* its scores */
	uint32_t good;        /* of them, with a number */
	uint64_t behind;      /* the lowest iteration of a member without a GPU */
};

/* how a configuration near another one is made */
struct pbt_explore {
	double resample;     /* probability that a parameter is redrawn */
	double down, up;     /* else it is multiplied by one of these */
	unsigned char *keep; /* [params] 1: it stays as it is; NULL: none does */
};
#define PBT_MAGIC 0x6522a989u

struct pbt {
	uint32_t magic; /* PBT_MAGIC */
	const struct espl_host *host;
	const struct espl_space *space;
	const struct espl_first *first; /* NULL: the user has none */
	struct pbt_explore explore;
	struct member *members;   /* [size] */
	struct score *scores;     /* [size] those scored, by population and rank */
	struct standing standing; /* of the population looked at last */
	uint32_t *rank;           /* [size] place of each member in scores */
	double *values;           /* [size][params] */
	double *next;             /* [params] */
	struct espl_tried tried;  /* the configurations of new members */
	uint64_t wanted;          /* new members that were asked for; 0: the space has as many */
	uint32_t first_next, gap; /* of the user's points: the next one */
	/* fresh: drawn so far; max 0: no limit */
	uint64_t iterations, interval, group, fresh, fresh_max;
	uint64_t until; /* sync: the interval that trains now */
	double quantile;
	uint32_t size, scored, over; /* members: all, ranked, those that train no more */
	uint32_t most;               /* trials that were seen running at once */
	uint32_t stage, population;  /* sync */
	int sync, tournament, finished;
};

/* ---- pbt_rank.c --------------------------------------------------------------------------- */

/* Ranks all that have a score; must be called before the others of this part. */
void pbt_rank(struct pbt *);
/* A member that was replaced counts no more. */
void pbt_unrank(struct pbt *, uint32_t index);
const struct standing *pbt_standing(struct pbt *, uint32_t population);
/* The member from which a scored one copies its weights; ESPL_ANY: it keeps its own. */
uint32_t pbt_source(struct pbt *, uint32_t index);
/* The same for a failed one without a loss; ESPL_ANY: there is none. */
uint32_t pbt_source_for_failed(struct pbt *, uint32_t index);

/* ---- pbt_start.c (in next_group) ---------------------------------------------------------- */

/* A new member: one of the user's points, or drawn. */
espl_status pbt_new(struct pbt *, uint32_t index, struct espl_search_sink *);
/* The member continues from the source's weights. */
espl_status pbt_clone(struct pbt *, uint32_t index, uint32_t source, struct espl_search_sink *,
    struct espl_error *);
/* One that failed is replaced, or leaves. */
espl_status pbt_replace(struct pbt *, uint32_t index, struct espl_search_sink *,
    struct espl_error *);
/* Continues a paused member. */
espl_status pbt_go_on(struct pbt *, uint32_t index, struct espl_search_sink *);
void pbt_over(struct pbt *, struct member *);
#endif
