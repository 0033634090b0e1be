/* comm_meet.c - how the ranks of a gang find each other.
 *
 * Rank 0 listens at an address known to all. The other ranks connect, prove that they have the
 * gang's key, and send their own address; when all are connected, rank 0 proves the same and sends
 * the table of addresses to all. A peer without the key (a stranger, a rank of an earlier
 * generation) is rejected without disturbing the others.
 *
 * A proof is the HMAC, with SHA-256 and the key, of what is sent and of random bytes that the other
 * end has chosen.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/address.h"
#include "base/assert.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/tick.h"
#include "comm/comm_private.h"

#define MAGIC UINT64_C(0x326d6d6f636c7073) /* says "wrong byte order" as well */
#define NONCE 16

struct proof {
	uint8_t bytes[SHA256_DIGEST_SIZE];
};
struct nonce {
	uint8_t bytes[NONCE];
};
struct knock {
	uint64_t magic, host;
	uint32_t generation, rank, world, node;
	int32_t pid;
	uint16_t port; /* where this rank waits for the one before it */
	uint16_t zero;
	struct nonce nonce;
	struct proof proof; /* of what stands before it */
};
enum { AT_DOOR = 1, IN_RING, FROM_0 }; /* what is proved */
/* a line of the table */
struct place {
	uint8_t address[16];
	uint16_t family, port;
	int32_t pid;
};
/* from rank 0, before the table */
struct offer {
	uint64_t magic, size;
	int32_t pid, fd; /* of the shared memory; fd -1: ring */
};
enum { VERDICT_RING = 1, VERDICT_SHM = 2 };

struct meeting {
	const struct espl__comm_setup *setup;
	struct espl__met *met;
	struct espl__diag *diag;
	struct place *table;
	struct nonce nonce;   /* rank 0's; known to all when they have knocked */
	struct nonce mine;    /* others: their own */
	struct nonce *nonces; /* rank 0: theirs */
	int *links;           /* rank 0: to each other rank; others: [0] */
	uint32_t link_count;
	int own_listen; /* rank 0's, if it had to make it */
	int ring_listen;
	uint16_t ring_port;
	int64_t deadline;
	int same; /* all on one node, as far as rank 0 can tell */
};

static espl_status
meeting_failed(struct meeting *m, espl_status status, const char *what)
{
	if (status == ESPL_E_LIMIT)
		return espl__fail(m->diag, status,
		    "the ranks of the gang did not connect in time: %s", what);
	return espl__fail(m->diag, ESPL_E_PEER, "the ranks of the gang did not connect: %s", what);
}

/* The machine and its process numbers: equal where /proc/PID of one is /proc/PID of the other. */
static uint64_t
host_id(void)
{
	struct espl__buf text = { NULL, 0, 0 };
	char link[64];
	ssize_t size = readlink("/proc/self/ns/pid", link, sizeof link);
	uint64_t id = 0;

	if (espl__file_read("/proc/sys/kernel/random/boot_id", 4096, &text, NULL) == ESPL_OK)
		id = espl__digest(0, text.data, text.size);
	if (size > 0)
		id = espl__digest(id, link, (size_t)size);
	espl__buf_free(&text);
	return id;
}

static void
draw_nonce(struct nonce *to)
{
	if (getrandom(to, sizeof *to, 0) != (ssize_t)sizeof *to)
		ESPL__WRONG("cannot get random bytes from the system");
}

static struct proof
prove(const struct meeting *m, uint8_t what, const struct nonce *nonce, const void *first,
    size_t first_size, const void *then, size_t then_size)
{
	struct hmac_sha256_ctx ctx;
	struct proof proof;

	hmac_sha256_set_key(&ctx, sizeof m->setup->key, m->setup->key);
	hmac_sha256_update(&ctx, 1, &what);
	hmac_sha256_update(&ctx, sizeof *nonce, nonce->bytes);
	hmac_sha256_update(&ctx, first_size, first);
	hmac_sha256_update(&ctx, then_size, then);
	hmac_sha256_digest(&ctx, sizeof proof, proof.bytes);
	memset(&ctx, 0, sizeof ctx);
	return proof;
}

