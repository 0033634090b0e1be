/* real.c - the real world: a clock, a libuv loop, and the events that both produce for the
 * executor.
 *
 * The parts: real_cloud.c (plugin and offers), real_leases.c (machines), real_agent.c (one process
 * per machine), real_gangs.c and real_lines.c (trials), real_compute.c, real_dir.c (files).
 */
#include "real/real.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/tick.h"
#include "model/jobs.h"
#include "plugin/instance.h"
#include "driver/worlds.h"

#define TICK_MS 100
/* between ticks: the process was stopped, or the machine */
#define STOOD_STILL (2 * ESPL__REAL_SECOND)
#define HELD_UP (ESPL__REAL_SECOND / 4)      /* later than this is told, for trials waited */
#define REPORT_AFTER (5 * ESPL__REAL_SECOND) /* closing takes longer: it says so */
#define NEXT_LIMIT (100 * INT64_C(1000000))  /* ns that next waits at most */

static struct espl__real *
real_of(struct espl__world *world)
{
	return (struct espl__real *)(void *)world;
}

static void
on_timer(uv_timer_t *timer)
{
	struct espl__real *real = timer->data;
	espl_time left;

	if (real->timer_at == ESPL_NEVER)
		return;
	left = real->timer_at - espl__real_clock(real);
	if (left > 0) { /* uv counts milliseconds of its own: not yet there */
		(void)uv_timer_start(&real->timer, on_timer, (uint64_t)((left + 999999) / 1000000),
		    0);
		return;
	}
	real->timer_at = ESPL_NEVER;
	real->rang = 1;
	(void)espl__real_event(real, ESPL__EV_TIMER);
}

static void
set_timer(struct espl__real *real, espl_time at)
{
	espl_time left;

	real->timer_at = at;
	(void)uv_timer_stop(&real->timer);
	if (at == ESPL_NEVER)
		return;
	left = at - espl__real_clock(real);
	if (left < 0)
		left = 0;
	if (left > INT64_C(3600000) * 1000000) /* looked at once an hour */
		left = INT64_C(3600000) * 1000000;
	uv_update_time(&real->loop);
	(void)uv_timer_start(&real->timer, on_timer, (uint64_t)((left + 999999) / 1000000), 0);
}

/* Reports each experiment that has arrived, once. */
static void
report_arrivals(struct espl__real *real)
{
	const struct espl__jobs *jobs = espl__exec_view(real->world.exec).workload;
	espl_time now = espl__real_clock(real);
	double now_s = (double)now / 1e9;
	const struct espl__inputs *of;

	for (uint32_t i = 0; (of = espl__exec_search_of(real->world.exec, i)) != NULL; i++) {
		ESPL__GROW(real->arrived, real->arrived_cap, i + 1);
		if (i == real->arrived_count)
			real->arrived[real->arrived_count++] =
			    (uint8_t)espl__exec_has_come(real->world.exec, i);
		if (real->arrived[i] || of->arrives > now)
			continue;
		real->arrived[i] = 1;
		espl__real_event(real, ESPL__EV_EXPERIMENT)->as.number = i;
	}

	for (; jobs != NULL && real->job_next < jobs->list.count; real->job_next++) {
		if (jobs->list.jobs[real->job_next].arrives_s > now_s)
			break;
		espl__real_event(real, ESPL__EV_JOB)->as.number = real->job_next;
	}
}

static void
on_tick(uv_timer_t *timer)
{
	struct espl__real *real = timer->data;
	int64_t tick = espl__tick();

	real->ticked = 1;
	if (tick - real->last_tick > STOOD_STILL) {
		espl__agents_held(real, tick - real->last_tick);
		espl__real_gangs_held(real, tick - real->last_tick);
	}
	real->last_tick = tick;
	espl__agents_tick(real, tick);
	espl__real_leases_tick(real, tick);
	espl__real_owned_tick(real, tick);
	espl__real_gangs_tick(real, tick);
	espl__real_waits_tick(real, tick);
	espl__real_compute_tick(real, tick);
	report_arrivals(real);
	espl__spool_tick(real, tick);
}

