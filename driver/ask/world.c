/* world.c - the world of a run whose trials are evaluated by clients: what the executor wants done
 * is done at once, and time passes as it does.
 */
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "ask/ask.h"
#include "base/assert.h"
#include "base/mem.h"
#include "base/tick.h"
#include "driver/compute.h"

#define SLOTS 256u                         /* trials on one "node" */
#define WAIT_MOST (100 * INT64_C(1000000)) /* ns */

static struct espl__asking *
ask_of(struct espl__world *world)
{
	struct espl__asking *ask = (struct espl__asking *)(void *)world;

	ESPL__CHECK(ask, ASK);
	return ask;
}

static void
set_clock(struct espl__asking *ask)
{
	espl_time now = ask->base + (espl__tick() - ask->base_tick);

	ask->now = now > ask->now ? now : ask->now;
}

/* ---- beginning ---------------------------------------------------------------------------- */

static espl_status
begin_asking(struct espl__world *world, int resumed, espl_time now, struct espl__diag *diag)
{
	struct espl__asking *ask = ask_of(world);
	const struct espl__names *names = espl__exec_view(world->exec).metrics;
	char *path = espl__format("%s/journal", ask->dir);

	ask->base = ask->now = now;
	ask->base_tick = espl__tick();
	ask->opening = resumed ? 2 : 1;
	for (uint32_t i = 0; i < names->count; i++)
		(void)espl__names_add(&ask->metrics, names->names[i]);
	ask->journal = open(path, O_WRONLY | O_CLOEXEC);
	free(path);
	if (ask->journal < 0)
		return espl__fail_errno(diag, "cannot open the journal in '%s'", ask->dir);
	return espl__ask_listen(ask, diag);
}

static void
report_node(struct espl__asking *ask, uint64_t lease, espl_node_state state)
{
	struct espl__event *event = espl__ask_event(ask, ESPL__EV_NODE);

	event->as.node.lease = lease;
	event->as.node.state = state;
	event->as.node.reason = state == ESPL_NODE_ENDED ? ESPL_BY_USER : 0;
	event->as.node.gpus = ESPL_ANY;
	event->as.node.ends_at = ESPL_NEVER;
	event->as.node.charged = -1;
	ask->urgent = 1;
}

/* The first round: what there is to train on. */
static void
open_run(struct espl__asking *ask)
{
	struct espl__lease_info leases[64];
	uint32_t count = 0;

	if (ask->opening == 1) {
		espl__ask_event(ask, ESPL__EV_START);
		espl__ask_event(ask, ESPL__EV_OFFER)->as.offer = &ask->offer;
	} else {
		espl__ask_event(ask, ESPL__EV_RESUME);
		count = espl__exec_leases(ask->world.exec, leases, 64);
	}
	espl__ask_event(ask, ESPL__EV_CLOUD)->as.cloud.text = "";
	for (uint32_t i = 0; i < count && i < 64; i++)
		report_node(ask, leases[i].lease, count <= 64 ? ESPL_NODE_READY : ESPL_NODE_ENDED);
	ask->opening = 0;
	ask->urgent = 1;
}

/* ---- rounds ------------------------------------------------------------------------------- */

/* No client is left: stop the run; it can be opened again. */
static void
look_for_clients(struct espl__asking *ask)
{
	if (ask->clients == NULL)
		ask->stop_wanted = 1;
	if (!ask->stop_wanted || ask->stop_sent)
		return;
	ask->stop_sent = 1;
	espl__ask_event(ask, ESPL__EV_STOP);
	ask->urgent = 1;
}

/* Requests until one needs a round, or none is left. */
static void
hear_clients(struct espl__asking *ask)
{
	struct espl__ask_client *client;
	char *line;
	size_t size;

	if (ask->request.what != ESPL__ASK_NOTHING)
		espl__ask_answer(ask);
	while (!ask->urgent && !ask->stop_wanted &&
	    (client = espl__ask_line(ask, &line, &size)) != NULL)
		espl__ask_handle(ask, client, line, size);
}

