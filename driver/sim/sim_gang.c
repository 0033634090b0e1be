/* sim_gang.c - simulated gangs: one pending instant each, from the start of the ranks to the end.
 *
 * STARTING   STARTED is due; then the start's and the restore's time pass
 * TRAINING   the end of an iteration is due: its metrics are made then, and REPORT
 * WAITING    for the reply
 * RESIZING   the profile's `resize` passes; RESIZED, and the next iteration on the new slots; or,
 *            of a job that was resized in the middle of one, the rest of it
 * SAVING     a checkpoint's time passes; SAVED, and the next iteration or the end
 * HUNG       nothing will come (fault script)
 * ENDING     ENDED is due
 *
 * One that is killed with a grace does what the helpers of real trials do: it finishes its
 * iteration, reports, saves and leaves, as far as the grace allows.
 */
#include <string.h>
#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"
#include "sim/sim_impl.h"

static struct espl__sim_gang *
new_gang(struct espl__sim *sim)
{
	struct espl__sim_gang *gang;

	if (sim->free_gang != ESPL_ANY) {
		gang = espl__pool_at(&sim->gangs, sim->free_gang);
		sim->free_gang = gang->next_free;
	} else {
		gang = espl__pool_add(&sim->gangs);
		gang->slot = (uint32_t)(sim->gangs.count - 1);
	}
	sim->live_gangs++;
	return gang;
}

static void
forget_leases(struct espl__sim *sim, struct espl__sim_gang *gang)
{
	for (uint32_t i = 0; i < gang->lease_count; i++)
		if (gang->leases[i] < sim->lease_count)
			sim->leases[gang->leases[i]].gangs--;
	gang->lease_count = 0;
}

/* ---- GPUs that are shared ------------------------------------------------------------ */

static void
count_sharer(struct espl__sim *sim, const struct espl__sim_gang *gang, int sign)
{
	uintptr_t count = (uintptr_t)espl__map_get(&sim->sharers, gang->gpu);

	if (gang->share.packing <= 1)
		return;
	count += (uintptr_t)(intptr_t)sign;
	if (count > 0)
		espl__map_set(&sim->sharers, gang->gpu, (void *)count);
	else
		espl__map_remove(&sim->sharers, gang->gpu);
}

/* A share is a cap on neighbors: a trial is as slow as those that are there make it. */
static void
look_around(const struct espl__sim *sim, struct espl__sim_gang *gang)
{
	const struct espl__profile *profile = espl__sim_profile(gang->source->of);
	struct espl_share share = gang->share;
	uintptr_t here = (uintptr_t)espl__map_get(&sim->sharers, gang->gpu);
	double speed;

	if (gang->source->of->jobs != NULL || sim->learned != NULL) {
		gang->ratio = 1.0; /* they have laws of their own: espl__sim_iteration_s */
		return;
	}
	if (share.packing > 1 && here < share.packing)
		share.packing = here > 0 ? (uint32_t)here : 1;
	speed = espl__profile_speed(profile, share);
	if (gang->lease_count > 0 && gang->leases[0] < sim->lease_count)
		speed *= espl__profile_type_speed(profile,
		    sim->offers[sim->leases[gang->leases[0]].offer].terms.gpu_type);
	gang->ratio = speed > 0.0 ? 1.0 / speed : 1.0;
}

static struct espl__event *
gang_end(struct espl__sim *sim, struct espl__sim_gang *gang, enum espl__gang_end how,
    const char *text)
{
	struct espl__event *event = espl__sim_add_event(sim, ESPL__EV_ENDED);

	if (gang->killed && how == ESPL__END_FAILED) { /* ended by us: no failure of its own */
		how = ESPL__END_LOST;
		text = NULL;
	}
	event->as.ended.gang = gang->id;
	event->as.ended.how = how;
	event->as.ended.node =
	    how == ESPL__END_FAILED && gang->lease_count > 0 ? gang->leases[0] : ESPL_NONE;
	event->as.ended.text = espl__sim_text(sim, text);
	espl__sim_body_close(gang);
	forget_leases(sim, gang);
	count_sharer(sim, gang, -1);
	espl__map_remove(&sim->by_id, gang->id);
	free(gang->text);
	gang->text = NULL;
	free(gang->next);
	gang->next = NULL;
	gang->phase = ESPL__SIM_FREE;
	gang->epoch++;
	gang->next_free = sim->free_gang;
	sim->free_gang = gang->slot;
	sim->live_gangs--;
	return event;
}

