/* sim_state.c - checkpoints of simulated trainables that have state, in memory until collected.
 *
 * The only state of a trainable without regions and without save is its iteration: it needs no
 * checkpoints. The checkpoints of the others are lost by a resume, but a trial's course follows
 * from its seed and its settings: a checkpoint that is needed is made again by repeating the
 * iterations.
 */
#include <string.h>
#include "base/assert.h"
#include "check/lone_trial.h"
#include "plugin/instance.h"
#include "sim/sim_impl.h"

/* ---- saving and restoring ------------------------------------------------------------ */

static uint64_t
blob_key(uint32_t experiment, uint64_t trial)
{
	return ((uint64_t)experiment << 40) + trial;
}

/* The body's present state; NULL: it could not be had (text to gang->text). */
static struct espl__sim_blob *
take_snapshot(struct espl__sim *sim, struct espl__sim_gang *gang)
{
	struct espl_error error;
	struct espl__sim_blob *blob;
	espl_status status;

	espl__buf_clear(&sim->scratch);
	espl__sim_no_error(&error);
	status = espl__lone_save(espl__sim_ops(gang), gang->body, &sim->scratch, &error);
	if (status != ESPL_OK) {
		(void)espl__sim_body_broken(gang, "saving", status, &error);
		return NULL;
	}
	blob = espl__alloc(sizeof *blob + sim->scratch.size);
	blob->iteration = gang->iteration;
	blob->size = sim->scratch.size;
	if (blob->size > 0)
		memcpy(blob->data, sim->scratch.data, sim->scratch.size);
	return blob;
}

/* others: removes all checkpoints of the trial except that one; else that one alone. */
static void
remove_blobs(struct espl__sim *sim, uint64_t key, uint64_t iteration, int others)
{
	struct espl__sim_blob *blob = espl__map_get(&sim->blobs, key), *kept = NULL, *next;

	if (blob == NULL)
		return;
	for (; blob != NULL; blob = next) {
		next = blob->next;
		if ((blob->iteration == iteration) == (others != 0)) {
			blob->next = kept;
			kept = blob;
		} else {
			free(blob);
		}
	}
	if (kept != NULL)
		espl__map_set(&sim->blobs, key, kept);
	else
		espl__map_remove(&sim->blobs, key);
}

static void
put_by(struct espl__sim *sim, uint32_t experiment, uint64_t trial, struct espl__sim_blob *blob)
{
	uint64_t key = blob_key(experiment, trial);

	remove_blobs(sim, key, blob->iteration, 0);
	blob->next = espl__map_get(&sim->blobs, key);
	espl__map_set(&sim->blobs, key, blob);
}

int
espl__sim_body_save(struct espl__sim *sim, struct espl__sim_gang *gang, uint64_t *bytes)
{
	struct espl__sim_blob *blob;

	*bytes = 0;
	if (!gang->source->stateful || gang->body == NULL)
		return 0;
	blob = take_snapshot(sim, gang);
	if (blob == NULL)
		return -1;
	*bytes = blob->size;
	put_by(sim, gang->experiment, gang->trial, blob);
	return 0;
}

static int
restore_body(struct espl__sim_gang *gang, const struct espl__sim_blob *blob)
{
	struct espl_error error;
	size_t left;
	espl_status status;

	espl__sim_no_error(&error);
	status =
	    espl__lone_load(espl__sim_ops(gang), gang->body, blob->data, blob->size, &left, &error);
	return status == ESPL_OK ? 0 : espl__sim_body_broken(gang, "restoring", status, &error);
}

void
espl__sim_collect(struct espl__sim *sim, uint32_t experiment, uint64_t trial, uint64_t keep)
{
	remove_blobs(sim, blob_key(experiment, trial), keep, 1);
}

/* ---- checkpoints that a resume has lost ---------------------------------------------- */

/* of a lineage */
struct leg {
	const struct espl_trial *trial;
	uint64_t id, until; /* id: in its search, as a gang's */
};

static espl_status
ignore_report(struct espl_report_sink *sink, const char *name, double value)
{
	(void)sink, (void)name, (void)value;
	return ESPL_OK;
}

static espl_status
no_matter(struct espl_report_sink *sink)
{
	(void)sink;
	return ESPL_OK;
}

/* The newest of the trial's checkpoints that is not beyond this iteration. */
static struct espl__sim_blob *
nearest_blob(const struct espl__sim *sim, uint32_t experiment, uint64_t trial, uint64_t until)
{
	struct espl__sim_blob *best = NULL;
	struct espl__sim_blob *blob = espl__map_get(&sim->blobs, blob_key(experiment, trial));

	for (; blob != NULL; blob = blob->next)
		if (blob->iteration <= until && (best == NULL || blob->iteration > best->iteration))
			best = blob;
	return best;
}

/* Trains the gang's body, which is open, up to `until`. */
static int
go_through(struct espl__sim_gang *gang, uint64_t until)
{
	struct espl_report_sink sink = { (uint32_t)sizeof sink, 0, ignore_report, no_matter };
	struct espl_error error;
	espl_status status = ESPL_OK;

	espl__sim_no_error(&error);
	while (status == ESPL_OK && gang->iteration < until)
		status = espl__sim_ops(gang)->step(gang->body, ++gang->iteration, &sink, &error);
	return status == ESPL_OK ? 0 : espl__sim_body_broken(gang, "training", status, &error);
}

