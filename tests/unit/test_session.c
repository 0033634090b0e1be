/* test_session.c - the session protocol with channels that break at any byte and with driver,
 * --connect, relay, keeper and agent killed at every step: each report is in the journal once, and
 * each decision reaches its gang once.
 *
 * SEED= repeats one case; SESSION_CASES= says how many are tried from a new seed.
 */
#include <time.h>

#include "session_node.h"

#define TURNS_MOST 200000u

/* ---- --connect ----------------------------------------------------------------------------- */

static void
close_near_end(struct rig *r, struct rig_link *l)
{
	struct rig_channel *c = l->channel >= 0 ? &r->channels[l->channel] : NULL;

	l->channel = -1;
	if (c == NULL)
		return;
	c->near_open = 0;
	if (!c->cut && c->keeper_end == 0)
		c->keeper_end = rig_soon(r, 2000);
}

static void
open_channel(struct rig *r, struct rig_link *l)
{
	struct rig_channel *c = &r->channels[r->channel_count];

	RIG_ASSERT(r, r->channel_count < RIG_CHANNELS, "too many connections");
	l->channel = (int)r->channel_count++;
	c->state = RIG_TRAVELS;
	c->near_open = 1;
	c->word = l->link.met ? "again" : l->first;
	memcpy(c->id, l->id, sizeof c->id);
	c->arrives = rig_soon(r, rig_draw(r, 8) == 0 ? 6000 : 300);
	c->gives_up = c->arrives + 25 * RIG_SECOND;
	espl__link_opened(&l->link, r->now);
}

static void
end_link(struct rig *r, struct rig_link *l)
{
	RIG_TELL(r, "--connect %s ends with %d", l->id, l->link.status);
	close_near_end(r, l);
	l->alive = 0;
	espl__buf_clear(&l->in);
}

static void
lose_channel(struct rig *r, struct rig_link *l, int status)
{
	RIG_TELL(r, "--connect %s loses its channel: %d", l->id, status);
	close_near_end(r, l);
	if (espl__link_lost(&l->link, status, "x", rig_draw(r, 1000), r->now) >= 0)
		end_link(r, l);
}

static void
hear_channel(struct rig *r, struct rig_link *l)
{
	struct rig_channel *c = &r->channels[l->channel];
	size_t count = rig_some(r, c->down.size);

	if (count > 0) {
		int bad = espl__link_receive(&l->link, c->down.data, count, r->now);

		rig_cut(&c->down, count);
		if (bad != 0)
			lose_channel(r, l, 255);
	} else if (c->near_end != 0 && r->now >= c->near_end) {
		lose_channel(r, l, c->status);
	}
}

static void
link_turn(struct rig *r, struct rig_link *l)
{
	struct espl__stream *s = &l->link.stream;
	size_t room, count;

	if (!l->alive)
		return;
	room = espl__stream_room(s);
	count = rig_some(r, l->in.size < room ? l->in.size : room);
	if (count > 0) {
		espl__stream_put(s, l->in.data, count);
		rig_cut(&l->in, count);
	} else if (l->closed && l->in.size == 0) {
		espl__link_end(&l->link, r->now);
	}
	switch (espl__link_tend(&l->link, r->now)) {
	case ESPL__LINK_OPEN: open_channel(r, l); break;
	case ESPL__LINK_CLOSE: lose_channel(r, l, 255); break;
	case ESPL__LINK_EXIT: end_link(r, l); return;
	default: break;
	}
	if (l->alive && l->channel >= 0)
		rig_move(r, &s->out,
		    r->channels[l->channel].cut ? NULL : &r->channels[l->channel].up);
	if (l->alive && l->channel >= 0)
		hear_channel(r, l);
	rig_move(r, &s->ready, &l->out);
}

/* ---- the driver ---------------------------------------------------------------------------- */

