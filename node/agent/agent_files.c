/* agent_files.c - a trial's directory on this node: working files, checkpoints, left-overs.
 *
 * Several agents may share one run directory (nodes of one machine, a network disk). So directories
 * in use are locked, and only unlocked ones are removed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/ids.h"
#include "base/file.h"
#include "base/mem.h"
#include "agent/agent.h"
#include "checkpoint/checkpoint.h"

/* ---- directories in use ---------------------------------------------------------------------- */

/* A file system without locks is no failure: collecting is then the driver's care alone. */
static int
lock_dir(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
		close(fd);
		errno = EWOULDBLOCK;
		return -1;
	}
	return fd;
}

static void
let_go(struct espl__held *h)
{
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
}

/* A new, empty directory of this name, held. */
static espl_status
hold_new(struct espl__held *h, struct espl__diag *diag)
{
	if (mkdir(h->path, 0755) != 0) {
		if (errno != EEXIST)
			return espl__fail_errno(diag, "cannot create directory '%s'", h->path);
		if (espl__tree_remove(h->path, diag) != ESPL_OK)
			return diag->status;
		if (mkdir(h->path, 0755) != 0)
			return espl__fail_errno(diag, "cannot create directory '%s'", h->path);
	}
	h->fd = lock_dir(h->path);
	if (h->fd < 0)
		return espl__fail_errno(diag, "cannot open directory '%s'", h->path);
	return ESPL_OK;
}

/* ---- a gang's files ---------------------------------------------------------------------- */

/* Complete or absent, but not synced: it is rewritten at every start. */
static espl_status
write_params(const struct espl__agent_gang *g, struct espl__diag *diag)
{
	char *name =
	    espl__format("%s.%" PRIu64 "-%" PRIu32, g->params, g->start.gang, g->start.node_rank);
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
	int bad = fd < 0 || espl__write_all(fd, g->start.params, strlen(g->start.params)) != 0 ||
	    espl__write_all(fd, "\n", 1) != 0;

	if (bad)
		(void)espl__fail_errno(diag, "cannot write '%s'", g->params);
	if (fd >= 0 && close(fd) != 0 && !bad)
		bad = espl__fail_errno(diag, "cannot write '%s'", g->params) != ESPL_OK;
	if (!bad && rename(name, g->params) != 0)
		bad = espl__fail_errno(diag, "cannot write '%s'", g->params) != ESPL_OK;
	if (bad && fd >= 0)
		(void)unlink(name);
	free(name);
	return bad ? ESPL_E_REMOTE : ESPL_OK;
}

espl_status
espl__files_make(struct espl__agent_gang *g, struct espl__diag *diag)
{
	espl_status status = espl__dir_make(g->dir, diag);

	ESPL__CHECK(g, AGENT_GANG);
	if (status == ESPL_OK)
		status = write_params(g, diag);
	if (status == ESPL_OK) {
		char *output = espl__format("%s/output", g->dir); /* ESPALIER_OUTPUT */

		status = espl__dir_make(output, diag);
		free(output);
	}
	if (status == ESPL_OK && g->leads)
		status = hold_new(&g->saving, diag);
	for (uint32_t i = 0; i < g->start.rank_count && status == ESPL_OK; i++)
		status = hold_new(&g->ranks[i].scratch, diag);
	return status;
}

espl_status
espl__files_lead(struct espl__agent_gang *g, struct espl__diag *diag)
{
	ESPL__CHECK(g, AGENT_GANG);
	return g->saving.fd >= 0 ? ESPL_OK : hold_new(&g->saving, diag);
}

int
espl__files_log(const struct espl__agent_gang *g)
{
	char *path = espl__format("%s/log", g->dir);
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644), high,
	    code;

	ESPL__CHECK(g, AGENT_GANG);
	free(path);
	if (fd < 0)
		return -1;
	high = fcntl(fd, F_DUPFD_CLOEXEC, 10);
	code = errno;
	close(fd);
	errno = code;
	return high;
}

/* ---- removing ---------------------------------------------------------------------------- */

struct removal {
	struct espl__task head;
	char **paths;
	size_t count, cap;
};

static void
run_removal(struct espl__task *job)
{
	struct removal *r = (struct removal *)job;

	for (size_t i = 0; i < r->count; i++)
		(void)espl__tree_remove(r->paths[i], NULL); /* a later COLLECT tries again */
}

static void
end_removal(struct espl__agent *a, struct espl__task *job)
{
	struct removal *r = (struct removal *)job;

	(void)a;
	for (size_t i = 0; i < r->count; i++)
		free(r->paths[i]);
	free(r->paths);
	free(r);
}

static void
remove_later(struct removal **r, char *path)
{
	if (*r == NULL) {
		*r = espl__alloc(sizeof **r);
		(*r)->head.run = run_removal;
		(*r)->head.done = end_removal;
	}
	ESPL__GROW((*r)->paths, (*r)->cap, (*r)->count + 1);
	(*r)->paths[(*r)->count++] = path;
}