/* The state at the leg's end, from what it goes on from (NULL: from the beginning).  NULL: text
 * says why not. */
static struct espl__sim_blob *
go_along(struct espl__sim *sim, const struct espl__sim_gang *like, const struct leg *leg,
    const struct espl__sim_blob *from, char **text)
{
	struct espl__sim_gang again;
	struct espl__sim_blob *blob = NULL;

	memset(&again, 0, sizeof again);
	again.source = like->source;
	again.experiment = like->experiment;
	again.trial = leg->id;
	again.budget = leg->trial->budget;
	again.iteration = from != NULL ? from->iteration : 0;
	if (espl__sim_body_begin(sim, &again, leg->trial->values) == 0 &&
	    (from == NULL || restore_body(&again, from) == 0) &&
	    go_through(&again, leg->until) == 0)
		blob = take_snapshot(sim, &again);
	*text = again.text;
	espl__sim_body_close(&again);
	return blob;
}

/* Makes the checkpoint again: back along the lineage to a state that is kept or to the first
 * trial's beginning, and from there forward.  It is kept as if it had never been removed.  NULL:
 * text, which is NULL before, says why not. */
static struct espl__sim_blob *
make_again(struct espl__sim *sim, const struct espl__sim_gang *like, uint64_t trial,
    uint64_t checkpoint, char **text)
{
	struct espl__sim_blob *kept = NULL, *blob = NULL;
	struct leg *legs = NULL;
	uint32_t count = 0, cap = 0;
	uint64_t at = trial, until = checkpoint,
		 search = (uint64_t)like->experiment << ESPL__TRIAL_BITS;

	while (sim->head.exec != NULL && kept == NULL && at != ESPL_NONE && until > 0) {
		const struct espl_trial *t = espl__exec_trial(sim->head.exec, search | at);

		ESPL__ASSERT(t != NULL); /* somebody was cloned from it */
		ESPL__GROW(legs, cap, count + 1);
		legs[count++] = (struct leg){ t, at, until };
		kept = nearest_blob(sim, like->experiment, at, until);
		until = espl__exec_trial_info(sim->head.exec, search | at).began;
		at = t->parent;
	}
	while (count-- > 0) {
		struct espl__sim_blob *next =
		    go_along(sim, like, &legs[count], blob != NULL ? blob : kept, text);

		free(blob);
		blob = next;
		if (blob == NULL)
			break;
	}
	free(legs);
	if (blob != NULL)
		put_by(sim, like->experiment, trial, blob);
	return blob;
}

/* Restores the gang's body from this checkpoint. 0, or the way the gang will end (text to
 * gang->text). */
static int
restore_state(struct espl__sim *sim, struct espl__sim_gang *gang, uint64_t source,
    uint64_t checkpoint)
{
	const struct espl__sim_blob *blob = nearest_blob(sim, gang->experiment, source, checkpoint);
	char *why = NULL;

	if (blob == NULL || blob->iteration != checkpoint)
		blob = make_again(sim, gang, source, checkpoint, &why);
	if (blob == NULL) {
		gang->text = espl__format("cannot recreate checkpoint %llu of trial %llu: %s",
		    (unsigned long long)checkpoint, (unsigned long long)source,
		    why != NULL ? why : "it is unknown");
		free(why);
		return ESPL__END_NO_CHECKPOINT;
	}
	return restore_body(gang, blob) == 0 ? 0 : ESPL__END_FAILED;
}

void
espl__sim_state_free(struct espl__sim *sim)
{
	ESPL__CHECK(sim, SIM);
	for (size_t i = 0; i < sim->blobs.cap; i++) {
		struct espl__sim_blob *blob = sim->blobs.used[i] ? sim->blobs.values[i] : NULL,
				      *next;

		for (; blob != NULL; blob = next) {
			next = blob->next;
			free(blob);
		}
	}
	espl__map_free(&sim->blobs);
}

int
espl__sim_body_open(struct espl__sim *sim, struct espl__sim_gang *gang, const double *values,
    uint64_t source, uint64_t checkpoint)
{
	ESPL__CHECK(sim, SIM);
	if (checkpoint > 0 &&
	    espl__sim_fault_gang(sim, ESPL__FAULT_BAD_CHECKPOINT, gang, checkpoint) != NULL) {
		gang->text = espl__strdup("fault script: bad-checkpoint");
		return ESPL__END_NO_CHECKPOINT;
	}
	if (gang->source->of->jobs != NULL || sim->learned != NULL)
		return 0;
	if (gang->source->curves != NULL) {
		gang->row = espl__curves_nearest(gang->source->curves, values);
		return 0;
	}
	if (espl__sim_body_begin(sim, gang, values) != 0)
		return ESPL__END_FAILED;
	if (!gang->source->stateful || checkpoint == 0)
		return 0;
	return restore_state(sim, gang, source, checkpoint);
}
