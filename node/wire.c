/* wire.c - frames and the START message: every byte on the channel is made or checked here.
 *
 * What comes in is not trusted: sizes are bounded before anything is allocated, and a START is
 * refused as a whole unless all of it makes sense, so that the agent need not look twice.
 */
#include <string.h>

#include "base/assert.h"
#include "base/codec.h"
#include "base/hash.h"
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

/* A number that was read and is larger than this is bad. */
static inline void
limit_value(struct espl__codec *c, uint32_t *value, uint32_t most)
{
	if (c->from == NULL || *value <= most)
		return;
	c->from->bad = 1;
	*value = 0;
}

ESPL__CODES void
code_flag(struct espl__codec *c, int *flag)
{
	uint32_t given = *flag != 0;

	ESPL__CODE_U32(c, given);
	limit_value(c, &given, 1);
	if (c->from != NULL)
		*flag = (int)given;
}

/* A list of texts; read, it ends with NULL as execve wants it. */
ESPL__CODES void
code_texts(struct espl__codec *c, const char *const **list, uint32_t *count)
{
	const char **texts = espl__code_list(c, *list, count, sizeof *texts, 1);

	for (uint32_t i = 0; i < *count; i++)
		espl__code_text(c, &texts[i], ESPL__WIRE_MAX);
	if (c->from == NULL)
		return;
	texts[*count] = NULL;
	*list = texts;
}

ESPL__CODES void
code_ranks(struct espl__codec *c, const struct espl__start_rank **list, uint32_t *count)
{
	struct espl__start_rank *ranks = espl__code_list(c, *list, count, sizeof *ranks, 3);

	for (uint32_t i = 0; i < *count; i++) {
		ESPL__CODE_U32(c, ranks[i].rank);
		ESPL__CODE_U32(c, ranks[i].local_rank);
		ESPL__CODE_U32(c, ranks[i].gpu);
	}
	if (c->from != NULL)
		*list = ranks;
}

ESPL__CODES void
code_meeting(struct espl__codec *c, struct espl__meeting *m)
{
	ESPL__CODE_U32(c, m->generation);
	limit_value(c, &m->generation, UINT32_MAX / 4);
	if (m->generation == 0)
		return;
	code_flag(c, &m->moved);
	espl__code_text(c, &m->door, ESPL__WIRE_MAX);
	ESPL__CODE_U32(c, m->port);
	limit_value(c, &m->port, 65535);
	espl__code_text(c, &m->master, ESPL__WIRE_MAX);
	ESPL__CODE_U32(c, m->world);
	limit_value(c, &m->world, UINT32_MAX / 4);
	ESPL__CODE_U32(c, m->node);
	limit_value(c, &m->node, UINT32_MAX / 4);
	ESPL__CODE_U32(c, m->local_world);
	limit_value(c, &m->local_world, m->world);
	/* They are words of a line. */
	if (c->from != NULL &&
	    (m->world == 0 || m->door[0] == '\0' || m->master[0] == '\0' ||
		strpbrk(m->door, " \n") != NULL || strpbrk(m->master, " \n") != NULL))
		c->from->bad = 1;
}

/* What it is, and where it runs. */
ESPL__CODES void
code_place(struct espl__codec *c, struct espl__start *s)
{
	ESPL__CODE_V64(c, s->gang);
	ESPL__CODE_V64(c, s->trial);
	ESPL__CODE_U32(c, s->world);
	ESPL__CODE_U32(c, s->nodes);
	code_flag(c, &s->together);
	ESPL__CODE_U32(c, s->node_rank);
	code_ranks(c, &s->ranks, &s->rank_count);
	ESPL__CODE_U32(c, s->packing);
	ESPL__CODE_U32(c, s->sharing);
	ESPL__CODE_U32(c, s->attempt);
	espl__code_text(c, &s->master, ESPL__WIRE_MAX);
	ESPL__CODE_U32(c, s->port);
	limit_value(c, &s->port, 65535);
	code_flag(c, &s->device_gpu);
	ESPL__CODE_U32(c, s->threads);
}

