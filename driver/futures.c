/* futures.c - forks futures of a run and gathers what they come to. */
#include "driver/futures.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/tick.h"
#include "plugin/instance.h"
#include "real/reap.h"
#include "driver/worlds.h"

enum {
	FUTURES_LEAST = 9, /* of which a band of 80 % can be told */
	FUTURES_MOST = 19,
	SECONDS_MOST = 30, /* of processor time for one future: it is stuck */
	SHARE = 100        /* a forecast may take this part of the time until the next one */
};
#define FIRST_AFTER (2 * ESPL_SECOND)
#define EVERY (10 * ESPL_SECOND)       /* at most so often */
#define LONGEST (120 * ESPL_SECOND)    /* a child that takes so long is ended */
#define EFFORT (UINT64_C(200000))      /* events of all futures together, about */
#define EFFORT_ONE (UINT64_C(3000000)) /* of one */

/* What a future comes to; through a pipe. */
struct future {
	int32_t status; /* espl_status */
	int32_t how;    /* enum espl__run_end */
	double ends_s, cost_usd, lowest;
	uint64_t events;
	char text[240];
};

static const char *
refuse_run(const struct espl__run_config *config)
{
	return config->asked ? "its trials are evaluated by clients"
	    : config->resource != NULL && strcmp(config->resource, ESPL__SECONDS) != 0
	    ? "its trials are measured by a metric (algorithm.resource)"
	    : NULL;
}

/* ---- one future ------------------------------------------------------------------------------ */

static espl_status
play(const struct espl__inputs *inputs, struct espl__exec *exec, struct espl__learned *learned,
    uint64_t seed, struct future *f, struct espl__diag *diag)
{
	struct espl__world *world;
	struct espl__round round;
	const struct espl__effect *effects;
	uint32_t count;
	espl_status status = espl__world_rest(inputs, exec, learned, seed, &world, diag);

	while (status == ESPL_OK && !espl__exec_view(exec).ended) {
		memset(&round, 0, sizeof round);
		status = world->ops->next(world, &round, diag);
		if (status != ESPL_OK)
			break;
		f->events += round.count;
		if (f->events > EFFORT_ONE)
			return espl__fail(diag, ESPL_E_LIMIT,
			    "too much is left: more than %llu events",
			    (unsigned long long)EFFORT_ONE);
		status =
		    espl__exec_round(exec, round.now, round.events, round.count, NULL, 0, diag);
		if (status != ESPL_OK)
			break;
		effects = espl__exec_effects(exec, &count);
		status = world->ops->apply(world, effects, count, diag);
	}
	return status;
}

static _Noreturn void
run_future(const struct espl__inputs *inputs, struct espl__exec *exec,
    struct espl__learned *learned, uint64_t seed, int fd, pid_t parent)
{
	const struct rlimit none = { 0, 0 }, cpu = { SECONDS_MOST, SECONDS_MOST };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__exec_summary sum;
	struct future f;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(126);
	(void)setrlimit(RLIMIT_CORE, &none);
	(void)setrlimit(RLIMIT_CPU, &cpu);
	memset(&f, 0, sizeof f);
	f.status = (int32_t)play(inputs, exec, learned, seed, &f, &diag);
	espl__exec_summary(exec, &sum);
	f.how = (int32_t)sum.how;
	f.ends_s = (double)sum.now / 1e9;
	f.cost_usd = (double)sum.cost / ESPL_USD;
	/* What trials come to that train much further than any has is not known. */
	f.lowest = sum.lowest.trial == ESPL_NONE || espl__learned_left_behind(learned)
	    ? NAN
	    : sum.lowest.loss;
	(void)snprintf(f.text, sizeof f.text, "%.200s", diag.text);
	_exit(espl__write_all(fd, (const void *)&f, sizeof f) == 0 ? 0 : 125);
}

