/* real_store.c - checkpoints in a bucket: what espalier-courier on a node asks for, is answered
 * here, in threads, one line after another for each move (node/courier/courier.h).
 *
 * A checkpoint is two objects, KEY/data and, when that is complete and was looked at, KEY/MANIFEST;
 * then STORED takes its place in the run directory (node/transfer/stored.h), and it is saved.
 */
#include "base/assert.h"
#include "real/real.h"
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/tick.h"
#include "node/transfer/stored.h"

#define PARTS_MOST 10000u
#define MANIFEST_MOST ((uint64_t)64 << 20)

struct stored_move {
	uv_work_t work;
	struct espl__real *real;
	struct espl__move *move; /* NULL: it has ended */
	struct espl__buf in;     /* lines that wait, each with a NUL */
	int working;
	/* of the thread while it works */
	struct espl__s3 *s3;
	int outgoing, over, sealed;
	char *place, *key, *data; /* data: KEY/data */
	uint64_t digest, size, part_size;
	char *upload; /* in parts; NULL: in one piece */
	struct espl__s3_part *parts;
	uint64_t part_count;
	uint64_t asked; /* the highest number of a URL that was asked for; a fetch: 1 */
	struct espl__buf now, out;
	struct espl__diag diag;
};

static void
queue_reply(struct stored_move *s, const char *line)
{
	espl__put(&s->out, line, strlen(line) + 1);
}

/* ---- what a line asks for (in a thread) ---------------------------------------------------- */

static void
begin_put(struct stored_move *s)
{
	char line[80];

	s->part_size = s->real->config->s3_part;
	if (s->size / PARTS_MOST >= s->part_size)
		s->part_size = s->size / PARTS_MOST + 1;
	s->part_count = (s->size + s->part_size - 1) / s->part_size;
	s->parts = espl__alloc(s->part_count * sizeof *s->parts);
	if (s->part_count > 1 && espl__s3_begin(s->s3, s->data, &s->upload, &s->diag) != ESPL_OK)
		return;
	(void)snprintf(line, sizeof line, "put %016" PRIx64 " %" PRIu64 " %d", s->digest,
	    s->part_size, espl__s3_checksums(s->s3));
	queue_reply(s, line);
}

static void
begin_get(struct stored_move *s)
{
	struct espl__stored at;
	char line[80];

	if (espl__stored_read(s->place, &at, &s->diag) != ESPL_OK)
		return;
	s->key = espl__strdup(at.key);
	s->data = espl__format("%s/data", at.key);
	(void)snprintf(line, sizeof line, "get %016" PRIx64 " %" PRIu64, at.digest, at.size);
	espl__stored_free(&at);
	queue_reply(s, line);
}

static void
give_url(struct stored_move *s, const char *text)
{
	uint64_t number, size;
	char crc[12], *url, *line;
	espl_status status;

	if (sscanf(text, "%20" SCNu64 " %20" SCNu64 " %10s", &number, &size, crc) != 3 ||
	    s->data == NULL ||
	    (!s->outgoing && (number == 0 || number > s->part_count || size > s->part_size))) {
		(void)espl__fail(&s->diag, ESPL_E_CONFIG, "espalier-courier asks for '%.40s'",
		    text);
		return;
	}
	if (s->outgoing ? s->asked > 0 : number <= s->asked)
		espl__s3_look(s->s3); /* asked again: perhaps the clock is to blame */
	s->asked = s->outgoing ? 1 : number > s->asked ? number : s->asked;
	status = s->outgoing ? espl__s3_sign_get(s->s3, s->data, &url, &s->diag)
			     : espl__s3_sign_put(s->s3, s->data, s->upload, number, size,
				   strcmp(crc, "-") != 0 ? crc : NULL, &url, &s->diag);
	if (status != ESPL_OK)
		return;
	line = espl__format("url %" PRIu64 " %s", number, url);
	queue_reply(s, line);
	memset(line, 0, strlen(line));
	memset(url, 0, strlen(url));
	free(line);
	free(url);
}

static void
note_part(struct stored_move *s, const char *text)
{
	uint64_t number;
	char etag[200], crc[12];

	if (sscanf(text, "%20" SCNu64 " %199s %10s", &number, etag, crc) != 3 || number == 0 ||
	    number > s->part_count || s->parts[number - 1].etag != NULL) {
		(void)espl__fail(&s->diag, ESPL_E_CONFIG, "espalier-courier says 'part %.40s'",
		    text);
		return;
	}
	s->parts[number - 1].etag = espl__strdup(etag);
	s->parts[number - 1].crc = strcmp(crc, "-") != 0 ? espl__strdup(crc) : NULL;
}