static espl_status
next_round(struct espl__world *world, struct espl__round *round, struct espl__diag *diag)
{
	struct espl__asking *ask = ask_of(world);
	espl_time left;

	if (ask->opening != 0)
		open_run(ask);
	if (!ask->urgent)
		hear_clients(ask);
	if (!ask->urgent) {
		espl_status status = espl__ask_flush(ask, diag);

		if (status != ESPL_OK)
			return status;
		look_for_clients(ask);
	}
	set_clock(ask);
	left = ask->timer_at == ESPL_NEVER ? WAIT_MOST : ask->timer_at - ask->now;
	if (!ask->urgent && left > 0) {
		/* Do not wait if trials were just handed out: their STARTED events are due. */
		espl__ask_wait(ask,
		    ask->batch[ask->filling].count > 0 ? 0
			: left < WAIT_MOST             ? left
						       : WAIT_MOST);
		hear_clients(ask);
		set_clock(ask);
	}
	if (ask->timer_at != ESPL_NEVER && ask->now >= ask->timer_at) {
		ask->timer_at = ESPL_NEVER;
		espl__ask_event(ask, ESPL__EV_TIMER);
	}
	espl__ask_give_round(ask, round);
	return ESPL_OK;
}

/* ---- effects ------------------------------------------------------------------------------ */

static void
end_gang(struct espl__asking *ask, struct espl__ask_trial *t, enum espl__gang_end how)
{
	struct espl__event *event = espl__ask_event(ask, ESPL__EV_ENDED);

	event->as.ended.gang = t->gang;
	event->as.ended.how = how;
	event->as.ended.node = ESPL_NONE;
	event->as.ended.text = "";
	espl__ask_remove(ask, t);
	ask->urgent = 1;
}

static void
reply_to_trial(struct espl__asking *ask, const struct espl__effect *fx)
{
	struct espl__ask_trial *t = espl__map_get(&ask->by_gang, fx->as.reply.gang + 1);

	if (t == NULL)
		return;
	if (fx->as.reply.budget > 0)
		t->budget = fx->as.reply.budget;
	if (ask->request.what == ESPL__ASK_TELL && ask->request.trial == t->trial)
		ask->request.directive = fx->as.reply.directive;
	if (fx->as.reply.directive == ESPL__PAUSE || fx->as.reply.directive == ESPL__STOP)
		end_gang(ask, t, ESPL__END_DONE);
}

static void
run_compute(struct espl__asking *ask, const struct espl__effect *fx)
{
	struct espl__compute *job = espl__compute_start(fx->as.compute.config, fx->as.compute.kind,
	    fx->as.compute.token, fx->as.compute.request, 0);
	struct espl_outcome *outcome =
	    espl__arena_alloc(&ask->batch[ask->filling].arena, sizeof *outcome);

	espl__compute_wait(job);
	*outcome = *espl__compute_outcome(job);
	if (outcome->output_size > 0) {
		void *copy = espl__arena_alloc(&ask->batch[ask->filling].arena,
		    (size_t)outcome->output_size);

		memcpy(copy, outcome->output, (size_t)outcome->output_size);
		outcome->output = copy;
	}
	espl__ask_event(ask, ESPL__EV_OUTCOME)->as.outcome = outcome;
	espl__compute_free(job);
	ask->urgent = 1;
}

static espl_status
apply_effects(struct espl__world *world, const struct espl__effect *effects, uint32_t count,
    struct espl__diag *diag)
{
	struct espl__asking *ask = ask_of(world);

	for (uint32_t i = 0; i < count; i++) {
		const struct espl__effect *fx = &effects[i];
		struct espl__ask_trial *t;

		switch (fx->type) {
		case ESPL__FX_ACQUIRE:
			report_node(ask, fx->as.acquire.lease, ESPL_NODE_READY);
			break;
		case ESPL__FX_RELEASE: report_node(ask, fx->as.lease, ESPL_NODE_ENDED); break;
		case ESPL__FX_START: (void)espl__ask_add(ask, fx); break;
		case ESPL__FX_REPLY: reply_to_trial(ask, fx); break;
		case ESPL__FX_KILL:
			t = espl__map_get(&ask->by_gang, fx->as.kill.gang + 1);
			if (t != NULL)
				end_gang(ask, t, ESPL__END_LOST);
			break;
		case ESPL__FX_COMPUTE: run_compute(ask, fx); break;
		case ESPL__FX_TIMER: ask->timer_at = fx->as.at; break;
		case ESPL__FX_END: ask->ended = 1; break;
		case ESPL__FX_COLLECT: break; /* clients keep what they have */
		default: return espl__fail(diag, ESPL_E_BUG, "unexpected effect %d", (int)fx->type);
		}
	}
	return ESPL_OK;
}

