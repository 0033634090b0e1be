/* real_dir.c - the world's own files in a run directory: leases.json, and checkpoints to be
 * removed.
 *
 * leases.json contains what must not be in the journal: the provider's names of the machines and
 * how to reach them. A checkpoint to be removed is moved to DIR/trash at once and unlinked by a
 * thread.
 */
#include "base/assert.h"
#include "real/real.h"
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/ids.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "node/transfer/pack.h"

#define LEASES_MAX (64u << 20)

static void
put_text(struct espl__buf *out, const char *key, const char *text)
{
	if (text != NULL)
		espl__json_text(out, key, text);
}

espl_status
espl__real_dir_save_leases(const struct espl__real *real, struct espl__diag *diag)
{
	struct espl__buf out = { NULL, 0, 0 };
	char *path = espl__format("%s/leases.json", real->dir);
	espl_status status;
	uint32_t i;

	ESPL__CHECK(real, REAL);
	espl__print(&out, "{\"run\": \"%s\", \"leases\": [", real->run);
	for (i = 0; i < real->lease_count; i++) {
		const struct espl__rlease *lease = real->leases[i];

		espl__print(&out, "%s\n {\"lease\": %llu, \"state\": %u", i > 0 ? "," : "",
		    (unsigned long long)lease->id, (unsigned)lease->cloud);
		put_text(&out, "token", lease->token);
		put_text(&out, "offer", lease->offer_name);
		put_text(&out, "market", lease->market);
		put_text(&out, "provider_id", lease->provider_id);
		put_text(&out, "address", lease->address);
		put_text(&out, "detail", lease->detail);
		if (lease->epoch != 0)
			espl__print(&out, ", \"session\": \"%016llx\"",
			    (unsigned long long)lease->epoch);
		espl__print(&out, "}");
	}
	espl__print(&out, "\n]}\n");
	status = espl__file_write(path, out.data, out.size, diag);
	espl__buf_free(&out);
	free(path);
	return status;
}

static espl_status
load_secret(struct espl__real *real, struct espl__diag *diag)
{
	char *path = espl__format("%s/secret", real->dir);
	struct espl__buf bytes = { NULL, 0, 0 };
	espl_status status = ESPL_OK;

	if (espl__file_read_own(path, sizeof real->secret, &bytes, NULL) == ESPL_OK &&
	    bytes.size == sizeof real->secret)
		memcpy(real->secret, bytes.data, sizeof real->secret);
	else if (getrandom(real->secret, sizeof real->secret, 0) != (ssize_t)sizeof real->secret)
		status = espl__fail_errno(diag, "cannot get random bytes from the system");
	else
		status = espl__file_write_private(path, real->secret, sizeof real->secret, diag);
	espl__buf_free(&bytes);
	free(path);
	return status;
}

espl_status
espl__real_dir_mark(struct espl__real *real, struct espl__diag *diag)
{
	char *path = espl__format("%s/token", real->dir);
	char *text = espl__format("%s\n", real->run);
	espl_status status;

	ESPL__CHECK(real, REAL);
	if (real->config->s3) /* all nodes are private */
		status = unlink(path) == 0 || errno == ENOENT
		    ? ESPL_OK
		    : espl__fail_errno(diag, "cannot remove '%s'", path);
	else
		status = espl__file_write(path, text, strlen(text), diag);
	free(text);
	free(path);
	return status == ESPL_OK ? load_secret(real, diag) : status;
}

static void
take_text(const json_t *from, const char *key, char **to)
{
	const char *text = json_string_value(json_object_get(from, key));

	if (text == NULL)
		return;
	free(*to);
	*to = espl__strdup(text);
}

espl_status
espl__real_dir_load_leases(struct espl__real *real, struct espl__diag *diag)
{
	struct espl__buf in = { NULL, 0, 0 };
	char *path = espl__format("%s/leases.json", real->dir);
	json_t *root, *list, *item;
	json_error_t error;
	struct stat st;
	size_t i;
	espl_status status = ESPL_OK;

	ESPL__CHECK(real, REAL);
	if (lstat(path, &st) != 0 && errno == ENOENT) {
		free(path);
		return ESPL_OK;
	}
	status = espl__file_read_own(path, LEASES_MAX, &in, diag);
	free(path);
	if (status != ESPL_OK)
		return status;
	root = json_loadb((const char *)in.data, in.size, 0, &error);
	espl__buf_free(&in);
	list = json_object_get(root, "leases");
	if (!json_is_array(list))
		espl__log(ESPL_WARN,
		    "leases.json is damaged; looking for nodes by their tokens only");
	json_array_foreach (list, i, item) {
		json_t *id = json_object_get(item, "lease");
		const char *session;
		struct espl__rlease *lease;

		lease = json_is_integer(id)
		    ? espl__real_lease(real, (uint64_t)json_integer_value(id))
		    : NULL;
		if (lease == NULL)
			continue;
		take_text(item, "offer", &lease->offer_name);
		take_text(item, "market", &lease->market);
		take_text(item, "provider_id", &lease->provider_id);
		take_text(item, "address", &lease->address);
		take_text(item, "detail", &lease->detail);
		session = json_string_value(json_object_get(item, "session"));
		if (session != NULL)
			lease->epoch = strtoull(session, NULL, 16);
	}
	json_decref(root);
	return ESPL_OK;
}

/* ---- removal ---- */

struct removal {
	uv_work_t work;
	struct espl__real *real;
	char *path;
	struct espl__diag diag;
};

static void
remove_now(uv_work_t *work)
{
	struct removal *removal = work->data;

	if (espl__real_store_remove(removal->real->s3, removal->path, &removal->diag) == ESPL_OK)
		(void)espl__tree_remove(removal->path, &removal->diag);
	else
		(void)espl__tree_remove(removal->path, NULL);
}

