/* worker_loop.c - one iteration after another: step on all ranks, report and obey through rank 0.
 *
 * Between two steps rank 0 reports the result to the driver and sends the next order to all ranks.
 * SIGTERM has an effect only on rank 0, and there only between steps: it pauses the gang without
 * waiting for an answer. The other ranks follow.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/mem.h"
#include "worker/worker.h"

#define REPLY_ROOM 1024
#define LINE_ROOM 65000 /* the agent takes 64 KiB */

enum directive { GO_ON = 1, CHECKPOINT, PAUSE, STOP, RESIZE };
struct order {
	uint32_t what, finished;
	uint64_t budget, generation;
}; /* budget 0: as it was */

/* ---- what a step reports ----------------------------------------------------------------- */

struct metric {
	char *name;
	double value;
};
struct report {
	struct espl_report_sink sink;
	struct metric *list;
	uint32_t count, cap;
	int finished;
};

static espl_status
report_metric(struct espl_report_sink *sink, const char *name, double value)
{
	struct report *r = (struct report *)sink;

	if (name == NULL || name[0] == '\0')
		return ESPL_E_REJECTED;
	for (uint32_t i = 0; i < r->count; i++)
		if (strcmp(r->list[i].name, name) == 0) {
			r->list[i].value = value;
			return ESPL_OK;
		}
	ESPL__GROW(r->list, r->cap, r->count + 1);
	r->list[r->count++] = (struct metric){ espl__strdup(name), value };
	return ESPL_OK;
}

static espl_status
report_finished(struct espl_report_sink *sink)
{
	((struct report *)sink)->finished = 1;
	return ESPL_OK;
}

static void
clear_report(struct report *r)
{
	for (uint32_t i = 0; i < r->count; i++)
		free(r->list[i].name);
	r->count = 0;
	r->finished = 0;
}

/* ---- the socket -------------------------------------------------------------------------- */

espl_status
espl__worker_send_line(struct espl__worker *w, struct espl__diag *diag)
{
	const uint8_t *at = w->line.data;
	size_t left = w->line.size;

	ESPL__CHECK(w, WORKER);
	while (left > 0) {
		ssize_t sent = send(w->env.report_fd, at, left, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return espl__fail_errno(diag, "the agent no longer accepts reports");
		at += sent;
		left -= (size_t)sent;
	}
	return ESPL_OK;
}

static espl_status
send_report(struct espl__worker *w, const struct report *r, struct espl__diag *diag)
{
	struct espl__buf *b = &w->line;

	ESPL__ASSERT(w->env.rank == 0);
	espl__buf_clear(b);
	espl__print(b, "{\"iteration\": %" PRIu64 ", \"metrics\": {", w->iteration);
	for (uint32_t i = 0; i < r->count; i++) {
		double value = r->list[i].value;

		espl__print(b, i > 0 ? ", " : "");
		espl__print_json(b, r->list[i].name);
		if (isfinite(value))
			espl__print(b, ": %.17g", value);
		else
			espl__print(b, ": \"%s\"",
			    isnan(value)    ? "nan"
				: value > 0 ? "inf"
					    : "-inf");
	}
	espl__print(b, r->finished ? "}, \"finished\": true}\n" : "}}\n");
	if (b->size > LINE_ROOM)
		return espl__fail(diag, ESPL_E_LIMIT, "%s reports too many metrics for one line",
		    w->who);
	return espl__worker_send_line(w, diag);
}

/* The last checkpoint may still be on its way to its place: then the directory is not empty, or is
 * not there.  Only after SIGTERM is that not settled already by the answer to a report. */
static void
wait_for_dir(const struct espl__worker *w)
{
	for (int ms = 1;; ms = ms < 50 ? ms * 2 : 50) {
		DIR *dir = opendir(w->env.save);
		int entries = 0;

		while (dir != NULL && entries < 3 && readdir(dir) != NULL)
			entries++; /* "." and ".." are in an empty one */
		if (dir != NULL)
			closedir(dir);
		if (dir != NULL && entries < 3)
			return;
		(void)poll(NULL, 0, ms);
	}
}

static espl_status
save_checkpoint(struct espl__worker *w, struct espl__diag *diag)
{
	espl_status status;

	ESPL__ASSERT(w->env.rank == 0);
	wait_for_dir(w);
	status = espl__worker_save(w, diag);
	if (status != ESPL_OK)
		return status;
	espl__buf_clear(&w->line);
	espl__print(&w->line, "{\"saved\": %" PRIu64 "}\n", w->iteration);
	return espl__worker_send_line(w, diag);
}

/* Waits for bytes or SIGTERM. SIGTERM is blocked except during this wait, so none is missed. 1:
 * bytes, 0: SIGTERM. */
static int
wait_reply(struct espl__worker *w, int heed)
{
	struct pollfd p = { .fd = w->env.report_fd, .events = POLLIN };
	sigset_t term, before;
	int got = 0;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &term, &before);
	while ((!heed || !*w->wish) && got <= 0)
		got = ppoll(&p, 1, NULL, &before);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return got > 0;
}

