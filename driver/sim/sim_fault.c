/* sim_fault.c - the fault script of a simulation: which fault occurs, when, and where.
 *
 * A libconfig file with one list, faults = ( { kind = "..."; ... }, ... ). Each kind has its own
 * option table, so unknown keys, wrong types and limits get the same messages as anywhere else.
 * Format: docs/simulation.md.
 */
#include <string.h>
#include "base/text.h"
#include "config/schema.h"
#include "model/ledger.h"
#include "sim/sim_impl.h"

/* clang-format off */
#define AT       { .name = "at", .help = "time on the clock of the run", .type = ESPL_OPT_SPAN, \
                   .flags = ESPL_OPT_REQUIRED }
/* clang-format on */
#define NODE \
	{ \
		.name = "node", .help = "number of the node", .min = "0", .type = ESPL_OPT_INT \
	}
/* clang-format off */
#define THE_NODE { .name = "node", .help = "number of the node", .min = "0", .type = ESPL_OPT_INT, \
                   .flags = ESPL_OPT_REQUIRED }
/* clang-format on */
#define FROM \
	{ \
		.name = "from", .help = "start of the fault", .type = ESPL_OPT_SPAN \
	}
#define TO \
	{ \
		.name = "to", .help = "end of the fault", .type = ESPL_OPT_SPAN \
	}
/* clang-format off */
#define OFFER    { .name = "offer", .help = "name of the offer; default: all", \
                   .type = ESPL_OPT_STRING }
/* clang-format on */
/* clang-format off */
#define TRIAL    { .name = "trial", .help = "number of the trial; default: any", .min = "0", \
                   .type = ESPL_OPT_INT }
/* clang-format on */
#define ITERATION \
	{ \
		.name = "iteration", .help = "default: any", .min = "1", .type = ESPL_OPT_INT \
	}
/* clang-format off */
#define TIMES(n_) { .name = "times", .help = "how many times it occurs; 0: unlimited", \
                    .fallback = (n_), .min = "0", .max = "1000000000", .type = ESPL_OPT_INT }
/* clang-format on */
/* clang-format off */
#define FACTOR   { .name = "factor", .help = "factor on durations", .min = "0", \
                   .max = "1000000", .type = ESPL_OPT_REAL, .flags = ESPL_OPT_REQUIRED }
/* clang-format on */

/* clang-format off */
#define PROBABILITY { .name = "probability", .help = "share of the nodes that it strikes", \
                      .fallback = "1", .min = "0", .max = "1", .type = ESPL_OPT_REAL }
#define MACHINE  { .name = "machine", .help = "only this machine of the provider; default: all", \
                   .type = ESPL_OPT_STRING }
/* clang-format on */

static const struct espl_option node_lost[] = { AT, THE_NODE };
static const struct espl_option notice[] = { AT, THE_NODE,
	{ .name = "notice",
	    .help = "time between the interruption notice and the end; default: that of the offer",
	    .type = ESPL_OPT_SPAN } };
static const struct espl_option unreachable[] = { AT, THE_NODE,
	{ .name = "for",
	    .help = "how long nothing reaches the node",
	    .min = "1ns",
	    .type = ESPL_OPT_SPAN,
	    .flags = ESPL_OPT_REQUIRED } };
static const struct espl_option gpu_lost[] = { AT, THE_NODE,
	{ .name = "gpu",
	    .help = "number of the GPU on its node; default: all of them",
	    .min = "0",
	    .max = "1000000",
	    .type = ESPL_OPT_INT } };
static const struct espl_option slow_boot[] = { FACTOR, FROM, TO, OFFER };
static const struct espl_option no_capacity[] = { FROM, TO, OFFER, PROBABILITY,
	{ .name = "retry_after",
	    .help = "when the provider asks to try again; default: it does not say",
	    .type = ESPL_OPT_SPAN },
	{ .name = "reason",
	    .help = "what the provider lacks, or that it refuses for good",
	    .fallback = "capacity",
	    .choices = "capacity|quota|refused",
	    .type = ESPL_OPT_CHOICE } };
static const struct espl_option boot_fails[] = { FROM, TO, OFFER, PROBABILITY, MACHINE,
	{ .name = "after",
	    .help = "time after the boot at which the node is given up; default: that of init",
	    .type = ESPL_OPT_SPAN } };
