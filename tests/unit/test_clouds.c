/* test_clouds.c - each remote cloud with a provider that fails at every request, from one table,
 * and what single providers answer.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/util.h>
#include "gce_server.h"
#include "kube_server.h"
#include "testkit.h"
#ifdef WITH_AWS
#include "ec2_driver.h"
#else
#define S ESPL_SECOND
#define HOUR (3600 * S)
#endif

extern const struct espl_plugin cloud_command_LTX_espalier_plugin;
extern const struct espl_plugin cloud_slurm_LTX_espalier_plugin;
extern const struct espl_plugin cloud_ssh_LTX_espalier_plugin;

/* ---- the provider of cloud command ---- */

#define MACHINES 64

struct provider {
	struct espl_kit *kit;
	struct {
		char token[65], run[65];
		int running;
		espl_time boots;
	} machines[MACHINES];
	unsigned count;
	char answer[20000];
	const char *refuse; /* what acquire prints instead */
};

static void
acquire(struct provider *p, const json_t *input)
{
	const char *token = json_string_value(json_object_get(input, "token"));
	unsigned i = 0;

	while (i < p->count && strcmp(p->machines[i].token, token) != 0)
		i++;
	cr_assert_lt(i, MACHINES);
	if (i == p->count) {
		p->count++;
		(void)snprintf(p->machines[i].token, 65, "%s", token);
		(void)snprintf(p->machines[i].run, 65, "%s",
		    json_string_value(json_object_get(input, "run")));
		p->machines[i].running = 1;
		p->machines[i].boots = espl_kit_time(p->kit) + 40 * S;
	}
	(void)snprintf(p->answer, sizeof p->answer, "{\"id\":\"%s\",\"state\":\"booting\"}", token);
}

static void
list(struct provider *p, const json_t *input)
{
	const char *run = json_string_value(json_object_get(input, "run"));
	size_t used = (size_t)snprintf(p->answer, sizeof p->answer, "{\"machines\":[");
	const char *between = "";

	for (unsigned i = 0; i < p->count; i++) {
		if (!p->machines[i].running ||
		    (run != NULL && strcmp(p->machines[i].run, run) != 0))
			continue;
		used += (size_t)snprintf(p->answer + used, sizeof p->answer - used,
		    "%s{\"id\":\"%s\",\"token\":\"%s\",\"run\":\"%s\",\"state\":\"%s\"}", between,
		    p->machines[i].token, p->machines[i].token, p->machines[i].run,
		    espl_kit_time(p->kit) >= p->machines[i].boots ? "ready" : "booting");
		between = ",";
	}
	(void)snprintf(p->answer + used, sizeof p->answer - used, "]}");
}

static void
run_child(void *ctx, const struct espl_spawn *spawn, struct espl_child *child)
{
	struct provider *p = ctx;
	json_t *input = json_loadb(spawn->input, spawn->input_size, 0, NULL);

	cr_assert_not_null(input);
	p->answer[0] = '\0';
	if (strcmp(spawn->argv[0], "acquire") == 0 && p->refuse != NULL)
		(void)snprintf(p->answer, sizeof p->answer, "%s", p->refuse);
	else if (strcmp(spawn->argv[0], "acquire") == 0)
		acquire(p, input);
	else if (strcmp(spawn->argv[0], "list") == 0)
		list(p, input);
	else
		for (unsigned i = 0; i < p->count; i++)
			p->machines[i].running &=
			    strcmp(p->machines[i].token,
				json_string_value(json_object_get(input, "token"))) != 0;
	child->out = p->answer;
	child->out_size = strlen(p->answer);
	json_decref(input);
}

static void
forget_machines(void *ctx)
{
	((struct provider *)ctx)->count = 0;
}

static uint32_t
count_machines(void *ctx)
{
	const struct provider *p = ctx;
	uint32_t count = 0;

	for (unsigned i = 0; i < p->count; i++)
		count += p->machines[i].running != 0;
	return count;
}

static const char command_options[] = "acquire=(acquire) release=(release) list=(list) "
				      "reach=(ssh)('{id}') offers=(desk,1,gpu,0,0,1.0,on-demand,9)";

/* ---- a Slurm cluster ---- */

struct slurm {
	struct espl_kit *kit;
	struct {
		char name[80];
		int running;
		espl_time starts;
	} jobs[MACHINES];
	unsigned count, lists;
	unsigned silent_lists; /* the next ones show no job */
	char answer[20000];
};

static int
is_named(const char *list, const char *name)
{
	size_t size = strlen(name);

	for (const char *at = list; (at = strstr(at, name)) != NULL; at += size)
		if ((at == list || at[-1] == ',') && (at[size] == ',' || at[size] == '\0'))
			return 1;
	return 0;
}

static const char *
find_option(const struct espl_spawn *spawn, const char *name)
{
	for (uint32_t i = 1; i < spawn->argc; i++)
		if (strncmp(spawn->argv[i], name, strlen(name)) == 0)
			return spawn->argv[i] + strlen(name);
	return NULL;
}

