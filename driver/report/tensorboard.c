/* tensorboard.c - a run as event files of TensorBoard: a directory for each trial with its metrics
 * over iterations, its parameters and its end for the HParams page.
 *
 * An event file is a sequence of records (TFRecord) that hold messages of protocol buffers.  Few
 * kinds of messages are needed, so they are written here, field by field. */
#include "report/results_read.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/ids.h"
#include "base/json_value.h"

/* ---- protocol buffers ----------------------------------------------------------------------- */

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void
put_key(struct espl__buf *b, uint32_t field, enum wire wire)
{
	espl__put_v64(b, (uint64_t)field << 3 | wire);
}

static void
put_varint(struct espl__buf *b, uint32_t field, uint64_t value)
{
	put_key(b, field, WIRE_VARINT);
	espl__put_v64(b, value);
}

static void
put_double(struct espl__buf *b, uint32_t field, double value)
{
	put_key(b, field, WIRE_64);
	espl__put_f64(b, value);
}

static void
put_float(struct espl__buf *b, uint32_t field, double value)
{
	float single = (float)value;
	uint32_t bits;

	memcpy(&bits, &single, sizeof bits);
	put_key(b, field, WIRE_32);
	espl__put_u32(b, bits);
}

static void
put_text(struct espl__buf *b, uint32_t field, const char *text)
{
	put_key(b, field, WIRE_BYTES);
	espl__put_str(b, text);
}

/* Takes the message over. */
static void
put_message(struct espl__buf *b, uint32_t field, struct espl__buf *message)
{
	put_key(b, field, WIRE_BYTES);
	espl__put_bytes(b, message->data, message->size);
	espl__buf_free(message);
}

/* ---- records and events ---------------------------------------------------------------------- */

static void
put_crc(struct espl__buf *b, const void *data, size_t size)
{
	uint32_t crc = espl__crc32c(0, data, size);

	espl__put_u32(b, (crc >> 15 | crc << 17) + 0xa282ead8u);
}

/* Takes the event over. */
static void
put_record(struct espl__buf *file, struct espl__buf *event)
{
	size_t at = file->size;

	espl__put_u64(file, event->size);
	put_crc(file, file->data + at, 8);
	espl__put(file, event->data, event->size);
	put_crc(file, event->data, event->size);
	espl__buf_free(event);
}

/* Event.summary = { Summary.value = VALUE }; takes the value over. */
static void
put_summary(struct espl__buf *file, double time, int64_t step, struct espl__buf *value)
{
	struct espl__buf event = { NULL, 0, 0 }, summary = { NULL, 0, 0 };

	put_message(&summary, 1, value);
	put_double(&event, 1, time);
	put_varint(&event, 2, (uint64_t)step);
	put_message(&event, 5, &summary);
	put_record(file, &event);
}

static void
put_version(struct espl__buf *file, double time)
{
	struct espl__buf event = { NULL, 0, 0 };

	put_double(&event, 1, time);
	put_text(&event, 3, "brain.Event:2");
	put_record(file, &event);
}

/* HParamsPluginData.FIELD = DATA, as the metadata of a summary without a value. */
static void
put_hparams(struct espl__buf *file, double time, const char *tag, uint32_t field,
    struct espl__buf *data)
{
	struct espl__buf content = { NULL, 0, 0 }, plugin = { NULL, 0, 0 };
	struct espl__buf metadata = { NULL, 0, 0 }, value = { NULL, 0, 0 };
	struct espl__buf tensor = { NULL, 0, 0 }, shape = { NULL, 0, 0 };

	put_message(&content, field, data);
	put_text(&plugin, 1, "hparams");
	put_message(&plugin, 2, &content);
	put_message(&metadata, 1, &plugin);
	put_text(&value, 1, tag);
	put_varint(&tensor, 1, 1); /* DT_FLOAT; a scalar: TensorBoard's NULL_TENSOR */
	put_message(&tensor, 2, &shape);
	put_message(&value, 8, &tensor);
	put_message(&value, 9, &metadata);
	put_summary(file, time, 0, &value);
}

/* ---- trials ---------------------------------------------------------------------------------- */

/* A list, an object or null. */
static void
put_other(struct espl__buf *value, const json_t *json)
{
	struct espl__buf text = { NULL, 0, 0 };

	espl__json_value_text(json, &text);
	put_text(value, 3, espl__buf_text(&text));
	espl__buf_free(&text);
}

/* SessionStartInfo.hparams: a map from names to google.protobuf.Value. */
static void
put_parameter(struct espl__buf *info, const char *name, const json_t *json)
{
	struct espl__buf entry = { NULL, 0, 0 }, value = { NULL, 0, 0 };

	if (json_is_string(json))
		put_text(&value, 3, json_string_value(json));
	else if (json_is_boolean(json))
		put_varint(&value, 4, json_is_true(json));
	else if (json_is_number(json))
		put_double(&value, 2, json_number_value(json));
	else
		put_other(&value, json);
	put_text(&entry, 1, name);
	put_message(&entry, 2, &value);
	put_message(info, 1, &entry);
}