static void
wait_until(struct espl__sim *sim, struct espl__sim_gang *gang, enum espl__sim_phase phase,
    espl_time when)
{
	if (gang->killed && when > gang->kill_at) { /* it does not come to that */
		phase = ESPL__SIM_ENDING;
		gang->how = ESPL__END_LOST;
		when = gang->kill_at;
	}
	gang->phase = (uint8_t)phase;
	gang->due = when;
	gang->epoch++;
	espl__sim_heap_add(&sim->heap, when, ESPL__DUE_GANG, gang->slot, gang->epoch);
}

static void
end_later(struct espl__sim *sim, struct espl__sim_gang *gang, enum espl__gang_end how,
    double seconds)
{
	gang->how = (uint8_t)how;
	wait_until(sim, gang, ESPL__SIM_ENDING, espl__sim_after(sim, seconds));
}

/* Trains the current iteration, or the rest of it, after `delay`. */
static void
start_training(struct espl__sim *sim, struct espl__sim_gang *gang, double delay)
{
	look_around(sim, gang);
	gang->ratio *= espl__sim_fault_slow(sim, gang);
	gang->iteration_s = espl__sim_iteration_s(sim, gang, gang->iteration + 1) * gang->ratio;
	wait_until(sim, gang, ESPL__SIM_TRAINING, espl__sim_after(sim, delay + gang->iteration_s));
}

static int
is_to_hang(struct espl__sim *sim, const struct espl__sim_gang *gang, uint64_t iteration)
{
	const struct espl__sim_fault *bad =
	    espl__sim_fault_gang(sim, ESPL__FAULT_BAD_CONFIGURATION, gang, iteration);

	return (bad != NULL && bad->silent) ||
	    espl__sim_fault_gang(sim, ESPL__FAULT_HANG, gang, iteration) != NULL;
}

/* Trains the next iteration after `delay`; or ends, if there is none. */
static void
next_iteration(struct espl__sim *sim, struct espl__sim_gang *gang, double delay)
{
	uint64_t iteration = gang->iteration + 1;

	if (gang->finished || iteration > espl__sim_last_iteration(sim, gang)) {
		end_later(sim, gang, ESPL__END_FINISHED, delay);
		return;
	}
	if (iteration > gang->budget) {
		end_later(sim, gang, ESPL__END_DONE, delay);
		return;
	}
	if (is_to_hang(sim, gang, iteration)) {
		if (gang->killed) {
			wait_until(sim, gang, ESPL__SIM_ENDING, ESPL_NEVER);
			return;
		}
		gang->phase = ESPL__SIM_HUNG;
		gang->epoch++;
		return;
	}
	gang->done_s = 0.0;
	start_training(sim, gang, delay);
}

/* ---- what the executor orders -------------------------------------------------------- */

/* Also on these. */
static void
add_leases(struct espl__sim *sim, struct espl__sim_gang *gang, const struct espl_slot *slots,
    uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t lease = slots[i].node;
		uint32_t j = 0;

		/* Ranks of one node come together, so the last one is the usual match. */
		if (gang->lease_count > 0 && gang->leases[gang->lease_count - 1] == lease)
			continue;
		while (j < gang->lease_count && gang->leases[j] != lease)
			j++;
		if (j < gang->lease_count)
			continue;
		ESPL__GROW(gang->leases, gang->lease_cap, gang->lease_count + 1);
		gang->leases[gang->lease_count++] = lease;
		if (lease < sim->lease_count)
			sim->leases[lease].gangs++;
	}
}

