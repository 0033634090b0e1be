/* wire.c - frames and the START message: every byte on the channel is made or checked here.
 *
 * What comes in is not trusted: sizes are bounded before anything is allocated, and a START is
 * refused as a whole unless all of it makes sense, so that the agent need not look twice.
 */
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "node/wire.h"

#define HEAD 5u /* u32 size, u8 type */
#define TAIL 4u /* u32 CRC-32C */

static void
put_le32(uint8_t *to, uint32_t v)
{
	to[0] = (uint8_t)v;
	to[1] = (uint8_t)(v >> 8);
	to[2] = (uint8_t)(v >> 16);
	to[3] = (uint8_t)(v >> 24);
}

static uint32_t
get_le32(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
	    (uint32_t)at[3] << 24;
}

static int
is_known_type(uint8_t type)
{
	return (type >= ESPL__MSG_HELLO && type <= ESPL__MSG_TRY) || espl__is_tree(type) ||
	    (type >= ESPL__MSG_HELLO_BACK && type <= ESPL__MSG_NOTE);
}

size_t
espl__frame_begin(struct espl__buf *b, enum espl__message type)
{
	size_t mark = b->size;

	espl__put_u32(b, 0);
	espl__put_u8(b, (uint8_t)type);
	return mark;
}

void
espl__frame_end(struct espl__buf *b, size_t mark)
{
	ESPL__ASSERT(mark + HEAD <= b->size && is_known_type(b->data[mark + 4]));
	put_le32(b->data + mark, (uint32_t)(b->size - mark - HEAD));
	espl__put_u32(b, espl__crc32c(0, b->data + mark, b->size - mark));
}

void
espl__frame_put(struct espl__buf *b, enum espl__message type, const void *payload, size_t size)
{
	size_t mark = espl__frame_begin(b, type);

	if (size > 0)
		espl__put(b, payload, size);
	espl__frame_end(b, mark);
}

int
espl__frame_get(const struct espl__buf *in, size_t from, uint8_t *type,
    struct espl__reader *payload, size_t *used)
{
	const uint8_t *at;
	uint32_t size;

	if (from > in->size)
		return -1;
	if (in->size - from < HEAD)
		return 0;
	at = in->data + from;
	size = get_le32(at);
	if (size > ESPL__WIRE_MAX || !is_known_type(at[4]))
		return -1;
	if (in->size - from < (size_t)HEAD + size + TAIL)
		return 0;
	if (get_le32(at + HEAD + size) != espl__crc32c(0, at, (size_t)HEAD + size))
		return -1;
	*type = at[4];
	*payload = espl__reader(at + HEAD, size);
	*used = (size_t)HEAD + size + TAIL;
	return 1;
}

/* ---- START ------------------------------------------------------------------------------- */

static void
put_meeting(struct espl__buf *b, const struct espl__meeting *m)
{
	espl__put_v64(b, m->generation);
	if (m->generation == 0)
		return;
	espl__put_v64(b, m->moved ? 1 : 0);
	espl__put_str(b, m->door);
	espl__put_v64(b, m->port);
	espl__put_str(b, m->master);
	espl__put_v64(b, m->world);
	espl__put_v64(b, m->node);
	espl__put_v64(b, m->local_world);
}

void
espl__start_put(const struct espl__start *s, struct espl__buf *b)
{
	ESPL__ASSERT(s->world > 0 && s->rank_count > 0 && s->rank_count <= s->world);
	ESPL__ASSERT(s->node_rank < s->nodes && s->packing > 0);
	ESPL__ASSERT((s->argc > 0) != (s->trainable != NULL && s->trainable[0] != '\0'));
	espl__put_v64(b, s->gang);
	espl__put_v64(b, s->trial);
	espl__put_v64(b, s->world);
	espl__put_v64(b, s->nodes);
	espl__put_u8(b, s->together ? 1 : 0);
	espl__put_v64(b, s->node_rank);
	espl__put_v64(b, s->rank_count);
	for (uint32_t i = 0; i < s->rank_count; i++) {
		espl__put_v64(b, s->ranks[i].rank);
		espl__put_v64(b, s->ranks[i].local_rank);
		espl__put_v64(b, s->ranks[i].gpu);
	}
	espl__put_v64(b, s->packing);
	espl__put_v64(b, s->sharing);
	espl__put_v64(b, s->attempt);
	espl__put_str(b, s->master);
	espl__put_v64(b, s->port);
	espl__put_v64(b, s->device_gpu ? 1 : 0);
	espl__put_v64(b, s->threads);
	espl__put_v64(b, s->argc);
	for (uint32_t i = 0; i < s->argc; i++)
		espl__put_str(b, s->argv[i]);
	espl__put_str(b, s->metrics);
	espl__put_str(b, s->trainable);
	espl__put_str(b, s->options);
	espl__put_str(b, s->params);
	espl__put_str(b, s->directory);
	espl__put_u8(b, s->anywhere ? 1 : 0);
	espl__put_v64(b, s->setup_count);
	for (uint32_t i = 0; i < s->setup_count; i++)
		espl__put_str(b, s->setup[i]);
	espl__put_v64(b, s->env_count);
	for (uint32_t i = 0; i < s->env_count; i++)
		espl__put_str(b, s->env[i]);
	espl__put_v64(b, s->iteration);
	espl__put_v64(b, s->budget);
	espl__put_v64(b, s->iterations_max);
	espl__put_u64(b, s->seed);
	espl__put_v64(b, s->source);
	espl__put_v64(b, s->checkpoint);
	espl__put_z64(b, s->file_max);
	espl__put_z64(b, s->log_limit);
	espl__put_v64(b, s->grace_ms);
	put_meeting(b, &s->join);
	espl__put_v64(b, s->of);
	espl__put_v64(b, s->local_first);
	espl__put(b, s->key, sizeof s->key);
	espl__put_u8(b, s->torchrun ? 1 : 0);
	espl__put_u8(b, s->warm ? 1 : 0);
}

