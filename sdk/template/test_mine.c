/* test_mine.c - the plugins of this package through espalier's test kit, with nothing but assert.
 *
 * PLUGINS names the folder of the built modules (the makefile sets it).
 */
#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <testkit.h>

static const struct espl_plugin *
load_plugin(struct espl_kit *kit, const char *name)
{
	const char *folder = getenv("PLUGINS");
	const struct espl_plugin *plugin;
	char path[1024];

	(void)snprintf(path, sizeof path, "%s/%s.so", folder != NULL ? folder : ".", name);
	plugin = espl_kit_load(kit, path);
	if (plugin == NULL)
		(void)fprintf(stderr, "%s", espl_kit_log(kit));
	assert(plugin != NULL);
	return plugin;
}

/* Trials with a small x are good ones; the worst come last. */
static double
trial_loss(void *ctx, const struct espl_trial *trial, uint64_t iteration)
{
	(void)ctx;
	return (1.0 + trial->values[0]) / (double)iteration;
}

static void
test_algorithm(void)
{
	struct espl_kit *kit = espl_kit_new(1);
	struct espl_error error;

	espl_kit_real(kit, "x", 0, 10, ESPL_LINEAR, 0);
	assert(espl_kit_open(kit, load_plugin(kit, "algorithm_mine"), "trials=8 grace=20",
		   &error) == ESPL_E_CONFIG);
	assert(strstr(error.text, "grace") != NULL);

	assert(espl_kit_open(kit, load_plugin(kit, "algorithm_mine"), "trials=8 margin=0.2",
		   &error) == ESPL_OK);
	assert(espl_kit_search(kit, 2, 1000, trial_loss, NULL) == ESPL_OK);
	assert(espl_kit_refused(kit) == 0);
	assert(espl_kit_trials(kit) == 8);
	assert(strstr(espl_kit_log(kit), "stop") != NULL);
	espl_kit_free(kit);
}

static void
test_allocator(void)
{
	struct espl_kit *kit = espl_kit_new(1);
	uint64_t first;

	assert(espl_kit_open(kit, load_plugin(kit, "allocator_mine"), "nodes=2", NULL) == ESPL_OK);
	(void)espl_kit_offer(kit, "small", 2, 10, 1.0);
	first = espl_kit_item(kit, 2, 8);
	(void)espl_kit_item(kit, 2, 8);
	(void)espl_kit_item(kit, 1, 8);
	assert(espl_kit_allocate(kit) == ESPL_OK);
	assert(strcmp(espl_kit_log(kit),
		   "target offer=0 nodes=2\ngrant item=0 gpus=2\n"
		   "grant item=1 gpus=2\n") == 0);
	espl_kit_clear(kit);
	espl_kit_leave(kit, first);
	assert(espl_kit_allocate(kit) == ESPL_OK);
	assert(strcmp(espl_kit_log(kit), "grant item=2 gpus=1\n") == 0);
	espl_kit_free(kit);
}

static void
test_placer(void)
{
	struct espl_kit *kit = espl_kit_new(1);
	uint64_t item;

	assert(espl_kit_open(kit, load_plugin(kit, "placer_mine"), "", NULL) == ESPL_OK);
	(void)espl_kit_offer(kit, "small", 2, 10, 1.0);
	item = espl_kit_item(kit, 1, 8);
	espl_kit_grant(kit, item, 2, 1);
	assert(espl_kit_place(kit) == ESPL_OK); /* there is no node yet */
	assert(espl_kit_calls(kit) == 0);
	(void)espl_kit_node(kit, 0, ESPL_NODE_READY);
	assert(espl_kit_place(kit) == ESPL_OK);
	assert(strcmp(espl_kit_log(kit), "place item=0 0.0 0.1\n") == 0);
	espl_kit_free(kit);
}

/* ---- the cloud: `mine` as the cloud knows it --------------------------------------------------
 */

