/* worker.c - from an environment and a name to an open trial on one rank, and back again. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/text.h"
#include "config/tree.h"
#include "plugin/instance.h"
#include "plugin/registry.h"
#include "node/wire.h"
#include "worker/worker.h"

/* How long the ranks may take to come together, and one may wait for another in a step, before
 * the gang counts as broken: ESPALIER_COMM_LIMIT, a span; 0s: forever. */
static espl_status
wait_limit(espl_span *limit, struct espl__diag *diag)
{
	const char *text = getenv("ESPALIER_COMM_LIMIT");

	*limit = 600 * ESPL_SECOND;
	if (text != NULL && espl__parse_span(text, limit) != 0)
		return espl__fail(diag, ESPL_E_CONFIG,
		    "ESPALIER_COMM_LIMIT is not a time span: '%s'", text);
	return ESPL_OK;
}

espl_status
espl__worker_connect(struct espl__worker *w, const struct espl__comm_setup *setup,
    struct espl__comm **comm, struct espl__diag *diag)
{
	struct espl__comm_setup s = *setup;
	const char *way = getenv("ESPALIER_COMM");
	espl_status status = wait_limit(&s.wait_limit, diag);

	ESPL__CHECK(w, WORKER);
	ESPL__ASSERT(w->device.ops != NULL);
	memcpy(s.key, w->env.key, sizeof s.key);
	s.no_shm = way != NULL && strcmp(way, "ring") == 0;
	if (s.init_limit == 0)
		s.init_limit = s.wait_limit > 0 && s.wait_limit < 120 * ESPL_SECOND
		    ? s.wait_limit
		    : 120 * ESPL_SECOND;
	if (status == ESPL_OK)
		status = w->device.ops->connect(&w->device, &s, comm, diag);
	return status;
}

/* A rank that joins a running gang is alone until then. */
static espl_status
connect_ranks(struct espl__worker *w, struct espl__diag *diag)
{
	const struct espl__worker_env *e = &w->env;
	struct espl__comm_setup s = { .world = 1, .node_world = 1, .listen_fd = -1 };

	ESPL__ASSERT(w->comm == NULL);
	if (w->slot.generation == 0)
		s = (struct espl__comm_setup){ .rank = e->rank,
			.world = e->world,
			.node_rank = e->local_rank,
			.node_world = e->local_world,
			.node = e->node,
			.master = e->master,
			.port = e->port,
			.listen_fd = e->listen_fd };
	return espl__worker_connect(w, &s, &w->comm, diag);
}

/* ESPALIER_ORDINAL in place of LOCAL_RANK: for checks that put several ranks on one GPU. */
static int
chosen_gpu(uint32_t *ordinal)
{
	const char *text = getenv("ESPALIER_ORDINAL");
	int64_t n;

	if (text == NULL)
		return 1;
	if (espl__parse_int(text, &n) != 0 || n < 0 || n > 4096)
		return 0;
	*ordinal = (uint32_t)n;
	return 1;
}

/* A trainable that demands a GPU gets one; all others compute on the CPU. */
static espl_status
open_device(struct espl__worker *w, struct espl__diag *diag)
{
	int gpu = (w->instance->plugin->desc->caps & ESPL_NEED_CUDA) != 0;
	uint32_t ordinal = w->env.local_rank;

	if (gpu && strcmp(w->env.device, "cuda") != 0)
		return espl__fail(diag, ESPL_E_UNSUPPORTED,
		    "%s needs a GPU, but this node has none", w->who);
	if (gpu && !chosen_gpu(&ordinal))
		return espl__fail(diag, ESPL_E_CONFIG, "ESPALIER_ORDINAL is not a number: '%s'",
		    getenv("ESPALIER_ORDINAL"));
	w->device.view.ordinal = gpu ? ordinal : 0;
	w->device.view.packing = w->env.packing;
	w->device.view.threads = w->env.threads > 0 ? w->env.threads : 1;
	return espl__device_open(gpu ? "cuda" : "cpu", &w->device, diag);
}

static espl_status
load_trainable(struct espl__worker *w, const char *name, const struct espl__host_env *host,
    struct espl__tree **options, struct espl__diag *diag)
{
	espl_status status = espl__plugins_init(NULL, diag);