static void
kill_driver(struct rig *r)
{
	RIG_TELL(r, "the driver dies");
	r->alive = r->greeted = r->rejoining = 0;
	r->fuse = 0;
	if (r->near >= 0)
		r->links[r->near].closed = 1;
	r->near = -1;
	espl__buf_clear(&r->repeated);
	r->starts_at = rig_soon(r, r->gentle ? 20000 : rig_draw(r, 8) == 0 ? 200000 : 20000);
}

/* One step more; 1: it was the last. */
static int
dies(struct rig *r)
{
	if (r->fuse == 0 || --r->fuse > 0)
		return 0;
	kill_driver(r);
	return 1;
}

static struct espl__buf *
to_node(struct rig *r)
{
	return &r->links[r->near].in;
}

static void
send_reply(struct rig *r, uint64_t gang, enum espl__directive what, uint64_t budget)
{
	size_t mark = espl__frame_begin(to_node(r), ESPL__MSG_REPLY);
	char text[40] = "continue";

	if (what == ESPL__CONTINUE && budget > 0)
		(void)snprintf(text, sizeof text, "continue %d", (int)budget);
	else if (what != ESPL__CONTINUE)
		(void)snprintf(text, sizeof text, "%s",
		    what == ESPL__CHECKPOINT ? "checkpoint"
			: what == ESPL__STOP ? "stop"
					     : "pause");
	espl__put_v64(to_node(r), gang);
	espl__put_str(to_node(r), text);
	espl__frame_end(to_node(r), mark);
}

/* Decides, journals and replies. */
static void
decide_reply(struct rig *r, uint64_t gang)
{
	struct rig_gang *g = &r->gangs[gang];
	struct rig_reply reply = { ESPL__CONTINUE, g->budget };
	uint64_t raised = 0;

	if (g->iteration < g->budget && rig_draw(r, 5) == 0)
		reply.what = ESPL__CHECKPOINT;
	else if (g->iteration == g->budget && g->iteration == g->goal)
		reply.what = rig_draw(r, 2) == 0 ? ESPL__PAUSE : ESPL__STOP;
	else if (g->iteration == g->budget)
		raised = reply.budget =
		    g->iteration + 1 + rig_draw(r, (uint32_t)(g->goal - g->iteration));
	g->awaiting = 0;
	g->budget = reply.budget;
	g->replies[g->iteration] = reply;
	RIG_TELL(r, "gang %d: reply %d to %d", (int)gang, (int)reply.what, (int)g->iteration);
	if (!dies(r))
		send_reply(r, gang, reply.what, raised);
}

static void
lose_gangs(struct rig *r)
{
	for (uint32_t i = 0; i < RIG_GANGS; i++)
		if (r->gangs[i].decided && !r->gangs[i].ended) {
			RIG_ASSERT(r, !r->gentle, "gang %d is lost", (int)i);
			r->gangs[i].lost = 1;
		}
}

/* A message about a gang that runs, as espl__real_gang_message. */
static void
take_message(struct rig *r, uint8_t type, const struct espl__reader *message)
{
	struct espl__reader in = *message;
	uint64_t gang = espl__get_v64(&in), iteration;
	struct rig_gang *g = &r->gangs[gang % RIG_GANGS];
	size_t size;
	const char *text;

	RIG_ASSERT(r, gang < RIG_GANGS, "a message about no gang");
	if (g->lost || g->ended || dies(r))
		return;
	RIG_TELL(r, "gang %d: message %d", (int)gang, type);
	if (type == ESPL__MSG_STARTED)
		g->started = 1;
	if (type == ESPL__MSG_ENDED)
		g->ended = 1;
	if (type != ESPL__MSG_LINE)
		return;
	text = espl__get_bytes(&in, &size);
	iteration = espl__real_line_iteration(text, size);
	RIG_ASSERT(r, g->started && !g->awaiting && iteration == g->iteration + 1,
	    "gang %d reports iteration %d after %d%s", (int)gang, (int)iteration, (int)g->iteration,
	    g->awaiting ? ", which waits" : "");
	g->iteration = iteration;
	g->awaiting = 1;
	if (!dies(r) && (g->iteration < g->budget || rig_draw(r, 2) == 0) && !g->killed)
		decide_reply(r, gang);
}

