/* results_pool.c - the rows of a pool: its experiments and its plain jobs. */
#include "base/assert.h"
#include "model/jobs.h"
#include "report/results_impl.h"

static int
is_open(const struct espl_trial *t)
{
	return t->state == ESPL_TRIAL_WAITING || t->state == ESPL_TRIAL_RUNNING;
}

static const char *
job_status(const struct espl__exec *exec, const struct espl_trial *t)
{
	if (espl__exec_job_cancelled(exec, t->id))
		return "cancelled";
	if (espl__exec_view(exec).cut != 0 && is_open(t))
		return espl__run_end_name(espl__exec_view(exec).cut);
	return t->state == ESPL_TRIAL_WAITING ? "waiting"
	    : t->state == ESPL_TRIAL_RUNNING  ? "running"
	    : t->state == ESPL_TRIAL_FAILED   ? "failed"
					      : "done";
}

static void
put_job(struct espl__results *r, uint64_t number, const struct espl__job *job, double arrived_s,
    double ended_s, const char *status)
{
	static const char *const fates[] = { "done", "bug", "terminated" };

	espl__results_put(r, PUT_JOB, "ntrriirtrrt", number, job->name, job->work_s, job->eta_s,
	    (int64_t)job->nodes_min, (int64_t)job->nodes_max, job->weight, fates[job->fate],
	    arrived_s, ended_s, status);
}

/* A plain job: when it began to wait, to train, and ended. */
void
espl__results_job(struct espl__results *r, espl_time now, const struct espl_trial *t, int fresh)
{
	const struct espl__exec *exec = r->observer.exec;
	const struct espl__jobs *jobs = exec != NULL ? espl__exec_view(exec).workload : NULL;
	double ended_s = t->state >= ESPL_TRIAL_ENDED ? espl__results_s(now) : NAN;

	ESPL__CHECK(r, RESULTS);
	if (jobs == NULL || t->id >= jobs->list.count)
		return;
	if (fresh)
		put_job(r, t->id, &jobs->list.jobs[t->id], espl__results_s(now), ended_s,
		    job_status(exec, t));
	else
		espl__results_put(r, SET_JOB, "nrrt", t->id,
		    t->state == ESPL_TRIAL_RUNNING ? espl__results_s(now) : NAN, ended_s,
		    job_status(exec, t));
}

/* The pool ended at its deadline; jobs that were waiting get no event of their own. */
static void
cut_jobs(struct espl__results *r, const struct espl__exec *exec)
{
	const struct espl__exec_view run = espl__exec_view(exec);
	const struct espl_trial *t;

	for (uint64_t i = 0; i < run.jobs_come; i++)
		if ((t = espl__exec_trial(exec, i)) != NULL && is_open(t))
			espl__results_put(r, SET_JOB, "nrrt", i, NAN, espl__results_s(run.now),
			    job_status(exec, t));
}

/* There is no event for jobs that have not arrived: they are listed once, and again if they will
 * never arrive. */
void
espl__results_jobs(struct espl__results *r, const struct espl__exec *exec)
{
	const struct espl__exec_view run = espl__exec_view(exec);
	const struct espl__jobs *jobs = run.workload;

	if (jobs != NULL && !r->jobs_listed)
		espl__results_put(r, PUT_META, "ti", "unit", (int64_t)jobs->unit);
	if (jobs != NULL && run.cut != 0)
		cut_jobs(r, exec);
	for (uint64_t i = run.jobs_come; jobs != NULL && i < jobs->list.count; i++) {
		const char *over = espl__exec_job_cancelled(exec, i) ? "cancelled"
		    : run.cut != 0                                   ? espl__run_end_name(run.cut)
								     : NULL;

		if (over != NULL || !r->jobs_listed)
			put_job(r, i, &jobs->list.jobs[i], NAN, NAN,
			    over != NULL ? over : "to come");
	}
	r->jobs_listed = 1;
}

static void
put_experiment(struct espl__results *r, uint64_t number, const struct espl__search_summary *s)
{
	int none = s->lowest.trial == ESPL_NONE;
	uint64_t best = s->best == ESPL_NONE ? ESPL_NONE : number << ESPL__TRIAL_BITS | s->best;

	espl__results_put(r, PUT_EXPERIMENT, "nttttrriiinrrritinrir", number, s->name, s->metric,
	    s->maximize ? "maximize" : "minimize", espl__experiment_state(s),
	    espl__results_s(s->arrived), espl__results_s(s->ended), (int64_t)s->trials,
	    (int64_t)(s->finished - s->early), (int64_t)s->failed, best,
	    best == ESPL_NONE ? NAN
		: s->maximize ? 0.0 - s->best_loss
			      : s->best_loss,
	    s->gpu_s, (double)s->spent / 1e6, (int64_t)s->gpus, s->text, (int64_t)s->early,
	    none ? ESPL_NONE : number << ESPL__TRIAL_BITS | s->lowest.trial,
	    none              ? NAN
		: s->maximize ? 0.0 - s->lowest.loss
			      : s->lowest.loss,
	    (int64_t)s->lowest.iteration, none ? NAN : (double)s->lowest.at / 1e9);
}

void
espl__results_experiment(void *ctx, espl_time now, uint64_t number,
    const struct espl__search_summary *s)
{
	struct espl__results *r = ctx;

	(void)now;
	espl__results_begin(r);
	put_experiment(r, number, s);
}

/* What each one costs changes with the others. */
void
espl__results_experiments(struct espl__results *r, const struct espl__exec *exec)
{
	struct espl__search_summary s;

	for (uint64_t i = 0; espl__exec_view(exec).pool && espl__exec_search_of(exec, i) != NULL;
	     i++)
		if (espl__exec_search_sum(exec, i, &s))
			put_experiment(r, i, &s);
}
