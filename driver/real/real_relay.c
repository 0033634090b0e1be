/* real_relay.c - nodes with private disks: copies their checkpoints, logs and output files into the
 * run directory, and checkpoints from there to them.
 */
#include "base/assert.h"
#include "real/real.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/tick.h"

/* in addition to trial.log_limit: for the agent's line that the limit was reached */
#define LAST_LINE 128
#define LATE_MOST ((size_t)64 << 20) /* bytes that wait for the end of a rejoin */
#define STILL_MOVES (30 * ESPL__REAL_SECOND)

/* Whether a trial runs on the node of this agent: what the agent sends of a trial comes before the
 * end of its gang. */
static int
runs_there(const struct espl__ragent *agent, uint64_t trial)
{
	for (const struct espl__rgang *gang = agent->real->gangs; gang != NULL; gang = gang->next)
		if (gang->trial == trial && espl__real_gang_is_on(gang, agent->lease->id))
			return 1;
	return 0;
}

/* Whether a trial there restores this checkpoint. */
static int
restores_there(const struct espl__ragent *agent, uint64_t trial, uint64_t checkpoint)
{
	for (const struct espl__rgang *gang = agent->real->gangs; gang != NULL; gang = gang->next)
		if (espl__real_gang_is_on(gang, agent->lease->id) &&
		    (gang->source == ESPL_NONE ||
			(gang->source == trial && gang->checkpoint == checkpoint)))
			return 1;
	return 0;
}

/* A node gives what its own trials have made, and gets what they need: nothing of other trials. */
static char *
find_place(void *ctx, const char *name, int incoming)
{
	const struct espl__ragent *agent = ctx;
	uint64_t trial, checkpoint;
	int good = 0;

	if (espl__output_name(name, &trial) == 0)
		good = incoming && runs_there(agent, trial);
	else if (espl__checkpoint_name(name, &trial, &checkpoint) == 0)
		good =
		    incoming ? runs_there(agent, trial) : restores_there(agent, trial, checkpoint);
	else if (espl__is_files_name(name))
		good = !incoming;
	return good ? espl__named_place(agent->real->dir, name) : NULL;
}

/* ---- tasks -------------------------------------------------------------------------------- */

struct move_work {
	uv_work_t work;
	struct espl__real *real;
	struct espl__move *move;
};

static void
run_move(uv_work_t *work)
{
	espl__move_work(((struct move_work *)work->data)->move);
}

static void
end_move(uv_work_t *work, int status)
{
	struct move_work *w = work->data;
	struct espl__move *move = w->move;

	(void)status;
	w->real->works--;
	free(w);
	espl__move_done(move, espl__tick());
}

static void
start_move(void *ctx, struct espl__move *move)
{
	struct espl__real *real = ((struct espl__ragent *)ctx)->real;
	struct move_work *w = espl__alloc(sizeof *w);

	w->work.data = w;
	w->real = real;
	w->move = move;
	real->works++;
	if (uv_queue_work(&real->loop, &w->work, run_move, end_move) != 0)
		ESPL__WRONG("libuv takes no work");
}

/* ---- what comes from a node --------------------------------------------------------------- */

/* Only agents put. */
static void
on_put(void *ctx, const char *name, const struct espl__diag *diag)
{
	(void)ctx;
	(void)name;
	(void)diag;
}

/* Its SAVED follows; until then it must not be collected. */
static void
on_got(void *ctx, const char *name, const struct espl__diag *diag)
{
	struct espl__ragent *agent = ctx;
	uint64_t trial, checkpoint;

	if (diag->status != ESPL_OK || espl__checkpoint_name(name, &trial, &checkpoint) != 0)
		return;
	for (struct espl__rgang *gang = agent->real->gangs; gang != NULL; gang = gang->next)
		if (gang->trial == trial)
			gang->arrived = checkpoint;
}

int
espl__real_relay_holds(const struct espl__real *real, uint64_t trial, uint64_t checkpoint)
{
	ESPL__CHECK(real, REAL);
	for (const struct espl__rgang *gang = real->gangs; gang != NULL; gang = gang->next)
		if (gang->trial == trial && gang->arrived == checkpoint && gang->saved < checkpoint)
			return 1;
	return 0;
}