static void
leave_dir(struct espl__held *h, struct removal **r)
{
	if (h->fd >= 0 && rmdir(h->path) != 0 && errno != ENOENT)
		remove_later(r, espl__strdup(h->path));
	let_go(h);
}

void
espl__files_leave(struct espl__agent_gang *g)
{
	struct removal *r = NULL;

	ESPL__CHECK(g, AGENT_GANG);
	leave_dir(&g->saving, &r);
	for (uint32_t i = 0; i < g->start.rank_count; i++)
		leave_dir(&g->ranks[i].scratch, &r);
	if (r != NULL)
		espl__agent_job(g->agent, &r->head);
}

/* On a private node: whether a checkpoint must be kept although the driver wants only `keep`. */
static int
is_needed(const struct espl__agent *a, uint64_t trial, uint64_t checkpoint, uint64_t keep)
{
	int lives = 0;

	for (uint32_t i = 0; a->mover != NULL && i < a->gang_count; i++) {
		const struct espl__agent_gang *g = a->gangs[i];

		lives |= g->start.trial == trial;
		if (g->start.checkpoint == checkpoint && checkpoint != 0 &&
		    g->start.source == trial)
			return 1;
	}
	/* The driver may not know the newest of them yet. */
	return a->mover != NULL && (keep == 0 ? lives : checkpoint > keep);
}

/* Is it a name of something that can be removed when no process holds it? checkpoint-KEEP stays. */
static int
is_collectable(const struct espl__agent *a, uint64_t trial, int dir, const char *name,
    uint64_t keep)
{
	char *end;
	int fd;

	if (strncmp(name, ".gone-", 6) == 0)
		return 1;
	if (strncmp(name, "checkpoint-", 11) == 0) {
		uint64_t n = strtoull(name + 11, &end, 10);

		return *end == '\0' && end > name + 11 && (keep == 0 || n != keep) &&
		    !is_needed(a, trial, n, keep);
	}
	if (strncmp(name, "saving-", 7) != 0 && strncmp(name, "scratch-", 8) != 0)
		return 0;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		close(fd);
		return 0;
	}
	close(fd);
	return 1;
}

/* Renamed here, in the order of the driver's wishes; removed in a thread. */
void
espl__files_collect(struct espl__agent *a, uint64_t trial, uint64_t keep)
{
	static unsigned number;
	struct removal *r = NULL;
	struct dirent *e;
	char *folder = espl__trial_dir(a->dir, trial);
	DIR *dir = espl__dir_open(folder);

	ESPL__CHECK(a, AGENT);
	if (dir == NULL && errno != ENOENT)
		espl__agent_log(a, ESPL_WARN, "cannot remove old checkpoints in '%s': %s", folder,
		    strerror(errno));
	while (dir != NULL && (e = readdir(dir)) != NULL) {
		char *gone;

		if (!is_collectable(a, trial, dirfd(dir), e->d_name, keep))
			continue;
		gone = espl__format("%s/.gone-%ld-%u", folder, (long)getpid(), number++);
		if (renameat(dirfd(dir), e->d_name, dirfd(dir), strrchr(gone, '/') + 1) == 0)
			remove_later(&r, gone);
		else
			free(gone);
	}
	if (dir != NULL)
		closedir(dir);
	free(folder);
	if (r != NULL)
		espl__agent_job(a, &r->head);
}

/* ---- saving ------------------------------------------------------------------------------ */

struct saving {
	struct espl__task head;
	struct espl__agent_gang *gang;
	char *from, *place;
	uint64_t iteration, bytes;
	struct espl__diag diag;
};

static void
run_saving(struct espl__task *job)
{
	struct saving *s = (struct saving *)job;

	(void)espl__checkpoint_keep(s->from, s->place, &s->bytes, &s->diag);
}

void
espl__files_tell_saved(struct espl__agent_gang *g, uint64_t iteration, uint64_t bytes)
{
	struct espl__buf *out = &g->agent->outbox;
	size_t mark = espl__frame_begin(out, ESPL__MSG_SAVED);

	espl__put_v64(out, g->start.gang);
	espl__put_v64(out, iteration);
	espl__put_v64(out, bytes);
	espl__frame_end(out, mark);
	espl__agent_keep(g, mark);
}

static void
end_saving(struct espl__agent *a, struct espl__task *job)
{
	struct saving *s = (struct saving *)job;
	struct espl__agent_gang *g = s->gang;
	struct espl__diag made = ESPL__DIAG_INIT;

	(void)a;
	g->jobs--;
	g->saving_now = 0;
	g->agent->changed = 1;
	if (s->diag.status == ESPL_OK) {
		g->steps->sealed(g, s->iteration, s->bytes);
		let_go(&g->saving);
		if (hold_new(&g->saving, &made) != ESPL_OK)
			(void)espl__fail(&s->diag, made.status,
			    "cannot create a directory to save into: %s", espl__reason(&made));
	}
	if (espl__checkpoint_is_system(s->diag.status)) {
		char *text = espl__format("saving: %s", s->diag.text);

		espl__gang_excuse(g, text);
		free(text);
	} else {
		g->steps->saved(g, s->iteration, &s->diag);
	}
	free(s->from);
	free(s->place);
	free(s);
}