#define MEET_S 12.0 /* until a gang that cannot meet gives up */

/* Ranks that are to meet on several nodes cannot. */
static int
cannot_meet(struct espl__sim *sim, const struct espl__sim_gang *gang)
{
	return sim->faults.count > 0 && gang->lease_count > 1 &&
	    espl__sim_fault_gang(sim, ESPL__FAULT_NO_ROUTE, gang, gang->iteration) != NULL;
}

/* resizes: it stays as it was. */
static void
tell_no_route(struct espl__sim *sim, const struct espl__sim_gang *gang, int resizes)
{
	struct espl__event *event = espl__sim_add_event(sim, ESPL__EV_NO_ROUTE);
	char text[100];

	snprintf(text, sizeof text, "node %llu cannot reach node %llu: fault script",
	    (unsigned long long)gang->leases[gang->lease_count - 1],
	    (unsigned long long)gang->leases[0]);
	event->as.no_route.lease = gang->leases[gang->lease_count - 1];
	event->as.no_route.gang = resizes ? gang->id : ESPL_NONE;
	event->as.no_route.text = espl__sim_text(sim, text);
}

espl_status
espl__sim_start(struct espl__sim *sim, const struct espl__effect *effect, struct espl__diag *diag)
{
	struct espl__sim_source *source;
	struct espl__sim_gang *gang;
	int how = 0;

	ESPL__CHECK(sim, SIM);
	if (espl__map_get(&sim->by_id, effect->as.start.gang) != NULL)
		return espl__fail(diag, ESPL_E_BUG, "gang %llu was started twice",
		    (unsigned long long)effect->as.start.gang);
	source = espl__sim_source(sim, effect->as.start.experiment, diag);
	if (source == NULL)
		return diag != NULL && diag->status != ESPL_OK ? diag->status : ESPL_E_CONFIG;
	gang = new_gang(sim);
	gang->source = source;
	gang->id = effect->as.start.gang;
	gang->trial = effect->as.start.trial;
	gang->experiment = effect->as.start.experiment;
	gang->attempt = effect->as.start.attempt;
	gang->iteration = effect->as.start.checkpoint; /* what is restored is what is done */
	gang->budget = effect->as.start.budget;
	gang->share = effect->as.start.share;
	gang->finished = gang->last_save = gang->how = gang->killed = gang->no_route = 0;
	gang->up = 0;
	gang->done_s = 0.0;
	gang->key = espl__sim_key(sim->seed, "trial", gang->experiment, gang->trial);
	gang->gpu = effect->as.start.slots[0].node << 12 | effect->as.start.slots[0].gpu;
	count_sharer(sim, gang, 1);
	espl__map_set(&sim->by_id, gang->id, gang);
	add_leases(sim, gang, effect->as.start.slots, gang->share.gpus);
	for (uint32_t i = 0; i < gang->lease_count; i++)
		if (sim->lease_count > 0 && !espl__sim_alive(sim, gang->leases[i]))
			how = ESPL__END_LOST;
	if (how == ESPL__END_LOST) {
		end_later(sim, gang, ESPL__END_LOST, 0.0);
		return ESPL_OK;
	}
	if (cannot_meet(sim, gang)) {
		gang->no_route = 1;
		end_later(sim, gang, ESPL__END_LOST, MEET_S);
		return ESPL_OK;
	}
	how = espl__sim_body_open(sim, gang, effect->as.start.values, effect->as.start.source,
	    effect->as.start.checkpoint);
	gang->how = (uint8_t)how;
	wait_until(sim, gang, ESPL__SIM_STARTING, sim->now);
	return ESPL_OK;
}

