/* allocator_asking.c - an allocator of the tests that has a child process (ESPL_COMPUTE) decide
 * which waiting items start: as many as fit, in order of arrival.
 */
#include "../../plugins/allocators/pool.h"
#include <stdlib.h>
#include <string.h>
#include <espalier/host.h>

struct asking {
	const struct espl_compute *compute; /* NULL: the host only tries the allocator out */
	struct espl_roster roster;
	uint64_t token;
	uint32_t offer, pending;
};

/* what the child is asked */
struct question {
	uint32_t waiting, free;
};

static void
destroy(void *self)
{
	struct asking *c = self;

	espl_roster_free(&c->roster);
	free(c);
}

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct asking *c = calloc(1, sizeof *c);

	(void)config;
	if (c == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	c->compute = host->service(host, ESPL_COMPUTE);
	c->offer = ESPL_ANY;
	c->roster.widest = pool_widest;
	*self = c;
	return ESPL_OK;
}

/* The outcome of what was asked; NULL: it is not there yet. */
static const struct espl_outcome *
find_outcome(const struct asking *c, const struct espl_alloc_view *view)
{
	uint32_t i;

	for (i = 0; c->pending && i < view->outcome_count; i++)
		if (view->outcomes[i]->token == c->token)
			return view->outcomes[i];
	return NULL;
}

static espl_status
ask_child(struct asking *c, uint32_t total, struct espl_error *error)
{
	struct espl_compute_request request = ESPL_INIT(struct espl_compute_request);
	struct question question = { 0, total };
	uint32_t i = espl_roster_waiting(&c->roster, 0);
	espl_status status;

	for (; i < c->roster.count; i = espl_roster_waiting(&c->roster, i + 1))
		question.waiting++;
	question.free -= (uint32_t)espl_roster_used(&c->roster);
	if (c->compute == NULL || question.waiting == 0 || question.free == 0)
		return ESPL_OK;
	request.what = "starts";
	request.input = &question;
	request.input_size = sizeof question;
	request.limit = 60 * ESPL_SECOND;
	request.assumed = ESPL_SECOND / 4;
	status = c->compute->submit(c->compute, &request, &c->token, error);
	c->pending = status == ESPL_OK;
	return status;
}

static espl_status
take_outcome(struct asking *c, struct espl_alloc_sink *sink, uint32_t total,
    const struct espl_outcome *outcome, struct espl_error *error)
{
	uint32_t i, starts;
	espl_status status = ESPL_OK;

	c->pending = 0;
	if (outcome->status != ESPL_OK || outcome->output_size != sizeof starts)
		return espl_fail(error, ESPL_E_REMOTE, "the computation failed");
	memcpy(&starts, outcome->output, sizeof starts);
	for (i = espl_roster_waiting(&c->roster, 0); i < c->roster.count && starts > 0 &&
	     status == ESPL_OK && espl_roster_used(&c->roster) < total;
	     i = espl_roster_waiting(&c->roster, i + 1), starts--)
		status = espl_roster_grant(&c->roster, sink, i, 1, 1);
	return status == ESPL_OK ? status : espl_fail(error, status, "granting failed");
}

static espl_status
allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	struct asking *c = self;
	const struct espl_outcome *outcome;
	espl_status status;
	uint64_t limit, aimed;
	uint32_t total;

	if (!pool_begin(view, &(struct pool_wish){ NULL, 0, 0, 0 }, &c->offer, &c->roster, &limit,
		&status, error))
		return status;
	aimed = pool_useful(&c->roster, limit);
	status = pool_aim(view, sink, c->offer, limit, &aimed, error);
	if (status != ESPL_OK)
		return status;
	total = pool_total(view, c->offer, aimed);
	outcome = find_outcome(c, view);
	if (outcome != NULL)
		status = take_outcome(c, sink, total, outcome, error);
	if (status == ESPL_OK && !c->pending && espl_roster_used(&c->roster) < total)
		status = ask_child(c, total, error);
	return status;
}

static espl_status
run(void *self, const void *input, uint64_t size, struct espl_byte_sink *output,
    struct espl_error *error)
{
	struct question question;
	uint32_t starts;

	(void)self;
	if (size != sizeof question)
		return espl_fail(error, ESPL_E_BUG, "the question is incomplete");
	memcpy(&question, input, sizeof question);
	starts = question.waiting < question.free ? question.waiting : question.free;
	return output->write(output, &starts, sizeof starts);
}

static const struct espl_compute_ops compute_ops = { ESPL_TABLE(struct espl_compute_ops),
	.run = run };

static const void *
extension(void *self, const char *id)
{
	(void)self;
	return strcmp(id, ESPL_COMPUTE) == 0 ? &compute_ops : NULL;
}

static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = allocate };

ESPL_PLUGIN(allocator, asking) = { ESPL_HEAD(ESPL_ALLOCATOR, "asking"), .version = "0.1",
	.summary = "of the tests: a child process decides what starts", .ops = &ops.head,
	.create = create, .destroy = destroy, .extension = extension };