static void
on_prepare(uv_prepare_t *prepare)
{
	espl__agents_flush(prepare->data);
}

static espl_status
real_begin(struct espl__world *world, int resumed, espl_time now, struct espl__diag *diag)
{
	struct espl__real *real = real_of(world);
	const struct espl__exec_view run = espl__exec_view(world->exec);
	espl_status status;
	uint32_t i;

	real->base = now;
	real->now = now;
	real->base_tick = real->last_tick = espl__tick();
	real->begun = 1;
	for (i = 0; i < run.metrics->count; i++)
		(void)espl__names_add(&real->metrics, run.metrics->names[i]);
	real->job_next = run.jobs_come;
	if (!resumed)
		(void)espl__real_event(real, ESPL__EV_START);
	status = espl__real_dir_mark(real, diag);
	if (status == ESPL_OK)
		status = espl__real_store_open(real, diag);
	if (status != ESPL_OK)
		return status;
	real->agents_lost = resumed;
	if (resumed) {
		status = espl__real_leases_resume(real, diag);
		if (status != ESPL_OK)
			return status;
		espl__real_rejoin(real);
	}
	espl__real_dir_clean(real, "trash"); /* what a removal left behind */
	if (uv_timer_start(&real->tick, on_tick, TICK_MS, TICK_MS) != 0 ||
	    uv_prepare_start(&real->prepare, on_prepare) != 0)
		return espl__fail(diag, ESPL_E_BUG, "cannot start the timers of the event loop");
	return espl__real_cloud_start(real, diag);
}

/* Moves the collected batch into *round and starts to fill the other one. */
static void
hand_over(struct espl__real *real, struct espl__round *round)
{
	const struct espl__batch *batch = &real->batch[real->filling];
	espl_time now = espl__real_clock(real);

	if (now > real->now)
		real->now = now;
	round->now = real->now;
	round->events = batch->list;
	round->count = batch->count;
	if (batch->count == 0)
		return;
	real->filling ^= 1;
	espl__batch_clear(&real->batch[real->filling]);
}

static espl_status
real_next(struct espl__world *world, struct espl__round *round, struct espl__diag *diag)
{
	struct espl__real *real = real_of(world);
	int64_t until = espl__tick() + NEXT_LIMIT;

	if (real->stop_wanted && !real->stop_sent) {
		real->stop_sent = 1;
		(void)espl__real_event(real, ESPL__EV_STOP);
	}
	/* Events that arrived while the executor was working, then whatever is ready now. */
	(void)uv_run(&real->loop, UV_RUN_NOWAIT);
	while (real->batch[real->filling].count == 0 && espl__tick() < until) {
		real->ticked = 0;
		(void)uv_run(&real->loop, UV_RUN_ONCE);
		if (real->ticked && real->batch[real->filling].count == 0)
			break;
	}
	/* The driver may have been suspended (slow disk, Ctrl-Z): gangs that reported in that time
	 * were not silent. */
	if (real->rang)
		(void)uv_run(&real->loop, UV_RUN_NOWAIT);
	real->rang = 0;
	if (real->leases_dirty) {
		struct espl__diag own = ESPL__DIAG_INIT;

		if (espl__real_dir_save_leases(real, &own) == ESPL_OK) {
			real->leases_dirty = 0;
		} else if (!real->troubled) { /* else machines are only given back now */
			*diag = own;
			return own.status;
		}
	}
	hand_over(real, round);
	return ESPL_OK;
}

/* Trials that were answered now have waited for us since the instant of the round. */
static void
report_held_up(struct espl__real *real)
{
	espl_span late = espl__real_clock(real) - real->now;

	if (late > HELD_UP)
		espl__real_event(real, ESPL__EV_HELD)->as.late = late;
}

static void
collect_checkpoints(struct espl__real *real, const struct espl__effect *fx)
{
	uint64_t trial =
	    (uint64_t)fx->as.collect.experiment << ESPL__TRIAL_BITS | fx->as.collect.trial;

	espl__real_dir_collect(real, trial, fx->as.collect.keep);
	espl__real_relay_collect(real, trial, fx->as.collect.keep);
}