static void
submit_job(struct slurm *c, const char *name)
{
	cr_assert_lt(c->count, MACHINES);
	(void)snprintf(c->jobs[c->count].name, sizeof c->jobs[0].name, "%s", name);
	c->jobs[c->count].running = 1;
	c->jobs[c->count++].starts = espl_kit_time(c->kit) + 20 * S;
	(void)snprintf(c->answer, sizeof c->answer, "%u\n", c->count);
}

static void
list_jobs(struct slurm *c, const char *names)
{
	size_t used = 0;

	c->lists++;
	if (names != NULL && c->silent_lists > 0) {
		c->silent_lists--;
		return;
	}
	for (unsigned i = 0; i < c->count; i++) {
		int runs = espl_kit_time(c->kit) >= c->jobs[i].starts;

		if (c->jobs[i].running && (names == NULL || is_named(names, c->jobs[i].name)))
			used += (size_t)snprintf(c->answer + used, sizeof c->answer - used,
			    "%u|%s|%s|N/A|%s|%s\n", i + 1, c->jobs[i].name,
			    runs ? "RUNNING" : "PENDING", runs ? "node1" : "",
			    runs ? "None" : "Resources");
	}
}

static void
run_slurm(void *ctx, const struct espl_spawn *spawn, struct espl_child *child)
{
	struct slurm *c = ctx;
	const char *format = find_option(spawn, "--format="), *last = spawn->argv[spawn->argc - 1];
	unsigned id;

	c->answer[0] = '\0';
	if (strcmp(spawn->argv[0], "sinfo") == 0)
		(void)snprintf(c->answer, sizeof c->answer, "%s",
		    strcmp(format, "%o") != 0 ? "part|part*|up|gpu:1\n" : "10.0.0.1\n");
	else if (strcmp(spawn->argv[0], "sbatch") == 0)
		submit_job(c, find_option(spawn, "--job-name="));
	else if (strcmp(spawn->argv[0], "squeue") == 0)
		list_jobs(c, find_option(spawn, "--name="));
	id = strcmp(spawn->argv[0], "scancel") == 0 ? (unsigned)strtoul(last, NULL, 10) : 0;
	if (id >= 1 && id <= c->count &&
	    strcmp(find_option(spawn, "--name="), c->jobs[id - 1].name) == 0)
		c->jobs[id - 1].running = 0;
	child->out = c->answer;
	child->out_size = strlen(c->answer);
}

static void
forget_jobs(void *ctx)
{
	((struct slurm *)ctx)->count = 0;
}

static uint32_t
count_jobs(void *ctx)
{
	const struct slurm *c = ctx;
	uint32_t count = 0;

	for (unsigned i = 0; i < c->count; i++)
		count += c->jobs[i].running != 0;
	return count;
}

/* ---- hosts with ssh: they cost nothing ---- */

static void
run_ssh(void *ctx, const struct espl_spawn *spawn, struct espl_child *child)
{
	static const char probe[] =
	    "espalier-probe\nmachine x86_64\naddress 10.0.0.1\ngpu GPU-1, 1\n"
	    "disk 1000000\nend\n",
			  look[] = "espalier-look\nfree\n";
	const char *last = spawn->argv[spawn->argc - 1];

	(void)ctx;
	if (strstr(last, "espalier-probe") != NULL)
		child->out = probe;
	else if (strstr(last, "espalier-look") != NULL)
		child->out = look;
	child->out_size = strlen(child->out);
}

static void
forget_nothing(void *ctx)
{
	(void)ctx;
}

static uint32_t
count_nothing(void *ctx)
{
	(void)ctx;
	return 0;
}

/* ---- every fault at every request, for each cloud ---- */

static struct espl_kit *
open_command(void)
{
	static struct provider p;
	static const struct espl_kit_provider provider = { .size = sizeof provider,
		.ctx = &p,
		.child = run_child,
		.reset = forget_machines,
		.machines = count_machines };

	p.kit = espl_kit_new(1);
	espl_kit_set_provider(p.kit, &provider);
	return p.kit;
}

static struct slurm cluster;

static struct espl_kit *
open_slurm(void)
{
	static const struct espl_kit_provider provider = { .size = sizeof provider,
		.ctx = &cluster,
		.child = run_slurm,
		.reset = forget_jobs,
		.machines = count_jobs };

	cluster.kit = espl_kit_new(1);
	espl_kit_set_provider(cluster.kit, &provider);
	return cluster.kit;
}

static struct espl_kit *
open_ssh(void)
{
	static const struct espl_kit_provider provider = { .size = sizeof provider,
		.child = run_ssh,
		.reset = forget_nothing,
		.machines = count_nothing };
	struct espl_kit *kit = espl_kit_new(1);

	espl_kit_set_provider(kit, &provider);
	return kit;
}

static struct espl_kit *
open_kubernetes(void)
{
	static struct kube_server server;

	return kube_server_open(&server, 1);
}

static struct espl_kit *
open_gce(void)
{
	static struct gce_server server;

	return gce_server_open(&server, 1);
}

#ifdef WITH_AWS
static struct espl_kit *
open_aws(void)
{
	static struct ec2_world world;
	struct espl_kit *kit = espl_kit_new(1);

	ec2_world_begin(&world, kit, 1);
	world.boot_most = 30 * S;
	return kit;
}
#endif