/* As catch_up in real_rejoin.c. */
static void
catch_up(struct rig *r, uint64_t gang, size_t at)
{
	struct rig_gang *g = &r->gangs[gang];
	struct espl__gang_info info = { .gang = gang,
		.iteration = g->iteration,
		.budget = g->budget,
		.directive = g->replies[g->iteration].what,
		.awaiting = g->awaiting };
	struct espl__reader in, line;
	size_t used, size;
	uint8_t type;

	if (g->awaiting) /* the last reply is that to the report before */
		info.directive = g->replies[g->iteration - 1].what;
	while (r->alive && espl__frame_get(&r->repeated, at, &type, &in, &used) == 1 &&
	    type != ESPL__MSG_STATE) {
		enum espl__rejoin_line what = ESPL__REJOIN_NEW;

		at += used;
		line = in;
		(void)espl__get_v64(&line);
		if (type == ESPL__MSG_LINE) {
			const char *text = espl__get_bytes(&line, &size);

			what = espl__real_rejoin_line(&info, espl__real_line_iteration(text, size));
		}
		if (what == ESPL__REJOIN_REPLY)
			send_reply(r, gang, info.directive,
			    info.directive == ESPL__CONTINUE ? info.budget : 0);
		if (what == ESPL__REJOIN_NEW)
			take_message(r, type, &in);
	}
}

static size_t
find_state(struct rig *r, uint64_t gang)
{
	struct espl__reader in;
	size_t at = 0, used, found = 0;
	uint8_t type;

	while (espl__frame_get(&r->repeated, at, &type, &in, &used) == 1) {
		at += used;
		if (type == ESPL__MSG_STATE && espl__get_v64(&in) == gang)
			found = espl__get_v64(&in) > 0 ? at : 0;
	}
	return found;
}

static void
rejoin_gangs(struct rig *r)
{
	size_t at[RIG_GANGS];

	for (uint64_t i = 0; i < RIG_GANGS; i++) {
		struct rig_gang *g = &r->gangs[i];

		at[i] = find_state(r, i);
		if (g->decided && !g->ended && !g->lost && (at[i] == 0 || g->killed)) {
			RIG_TELL(r, "gang %d did not outlive the driver", (int)i);
			RIG_ASSERT(r, !r->gentle || g->killed || g->starts == 0,
			    "gang %d does not outlive the driver", (int)i);
			g->lost = 1;
			if (dies(r))
				return;
		}
	}
	r->rejoining = 0;
	for (uint64_t i = 0; i < RIG_GANGS && r->alive; i++) {
		if (r->gangs[i].lost && at[i] > 0)
			rig_send(to_node(r), ESPL__MSG_KILL, i, 0);
		else if (at[i] > 0)
			catch_up(r, i, at[i]);
	}
	espl__buf_clear(&r->repeated);
}

static void
take_frame(struct rig *r, uint8_t type, const struct espl__reader *in)
{
	if (type == ESPL__MSG_HELLO_BACK) {
		r->greeted = 1;
		return;
	}
	if (!r->greeted) {
		RIG_ASSERT(r, r->rejoining, "a message of type %d comes before the greeting", type);
		return;
	}
	if (r->rejoining && type == ESPL__MSG_STATED)
		rejoin_gangs(r);
	else if (r->rejoining)
		espl__frame_put(&r->repeated, (enum espl__message)type, in->at,
		    (size_t)(in->end - in->at));
	else if (type != ESPL__MSG_STATED && type != ESPL__MSG_STATE)
		take_message(r, type, in);
}

static void
take_frames(struct rig *r)
{
	struct espl__buf *out = &r->links[r->near].out;
	struct espl__reader in;
	size_t at = 0, used;
	uint8_t type;

	while (r->alive && espl__frame_get(out, at, &type, &in, &used) == 1) {
		take_frame(r, type, &in);
		at += used;
	}
	rig_cut(out, at);
}

