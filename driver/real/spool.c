/* spool.c - requests to a running run: DIR/spool, into which other processes put them.
 *
 * submit-ID is a directory with an experiment's run.cfg and inputs; it becomes experiments/N.
 * cancel-ID is a file that contains a name.  Any run takes drain-ID and undrain-ID, which contain a
 * node, stop-ID, which contains a trial, add-ID, which contains a configuration, and note-ID. The
 * answer to a request is written to ID.answer, and the request is removed. The process that asked
 * holds a lock on .ID.asker while it waits, and removes the answer. A request that arrives while no
 * driver is running waits for the next driver. If the driver dies after it took in a directory but
 * before it reported the experiment, the next driver reports it. While a submission is being
 * written it is the draft .submit-ID, and its writer has .ID.asker locked before it creates the
 * first file: drafts whose writer was killed are removed.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/notes.h"
#include "real/real.h"
#include "driver/worlds.h"

#define LOOK_EVERY (ESPL__REAL_SECOND / 4)
#define TEXT_LIMIT 65536u

/* Whether the process that asked is still waiting. If not, a left-over .ID.asker is removed. */
static int
is_waited_for(const char *dir, const char *request)
{
	char *path = espl__format("%s/spool/.%s.asker", dir, request);
	int waited = espl__locked(path);

	if (!waited)
		(void)unlink(path);
	free(path);
	return waited;
}

/* Writes the answer. The process that asked may be gone by now, so refusals are also logged, and an
 * answer that nobody reads is removed. The answer is written first, because a process that gives up
 * looks for it once more afterwards. */
static void
write_answer(const char *dir, const char *request, const char *how, const char *text)
{
	char *path = espl__format("%s/spool/%s.answer", dir, request),
	     *line = espl__format("%s\n%s\n", how, text);
	struct espl__diag diag = ESPL__DIAG_INIT;

	if (strcmp(how, "refused") == 0)
		espl__log(ESPL_WARN, "request '%s' was rejected: %s", request, text);
	if (espl__file_write(path, line, strlen(line), &diag) != ESPL_OK)
		espl__log(ESPL_WARN, "%s", diag.text);
	else if (!is_waited_for(dir, request))
		(void)unlink(path);
	free(path);
	free(line);
}

/* Other users can write there: a file of the wrong type is not opened. */
static int
is_a(const char *path, mode_t kind)
{
	struct stat st;

	return lstat(path, &st) == 0 && (st.st_mode & S_IFMT) == kind;
}

/* Files written by other users would run with our rights. NULL, or the reason for refusing it,
 * malloc'd. */
static char *
check_experiment(const char *dir)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *file = espl__format("%s/run.cfg", dir);

	if (espl__check_owner(dir, &diag) == ESPL_OK)
		(void)espl__check_owner(file, &diag);
	free(file);
	return diag.status == ESPL_OK
	    ? NULL
	    : espl__format("%s; only the owner of a pool or root can submit to it", diag.text);
}

/* Reports experiments/NUMBER to the executor. NULL, or why it cannot, malloc'd. */
static char *
take_in(struct espl__real *real, uint64_t number, const char **name)
{
	const struct espl__inputs *inputs;
	struct espl__diag diag = ESPL__DIAG_INIT;
	uint64_t other, trial;
	char *dir = espl__format("%s/experiments/%llu", real->dir, (unsigned long long)number);
	char *why = check_experiment(dir);

	free(dir);
	if (why != NULL)
		return why;
	if (espl__exec_load(real->world.exec, number, &inputs, &diag) != ESPL_OK)
		return espl__strdup(diag.text);
	if (espl__exec_named(real->world.exec, inputs->config->name, &other, &trial))
		return espl__format("the pool already has an experiment or job called '%s'",
		    inputs->config->name);
	*name = inputs->config->name;
	(void)espl__names_add(&real->metrics, inputs->config->metric);
	espl__real_event(real, ESPL__EV_EXPERIMENT)->as.number = number;
	return NULL;
}