/* trial.log_limit, which a trial may reach on several nodes; 0: none. */
static int64_t
find_log_limit(const struct espl__real *real, uint64_t trial)
{
	for (const struct espl__rgang *gang = real->gangs; gang != NULL; gang = gang->next)
		if (gang->trial == trial)
			return gang->kind->of->config->trial.log_limit;
	return 0;
}

static void
append_log(const struct espl__ragent *agent, uint64_t trial, const void *bytes, size_t size)
{
	int64_t limit = find_log_limit(agent->real, trial);
	struct stat st;
	char *dir = espl__trial_dir(agent->real->dir, trial);
	char *path = espl__format("%s/log", dir);
	struct espl__diag diag = ESPL__DIAG_INIT;
	int fd = -1;

	if (espl__dir_make(dir, &diag) == ESPL_OK) {
		fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
		if (fd >= 0 && limit > 0 && fstat(fd, &st) == 0 &&
		    st.st_size + (int64_t)size > limit + LAST_LINE)
			size = st.st_size < limit + LAST_LINE
			    ? (size_t)(limit + LAST_LINE - st.st_size)
			    : 0;
		if (fd < 0 || espl__write_all(fd, bytes, size) != 0)
			(void)espl__fail_errno(&diag, "cannot write '%s'", path);
	}
	if (fd >= 0)
		close(fd);
	if (diag.status != ESPL_OK && !agent->real->log_lost)
		espl__log(ESPL_WARN, "%s; the rest of the logs may be missing", diag.text);
	agent->real->log_lost |= diag.status != ESPL_OK;
	free(path);
	free(dir);
}

static int
take_tail(struct espl__ragent *agent, struct espl__reader *r)
{
	struct espl__buf payload = { NULL, 0, 0 };
	uint64_t trial = espl__get_v64(r), offset = espl__get_v64(r);
	size_t size;
	const void *bytes = espl__get_bytes(r, &size);

	if (r->bad || r->at != r->end || size == 0)
		return -1;
	if (runs_there(agent, trial))
		append_log(agent, trial, bytes, size);
	espl__put_v64(&payload, trial);
	espl__put_v64(&payload, offset + size);
	espl__agent_send(agent, ESPL__MSG_TAILED, &payload);
	espl__buf_free(&payload);
	return 0;
}

int
espl__real_relay_receive(struct espl__ragent *agent, uint8_t type, struct espl__reader *r)
{
	ESPL__CHECK(agent, RAGENT);
	if (agent->mover == NULL)
		return -1;
	if (agent->real->rejoining && agent->late.size > LATE_MOST)
		return -1;
	if (agent->real->rejoining) { /* the gangs it is about are not known yet */
		espl__frame_put(&agent->late, (enum espl__message)type, r->at,
		    (size_t)(r->end - r->at));
		return 0;
	}
	return type == ESPL__MSG_TAIL ? take_tail(agent, r)
				      : espl__mover_receive(agent->mover, type, r, espl__tick());
}

void
espl__real_relay_rejoined(struct espl__real *real)
{
	ESPL__CHECK(real, REAL);
	for (uint32_t i = 0; i < real->lease_count; i++) {
		struct espl__ragent *agent = real->leases[i]->agent;
		struct espl__reader r;
		size_t at = 0, used;
		uint8_t type;

		while (agent != NULL && !agent->broken &&
		    espl__frame_get(&agent->late, at, &type, &r, &used) == 1) {
			at += used;
			if (espl__real_relay_receive(agent, type, &r) != 0)
				espl__agent_break(agent, "it sent an invalid message of type %u",
				    type);
		}
		if (agent != NULL)
			espl__buf_free(&agent->late);
	}
}

/* ---- the agent's life --------------------------------------------------------------------- */

