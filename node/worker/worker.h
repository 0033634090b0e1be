/* worker.h - the parts of espalier-worker, which hosts a C trainable for one rank.
 *
 *   worker_main.c    the process: signals, exit status
 *   worker.c         from the environment to an open trial, and back
 *   worker_env.c     reads the environment and the parameters
 *   worker_loop.c    step, report, obey
 *   worker_resize.c  a resize in place, or joining a gang that trains already
 *   worker_state.c   the trial's state into files and out of them, and to the other ranks
 */
#ifndef ESPL__WORKER_H
#define ESPL__WORKER_H
#include <signal.h>

#include <espalier/trainable.h>
#include "base/buf.h"
#include "base/diag.h"
#include "comm/comm.h"
#include "comm/device.h"

struct espl__instance;

/* what docs/trial-protocol.md promises; strings are getenv's */
struct espl__worker_env {
	uint64_t trial, gang, iteration, budget, iterations_max, seed;
	uint32_t attempt, threads, packing;
	uint32_t rank, world, local_rank, local_world, node;
	uint32_t port;
	uint8_t key[ESPL__COMM_KEY];
	int report_fd, listen_fd; /* -1 none */
	const char *master, *params, *options, *checkpoint, *save, *scratch, *device;
	const char *slot;              /* of one that joins, "" else */
	struct espl_setting *settings; /* freed, with what they point to, by ..._free */
	uint32_t setting_count;
	char **texts;
};
espl_status espl__worker_env_read(struct espl__worker_env *, struct espl__diag *);
void espl__worker_env_free(struct espl__worker_env *);

#define ESPL__WORKER_MAGIC 0x776f726bu
struct espl__worker {
	uint32_t magic; /* ESPL__WORKER_MAGIC */
	struct espl__worker_env env;
	struct espl__instance *instance;
	const struct espl_trainable_ops *ops;
	struct espl__device device;
	struct espl__comm *comm;
	struct espl_trial_context context;
	void *trial; /* as opened, NULL before */
	uint64_t iteration, budget;
	struct espl__buf line, inbox;
	/* its position after the next resize */
	struct espl__worker_slot {
		uint32_t generation;  /* 0: none is known */
		uint32_t rank, world; /* equal: leave */
		uint32_t local_rank, local_world, node;
		int moved;     /* the old rank 0 leaves, too */
		uint32_t port; /* where the old rank 0 accepts ranks */
		char door[256], master[256];
	} slot;
	int64_t moved_at; /* tick at which the resize under way began; any clock */
	int door;         /* socket on which rank 0 accepts others, -1 none */
	const char *who;  /* for messages: "trainable 'x'" */
	/* Set by SIGTERM: pause at the next boundary. */
	const volatile sig_atomic_t *wish;
};

/* Hosts the trainable `name` until it is done.  E_PEER: another rank was lost.  The message is
 * for the trial's log. */
espl_status espl__worker_run(const char *name, const volatile sig_atomic_t *wish,
    struct espl__diag *);

/* worker.c */
espl_status espl__worker_connect(struct espl__worker *, const struct espl__comm_setup *,
    struct espl__comm **, struct espl__diag *);
/* worker_loop.c */
espl_status espl__worker_loop(struct espl__worker *, struct espl__diag *);
espl_status espl__worker_send_line(struct espl__worker *,
    struct espl__diag *); /* what `line` holds */
/* The next line; a new slot is remembered.  heed 1: waits for more than a new slot, or SIGTERM
 * (*got 0); 0: for anything (*got 0: it was a new slot). */
espl_status espl__worker_read_line(struct espl__worker *, char *line, size_t room, int heed,
    int *got, struct espl__diag *);
/* worker_resize.c */
int espl__worker_read_slot(struct espl__worker *,
    const char *line); /* 1: it is one; -1: a bad one */
espl_status espl__worker_join(struct espl__worker *, struct espl__diag *);
/* All ranks; *left: this one is not needed any more. */
espl_status espl__worker_move(struct espl__worker *, uint32_t generation, int *left,
    struct espl__diag *);
/* worker_state.c */
espl_status espl__worker_save(struct espl__worker *, struct espl__diag *); /* rank 0 */
espl_status espl__worker_restore(struct espl__worker *,
    struct espl__diag *); /* all ranks; sets iteration */
/* All ranks of `comm`: state, iteration and budget of its rank 0 come to the others. */
espl_status espl__worker_share(struct espl__worker *, struct espl__comm *, struct espl__diag *);
#endif