static void
submit_experiment(struct espl__real *real, const char *request)
{
	uint64_t number = espl__exec_view(real->world.exec).searches;
	char *from = espl__format("%s/spool/%s", real->dir, request), *why = NULL;
	char *to = espl__format("%s/experiments/%llu", real->dir, (unsigned long long)number);
	char *parent = espl__format("%s/experiments", real->dir),
	     *file = espl__format("%s/run.cfg", from);
	const char *name = "";
	int taken = 0;

	if (!is_a(from, S_IFDIR) || !is_a(file, S_IFREG))
		why = espl__strdup("it is not a directory with an experiment");
	else if ((why = check_experiment(from)) != NULL)
		/* not moved either: it may contain files that cannot be removed from experiments/
		 */
		taken = 0;
	else if (espl__dir_make(parent, NULL) != ESPL_OK || rename(from, to) != 0)
		why = espl__format("cannot move it to '%s': %s", to, strerror(errno));
	else
		taken = 1;
	if (taken)
		why = take_in(real, number, &name);
	write_answer(real->dir, request, why != NULL ? "refused" : "accepted",
	    why != NULL ? why : name);
	if (taken && why != NULL)
		(void)espl__tree_remove(to, NULL);
	free(why);
	free(from);
	free(to);
	free(parent);
	free(file);
}

/* The name, or the configuration, in a request. NULL, or why it cannot be read. */
static const char *
read_name(const struct espl__real *real, const char *request, struct espl__buf *name)
{
	char *path = espl__format("%s/spool/%s", real->dir, request);
	const char *why = NULL;

	if (!is_a(path, S_IFREG))
		why = "the request cannot be read";
	else if (espl__check_owner(path, NULL) != ESPL_OK)
		why = "it does not belong to the owner of the run or to root";
	else if (espl__file_read(path, TEXT_LIMIT, name, NULL) != ESPL_OK)
		why = "the request cannot be read";
	free(path);
	return why;
}

/* `why`: why it is refused, or NULL.  Frees the text. */
static void
answer_name(const struct espl__real *real, const char *request, const char *why,
    struct espl__buf *text)
{
	write_answer(real->dir, request, why == NULL ? "accepted" : "refused",
	    why == NULL ? espl__buf_text(text) : why);
	espl__buf_free(text);
}

static void
drain_node(struct espl__real *real, const char *request)
{
	struct espl__buf name = { NULL, 0, 0 };
	const char *why = read_name(real, request, &name);
	int on = request[0] == 'd';
	uint64_t lease = ESPL_NONE;

	if (why == NULL)
		why = espl__exec_drains(real->world.exec, espl__buf_text(&name), on, &lease);
	if (why == NULL) {
		struct espl__event *event = espl__real_event(real, ESPL__EV_DRAIN);

		event->as.drain.lease = lease;
		event->as.drain.on = on;
	}
	answer_name(real, request, why, &name);
}

/* Cancels an experiment or a job, by its name, or stops a trial. */
static void
cancel_by_name(struct espl__real *real, const char *request)
{
	const struct espl__exec *exec = real->world.exec;
	struct espl__buf name = { NULL, 0, 0 };
	const char *why = read_name(real, request, &name);
	uint64_t number = 0, trial = 0;

	if (why == NULL && strncmp(request, "stop-", 5) == 0)
		why = espl__exec_named_trial(exec, espl__buf_text(&name), &number, &trial)
		    ? espl__exec_stops(exec, number, trial)
		    : "no such trial";
	else if (why == NULL)
		why = espl__exec_named(exec, espl__buf_text(&name), &number, &trial)
		    ? espl__exec_cancels(exec, number, trial)
		    : "no such experiment or job";
	if (why == NULL) {
		struct espl__event *event = espl__real_event(real, ESPL__EV_CANCEL);

		event->as.cancel.number = number;
		event->as.cancel.trial = trial;
	}
	answer_name(real, request, why, &name);
}