static struct knock
my_knock(const struct meeting *m, uint8_t what)
{
	const struct espl__comm_setup *s = m->setup;
	struct knock k = { MAGIC, host_id(), s->generation, s->rank, s->world, s->node,
		(int32_t)getpid(), m->ring_port, 0, m->mine, { { 0 } } };

	k.proof = prove(m, what, &m->nonce, &k, offsetof(struct knock, proof), NULL, 0);
	return k;
}

static int
is_proved(const struct meeting *m, uint8_t what, const struct knock *k)
{
	struct proof due = prove(m, what, &m->nonce, k, offsetof(struct knock, proof), NULL, 0);

	return k->magic == MAGIC && k->generation == m->setup->generation &&
	    k->world == m->setup->world && memeql_sec(&due, &k->proof, sizeof due);
}

/* ---- addresses --------------------------------------------------------------------------- */

static socklen_t
to_sockaddr(const struct place *p, struct sockaddr_storage *to)
{
	memset(to, 0, sizeof *to);
	if (p->family == AF_INET6) {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(p->port);
		memcpy(&in6->sin6_addr, p->address, 16);
		return sizeof *in6;
	} else {
		struct sockaddr_in *in = (struct sockaddr_in *)to;

		in->sin_family = AF_INET;
		in->sin_port = htons(p->port);
		memcpy(&in->sin_addr, p->address, 4);
		return sizeof *in;
	}
}

static void
from_sockaddr(const struct sockaddr_storage *from, uint16_t port, struct place *p)
{
	p->family = from->ss_family;
	p->port = port;
	if (from->ss_family == AF_INET6)
		memcpy(p->address, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
	else
		memcpy(p->address, &((const struct sockaddr_in *)from)->sin_addr, 4);
}

/* Listens for the ring's neighbor where `link` (or rank 0's door) has its own end. */
static int
listen_for_ring(struct meeting *m, int link)
{
	struct sockaddr_storage at;
	socklen_t size = sizeof at;

	if (getsockname(link, (struct sockaddr *)&at, &size) != 0)
		return -1;
	if (espl__is_inward(m->setup->master, (struct sockaddr *)&at)) /* and other nodes? */
		at = (struct sockaddr_storage){ .ss_family = at.ss_family };
	if (at.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&at)->sin6_port = 0;
	else
		((struct sockaddr_in *)&at)->sin_port = 0;
	m->ring_listen = espl__net_listen((struct sockaddr *)&at, size, &m->ring_port);
	return m->ring_listen < 0 ? -1 : 0;
}

static struct addrinfo *
master_address(const struct meeting *m)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	char port[16];

	snprintf(port, sizeof port, "%u", (unsigned)m->setup->port);
	return getaddrinfo(m->setup->master, port, &want, &found) == 0 ? found : NULL;
}

/* ---- rank 0 ------------------------------------------------------------------------------ */

static int
open_door(struct meeting *m)
{
	struct addrinfo *at;
	uint16_t port;

	if (m->setup->listen_fd >= 0)
		return m->setup->listen_fd;
	at = master_address(m);
	for (struct addrinfo *a = at; a != NULL && m->own_listen < 0; a = a->ai_next)
		m->own_listen = espl__net_listen(a->ai_addr, a->ai_addrlen, &port);
	if (at != NULL)
		freeaddrinfo(at);
	return m->own_listen;
}

static int
is_welcome(const struct meeting *m, const struct knock *k)
{
	return is_proved(m, AT_DOOR, k) && k->rank > 0 && k->rank < m->setup->world &&
	    m->links[k->rank] < 0;
}