static void
start_saving(struct espl__sim *sim, struct espl__sim_gang *gang, int last)
{
	double seconds =
	    espl__sim_draw(gang->source->save, gang->key, ESPL__SIM_SAVE, gang->iteration);
	espl_span limit = gang->source->of->config->trial.save_limit;
	char span[32];

	gang->last_save = (uint8_t)last;
	if (last == 1 && limit > 0 && seconds * 1e9 > (double)limit) {
		free(gang->text);
		gang->text = espl__format("no checkpoint within %s after the request to pause",
		    espl__format_short(limit, span));
		end_later(sim, gang, ESPL__END_FAILED, (double)limit / 1e9);
		return;
	}
	wait_until(sim, gang, ESPL__SIM_SAVING, espl__sim_after(sim, seconds));
}

/* ---- in place ------------------------------------------------------------------------ */

static double
resize_s(const struct espl__sim_gang *gang)
{
	return espl__sim_draw(gang->source->resize, gang->key, ESPL__SIM_RESIZE, gang->iteration);
}

void
espl__sim_resize(struct espl__sim *sim, const struct espl__effect *effect)
{
	struct espl__sim_gang *gang = espl__map_get(&sim->by_id, effect->as.resize.gang);
	double left = -1.0;

	ESPL__CHECK(sim, SIM);
	if (gang == NULL || gang->phase == ESPL__SIM_ENDING || gang->killed)
		return; /* it has ended meanwhile */
	free(gang->next);
	gang->next_count = effect->as.resize.share.gpus;
	gang->next = espl__alloc(gang->next_count * sizeof *gang->next);
	memcpy(gang->next, effect->as.resize.slots, gang->next_count * sizeof *gang->next);
	add_leases(sim, gang, gang->next, gang->next_count);
	for (uint32_t i = 0; i < gang->lease_count; i++)
		if (sim->lease_count > 0 && !espl__sim_alive(sim, gang->leases[i])) {
			end_later(sim, gang, ESPL__END_LOST, 0.0);
			return;
		}
	if (cannot_meet(sim, gang)) {
		tell_no_route(sim, gang, 1);
		free(gang->next);
		gang->next = NULL;
		return;
	}
	if (gang->phase == ESPL__SIM_TRAINING)
		left = espl__sim_job_cut(sim, gang);
	if (left >= 0.0)
		wait_until(sim, gang, ESPL__SIM_RESIZING,
		    espl__sim_after(sim, left + resize_s(gang)));
}

static void
finish_resize(struct espl__sim *sim, struct espl__sim_gang *gang)
{
	struct espl__event *event = espl__sim_add_event(sim, ESPL__EV_RESIZED);

	event->as.resized.gang = gang->id;
	event->as.resized.took = (espl_span)(resize_s(gang) * 1e9);
	count_sharer(sim, gang, -1);
	gang->share.gpus = gang->next_count;
	gang->gpu = gang->next[0].node << 12 | gang->next[0].gpu;
	count_sharer(sim, gang, 1);
	forget_leases(sim, gang);
	add_leases(sim, gang, gang->next, gang->next_count);
	free(gang->next);
	gang->next = NULL;
	if (gang->done_s > 0.0)
		start_training(sim, gang, 0.0);
	else
		next_iteration(sim, gang, 0.0);
}