/* 0; -1: it came to nothing. */
static int
fork_future(const struct espl__inputs *inputs, struct espl__exec *exec,
    struct espl__learned *learned, uint64_t seed, struct future *f)
{
	pid_t parent = getpid(), pid;
	size_t got = 0;
	ssize_t more;
	int ends[2], how;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	pid = fork();
	if (pid == 0)
		run_future(inputs, exec, learned, seed, ends[1], parent);
	(void)close(ends[1]);
	while (pid > 0 && got < sizeof *f) {
		more = read(ends[0], (char *)f + got, sizeof *f - got);
		if (more > 0)
			got += (size_t)more;
		else if (more == 0 || errno != EINTR)
			break;
	}
	(void)close(ends[0]);
	while (pid > 0 && waitpid(pid, &how, 0) < 0 && errno == EINTR)
		;
	return pid > 0 && got == sizeof *f ? 0 : -1;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static int
compare_reals(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of so many draws; n + 1 gaps between them are equally likely to hold the next one. */
static double
quantile(const double *sorted, uint32_t count, double part)
{
	double at = part * (count + 1) - 1;
	uint32_t low;

	if (at <= 0)
		return sorted[0];
	if (at >= count - 1)
		return sorted[count - 1];
	low = (uint32_t)at;
	return sorted[low] + (sorted[low + 1] - sorted[low]) * (at - low);
}

static struct espl__band
band_of(double *list, uint32_t count)
{
	if (count == 0)
		return (struct espl__band){ NAN, NAN, NAN };
	qsort(list, count, sizeof *list, compare_reals);
	return (struct espl__band){ quantile(list, count, 0.1), quantile(list, count, 0.5),
		quantile(list, count, 0.9) };
}

static double
share_of(const struct future *list, uint32_t count, enum espl__run_end how)
{
	uint32_t with = 0;

	for (uint32_t i = 0; i < count; i++)
		with += list[i].how == (int32_t)how;
	return (double)with / count;
}

/* Relative to what it was. */
static double
gain(double before, double after)
{
	return isfinite(before) && isfinite(after) && before != 0
	    ? fmax(before - after, 0) / fabs(before)
	    : NAN;
}

/* What the rest is worth, beside an equally long part of the past. */
static void
weigh(const struct espl__learned *learned, const struct espl__exec_summary *sum,
    const struct future *list, uint32_t count, struct espl__outlook *o)
{
	double lowest = sum->lowest.trial != ESPL_NONE ? sum->lowest.loss : NAN, gains = 0;
	uint32_t known = 0;
	struct espl__learned_best then;
	double from;

	for (uint32_t i = 0; i < count; i++)
		if (isfinite(list[i].lowest)) {
			gains += gain(lowest, list[i].lowest);
			known++;
		}
	o->rest_s = fmax(o->ends_s.mid - o->made_s, 0);
	o->rest_usd = fmax(o->cost_usd.mid - (double)sum->cost / ESPL_USD, 0);
	o->rest_gain = 2 * known > count ? gains / known : NAN;
	from = fmax(o->made_s - o->rest_s, 0);
	then = espl__learned_best(learned, (espl_time)(from * 1e9));
	if (isnan(then.loss)) { /* from the first result on */
		then = espl__learned_first(learned);
		from = (double)then.at / 1e9;
	}
	o->past_s = o->made_s - from;
	o->past_usd =
	    (double)sum->cost / ESPL_USD - espl__learned_cost(learned, (espl_time)(from * 1e9));
	o->past_gain = gain(then.loss, lowest);
}

/* How it came to the present best. */
static void
trace(const struct espl__run_config *config, const struct espl__learned *learned,
    struct espl__outlook *o)
{
	for (uint32_t i = 0; i < ESPL__TREND; i++) {
		double at = i + 1 < ESPL__TREND ? o->made_s * (i + 1) / ESPL__TREND : o->made_s;
		double loss = espl__learned_best(learned, (espl_time)(at * 1e9 + 0.5)).loss;

		o->trend[i] = config->maximize ? -loss : loss;
	}
}

static void
summarize(const struct espl__inputs *inputs, const struct future *list, uint32_t count,
    struct espl__outlook *o)
{
	const struct espl__run_config *config = inputs->config;
	double *room = espl__alloc((count + (size_t)1) * sizeof *room);
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++)
		room[i] = list[i].ends_s;
	o->ends_s = band_of(room, count);
	for (uint32_t i = 0; i < count; i++)
		room[i] = list[i].cost_usd;
	o->cost_usd = band_of(room, count);
	for (uint32_t i = 0; i < count; i++)
		if (isfinite(list[i].lowest))
			room[n++] = config->maximize ? -list[i].lowest : list[i].lowest;
	o->best = band_of(room, 2 * n > count ? n : 0);
	o->keeps_deadline =
	    config->deadline != ESPL_NEVER ? 1 - share_of(list, count, ESPL__RUN_DEADLINE) : NAN;
	o->keeps_budget =
	    config->budget != INT64_MAX ? 1 - share_of(list, count, ESPL__RUN_BUDGET) : NAN;
	o->fails = share_of(list, count, ESPL__RUN_FAILED);
	o->futures = count;
	free(room);
}

espl_status
espl__futures_make(const struct espl__inputs *inputs, struct espl__exec *exec,
    struct espl__learned *learned, int64_t zero_s, struct espl__outlook *o, struct espl__diag *diag)
{
	struct espl__exec_summary sum;
	struct future list[FUTURES_MOST], one;
	uint32_t count = 0, most = FUTURES_MOST, lost = 0;
	const char *why = refuse_run(inputs->config);