/* A connection gets one second to prove its key; then the next one is accepted. */
static espl_status
receive_one(struct meeting *m, int door, uint64_t host)
{
	struct sockaddr_storage from;
	socklen_t size = sizeof from;
	struct knock k;
	int64_t soon = espl__tick() + ESPL_SECOND;
	espl_status status;
	int fd;

	status = espl__net_accept(door, m->deadline, &fd);
	if (status != ESPL_OK)
		return status;
	if (m->deadline != 0 && m->deadline < soon)
		soon = m->deadline;
	if (espl__net_send(fd, &m->nonce, sizeof m->nonce, soon) != ESPL_OK ||
	    espl__net_recv(fd, &k, sizeof k, soon) != ESPL_OK || !is_welcome(m, &k) ||
	    getpeername(fd, (struct sockaddr *)&from, &size) != 0) {
		close(fd);
		return ESPL_OK;
	}
	m->links[k.rank] = fd;
	m->link_count++;
	from_sockaddr(&from, k.port, &m->table[k.rank]);
	m->table[k.rank].pid = k.pid;
	m->nonces[k.rank] = k.nonce;
	if (k.host != host || k.node != m->setup->node)
		m->same = 0;
	return ESPL_OK;
}

/* Memory without a name: it is gone when the last rank is, however that ends. */
static int
make_memory(struct meeting *m, struct offer *o)
{
	size_t size = espl__shm_size(m->setup->world);
	int fd = memfd_create("espalier-gang", MFD_CLOEXEC);

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t)size) == 0) {
		m->met->memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (m->met->memory != MAP_FAILED) {
			m->met->size = o->size = size;
			espl__shm_format(m->met->memory, m->setup->world);
			return fd;
		}
		m->met->memory = NULL;
	}
	close(fd);
	return -1;
}

static espl_status
agree_on_transport(struct meeting *m, const struct offer *o)
{
	size_t table = m->setup->world * sizeof *m->table;
	espl_status status = ESPL_OK;
	uint8_t verdict = o->fd >= 0 ? VERDICT_SHM : VERDICT_RING, answer;
	struct proof proof;

	for (uint32_t r = 1; r < m->setup->world && status == ESPL_OK; r++) {
		status = espl__net_send(m->links[r], o, sizeof *o, m->deadline);
		if (status == ESPL_OK)
			status = espl__net_send(m->links[r], m->table, table, m->deadline);
		proof = prove(m, FROM_0, &m->nonces[r], o, sizeof *o, m->table, table);
		if (status == ESPL_OK)
			status = espl__net_send(m->links[r], &proof, sizeof proof, m->deadline);
	}
	for (uint32_t r = 1; r < m->setup->world && status == ESPL_OK; r++) {
		status = espl__net_recv(m->links[r], &answer, 1, m->deadline);
		if (status == ESPL_OK && answer != VERDICT_SHM)
			verdict = VERDICT_RING;
	}
	for (uint32_t r = 1; r < m->setup->world && status == ESPL_OK; r++)
		status = espl__net_send(m->links[r], &verdict, 1, m->deadline);
	m->met->shm = verdict == VERDICT_SHM;
	return status == ESPL_OK ? ESPL_OK : meeting_failed(m, status, "a rank was lost");
}

static espl_status
host_meeting(struct meeting *m)
{
	struct offer o = { MAGIC, 0, (int32_t)getpid(), -1 };
	espl_status status = ESPL_OK;
	uint64_t host = host_id();
	int door = open_door(m), memory = -1;

	if (door < 0 || listen_for_ring(m, door) != 0)
		return espl__fail_errno(m->diag, "rank 0 cannot listen for the others");
	m->table[0].port = m->ring_port;
	m->table[0].pid = (int32_t)getpid();
	while (m->link_count < m->setup->world - 1 && status == ESPL_OK)
		status = receive_one(m, door, host);
	if (status != ESPL_OK) {
		char text[64];

		snprintf(text, sizeof text, "%u of %u ranks connected", m->link_count + 1,
		    m->setup->world);
		return meeting_failed(m, status, text);
	}
	if (m->same && !m->setup->no_shm)
		memory = o.fd = make_memory(m, &o);
	status = agree_on_transport(m, &o);
	if (memory >= 0)
		close(memory);
	return status;
}

/* ---- the others -------------------------------------------------------------------------- */

