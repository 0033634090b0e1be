/* json.c - events of a run as lines of JSON.
 *
 * Lines gather in memory and leave at the end of a round.  When the reader closes the pipe, output
 * stops and the run continues.
 */
#include "base/assert.h"
#include "report/view.h"
#include "report/trial_text.h"

#include "base/json.h"
#include "base/tick.h"
#include "model/fleet.h"

#define ESPL__EVENTS_MAGIC 0x63706368u
struct espl__events {
	struct espl__observer observer;
	uint32_t magic; /* ESPL__EVENTS_MAGIC */
	struct espl__view *view;
	FILE *to;
	struct espl__buf line;
	int64_t flushed;
};

#define FULL (1u << 16)

static void
flush_events(struct espl__events *e)
{
	if (e->line.size > 0) {
		(void)fwrite(e->line.data, 1, e->line.size, e->to);
		(void)fflush(e->to);
	}
	espl__buf_clear(&e->line);
	e->flushed = espl__tick();
}

static int
begin_event(struct espl__events *e, const char *event, espl_time now)
{
	if (e->view->replaying)
		return 0;
	if (e->line.size > FULL)
		flush_events(e);
	espl__json_open(&e->line, NULL, '{');
	espl__json_text(&e->line, "event", event);
	espl__json_real(&e->line, "at_s", (double)now / 1e9);
	return 1;
}

static void
put_number(struct espl__events *e, const char *name, uint64_t value)
{
	if (value == ESPL_NONE)
		espl__json_text(&e->line, name, NULL);
	else
		espl__json_int(&e->line, name, (int64_t)value);
}

static void
put_text(struct espl__events *e, const char *name, const char *value)
{
	espl__json_text(&e->line, name, value != NULL ? value : "");
}

static void
share_of(struct espl__events *e, struct espl_share share)
{
	espl__json_int(&e->line, "gpus", share.gpus);
	espl__json_int(&e->line, "packing", share.packing);
}

/* Of an ordinary run its number; of a pool's experiment that one's number, too. */
static void
trial_of(struct espl__events *e, uint64_t trial)
{
	put_number(e, "trial", trial & ESPL__TRIAL_NUMBER);
	if (trial > ESPL__TRIAL_NUMBER)
		put_number(e, "experiment", trial >> ESPL__TRIAL_BITS);
}

static void
on_trial(void *ctx, espl_time now, const struct espl_trial *t)
{
	struct espl__events *e = ctx;
	const char *state = espl__trial_state_word(&e->observer, t);

	if (e->view->change == ESPL__CHANGE_NONE || !begin_event(e, "trial", now))
		return;
	trial_of(e, t->id);
	put_text(e, "what", espl__change_word(e->view->change, state));
	put_text(e, "state", state);
	put_number(e, "group", t->group == ESPL_NONE ? ESPL_NONE : t->group & ESPL__TRIAL_NUMBER);
	put_number(e, "iteration", t->iteration);
	put_number(e, "budget", t->budget);
	if (e->view->change == ESPL__CHANGE_CREATED) {
		if (t->parent != ESPL_NONE)
			put_number(e, "parent", t->parent & ESPL__TRIAL_NUMBER);
		espl__json_key(&e->line, "params");
		espl__space_json(espl__view_space(e->view, t->id), t->values, &e->line);
	}
	espl__print(&e->line, "}\n");
}

static void
on_report(void *ctx, espl_time now, const struct espl_trial *t, uint64_t iteration, double loss,
    const struct espl__metric *metrics, uint32_t count, struct espl_share share)
{
	struct espl__events *e = ctx;
	const struct espl__names *names =
	    e->view->exec != NULL ? espl__exec_view(e->view->exec).metrics : NULL;
	const char *name;
	uint32_t i;

	if (!begin_event(e, "report", now))
		return;
	trial_of(e, t->id);
	put_number(e, "iteration", iteration);
	espl__json_real(&e->line, "metric", espl__view_raw(e->view, t->id, loss));
	espl__json_open(&e->line, "metrics", '{');
	for (i = 0; i < count; i++) {
		name = names != NULL && metrics[i].metric < names->count
		    ? names->names[metrics[i].metric]
		    : NULL;
		espl__json_real(&e->line, name != NULL ? name : "?", metrics[i].value);
	}
	espl__print(&e->line, "}");
	share_of(e, share);
	espl__json_bool(&e->line, "best", e->view->better);
	espl__print(&e->line, "}\n");
}

