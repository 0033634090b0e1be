/* check_kit.c - findings and recording for check-plugin; the made-up options an instance gets. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/hash.h"
#include "base/mem.h"
#include "check/check_kit.h"

void
espl__check_ok(struct espl__check *check, const char *format, ...)
{
	va_list list;

	ESPL__CHECK(check, CHECK);
	fprintf(check->out, "ok ");
	va_start(list, format);
	vfprintf(check->out, format, list);
	va_end(list);
	fputc('\n', check->out);
	fflush(check->out); /* a crash must not take the line with it */
}

/* Do two texts say the same but for their numbers? */
static int
is_same(const char *a, const char *b)
{
	for (;;) {
		a += strspn(a, "0123456789");
		b += strspn(b, "0123456789");
		if (*a != *b)
			return 0;
		if (*a == '\0')
			return 1;
		a++;
		b++;
	}
}

static void
note_view(const struct espl__check *check, struct espl__check_finding *finding)
{
	if (finding->times++ == 0)
		snprintf(finding->view, sizeof finding->view, "%s",
		    check->view != NULL ? check->view : "");
}

/* Kept where a crash of this process does not take them along. */
void
espl__check_error(struct espl__check *check, const char *format, ...)
{
	struct espl__check_shared *shared = check->shared;
	char text[sizeof shared->findings[0].text];
	unsigned i = 0;
	va_list list;

	ESPL__CHECK(check, CHECK);
	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	shared->errors++;
	while (i < shared->finding_count && !is_same(shared->findings[i].text, text))
		i++;
	if (i == ESPL__CHECK_FINDINGS)
		return;
	if (i == shared->finding_count) {
		memcpy(shared->findings[i].text, text, sizeof text);
		shared->finding_count++;
	}
	note_view(check, &shared->findings[i]);
}

/* A sink call that the host would refuse, and why: they are counted, and the first is reported. */
static void
note_refusal(struct espl__check *check, const char *why)
{
	struct espl__check_finding *refused = &check->shared->refused;

	ESPL__CHECK(check, CHECK);
	if (refused->times == 0)
		(void)snprintf(refused->text, sizeof refused->text, "%s", why);
	note_view(check, refused);
}

unsigned
espl__check_found(const struct espl__check *check)
{
	ESPL__CHECK(check, CHECK);
	return (unsigned)check->shared->errors + check->shared->refused.times;
}

void
espl__check_step(struct espl__check *check, const char *format, ...)
{
	va_list list;

	ESPL__CHECK(check, CHECK);
	va_start(list, format);
	vsnprintf(check->shared->step, sizeof check->shared->step, format, list);
	va_end(list);
}

/* ---- recording --------------------------------------------------------------------- */

void
espl__check_begin(struct espl__check *check)
{
	ESPL__CHECK(check, CHECK);
	check->digest = 0;
	check->calls = 0;
}

espl_status
espl__check_call(struct espl__check *check, const char *name, const void *data, size_t size)
{
	ESPL__CHECK(check, CHECK);
	ESPL__ASSERT(name != NULL && (data != NULL || size == 0));
	check->digest = espl__digest(check->digest, name, strlen(name));
	check->digest = espl__digest(check->digest, data, size);
	if (++check->calls > ESPL__CHECK_CALLS) {
		/* It will hardly ever return: say so and let go of it with this process. */
		espl__check_error(check, "%s: called its sink (%s) more than %u times%s",
		    check->shared->step, name, ESPL__CHECK_CALLS,
		    check->kit != NULL && check->kit->refusing
			? ", although every call was rejected"
			: "");
		check->shared->finished = 1;
		fflush(check->out);
		_exit(1);
	}
	return ESPL_OK;
}

/* An entry came back: OK, BUSY, INFEASIBLE of plan and UNKNOWN of spec and describe are answers,
 * anything else is reported as an error. Returns 1 if the answer counts (OK). */
static int
check_returned(struct espl__check *check, const char *what, espl_status status,
    const struct espl_error *error)
{
	struct espl__diag diag = ESPL__DIAG_INIT;

	ESPL__CHECK(check, CHECK);
	ESPL__ASSERT(what != NULL);
	if (status == ESPL_OK)
		return 1;
	if (status == ESPL_E_BUSY || (status == ESPL_E_INFEASIBLE && strcmp(what, "plan") == 0) ||
	    (status == ESPL_E_UNKNOWN &&
		(strcmp(what, "spec") == 0 || strcmp(what, "describe") == 0)))
		return 0;
	if (check->kit != NULL && (check->kit->refusing || check->kit->full))
		return 0; /* after a refusal it may fail as it likes */
	espl__diag_plugin(&diag, what, status, error);
	espl__check_error(check, "%s", diag.text);
	return 0;
}

/* ---- what the kit says ------------------------------------------------------------- */

static void
on_heard(void *ctx, const char *call, const void *bytes, size_t size)
{
	(void)espl__check_call(ctx, call, bytes, size);
}

