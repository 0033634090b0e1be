/* worker_resize.c - a gang changes its ranks while they live, at an iteration boundary.
 *
 * The old rank 0 organizes the meeting: all ranks that stay or join connect to its door, and its
 * state is copied from memory to memory. If it has no slot any more, it takes part as an additional
 * rank, before the others, while they form the new gang at the door of the new rank 0; then it
 * leaves. Each resize uses two numbers of the communicator's generations: one for the handover and,
 * if that differs, one for the gang.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/tick.h"
#include "worker/worker.h"

#define FOREVER (INT64_C(365) * 86400 * ESPL_SECOND) /* the gang's iterations may be long */

int
espl__worker_read_slot(struct espl__worker *w, const char *line)
{
	struct espl__worker_slot s = { .generation = 0 };
	int used = 0;

	ESPL__CHECK(w, WORKER);
	if (strncmp(line, "seat ", 5) != 0)
		return 0;
	if (sscanf(line,
		"seat %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32
		" %d %" SCNu32 " %255s %255s%n",
		&s.generation, &s.rank, &s.world, &s.local_rank, &s.local_world, &s.node, &s.moved,
		&s.port, s.door, s.master, &used) != 10 ||
	    line[used] != '\0' || s.generation == 0 || s.world == 0 || s.rank > s.world)
		return -1;
	w->slot = s;
	return 1;
}

/* This rank's number in the handover: the old rank 0, which may be an additional rank, is the
 * first. */
static espl_status
meet_for_resize(struct espl__worker *w, int source, struct espl__comm **comm,
    struct espl__diag *diag)
{
	const struct espl__worker_slot *t = &w->slot;
	struct espl__comm_setup s = {
		.rank = source ? 0 : t->rank + (t->moved ? 1 : 0),
		.world = t->world + (t->moved ? 1 : 0),
		.node_rank = t->local_rank,
		.node_world = t->local_world > 0 ? t->local_world : 1,
		.node = t->node,
		.generation = 2 * t->generation,
		.master = t->door,
		.port = t->port,
		.listen_fd = source ? w->door : -1,
		.init_limit = w->comm != NULL ? FOREVER : 0,
	};

	return espl__worker_connect(w, &s, comm, diag);
}

/* The new rank 0 listens and publishes its address; all ranks with a slot connect to it. */
static espl_status
gather_new_gang(struct espl__worker *w, struct espl__comm *first, int member,
    struct espl__diag *diag)
{
	const struct espl__worker_slot *t = &w->slot;
	struct espl__comm_setup s = {
		.rank = t->rank,
		.world = t->world,
		.node_rank = t->local_rank,
		.node_world = t->local_world,
		.node = t->node,
		.generation = 2 * t->generation + 1,
		.master = t->master,
		.listen_fd = -1,
	};
	uint64_t port = 0;
	espl_status status;

	if (t->rank == 0) {
		if (w->door >= 0)
			close(w->door);
		w->door = s.listen_fd = espl__comm_door(t->master, &s.port);
		if (w->door < 0)
			return espl__fail_errno(diag, "cannot listen for the other ranks");
		port = s.port;
	}
	status = espl__comm_send_all(first, &port, sizeof port, 1);
	if (status != ESPL_OK)
		return espl__fail(diag, status, "a rank was lost in a resize");
	s.port = (uint32_t)port;
	w->env.port = s.port;
	return member ? espl__worker_connect(w, &s, &w->comm, diag) : ESPL_OK;
}

static espl_status
call_trainable(struct espl__worker *w, int resize, struct espl__diag *diag)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	espl_status status;

	error.option = error.row = ESPL_ANY;
	if (!ESPL_HAS(struct espl_trainable_ops, w->ops, resize))
		return espl__fail(diag, ESPL_E_UNSUPPORTED, "%s cannot be resized", w->who);
	if (resize)
		status = w->ops->resize(w->trial, &w->context, &error);
	else if (ESPL_HAS(struct espl_trainable_ops, w->ops, resized))
		status = w->ops->resized(w->trial, &error);
	else
		return ESPL_OK;
	return status == ESPL_OK ? ESPL_OK : espl__diag_plugin(diag, w->who, status, &error);
}

