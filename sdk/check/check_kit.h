/* check_kit.h - what the parts of check-plugin share: findings, a made-up world, recording sinks.
 */
#ifndef ESPL__CHECK_KIT_H
#define ESPL__CHECK_KIT_H
#include <stdio.h>

#include <espalier/algorithm.h>
#include <espalier/allocator.h>
#include <espalier/util.h>

#include "plugin/instance.h"

#define ESPL__CHECK_CALLS 1000000u /* sink calls of one entry beyond which it is looping */

#define ESPL__CHECK_FINDINGS 40u /* told at most */

struct espl__check_finding {
	char text[500];
	char view[100]; /* where it was first seen; "": nowhere in particular */
	unsigned times;
};
/* between the child that checks and its parent */
struct espl__check_shared {
	char step[200]; /* what is being tried now */
	int finished;
	int errors;
	int forks; /* and what was being tried at the first one */
	char forked_in[200];
	char hint[400]; /* how the file could be loaded; "": none */
	unsigned finding_count;
	struct espl__check_finding findings[ESPL__CHECK_FINDINGS];
	/* sink calls that the host would refuse, the first one's text */
	struct espl__check_finding refused;
};
struct espl__check {
	FILE *out;
	const struct espl__plugin *plugin;
	struct espl__tree *tree; /* made-up values of options, or NULL */
	const struct espl__node *group;
	int level;   /* how much is made up, see espl__check_level */
	int refused; /* that create refuses it was told */
	struct espl__check_shared *shared;
	/* Services; made by espl__check_world_init */
	struct espl__host_env env;
	espl_time now;
	struct espl_experiment experiment;
	struct espl_space space;
	struct espl_model model;
	struct espl_history history;
	struct espl_first first;
	struct espl_market market;
	const struct espl_io *io; /* NULL: none is offered now */
	const struct espl_offer *const *offers;
	uint32_t offer_count;
	/* Recording */
	uint64_t digest; /* of all sink calls since espl__check_begin */
	uint64_t calls;
	int refuse;       /* sinks refuse everything */
	const char *view; /* what the entries are called with now, or NULL */
	/* History, by check_search.c */
	const struct espl_observation *const *observations;
	uint64_t observation_count;
	const struct espl_trial *(*trial)(struct espl__check *, uint64_t);
	void *search;
};

void espl__check_ok(struct espl__check *, const char *format, ...) ESPL_PRINTF(2, 3);
/* Told when all was tried, once with where it was first seen and how often; two that differ in
 * nothing but numbers are one. */
void espl__check_error(struct espl__check *, const char *format, ...) ESPL_PRINTF(2, 3);
/* A sink call that the host would refuse, and why: they are counted, and the first is told. Returns
 * ESPL_E_REJECTED. */
espl_status espl__check_refuse(struct espl__check *, const char *format, ...) ESPL_PRINTF(2, 3);
/* How much was found so far, of both. */
unsigned espl__check_found(const struct espl__check *);
/* The struct handed to a sink: is its size set, and what is reserved 0?  Else that is an error. */
int espl__check_struct(struct espl__check *, const char *what, size_t size, size_t least,
    uint64_t zero);
void espl__check_step(struct espl__check *, const char *format, ...) ESPL_PRINTF(2, 3);
/* Fills env and services. */
void espl__check_world_init(struct espl__check *);
const void *espl__check_service(void *ctx, struct espl__instance *, const char *id);
/* More is made up from now on: the required options (0), in tables also the columns without a
 * default (1), also the tables that may be left out (2).  0: that was all. */
int espl__check_level(struct espl__check *);
/* An instance on the made-up options, more of them while it refuses what there is; NULL: it refuses
 * (told as a finding, `error` or not). */
struct espl__instance *espl__check_create(struct espl__check *, uint64_t seed);
/* Recording: `name` and its arguments go into the digest.  Returns ESPL_OK, or REJECTED when all
 * is refused.  Ends the check when an entry has called too often. */
void espl__check_begin(struct espl__check *, int refuse);
espl_status espl__check_call(struct espl__check *, const char *name, const void *data, size_t size);
/* An entry came back: OK, BUSY and (of plan) INFEASIBLE are answers, all else is told as an error.
 * Returns 1 if the answer counts (OK). */
int espl__check_returned(struct espl__check *, const char *what, espl_status,
    const struct espl_error *);

/* The kinds. */
void espl__check_search(struct espl__check *);
void espl__check_alloc(struct espl__check *);
void espl__check_place(struct espl__check *);
void espl__check_cloud(struct espl__check *);
void espl__check_trainable(struct espl__check *);
void espl__check_symbols(struct espl__check *, const char *path);
#endif