static espl_status
real_apply(struct espl__world *world, const struct espl__effect *effects, uint32_t count,
    struct espl__diag *diag)
{
	struct espl__real *real = real_of(world);
	uint32_t i, asked = 0;

	for (i = 0; i < count; i++) {
		const struct espl__effect *fx = &effects[i];
		struct espl__rlease *lease;

		switch (fx->type) {
		case ESPL__FX_ACQUIRE:
			if (espl__real_lease(real, fx->as.acquire.lease) == NULL) {
				(void)espl__real_lease_add(real, fx->as.acquire.lease,
				    fx->as.acquire.offer, fx->as.acquire.max_price_hour);
				asked = 1;
			}
			break;
		case ESPL__FX_RELEASE:
			lease = espl__real_lease(real, fx->as.lease);
			if (lease != NULL)
				espl__real_release(real, lease, 0);
			break;
		case ESPL__FX_START:
			if (espl__real_start(real, fx, diag) != ESPL_OK)
				return diag != NULL ? diag->status : ESPL_E_CONFIG;
			break;
		case ESPL__FX_REPLY: espl__real_reply(real, fx); break;
		case ESPL__FX_RESIZE: espl__real_resize(real, fx); break;
		case ESPL__FX_KILL: espl__real_kill(real, fx); break;
		case ESPL__FX_COLLECT: collect_checkpoints(real, fx); break;
		case ESPL__FX_TIMER: set_timer(real, fx->as.at); break;
		case ESPL__FX_COMPUTE: espl__real_compute(real, fx); break;
		case ESPL__FX_END: break;
		default: return espl__fail(diag, ESPL_E_BUG, "unknown effect %d", (int)fx->type);
		}
	}
	if (asked)
		espl__real_leases_ask(real);
	espl__agents_flush(real);
	report_held_up(real);
	return ESPL_OK;
}

static void
real_stop(struct espl__world *world)
{
	real_of(world)->stop_wanted = 1;
}

static int
read_interrupts(const struct espl__real *real)
{
	return real->world.interrupt != NULL ? *real->world.interrupt : 0;
}

static int
agents_left(const struct espl__real *real)
{
	uint32_t i;

	for (i = 0; i < real->lease_count; i++)
		if (real->leases[i]->agent != NULL)
			return 1;
	return 0;
}

/* What closing waits for, if it takes long. */
static void
report_closing(const struct espl__real *real, int64_t limit)
{
	char span[32];

	if (real->lease_count > 0)
		espl__log(ESPL_INFO,
		    "waiting for %u node%s to be released, at most %s; interrupt again to leave "
		    "%s as %s",
		    real->lease_count, real->lease_count == 1 ? "" : "s",
		    espl__format_short(limit, span), real->lease_count == 1 ? "it" : "them",
		    real->lease_count == 1 ? "it is" : "they are");
	else
		espl__log(ESPL_INFO, "waiting for files to be moved or removed, at most %s",
		    espl__format_short(limit, span));
}

/* Runs the loop until there is nothing left to wait for; events that arrive are discarded. */
static void
drain_loop(struct espl__real *real, int kill)
{
	int64_t begun = espl__tick(), limit = (kill ? 3 : 120) * ESPL__REAL_SECOND;
	int interrupts = read_interrupts(real), said = 0;
	uint32_t i;

	for (;;) {
		int64_t since = espl__tick() - begun;
		int busy = agents_left(real) || real->works > 0 || (!kill && real->lease_count > 0);

		if (!busy || since > limit || read_interrupts(real) > interrupts)
			break;
		if (!said && since > REPORT_AFTER) {
			said = 1;
			report_closing(real, limit);
		}
		(void)uv_run(&real->loop, UV_RUN_ONCE);
		real->batch[real->filling].count = 0;
	}
	for (i = 0; i < real->lease_count; i++) {
		if (real->leases[i]->agent != NULL) {
			real->leases[i]->unheard |= real->leases[i]->agent->remote;
			espl__agent_kill(real->leases[i]->agent);
		}
		if (!kill)
			espl__log(ESPL_WARN,
			    "node %llu (%s) could not be released and may still cost money; see "
			    "`espalier nodes %s`",
			    (unsigned long long)real->leases[i]->id,
			    real->leases[i]->provider_id != NULL ? real->leases[i]->provider_id
								 : real->leases[i]->token,
			    real->dir);
	}
}