	ESPL__ASSERT(w->instance == NULL);
	if (status == ESPL_OK)
		status = espl__tree_parse(w->env.options, "trial.options", options, diag);
	if (status == ESPL_OK)
		status = espl__instance_create(ESPL_TRAINABLE, name, espl__tree_root(*options),
		    host, &w->instance, diag);
	if (status != ESPL_OK)
		return status;
	w->ops = (const struct espl_trainable_ops *)(const void *)w->instance->ops;
	w->who = w->instance->who;
	return ESPL_OK;
}

static void
fill_context(struct espl__worker *w)
{
	const struct espl__worker_env *e = &w->env;

	w->iteration = e->iteration;
	w->budget = e->budget;
	w->context = (struct espl_trial_context){
		.size = sizeof w->context,
		.setting_count = e->setting_count,
		.settings = e->settings,
		.trial = e->trial,
		.seed = e->seed,
		.budget = e->budget,
		.iterations_max = e->iterations_max,
		.device = &w->device.view,
		.comm = &w->comm->view,
		.scratch = e->scratch,
	};
}

/* A kernel that waits for a rank that is gone may never get done, and what frees its memory waits
 * for it: what ends it is the end of the process. */
static void __attribute__((noreturn))
leave_at_once(espl_status status, const struct espl__diag *diag)
{
	espl__diag_print(stderr, diag);
	(void)fflush(NULL);
	_exit(status == ESPL_E_PEER ? ESPL__EXIT_PEER : 3);
}

static espl_status
train_trial(struct espl__worker *w, struct espl__diag *diag)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	espl_status status;

	ESPL__ASSERT(w->ops != NULL && w->comm != NULL && w->trial == NULL);
	error.option = error.row = ESPL_ANY;
	fill_context(w);
	status = w->ops->open(w->instance->self, &w->context, &w->trial, &error);
	if (status != ESPL_OK)
		return espl__diag_plugin(diag, w->who, status, &error);
	if (w->slot.generation > 0)
		status = espl__worker_join(w, diag);
	else if (w->env.checkpoint[0] != '\0')
		status = espl__worker_restore(w, diag);
	if (status == ESPL_OK)
		status = espl__worker_loop(w, diag);
	if (status != ESPL_OK && w->device.view.kind == ESPL_CUDA)
		leave_at_once(status, diag);
	w->ops->close(w->trial);
	return status;
}

/* What the trainable starts must hold neither the report socket nor the gang's door. */
static espl_status
keep_private(const struct espl__worker_env *e, struct espl__diag *diag)
{
	if ((e->report_fd >= 0 && fcntl(e->report_fd, F_SETFD, FD_CLOEXEC) != 0) ||
	    (e->listen_fd >= 0 && fcntl(e->listen_fd, F_SETFD, FD_CLOEXEC) != 0))
		return espl__fail_errno(diag,
		    "ESPALIER_REPORT_FD or ESPALIER_LISTEN_FD is not open");
	if ((e->rank == 0 || e->slot[0] != '\0') && e->report_fd < 0)
		return espl__fail(diag, ESPL_E_CONFIG, "ESPALIER_REPORT_FD is not set");
	return ESPL_OK;
}

espl_status
espl__worker_run(const char *name, const volatile sig_atomic_t *wish, struct espl__diag *diag)
{
	struct espl__worker w = { .magic = ESPL__WORKER_MAGIC,
		.wish = wish,
		.who = name,
		.door = -1 };
	struct espl__tree *options = NULL;
	struct espl__host_env host;
	espl_time now = 0;
	espl_status status;

	status = espl__worker_env_read(&w.env, diag);
	if (status == ESPL_OK)
		status = keep_private(&w.env, diag);
	if (status == ESPL_OK && w.env.slot[0] != '\0' &&
	    espl__worker_read_slot(&w, w.env.slot) != 1)
		status =
		    espl__fail(diag, ESPL_E_CONFIG, "ESPALIER_SEAT is not valid: '%s'", w.env.slot);
	w.door = w.env.listen_fd;
	host = (struct espl__host_env){ .seed = w.env.seed, .now = &now, .directory = "" };
	if (status == ESPL_OK)
		status = load_trainable(&w, name, &host, &options, diag);
	if (status == ESPL_OK)
		status = open_device(&w, diag);
	if (status == ESPL_OK)
		status = connect_ranks(&w, diag);
	if (status == ESPL_OK)
		status = train_trial(&w, diag);
	espl__comm_finish(w.comm);
	espl__device_close(&w.device);
	espl__instance_destroy(w.instance);
	espl__tree_free(options);
	espl__plugins_exit();
	espl__worker_env_free(&w.env);
	espl__buf_free(&w.line);
	espl__buf_free(&w.inbox);
	return status;
}