/* Where the decoded START lies: one block, filled from the front.  No string is longer than
 * its encoding, no list has more members than bytes, so 13 bytes a byte are always enough. */
struct block {
	char *at;
	size_t left;
};

static void *
take_block(struct block *k, size_t bytes, size_t align)
{
	size_t skip = (align - (uintptr_t)k->at % align) % align;
	void *p;

	ESPL__ASSERT(align > 0 && (align & (align - 1)) == 0);
	if (skip > k->left || bytes > k->left - skip)
		return NULL;
	p = k->at + skip;
	k->at += skip + bytes;
	k->left -= skip + bytes;
	return p;
}

static uint32_t
get_small(struct espl__reader *r, uint32_t max)
{
	uint64_t v = espl__get_v64(r);

	if (v > max)
		r->bad = 1;
	return r->bad ? 0 : (uint32_t)v;
}

static const char *
get_text(struct espl__reader *r, struct block *k)
{
	size_t size;
	const void *p = espl__get_bytes(r, &size);
	char *to;

	if (r->bad || (size > 0 && memchr(p, 0, size) != NULL) ||
	    (to = take_block(k, size + 1, 1)) == NULL) {
		r->bad = 1;
		return "";
	}
	if (size > 0)
		memcpy(to, p, size);
	to[size] = '\0';
	return to;
}

/* A list of strings, ended by NULL as execve wants it. */
static const char *const *
get_list(struct espl__reader *r, struct block *k, uint32_t *count)
{
	const char **list;

	*count = get_small(r, UINT32_MAX);
	if (r->bad || *count > (size_t)(r->end - r->at) ||
	    (list = take_block(k, ((size_t)*count + 1) * sizeof *list, sizeof *list)) == NULL) {
		r->bad = 1;
		*count = 0;
		return NULL;
	}
	for (uint32_t i = 0; i < *count; i++)
		list[i] = get_text(r, k);
	list[*count] = NULL;
	return list;
}

static void
get_ranks(struct espl__reader *r, struct block *k, struct espl__start *s)
{
	struct espl__start_rank *ranks;

	s->rank_count = get_small(r, s->world);
	if (r->bad || s->rank_count == 0 || s->rank_count > (size_t)(r->end - r->at) / 3 ||
	    (ranks = take_block(k, s->rank_count * sizeof *ranks, 8)) == NULL) {
		r->bad = 1;
		s->rank_count = 0;
		return;
	}
	for (uint32_t i = 0; i < s->rank_count; i++) {
		ranks[i].rank = get_small(r, s->world - 1);
		ranks[i].local_rank = get_small(r, s->rank_count - 1);
		ranks[i].gpu = get_small(r, UINT32_MAX);
		if (ranks[i].local_rank != i || (i > 0 && ranks[i].rank <= ranks[i - 1].rank))
			r->bad = 1;
	}
	s->ranks = ranks;
}

static void
get_meeting(struct espl__reader *r, struct block *k, struct espl__meeting *m)
{
	m->generation = get_small(r, UINT32_MAX / 4);
	if (m->generation == 0)
		return;
	m->moved = (int)get_small(r, 1);
	m->door = get_text(r, k);
	m->port = get_small(r, 65535);
	m->master = get_text(r, k);
	m->world = get_small(r, UINT32_MAX / 4);
	m->node = get_small(r, UINT32_MAX / 4);
	m->local_world = get_small(r, m->world);
	/* They are words of a line. */
	if (m->world == 0 || m->door[0] == '\0' || m->master[0] == '\0' ||
	    strpbrk(m->door, " \n") != NULL || strpbrk(m->master, " \n") != NULL)
		r->bad = 1;
}

