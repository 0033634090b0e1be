/* check_kit.h - what the parts of check-plugin share: findings, and the test kit in which policies
 * are tried.
 */
#ifndef ESPL__CHECK_KIT_H
#define ESPL__CHECK_KIT_H
#include <stdio.h>

#include <espalier/util.h>

#include "testkit/kit.h"
#include "plugin/instance.h"
#include <sys/types.h>

#define ESPL__CHECK_CALLS 1000000u /* sink calls of one entry beyond which it is looping */

#define ESPL__CHECK_FINDINGS 40u /* printed at most */

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
#define ESPL__CHECK_MAGIC 0x6368656bu
struct espl__check {
	uint32_t magic; /* ESPL__CHECK_MAGIC */
	FILE *out;
	const struct espl__plugin *plugin;
	struct espl__tree *tree; /* made-up values of options, or NULL */
	const struct espl__node *group;
	int level;   /* how much is made up, see espl__check_level */
	int refused; /* the refusal by create was reported */
	struct espl__check_shared *shared;
	struct espl__host_env env;
	/* The world of policies, by espl__check_world, and the instance that lives in it. */
	struct espl_kit *kit;
	struct espl__instance *instance;
	struct kit_watch watch;
	struct espl_model model;
	espl_time now; /* where there is no kit */
	uint64_t view_digest;
	int counts; /* the last entry of a policy returned OK */
	/* Recording */
	uint64_t digest; /* of all sink calls since espl__check_begin */
	uint64_t calls;
	const char *view; /* what the entries are called with now, or NULL */
};

void espl__check_ok(struct espl__check *, const char *format, ...) ESPL_PRINTF(2, 3);
/* Printed at the end, once, with where it was first seen and how often; two that differ only in
 * numbers are one. */
void espl__check_error(struct espl__check *, const char *format, ...) ESPL_PRINTF(2, 3);
/* How much was found so far, of both. */
unsigned espl__check_found(const struct espl__check *);
void espl__check_step(struct espl__check *, const char *format, ...) ESPL_PRINTF(2, 3);
void espl__check_init(struct espl__check *);
/* A kit with a space, offers (plain: one only), an experiment and services; what it says of the
 * calls of a policy is recorded and found. */
void espl__check_world(struct espl__check *, int plain);
/* An instance in it, if it can be had (1).  Then the kit is open. */
int espl__check_open(struct espl__check *);
void espl__check_close(struct espl__check *); /* both */
/* Takes all items and nodes out of a kit. */
void espl__check_clear(struct espl_kit *);
/* More is made up from now on: the required options (0), in tables also the columns without a
 * default (1), also the tables that may be left out (2).  0: that was all. */
int espl__check_level(struct espl__check *);
/* An instance on the made-up options, more of them while it refuses what there is; NULL: it refuses
 * (reported as a finding, `error` or not). */
struct espl__instance *espl__check_create(struct espl__check *, uint64_t seed);
/* Recording: `name` and its arguments go into the digest.  Returns ESPL_OK.  Ends the check when an
 * entry has called too often. */
void espl__check_begin(struct espl__check *);
espl_status espl__check_call(struct espl__check *, const char *name, const void *data, size_t size);

/* The kinds. */
void espl__check_search(struct espl__check *);
void espl__check_alloc(struct espl__check *);
void espl__check_sampler(struct espl__check *);
void espl__check_place(struct espl__check *);
void espl__check_cloud(struct espl__check *);
void espl__check_trainable(struct espl__check *);
void espl__check_symbols(struct espl__check *, const char *path);
/* From now on it is noted which functions of the system the plugin calls; what a policy may not. */
void espl__check_watch_calls(const struct espl__check *);
void espl__check_calls(struct espl__check *);

/* ---- check_guard.c --------------------------------------------------------------------------- */

/* Bounds for what check-plugin tries: processes, output, memory; leaks. */

/* In the parent, before the child: a file for what it prints, of limited size; -1 none. */
int espl__guard_open(void);
/* In the child, before the file is loaded, and when it is known what kind it is of. */
void espl__guard_enter(struct espl__check_shared *, int output);
void espl__guard_kind(espl_kind);
/* In the child, when all was tried: what it printed and started are errors. */
void espl__guard_leave(struct espl__check *, int output);
/* In the parent, when the child has ended: kills what it has left, shows what it printed if `show`.
 */
void espl__guard_close(pid_t child, int output, int show);

/* Runs one life of an instance again and again: does the heap grow each time? */
void espl__check_leaks(struct espl__check *, void (*life)(struct espl__check *));
#endif