	memset(o, 0, sizeof *o);
	if (why != NULL)
		return espl__fail(diag, ESPL_E_UNSUPPORTED, "no forecast of this run: %s", why);
	if (!espl__learned_enough(learned, inputs->profile == NULL || inputs->profile->guessed))
		return espl__fail(diag, ESPL_E_UNKNOWN,
		    "no forecast yet: no iteration has been timed");
	espl__exec_summary(exec, &sum);
	espl__exec_unobserved(exec);
	espl__learned_settle(learned, exec);
	memset(&one, 0, sizeof one);
	for (uint32_t i = 0; i < most; i++) {
		if (fork_future(inputs, exec, learned, i + 1, &one) != 0 || one.status != ESPL_OK) {
			if (++lost > 2 && count == 0)
				return espl__fail(diag,
				    one.status != ESPL_OK ? (espl_status)one.status : ESPL_E_REMOTE,
				    "the rest of the run cannot be simulated: %s",
				    one.text[0] != '\0' ? one.text : "a process was lost");
			continue;
		}
		list[count++] = one;
		if (count == 1 && one.events > 0)
			most = one.events * FUTURES_LEAST > EFFORT ? FUTURES_LEAST
			    : one.events * FUTURES_MOST > EFFORT   ? (uint32_t)(EFFORT / one.events)
								   : FUTURES_MOST;
	}
	if (count == 0)
		return espl__fail(diag, ESPL_E_REMOTE, "the rest of the run cannot be simulated");
	o->made_s = (double)sum.now / 1e9;
	o->zero_s = zero_s;
	summarize(inputs, list, count, o);
	weigh(learned, &sum, list, count, o);
	trace(inputs->config, learned, o);
	return ESPL_OK;
}

/* ---- in the driver --------------------------------------------------------------------------- */

#define ESPL__FORESIGHT_MAGIC 0x65726f66u
struct espl__foresight {
	uint32_t magic; /* ESPL__FORESIGHT_MAGIC */
	const struct espl__inputs *inputs;
	struct espl__learned *learned;
	char *path;
	pid_t pid;                       /* that is at work; 0: none */
	int64_t next_at, began, took_ns; /* ticks; took_ns: what the fork took */
	espl_time now;                   /* of the last round, and the UTC second of 0 by it */
	int64_t zero_s;
	espl_time made; /* of the last forecast */
};

struct espl__foresight *
espl__foresight_new(const struct espl__inputs *inputs, const char *dir)
{
	struct espl__foresight *f;

	if (refuse_run(inputs->config) != NULL)
		return NULL;
	f = espl__alloc(sizeof *f);
	f->magic = ESPL__FORESIGHT_MAGIC;
	f->inputs = inputs;
	f->learned = espl__learned_new();
	f->path = espl__format("%s/" ESPL__OUTLOOK_FILE, dir);
	(void)unlink(f->path); /* of before a resume */
	f->now = f->made = ESPL_NEVER;
	f->next_at = espl__tick() + FIRST_AFTER;
	return f;
}

struct espl__observer *
espl__foresight_observer(struct espl__foresight *f)
{
	ESPL__CHECK(f, FORESIGHT);
	return espl__learned_observer(f->learned);
}

/* Nothing that the driver has open is used, and nothing of it is written to. */
static int
detach_child(pid_t parent)
{
	static const int reset[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD, SIGWINCH,
		SIGUSR1 };
	sigset_t empty;
	int null;

	for (size_t i = 0; i < sizeof reset / sizeof reset[0]; i++)
		(void)signal(reset[i], SIG_DFL);
	sigemptyset(&empty);
	(void)sigprocmask(SIG_SETMASK, &empty, NULL);
	(void)setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		return -1;
	(void)setpriority(PRIO_PROCESS, 0, 19);
	null = open("/dev/null", O_RDWR);
	if (null < 0)
		return -1;
	for (int fd = 0; fd <= 2; fd++)
		if (dup2(null, fd) < 0)
			return -1;
	return close_range(3, ~0U, 0);
}

static _Noreturn void
run_forecast(struct espl__foresight *f, struct espl__exec *exec, pid_t parent)
{
	struct espl__outlook outlook;
	struct espl__buf text = { NULL, 0, 0 };

	if (detach_child(parent) != 0)
		_exit(126);
	espl__log_to(NULL, NULL, ESPL_ERROR);
	if (espl__futures_make(f->inputs, exec, f->learned, f->zero_s, &outlook, NULL) != ESPL_OK)
		_exit(1);
	espl__outlook_json(&outlook, &text);
	espl__print(&text, "\n");
	_exit(espl__file_write(f->path, text.data, text.size, NULL) == ESPL_OK ? 0 : 1);
}

/* 1: the child has ended, and wrote a forecast. */
static int
reap_child(struct espl__foresight *f)
{
	struct rusage use;
	int64_t now = espl__tick(), took;
	int how = 0;
	pid_t got = wait4(f->pid, &how, WNOHANG, &use);

	if (got == 0 && now - f->began > LONGEST)
		(void)kill(-f->pid, SIGKILL);
	if (got == 0 || (got < 0 && errno == EINTR))
		return 0;
	f->pid = 0;
	espl__reap_spare(0);
	took = f->took_ns;
	if (got > 0)
		took += (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * ESPL_SECOND +
		    (use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1000;
	f->next_at = f->began + (took * SHARE > EVERY ? took * SHARE : EVERY);
	return got > 0 && WIFEXITED(how) && WEXITSTATUS(how) == 0;
}

int
espl__foresight_tick(struct espl__foresight *f, struct espl__exec *exec)
{
	struct espl__exec_view view = espl__exec_view(exec);
	pid_t parent = getpid();

	ESPL__CHECK(f, FORESIGHT);
	if (view.now != f->now) {
		f->now = view.now;
		f->zero_s = (int64_t)time(NULL) - view.now / ESPL_SECOND;
	}
	if (f->pid > 0)
		return reap_child(f);
	if (view.ended || f->now == f->made || espl__tick() < f->next_at)
		return 0;
	f->began = espl__tick();
	f->made = f->now;
	f->pid = fork();
	if (f->pid == 0)
		run_forecast(f, exec, parent);
	f->took_ns = espl__tick() - f->began;
	if (f->pid < 0) { /* as if it had failed: there will be another one */
		f->pid = 0;
		f->next_at = f->began + EVERY;
	}
	espl__reap_spare(f->pid);
	return 0;
}

void
espl__foresight_free(struct espl__foresight *f)
{
	if (f == NULL)
		return;
	ESPL__CHECK(f, FORESIGHT);
	if (f->pid > 0) {
		(void)kill(-f->pid, SIGKILL);
		(void)kill(f->pid, SIGKILL);
		while (waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
			;
		espl__reap_spare(0);
	}
	(void)unlink(f->path);
	espl__learned_free(f->learned);
	free(f->path);
	f->magic = 0;
	free(f);
}