static void
take_slot(struct espl__worker *w)
{
	const struct espl__worker_slot *t = &w->slot;
	struct espl__worker_env *e = &w->env;

	e->rank = t->rank;
	e->world = t->world;
	e->node = t->node;
	w->context.comm = &w->comm->view;
}

/* The part that is common to all ranks. `source`: this was rank 0 until now. */
static espl_status
change_gang(struct espl__worker *w, int source, struct espl__diag *diag)
{
	struct espl__comm *first = NULL, *old = w->comm;
	int member = w->slot.rank < w->slot.world;
	espl_status status = meet_for_resize(w, source, &first, diag);

	w->comm = NULL;
	espl__comm_finish(old); /* of one that joins: it was alone */
	if (status == ESPL_OK && w->slot.moved)
		status = gather_new_gang(w, first, member, diag);
	else if (status == ESPL_OK)
		w->comm = first;
	if (status == ESPL_OK && member) {
		take_slot(w);
		status = call_trainable(w, 1, diag);
	}
	if (status == ESPL_OK)
		status = espl__worker_share(w, first, diag);
	if (first != w->comm)
		espl__comm_finish(first);
	if (status == ESPL_OK && member)
		status = call_trainable(w, 0, diag);
	return status;
}

/* The new rank 0 reports that the gang continues. */
static espl_status
announce_resize(struct espl__worker *w, struct espl__diag *diag)
{
	if (w->env.rank != 0)
		return ESPL_OK;
	espl__buf_clear(&w->line);
	espl__print(&w->line,
	    "{\"resized\": %" PRIu32 ", \"port\": %" PRIu32 ", \"took\": %" PRId64 "}\n",
	    w->slot.generation, w->slot.moved ? w->env.port : w->slot.port,
	    espl__tick() - w->moved_at);
	return espl__worker_send_line(w, diag);
}

espl_status
espl__worker_move(struct espl__worker *w, uint32_t generation, int *left, struct espl__diag *diag)
{
	int source = w->env.rank == 0, got_line;
	char line[1024];
	espl_status status;

	ESPL__CHECK(w, WORKER);
	ESPL__ASSERT(generation > 0);
	w->moved_at = espl__tick();
	while (w->slot.generation != generation) {
		status = espl__worker_read_line(w, line, sizeof line, 0, &got_line, diag);
		if (status != ESPL_OK)
			return status;
		if (got_line)
			return espl__fail(diag, ESPL_E_REMOTE, "'%s' is not a valid slot", line);
	}
	*left = w->slot.rank == w->slot.world;
	espl__comm_finish(w->comm);
	w->comm = NULL;
	if (*left && !(source && w->slot.moved))
		return ESPL_OK;
	status = change_gang(w, source, diag);
	return status == ESPL_OK && !*left ? announce_resize(w, diag) : status;
}

/* A joining rank has nothing to save: SIGTERM ends it until it has joined. */
espl_status
espl__worker_join(struct espl__worker *w, struct espl__diag *diag)
{
	struct sigaction plain = { .sa_handler = SIG_DFL }, before;
	espl_status status;

	ESPL__CHECK(w, WORKER);
	ESPL__ASSERT(w->slot.generation > 0);
	espl__buf_clear(&w->line);
	espl__print(&w->line, "{\"ready\": %" PRIu32 "}\n", w->slot.generation);
	status = espl__worker_send_line(w, diag);
	if (status != ESPL_OK)
		return status;
	(void)sigaction(SIGTERM, &plain, &before);
	status = change_gang(w, 0, diag);
	(void)sigaction(SIGTERM, &before, NULL);
	return status == ESPL_OK ? announce_resize(w, diag) : status;
}