static const struct espl_option no_notice[] = { FROM, TO, OFFER, PROBABILITY };
static const struct espl_option strikes_once[] = { TRIAL, ITERATION, TIMES("1"), FROM, TO };
static const struct espl_option trial_fails[] = { TRIAL, ITERATION, TIMES("1"), FROM, TO, MACHINE };
static const struct espl_option not_a_number[] = { TRIAL, ITERATION, TIMES("0"), FROM, TO,
	{ .name = "metric", .help = "name of the metric; default: all", .type = ESPL_OPT_STRING } };
static const struct espl_option crash_rate[] = { { .name = "probability",
						     .help = "probability that an iteration fails",
						     .min = "0",
						     .max = "1",
						     .type = ESPL_OPT_REAL,
						     .flags = ESPL_OPT_REQUIRED },
	TRIAL, TIMES("0"), FROM, TO };
static const struct espl_option bad_configuration[] = {
	{ .name = "share",
	    .help = "share of the configurations that always fail",
	    .min = "0",
	    .max = "1",
	    .type = ESPL_OPT_REAL,
	    .flags = ESPL_OPT_REQUIRED },
	ITERATION,
	{ .name = "silent",
	    .help = "true: they report no more, and do not end",
	    .fallback = "false",
	    .type = ESPL_OPT_BOOL },
	FROM, TO
};
static const struct espl_option slow[] = { FACTOR, TRIAL, NODE, MACHINE, FROM, TO };
static const struct espl_option bad_gpu[] = { FROM, TO, MACHINE, PROBABILITY,
	{ .name = "gpu",
	    .help = "number of the GPU on its node; default: all of them",
	    .min = "0",
	    .max = "1000000",
	    .type = ESPL_OPT_INT } };
static const struct espl_option kills_node[] = { TRIAL, ITERATION, TIMES("1"), FROM, TO,
	{ .name = "says",
	    .help = "what the provider says of the machine's end",
	    .fallback = "fault script: kills-node",
	    .type = ESPL_OPT_STRING } };
static const struct espl_option no_route[] = { FROM, TO };
static const struct espl_option stop[] = { AT };

#define KIND(kind_, name_, table_) \
	[kind_] = { name_, table_, (uint32_t)(sizeof(table_) / sizeof((table_)[0])) }
static const struct {
	const char *name;
	const struct espl_option *options;
	uint32_t count;
} kinds[] = {
	KIND(ESPL__FAULT_NODE_LOST, "node-lost", node_lost),
	KIND(ESPL__FAULT_NOTICE, "notice", notice),
	KIND(ESPL__FAULT_AT_RISK, "at-risk", node_lost),
	KIND(ESPL__FAULT_UNREACHABLE, "unreachable", unreachable),
	KIND(ESPL__FAULT_SLOW_BOOT, "slow-boot", slow_boot),
	KIND(ESPL__FAULT_NO_CAPACITY, "no-capacity", no_capacity),
	KIND(ESPL__FAULT_BOOT_FAILS, "boot-fails", boot_fails),
	KIND(ESPL__FAULT_TRIAL_FAILS, "trial-fails", trial_fails),
	KIND(ESPL__FAULT_TRIAL_LOST, "trial-lost", strikes_once),
	KIND(ESPL__FAULT_NAN, "nan", not_a_number),
	KIND(ESPL__FAULT_HANG, "hang", strikes_once),
	KIND(ESPL__FAULT_CRASH_RATE, "crash-rate", crash_rate),
	KIND(ESPL__FAULT_BAD_CONFIGURATION, "bad-configuration", bad_configuration),
	KIND(ESPL__FAULT_SLOW, "slow", slow),
	KIND(ESPL__FAULT_BAD_CHECKPOINT, "bad-checkpoint", strikes_once),
	KIND(ESPL__FAULT_GPU_LOST, "gpu-lost", gpu_lost),
	KIND(ESPL__FAULT_STOP, "stop", stop),
	KIND(ESPL__FAULT_NO_NOTICE, "no-notice", no_notice),
	KIND(ESPL__FAULT_BAD_GPU, "bad-gpu", bad_gpu),
	KIND(ESPL__FAULT_NO_ROUTE, "no-route", no_route),
	KIND(ESPL__FAULT_KILLS_NODE, "kills-node", kills_node),
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

/* ---- loading ------------------------------------------------------------------------- */

static espl_status
find_kind(const struct espl__node *group, uint32_t *kind, struct espl__diag *diag)
{
	const struct espl__node *node = espl__node_get(group, "kind");
	const char *names[KIND_COUNT], *near;

	if (node == NULL || node->type != ESPL__STRING)
		return espl__fail_at(diag, ESPL_E_CONFIG, (node != NULL ? node : group)->file,
		    (node != NULL ? node : group)->line,
		    "a fault needs a 'kind', which is a string");
	for (uint32_t i = 0; i < KIND_COUNT; i++) {
		names[i] = kinds[i].name;
		if (strcmp(node->text, names[i]) == 0) {
			*kind = i;
			return ESPL_OK;
		}
	}
	espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line, "unknown fault '%s'",
	    node->text);
	near = espl__nearest(node->text, names, KIND_COUNT);
	if (near != NULL)
		espl__hint(diag, "did you mean '%s'?", near);
	else
		espl__hint(diag,
		    "the faults are node-lost, notice, at-risk, unreachable, slow-boot, "
		    "no-capacity, boot-fails, no-notice, bad-gpu, no-route, trial-fails, "
		    "trial-lost, nan, hang, crash-rate, bad-configuration, slow, bad-checkpoint, "
		    "gpu-lost, kills-node, stop");
	return ESPL_E_CONFIG;
}

