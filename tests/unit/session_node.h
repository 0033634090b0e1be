/* session_node.h - see session_rig.h: the agent and its trials, the keeper, and the channels. */
#ifndef SESSION_NODE_H
#define SESSION_NODE_H
#include "session_rig.h"

/* ---- the agent ----------------------------------------------------------------------------- */

static inline void
agent_said(struct rig *r, uint64_t gang, size_t mark)
{
	espl__backlog_keep(&r->trials[gang].backlog, r->outbox.data + mark, r->outbox.size - mark);
}

static inline void
agent_says(struct rig *r, enum espl__message type, uint64_t gang, uint64_t number)
{
	size_t mark = r->outbox.size;

	rig_send(&r->outbox, type, gang, number);
	agent_said(r, gang, mark);
}

static inline void
agent_ends(struct rig *r, uint64_t gang)
{
	struct rig_trial *t = &r->trials[gang];

	agent_says(r, ESPL__MSG_ENDED, gang, 0);
	espl__backlog_state(&t->backlog, gang, 1, &r->past);
	espl__backlog_free(&t->backlog);
	memset(t, 0, sizeof *t);
}

static inline void
trial_turn(struct rig *r, uint64_t gang)
{
	struct rig_trial *t = &r->trials[gang];
	size_t mark = r->outbox.size, frame;
	char line[60];

	if (t->state == 0 || t->state == RIG_WAITS || r->now < t->until)
		return;
	if (t->state == RIG_LEAVES) {
		agent_ends(r, gang);
		return;
	}
	if (t->state == RIG_PREPARES) {
		agent_says(r, ESPL__MSG_STARTED, gang, 0);
	} else {
		t->iteration++;
		r->gangs[gang].trained = t->iteration;
		RIG_ASSERT(r, t->iteration <= t->budget, "gang %d trains beyond its budget",
		    (int)gang);
		(void)snprintf(line, sizeof line, "{\"iteration\": %d}", (int)t->iteration);
		frame = espl__frame_begin(&r->outbox, ESPL__MSG_LINE);
		espl__put_v64(&r->outbox, gang);
		espl__put_str(&r->outbox, line);
		espl__frame_end(&r->outbox, frame);
		agent_said(r, gang, mark);
	}
	t->state = t->state == RIG_PREPARES ? RIG_TRAINS : RIG_WAITS;
	t->until = rig_soon(r, 1500);
}

/* A reply must be the one that the journal has for the report at which the trial waits. */
static inline void
trial_hears(struct rig *r, uint64_t gang, const char *line)
{
	struct rig_trial *t = &r->trials[gang];
	struct rig_gang *g = &r->gangs[gang];
	const struct rig_reply *due = &g->replies[t->iteration];
	static const char *const words[] = { [ESPL__CONTINUE] = "continue",
		[ESPL__CHECKPOINT] = "checkpoint",
		[ESPL__PAUSE] = "pause",
		[ESPL__STOP] = "stop" };
	unsigned long long budget = 0;

	if (t->state == RIG_LEAVES)
		return; /* it was killed */
	RIG_ASSERT(r, t->state == RIG_WAITS, "gang %d hears '%s' and waits for nothing", (int)gang,
	    line);
	RIG_ASSERT(r,
	    due->what != 0 && strncmp(line, words[due->what], strlen(words[due->what])) == 0,
	    "gang %d hears '%s' at iteration %d; it was to hear '%s'", (int)gang, line,
	    (int)t->iteration, due->what != 0 ? words[due->what] : "nothing yet");
	RIG_ASSERT(r, g->answered == t->iteration - 1, "gang %d is answered twice", (int)gang);
	g->answered = t->iteration;
	if (sscanf(line, "continue %llu", &budget) == 1)
		t->budget = budget;
	RIG_ASSERT(r, t->budget == due->budget, "gang %d has a budget of %d instead of %d",
	    (int)gang, (int)t->budget, (int)due->budget);
	if (due->what == ESPL__CHECKPOINT || due->what == ESPL__PAUSE)
		agent_says(r, ESPL__MSG_SAVED, gang, t->iteration);
	t->state = due->what == ESPL__PAUSE || due->what == ESPL__STOP ? RIG_LEAVES : RIG_TRAINS;
	t->until = rig_soon(r, 1500);
}