static void
on_refused(void *ctx, const char *call, enum kit_weight weight, const char *why)
{
	if (weight == KIT_REFUSED)
		note_refusal(ctx, why);
	else if (weight == KIT_GRAVE)
		espl__check_error(ctx, "%s: %s", call, why);
}

static void
on_wrong(void *ctx, const char *entry, const char *why)
{
	espl__check_error(ctx, "%s: %s", entry, why);
}

static uint64_t
digest_nodes(uint64_t digest, const struct espl_node *const *nodes, uint32_t count)
{
	digest = espl__digest(digest, nodes, count * sizeof(void *));
	for (uint32_t i = 0; i < count; i++) {
		digest = espl__digest(digest, nodes[i], sizeof *nodes[i]);
		for (uint32_t k = 0; k < nodes[i]->gpu_count; k++)
			digest = espl__digest(digest, nodes[i]->gpus[k], sizeof(struct espl_gpu));
	}
	return digest;
}

/* Of all bytes that the entry must leave as they are. */
static uint64_t
digest_view(const struct espl__check *check, const char *entry, const void *view)
{
	const struct espl_alloc_view *alloc = view;
	const struct espl_place_view *place = view;
	const struct espl_observation *seen = view;
	uint64_t digest = 0;

	if (strcmp(entry, "allocate") == 0) {
		digest = espl__digest(digest, alloc, sizeof *alloc);
		digest = espl__digest(digest, alloc->items, alloc->item_count * sizeof(void *));
		for (uint32_t i = 0; i < alloc->item_count; i++)
			digest = espl__digest(digest, alloc->items[i], sizeof *alloc->items[i]);
		digest = digest_nodes(digest, alloc->nodes, alloc->node_count);
	} else if (strcmp(entry, "place") == 0) {
		digest = espl__digest(digest, place, sizeof *place);
		for (uint32_t i = 0; i < place->gang_count; i++)
			digest = espl__digest(digest, place->gangs[i], sizeof *place->gangs[i]);
		digest = digest_nodes(digest, place->nodes, place->node_count);
	} else if (strcmp(entry, "on_report") == 0) {
		digest = espl__digest(digest, seen, sizeof *seen);
		digest = espl__digest(digest, seen->metrics, sizeof *seen->metrics);
		digest = espl__digest(digest, seen->values,
		    check->kit->space.param_count * sizeof *seen->values);
	}
	return digest;
}

static void
on_called(void *ctx, const char *entry, const void *view)
{
	struct espl__check *check = ctx;

	ESPL__CHECK(check, CHECK);
	check->view_digest = digest_view(check, entry, view);
}

static void
on_returned(void *ctx, const char *entry, const void *view, espl_status status,
    const struct espl_error *error)
{
	struct espl__check *check = ctx;

	ESPL__CHECK(check, CHECK);
	if (check->view_digest != digest_view(check, entry, view))
		espl__check_error(check, "%s: writes into its view, which is const", entry);
	check->counts = check_returned(check, entry, status, error) && !check->kit->refusing;
}

/* A plan counts if it keeps deadline and budget: then it is the experiment's. */
static espl_status
on_plan(void *ctx, const struct espl_plan *plan)
{
	struct espl__check *check = ctx;
	struct espl_kit *kit = check->kit;
	struct espl_prediction prediction = ESPL_INIT(struct espl_prediction);
	struct espl_plan *copy;
	const struct espl_plan_stage **list;

	if (check->model.predict(&check->model, plan, NULL, &prediction, NULL) != ESPL_OK ||
	    !prediction.meets)
		return ESPL_E_REJECTED;
	copy = espl__kit_alloc(kit, sizeof *copy);
	list = espl__kit_alloc(kit, plan->stage_count * sizeof *list);
	*copy = *plan;
	copy->stages = list;
	for (uint32_t i = 0; i < plan->stage_count; i++) {
		struct espl_plan_stage *stage = espl__kit_alloc(kit, sizeof *stage);

		*stage = *plan->stages[i];
		list[i] = stage;
	}
	kit->experiment.plan = copy;
	return ESPL_OK;
}

static const void *
find_service(void *ctx, struct espl__instance *instance, const char *id)
{
	struct espl__check *check = ctx;

	(void)instance;
	return check->kit != NULL ? check->kit->host.service(&check->kit->host, id) : NULL;
}

void
espl__check_init(struct espl__check *check)
{
	check->env = (struct espl__host_env){ .utc_start_s = 1700000000,
		.simulated = 1,
		.now = &check->now,
		.directory = "",
		.ctx = check,
		.service = find_service };
	check->watch = (struct kit_watch){ .ctx = check,
		.heard = on_heard,
		.refused = on_refused,
		.wrong = on_wrong,
		.called = on_called,
		.returned = on_returned,
		.plan = on_plan };
}

int
espl__check_open(struct espl__check *check)
{
	struct espl_kit *kit = check->kit;

	check->env.now = &kit->now;
	espl__check_begin(check);
	check->instance = espl__check_create(check, 7);
	if (check->instance == NULL)
		return 0;
	kit->plugin = check->plugin->desc;
	kit->self = check->instance->self;
	kit->watch = &check->watch;
	return 1;
}