static void
put_start(struct espl__buf *file, double time, const char *params)
{
	struct espl__buf info = { NULL, 0, 0 };
	json_t *object = json_loads(params, 0, NULL), *value;
	const char *name;

	json_object_foreach (object, name, value)
		put_parameter(&info, name, value);
	json_decref(object);
	put_double(&info, 5, time);
	put_hparams(file, time, "_hparams_/session_start_info", 3, &info);
}

static void
put_end(struct espl__buf *file, double time, const char *state)
{
	struct espl__buf info = { NULL, 0, 0 };
	int failed = strcmp(state, "failed") == 0,
	    ended = strcmp(state, "completed") == 0 || strcmp(state, "stopped early") == 0 ||
	    strcmp(state, "unfinished") == 0;

	put_varint(&info, 1, failed ? 2 : ended ? 1 : 3); /* failure, success, running */
	put_double(&info, 2, time);
	put_hparams(file, time, "_hparams_/session_end_info", 4, &info);
}

/* Where events begin: the journal was last written when the run's clock was at jct_s. */
static double
find_begin(const struct espl__reading *r)
{
	char *path = espl__format("%s/journal", r->dir);
	struct stat st;
	double until = stat(path, &st) == 0 ? (double)st.st_mtime : 0;

	free(path);
	return r->totals.jct_s > 0 && r->totals.jct_s < until ? until - r->totals.jct_s : until;
}

/* Metrics in order of trials: each trial takes its own. */
static int
put_metrics(struct espl__reading *r, sqlite3_stmt *st, int more, int64_t trial, double begin,
    struct espl__buf *file, struct espl__diag *diag)
{
	while (more == 1 && sqlite3_column_int64(st, 0) <= trial) {
		struct espl__buf value = { NULL, 0, 0 };

		put_text(&value, 1, (const char *)sqlite3_column_text(st, 2));
		put_float(&value, 2, espl__reading_real(st, 3));
		put_summary(file, begin + espl__reading_real(st, 4), sqlite3_column_int64(st, 1),
		    &value);
		more = espl__reading_next(r, st, diag);
	}
	return more;
}

/* Not made durable: it can be made again, and there may be 100,000 of them. */
static espl_status
write_events(const char *dir, const struct espl__buf *file, struct espl__diag *diag)
{
	char *path = espl__format("%s/events.out.tfevents.espalier", dir);
	espl_status status = espl__dir_make(dir, diag);
	FILE *to = status == ESPL_OK ? fopen(path, "we") : NULL;
	int broken = to == NULL || fwrite(file->data, 1, file->size, to) != file->size;

	if (to != NULL)
		broken |= fclose(to) != 0;
	if (status == ESPL_OK && broken)
		status = espl__fail_errno(diag, "cannot write '%s'", path);
	free(path);
	return status;
}

static const char trials_sql[] =
    "SELECT id, created_s, changed_s, state, params, coalesce((SELECT name FROM experiments"
    " WHERE id = trials.id >> 40), (SELECT value FROM meta WHERE key = 'experiment'))"
    " FROM trials WHERE id NOT IN (SELECT id FROM jobs) ORDER BY id";
static const char metrics_sql[] =
    "SELECT m.trial, m.iteration, m.name, m.value, r.at_s FROM"
    " report_metrics m JOIN reports r ON r.trial = m.trial AND"
    " r.iteration = m.iteration ORDER BY m.trial, m.iteration, m.name";

espl_status
espl__export_tensorboard(struct espl__reading *r, const char *dir, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r, trials_sql, -1, -1, diag), *metrics = NULL;
	struct espl__buf file = { NULL, 0, 0 };
	double begin = find_begin(r);
	espl_status status = ESPL_OK;
	int more = -1, metric = -1;

	ESPL__CHECK(r, READING);
	if (st != NULL)
		metrics = espl__reading_query(r, metrics_sql, -1, -1, diag);
	if (metrics != NULL)
		metric = espl__reading_next(r, metrics, diag);
	while (metric >= 0 && status == ESPL_OK && (more = espl__reading_next(r, st, diag)) == 1) {
		int64_t trial = sqlite3_column_int64(st, 0);
		char *name = espl__trial_label((const char *)sqlite3_column_text(st, 5),
			 (uint64_t)trial),
		     *folder = espl__format("%s/%s", dir, name);

		espl__buf_clear(&file);
		put_version(&file, begin + espl__reading_real(st, 1));
		put_start(&file, begin + espl__reading_real(st, 1),
		    (const char *)sqlite3_column_text(st, 4));
		metric = put_metrics(r, metrics, metric, trial, begin, &file, diag);
		put_end(&file, begin + espl__reading_real(st, 2),
		    (const char *)sqlite3_column_text(st, 3));
		status = write_events(folder, &file, diag);
		free(folder);
		free(name);
	}
	(void)sqlite3_finalize(st);
	(void)sqlite3_finalize(metrics);
	espl__buf_free(&file);
	return status != ESPL_OK ? status : more < 0 || metric < 0 ? ESPL_E_REMOTE : ESPL_OK;
}