static void
stop_asking(struct espl__world *world)
{
	ask_of(world)->stop_wanted = 1;
}

/* ---- the end ------------------------------------------------------------------------------ */

/* The search has ended: no trials are handed out, but results can still be read. */
static espl_status
serve_results(struct espl__asking *ask, const volatile int *interrupt, struct espl__diag *diag)
{
	espl_status status = ESPL_OK;

	while (
	    status == ESPL_OK && ask->clients != NULL && (interrupt == NULL || *interrupt == 0)) {
		hear_clients(ask);
		ask->batch[ask->filling].count = 0;
		status = espl__ask_flush(ask, diag);
		if (ask->clients != NULL)
			espl__ask_wait(ask, WAIT_MOST);
	}
	return status;
}

static void
free_ask(struct espl__asking *ask)
{
	espl__ask_hang_up(ask);
	json_decref(ask->request.looked);
	espl__ask_trials_free(ask);
	if (ask->journal >= 0)
		(void)close(ask->journal);
	free(ask->dir);
	ask->magic = 0;
	free(ask);
}

static void
close_asking(struct espl__world *world, int kill, struct espl__buf *left)
{
	struct espl__asking *ask = ask_of(world);
	struct espl__diag diag = ESPL__DIAG_INIT;

	(void)left; /* clients are not ours to end */
	if (!kill && ask->ended && !ask->stop_wanted &&
	    serve_results(ask, ask->interrupt, &diag) != ESPL_OK)
		espl__diag_print(stderr, &diag);
	free_ask(ask);
}

static const struct espl__world_ops ask_ops = { begin_asking, next_round, apply_effects,
	stop_asking, close_asking };

static struct espl__asking *
make_ask(const struct espl__inputs *inputs, const char *dir)
{
	struct espl__asking *ask = espl__alloc(sizeof *ask);

	ask->magic = ESPL__ASK_MAGIC;
	ask->world.ops = &ask_ops;
	ask->inputs = inputs;
	ask->dir = espl__strdup(dir);
	ask->listener = ask->journal = -1;
	ask->timer_at = ESPL_NEVER;
	ask->latency.kind = ESPL_CONSTANT;
	ask->latency.size = (uint32_t)sizeof ask->latency;
	ask->offer = (struct espl_offer){ .size = (uint32_t)sizeof ask->offer,
		.gpus = SLOTS,
		.nodes_max = ESPL_ANY,
		.name = ESPL__ASK_CLOUD,
		.market = "on-demand",
		.gpu_type = "cpu",
		.zone = "",
		.provision = &ask->latency,
		.init = &ask->latency,
		.hazard_hour = NAN };
	if (inputs->config->metric[0] != '\0') /* the executor's number 0 */
		(void)espl__names_add(&ask->metrics, inputs->config->metric);
	return ask;
}

espl_status
espl__ask_open(const struct espl__drive *drive, uint64_t token, struct espl__world **world,
    struct espl__diag *diag)
{
	struct espl__asking *ask = make_ask(drive->exec.inputs, drive->dir);

	(void)token;
	(void)diag;
	ask->interrupt = drive->interrupt;
	*world = &ask->world;
	return ESPL_OK;
}

espl_status
espl__ask_serve(struct espl__exec *exec, const struct espl__inputs *inputs, const char *dir,
    const volatile int *interrupt, struct espl__diag *diag)
{
	struct espl__asking *ask = make_ask(inputs, dir);
	espl_status status = espl__ask_listen(ask, diag);

	ask->world.exec = exec;
	ask->ended = 1;
	if (status == ESPL_OK)
		status = serve_results(ask, interrupt, diag);
	free_ask(ask);
	return status;
}
