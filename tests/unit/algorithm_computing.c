/* algorithm_computing.c - an algorithm of the tests whose computation does what its input says:
 * "double" answers with the input twice, "fail", "abort", "hang", "print" do just that.
 */
#include <espalier/algorithm.h>
#include <espalier/util.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	static int it;

	(void)host;
	(void)config;
	(void)error;
	*self = &it;
	return ESPL_OK;
}

static void
destroy(void *self)
{
	(void)self;
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)view;
	(void)error;
	return sink->finish(sink);
}

static espl_status
run(void *self, const void *input, uint64_t size, struct espl_byte_sink *output,
    struct espl_error *error)
{
	espl_status status;

	(void)self;
	if (size == 4 && memcmp(input, "fail", 4) == 0)
		return espl_fail(error, ESPL_E_INFEASIBLE, "told to fail");
	if (size == 5 && memcmp(input, "abort", 5) == 0)
		abort();
	while (size == 4 && memcmp(input, "hang", 4) == 0)
		(void)pause();
	if (size == 5 && memcmp(input, "print", 5) == 0 && write(STDOUT_FILENO, "noise\n", 6) != 6)
		return espl_fail(error, ESPL_E_BUG, "nothing listens");
	status = output->write(output, input, size);
	return status == ESPL_OK ? output->write(output, input, size) : status;
}

static const struct espl_compute_ops compute_ops = { ESPL_TABLE(struct espl_compute_ops),
	.run = run };

static const void *
extension(void *self, const char *id)
{
	(void)self;
	return strcmp(id, ESPL_COMPUTE) == 0 ? &compute_ops : NULL;
}

static const struct espl_algorithm_ops ops = { ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group };

ESPL_PLUGIN(algorithm, computing) = { ESPL_HEAD(ESPL_ALGORITHM, "computing"), .version = "0.1",
	.summary = "of the tests: computes what its input says", .ops = &ops.head, .create = create,
	.destroy = destroy, .extension = extension };