espl_status
espl__sim_reply(struct espl__sim *sim, const struct espl__effect *effect, struct espl__diag *diag)
{
	struct espl__sim_gang *gang = espl__map_get(&sim->by_id, effect->as.reply.gang);
	int saves;

	ESPL__CHECK(sim, SIM);
	if (gang == NULL || gang->phase == ESPL__SIM_ENDING || gang->killed)
		return ESPL_OK; /* it ended meanwhile, or is being killed */
	if (gang->phase != ESPL__SIM_WAITING)
		return espl__fail(diag, ESPL_E_BUG,
		    "gang %llu received a reply but has not reported",
		    (unsigned long long)gang->id);
	saves = gang->source->of->config->trial.checkpoint;
	if (effect->as.reply.budget != 0) {
		gang->budget = effect->as.reply.budget;
		gang->context.budget = gang->budget;
	}
	switch (effect->as.reply.directive) {
	case ESPL__CONTINUE:
		if (gang->next != NULL)
			wait_until(sim, gang, ESPL__SIM_RESIZING,
			    espl__sim_after(sim, resize_s(gang)));
		else
			next_iteration(sim, gang, 0.0);
		break;
	case ESPL__CHECKPOINT:
		if (saves)
			start_saving(sim, gang, 0);
		else
			next_iteration(sim, gang, 0.0);
		break;
	case ESPL__PAUSE:
		if (saves)
			start_saving(sim, gang, 1);
		else
			end_later(sim, gang, gang->finished ? ESPL__END_FINISHED : ESPL__END_DONE,
			    0.0);
		break;
	case ESPL__STOP: end_later(sim, gang, ESPL__END_DONE, 0.0); break;
	}
	return ESPL_OK;
}

/* A killed gang has reported, and does not wait for the answer. */
static void
leave_gang(struct espl__sim *sim, struct espl__sim_gang *gang)
{
	if (gang->source->of->config->trial.checkpoint)
		start_saving(sim, gang, 2);
	else
		end_later(sim, gang, gang->finished ? ESPL__END_FINISHED : ESPL__END_LOST, 0.0);
}

void
espl__sim_kill(struct espl__sim *sim, uint64_t id, espl_span grace)
{
	struct espl__sim_gang *gang = espl__map_get(&sim->by_id, id);

	ESPL__CHECK(sim, SIM);
	if (gang == NULL)
		return; /* it ended by itself in the same instant */
	free(gang->text);
	gang->text = NULL;
	gang->killed = 1;
	gang->kill_at = grace > 0 ? espl__sim_after(sim, (double)grace / 1e9) : sim->now;
	if (grace > 0 && gang->phase == ESPL__SIM_WAITING)
		leave_gang(sim, gang);
	else if (grace > 0 &&
	    (gang->phase == ESPL__SIM_TRAINING || gang->phase == ESPL__SIM_SAVING ||
		gang->phase == ESPL__SIM_ENDING))
		wait_until(sim, gang, (enum espl__sim_phase)gang->phase, gang->due);
	else if (grace > 0 && gang->phase == ESPL__SIM_HUNG)
		wait_until(sim, gang, ESPL__SIM_ENDING, ESPL_NEVER);
	else
		end_later(sim, gang, ESPL__END_LOST, 0.0);
}

/* ---- what becomes due ---------------------------------------------------------------- */

static void
finish_start(struct espl__sim *sim, struct espl__sim_gang *gang)
{
	uint64_t attempt = gang->attempt;
	double delay = espl__sim_draw(gang->source->start, gang->key, ESPL__SIM_START, attempt);

	if (sim->learned != NULL && !gang->up) { /* until its ranks run */
		gang->up = 1;
		wait_until(sim, gang, ESPL__SIM_STARTING, espl__sim_after(sim, delay));
		return;
	}
	if (sim->learned != NULL)
		delay = 0;
	espl__sim_add_event(sim, ESPL__EV_STARTED)->as.gang = gang->id;
	if (gang->iteration > 0 || sim->learned != NULL)
		delay +=
		    espl__sim_draw(gang->source->restore, gang->key, ESPL__SIM_RESTORE, attempt);
	if (gang->how != 0)
		end_later(sim, gang, gang->how, delay);
	else
		next_iteration(sim, gang, delay);
}

/* The nodes that it stands on end at this instant, and all gangs there with them. */
static void
kill_nodes(struct espl__sim *sim, const struct espl__sim_gang *gang, const char *says)
{
	for (uint32_t i = 0; i < gang->lease_count; i++) {
		struct espl__event *why = espl__sim_add_event(sim, ESPL__EV_NODE_WHY);

		why->as.node_why.lease = gang->leases[i];
		why->as.node_why.text = says;
		espl__sim_heap_add(&sim->heap, sim->now, ESPL__DUE_ENDED, gang->leases[i],
		    ESPL_BY_FAULT);
	}
}

