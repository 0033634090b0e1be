/* test_sim_jobs.c - plain jobs in the simulated world: how long an iteration takes, and where one
 * that is resized is cut. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "sim/sim_impl.h"

/* 100 s of work on one node in two iterations, on `gpus` GPUs since 0 s; a doubling keeps 0.8. */
struct bench {
	struct espl__job job;
	struct espl__jobs jobs;
	struct espl__inputs inputs;
	struct espl__sim_source source;
	struct espl__sim sim;
	struct espl__sim_gang gang;
	double trained_s;
};

static void
train(struct bench *b, uint32_t gpus)
{
	b->gang.share = (struct espl_share){ gpus, 1 };
	b->gang.iteration_s = espl__sim_job_iteration_s(&b->sim, &b->gang) * b->gang.ratio;
	b->gang.due = espl__sim_after(&b->sim, b->gang.iteration_s);
}

static void
make(struct bench *b, double step_s, double ratio)
{
	memset(b, 0, sizeof *b);
	b->job = (struct espl__job){ .work_s = 100, .nodes_min = 1, .nodes_max = 4 };
	b->jobs = (struct espl__jobs){ .magic = ESPL__JOBS_MAGIC,
		.list = { .jobs = &b->job, .count = 1 },
		.unit = 1,
		.iteration_s = 50,
		.step_s = step_s,
		.doubling = 0.8 };
	b->inputs.jobs = &b->jobs;
	b->source.of = &b->inputs;
	b->sim.magic = ESPL__SIM_MAGIC;
	b->sim.workload = &b->jobs;
	b->sim.trained_s = &b->trained_s;
	b->gang.source = &b->source;
	b->gang.ratio = ratio;
}

static void
is_near(double a, double b)
{
	cr_assert_float_eq(a, b, 1e-6, "%.9g, not %.9g", a, b);
}

/* What was trained before and after adds up to the iteration, on whatever it is. */
Test(sim_jobs, a_job_that_is_resized_ends_its_step)
{
	struct bench b;

	make(&b, 4, 1);
	train(&b, 2);
	is_near(b.gang.iteration_s, 50 / 1.6);
	/* 6.4 s of work are done; the second step ends with 8, at 5 s */
	b.sim.now = (espl_time)4e9;
	is_near(espl__sim_job_cut(&b.sim, &b.gang), 1);
	is_near(b.gang.done_s, 8);
	is_near(b.trained_s, 5);
	b.sim.now = (espl_time)5e9;
	train(&b, 4); /* 42 s are left, at 2.56 */
	is_near(b.gang.iteration_s, 42 / 2.56);
	b.sim.now = (espl_time)5e9; /* at once again: it is at the end of a step */
	is_near(espl__sim_job_cut(&b.sim, &b.gang), 0);
	is_near(b.gang.done_s, 8);
	train(&b, 1);
	b.sim.now = (espl_time)45.5e9; /* 40.5 s later, in the step that ends with 48 + 2 */
	cr_assert_lt(espl__sim_job_cut(&b.sim, &b.gang), 0, "the iteration ends first");
	is_near(b.gang.done_s, 8);
	is_near(b.trained_s, 5);
}

Test(sim_jobs, without_steps_an_iteration_is_whole)
{
	struct bench b;

	make(&b, 0, 1);
	train(&b, 1);
	b.sim.now = (espl_time)10e9;
	cr_assert_lt(espl__sim_job_cut(&b.sim, &b.gang), 0);
	is_near(b.gang.done_s, 0);
}

/* A start takes its time, a fault makes it slow, a bug ends it. */
Test(sim_jobs, steps_count_what_was_trained)
{
	struct bench b;

	make(&b, 4, 3);
	train(&b, 1);
	b.gang.due += (espl_time)20e9; /* it starts for 20 s */
	b.sim.now = (espl_time)5e9;
	is_near(espl__sim_job_cut(&b.sim, &b.gang), 15);
	is_near(b.gang.done_s, 0);
	b.sim.now = (espl_time)30e9; /* 10 s of training, three of which are one of work */
	is_near(espl__sim_job_cut(&b.sim, &b.gang), 2);
	is_near(b.gang.done_s, 4);
	is_near(b.trained_s, 12);

	make(&b, 4, 1);
	b.job.fate = ESPL__FATE_BUG;
	b.job.fate_at_s = 6;
	train(&b, 1);
	is_near(b.gang.iteration_s, 6);
	b.sim.now = (espl_time)3e9;
	is_near(espl__sim_job_cut(&b.sim, &b.gang), 1);
	is_near(b.gang.done_s, 4);
	b.sim.now = (espl_time)4e9;
	train(&b, 2);
	is_near(b.gang.iteration_s, 2); /* it is time on nodes, not work */
	b.sim.now = (espl_time)5e9;
	cr_assert_lt(espl__sim_job_cut(&b.sim, &b.gang), 0, "the bug comes first");
}
