/* real_replies.c - orders and replies to gangs, sent through their agents. */
#include "base/assert.h"
#include "real/real.h"
#include <stdarg.h>
#include "base/mem.h"
#include "base/text.h"
#include "base/tick.h"

/* in addition to the grace: for an agent to see that the processes are gone */
#define KILL_LIMIT (60 * ESPL__REAL_SECOND)

/* A line for rank 0, wherever it is. */
void
espl__real_send_line(struct espl__real *real, const struct espl__rgang *gang, const char *text)
{
	const struct espl__part *part = &gang->parts[gang->members[0].part];
	struct espl__ragent *agent = espl__real_part_agent(real, part);
	struct espl__buf payload = { NULL, 0, 0 };

	ESPL__CHECK(gang, RGANG);
	if (agent == NULL || part->ended)
		return;
	espl__put_v64(&payload, part->wing);
	espl__put_str(&payload, text);
	espl__agent_send(agent, ESPL__MSG_REPLY, &payload);
	espl__buf_free(&payload);
}

void
espl__real_send_reply(struct espl__real *real, struct espl__rgang *gang,
    enum espl__directive directive, uint64_t budget)
{
	char text[40];

	switch (directive) {
	case ESPL__CHECKPOINT: (void)snprintf(text, sizeof text, "checkpoint"); break;
	case ESPL__PAUSE: (void)snprintf(text, sizeof text, "pause"); break;
	case ESPL__STOP: (void)snprintf(text, sizeof text, "stop"); break;
	default:
		if (budget > 0)
			(void)snprintf(text, sizeof text, "continue %llu",
			    (unsigned long long)budget);
		else
			(void)snprintf(text, sizeof text, "continue");
		break;
	}
	espl__real_send_line(real, gang, text);
}

void
espl__real_gang_kill_parts(struct espl__real *real, struct espl__rgang *gang, uint64_t grace_ms)
{
	struct espl__buf payload = { NULL, 0, 0 };
	int64_t by = espl__tick() + (int64_t)grace_ms * 1000000 + KILL_LIMIT;
	uint32_t p;

	for (p = 0; p < gang->part_count; p++) {
		struct espl__ragent *agent = espl__real_part_agent(real, &gang->parts[p]);

		if (gang->parts[p].answer_by == 0 || by < gang->parts[p].answer_by)
			gang->parts[p].answer_by = by;
		espl__buf_clear(&payload);
		espl__put_v64(&payload, gang->parts[p].wing);
		espl__put_v64(&payload, grace_ms);
		if (!gang->parts[p].ended && agent != NULL)
			espl__agent_send(agent, ESPL__MSG_KILL, &payload);
	}
	espl__buf_free(&payload);
}

void
espl__real_stay_at_most(struct espl__rgang *gang, espl_span span)
{
	int64_t until = espl__tick() + span;

	ESPL__CHECK(gang, RGANG);
	if (gang->stay_until == 0 || until < gang->stay_until)
		gang->stay_until = until;
}

/* The program ignored the order to save and exit: kill it after the grace period. */
void
espl__real_leave_soon(struct espl__rgang *gang)
{
	ESPL__CHECK(gang, RGANG);
	espl__real_stay_at_most(gang, gang->kind->of->config->trial.grace);
}

void
espl__real_gang_break(struct espl__real *real, struct espl__rgang *gang, const char *format, ...)
{
	char text[400];
	va_list list;

	ESPL__CHECK(gang, RGANG);
	if (gang->broken != NULL)
		return;
	va_start(list, format);
	(void)vsnprintf(text, sizeof text, format, list);
	va_end(list);
	espl__clean_text(text);
	gang->broken = espl__strdup(text);
	espl__real_gang_kill_parts(real, gang, 0);
}
