/* espalier kit: rung_table.h - a table of rungs that trials climb together.
 *
 * Successive halving, Hyperband's brackets and any other search "train n trials to iteration u,
 * keep the best m, train those to v, ..." differ only in their table of rungs.  This file
 * implements the rest: closed groups, ranking by (loss, id) whatever the order of arrival, dropping
 * trials, and replacing promoted trials that fail by the next best.
 *
 * Use: a plugin that is one rung table fills in the table with espl_rung_table_plugin_*, and writes
 * only a function that fills it, with espl_rung_table_add, and a create that names it.  Any other
 * plugin: espl_rung_table_init in create, espl_rung_table_add for each rung, espl_rung_table_begin
 * at ESPL_ASK_START, espl_rung_table_trial_ended in on_trial_end, espl_rung_table_promote at
 * ESPL_ASK_GROUP of table.group until table.over, espl_rung_table_free in destroy.
 */
#ifndef ESPALIER_KIT_RUNG_TABLE_H
#define ESPALIER_KIT_RUNG_TABLE_H
#include <espalier/algorithm.h>
#include <espalier/util.h>
#include <espalier/kit/sampling.h>
#include <espalier/kit/tried.h>
#ifdef __cplusplus
extern "C" {
#endif

#define ESPL_RUNG_TABLE_MAGIC 0x6c616472u

struct espl_rung {
	uint64_t until;  /* trials of this rung train up to this iteration (cumulative) */
	uint32_t trials; /* how many enter it */
	uint32_t zero;
};
/* a trial that has reached the end of its rung */
struct espl_rung_score {
	struct espl_score score; /* first: espl_score_order compares these */
	/* its iterations: fewer than the rung's if it joined late */
	uint64_t done;
};
/* The next configuration of the first rung, valid until the next call. */
typedef espl_status espl_rung_table_source(void *ctx, const double **values, struct espl_error *);

/* the plugin's; fields may be read, the functions write them */
struct espl_rung_table {
	const struct espl_host *host;
	const struct espl_space *space;
	const struct espl_first *first; /* the user's points, or NULL */
	struct espl_rung *rungs;
	struct espl_rung_score *scores; /* trials that wait at the end of the running rung */
	struct espl_rung_score *spares; /* not promoted into it, best first: the next best replaces
					 * a promoted trial that failed */
	double *values;                 /* room for one configuration */
	uint64_t group;                 /* of the running rung; ESPL_NONE before the first */
	uint32_t rung_count;
	uint32_t bracket;                 /* its number in the spec; 0 unless set */
	uint32_t stage;                   /* the running rung */
	uint32_t waiting;                 /* scores gathered */
	uint32_t begun;                   /* trials in the running rung */
	uint32_t failed;                  /* failed ones among them, in the running group */
	uint32_t spare_next, spare_count; /* spares still there: [next, count) */
	uint32_t over;                    /* 1: the last rung has ended, or no trial is left */
	uint32_t widest;                  /* trials of the widest rung */
	uint32_t grows; /* 1, set by the plugin: a rung may be wider than the one before;
			 * newcomers train that rung's iterations alone, and in later rungs
			 * as many more as the others */
	uint32_t magic; /* ESPL_RUNG_TABLE_MAGIC between init and free */
	espl_rung_table_source
	    *source; /* NULL: the user's points, then random ones; set by the plugin */
	void *source_ctx;
	struct espl_tried tried; /* the configurations that were made, unless there is a source */
	uint64_t wanted, made;   /* configurations that rungs were added for; made so far */
	uint64_t limit;          /* of them, what the space has */
	uint32_t first_next;     /* of the user's points: the next one */
	uint32_t filling;        /* 1: the first rung, which a sampler fills one by one */
	const struct espl_sampling *sampling; /* NULL: draws are uniform */
};

/* Requests the host's services. Call espl_rung_table_free also after a failure. */
espl_status espl_rung_table_init(struct espl_rung_table *table, const struct espl_host *host,
    struct espl_error *error);
void espl_rung_table_free(struct espl_rung_table *table);
/* How many of `trials` different configurations the space has, unless repeats are allowed (option:
 * the value of ESPL_TRIED_OPTION): for the first rung, before it is added. */
espl_status espl_rung_table_limit(struct espl_rung_table *table, const struct espl_value *option,
    uint64_t trials, uint64_t *limit, struct espl_error *error);
/* Appends a rung.  until must rise, trials must not, and both must be positive; otherwise
 * ESPL_E_BUG. */
espl_status espl_rung_table_add(struct espl_rung_table *table, uint32_t trials, uint64_t until,
    struct espl_error *error);
/* Declares a spec of one bracket: the rungs, with increments instead of cumulative iterations. */
espl_status espl_rung_table_spec(const struct espl_rung_table *table, struct espl_spec_sink *sink,
    struct espl_error *error);
/* The first rung: of the source, or the user's points and random ones.  At ESPL_ASK_START. */
espl_status espl_rung_table_begin(struct espl_rung_table *table, struct espl_search_sink *sink,
    struct espl_error *error);
/* In on_trial_end.  Only a trial that reached its budget can be promoted: one that failed or
 * reported that it is complete leaves the search. */
void espl_rung_table_trial_ended(struct espl_rung_table *table, const struct espl_trial *trial,
    espl_end how);
/* The same; the trial ranks by `loss` instead of the one that it reported last. */
void espl_rung_table_trial_ended_as(struct espl_rung_table *table, const struct espl_trial *trial,
    espl_end how, double loss);
/* Call it when the group of the running rung has ended: promotes the best trials.  Before that, a
 * promoted trial that failed is replaced by the next best, in another group of the same stage.
 * Sets over when this was the last rung or no trial is left to promote; the caller calls finish. */
espl_status espl_rung_table_promote(struct espl_rung_table *table, struct espl_search_sink *sink,
    struct espl_error *error);

/* ---- a plugin that is one rung table (its instance) ---------------------------------------- */

typedef espl_status espl_rung_table_fill(struct espl_rung_table *, const struct espl_config *,
    struct espl_error *);

void espl_rung_table_plugin_destroy(void *self);
espl_status espl_rung_table_plugin_create(const struct espl_host *host,
    const struct espl_config *config, espl_rung_table_fill *fill, void **self,
    struct espl_error *error);
espl_status espl_rung_table_plugin_spec(void *self, struct espl_spec_sink *sink,
    struct espl_error *error);
espl_status espl_rung_table_plugin_on_trial_end(void *self, const struct espl_trial *trial,
    espl_end how, struct espl_search_sink *sink, struct espl_error *error);
espl_status espl_rung_table_plugin_next_group(void *self, const struct espl_search_view *view,
    struct espl_search_sink *sink, struct espl_error *error);

#ifdef __cplusplus
}
#endif
#endif
