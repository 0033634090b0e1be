/* session_rig.h - a driver with a journal, --connect, channels, a keeper and an agent as one
 * program with a virtual clock: what test_session.c breaks at every step.
 *
 * --connect and keeper are the real ones (link.c, keep.c, stream.c), and so is what the agent keeps
 * for a driver that resumes (backlog.c) and how the driver takes that up (espl__real_rejoin_line).
 * Driver, agent and trials are models: the driver decides by lot and journals each event with what
 * it decides before it acts, as the real one does.
 */
#ifndef SESSION_RIG_H
#define SESSION_RIG_H
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/backlog.h"
#include "base/rng.h"
#include "node/wire.h"
#include "real/real.h"
#include "session/keep.h"
#include "session/link.h"

#define RIG_SECOND (1000 * ESPL__SESSION_MS)
#define RIG_PATIENCE (60 * RIG_SECOND)
#define RIG_LINGER (120 * RIG_SECOND)
#define RIG_REJOIN (20 * RIG_SECOND)
enum { RIG_GANGS = 4, RIG_ITERATIONS = 12, RIG_LINKS = 60, RIG_CHANNELS = 400 };

struct rig_reply {
	enum espl__directive what;
	uint64_t budget; /* in force from then on */
};

/* A gang: what the journal says of it, and what its trial really went through. */
struct rig_gang {
	int decided, started, ended, lost, killed;
	uint64_t iteration, budget, goal;
	int awaiting;
	/* It will be killed when it has reported one less; 0: it will not.  Not at any time: one
	 * that waits in vain for a reply must not be saved by that. */
	uint64_t doomed;
	struct rig_reply replies[RIG_ITERATIONS + 1]; /* [iteration]; what 0: not decided */
	/* the truth */
	int starts;
	uint64_t trained, answered;
};

enum rig_state { RIG_PREPARES = 1, RIG_TRAINS, RIG_WAITS, RIG_LEAVES };
struct rig_trial {
	enum rig_state state; /* 0: there is none */
	int64_t until;
	uint64_t iteration, budget;
	struct espl__backlog backlog;
};

struct rig_channel {
	enum { RIG_FREE, RIG_TRAVELS, RIG_JOINED, RIG_OVER } state;
	int link, near_open, cut;
	const char *word;
	char id[ESPL__KEEP_WORD + 1];
	int64_t arrives, gives_up;
	int64_t near_end, keeper_end; /* when each side sees its end; 0: not yet known */
	int status;                   /* exit status of the command */
	struct espl__buf up, down;    /* to the keeper; to --connect */
};

struct rig_link {
	int alive, closed; /* closed: the driver's side of its input */
	struct espl__link link;
	char id[ESPL__KEEP_WORD + 1];
	const char *first;
	struct espl__buf in, out; /* pipes from and to the driver */
	int channel;              /* -1: none */
};

struct rig {
	uint64_t seed;
	struct espl__rng rng;
	int64_t now;
	int tells;
	int gentle; /* nothing happens that costs a gang */
	unsigned faults;
	int64_t next_fault, down_until;
	struct rig_gang gangs[RIG_GANGS];
	/* the driver; number and epoch are on its disk */
	uint64_t number, epoch;
	int alive, near, greeted, rejoining, done;
	unsigned fuse; /* steps until it is killed, 0: it is not */
	int64_t starts_at, rejoin_until;
	struct espl__buf repeated; /* the agent's state */
	struct rig_link links[RIG_LINKS];
	unsigned link_count;
	struct rig_channel channels[RIG_CHANNELS];
	unsigned channel_count;
	/* the node */
	int has_keeper, has_agent, joined; /* joined: the keeper's channel, -1 none */
	struct espl__keep keep;
	struct espl__buf to_agent, from_agent; /* pipes */
	struct espl__buf inbox, outbox, past;  /* of the agent */
	int agent_greeted;
	struct rig_trial trials[RIG_GANGS];
};

/* ---- helpers ------------------------------------------------------------------------------- */

#define RIG_ASSERT(r, condition, ...) \
	cr_assert(condition, "seed %llu, %.3f s: %s", (unsigned long long)(r)->seed, \
	    (double)(r)->now / 1e9, rig_text(__VA_ARGS__))

static inline const char *ESPL_PRINTF(1, 2) rig_text(const char *format, ...)
{
	static char text[200];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return text;
}

/* SEED=n: tells what happens. */
#define RIG_TELL(r, ...) \
	((r)->tells ? (fprintf(stderr, "# %8.3f ", (double)(r)->now / 1e9), \
			  fprintf(stderr, __VA_ARGS__), fputc('\n', stderr)) \
		    : 0)

static inline uint32_t
rig_draw(struct rig *r, uint32_t below)
{
	return below == 0 ? 0 : (uint32_t)(espl__rng_next(&r->rng) % below);
}

static inline int64_t
rig_soon(struct rig *r, uint32_t most_ms)
{
	return r->now + (int64_t)rig_draw(r, most_ms + 1) * ESPL__SESSION_MS;
}

static inline void
rig_cut(struct espl__buf *b, size_t count)
{
	b->size -= count;
	if (b->size > 0) /* an empty one may have no data */
		memmove(b->data, b->data + count, b->size);
}

/* Some of the bytes, often all. */
static inline size_t
rig_some(struct rig *r, size_t size)
{
	return rig_draw(r, 3) > 0 ? size : rig_draw(r, (uint32_t)size + 1);
}

static inline void
rig_move(struct rig *r, struct espl__buf *from, struct espl__buf *to)
{
	size_t count = rig_some(r, from->size);

	if (count == 0)
		return;
	if (to != NULL)
		espl__put(to, from->data, count);
	rig_cut(from, count);
}

static inline void
rig_send(struct espl__buf *to, enum espl__message type, uint64_t gang, uint64_t number)
{
	size_t mark = espl__frame_begin(to, type);

	espl__put_v64(to, gang);
	espl__put_v64(to, number);
	espl__frame_end(to, mark);
}
#endif