static void
start_link(struct rig *r, int rejoins)
{
	struct rig_link *l = &r->links[r->link_count];

	RIG_ASSERT(r, r->link_count < RIG_LINKS, "too many starts of --connect");
	RIG_TELL(r, "driver %d starts --connect (%s)", (int)r->number, rejoins ? "rejoin" : "new");
	if (!rejoins)
		r->epoch++;
	r->near = (int)r->link_count++;
	r->greeted = 0;
	r->rejoining = rejoins;
	r->rejoin_until = r->now + RIG_REJOIN;
	l->alive = 1;
	l->channel = -1;
	l->first = rejoins ? "rejoin" : "new";
	(void)snprintf(l->id, sizeof l->id, "e%x.%x", (unsigned)r->epoch, (unsigned)r->number);
	espl__link_init(&l->link, RIG_PATIENCE, rejoins);
	rig_send(to_node(r), ESPL__MSG_HELLO, 0, 0);
}

static void
lose_link(struct rig *r)
{
	r->links[r->near].closed = 1;
	r->near = -1;
	r->rejoining = 0;
	lose_gangs(r);
	r->starts_at = rig_soon(r, 20000);
}

/* Of what it does by itself, now and then. */
static void
act_by_itself(struct rig *r)
{
	uint64_t gang = rig_draw(r, RIG_GANGS);
	struct rig_gang *g = &r->gangs[gang];

	if (!g->decided) {
		g->goal = 1 + rig_draw(r, RIG_ITERATIONS);
		g->budget = 1 + rig_draw(r, (uint32_t)g->goal);
		g->decided = 1;
		if (rig_draw(r, 4) == 0)
			g->doomed = 1 + rig_draw(r, (uint32_t)g->goal + 1);
		if (!dies(r))
			rig_send(to_node(r), ESPL__MSG_START, gang, g->budget);
		(void)(r->alive && dies(r));
	} else if (g->ended || g->lost || g->killed) {
		return;
	} else if (g->awaiting && rig_draw(r, 3) == 0) {
		decide_reply(r, gang);
	} else if (g->iteration + 1 >= g->doomed && g->doomed > 0 && rig_draw(r, 20) == 0) {
		g->killed = 1;
		if (!dies(r))
			rig_send(to_node(r), ESPL__MSG_KILL, gang, 0);
	}
}

static int
all_ended(const struct rig *r)
{
	for (uint32_t i = 0; i < RIG_GANGS; i++)
		if (!r->gangs[i].ended && !r->gangs[i].lost)
			return 0;
	return 1;
}

static void
driver_turn(struct rig *r)
{
	if (r->near < 0 && r->now >= r->starts_at) {
		int resumes = !r->alive && r->epoch > 0;

		r->number += !r->alive;
		r->alive = 1;
		start_link(r, resumes);
	}
	if (!r->alive || r->near < 0)
		return;
	take_frames(r);
	if (!r->alive)
		return;
	if (!r->links[r->near].alive || (r->rejoining && r->now >= r->rejoin_until)) {
		lose_link(r);
		return;
	}
	if (!r->greeted || r->rejoining)
		return;
	if (rig_draw(r, 3) == 0)
		act_by_itself(r);
	if (r->alive && all_ended(r) && r->now >= r->down_until) {
		rig_send(to_node(r), ESPL__MSG_BYE, 0, 0);
		r->links[r->near].closed = 1;
		r->done = 1;
	}
}

/* ---- what goes wrong ----------------------------------------------------------------------- */