static void
on_gang(void *ctx, espl_time now, uint64_t gang, uint64_t trial, enum espl__gang_phase phase,
    struct espl_share share, const struct espl_slot *slots, const char *why)
{
	struct espl__events *e = ctx;
	uint32_t i;

	if (!begin_event(e, "gang", now))
		return;
	put_number(e, "gang", gang);
	trial_of(e, trial);
	put_text(e, "state", espl__phase_word(phase));
	share_of(e, share);
	if (slots != NULL && (phase == ESPL__PHASE_STARTING || phase == ESPL__PHASE_RESIZED)) {
		espl__json_open(&e->line, "slots", '[');
		for (i = 0; i < share.gpus; i++)
			espl__print(&e->line, "%s[%llu, %u]", i > 0 ? ", " : "",
			    (unsigned long long)slots[i].node, slots[i].gpu);
		espl__print(&e->line, "]");
	}
	if (why != NULL && why[0] != '\0')
		put_text(e, "text", why);
	espl__print(&e->line, "}\n");
}

static void
on_node(void *ctx, espl_time now, const struct espl_node *node, const struct espl_offer *offer,
    const char *host, espl_money charged, const char *why)
{
	struct espl__events *e = ctx;

	if (!begin_event(e, "node", now))
		return;
	put_number(e, "node", node->id);
	put_text(e, "state", espl__node_state_word(node->state));
	if (offer != NULL) {
		put_text(e, "offer", offer->name);
		put_text(e, "market", offer->market);
	}
	if (host != NULL)
		put_text(e, "host", host);
	put_number(e, "gpus",
	    node->gpu_count != 0 || offer == NULL ? node->gpu_count : offer->gpus);
	espl__json_real(&e->line, "charged_usd", (double)charged / 1e6);
	if (why != NULL && why[0] != '\0')
		put_text(e, "text", why);
	espl__print(&e->line, "}\n");
}

static void
on_group(void *ctx, espl_time now, uint64_t group, uint32_t bracket, uint32_t stage, int ended)
{
	struct espl__events *e = ctx;

	if (!begin_event(e, "group", now))
		return;
	put_number(e, "group", group & ESPL__TRIAL_NUMBER);
	if (group > ESPL__TRIAL_NUMBER)
		put_number(e, "experiment", group >> ESPL__TRIAL_BITS);
	put_number(e, "bracket", bracket == ESPL_ANY ? ESPL_NONE : bracket);
	put_number(e, "stage", stage == ESPL_ANY ? ESPL_NONE : stage);
	espl__json_bool(&e->line, "ended", ended);
	espl__print(&e->line, "}\n");
}

struct espl__events *
espl__events_new(struct espl__view *view, FILE *to)
{
	struct espl__events *e = espl__alloc(sizeof *e);

	e->magic = ESPL__EVENTS_MAGIC;
	e->view = view;
	e->to = to;
	e->observer = (struct espl__observer){ .ctx = e,
		.trial = on_trial,
		.report = on_report,
		.gang = on_gang,
		.node = on_node,
		.group = on_group };
	return e;
}

struct espl__observer *
espl__events_observer(struct espl__events *e)
{
	ESPL__CHECK(e, EVENTS);
	return &e->observer;
}

void
espl__events_tick(struct espl__events *e)
{
	ESPL__CHECK(e, EVENTS);
	if (e->line.size > 0 &&
	    (e->line.size > FULL || espl__tick() - e->flushed > INT64_C(100000000)))
		flush_events(e);
}

void
espl__events_free(struct espl__events *e)
{
	if (e == NULL)
		return;
	flush_events(e);
	espl__buf_free(&e->line);
	e->magic = 0;
	free(e);
}