#define HOUR (3600 * ESPL_SECOND)

struct provider {
	struct espl_kit *kit;
	struct {
		char name[65], run[65];
		const char *state; /* "": gone without a trace */
		espl_time ready;
	} machines[100];
	unsigned count;
	const char *broken; /* this command exits with status */
	int status;
	char out[20000];
};

static unsigned
find(const struct provider *p, const char *name)
{
	unsigned i = 0;

	while (i < p->count &&
	    (*p->machines[i].state == '\0' || strcmp(p->machines[i].name, name) != 0))
		i++;
	return i;
}

static void
print_machine(struct provider *p, unsigned i)
{
	size_t used = strlen(p->out);

	if (*p->machines[i].state == '\0')
		return;
	if (strcmp(p->machines[i].state, "booting") == 0 &&
	    espl_kit_time(p->kit) >= p->machines[i].ready)
		p->machines[i].state = "running";
	(void)snprintf(p->out + used, sizeof p->out - used, "%s %s 10.0.0.%u %s\n",
	    p->machines[i].name, p->machines[i].state, i, p->machines[i].run);
}

static void
run_mine(void *ctx, const struct espl_spawn *spawn, struct espl_child *child)
{
	struct provider *p = ctx;
	const char *const *argv = spawn->argv;
	unsigned i;

	p->out[0] = '\0';
	child->out = p->out;
	assert(strcmp(argv[0], "mine") == 0);
	if (p->broken != NULL && strcmp(argv[1], p->broken) == 0) {
		child->exit_code = p->status;
		child->out = "90\n";
		child->err = "not today\n";
		return;
	}
	if (strcmp(argv[1], "create") == 0) {
		assert(spawn->argc == 5);
		i = find(p, argv[3]);
		if (i == p->count) {
			assert(p->count < 100);
			(void)snprintf(p->machines[i].name, 65, "%s", argv[3]);
			(void)snprintf(p->machines[i].run, 65, "%s", argv[4]);
			p->machines[i].state = "booting";
			p->machines[i].ready = espl_kit_time(p->kit) + 25 * ESPL_SECOND;
			p->count++;
		}
		print_machine(p, i);
	} else if (strcmp(argv[1], "delete") == 0) {
		i = find(p, argv[2]);
		if (i < p->count)
			p->machines[i].state = "";
	} else {
		assert(strcmp(argv[1], "list") == 0);
		for (i = 0; i < p->count; i++)
			if (spawn->argc < 3 || strcmp(p->machines[i].run, argv[2]) == 0)
				print_machine(p, i);
	}
}

static uint32_t
count_machines(void *ctx)
{
	const struct provider *p = ctx;
	uint32_t running = 0;
	unsigned i;

	for (i = 0; i < p->count; i++)
		running +=
		    *p->machines[i].state != '\0' && strcmp(p->machines[i].state, "gone") != 0;
	return running;
}

static void
forget_machines(void *ctx)
{
	((struct provider *)ctx)->count = 0;
}