static inline void
agent_greets(struct rig *r)
{
	rig_send(&r->outbox, ESPL__MSG_HELLO_BACK, 0, 0);
	if (r->agent_greeted) {
		if (r->past.size > 0)
			espl__put(&r->outbox, r->past.data, r->past.size);
		for (uint64_t i = 0; i < RIG_GANGS; i++)
			if (r->trials[i].state != 0)
				espl__backlog_state(&r->trials[i].backlog, i, 1, &r->outbox);
		rig_send(&r->outbox, ESPL__MSG_STATED, 0, 0);
	}
	r->agent_greeted = 1;
}

static inline void
agent_obeys(struct rig *r, uint8_t type, struct espl__reader *in)
{
	uint64_t gang = type == ESPL__MSG_BYE ? 0 : espl__get_v64(in);
	struct rig_trial *t = &r->trials[gang % RIG_GANGS];
	char line[60];

	RIG_ASSERT(r, gang < RIG_GANGS && (r->agent_greeted || type == ESPL__MSG_HELLO),
	    "a message of type %d that the agent does not understand", type);
	switch (type) {
	case ESPL__MSG_HELLO: agent_greets(r); break;
	case ESPL__MSG_START:
		RIG_ASSERT(r, r->gangs[gang].starts++ == 0, "gang %d starts twice", (int)gang);
		t->state = RIG_PREPARES;
		t->budget = espl__get_v64(in);
		t->until = rig_soon(r, rig_draw(r, 4) == 0 ? 20000 : 300);
		break;
	case ESPL__MSG_REPLY:
		espl__get_str(in, line, sizeof line);
		if (t->state == 0)
			break;
		espl__backlog_answered(&t->backlog);
		trial_hears(r, gang, line);
		break;
	case ESPL__MSG_KILL:
		if (t->state != 0)
			t->state = RIG_LEAVES;
		break;
	default: break;
	}
}

static inline void
agent_dies(struct rig *r)
{
	RIG_TELL(r, "the agent dies");
	r->has_agent = r->agent_greeted = 0;
	espl__buf_clear(&r->inbox);
	espl__buf_clear(&r->outbox);
	espl__buf_clear(&r->past);
	for (uint32_t i = 0; i < RIG_GANGS; i++) {
		espl__backlog_free(&r->trials[i].backlog);
		memset(&r->trials[i], 0, sizeof r->trials[i]);
	}
}

static inline void
agent_turn(struct rig *r)
{
	struct espl__reader in;
	size_t at = 0, used;
	uint8_t type;
	int got, leaves = 0;

	if (!r->has_agent)
		return;
	rig_move(r, &r->to_agent, &r->inbox);
	while ((got = espl__frame_get(&r->inbox, at, &type, &in, &used)) == 1) {
		if (type != ESPL__MSG_LEAVE)
			agent_obeys(r, type, &in);
		leaves |= type == ESPL__MSG_LEAVE;
		at += used;
	}
	RIG_ASSERT(r, got == 0, "the agent received something that is not a message");
	rig_cut(&r->inbox, at);
	if (leaves || !r->has_keeper ||
	    (!r->keep.in && r->to_agent.size == 0)) { /* the end of its input */
		agent_dies(r);
		return;
	}
	for (uint64_t i = 0; i < RIG_GANGS; i++)
		trial_turn(r, i);
	rig_move(r, &r->outbox, &r->from_agent);
}

/* ---- the keeper ---------------------------------------------------------------------------- */

static inline void
leave_channel(struct rig *r)
{
	if (r->joined >= 0 && r->channels[r->joined].near_end == 0)
		r->channels[r->joined].near_end = rig_soon(r, 500);
	r->joined = -1;
}

static inline void
keeper_dies(struct rig *r)
{
	RIG_TELL(r, "the keeper dies");
	leave_channel(r);
	espl__keep_free(&r->keep);
	r->has_keeper = 0;
	espl__buf_clear(&r->to_agent);
	espl__buf_clear(&r->from_agent);
}

static inline void
keeper_hears(struct rig *r)
{
	struct rig_channel *c = r->joined >= 0 ? &r->channels[r->joined] : NULL;
	size_t count = c != NULL ? rig_some(r, c->up.size) : 0;

	if (count > 0) {
		(void)espl__keep_receive(&r->keep, c->up.data, count, r->now);
		rig_cut(&c->up, count);
	} else if (c != NULL && c->keeper_end != 0 && r->now >= c->keeper_end) {
		espl__keep_lose(&r->keep);
	}
}