void
espl__check_close(struct espl__check *check)
{
	check->view = NULL;
	espl__check_step(check, "destroy");
	espl__instance_destroy(check->instance);
	check->instance = NULL;
	check->kit->plugin = NULL; /* it is not the kit's to destroy */
	espl_kit_free(check->kit);
	check->kit = NULL;
	check->env.now = &check->now;
}

void
espl__check_clear(struct espl_kit *kit)
{
	while (kit->item_count > 0)
		espl_kit_leave(kit, kit->items[kit->item_count - 1]->pub.id);
	for (uint32_t i = 0; i < kit->node_count; i++)
		if (!kit->nodes[i]->gone)
			espl_kit_node_state(kit, i, ESPL_NODE_ENDED);
}

/* ---- options and instances --------------------------------------------------------- */

/* A value for an option, from its limits where it has some. */
static void
print_sample(const struct espl_option *option, uint32_t stride, int level, struct espl__buf *buf)
{
	switch (option->type) {
	case ESPL_OPT_BOOL: espl__print(buf, "true"); break;
	case ESPL_OPT_INT:
	case ESPL_OPT_BYTES:
	case ESPL_OPT_REAL:
	case ESPL_OPT_MONEY:
		if (option->min != NULL && option->type == ESPL_OPT_BYTES)
			espl__print(buf, "\"%s\"", option->min);
		else
			espl__print(buf, "%s",
			    option->min != NULL       ? option->min
				: option->max != NULL ? option->max
						      : "1");
		break;
	case ESPL_OPT_SPAN:
	case ESPL_OPT_LATENCY:
		espl__print(buf, "\"%s\"", option->min != NULL ? option->min : "1s");
		break;
	case ESPL_OPT_CHOICE:
		espl__print(buf, "\"%.*s\"", (int)strcspn(option->choices, "|"), option->choices);
		break;
	case ESPL_OPT_PATH: espl__print(buf, "\"/dev/null\""); break;
	case ESPL_OPT_TABLE:
		espl__print(buf, "( { ");
		for (uint32_t c = 0; c < option->column_count; c++) {
			const struct espl_option *column =
			    espl__option_at(option->columns, stride, c);

			if (!(column->flags & ESPL_OPT_REQUIRED) &&
			    (level < 1 || column->fallback != NULL))
				continue;
			espl__print(buf, "%s = ", column->name);
			print_sample(column, stride, level, buf);
			espl__print(buf, "; ");
		}
		espl__print(buf, "} )");
		break;
	default: espl__print(buf, "\"x\"");
	}
}

static void
make_group(struct espl__check *check)
{
	const struct espl_plugin *desc = check->plugin->desc;
	struct espl__buf buf = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;

	espl__print(&buf, "group = {\n");
	for (uint32_t i = 0; i < desc->option_count; i++) {
		const struct espl_option *option =
		    espl__option_at(desc->options, desc->option_size, i);

		if (!(option->flags & ESPL_OPT_REQUIRED) &&
		    (check->level < 2 || option->type != ESPL_OPT_TABLE))
			continue;
		espl__print(&buf, "\t%s = ", option->name);
		print_sample(option, desc->option_size, check->level, &buf);
		espl__print(&buf, ";\n");
	}
	espl__print(&buf, "};\n");
	if (espl__tree_parse(espl__buf_text(&buf), "(made up)", &check->tree, &diag) == ESPL_OK)
		check->group = espl__node_get(espl__tree_root(check->tree), "group");
	else
		espl__check_error(check, "cannot generate values for the required options: %s",
		    diag.text);
	espl__buf_free(&buf);
}

int
espl__check_level(struct espl__check *check)
{
	if (check->level == 2)
		return 0;
	check->level++;
	espl__tree_free(check->tree);
	check->tree = NULL;
	check->group = NULL;
	make_group(check);
	return check->group != NULL;
}

struct espl__instance *
espl__check_create(struct espl__check *check, uint64_t seed)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__instance *instance = NULL;

	if (check->tree == NULL)
		make_group(check);
	check->env.seed = seed;
	do {
		diag = (struct espl__diag)ESPL__DIAG_INIT;
		espl__check_step(check, "create");
		if (espl__instance_of(check->plugin, check->group, &check->env, &instance, &diag) ==
		    ESPL_OK)
			return instance;
	} while ((diag.status == ESPL_E_CONFIG || diag.status == ESPL_E_UNSUPPORTED) &&
	    espl__check_level(check));
	if (diag.status != ESPL_E_CONFIG && diag.status != ESPL_E_UNSUPPORTED)
		espl__check_error(check, "create: %s", diag.text);
	else if (!check->refused)
		espl__check_ok(check,
		    "create rejected the generated options (%s), so the functions were not tested",
		    diag.text);
	check->refused = 1;
	return NULL;
}