/* Its MANIFEST from the bucket: the announced one, in an object of the right size. */
static espl_status
look_at(struct stored_move *s, uint64_t size, struct espl__buf *manifest)
{
	uint64_t total;

	if (size == 0 || size > MANIFEST_MOST || size + 4 > s->size)
		return espl__fail(&s->diag, ESPL_E_CONFIG, "its MANIFEST has a wrong size");
	if (espl__s3_get(s->s3, s->data, 4, size, manifest, &total, &s->diag) != ESPL_OK)
		return s->diag.status;
	if (total == s->size && espl__digest(0, manifest->data, manifest->size) == s->digest)
		return ESPL_OK;
	return espl__fail(&s->diag, ESPL_E_REMOTE, "'%s' in the bucket differs from what was sent",
	    s->data);
}

static void
put_manifest(struct stored_move *s, uint64_t manifest_size)
{
	struct espl__stored at = { s->digest, s->size, s->key };
	struct espl__buf manifest = { NULL, 0, 0 };
	char *name = espl__format("%s/MANIFEST", s->key);
	espl_status status = ESPL_OK;

	for (uint64_t i = 0; i < s->part_count; i++)
		if (s->parts[i].etag == NULL)
			status = espl__fail(&s->diag, ESPL_E_REMOTE, "not all parts were sent");
	if (status == ESPL_OK && s->upload != NULL)
		status =
		    espl__s3_finish(s->s3, s->data, s->upload, s->parts, s->part_count, &s->diag);
	if (status == ESPL_OK)
		status = look_at(s, manifest_size, &manifest);
	if (status == ESPL_OK)
		status = espl__s3_put_new(s->s3, name, manifest.data, manifest.size, &s->diag);
	if (status == ESPL_OK)
		status = espl__stored_write(s->place, &at, &s->diag);
	s->sealed = status == ESPL_OK;
	s->over = 1;
	espl__buf_free(&manifest);
	free(name);
}

static void
obey_line(struct stored_move *s, const char *line)
{
	if (strcmp(line, "begin") == 0 && s->outgoing)
		begin_get(s);
	else if (strcmp(line, "begin") == 0)
		begin_put(s);
	else if (strncmp(line, "url ", 4) == 0)
		give_url(s, line + 4);
	else if (strncmp(line, "part ", 5) == 0 && !s->outgoing)
		note_part(s, line + 5);
	else if (strncmp(line, "sent ", 5) == 0 && !s->outgoing)
		put_manifest(s, strtoull(line + 5, NULL, 10));
	else if (strncmp(line, "failed ", 7) == 0)
		(void)espl__fail(&s->diag, line[7] == '2' ? ESPL_E_CONFIG : ESPL_E_REMOTE, "%s: %s",
		    espl__s3_name(s->s3), strlen(line) > 9 ? line + 9 : "");
	else
		(void)espl__fail(&s->diag, ESPL_E_CONFIG, "espalier-courier says '%.40s'", line);
}

static void
run_lines(uv_work_t *work)
{
	struct stored_move *s = work->data;
	const char *at = (const char *)s->now.data, *end = at + s->now.size;

	for (; at < end && !s->over; at += strlen(at) + 1) {
		obey_line(s, at);
		s->over |= s->diag.status != ESPL_OK;
	}
	espl__buf_clear(&s->now);
}

/* ---- the loop's part ---------------------------------------------------------------------- */

static void
free_stored(struct stored_move *s)
{
	for (uint64_t i = 0; s->parts != NULL && i < s->part_count; i++) {
		free(s->parts[i].etag);
		free(s->parts[i].crc);
	}
	free(s->parts);
	free(s->upload);
	free(s->place);
	free(s->key);
	free(s->data);
	espl__buf_free(&s->in);
	espl__buf_free(&s->now);
	espl__buf_free(&s->out);
	free(s);
}

static void
abort_upload(uv_work_t *work)
{
	struct stored_move *s = work->data;

	(void)espl__s3_abort(s->s3, s->data, s->upload, NULL); /* else at the end of the run */
}

static void
end_abort(uv_work_t *work, int status)
{
	struct stored_move *s = work->data;

	(void)status;
	s->real->works--;
	free_stored(s);
}

static void
let_go(struct stored_move *s)
{
	if (s->upload == NULL || s->sealed) {
		free_stored(s);
		return;
	}
	s->real->works++;
	if (uv_queue_work(&s->real->loop, &s->work, abort_upload, end_abort) != 0)
		ESPL__WRONG("libuv takes no work");
}

static void
tell_clock(struct espl__real *real)
{
	char text[120];

	if (espl__s3_clock(real->s3, text) != NULL)
		espl__log(ESPL_WARN, "%s: %s", espl__s3_name(real->s3), text);
}

