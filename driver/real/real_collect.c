/* real_collect.c - at the end of a run that used a bucket: the checkpoints come into the run's
 * directory, and what nothing needs any more leaves the bucket.
 */
#include "base/assert.h"
#include "real/real.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "base/ids.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/tick.h"
#include "node/transfer/pack.h"
#include "node/transfer/stored.h"

struct collecting {
	struct espl__real *real;
	struct espl__names kept;    /* keys of checkpoints that stay in the bucket */
	struct espl__names garbage; /* keys of objects */
	struct espl__names uploads; /* key NEWLINE upload */
	uint64_t count, bytes, left;
	struct espl__diag diag; /* the first failure */
};

/* ---- one checkpoint ----------------------------------------------------------------------- */

struct sink {
	struct espl__unpack unpack;
	struct espl__diag diag;
};

static int
take_bytes(void *ctx, const void *bytes, size_t size)
{
	struct sink *sink = ctx;

	return espl__unpack_write(&sink->unpack, bytes, size, &sink->diag) == ESPL_OK ? 0 : -1;
}

static espl_status
fetch_one(struct espl__s3 *s3, const char *place, const struct espl__stored *at,
    struct espl__diag *diag)
{
	struct sink sink = { .diag = ESPL__DIAG_INIT };
	char *data = espl__format("%s/data", at->key);
	espl_status status =
	    espl__unpack_open(&sink.unpack, place, at->digest, at->size, &sink.diag);

	if (status == ESPL_OK)
		status = espl__s3_fetch(s3, data, take_bytes, &sink, diag);
	if (status == ESPL_OK)
		status = espl__unpack_close(&sink.unpack, &sink.diag);
	if (sink.diag.status != ESPL_OK)
		status = espl__fail(diag, sink.diag.status, "'%s': %s", data, sink.diag.text);
	espl__unpack_drop(&sink.unpack);
	free(data);
	return status;
}

static void
collect_one(struct collecting *c, const char *place, int wanted)
{
	struct espl__stored at;
	espl_status status;

	if (espl__stored_read(place, &at, NULL) != ESPL_OK) /* it is here */
		return;
	status = ESPL_E_UNKNOWN;
	if (wanted && !c->real->stop_wanted && c->diag.status == ESPL_OK)
		status = fetch_one(c->real->s3, place, &at, &c->diag);
	if (status == ESPL_OK) {
		c->count++;
		c->bytes += at.size;
	} else {
		c->left++;
		(void)espl__names_add(&c->kept, at.key);
	}
	espl__stored_free(&at);
}

/* ---- all of them -------------------------------------------------------------------------- */

static void
collect_trials(struct collecting *c, const char *dir, const char *best)
{
	char *trials = espl__format("%s/trials", dir);
	DIR *all = espl__dir_open(trials), *one;
	struct dirent *trial, *entry;

	while (all != NULL && (trial = readdir(all)) != NULL) {
		char *path = espl__format("%s/%s", trials, trial->d_name);
		int wanted = best == NULL || strcmp(best, trial->d_name) == 0;

		one = trial->d_name[0] != '.' ? espl__dir_open(path) : NULL;
		while (one != NULL && (entry = readdir(one)) != NULL) {
			char *place;

			if (strncmp(entry->d_name, "checkpoint-", 11) != 0)
				continue;
			place = espl__format("%s/%s", path, entry->d_name);
			collect_one(c, place, wanted);
			free(place);
		}
		if (one != NULL)
			(void)closedir(one);
		free(path);
	}
	if (all != NULL)
		(void)closedir(all);
	free(trials);
}

/* The name of the directory of a search's best trial; "" none. */
static char *
find_best(const struct espl__real *real, uint64_t search)
{
	struct espl__search_summary sum = { 0 };
	struct espl__exec_summary all;

	if (real->config->pool &&
	    (!espl__exec_search_sum(real->world.exec, search, &sum) || sum.best == ESPL_NONE))
		return espl__strdup("");
	if (real->config->pool)
		return espl__format("%" PRIu64, sum.best);
	espl__exec_summary(real->world.exec, &all);
	return all.best == ESPL_NONE ? espl__strdup("") : espl__format("%" PRIu64, all.best);
}