void
espl__files_save(struct espl__agent_gang *g, uint64_t iteration)
{
	struct saving *s = espl__alloc(sizeof *s);

	ESPL__CHECK(g, AGENT_GANG);
	s->head.run = run_saving;
	s->head.done = end_saving;
	s->gang = g;
	s->from = espl__strdup(g->saving.path);
	s->place = espl__format("%s/checkpoint-%" PRIu64, g->dir, iteration);
	s->iteration = iteration;
	g->jobs++;
	g->saving_now = 1;
	g->agent->changed = 1;
	espl__agent_job(g->agent, &s->head);
}

/* ---- restoring --------------------------------------------------------------------------- */

struct verification {
	struct espl__task head;
	struct espl__agent_gang *gang;
	struct espl__diag diag;
};

static void
run_verification(struct espl__task *job)
{
	struct verification *v = (struct verification *)job;

	(void)espl__checkpoint_check(v->gang->restore, &v->diag); /* never changes while it runs */
}

static void
end_verification(struct espl__agent *a, struct espl__task *job)
{
	struct verification *v = (struct verification *)job;
	struct espl__agent_gang *g = v->gang;

	(void)a;
	g->jobs--;
	g->steps->prepared(g, &v->diag);
	free(v);
}

void
espl__files_verify(struct espl__agent_gang *g)
{
	struct verification *v = espl__alloc(sizeof *v);

	ESPL__CHECK(g, AGENT_GANG);
	v->head.run = run_verification;
	v->head.done = end_verification;
	v->gang = g;
	g->jobs++;
	espl__agent_job(g->agent, &v->head);
}

/* ---- is it the directory's fault? ----------------------------------------------------------- */

#define PROBE_BYTES ((size_t)1 << 20)

struct probe {
	struct espl__task head;
	struct espl__agent_gang *gang;
	int home_fd; /* of a directory of the agent's own; else -1 */
	int home_gone;
	char *home, *dir, *path;
	struct espl__diag diag;
};

/* Tests whether it can write, with a hidden file.  A trial may have made the directory again,
 * without the files that the others need. */
static void
run_probe(struct espl__task *job)
{
	static const char block[4096];
	struct probe *p = (struct probe *)job;
	int fd, bad = 0;

	p->home_gone = p->home_fd >= 0 && espl__home_is_gone(p->home_fd, p->home);
	if (p->home_gone)
		return;
	if (mkdir(p->dir, 0755) != 0 && errno != EEXIST) { /* not what is above it */
		(void)espl__fail_errno(&p->diag, "cannot create directory '%s'", p->dir);
		return;
	}
	fd = open(p->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && unlink(p->path) != 0)
		bad = 1;
	for (size_t n = 0; fd >= 0 && !bad && n < PROBE_BYTES; n += sizeof block)
		bad = espl__write_all(fd, block, sizeof block);
	if (fd < 0 || bad || fsync(fd) != 0)
		(void)espl__fail_errno(&p->diag, "cannot write to '%s'", p->dir);
	if (fd >= 0)
		close(fd);
}

static void
end_probe(struct espl__agent *a, struct espl__task *job)
{
	struct probe *p = (struct probe *)job;
	struct espl__agent_gang *g = p->gang;

	g->jobs--;
	if (p->home_gone) {
		a->home_lost = 1;
	} else if (p->diag.status != ESPL_OK) {
		uint32_t i = g->culprit >= 0 ? (uint32_t)g->culprit : 0;

		free(g->ranks[i].text);
		g->ranks[i].text = NULL;
		espl__rank_fail(&g->ranks[i], "run folder: %s", espl__reason(&p->diag));
		if (!a->dir_reported) /* where it is, which the text above must not tell */
			espl__agent_log(a, ESPL_ERROR, "%s", p->diag.text);
		a->dir_reported = 1;
	}
	free(p->home);
	free(p->dir);
	free(p->path);
	free(p);
}

void
espl__files_probe(struct espl__agent_gang *g)
{
	struct probe *p = espl__alloc(sizeof *p);

	ESPL__CHECK(g, AGENT_GANG);
	p->head.run = run_probe;
	p->head.done = end_probe;
	p->gang = g;
	p->home_fd = g->agent->mover != NULL && g->agent->own_dir ? g->agent->home_fd : -1;
	p->home = espl__strdup(g->agent->dir);
	p->dir = espl__format("%s/trials", g->agent->dir);
	p->path = espl__format("%s/.probe-%ld-%" PRIu64, p->dir, (long)getpid(), g->start.gang);
	g->jobs++;
	espl__agent_job(g->agent, &p->head);
}