static espl_status
knock_at(struct meeting *m)
{
	struct addrinfo *at = master_address(m);
	struct knock k;
	espl_status status;

	if (at == NULL)
		return espl__fail(m->diag, ESPL_E_PEER, "'%s' is not a valid address of rank 0",
		    m->setup->master);
	status = espl__net_connect(at->ai_addr, at->ai_addrlen, m->deadline, &m->links[0]);
	freeaddrinfo(at);
	if (status == ESPL_OK && listen_for_ring(m, m->links[0]) != 0)
		return espl__fail_errno(m->diag, "cannot listen for the next rank");
	if (status == ESPL_OK)
		status = espl__net_recv(m->links[0], &m->nonce, sizeof m->nonce, m->deadline);
	if (status == ESPL_OK) {
		k = my_knock(m, AT_DOOR);
		status = espl__net_send(m->links[0], &k, sizeof k, m->deadline);
	}
	return status == ESPL_OK ? ESPL_OK : meeting_failed(m, status, "rank 0 cannot be reached");
}

static void
attach_memory(struct meeting *m, const struct offer *o)
{
	struct stat st;
	char path[64];
	int fd;

	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)o->pid, (int)o->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	if (o->size == espl__shm_size(m->setup->world) && fstat(fd, &st) == 0 &&
	    (uint64_t)st.st_size == o->size) {
		void *p = mmap(NULL, o->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		m->met->memory = p == MAP_FAILED ? NULL : p;
		m->met->size = o->size;
	}
	close(fd);
}

/* Ranks beside rank 0 may have come to it from a loopback address: elsewhere they are found at its
 * own. */
static void
find_neighbors(struct meeting *m, const struct sockaddr_storage *master)
{
	struct sockaddr_storage at;
	uint16_t port = m->table[0].port;

	from_sockaddr(master, port, &m->table[0]);
	if (espl__is_loopback((const struct sockaddr *)master))
		return;
	for (uint32_t r = 1; r < m->setup->world; r++) {
		port = m->table[r].port;
		(void)to_sockaddr(&m->table[r], &at);
		if (espl__is_loopback((struct sockaddr *)&at))
			from_sockaddr(master, port, &m->table[r]);
	}
}

static espl_status
join_meeting(struct meeting *m)
{
	struct sockaddr_storage master;
	socklen_t size = sizeof master;
	struct offer o;
	espl_status status = knock_at(m);
	size_t table = m->setup->world * sizeof *m->table;
	struct proof proof, due;
	uint8_t answer;

	if (status != ESPL_OK)
		return status;
	status = espl__net_recv(m->links[0], &o, sizeof o, m->deadline);
	if (status == ESPL_OK && o.magic != MAGIC)
		return espl__fail(m->diag, ESPL_E_PEER,
		    "the peer at the address of rank 0 is not a rank");
	if (status == ESPL_OK)
		status = espl__net_recv(m->links[0], m->table, table, m->deadline);
	if (status == ESPL_OK)
		status = espl__net_recv(m->links[0], &proof, sizeof proof, m->deadline);
	due = prove(m, FROM_0, &m->mine, &o, sizeof o, m->table, table);
	if (status == ESPL_OK && !memeql_sec(&due, &proof, sizeof due))
		return espl__fail(m->diag, ESPL_E_PEER,
		    "the peer at the address of rank 0 does not have the key of the gang");
	if (status == ESPL_OK && o.fd >= 0)
		attach_memory(m, &o);
	answer = m->met->memory != NULL ? VERDICT_SHM : VERDICT_RING;
	if (status == ESPL_OK)
		status = espl__net_send(m->links[0], &answer, 1, m->deadline);
	if (status == ESPL_OK)
		status = espl__net_recv(m->links[0], &answer, 1, m->deadline);
	if (status != ESPL_OK)
		return meeting_failed(m, status, "rank 0 or another rank was lost");
	if (getpeername(m->links[0], (struct sockaddr *)&master, &size) != 0)
		return espl__fail_errno(m->diag, "rank 0 was lost");
	find_neighbors(m, &master);
	m->met->shm = answer == VERDICT_SHM && m->met->memory != NULL;
	return ESPL_OK;
}