/* Does a fault end the gang now, in place of the report?  1: it did. */
static int
strike_fault(struct espl__sim *sim, struct espl__sim_gang *gang)
{
	const struct espl__sim_fault *fault;
	char text[96];

	if (sim->learned != NULL && gang->source->of->jobs == NULL &&
	    espl__learned_fails(sim->learned, espl__sim_learned_trial(gang), gang->attempt,
		gang->iteration)) {
		gang_end(sim, gang, ESPL__END_FAILED, "as others before");
		return 1;
	}
	if (sim->faults.count == 0)
		return 0;
	if (espl__sim_fault_gang(sim, ESPL__FAULT_TRIAL_LOST, gang, gang->iteration) != NULL) {
		gang_end(sim, gang, ESPL__END_LOST, "fault script: trial-lost");
		return 1;
	}
	fault = espl__sim_fault_gang(sim, ESPL__FAULT_KILLS_NODE, gang, gang->iteration);
	if (fault != NULL) {
		kill_nodes(sim, gang, fault->text);
		return 1;
	}
	fault = espl__sim_fault_gang(sim, ESPL__FAULT_TRIAL_FAILS, gang, gang->iteration);
	if (fault == NULL)
		fault = espl__sim_fault_gang(sim, ESPL__FAULT_CRASH_RATE, gang, gang->iteration);
	if (fault == NULL)
		fault =
		    espl__sim_fault_gang(sim, ESPL__FAULT_BAD_CONFIGURATION, gang, gang->iteration);
	if (fault == NULL)
		return 0;
	snprintf(text, sizeof text, "fault script: fails in iteration %llu",
	    (unsigned long long)gang->iteration);
	gang_end(sim, gang, ESPL__END_FAILED, text);
	return 1;
}

static void
finish_iteration(struct espl__sim *sim, struct espl__sim_gang *gang)
{
	const struct espl__sim_fault *nan;
	struct espl__event *event;
	uint32_t count;

	gang->iteration++;
	if (gang->source->of->jobs != NULL)
		espl__sim_job_trained(sim, gang);
	gang->done_s = 0.0;
	if (strike_fault(sim, gang))
		return;
	nan = espl__sim_fault_gang(sim, ESPL__FAULT_NAN, gang, gang->iteration);
	if (espl__sim_body_step(sim, gang, nan, &count) != 0) {
		gang_end(sim, gang, ESPL__END_FAILED, gang->text);
		return;
	}
	event = espl__sim_add_event(sim, ESPL__EV_REPORT);
	event->as.report.gang = gang->id;
	event->as.report.iteration = gang->iteration;
	event->as.report.count = count;
	if (gang->killed) {
		leave_gang(sim, gang);
		return;
	}
	gang->phase = ESPL__SIM_WAITING;
	gang->epoch++;
}

static void
finish_saving(struct espl__sim *sim, struct espl__sim_gang *gang)
{
	struct espl__event *event;
	uint64_t bytes;

	if (espl__sim_body_save(sim, gang, &bytes) != 0) {
		gang_end(sim, gang, ESPL__END_FAILED, gang->text);
		return;
	}
	event = espl__sim_add_event(sim, ESPL__EV_SAVED);
	event->as.saved.gang = gang->id;
	event->as.saved.iteration = gang->iteration;
	event->as.saved.bytes = bytes;
	if (gang->last_save)
		gang_end(sim, gang,
		    gang->finished             ? ESPL__END_FINISHED
			: gang->last_save == 2 ? ESPL__END_LOST
					       : ESPL__END_DONE,
		    NULL);
	else
		next_iteration(sim, gang, 0.0);
}