static const struct remote {
	const char *name;
	const struct espl_plugin *plugin;
	struct espl_kit *(*open)(void);
	const char *options;
} remotes[] = {
	{ "command", &cloud_command_LTX_espalier_plugin, open_command, command_options },
	{ "slurm", &cloud_slurm_LTX_espalier_plugin, open_slurm, "nodes_max=4" },
	{ "ssh", &cloud_ssh_LTX_espalier_plugin, open_ssh,
	    "hosts=(a,a,me,22,key,1,gpu,0,1.0)(b,b,me,22,key,1,gpu,0,1.0)(c,c,me,22,key,1,gpu,0,1."
	    "0)" },
	{ "gce", &cloud_gce_LTX_espalier_plugin, open_gce, GCE_OPTIONS },
	{ "kubernetes", &cloud_kubernetes_LTX_espalier_plugin, open_kubernetes, KUBE_OPTIONS },
#ifdef WITH_AWS
	{ "aws", &cloud_aws_LTX_espalier_plugin, open_aws, EC2_OPTIONS },
#endif
};

ParameterizedTestParameters(clouds, every_fault_at_every_request)
{
	static size_t which[sizeof remotes / sizeof remotes[0]];

	for (size_t i = 0; i < sizeof which / sizeof which[0]; i++)
		which[i] = i;
	return cr_make_param_array(size_t, which, sizeof which / sizeof which[0]);
}

ParameterizedTest(size_t *which, clouds, every_fault_at_every_request, .timeout = 300)
{
	const struct remote *remote = &remotes[*which];
	struct espl_kit *kit = remote->open();
	const char *log;

	cr_expect_eq(espl_kit_trouble(kit, remote->plugin, remote->options), ESPL_OK);
	log = strstr(espl_kit_log(kit), "trouble: ");
	cr_expect(log != NULL && strtoul(log + strlen("trouble: "), NULL, 10) >= 20, "%s: %s",
	    remote->name, espl_kit_log(kit));
	espl_kit_free(kit);
}

/* ---- single answers ---- */

Test(cloud_command, reasons)
{
	static struct provider p;
	const struct espl_kit_provider provider = { .size = sizeof provider,
		.ctx = &p,
		.child = run_child };
	static const struct {
		const char *answer;
		espl_reason reason;
		espl_span retry_after;
	} cases[] = {
		{ "{\"error\":\"e\",\"kind\":\"capacity\",\"retry_after_s\":600}", ESPL_BY_CAPACITY,
		    600 * S },
		{ "{\"error\":\"e\",\"kind\":\"quota\"}", ESPL_BY_QUOTA, 0 },
		{ "{\"error\":\"e\",\"kind\":\"permanent\"}", ESPL_BY_REFUSAL, 0 },
		{ "{\"error\":\"e\"}", ESPL_BY_FAULT, 0 },
		{ "no JSON", ESPL_BY_FAULT, 0 },
	};
	struct espl_kit *kit = p.kit = espl_kit_new(1);

	espl_kit_set_provider(kit, &provider);
	cr_assert_eq(espl_kit_open(kit, &cloud_command_LTX_espalier_plugin, command_options, NULL),
	    ESPL_OK);
	cr_assert_eq(espl_kit_start(kit), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		uint64_t lease;

		p.refuse = cases[i].answer;
		lease = espl_kit_acquire(kit, 0, 1);
		cr_assert(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR));
		cr_expect_eq(espl_kit_reason(kit, lease), cases[i].reason, "case %zu", i);
		cr_expect_eq(espl_kit_retry_after(kit, lease), cases[i].retry_after, "case %zu", i);
	}
	cr_assert_eq(espl_kit_refused(kit), 0, "%s", espl_kit_log(kit));
	espl_kit_free(kit);
}

static struct espl_kit *
lease_job(void)
{
	struct espl_kit *kit = open_slurm();

	cr_assert_eq(espl_kit_open(kit, &cloud_slurm_LTX_espalier_plugin, "nodes_max=4", NULL),
	    ESPL_OK);
	cr_assert_eq(espl_kit_start(kit), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_READY, HOUR));
	espl_kit_wait(kit, 60 * S);
	return kit;
}

Test(clouds, a_job_that_one_squeue_leaves_out_has_not_ended)
{
	struct espl_kit *kit = lease_job();

	cluster.silent_lists = 1;
	espl_kit_wait(kit, 30 * S);
	cr_expect_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY, "%s", espl_kit_log(kit));
	cr_expect_eq(cluster.silent_lists, 0);
	espl_kit_free(kit);
}

Test(clouds, a_job_that_appears_after_the_end_of_its_lease_is_cancelled)
{
	struct espl_kit *kit = lease_job();

	cluster.silent_lists = 3;
	cr_expect(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, 60 * S));
	espl_kit_wait(kit, 60 * S);
	cr_expect_eq(count_jobs(&cluster), 0, "%s", espl_kit_log(kit));
	espl_kit_free(kit);
}