/* As the choices of `reason`. */
static const espl_reason reasons[] = { ESPL_BY_CAPACITY, ESPL_BY_QUOTA, ESPL__BY_REFUSAL };

static void
set_column(struct espl__sim_fault *fault, const char *name, const struct espl_value *value)
{
	if (value->source == ESPL_UNSET)
		return;
	if (strcmp(name, "at") == 0)
		fault->at = value->as.i;
	else if (strcmp(name, "from") == 0)
		fault->from = value->as.i;
	else if (strcmp(name, "to") == 0)
		fault->to = value->as.i;
	else if (strcmp(name, "notice") == 0)
		fault->notice = value->as.i;
	else if (strcmp(name, "for") == 0)
		fault->length = value->as.i;
	else if (strcmp(name, "after") == 0)
		fault->length = value->as.i;
	else if (strcmp(name, "reason") == 0)
		fault->reason = reasons[value->as.i];
	else if (strcmp(name, "says") == 0)
		fault->text = espl__strdup(value->as.s);
	else if (strcmp(name, "machine") == 0)
		fault->machine = espl__strdup(value->as.s);
	else if (strcmp(name, "retry_after") == 0)
		fault->retry_after = value->as.i;
	else if (strcmp(name, "node") == 0)
		fault->node = (uint64_t)value->as.i;
	else if (strcmp(name, "gpu") == 0)
		fault->gpu = (uint32_t)value->as.i;
	else if (strcmp(name, "trial") == 0)
		fault->trial = (uint64_t)value->as.i;
	else if (strcmp(name, "iteration") == 0)
		fault->iteration = (uint64_t)value->as.i;
	else if (strcmp(name, "times") == 0)
		fault->left = value->as.i == 0 ? ESPL_ANY : (uint32_t)value->as.i;
	else if (strcmp(name, "factor") == 0)
		fault->factor = value->as.r;
	else if (strcmp(name, "silent") == 0)
		fault->silent = value->as.i != 0;
	else if (strcmp(name, "probability") == 0 || strcmp(name, "share") == 0)
		fault->probability = value->as.r;
	else if (strcmp(name, "offer") == 0)
		fault->offer = espl__strdup(value->as.s);
	else if (strcmp(name, "metric") == 0)
		fault->metric = espl__strdup(value->as.s);
}