static void
strike(struct rig *r)
{
	uint32_t what = rig_draw(r, r->gentle ? 5 : 9);

	RIG_TELL(r, "fault %d", (int)what);
	r->next_fault = rig_soon(r, rig_draw(r, 3) == 0 ? 400 : 30000);
	r->faults--;
	switch (what) {
	case 0:
	case 1:
		if (r->joined >= 0)
			channel_breaks(r, &r->channels[r->joined],
			    !r->rejoining && r->alive && rig_draw(r, 3) == 0);
		break;
	case 2:
	case 3:
		if (r->alive)
			r->fuse = 1 + rig_draw(r, 12);
		break;
	case 4: /* the network; a driver that resumes meanwhile gives up after a while */
		if (!r->gentle || (r->alive && !r->rejoining && r->fuse == 0))
			r->down_until = rig_soon(r, r->gentle ? 8000 : 90000);
		break;
	case 5: agent_dies(r); break;
	case 6:
		if (r->has_keeper)
			keeper_dies(r);
		break;
	case 7:
		if (r->near >= 0)
			end_link(r, &r->links[r->near]);
		break;
	default:
		if (r->joined >= 0)
			channel_breaks(r, &r->channels[r->joined], 1);
	}
}

/* ---- a case -------------------------------------------------------------------------------- */

static void
check_end(struct rig *r)
{
	for (uint32_t i = 0; i < RIG_GANGS; i++) {
		struct rig_gang *g = &r->gangs[i];

		RIG_ASSERT(r, g->starts <= 1, "gang %d was started %d times", (int)i, g->starts);
		if (g->lost || g->killed)
			continue;
		RIG_ASSERT(r, g->starts == 1 && g->iteration == g->goal,
		    "gang %d ended at iteration %d of %d", (int)i, (int)g->iteration, (int)g->goal);
		RIG_ASSERT(r, g->trained == g->iteration && g->answered == g->iteration,
		    "gang %d trained %d iterations and was answered %d times", (int)i,
		    (int)g->trained, (int)g->answered);
	}
}

static void
free_rig(struct rig *r)
{
	agent_dies(r);
	if (r->has_keeper)
		keeper_dies(r);
	for (unsigned i = 0; i < r->link_count; i++) {
		espl__link_free(&r->links[i].link);
		espl__buf_free(&r->links[i].in);
		espl__buf_free(&r->links[i].out);
	}
	for (unsigned i = 0; i < r->channel_count; i++) {
		espl__buf_free(&r->channels[i].up);
		espl__buf_free(&r->channels[i].down);
	}
	espl__buf_free(&r->to_agent);
	espl__buf_free(&r->from_agent);
	espl__buf_free(&r->inbox);
	espl__buf_free(&r->outbox);
	espl__buf_free(&r->past);
	espl__buf_free(&r->repeated);
}

static void
try_case(uint64_t seed, int tells)
{
	static struct rig rig;
	struct rig *r = &rig;
	unsigned turns;
	int64_t ended = 0;

	memset(r, 0, sizeof *r);
	r->seed = seed;
	r->tells = tells;
	espl__rng_seed(&r->rng, seed, "session");
	r->now = RIG_SECOND;
	r->near = r->joined = -1;
	r->gentle = rig_draw(r, 2) == 0;
	r->faults = rig_draw(r, 7);
	r->next_fault = rig_soon(r, 10000);
	for (turns = 0; turns < TURNS_MOST && (!r->done || r->has_keeper); turns++) {
		r->now += (int64_t)rig_draw(r, 40) * ESPL__SESSION_MS;
		if (!r->done && r->faults > 0 && r->now >= r->next_fault)
			strike(r);
		if (!r->done)
			driver_turn(r);
		for (unsigned i = 0; i < r->link_count; i++)
			link_turn(r, &r->links[i]);
		channels_turn(r);
		keeper_turn(r);
		agent_turn(r);
		if (r->done && ended == 0)
			ended = r->now;
		/* longest if the network is down: nobody can be asked to end */
		RIG_ASSERT(r, ended == 0 || r->now - ended < RIG_LINGER + 45 * RIG_SECOND,
		    "the run is over, and its node goes on");
	}
	RIG_ASSERT(r, turns < TURNS_MOST, "the run does not end");
	check_end(r);
	free_rig(r);
}