/* The configuration in a request, in the order of the space.  NULL, or why it is none, malloc'd. */
static char *
read_point(struct espl__real *real, const char *text, struct espl__event *event)
{
	const struct espl__space *space = espl__exec_space(real->world.exec, 0);
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__tree *tree = NULL;
	uint32_t count = espl__space_view(space)->param_count;
	double *values = espl__arena_alloc(&real->batch[real->filling].arena,
	    (count + (size_t)1) * sizeof *values);
	espl_status status = espl__tree_parse(text, "trial add", &tree, &diag);

	if (status == ESPL_OK)
		status = espl__space_point(space, espl__tree_root(tree), values, &diag);
	espl__tree_free(tree);
	if (status != ESPL_OK)
		return espl__strdup(diag.text);
	event->as.extend.number = 0;
	event->as.extend.trials = 1;
	event->as.extend.count = count;
	event->as.extend.values = values;
	return NULL;
}

static void
add_trial(struct espl__real *real, const char *request)
{
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__event event = { .type = ESPL__EV_EXTEND };
	const char *unread = read_name(real, request, &text);
	char *why = NULL;

	if (unread == NULL && real->config->pool)
		unread = "a pool takes whole experiments: `espalier submit`";
	if (unread == NULL)
		unread = espl__exec_extends(real->world.exec, 0);
	if (unread != NULL)
		why = espl__strdup(unread);
	else
		why = read_point(real, espl__buf_text(&text), &event);
	if (why == NULL)
		espl__real_event(real, ESPL__EV_EXTEND)->as.extend = event.as.extend;
	answer_name(real, request, why, &text);
	free(why);
}

/* Splits "TRIAL\tKEY\tTEXT". NULL, or why it is none. */
static const char *
split_note(char *given, char **key, char **text)
{
	*key = strchr(given, '\t');
	*text = *key != NULL ? strchr(*key + 1, '\t') : NULL;
	if (*text == NULL)
		return "it is not a trial, a name and a text";
	*(*key)++ = *(*text)++ = '\0';
	return (*text)[espl__note_length(*text)] != '\0' ? "a text longer than 4096 bytes"
							 : espl__note_misnamed(*key);
}

static void
note_trial(struct espl__real *real, const char *request)
{
	struct espl__buf given = { NULL, 0, 0 };
	const char *why = read_name(real, request, &given);
	char *name = espl__arena_strdup(espl__real_arena(real), espl__buf_text(&given)), *key,
	     *text;
	uint64_t number = 0, trial = 0;
	struct espl__event *event;

	if (why == NULL)
		why = split_note(name, &key, &text);
	if (why == NULL && !espl__exec_named_trial(real->world.exec, name, &number, &trial))
		why = "no such trial";
	trial |= number << ESPL__TRIAL_BITS;
	if (why == NULL)
		why = espl__exec_notes(real->world.exec, trial, key);
	if (why == NULL) {
		event = espl__real_event(real, ESPL__EV_TRIAL_NOTE);
		event->as.trial_note.trial = trial;
		event->as.trial_note.key = key;
		event->as.trial_note.text = text;
		espl__buf_clear(&given);
		espl__print(&given, "%s of trial %s", key, name);
	}
	answer_name(real, request, why, &given);
}

static void
refuse_alone(struct espl__real *real, const char *request)
{
	write_answer(real->dir, request, "refused", "this run is not a pool");
}

typedef void answer_request(struct espl__real *, const char *request);

/* The function that answers a request; NULL if the file is not a request.  The name of a request
 * has no dot; that of a draft begins with one, and that of an answer contains one. */
static answer_request *
find_answer(const struct espl__real *real, const char *request)
{
	static const struct {
		const char *kind;
		answer_request *answer;
		int pool;
	} kinds[] = { { "submit-", submit_experiment, 1 }, { "cancel-", cancel_by_name, 1 },
		{ "drain-", drain_node, 0 }, { "undrain-", drain_node, 0 },
		{ "stop-", cancel_by_name, 0 }, { "add-", add_trial, 0 },
		{ "note-", note_trial, 0 } };

	if (strchr(request, '.') != NULL)
		return NULL;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (strncmp(request, kinds[i].kind, strlen(kinds[i].kind)) == 0)
			return kinds[i].pool && real != NULL && !real->config->pool
			    ? refuse_alone
			    : kinds[i].answer;
	return NULL;
}

static int
is_request(const struct dirent *entry)
{
	return find_answer(NULL, entry->d_name) != NULL;
}