static espl_status
add_fault(struct espl__sim_faults *faults, const struct espl__node *group, struct espl__diag *diag)
{
	static const char *const known[] = { "kind", NULL };
	struct espl__sim_fault *fault;
	struct espl__values *values;
	espl_status status;
	uint32_t kind;
	char who[64];

	if (group->type != ESPL__GROUP)
		return espl__fail_at(diag, ESPL_E_CONFIG, group->file, group->line,
		    "a fault must be a group { kind = \"...\"; ... }, not %s",
		    espl__node_kind(group));
	status = find_kind(group, &kind, diag);
	if (status != ESPL_OK)
		return status;
	snprintf(who, sizeof who, "fault '%s'", kinds[kind].name);
	status = espl__schema_resolve(kinds[kind].options, kinds[kind].count,
	    sizeof(struct espl_option), group, known, who, kinds[kind].name, &values, diag);
	if (status != ESPL_OK)
		return status;
	ESPL__GROW(faults->list, faults->cap, faults->count + 1);
	fault = &faults->list[faults->count++];
	*fault = (struct espl__sim_fault){ .kind = (enum espl__sim_fault_kind)kind,
		.left = ESPL_ANY,
		.at = ESPL_NEVER,
		.from = 0,
		.to = ESPL_NEVER,
		.notice = -1,
		.gpu = ESPL_ANY,
		.trial = ESPL_NONE,
		.node = ESPL_NONE,
		.iteration = ESPL_NONE,
		.factor = 1.0,
		.probability = 1.0,
		.reason = ESPL_BY_CAPACITY };
	for (uint32_t i = 0; i < kinds[kind].count; i++)
		set_column(fault, kinds[kind].options[i].name, &values->config.values[i]);
	espl__values_free(values);
	if (fault->to <= fault->from)
		return espl__fail_at(diag, ESPL_E_CONFIG, group->file, group->line,
		    "%s: 'to' must be later than 'from'", who);
	return ESPL_OK;
}

espl_status
espl__sim_faults_load(const char *path, struct espl__sim_faults *faults, struct espl__diag *diag)
{
	const struct espl__node *root, *list = NULL;
	struct espl__tree *tree;
	espl_status status = espl__tree_load(path, &tree, diag);

	if (status != ESPL_OK)
		return status;
	root = espl__tree_root(tree);
	for (uint32_t i = 0; i < root->child_count && status == ESPL_OK; i++) {
		const struct espl__node *node = root->children[i];

		if (strcmp(node->name, "faults") != 0)
			status = espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line,
			    "a fault script must not contain '%s', only the list 'faults'",
			    node->name);
		else if (node->type != ESPL__LIST)
			status = espl__fail_at(diag, ESPL_E_CONFIG, node->file, node->line,
			    "'faults' must be a list ( { kind = ...; }, ... ), not %s",
			    espl__node_kind(node));
		else
			list = node;
	}
	if (status == ESPL_OK && list == NULL)
		status = espl__fail_at(diag, ESPL_E_CONFIG, path, 1,
		    "the fault script has no list 'faults'");
	for (uint32_t i = 0; status == ESPL_OK && i < list->child_count; i++)
		status = add_fault(faults, list->children[i], diag);
	espl__tree_free(tree);
	return status;
}

void
espl__sim_faults_free(struct espl__sim_faults *faults)
{
	for (uint32_t i = 0; i < faults->count; i++) {
		free(faults->list[i].offer);
		free(faults->list[i].metric);
		free(faults->list[i].machine);
		free(faults->list[i].text);
	}
	free(faults->list);
	*faults = (struct espl__sim_faults){ NULL, 0, 0 };
}

/* ---- asking -------------------------------------------------------------------------- */

static int
in_force(const struct espl__sim_fault *fault, espl_time now)
{
	return fault->left > 0 && fault->from <= now && now < fault->to;
}

/* The same ones at each attempt. */
static int
is_bad_configuration(const struct espl__sim_fault *fault, const struct espl__sim_gang *gang)
{
	struct espl__rng rng;

	espl__sim_stream(&rng, gang->key, ESPL__SIM_BAD, 0);
	return espl__rng_uniform(&rng) < fault->probability;
}

static int
crash_strikes(const struct espl__sim_fault *fault, const struct espl__sim_gang *gang,
    uint64_t iteration)
{
	struct espl__rng rng;

	if (fault->kind == ESPL__FAULT_BAD_CONFIGURATION)
		return is_bad_configuration(fault, gang);
	if (fault->kind != ESPL__FAULT_CRASH_RATE)
		return 1;
	espl__sim_stream(&rng, gang->key, ESPL__SIM_CRASH,
	    ((uint64_t)gang->attempt << 32) + iteration);
	return espl__rng_uniform(&rng) < fault->probability;
}