static void
on_removed(uv_work_t *work, int status)
{
	struct removal *removal = work->data;

	(void)status;
	removal->real->works--;
	if (removal->diag.status != ESPL_OK)
		espl__log(ESPL_WARN, "cannot remove a checkpoint: %s", removal->diag.text);
	free(removal->path);
	free(removal);
}

/* Moves the directory away now; its contents are removed later. */
static void
discard_dir(struct espl__real *real, const char *path)
{
	struct removal *removal = espl__alloc(sizeof *removal);
	char *trash;

	removal->real = real;
	removal->work.data = removal;
	removal->path = espl__format("%s/trash/%llu", real->dir, (unsigned long long)real->trash++);
	if (rename(path, removal->path) != 0 && errno == ENOENT) {
		trash = espl__format("%s/trash", real->dir);
		(void)espl__dir_make(trash, NULL);
		free(trash);
		(void)rename(path, removal->path);
	}
	if (access(path, F_OK) == 0) { /* could not be renamed: then where it is */
		free(removal->path);
		removal->path = espl__strdup(path);
	}
	if (uv_queue_work(&real->loop, &removal->work, remove_now, on_removed) == 0) {
		real->works++;
		return;
	}
	remove_now(&removal->work);
	real->works++;
	on_removed(&removal->work, 0);
}

/* The number after a prefix, which must be the whole rest of the name; -1 if it is not. */
static int64_t
number_behind(const char *name, const char *prefix)
{
	size_t length = strlen(prefix);
	int64_t number;

	if (strncmp(name, prefix, length) != 0 || espl__parse_int(name + length, &number) != 0 ||
	    number < 0)
		return -1;
	return number;
}

void
espl__real_dir_collect(struct espl__real *real, uint64_t trial, uint64_t keep)
{
	char *folder = espl__trial_dir(real->dir, trial);
	DIR *dir = espl__dir_open(folder);
	struct dirent *entry;
	char name[48];

	ESPL__CHECK(real, REAL);
	if (dir == NULL) {
		if (errno != ENOENT)
			espl__log(ESPL_WARN, "trial %s: cannot list its checkpoints: %s",
			    espl__trial_name(trial, name), strerror(errno));
		free(folder);
		return;
	}
	while ((entry = readdir(dir)) != NULL) {
		int64_t checkpoint = number_behind(entry->d_name, "checkpoint-");
		int64_t gang = number_behind(entry->d_name, "saving-");
		char *path;

		if (checkpoint >= 0 && espl__real_relay_holds(real, trial, (uint64_t)checkpoint))
			continue;
		if ((checkpoint < 0 || (uint64_t)checkpoint == keep) &&
		    (gang < 0 || espl__real_gang(real, (uint64_t)gang) != NULL))
			continue;
		path = espl__format("%s/%s", folder, entry->d_name);
		discard_dir(real, path);
		free(path);
	}
	(void)closedir(dir);
	free(folder);
}

/* ---- what lost agents left ---- */

static int
is_scratch(const char *name)
{
	return strncmp(name, "saving-", 7) == 0 || strncmp(name, "scratch-", 8) == 0 ||
	    strncmp(name, ".gone-", 6) == 0 ||
	    strncmp(name, ESPL__UNPACK_PREFIX, sizeof ESPL__UNPACK_PREFIX - 1) == 0;
}

static void
sweep_trials(const char *dir)
{
	char *trials = espl__format("%s/trials", dir);
	DIR *all = espl__dir_open(trials), *one;
	struct dirent *trial, *entry;

	while (all != NULL && (trial = readdir(all)) != NULL) {
		char *path = espl__format("%s/%s", trials, trial->d_name);

		one = trial->d_name[0] != '.' ? espl__dir_open(path) : NULL;
		while (one != NULL && (entry = readdir(one)) != NULL)
			if (is_scratch(entry->d_name))
				(void)espl__tree_remove_at(dirfd(one), entry->d_name);
		if (one != NULL)
			(void)closedir(one);
		free(path);
	}
	if (all != NULL)
		(void)closedir(all);
	free(trials);
}

/* An agent that ends in good order leaves nothing; when all have ended nothing is in use any more.
 */
static void
sweep_dirs(const struct espl__real *real)
{
	char *experiments = espl__format("%s/experiments", real->dir), *path;
	DIR *all = espl__dir_open(experiments);
	struct dirent *one;

	sweep_trials(real->dir);
	while (all != NULL && (one = readdir(all)) != NULL) {
		path = espl__format("%s/%s", experiments, one->d_name);
		if (one->d_name[0] != '.')
			sweep_trials(path);
		free(path);
	}
	if (all != NULL)
		(void)closedir(all);
	free(experiments);
}

void
espl__real_dir_close(struct espl__real *real)
{
	char *trash = espl__format("%s/trash", real->dir),
	     *leases = espl__format("%s/leases.json", real->dir),
	     *token = espl__format("%s/token", real->dir),
	     *secret = espl__format("%s/secret", real->dir);

	ESPL__CHECK(real, REAL);
	(void)unlink(token);
	(void)unlink(secret);
	if (real->agents_lost)
		sweep_dirs(real);
	(void)rmdir(trash); /* stays if something is still in it */
	if (real->lease_count == 0)
		(void)unlink(leases);
	free(trash);
	free(leases);
	free(token);
	free(secret);
}

void
espl__real_dir_clean(struct espl__real *real, const char *name)
{
	char *path = espl__format("%s/%s", real->dir, name);
	struct espl__diag diag = ESPL__DIAG_INIT;

	ESPL__CHECK(real, REAL);
	if (espl__tree_remove(path, &diag) != ESPL_OK)
		espl__log(ESPL_WARN, "%s", diag.text);
	free(path);
}