/* Closes the handles of processes that drain could not wait for, which are dead now. */
static void
drain_killed(struct espl__real *real)
{
	int64_t begun = espl__tick();

	while (
	    (agents_left(real) || real->works > 0) && espl__tick() - begun < 5 * ESPL__REAL_SECOND)
		(void)uv_run(&real->loop, UV_RUN_ONCE);
}

static void
close_handle(uv_handle_t *handle, void *ctx)
{
	(void)ctx;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

static void
real_free(struct espl__real *real)
{
	int i;

	espl__real_cloud_free(real); /* destroy may still cancel: the loop must live */
	uv_walk(&real->loop, close_handle, NULL);
	for (i = 0; i < 1000 && uv_loop_close(&real->loop) == UV_EBUSY; i++)
		(void)uv_run(&real->loop, UV_RUN_NOWAIT);
	espl__cloudio_free(real->io);
	if (real->works == 0) /* else a thread hangs with it */
		espl__s3_free(real->s3);
	espl__real_gangs_free(real);
	espl__real_leases_free(real);
	espl__real_owned_free(real);
	for (i = 0; i < 2; i++)
		espl__batch_free(&real->batch[i]);
	espl__names_free(&real->metrics);
	espl__names_free(&real->spool_left);
	espl__pids_free(&real->pids);
	free(real->dir);
	real->magic = 0;
	free(real);
}

/* Which of the nodes do not belong to this machine, and which of these are out of reach. */
static void
mark_distant(struct espl__real *real)
{
	for (uint32_t i = 0; i < real->lease_count; i++) {
		struct espl__rlease *lease = real->leases[i];
		const struct espl__ragent *agent = lease->agent;

		lease->distant = agent != NULL ? agent->remote : lease->provider_id != NULL;
		lease->unheard = agent != NULL && agent->remote && agent->lost_at != 0;
	}
}

static void
add_left(struct espl__buf *left, const struct espl__rlease *lease, uint32_t count)
{
	const char *name = lease->address != NULL && lease->address[0] != '\0' ? lease->address
									       : lease->provider_id;

	espl__print(left, "%snode %llu", count > 0 ? ", " : "", (unsigned long long)lease->id);
	if (name != NULL)
		espl__print(left, " (%.100s)", name);
}

/* In words, what this driver leaves behind on other machines, and these themselves if they cost. */
static void
report_left(const struct espl__real *real, int kill, struct espl__buf *left)
{
	uint32_t trials = 0, paid = 0;
	char span[32];

	for (uint32_t i = 0; i < real->lease_count; i++)
		if (real->leases[i]->distant && real->leases[i]->unheard) {
			if (trials == 0)
				espl__print(left, "the processes of trials on ");
			add_left(left, real->leases[i], trials++);
		}
	if (trials > 0)
		espl__print(left, ", which end when they have had no driver for %s",
		    espl__format_short(real->config->linger, span));
	/* Else each was named when it could not be released. */
	for (uint32_t i = 0; kill && i < real->lease_count; i++) {
		const struct espl_offer *offer =
		    espl__exec_offer(real->world.exec, real->leases[i]->offer);

		if (!real->leases[i]->distant || real->leases[i]->ended || offer == NULL ||
		    offer->price_hour <= 0)
			continue;
		if (paid == 0)
			espl__print(left, "%smachines that cost money until they are released: ",
			    left->size > 0 ? "; and " : "");
		add_left(left, real->leases[i], paid++);
	}
	if (paid > 0)
		espl__print(left, " (`espalier nodes %s --release`)", real->dir);
}

static void
real_close(struct espl__world *world, int kill, struct espl__buf *to)
{
	struct espl__real *real = real_of(world);
	uint32_t i, left = 0;
	struct espl__diag diag = ESPL__DIAG_INIT;

	real->closing = 1;
	mark_distant(real);
	if (kill)
		espl__s3_stop(real->s3);
	espl__real_compute_close(real);
	for (i = 0; i < real->lease_count; i++) {
		struct espl__rlease *lease = real->leases[i];

		lease->agent_at = 0;
		if (lease->agent != NULL)
			espl__agent_close(lease->agent);
	}
	/* A machine of a cloud that never came up cannot be released here. */
	for (i = real->lease_count; !kill && i-- > 0;)
		if (real->cloud_up && i < real->lease_count)
			espl__real_release(real, real->leases[i], 0);
	if (real->begun) {
		drain_loop(real, kill || !real->cloud_up);
		drain_killed(real);
		if (!kill)
			espl__real_owned_close(real);
	}
	if (real->begun)
		report_left(real, kill, to);
	(void)espl__reap_orphans(&real->pids, NULL, NULL, 5000, &left);
	if (left > 0)
		espl__print(to, "%s%u processes of trials, which cannot be killed",
		    to->size > 0 ? "; and " : "", left);
	if (left > 0)
		espl__log(ESPL_ERROR, "%u processes of trials could not be killed", left);
	if (real->begun && real->leases_dirty && espl__real_dir_save_leases(real, &diag) != ESPL_OK)
		espl__log(ESPL_WARN, "%s", diag.text);
	espl__real_relay_report(real);
	espl__real_lines_report(real);
	if (real->begun && !kill) {
		espl__real_collect(real);
		espl__real_dir_clean(real, "left"); /* the journal has it */
	}
	if (real->begun)
		espl__real_dir_close(real);
	real_free(real);
}

static const struct espl__world_ops real_ops = { real_begin, real_next, real_apply, real_stop,
	real_close };

static espl_status
init_loop(struct espl__real *real, struct espl__diag *diag)
{
	int failed = uv_loop_init(&real->loop);

	if (failed != 0)
		return espl__fail(diag, ESPL_E_REMOTE, "cannot start the event loop: %s",
		    uv_strerror(failed));
	(void)uv_timer_init(&real->loop, &real->tick);
	(void)uv_timer_init(&real->loop, &real->timer);
	(void)uv_prepare_init(&real->loop, &real->prepare);
	real->tick.data = real;
	real->timer.data = real;
	real->prepare.data = real;
	return ESPL_OK;
}

static const struct espl__agent_events agent_events = {
	.started = espl__real_gangs_agent,
	.hello = espl__real_lease_hello,
	.reach = espl__real_lease_reach,
	.risk = espl__real_lease_risk,
	.state = espl__real_rejoin_message,
	.saving = espl__real_rejoin_saving,
	.gone = espl__real_lease_agent_gone,
	.gpu = espl__real_gpu_message,
	.gang = espl__real_gang_message,
	.private = espl__real_relay_begin,
	.moves = espl__real_relay_receive,
	.closed = espl__real_relay_end,
};

static uint64_t
read_wall_clock(void)
{
	struct timespec now = { 0, 0 };

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

espl_status
espl__world_real(const struct espl__inputs *inputs, const char *dir, uint64_t token,
    struct espl__world **out, struct espl__diag *diag)
{
	struct espl__real *real = espl__alloc(sizeof *real);
	espl_status status;

	real->magic = ESPL__REAL_MAGIC;
	real->world.ops = &real_ops;
	real->agent_events = &agent_events;
	real->config = inputs->config;
	real->own = inputs;
	real->dir = espl__strdup(dir);
	real->token = token;
	real->number = read_wall_clock();
	real->timer_at = ESPL_NEVER;
	(void)snprintf(real->run, sizeof real->run, "%016llx", (unsigned long long)token);
	status = init_loop(real, diag);
	if (status != ESPL_OK) {
		free(real->dir);
		free(real);
		return status;
	}
	if (espl__reap_init(&real->pids) != 0)
		status = espl__fail_errno(diag, "cannot become the parent of orphaned processes");
	(void)signal(SIGPIPE, SIG_IGN);
	if (status == ESPL_OK)
		status = espl__real_gangs_new(real, diag);
	if (status == ESPL_OK)
		status = espl__real_cloud_new(real, diag);
	if (status != ESPL_OK) {
		real_free(real);
		return status;
	}
	*out = &real->world;
	return ESPL_OK;
}
