/* comm.h - makes the communicator of one generation of a gang, for ranks on CPU.
 *
 * Ranks meet at rank 0's listening socket, learn of each other, and then use shared memory if
 * they are all on one node, else a ring over TCP.  Either way sums come out the same to the bit:
 * the order of additions depends on the world and the length alone.
 *
 * A communicator for another device (NCCL) is another struct espl__comm whose maker fills
 * `view` and `finish`; the worker knows no difference.  In-place resize: finish the old one,
 * make a new one with the next generation over the same listening socket.
 */
#ifndef ESPL__COMM_H
#define ESPL__COMM_H
#include <espalier/trainable.h>
#include "base/diag.h"

#define ESPL__COMM_KEY 32
struct espl__comm_setup {
	uint32_t rank, world;
	uint32_t node_rank, node_world; /* among the ranks of this node */
	uint32_t node;                  /* which of the gang's nodes this is */
	uint32_t generation;
	/* The same for all ranks of this gang and no other.  It is never sent: they prove that
	 * they have it. */
	uint8_t key[ESPL__COMM_KEY];
	const char *master; /* address of rank 0 */
	uint32_t port;
	int listen_fd;        /* rank 0: where the others knock; -1: it binds `port`.
			       * Stays the caller's */
	espl_span init_limit; /* for all ranks to connect, 0: 60 s */
	espl_span wait_limit; /* of any wait in a call, 0: none */
	int no_shm;           /* 1: ring even on one node */
};

/* view.ctx is this struct */
#define ESPL__COMM_MAGIC 0x636f6d6du
struct espl__comm {
	struct espl_comm view;
	const struct espl__comm_way *way; /* how the CPU's do it; NULL for others */
	void (*finish)(struct espl__comm *);
	/* Host bytes from root to all; waits without limit, but sees a lost rank. */
	espl_status (*tell)(struct espl__comm *, void *data, uint64_t bytes, uint32_t root);
	espl_span wait_limit;
	espl_status broken; /* once a call has failed all later ones do */
	uint32_t node;
	void *scratch; /* for conversions, grows */
	size_t scratch_size;
	void *state;    /* of the way */
	uint32_t magic; /* ESPL__COMM_MAGIC */
};

/* E_PEER: a rank sent an unexpected message; E_LIMIT: not all ranks connected in time. */
espl_status espl__comm_init(const struct espl__comm_setup *, struct espl__comm **,
    struct espl__diag *);
/* Listens on a port of this address that is free, for a meeting; where that is no address of this
 * machine, on all of them.  A descriptor, or -1 with errno. */
int espl__comm_door(const char *address, uint32_t *port);
/* The others see E_PEER if they still wait for this rank.  NULL is fine. */
void espl__comm_finish(struct espl__comm *);
/* Without waiting: are the other ranks still there?  E_PEER (and all later calls fail) if not. */
espl_status espl__comm_look(struct espl__comm *);
/* A broadcast of host bytes that may have to wait for as long as rank 0 waits for its driver. */
espl_status espl__comm_send_all(struct espl__comm *, void *data, uint64_t bytes, uint32_t root);
#endif