static void
test_cloud(void)
{
	static struct provider p;
	const struct espl_kit_provider provider = { .size = sizeof provider,
		.ctx = &p,
		.child = run_mine,
		.reset = forget_machines,
		.machines = count_machines };
	struct espl_kit *kit = p.kit = espl_kit_new(1);
	const struct espl_plugin *cloud = load_plugin(kit, "cloud_mine");
	const char *options = "types=(small,1,0.5)(big,8,3.9)";
	uint64_t lease;

	espl_kit_set_provider(kit, &provider);
	assert(espl_kit_open(kit, cloud, options, NULL) == ESPL_OK);
	assert(espl_kit_start(kit) == ESPL_OK);
	assert(espl_kit_wait_done(kit, HOUR) == ESPL_OK);

	/* A machine boots, is reached, and ends when it is released. */
	lease = espl_kit_acquire(kit, 1, 1);
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	assert(strstr(espl_kit_log(kit), "child mine create big espl-kit-0 kit") != NULL);
	assert(espl_kit_reach(kit, lease) == ESPL_OK);
	assert(strstr(espl_kit_log(kit), "reach lease=0 ssh -o BatchMode=yes -- 10.0.0.0") != NULL);
	assert(espl_kit_release(kit, lease) == ESPL_OK);
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR));
	assert(espl_kit_reason(kit, lease) == ESPL_BY_USER && count_machines(&p) == 0);

	/* One is taken away, with notice. */
	lease = espl_kit_acquire(kit, 0, 1);
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	p.machines[1].state = "leaving";
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_NOTICE, HOUR));
	p.machines[1].state = "gone";
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR));
	assert(espl_kit_reason(kit, lease) == ESPL_BY_PROVIDER);

	/* No machine is left; a request is refused; a machine is deleted by another user; espalier
	 * is killed and resumed. */
	p.broken = "create";
	p.status = 3;
	lease = espl_kit_acquire(kit, 0, 1);
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR));
	assert(espl_kit_reason(kit, lease) == ESPL_BY_CAPACITY);
	assert(espl_kit_retry_after(kit, lease) == 90 * ESPL_SECOND);
	p.status = 4;
	lease = espl_kit_acquire(kit, 0, 1);
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR));
	assert(espl_kit_reason(kit, lease) == ESPL_BY_REFUSAL);
	p.broken = NULL;
	lease = espl_kit_acquire(kit, 0, 1);
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	espl_kit_restart(kit);
	p.machines[2].state = "";
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR));
	assert(espl_kit_reason(kit, lease) == ESPL_BY_FAULT);
	assert(espl_kit_refused(kit) == 0);

	/* And every fault at every request. */
	if (espl_kit_trouble(kit, cloud, options) != ESPL_OK) {
		(void)fputs(espl_kit_log(kit), stderr);
		abort();
	}
	(void)fputs(espl_kit_log(kit), stdout);
	espl_kit_free(kit);
}

/* ---- the provider of cloud_rest ---- */

struct rest_server {
	struct espl_kit *kit;
	struct {
		char name[65], run[65];
		const char *state; /* NULL: booting, then running; "" there is none */
		espl_time runs;
	} machines[16];
	unsigned count;
	const char *refuse; /* the body of an answer with status `code` to POST */
	uint32_t code;
	char body[4000];
};

static const char *
show_rest(const struct rest_server *s, unsigned i)
{
	return s->machines[i].state != NULL                ? s->machines[i].state
	    : espl_kit_time(s->kit) >= s->machines[i].runs ? "running"
							   : "booting";
}

static void
print_rest(struct rest_server *s, unsigned i)
{
	size_t used = strlen(s->body);

	if (show_rest(s, i)[0] != '\0')
		(void)snprintf(s->body + used, sizeof s->body - used, "%s %s %s 10.0.0.%u\n",
		    s->machines[i].name, s->machines[i].run, show_rest(s, i), i);
}