static int
is_draft(const struct dirent *entry)
{
	return strncmp(entry->d_name, ".submit-", 8) == 0 && strchr(entry->d_name + 1, '.') == NULL;
}

/* Only a process that gets the lock can be sure that there is no writer: failing to query the lock
 * proves nothing. */
static void
sweep_drafts(const char *dir)
{
	char *spool = espl__format("%s/spool", dir), *asker, *draft;
	struct dirent **list = NULL;
	int lock, count = scandir(spool, &list, is_draft, NULL);

	for (int i = 0; i < count; i++) {
		draft = espl__format("%s/%s", spool, list[i]->d_name);
		asker = espl__format("%s.asker", draft);
		if (espl__lock(asker, &lock, NULL) == ESPL_OK) {
			(void)espl__tree_remove(draft, NULL);
			(void)unlink(asker);
			(void)close(lock);
		}
		free(asker);
		free(draft);
		free(list[i]);
	}
	free(list);
	free(spool);
}

/* experiments/NUMBER exists but the executor does not know it: the driver died in between. */
static void
look_for_lost(struct espl__real *real)
{
	uint64_t number = espl__exec_view(real->world.exec).searches;
	char *dir = espl__format("%s/experiments/%llu", real->dir, (unsigned long long)number);
	char *path = espl__format("%s/run.cfg", dir), *why;
	const char *name;

	if (access(path, R_OK) == 0) {
		why = take_in(real, number, &name);
		if (why != NULL) { /* the next submission takes its place */
			espl__log(ESPL_WARN, "skipping the submitted experiment in '%s': %s", path,
			    why);
			(void)espl__tree_remove(dir, NULL);
		}
		free(why);
	}
	free(path);
	free(dir);
}

/* Whether an arrival has not reached the executor yet. Its number is then taken. */
static int
has_arrival(const struct espl__real *real)
{
	const struct espl__batch *batch = &real->batch[real->filling];

	for (uint32_t i = 0; i < batch->count; i++)
		if (batch->list[i].type == ESPL__EV_EXPERIMENT)
			return 1;
	return 0;
}

/* Removes an answered request. If that is impossible (another user's file), it is ignored from now
 * on. */
static void
take_away(struct espl__real *real, const char *request)
{
	char *path = espl__format("%s/spool/%s", real->dir, request);
	struct stat st;

	if (lstat(path, &st) == 0 && espl__tree_remove(path, NULL) != ESPL_OK) {
		espl__log(ESPL_WARN, "cannot remove '%s', leaving it: %s", path, strerror(errno));
		(void)espl__names_add(&real->spool_left, request);
	}
	free(path);
}

/* One request at a time: the next is read once the executor knows about this one. */
void
espl__spool_tick(struct espl__real *real, int64_t tick)
{
	struct dirent **list = NULL;
	const char *request = NULL;
	char *path;
	int count;

	if (tick < real->spool_at || has_arrival(real))
		return;
	if (real->spool_at == 0 && real->config->pool)
		look_for_lost(real);
	real->spool_at = tick + LOOK_EVERY;
	sweep_drafts(real->dir);
	if (has_arrival(real))
		return;
	path = espl__format("%s/spool", real->dir);
	count = scandir(path, &list, is_request, alphasort);
	for (int i = 0; i < count && request == NULL; i++)
		if (espl__names_find(&real->spool_left, list[i]->d_name) == ESPL_ANY)
			request = list[i]->d_name;
	if (request != NULL) {
		find_answer(real, request)(real, request);
		take_away(real, request);
	}
	for (int i = 0; i < count; i++)
		free(list[i]);
	free(list);
	free(path);
}

void
espl__spool_close(const char *dir)
{
	char *path = espl__format("%s/spool", dir), *request;
	struct dirent **list = NULL;
	int count = scandir(path, &list, is_request, alphasort);

	sweep_drafts(dir);
	for (int i = 0; i < count; i++) {
		request = espl__format("%s/%s", path, list[i]->d_name);
		write_answer(dir, list[i]->d_name, "refused", "the run has ended");
		(void)espl__tree_remove(request, NULL);
		free(request);
		free(list[i]);
	}
	free(list);
	free(path);
}