static unsigned long long
read_number(const char *name, unsigned long long otherwise)
{
	const char *text = getenv(name);

	return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

Test(session, each_report_and_each_decision_once, .timeout = 7200)
{
	unsigned long long cases = read_number("SESSION_CASES", 2000);
	unsigned long long seed = read_number("SEED", 0);

	if (seed != 0) {
		try_case(seed, 1);
		return;
	}
	seed = (unsigned long long)time(NULL) * 1000000;
	fprintf(stderr, "# seeds %llu to %llu\n", seed, seed + cases - 1);
	for (unsigned long long i = 0; i < cases; i++)
		try_case(seed + i, 0);
}

/* The command of an abandoned node is not run once a driver knows that the node is gone, although
 * that driver comes too late to take the session over. */
Test(session, a_late_driver_stops_the_last_command)
{
	static const char *const lines[] = { "abc.1 again", "abc.2 rejoin", "xyz.1 new" };
	struct espl__keep keep;

	for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		cr_assert_eq(espl__keep_init(&keep, "abc.1", 1000, 0), 0);
		keep.last = 1;
		espl__keep_end(&keep, 1500);
		cr_assert(espl__keep_orphaned(&keep, 2000));
		cr_assert_eq(espl__keep_admit(&keep, "xyz.1 again", 2000), 0);
		cr_assert(espl__keep_orphaned(&keep, 2000), "another session's driver");
		cr_assert_eq(espl__keep_admit(&keep, lines[i], 2000), 0);
		cr_assert_not(espl__keep_orphaned(&keep, 2000), "%s", lines[i]);
		espl__keep_free(&keep);
	}
}

/* A driver that waits for trials that save, and is killed, leaves the command to the node. */
Test(session, a_driver_that_waited_may_be_gone)
{
	int64_t soon = 2000 + 4000 * ESPL__SESSION_MS, later = 2000 + 6000 * ESPL__SESSION_MS;
	struct espl__keep keep;

	cr_assert_eq(espl__keep_init(&keep, "abc.1", 1000, 0), 0);
	keep.last = keep.leaving = keep.in = 1;
	keep.kill_at = 1500;
	cr_assert_eq(espl__keep_admit(&keep, "abc.2 rejoin", 2000), 0);
	cr_assert(!espl__keep_orphaned(&keep, soon) && espl__keep_orphaned(&keep, later));
	keep.in = 0; /* the agent has ended, and the driver hears it */
	cr_assert_eq(espl__keep_admit(&keep, "abc.2 rejoin", soon), 0);
	cr_assert_not(espl__keep_orphaned(&keep, later));
	espl__keep_free(&keep);
}

/* What one end has to say, to the other. */
static void
carry_bytes(struct espl__keep *keep, struct espl__link *link, int down_only, int64_t now)
{
	if (!down_only && link->stream.out.size > 0)
		cr_assert_eq(espl__keep_receive(keep, link->stream.out.data, link->stream.out.size,
				 now),
		    0);
	if (keep->stream.out.size > 0)
		cr_assert_eq(espl__link_receive(link, keep->stream.out.data, keep->stream.out.size,
				 now),
		    0);
	espl__buf_clear(&link->stream.out);
	espl__buf_clear(&keep->stream.out);
}

/* Through the channel comes what the keeper says, but not what the driver says. */
Test(session, a_channel_in_one_direction_is_given_up)
{
	static const int64_t lingers[] = { 5 * RIG_SECOND, 600 * RIG_SECOND };

	for (size_t i = 0; i < sizeof lingers / sizeof lingers[0]; i++) {
		struct espl__keep keep;
		struct espl__link link;
		int64_t now = RIG_SECOND, since;

		cr_assert_eq(espl__keep_init(&keep, "abc.1", lingers[i], now), 0);
		espl__link_init(&link, lingers[i], 0);
		espl__link_opened(&link, now);
		cr_assert_eq(espl__keep_admit(&keep, "abc.1 new", now), 1);
		for (; now < 100 * RIG_SECOND; now += RIG_SECOND / 2) {
			cr_assert_eq(espl__link_tend(&link, now), ESPL__LINK_WAIT);
			cr_assert_eq(espl__keep_tend(&keep, now), 0);
			carry_bytes(&keep, &link, 0, now);
		}
		cr_assert(keep.relay && !keep.leaving, "both ends live");
		for (since = now; keep.relay && now < since + 60 * RIG_SECOND;
		     now += RIG_SECOND / 2) {
			cr_assert_eq(espl__link_tend(&link, now), ESPL__LINK_WAIT);
			cr_assert_eq(espl__keep_tend(&keep, now), 0);
			carry_bytes(&keep, &link, 1, now);
		}
		cr_assert(now - since < 17 * RIG_SECOND, "the keeper notices nothing");
		cr_assert_eq(keep.leaving, lingers[i] < ESPL__SESSION_SILENT);
		cr_assert_eq(espl__keep_admit(&keep, "abc.1 again", now), !keep.leaving);
		espl__keep_free(&keep);
		espl__link_free(&link);
	}
}