ESPL__CODES void
code_start(struct espl__codec *c, struct espl__start *s)
{
	code_place(c, s);
	code_texts(c, &s->argv, &s->argc);
	espl__code_text(c, &s->metrics, ESPL__WIRE_MAX);
	espl__code_text(c, &s->trainable, ESPL__WIRE_MAX);
	espl__code_text(c, &s->options, ESPL__WIRE_MAX);
	espl__code_text(c, &s->params, ESPL__WIRE_MAX);
	espl__code_text(c, &s->directory, ESPL__WIRE_MAX);
	code_flag(c, &s->anywhere);
	code_texts(c, &s->setup, &s->setup_count);
	code_texts(c, &s->env, &s->env_count);
	ESPL__CODE_V64(c, s->iteration);
	ESPL__CODE_V64(c, s->budget);
	ESPL__CODE_V64(c, s->iterations_max);
	ESPL__CODE(c, s->seed, espl__put_u64, espl__get_u64);
	ESPL__CODE(c, s->fold, espl__put_u32, espl__get_u32);
	ESPL__CODE_V64(c, s->source);
	ESPL__CODE_V64(c, s->checkpoint);
	ESPL__CODE_Z64(c, s->file_max);
	ESPL__CODE_Z64(c, s->log_limit);
	ESPL__CODE_V64(c, s->grace_ms);
	code_meeting(c, &s->join);
	ESPL__CODE_V64(c, s->of);
	ESPL__CODE_U32(c, s->local_first);
	for (size_t i = 0; i < sizeof s->key; i++)
		ESPL__CODE_U8(c, s->key[i]);
	code_flag(c, &s->torchrun);
	code_flag(c, &s->warm);
}

void
espl__start_put(const struct espl__start *s, struct espl__buf *b)
{
	struct espl__codec c = { .to = b };

	ESPL__ASSERT(s->world > 0 && s->rank_count > 0 && s->rank_count <= s->world);
	ESPL__ASSERT(s->node_rank < s->nodes && s->packing > 0);
	ESPL__ASSERT((s->argc > 0) != (s->trainable != NULL && s->trainable[0] != '\0'));
	code_start(&c, (struct espl__start *)(uintptr_t)s);
}

/* Ranks are in order, within the gang, and numbered on their node from 0. */
static int
ranks_make_sense(const struct espl__start *s)
{
	if (s->rank_count == 0 || s->rank_count > s->world)
		return 0;
	for (uint32_t i = 0; i < s->rank_count; i++)
		if (s->ranks[i].rank >= s->world || s->ranks[i].local_rank != i ||
		    (i > 0 && s->ranks[i].rank <= s->ranks[i - 1].rank))
			return 0;
	return 1;
}

static int
start_makes_sense(const struct espl__start *s)
{
	if (s->world == 0 || s->node_rank >= s->nodes || !ranks_make_sense(s))
		return 0;
	if (s->packing == 0 || (uint32_t)s->sharing > ESPL__SHARE_EXCLUSIVE || s->file_max < 0 ||
	    s->log_limit < 0)
		return 0;
	/* either a command or a trainable, which alone can be resized in place */
	if ((s->argc > 0) == (s->trainable != NULL) ||
	    (s->join.generation > 0 && s->trainable == NULL))
		return 0;
	if ((s->argc > 0 && s->argv[0][0] == '\0') ||
	    (s->setup_count > 0 && s->setup[0][0] == '\0'))
		return 0;
	for (uint32_t i = 0; i < s->env_count; i++)
		if (s->env[i][0] == '\0' || s->env[i][0] == '=')
			return 0;
	return 1;
}

/* 0: what was read is good; else -1, and what was read is gone. */
static int
keep_or_drop(int good, void *record, size_t size, struct espl__arena *memory)
{
	if (good)
		return 0;
	espl__arena_free(memory);
	memset(record, 0, size);
	return -1;
}

int
espl__start_get(struct espl__reader *r, struct espl__start *s, struct espl__arena *memory)
{
	struct espl__codec c = { .from = r, .arena = memory };

	memset(s, 0, sizeof *s);
	code_start(&c, s);
	if (s->argc == 0)
		s->argv = NULL;
	if (s->trainable[0] == '\0')
		s->trainable = NULL;
	return keep_or_drop(!r->bad && r->at == r->end && start_makes_sense(s), s, sizeof *s,
	    memory);
}

/* ---- SLOTS -------------------------------------------------------------------------------- */

ESPL__CODES void
code_rank_slots(struct espl__codec *c, struct espl__rank_slots *s)
{
	ESPL__CODE_V64(c, s->gang);
	code_meeting(c, &s->meet);
	code_ranks(c, &s->ranks, &s->count);
}

void
espl__rank_slots_put(const struct espl__rank_slots *s, struct espl__buf *b)
{
	struct espl__codec c = { .to = b };

	ESPL__ASSERT(s->count == 0 || (s->meet.generation > 0 && s->ranks != NULL));
	code_rank_slots(&c, (struct espl__rank_slots *)(uintptr_t)s);
}

int
espl__rank_slots_get(struct espl__reader *r, struct espl__rank_slots *s, struct espl__arena *memory)
{
	struct espl__codec c = { .from = r, .arena = memory };
	int good;

	memset(s, 0, sizeof *s);
	code_rank_slots(&c, s);
	good = !r->bad && r->at == r->end && (s->count == 0 || s->meet.generation > 0);
	for (uint32_t i = 0; good && i < s->count; i++)
		good = s->ranks[i].rank <= s->meet.world;
	return keep_or_drop(good, s, sizeof *s, memory);
}