void
espl__real_relay_begin(struct espl__ragent *agent)
{
	struct espl__mover_ops ops = { .ctx = agent,
		.place = find_place,
		.work = start_move,
		.put = on_put,
		.got = on_got,
		.store = agent->real->s3 != NULL ? espl__real_store_begin : NULL,
		.line = espl__real_store_line,
		.gone = espl__real_store_gone };
	const struct espl__rlease *lease = agent->lease;

	ESPL__CHECK(agent, RAGENT);
	if (agent->mover != NULL)
		return;
	agent->mover = espl__mover_new(&ops, (uint64_t)espl__tick());
	if (agent->real->s3 != NULL) {
		if (!agent->real->s3_said)
			espl__log(ESPL_INFO, "checkpoints are kept in %s",
			    espl__s3_name(agent->real->s3));
		agent->real->s3_said = 1;
		return;
	}
	espl__log(ESPL_INFO,
	    "node %llu%s%s does not see the run directory: its checkpoints, logs and output files "
	    "are sent over the connection",
	    (unsigned long long)lease->id, lease->provider_id != NULL ? ", " : "",
	    lease->provider_id != NULL ? lease->provider_id : "");
}

void
espl__real_relay_end(struct espl__ragent *agent)
{
	ESPL__CHECK(agent, RAGENT);
	for (int i = 0; agent->mover != NULL && i < ESPL__MOVED_KINDS; i++) {
		const struct espl__moved *sum = espl__mover_sums(agent->mover, i);

		agent->real->moved[i].count += sum->count;
		agent->real->moved[i].bytes += sum->bytes;
		agent->real->moved[i].ns += sum->ns;
	}
	espl__mover_free(agent->mover);
	agent->mover = NULL;
	espl__buf_free(&agent->late);
}

void
espl__real_relay_collect(struct espl__real *real, uint64_t trial, uint64_t keep)
{
	struct espl__buf payload = { NULL, 0, 0 };

	ESPL__CHECK(real, REAL);
	espl__put_v64(&payload, trial);
	espl__put_v64(&payload, keep);
	for (uint32_t i = 0; i < real->lease_count; i++) {
		struct espl__ragent *agent = real->leases[i]->agent;

		if (agent != NULL && agent->mover != NULL && agent->state == ESPL__AGENT_READY)
			espl__agent_send(agent, ESPL__MSG_COLLECT, &payload);
	}
	espl__buf_free(&payload);
}

int
espl__real_relay_busy(const struct espl__real *real, const struct espl__rgang *gang, int64_t tick)
{
	char prefix[32];

	ESPL__CHECK(gang, RGANG);
	(void)snprintf(prefix, sizeof prefix, "%" PRIu64 "/", gang->trial);
	for (uint32_t p = 0; p < gang->part_count; p++) {
		const struct espl__ragent *agent = espl__real_part_agent(real, &gang->parts[p]);

		if (agent != NULL && agent->mover != NULL &&
		    espl__mover_busy(agent->mover, prefix, tick - STILL_MOVES))
			return 1;
	}
	return 0;
}

/* ---- for people --------------------------------------------------------------------------- */

static void
print_moved(const struct espl__moved *sum, const char *what, const char *where,
    struct espl__buf *to)
{
	char span[32];

	if (sum->count == 0)
		return;
	espl__print(to, "%s%" PRIu64 " %s%s (%.1f MB) %s nodes in %s", to->size > 0 ? ", " : "",
	    sum->count, what, sum->count == 1 ? "" : "s", (double)sum->bytes / 1e6, where,
	    espl__format_short(sum->ns, span));
}

void
espl__real_relay_report(const struct espl__real *real)
{
	struct espl__buf text = { NULL, 0, 0 };
	int files = 0;

	ESPL__CHECK(real, REAL);
	for (uint32_t i = 0; i < real->kind_count; i++)
		files |= real->kinds[i] != NULL && real->kinds[i]->directory != NULL;
	print_moved(&real->moved[0], "checkpoint", "from", &text);
	print_moved(&real->moved[1], files ? "transfer" : "checkpoint", "to", &text);
	if (real->s3 == NULL)
		print_moved(&real->moved[ESPL__MOVED_OUTPUTS], "transfer", "of output files from",
		    &text);
	if (text.size > 0)
		espl__log(ESPL_INFO, "%s: %s",
		    real->s3 != NULL ? "sent through the bucket" : "sent over connections",
		    espl__buf_text(&text));
	espl__buf_free(&text);
}