/* How often a first connection is tried that ends with this status after this time. */
static unsigned
count_tries(int status, int64_t lasts, int heard)
{
	struct espl__link link;
	int64_t now = RIG_SECOND;
	unsigned tries = 0;

	espl__link_init(&link, 60 * RIG_SECOND, 0);
	while (tries < 100 && now < 600 * RIG_SECOND) {
		enum espl__link_order order = espl__link_tend(&link, now);

		now += RIG_SECOND / 10;
		if (order != ESPL__LINK_OPEN)
			continue;
		tries++;
		espl__link_opened(&link, now);
		if (heard)
			(void)espl__link_receive(&link, "", 0, now);
		now += lasts;
		if (espl__link_lost(&link, status, "x", tries * 300, now) >= 0)
			break;
	}
	espl__link_free(&link);
	return tries;
}

/* sshd and jump hosts close connections when many begin at once. */
Test(session, a_first_connection_that_is_turned_away_is_tried_again)
{
	cr_expect_eq(count_tries(255, RIG_SECOND, 0), 5);
	cr_expect_eq(count_tries(255, 15 * RIG_SECOND, 0), 1, "the host is off");
	cr_expect_eq(count_tries(255, RIG_SECOND, 1), 1, "the command began");
	cr_expect_eq(count_tries(1, RIG_SECOND, 0), 1, "the command failed");
}

/* An agent that was sending files when its driver died fills all that the keeper has room for: its
 * end is still read, and the last command runs. */
Test(session, an_agent_that_nobody_hears_comes_to_its_end)
{
	static const uint8_t chunk[60000];

	for (int ended = 0; ended < 2;
	     ended++) { /* by another driver; or its linger time is over */
		struct espl__buf frame = { NULL, 0, 0 };
		struct espl__keep keep;
		unsigned count = 0;

		espl__frame_put(&frame, ESPL__MSG_TAIL, chunk, sizeof chunk);
		cr_assert_eq(espl__keep_init(&keep, "abc.1", 10 * RIG_SECOND, 0), 0);
		keep.last = 1;
		for (; espl__keep_reads(&keep) && count < 1000; count++) {
			espl__keep_send(&keep, frame.data, frame.size);
			espl__keep_pass(&keep, RIG_SECOND);
		}
		cr_assert(count > 100 && count < 1000, "%u chunks are taken", count);
		if (ended)
			espl__keep_end(&keep, RIG_SECOND);
		else
			cr_assert_eq(espl__keep_tend(&keep, 10 * RIG_SECOND), 0);
		cr_assert(espl__keep_reads(&keep));
		espl__keep_send(&keep, frame.data, frame.size);
		espl__keep_pass(&keep, 11 * RIG_SECOND);
		cr_assert(espl__keep_reads(&keep));
		espl__keep_ended(&keep, 12 * RIG_SECOND);
		cr_assert_not(espl__keep_reads(&keep));
		cr_assert(espl__keep_over(&keep, 12 * RIG_SECOND));
		cr_assert(espl__keep_orphaned(&keep, 12 * RIG_SECOND));
		espl__keep_free(&keep);
		espl__buf_free(&frame);
	}
}
