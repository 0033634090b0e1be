/* Refuses an option when it is created, and says which. */
#include "wrong.h"

static const struct espl_option options[] = {
	{ .name = "share", .help = "what it is about", .type = ESPL_OPT_REAL, .fallback = "0.5" },
};
static const struct espl_allocator_ops ops = { ESPL_TABLE(struct espl_allocator_ops),
	.allocate = wrong_allocate };

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	(void)host;
	(void)config;
	(void)self;
	return espl_blame(error, 0, "'share' never suits it");
}

ESPL_PLUGIN(allocator, create_fails) = { ESPL_HEAD(ESPL_ALLOCATOR, "create_fails"),
	ESPL_OPTIONS(options), .ops = &ops.head, .version = "1",
	.summary = "a broken plugin for the tests", .create = create, .destroy = wrong_destroy };