/* ---- the ring ---------------------------------------------------------------------------- */

static espl_status
close_ring(struct meeting *m)
{
	const struct espl__comm_setup *s = m->setup;
	struct sockaddr_storage to;
	struct knock k = my_knock(m, IN_RING);
	socklen_t size = to_sockaddr(&m->table[(s->rank + 1) % s->world], &to);
	espl_status status =
	    espl__net_connect((struct sockaddr *)&to, size, m->deadline, &m->met->next);

	if (status == ESPL_OK)
		status = espl__net_send(m->met->next, &k, sizeof k, m->deadline);
	while (status == ESPL_OK && m->met->prev < 0) {
		int fd;

		status = espl__net_accept(m->ring_listen, m->deadline, &fd);
		if (status != ESPL_OK)
			break;
		if (espl__net_recv(fd, &k, sizeof k, m->deadline) == ESPL_OK &&
		    is_proved(m, IN_RING, &k) && k.rank == (s->rank + s->world - 1) % s->world)
			m->met->prev = fd;
		else
			close(fd);
	}
	return status == ESPL_OK ? ESPL_OK
				 : meeting_failed(m, status, "a neighbor in the ring is missing");
}

static void
leave_meeting(struct meeting *m)
{
	for (uint32_t r = 0; r < m->setup->world; r++)
		if (m->links[r] >= 0)
			close(m->links[r]);
	if (m->own_listen >= 0)
		close(m->own_listen);
	if (m->ring_listen >= 0)
		close(m->ring_listen);
	free(m->links);
	free(m->nonces);
	free(m->table);
}

static void
undo_meeting(struct espl__met *met)
{
	if (met->memory != NULL)
		munmap(met->memory, met->size);
	met->memory = NULL;
	if (met->next >= 0)
		close(met->next);
	if (met->prev >= 0)
		close(met->prev);
	met->next = met->prev = -1;
}

espl_status
espl__comm_meet(const struct espl__comm_setup *s, struct espl__met *met, struct espl__diag *diag)
{
	struct meeting m = { .setup = s,
		.met = met,
		.diag = diag,
		.own_listen = -1,
		.ring_listen = -1,
		.same = 1 };
	espl_status status;

	*met = (struct espl__met){ .next = -1, .prev = -1 };
	m.deadline = espl__deadline(s->init_limit > 0 ? s->init_limit : 60 * ESPL_SECOND);
	m.table = espl__alloc(s->world * sizeof *m.table);
	m.links = espl__alloc(s->world * sizeof *m.links);
	m.nonces = espl__alloc(s->world * sizeof *m.nonces);
	draw_nonce(s->rank == 0 ? &m.nonce : &m.mine);
	for (uint32_t r = 0; r < s->world; r++)
		m.links[r] = -1;
	status = s->rank == 0 ? host_meeting(&m) : join_meeting(&m);
	if (status == ESPL_OK && met->shm) {
		met->pids = espl__alloc(s->world * sizeof *met->pids);
		for (uint32_t r = 0; r < s->world; r++)
			met->pids[r] = m.table[r].pid;
	} else if (status == ESPL_OK) {
		if (met->memory != NULL)
			munmap(met->memory, met->size);
		met->memory = NULL;
		status = close_ring(&m);
	}
	leave_meeting(&m);
	if (status != ESPL_OK)
		undo_meeting(met);
	return status;
}

int
espl__comm_door(const char *address, uint32_t *port)
{
	struct addrinfo want = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	struct addrinfo *found = NULL;
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_ANY) } };
	uint16_t got = 0;
	int fd = -1;

	if (getaddrinfo(address, "0", &want, &found) == 0) {
		for (struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next)
			if (!espl__is_inward(address, a->ai_addr))
				fd = espl__net_listen(a->ai_addr, a->ai_addrlen, &got);
		freeaddrinfo(found);
	}
	if (fd < 0)
		fd = espl__net_listen((struct sockaddr *)&any, sizeof any, &got);
	*port = got;
	return fd;
}
