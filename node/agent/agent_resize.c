/* agent_resize.c - a resize in place, as the agent sees it.
 *
 * The driver sends each rank's new slot (SLOTS); the agent passes it on at once, and the ranks act
 * on it when rank 0 asks for it. A rank without a slot exits by itself. The first line of a new
 * rank 0 makes it the one whose reports are read.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/metrics.h"
#include "agent/agent.h"
#include "checkpoint/checkpoint.h"

#define READ_STEP ((size_t)4 << 10)

void
espl__rank_slot_line(const struct espl__meeting *m, uint32_t rank, uint32_t local,
    struct espl__buf *to)
{
	ESPL__ASSERT(m->generation > 0 && m->door != NULL && m->master != NULL);
	espl__print(to,
	    "seat %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32 " %" PRIu32
	    " %d %" PRIu32 " %s %s",
	    m->generation, rank, m->world, local, m->local_world, m->node, m->moved, m->port,
	    m->door, m->master);
}

static void
send_slot(struct espl__agent_gang *g, struct espl__agent_rank *r, const struct espl__meeting *m,
    uint32_t local)
{
	struct espl__buf line = { NULL, 0, 0 };
	ssize_t sent;

	espl__rank_slot_line(m, r->rank, local, &line);
	if (r->index == g->leader && g->report >= 0) {
		espl__report_reply(g, espl__buf_text(&line));
	} else if (r->control >= 0) {
		espl__put_u8(&line, '\n');
		do
			sent = send(r->control, line.data, line.size, MSG_DONTWAIT | MSG_NOSIGNAL);
		while (sent < 0 && errno == EINTR);
		if (sent != (ssize_t)line.size) {
			espl__rank_fail(r, "it did not receive its new slots");
			espl__gang_kill(g, 0);
		}
	}
	espl__buf_free(&line);
}

int
espl__gang_new_slots(struct espl__agent_gang *g, const struct espl__rank_slots *s)
{
	uint32_t asked = 0;

	ESPL__CHECK(g, AGENT_GANG);
	for (uint32_t i = 0; i < g->start.rank_count; i++)
		asked += !g->ranks[i].left;
	if (s->count > 0 && (s->count != asked || g->start.trainable == NULL))
		return -1;
	g->agent->changed = 1;
	g->slots_generation = s->count > 0 ? s->meet.generation : 0;
	for (uint32_t i = 0, at = 0; i < g->start.rank_count; i++) {
		struct espl__agent_rank *r = &g->ranks[i];

		if (r->left)
			continue;
		if (s->count == 0) {
			r->rank = r->was;
			r->leaves = 0;
			continue;
		}
		ESPL__ASSERT(at < s->count);
		r->was = r->rank;
		r->rank = s->ranks[at].rank;
		r->leaves = r->rank == s->meet.world;
		send_slot(g, r, &s->meet, s->ranks[at++].local_rank);
	}
	return 0;
}

void
espl__gang_tell_left(struct espl__agent_gang *g)
{
	struct espl__buf *out = &g->agent->outbox;
	uint32_t leave = 0;
	size_t mark;

	ESPL__CHECK(g, AGENT_GANG);
	for (uint32_t i = 0; i < g->start.rank_count; i++) {
		const struct espl__agent_rank *r = &g->ranks[i];

		if (!r->leaves || r->left)
			continue;
		if (r->state != ESPL__RANK_GONE || r->code != 0)
			return;
		leave++;
	}
	if (leave == 0 || g->slots_generation == 0 || g->gone == g->start.rank_count)
		return; /* all of them: then the gang has ended here */
	for (uint32_t i = 0; i < g->start.rank_count; i++)
		g->ranks[i].left |= g->ranks[i].leaves;
	mark = espl__frame_begin(out, ESPL__MSG_LEFT);
	espl__put_v64(out, g->start.gang);
	espl__put_v64(out, g->slots_generation);
	espl__frame_end(out, mark);
}

/* ---- what ranks other than the leader say ------------------------------------------------ */

static void
forward_line(const struct espl__agent_gang *g, const uint8_t *line, size_t size)
{
	struct espl__buf *out = &g->agent->outbox;
	size_t mark = espl__frame_begin(out, ESPL__MSG_LINE);

	espl__put_v64(out, g->start.gang);
	espl__put_bytes(out, line, size);
	espl__frame_end(out, mark);
}

static void
close_control(struct espl__agent_rank *r)
{
	ESPL__ASSERT(r->control >= 0);
	close(r->control);
	r->control = -1;
	r->gang->agent->changed = 1;
}

/* From now on this rank is the one that reports and is answered. */
static void
lead_gang(struct espl__agent_rank *r)
{
	struct espl__agent_gang *g = r->gang;
	struct espl__diag diag = ESPL__DIAG_INIT;

	ESPL__ASSERT(r->control >= 0 && r == &g->ranks[r->index]);
	if (g->report >= 0)
		close(g->report);
	g->report = r->control;
	r->control = -1;
	g->leader = r->index;
	g->leads = 1;
	g->mute_at = 0;
	g->agent->changed = 1;
	espl__buf_clear(&g->in);
	espl__buf_clear(&g->out);
	if (espl__files_lead(g, &diag) != ESPL_OK) {
		espl__rank_fail(r, "cannot create the trial's files: %s", espl__reason(&diag));
		espl__gang_kill(g, 0);
	}
}

static int
is_resized(const uint8_t *line, size_t size)
{
	return memmem(line, size, "\"resized\"", 9) != NULL;
}

void
espl__control_read(struct espl__agent_rank *r)
{
	struct espl__agent_gang *g = r->gang;
	const uint8_t *end;
	ssize_t got;

	ESPL__CHECK(g, AGENT_GANG);
	ESPL__ASSERT(r->control >= 0);
	espl__buf_reserve(&r->words, READ_STEP);
	got = recv(r->control, r->words.data + r->words.size, READ_STEP, MSG_DONTWAIT);
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (got <= 0) {
		close_control(r);
		return;
	}
	r->words.size += (size_t)got;
	while (r->words.size > 0 && (end = memchr(r->words.data, '\n', r->words.size)) != NULL) {
		size_t size = (size_t)(end - r->words.data), rest = r->words.size - size - 1;

		if (is_resized(r->words.data, size) && r->control >= 0)
			lead_gang(r);
		forward_line(g, r->words.data, size);
		memmove(r->words.data, r->words.data + size + 1, rest);
		r->words.size = rest;
	}
	if (r->words.size > ESPL__REPORT_LINE)
		espl__report_garbage(g, "rank %" PRIu32 " sent a line that is too long", r->rank);
	if (r->control < 0 && r->words.size > 0) { /* the beginning of its next report */
		espl__put(&g->in, r->words.data, r->words.size);
		espl__buf_clear(&r->words);
	}
}