double
espl__sim_fault_boot(const struct espl__sim_faults *faults, const char *offer, espl_time now)
{
	double factor = 1.0;

	for (uint32_t i = 0; i < faults->count; i++)
		if (faults->list[i].kind == ESPL__FAULT_SLOW_BOOT &&
		    in_force(&faults->list[i], now) &&
		    (faults->list[i].offer == NULL || strcmp(faults->list[i].offer, offer) == 0))
			factor *= faults->list[i].factor;
	return factor;
}

/* On this machine, if the fault is of one only. */
static int
is_machine(const struct espl__sim *sim, const struct espl__sim_fault *fault, uint64_t lease)
{
	const struct espl__sim_lease *l = &sim->leases[lease];
	char name[ESPL__SIM_NAME];

	return fault->machine == NULL ||
	    strcmp(espl__sim_machine_name(sim, l->offer, l->machine, name), fault->machine) == 0;
}

static int
is_on_machine(const struct espl__sim *sim, const struct espl__sim_fault *fault,
    const struct espl__sim_gang *gang)
{
	for (uint32_t i = 0; i < gang->lease_count; i++)
		if (is_machine(sim, fault, gang->leases[i]))
			return 1;
	return 0;
}

struct espl__sim_fault *
espl__sim_fault_gang(struct espl__sim *sim, enum espl__sim_fault_kind kind,
    const struct espl__sim_gang *gang, uint64_t iteration)
{
	for (uint32_t i = 0; i < sim->faults.count; i++) {
		struct espl__sim_fault *fault = &sim->faults.list[i];

		if (fault->kind != kind || !in_force(fault, sim->now) ||
		    (fault->machine != NULL && !is_on_machine(sim, fault, gang)) ||
		    (fault->trial != ESPL_NONE && fault->trial != gang->trial) ||
		    (fault->iteration != ESPL_NONE && fault->iteration != iteration) ||
		    !crash_strikes(fault, gang, iteration))
			continue;
		if (fault->left != ESPL_ANY)
			fault->left--;
		return fault;
	}
	return NULL;
}

/* Drawn for each lease and fault. */
static int
strikes_lease(const struct espl__sim *sim, uint32_t number, uint64_t lease)
{
	const struct espl__sim_fault *fault = &sim->faults.list[number];
	struct espl__rng rng;

	if (fault->probability >= 1.0)
		return 1;
	espl__sim_stream(&rng, espl__sim_key(sim->seed, "lease", 0, lease), ESPL__SIM_STRUCK,
	    number);
	return espl__rng_uniform(&rng) < fault->probability;
}

const struct espl__sim_fault *
espl__sim_fault_lease(const struct espl__sim *sim, enum espl__sim_fault_kind kind, uint64_t lease)
{
	const char *offer = sim->offers[sim->leases[lease].offer].terms.name;

	for (uint32_t i = 0; i < sim->faults.count; i++) {
		const struct espl__sim_fault *fault = &sim->faults.list[i];

		if (fault->kind == kind && in_force(fault, sim->now) &&
		    (fault->offer == NULL || strcmp(fault->offer, offer) == 0) &&
		    is_machine(sim, fault, lease) && strikes_lease(sim, i, lease))
			return fault;
	}
	return NULL;
}

double
espl__sim_fault_slow(const struct espl__sim *sim, const struct espl__sim_gang *gang)
{
	double factor = 1.0;

	for (uint32_t i = 0; i < sim->faults.count; i++) {
		const struct espl__sim_fault *fault = &sim->faults.list[i];
		int here = fault->node == ESPL_NONE && fault->machine == NULL;

		if (fault->kind != ESPL__FAULT_SLOW || !in_force(fault, sim->now) ||
		    (fault->trial != ESPL_NONE && fault->trial != gang->trial))
			continue;
		for (uint32_t j = 0; j < gang->lease_count; j++)
			here |= (fault->node == ESPL_NONE || gang->leases[j] == fault->node) &&
			    is_machine(sim, fault, gang->leases[j]);
		if (here)
			factor *= fault->factor;
	}
	return factor;
}