static inline void
keeper_turn(struct rig *r)
{
	size_t count;

	if (!r->has_keeper)
		return;
	keeper_hears(r);
	count = r->keep.up.size < ESPL__KEEP_UP ? rig_some(r, r->from_agent.size) : 0;
	if (count > 0) {
		espl__keep_send(&r->keep, r->from_agent.data, count);
		rig_cut(&r->from_agent, count);
	}
	if (!r->has_agent && r->from_agent.size == 0 && r->keep.out)
		espl__keep_ended(&r->keep, r->now);
	espl__keep_pass(&r->keep, r->now);
	rig_move(r, &r->keep.down, &r->to_agent);
	espl__keep_pass(&r->keep, r->now);
	if (espl__keep_tend(&r->keep, r->now))
		agent_dies(r);
	if (r->keep.relay && r->joined >= 0)
		rig_move(r, &r->keep.stream.out,
		    r->channels[r->joined].cut ? NULL : &r->channels[r->joined].down);
	if (!r->keep.relay)
		leave_channel(r);
	if (espl__keep_over(&r->keep, r->now)) {
		RIG_ASSERT(r,
		    !r->gentle || !r->greeted || r->done || !espl__keep_orphaned(&r->keep, r->now),
		    "the node ends itself although its driver lives");
		agent_dies(r);
		keeper_dies(r);
	}
}

/* ---- channels ------------------------------------------------------------------------------ */

static inline void
start_keeper(struct rig *r, const char *id)
{
	RIG_TELL(r, "keeper %s starts", id);
	r->has_keeper = r->has_agent = 1;
	r->joined = -1;
	cr_assert_eq(espl__keep_init(&r->keep, id, RIG_LINGER, r->now), 0);
	r->keep.last = (int)rig_draw(r, 2);
}

static inline void
channel_fails(struct rig *r, struct rig_channel *c, int status)
{
	c->state = RIG_OVER;
	c->status = status;
	c->near_end = rig_soon(r, 500);
}

/* The relay at its far end asks the keeper. */
static inline void
channel_arrives(struct rig *r, int number)
{
	struct rig_channel *c = &r->channels[number];
	int fresh = strcmp(c->word, "new") == 0;
	char line[ESPL__KEEP_WORD + 20];

	if (r->now < r->down_until) {
		channel_fails(r, c, 255);
		return;
	}
	if (!r->has_keeper && fresh)
		start_keeper(r, c->id);
	(void)snprintf(line, sizeof line, "%s %s", c->id, c->word);
	if (r->has_keeper && espl__keep_admit(&r->keep, line, r->now)) {
		RIG_TELL(r, "the keeper takes %s %s", c->id, c->word);
		leave_channel(r);
		r->joined = number;
		c->state = RIG_JOINED;
		if (!c->near_open)
			c->keeper_end = rig_soon(r, 500);
	} else if (fresh && r->now < c->gives_up) {
		c->arrives = r->now + 50 * ESPL__SESSION_MS;
	} else {
		channel_fails(r, c, ESPL__SESSION_GONE);
	}
}

static inline void
channel_breaks(struct rig *r, struct rig_channel *c, int silent)
{
	if (c->state != RIG_JOINED || c->cut)
		return;
	RIG_TELL(r, "the channel of %s breaks%s", c->id, silent ? " in silence" : "");
	c->cut = 1;
	c->up.size = rig_draw(r, (uint32_t)c->up.size + 1);
	c->down.size = rig_draw(r, (uint32_t)c->down.size + 1);
	c->status = 255;
	if (!silent || rig_draw(r, 2) == 0)
		c->keeper_end = rig_soon(r, 3000);
	if (!silent)
		c->near_end = rig_soon(r, 3000);
}

static inline void
channels_turn(struct rig *r)
{
	for (unsigned i = 0; i < r->channel_count; i++) {
		struct rig_channel *c = &r->channels[i];

		if (c->state == RIG_TRAVELS && r->now >= c->arrives)
			channel_arrives(r, (int)i);
		if (c->state == RIG_JOINED && r->now < r->down_until)
			channel_breaks(r, c, 1);
	}
}
#endif