static void
serve_rest(void *ctx, const struct espl_http *request, struct espl_http_reply *reply)
{
	struct rest_server *s = ctx;
	const char *path = request->url + strlen("https://api.rest.example");
	char name[65] = "", run[65] = "";
	unsigned i = 0;

	s->body[0] = '\0';
	reply->body = s->body;
	assert(strcmp(request->headers[0], "Authorization: Bearer the-key") == 0);
	(void)sscanf(path, "/machines/%64s", name);
	(void)sscanf(path, "/machines?run=%64s", run);
	if (request->body != NULL)
		(void)sscanf(request->body, "{\"name\":\"%64[^\"]\",\"run\":\"%64[^\"]\"", name,
		    run);
	while (
	    i < s->count && (strcmp(s->machines[i].name, name) != 0 || show_rest(s, i)[0] == '\0'))
		i++;
	if (strcmp(request->method, "POST") == 0 && s->refuse != NULL) {
		reply->code = s->code;
		(void)snprintf(s->body, sizeof s->body, "%s", s->refuse);
	} else if (strcmp(request->method, "POST") == 0) {
		assert(i < 16);
		if (i < s->count)
			reply->code = 409; /* of this name there is one */
		else
			s->count++;
		memcpy(s->machines[i].name, name, sizeof name);
		memcpy(s->machines[i].run, run, sizeof run);
		s->machines[i].state = NULL;
		s->machines[i].runs = espl_kit_time(s->kit) + 20 * ESPL_SECOND;
		print_rest(s, i);
	} else if (name[0] != '\0' && i == s->count) {
		reply->code = 404;
	} else if (name[0] != '\0') {
		if (strcmp(request->method, "DELETE") == 0)
			s->machines[i].state = "";
		print_rest(s, i);
	} else {
		for (i = 0; i < s->count; i++)
			if (run[0] == '\0' || strcmp(run, s->machines[i].run) == 0)
				print_rest(s, i);
	}
	reply->body_size = strlen(s->body);
}

static void
reach_rest(void *ctx, const struct espl_spawn *spawn, struct espl_child *child)
{
	(void)ctx;
	assert(strcmp(spawn->argv[0], "ssh") == 0);
	child->exit_code = 0;
}

static const char *
know_key(void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, "env:REST_KEY") == 0 ? "the-key" : NULL;
}

static void
forget_rest(void *ctx)
{
	((struct rest_server *)ctx)->count = 0;
}

static uint32_t
count_rest(void *ctx)
{
	const struct rest_server *s = ctx;
	uint32_t count = 0;

	for (unsigned i = 0; i < s->count; i++)
		count += show_rest(s, i)[0] != '\0' && strcmp(show_rest(s, i), "gone") != 0;
	return count;
}

static void
test_cloud_rest(void)
{
	static const char options[] = "offers=(large,north,spot,4,2.5,8,A100)";
	static struct rest_server s;
	const struct espl_kit_provider provider = { .size = sizeof provider,
		.ctx = &s,
		.http = serve_rest,
		.child = reach_rest,
		.secret = know_key,
		.reset = forget_rest,
		.machines = count_rest };
	struct espl_kit *kit = s.kit = espl_kit_new(1);
	const struct espl_plugin *cloud = load_plugin(kit, "cloud_rest");
	uint64_t lease;

	espl_kit_set_provider(kit, &provider);
	assert(espl_kit_open(kit, cloud, options, NULL) == ESPL_OK);
	assert(espl_kit_start(kit) == ESPL_OK && espl_kit_wait_done(kit, HOUR) == ESPL_OK);
	lease = espl_kit_acquire(kit, 0, 1);
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_READY, HOUR));
	assert(espl_kit_reach(kit, lease) == ESPL_OK);
	s.machines[0].state = "leaving";
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_NOTICE, HOUR));
	s.machines[0].state = "gone";
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR));
	assert(espl_kit_reason(kit, lease) == ESPL_BY_PROVIDER);
	s.refuse = "none left";
	s.code = 409;
	lease = espl_kit_acquire(kit, 0, 1);
	assert(espl_kit_wait_node(kit, lease, ESPL_NODE_ENDED, HOUR));
	assert(espl_kit_reason(kit, lease) == ESPL_BY_CAPACITY);
	s.refuse = NULL;
	assert(espl_kit_refused(kit) == 0);

	/* And every fault at every request. */
	if (espl_kit_trouble(kit, cloud, options) != ESPL_OK) {
		(void)fputs(espl_kit_log(kit), stderr);
		abort();
	}
	(void)fputs(espl_kit_log(kit), stdout);
	espl_kit_free(kit);
}

int
main(void)
{
	test_algorithm();
	test_allocator();
	test_placer();
	test_cloud();
	test_cloud_rest();
	(void)puts("the plugins do as they should");
	return 0;
}