/* The instant at which all its nodes can be reached: only then the gang's progress is known. */
static espl_time
known_at(const struct espl__sim *sim, const struct espl__sim_gang *gang)
{
	espl_time at = sim->now;

	for (uint32_t i = 0; i < gang->lease_count; i++)
		if (gang->leases[i] < sim->lease_count &&
		    sim->leases[gang->leases[i]].cut_until > at)
			at = sim->leases[gang->leases[i]].cut_until;
	return at;
}

void
espl__sim_gang_due(struct espl__sim *sim, const struct espl__sim_due *due)
{
	struct espl__sim_gang *gang = espl__pool_at(&sim->gangs, due->ref);
	espl_time at;

	ESPL__CHECK(sim, SIM);
	if (gang->phase == ESPL__SIM_FREE || gang->epoch != due->mark)
		return; /* killed or lost before it came to that */
	at = known_at(sim, gang);
	if (at > sim->now) {
		espl__sim_heap_add(&sim->heap, at, ESPL__DUE_GANG, due->ref, due->mark);
		return;
	}
	switch ((enum espl__sim_phase)gang->phase) {
	case ESPL__SIM_STARTING: finish_start(sim, gang); break;
	case ESPL__SIM_TRAINING: finish_iteration(sim, gang); break;
	case ESPL__SIM_SAVING: finish_saving(sim, gang); break;
	case ESPL__SIM_RESIZING: finish_resize(sim, gang); break;
	case ESPL__SIM_ENDING:
		if (gang->no_route && !gang->killed)
			tell_no_route(sim, gang, 0);
		gang_end(sim, gang, gang->how, gang->text);
		break;
	default: ESPL__WRONG("a gang without a pending event is due");
	}
}

/* ---- a run in the middle ------------------------------------------------------------- */

/* What is left of something that takes so long and began then: if it should be over, a little. */
static double
left_of(const struct espl__sim *sim, double seconds, espl_time began)
{
	double left = seconds - (double)(sim->now - began) / 1e9;

	return left > 0.05 * seconds ? left : 0.05 * seconds;
}

/* It trains, or saves after its last report. */
static void
stand_training(struct espl__sim *sim, struct espl__sim_gang *gang,
    const struct espl__gang_info *info)
{
	double before = 0;

	if (!info->reported)
		before = espl__sim_draw(gang->source->restore, gang->key, ESPL__SIM_RESTORE,
		    gang->attempt);
	look_around(sim, gang);
	gang->iteration_s = espl__sim_iteration_s(sim, gang, gang->iteration + 1) * gang->ratio;
	if (gang->iteration >= gang->budget ||
	    gang->iteration >= espl__sim_last_iteration(sim, gang))
		end_later(sim, gang, ESPL__END_DONE, 0.0);
	else
		wait_until(sim, gang, ESPL__SIM_TRAINING,
		    espl__sim_after(sim,
			left_of(sim, before + gang->iteration_s,
			    info->reported ? info->last_seen : info->began)));
}

static void
stand_phase(struct espl__sim *sim, struct espl__sim_gang *gang, const struct espl__gang_info *info)
{
	double save_s =
	    espl__sim_draw(gang->source->save, gang->key, ESPL__SIM_SAVE, gang->iteration);

	if (info->killed) {
		gang->killed = 1;
		gang->kill_at = espl__sim_after(sim, save_s);
		end_later(sim, gang, ESPL__END_LOST, save_s);
	} else if (!info->started) {
		gang->up = 1;
		wait_until(sim, gang, ESPL__SIM_STARTING,
		    espl__sim_after(sim,
			left_of(sim,
			    espl__sim_draw(gang->source->start, gang->key, ESPL__SIM_START,
				gang->attempt),
			    info->began)));
	} else if (info->awaiting) {
		gang->phase = ESPL__SIM_WAITING;
	} else if (info->directive == ESPL__STOP) {
		end_later(sim, gang, ESPL__END_DONE, 0.0);
	} else if (info->directive == ESPL__PAUSE && gang->source->of->config->trial.checkpoint) {
		gang->last_save = 1;
		wait_until(sim, gang, ESPL__SIM_SAVING,
		    espl__sim_after(sim, left_of(sim, save_s, info->last_seen)));
	} else if (info->directive == ESPL__PAUSE) {
		end_later(sim, gang, ESPL__END_DONE, 0.0);
	} else {
		stand_training(sim, gang, info);
	}
}