static void
collect_dirs(struct collecting *c)
{
	const struct espl__real *real = c->real;
	uint64_t searches = real->config->pool ? espl__exec_view(real->world.exec).searches : 1;

	for (uint64_t i = 0; i < searches; i++) {
		char *best = real->config->s3_best ? find_best(real, i) : NULL;
		char *first = espl__trial_dir(real->dir, i << ESPL__TRIAL_BITS);
		char *end = strstr(first, "/trials/");

		if (end != NULL)
			*end = '\0';
		collect_trials(c, first, best);
		free(first);
		free(best);
	}
}

/* ---- what stays behind -------------------------------------------------------------------- */

static void
see_object(void *ctx, const char *key, const char *upload)
{
	struct collecting *c = ctx;
	size_t size = strlen(key);

	(void)upload;
	for (uint32_t i = 0; i < c->kept.count; i++) {
		const char *kept = c->kept.names[i];

		if (size > strlen(kept) && strncmp(key, kept, strlen(kept)) == 0)
			return;
	}
	(void)espl__names_add(&c->garbage, key);
}

static void
see_upload(void *ctx, const char *key, const char *upload)
{
	struct collecting *c = ctx;
	char *both = espl__format("%s\n%s", key, upload);

	(void)espl__names_add(&c->uploads, both);
	free(both);
}

static void
clean_bucket(struct collecting *c)
{
	struct espl__s3 *s3 = c->real->s3;
	struct espl__diag diag = ESPL__DIAG_INIT;
	espl_status status = espl__s3_list(s3, 0, see_object, c, &diag);

	if (status == ESPL_OK)
		status = espl__s3_list(s3, 1, see_upload, c, &diag);
	for (uint32_t i = 0; status == ESPL_OK && i < c->garbage.count; i++)
		status = espl__s3_remove(s3, c->garbage.names[i], &diag);
	for (uint32_t i = 0; status == ESPL_OK && i < c->uploads.count; i++) {
		char *key = espl__strdup(c->uploads.names[i]);
		char *upload = strchr(key, '\n');

		*upload++ = '\0';
		status = espl__s3_abort(s3, key, upload, &diag);
		free(key);
	}
	if (status != ESPL_OK)
		espl__log(ESPL_WARN, "%s may not be empty: %s", espl__s3_name(s3), diag.text);
}

void
espl__real_collect(struct espl__real *real)
{
	struct collecting c = { .real = real, .diag = ESPL__DIAG_INIT };
	struct espl__exec_summary sum;
	int64_t begun = espl__tick();
	char span[32];

	ESPL__CHECK(real, REAL);
	if (real->s3 == NULL)
		return;
	espl__exec_summary(real->world.exec, &sum);
	if (!sum.over || real->stop_wanted) /* it will be resumed */
		return;
	collect_dirs(&c);
	if (c.count > 0)
		espl__log(ESPL_INFO, "fetched %" PRIu64 " checkpoint%s (%.1f MB) from %s in %s",
		    c.count, c.count == 1 ? "" : "s", (double)c.bytes / 1e6,
		    espl__s3_name(real->s3), espl__format_short(espl__tick() - begun, span));
	if (c.diag.status != ESPL_OK)
		espl__log(ESPL_WARN, "%s", c.diag.text);
	if (c.left > 0)
		espl__log(c.diag.status == ESPL_OK ? ESPL_INFO : ESPL_WARN,
		    "%" PRIu64 " checkpoint%s in %s", c.left, c.left == 1 ? " stays" : "s stay",
		    espl__s3_name(real->s3));
	clean_bucket(&c);
	espl__names_free(&c.kept);
	espl__names_free(&c.garbage);
	espl__names_free(&c.uploads);
}