static void end_lines(uv_work_t *, int status);

static void
start_lines(struct stored_move *s)
{
	struct espl__buf swap = s->now;

	if (s->working || s->in.size == 0)
		return;
	s->now = s->in;
	s->in = swap;
	s->working = 1;
	s->real->works++;
	if (uv_queue_work(&s->real->loop, &s->work, run_lines, end_lines) != 0)
		ESPL__WRONG("libuv takes no work");
}

static void
end_lines(uv_work_t *work, int status)
{
	struct stored_move *s = work->data;
	const char *at = (const char *)s->out.data, *end = at + s->out.size;

	(void)status;
	s->working = 0;
	s->real->works--;
	tell_clock(s->real);
	if (s->move == NULL) {
		let_go(s);
		return;
	}
	for (; at < end; at += strlen(at) + 1)
		espl__move_send_line(s->move, at);
	if (s->out.size > 0)
		memset(s->out.data, 0, s->out.size); /* URLs */
	espl__buf_clear(&s->out);
	if (s->over)
		espl__move_stored(s->move, &s->diag, espl__tick()); /* `gone` frees it */
	else
		start_lines(s);
}

void
espl__real_store_line(void *ctx, struct espl__move *move, const char *line)
{
	struct stored_move *s = *espl__move_slot(move);

	(void)ctx;
	if (s == NULL || strncmp(line, "moved ", 6) == 0)
		return;
	espl__put(&s->in, line, strlen(line) + 1);
	start_lines(s);
}

void
espl__real_store_begin(void *ctx, struct espl__move *move)
{
	struct espl__real *real = ((struct espl__ragent *)ctx)->real;
	struct stored_move *s = espl__alloc(sizeof *s);
	struct espl__move_view view = espl__move_view(move);

	ESPL__CHECK(real, REAL);
	ESPL__ASSERT(real->s3 != NULL);
	s->work.data = s;
	s->real = real;
	s->s3 = real->s3;
	s->move = move;
	s->outgoing = view.outgoing;
	s->place = espl__strdup(view.place);
	s->digest = view.digest;
	s->size = view.size;
	if (!s->outgoing) {
		s->key = espl__format("%s/trials/%s-%016" PRIx64, espl__s3_root(real->s3),
		    view.name, view.digest);
		s->data = espl__format("%s/data", s->key);
	}
	*espl__move_slot(move) = s;
	espl__real_store_line(ctx, move, "begin");
}

void
espl__real_store_gone(void *ctx, struct espl__move *move)
{
	struct stored_move *s = *espl__move_slot(move);

	(void)ctx;
	if (s == NULL)
		return;
	s->move = NULL;
	if (!s->working)
		let_go(s);
}

/* ---- the run's part ----------------------------------------------------------------------- */

/* Before anything is leased. */
espl_status
espl__real_store_open(struct espl__real *real, struct espl__diag *diag)
{
	char *owner;
	espl_status status;

	ESPL__CHECK(real, REAL);
	if (!real->config->s3)
		return ESPL_OK;
	status = espl__s3_new(real->config, real->run, &real->s3, diag);
	if (status != ESPL_OK)
		return status;
	(void)setenv("UV_THREADPOOL_SIZE", "16", 0); /* most of them wait for the network */
	owner = espl__format("espalier run %s\n", real->run);
	status = espl__s3_check(real->s3, owner, diag);
	free(owner);
	if (status == ESPL_OK && espl__s3_lacks(real->s3) != NULL)
		espl__log(ESPL_WARN,
		    "bucket '%s' keeps old versions, and these keys may not delete them: all "
		    "checkpoints of this run stay there after they are removed, and are paid for; "
		    "give "
		    "the keys %s, or set a lifecycle rule that expires noncurrent versions below "
		    "'%s/' "
		    "after one day",
		    real->config->s3_bucket, espl__s3_lacks(real->s3), real->config->s3_prefix);
	tell_clock(real);
	return status;
}

/* In a thread: removes the objects of the checkpoint that this directory points to; nothing if its
 * content is here. */
espl_status
espl__real_store_remove(struct espl__s3 *s3, const char *dir, struct espl__diag *diag)
{
	struct espl__stored at;
	char *seal_name, *data;
	espl_status status;

	if (s3 == NULL || espl__stored_read(dir, &at, NULL) != ESPL_OK)
		return ESPL_OK;
	seal_name = espl__format("%s/MANIFEST", at.key);
	data = espl__format("%s/data", at.key);
	status = espl__s3_remove(s3, seal_name, diag);
	if (status == ESPL_OK)
		status = espl__s3_remove(s3, data, diag);
	free(seal_name);
	free(data);
	espl__stored_free(&at);
	return status;
}