espl_status
espl__sim_gang_stands(struct espl__sim *sim, const struct espl__gang_info *info,
    struct espl__diag *diag)
{
	uint32_t search = (uint32_t)(info->trial >> ESPL__TRIAL_BITS);
	struct espl__sim_source *source = espl__sim_source(sim, search, diag);
	struct espl__sim_gang *gang;

	ESPL__CHECK(sim, SIM);
	if (source == NULL)
		return diag != NULL && diag->status != ESPL_OK ? diag->status : ESPL_E_CONFIG;
	gang = new_gang(sim);
	gang->source = source;
	gang->id = info->gang;
	gang->trial = info->trial & ESPL__TRIAL_NUMBER;
	gang->experiment = search;
	gang->attempt = info->attempt;
	gang->iteration = info->iteration;
	gang->budget = info->budget;
	gang->share = info->share;
	gang->key = espl__sim_key(sim->seed, "trial", search, gang->trial);
	gang->gpu = info->slots[0].node << 12 | info->slots[0].gpu;
	count_sharer(sim, gang, 1);
	espl__map_set(&sim->by_id, gang->id, gang);
	add_leases(sim, gang, info->slots, info->gpus);
	if (info->onto_count > 0) {
		gang->next_count = info->onto_count;
		gang->next = espl__alloc(gang->next_count * sizeof *gang->next);
		memcpy(gang->next, info->onto, gang->next_count * sizeof *gang->next);
		add_leases(sim, gang, gang->next, gang->next_count);
	}
	stand_phase(sim, gang, info);
	return ESPL_OK;
}

static int
by_id(const void *a, const void *b)
{
	const struct espl__sim_gang *x = *(struct espl__sim_gang *const *)a;
	const struct espl__sim_gang *y = *(struct espl__sim_gang *const *)b;

	return (x->id > y->id) - (x->id < y->id);
}

/* Only called for a lease that has gangs, so the scan over all of them is rare. */
void
espl__sim_gangs_lost(struct espl__sim *sim, uint64_t lease)
{
	struct espl__sim_gang **list = espl__alloc((sim->live_gangs + 1) * sizeof *list);
	uint32_t count = 0;
	char text[64];

	ESPL__CHECK(sim, SIM);
	for (uint64_t i = 0; i < sim->gangs.count; i++) {
		struct espl__sim_gang *gang = espl__pool_at(&sim->gangs, i);

		for (uint32_t j = 0; j < gang->lease_count; j++)
			if (gang->leases[j] == lease)
				list[count++] = gang;
	}
	qsort(list, count, sizeof *list, by_id);
	snprintf(text, sizeof text, "node %llu was lost", (unsigned long long)lease);
	for (uint32_t i = 0; i < count; i++)
		gang_end(sim, list[i], ESPL__END_LOST, text)->as.ended.node = lease;
	free(list);
}

void
espl__sim_gangs_free(struct espl__sim *sim)
{
	ESPL__CHECK(sim, SIM);
	for (uint64_t i = 0; i < sim->gangs.count; i++) {
		struct espl__sim_gang *gang = espl__pool_at(&sim->gangs, i);

		espl__sim_body_close(gang);
		free(gang->leases);
		free(gang->next);
		free(gang->text);
	}
	espl__pool_free(&sim->gangs);
	espl__map_free(&sim->by_id);
	espl__map_free(&sim->sharers);
}