static void
get_rest(struct espl__reader *r, struct block *k, struct espl__start *s)
{
	s->packing = get_small(r, UINT32_MAX);
	s->sharing = (enum espl__sharing)get_small(r, ESPL__SHARE_EXCLUSIVE);
	s->attempt = get_small(r, UINT32_MAX);
	s->master = get_text(r, k);
	s->port = get_small(r, 65535);
	s->device_gpu = (int)get_small(r, 1);
	s->threads = get_small(r, UINT32_MAX);
	s->argv = get_list(r, k, &s->argc);
	if (s->argc == 0)
		s->argv = NULL;
	s->metrics = get_text(r, k);
	s->trainable = get_text(r, k);
	if (s->trainable[0] == '\0')
		s->trainable = NULL;
	s->options = get_text(r, k);
	s->params = get_text(r, k);
	s->directory = get_text(r, k);
	s->anywhere = espl__get_u8(r) != 0;
	s->setup = get_list(r, k, &s->setup_count);
	s->env = get_list(r, k, &s->env_count);
	s->iteration = espl__get_v64(r);
	s->budget = espl__get_v64(r);
	s->iterations_max = espl__get_v64(r);
	s->seed = espl__get_u64(r);
	s->source = espl__get_v64(r);
	s->checkpoint = espl__get_v64(r);
	s->file_max = espl__get_z64(r);
	s->log_limit = espl__get_z64(r);
	s->grace_ms = espl__get_v64(r);
	get_meeting(r, k, &s->join);
	s->of = espl__get_v64(r);
	s->local_first = get_small(r, UINT32_MAX);
	for (size_t i = 0; i < sizeof s->key; i++)
		s->key[i] = espl__get_u8(r);
	s->torchrun = espl__get_u8(r) == 1;
	s->warm = espl__get_u8(r) == 1;
}

int
espl__start_get(struct espl__reader *r, struct espl__start *s, void **free_me)
{
	size_t size = (size_t)(r->end - r->at) * 13 + 128;
	struct block k;

	memset(s, 0, sizeof *s);
	*free_me = espl__alloc(size);
	k = (struct block){ *free_me, size };
	s->gang = espl__get_v64(r);
	s->trial = espl__get_v64(r);
	s->world = get_small(r, UINT32_MAX);
	s->nodes = get_small(r, UINT32_MAX);
	s->together = espl__get_u8(r) == 1;
	s->node_rank = get_small(r, UINT32_MAX);
	if (s->world == 0 || s->nodes == 0 || s->node_rank >= s->nodes)
		r->bad = 1;
	get_ranks(r, &k, s);
	if (!r->bad)
		get_rest(r, &k, s);
	if (!r->bad &&
	    (r->at != r->end || s->packing == 0 || s->file_max < 0 || s->log_limit < 0 ||
		(s->join.generation > 0 && s->trainable == NULL) ||
		(s->argc > 0) == (s->trainable != NULL) || (s->argc > 0 && s->argv[0][0] == '\0') ||
		(s->setup_count > 0 && s->setup[0][0] == '\0')))
		r->bad = 1;
	for (uint32_t i = 0; !r->bad && i < s->env_count; i++)
		if (s->env[i][0] == '\0' || s->env[i][0] == '=')
			r->bad = 1;
	if (r->bad) {
		free(*free_me);
		*free_me = NULL;
		memset(s, 0, sizeof *s);
		return -1;
	}
	return 0;
}

/* ---- SLOTS -------------------------------------------------------------------------------- */

void
espl__rank_slots_put(const struct espl__rank_slots *s, struct espl__buf *b)
{
	ESPL__ASSERT(s->count == 0 || (s->meet.generation > 0 && s->ranks != NULL));
	espl__put_v64(b, s->gang);
	put_meeting(b, &s->meet);
	espl__put_v64(b, s->count);
	for (uint32_t i = 0; i < s->count; i++) {
		espl__put_v64(b, s->ranks[i].rank);
		espl__put_v64(b, s->ranks[i].local_rank);
		espl__put_v64(b, s->ranks[i].gpu);
	}
}

int
espl__rank_slots_get(struct espl__reader *r, struct espl__rank_slots *s, void **free_me)
{
	size_t size = (size_t)(r->end - r->at) * 13 + 128;
	struct block k;
	struct espl__start_rank *ranks;

	memset(s, 0, sizeof *s);
	*free_me = espl__alloc(size);
	k = (struct block){ *free_me, size };
	s->gang = espl__get_v64(r);
	get_meeting(r, &k, &s->meet);
	s->count = get_small(r, UINT32_MAX);
	if (!r->bad && s->count > 0 &&
	    (s->meet.generation == 0 || s->count > (size_t)(r->end - r->at) / 3))
		r->bad = 1;
	ranks = r->bad ? NULL : take_block(&k, (s->count + 1) * sizeof *ranks, 8);
	if (ranks == NULL)
		r->bad = 1;
	for (uint32_t i = 0; !r->bad && i < s->count; i++) {
		ranks[i].rank = get_small(r, s->meet.world);
		ranks[i].local_rank = get_small(r, UINT32_MAX);
		ranks[i].gpu = get_small(r, UINT32_MAX);
	}
	s->ranks = ranks;
	if (!r->bad && r->at == r->end)
		return 0;
	free(*free_me);
	*free_me = NULL;
	memset(s, 0, sizeof *s);
	return -1;
}
