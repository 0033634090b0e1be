/* comm_private.h - declarations shared by the files of the CPU communicator. */
#ifndef ESPL__COMM_PRIVATE_H
#define ESPL__COMM_PRIVATE_H
#include <stddef.h>
#include <sys/socket.h>

#include "comm/comm.h"

/* One way of moving data.  Types are wide here: F32, F64, I32, I64, U8; no MEAN. */
struct espl__comm_way {
	espl_status (
	    *reduce)(struct espl__comm *, void *data, uint64_t count, espl_dtype, espl_reduce);
	espl_status (*broadcast)(struct espl__comm *, void *data, uint64_t bytes, uint32_t root);
	espl_status (*gather)(struct espl__comm *, const void *in, void *out, uint64_t bytes);
	espl_status (*barrier)(struct espl__comm *);
	espl_status (*shards)(struct espl__comm *, const void *shards, void *out, uint64_t count,
	    espl_dtype, uint32_t first, uint32_t mine, uint32_t total);
	espl_status (*look)(struct espl__comm *); /* is anybody gone?  does not wait */
	void (*finish)(struct espl__comm *);
};
extern const struct espl__comm_way espl__comm_ring, espl__comm_shm;

/* ---- comm_math.c ------------------------------------------------------------------------- */

size_t espl__dtype_size(espl_dtype); /* 0: none of ours */
int espl__dtype_half(espl_dtype);    /* F16, BF16: computed as F32 */
/* to = to (+, min, max) from.  NaN wins. */
void espl__combine(void *to, const void *from, uint64_t count, espl_dtype, espl_reduce);
void espl__divide(void *data, uint64_t count, espl_dtype, uint32_t by);
void espl__widen(float *to, const uint16_t *from, uint64_t count, espl_dtype);
void espl__narrow(uint16_t *to, const float *from, uint64_t count, espl_dtype);

/* A vector is cut into `world` chunks; chunk c is summed beginning with rank c, then c+1, ... */
static inline uint64_t
espl__chunk(uint64_t count, uint32_t world, uint32_t c)
{
	return count / world * c + (count % world < c ? count % world : c);
}

/* Part of chunk c: `vectors` holds the part of each rank, `stride` bytes apart. */
void espl__fold(void *out, const uint8_t *vectors, size_t stride, uint32_t world, uint32_t c,
    uint64_t count, espl_dtype, espl_reduce);

/* Which rank holds which shards: `spans` are (first, mine) by rank.  Fills `order` with the ranks
 * by rising first; -1 if they do not cover 0..total-1 exactly. */
struct espl__span {
	uint64_t first, mine;
};
int espl__shards_order(const struct espl__span *, uint32_t world, uint32_t total, uint32_t *order);

/* ---- comm_net.c: sockets with deadlines (ns of espl__tick, 0 none) ------------------------ */

espl_status espl__net_send(int fd, const void *, size_t, int64_t deadline);
espl_status espl__net_recv(int fd, void *, size_t, int64_t deadline);
espl_status espl__net_connect(const struct sockaddr *, socklen_t, int64_t deadline, int *fd);
espl_status espl__net_accept(int listen_fd, int64_t deadline, int *fd);
/* Listens on any port of this address. */
int espl__net_listen(const struct sockaddr *, socklen_t, uint16_t *port);
int64_t espl__deadline(espl_span limit); /* 0 for 0 */

/* ---- comm_meet.c ------------------------------------------------------------------------- */

/* what a rank knows after the meeting */
struct espl__met {
	int shm; /* 1: `memory` is shared by all; 0: the ring is closed */
	void *memory;
	size_t size;
	int32_t *pids;  /* by rank, malloc'ed; with shm only */
	int next, prev; /* sockets of the ring, else -1 */
};
espl_status espl__comm_meet(const struct espl__comm_setup *, struct espl__met *,
    struct espl__diag *);

/* ---- the ways ----------------------------------------------------------------------------- */

size_t espl__shm_size(uint32_t world);
void espl__shm_format(void *memory, uint32_t world); /* by rank 0, before others see it */
espl_status espl__shm_open(struct espl__comm *, const struct espl__met *); /* takes over */
espl_status espl__ring_open(struct espl__comm *, const struct espl__met *);
#endif