static espl_status
parse_reply(const char *line, struct order *o, struct espl__diag *diag)
{
	char *end;

	if (strncmp(line, "continue", 8) == 0 && (line[8] == ' ' || line[8] == '\0')) {
		o->what = GO_ON;
		if (line[8] == '\0')
			return ESPL_OK;
		errno = 0;
		o->budget = strtoull(line + 9, &end, 10);
		if (line[9] >= '0' && line[9] <= '9' && *end == '\0' && errno == 0)
			return ESPL_OK;
	} else if (strncmp(line, "resize ", 7) == 0) {
		o->what = RESIZE;
		errno = 0;
		o->generation = strtoull(line + 7, &end, 10);
		if (line[7] >= '0' && line[7] <= '9' && *end == ' ')
			o->budget = strtoull(end + 1, &end, 10);
		if (*end == '\0' && errno == 0 && o->generation > 0)
			return ESPL_OK;
	} else if (strcmp(line, "checkpoint") == 0 || strcmp(line, "pause") == 0 ||
	    strcmp(line, "stop") == 0) {
		o->what = line[0] == 'c' ? CHECKPOINT : line[0] == 'p' ? PAUSE : STOP;
		return ESPL_OK;
	}
	return espl__fail(diag, ESPL_E_REMOTE, "'%s' is not a valid reply to a report", line);
}

espl_status
espl__worker_read_line(struct espl__worker *w, char *line, size_t room, int heed, int *got_line,
    struct espl__diag *diag)
{
	struct espl__buf *b = &w->inbox;

	ESPL__CHECK(w, WORKER);
	ESPL__ASSERT(room > 0);
	*got_line = 1;
	for (;;) {
		uint8_t *end = b->size > 0 ? memchr(b->data, '\n', b->size) : NULL;
		ssize_t got;

		if (end != NULL) {
			size_t size = (size_t)(end - b->data);

			if (size >= room)
				return espl__fail(diag, ESPL_E_REMOTE,
				    "the reply to a report is too long");
			memcpy(line, b->data, size);
			line[size] = '\0';
			memmove(b->data, end + 1, b->size - size - 1);
			b->size -= size + 1;
			if (espl__worker_read_slot(w, line) != 1)
				return ESPL_OK;
			if (heed)
				continue;
			*got_line = 0;
			return ESPL_OK;
		}
		if (!wait_reply(w, heed)) {
			*got_line = 0;
			return ESPL_OK;
		}
		espl__buf_reserve(b, REPLY_ROOM);
		got = recv(w->env.report_fd, b->data + b->size, REPLY_ROOM, MSG_DONTWAIT);
		if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
			return espl__fail(diag, ESPL_E_REMOTE, "no reply to a report");
		if (got > 0)
			b->size += (size_t)got;
	}
}

static espl_status
read_reply(struct espl__worker *w, struct order *o, struct espl__diag *diag)
{
	char line[REPLY_ROOM];
	int got_line;
	espl_status status = espl__worker_read_line(w, line, sizeof line, 1, &got_line, diag);

	if (status == ESPL_OK && got_line)
		return parse_reply(line, o, diag);
	o->what = PAUSE;
	return status;
}

/* ---- the loop ---------------------------------------------------------------------------- */

static espl_status
consult_driver(struct espl__worker *w, const struct report *r, struct order *o,
    struct espl__diag *diag)
{
	espl_status status = send_report(w, r, diag);

	ESPL__ASSERT(w->env.rank == 0);
	*o = (struct order){ .what = PAUSE, .finished = (uint32_t)r->finished };
	if (status == ESPL_OK && !*w->wish)
		status = read_reply(w, o, diag);
	/* Saved before the other ranks are informed, because they may exit then. */
	if (status == ESPL_OK && (o->what == CHECKPOINT || o->what == PAUSE))
		status = save_checkpoint(w, diag);
	return status;
}

static espl_status
run_step(struct espl__worker *w, struct report *r, struct espl__diag *diag)
{
	struct espl_error error = ESPL_INIT(struct espl_error);
	espl_status status;

	ESPL__ASSERT(w->trial != NULL && w->iteration < w->budget);
	error.option = error.row = ESPL_ANY;
	clear_report(r);
	status = w->ops->step(w->trial, w->iteration + 1, &r->sink, &error);
	if (status == ESPL_E_PEER && error.text[0] == '\0')
		return espl__fail(diag, status, "another rank of the gang was lost");
	if (status != ESPL_OK)
		return espl__diag_plugin(diag, w->who, status, &error);
	w->iteration++;
	return ESPL_OK;
}

espl_status
espl__worker_loop(struct espl__worker *w, struct espl__diag *diag)
{
	struct report r = { .sink = { sizeof r.sink, 0, report_metric, report_finished } };
	struct order o = { .what = GO_ON };
	espl_status status = ESPL_OK;
	int left = 0;

	ESPL__CHECK(w, WORKER);
	ESPL__ASSERT(w->trial != NULL && w->comm != NULL);
	while (status == ESPL_OK && w->iteration < w->budget && !o.finished && o.what != PAUSE &&
	    o.what != STOP && !left) {
		status = run_step(w, &r, diag);
		if (status == ESPL_OK && w->env.rank == 0)
			status = consult_driver(w, &r, &o, diag);
		if (status == ESPL_OK) {
			status = espl__comm_send_all(w->comm, &o, sizeof o, 0);
			if (status != ESPL_OK)
				(void)espl__fail(diag, status, "another rank of the gang was lost");
		}
		if (o.budget != 0)
			w->context.budget = w->budget = o.budget;
		if (status == ESPL_OK && o.what == RESIZE)
			status = espl__worker_move(w, (uint32_t)o.generation, &left, diag);
	}
	clear_report(&r);
	free(r.list);
	return status;
}
