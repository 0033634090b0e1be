/* wrong.h - an allocator that works; each plugin here breaks one thing of it. */
#ifndef WRONG_H
#define WRONG_H
#include <espalier/allocator.h>
#include <espalier/util.h>

static inline espl_status
wrong_create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	(void)host;
	(void)config;
	(void)error;
	*self = NULL;
	return ESPL_OK;
}

static inline void
wrong_destroy(void *self)
{
	(void)self;
}

static inline espl_status
wrong_allocate(void *self, const struct espl_alloc_view *view, struct espl_alloc_sink *sink,
    struct espl_error *error)
{
	(void)self;
	(void)view;
	(void)sink;
	(void)error;
	return ESPL_OK;
}

#define WRONG_REST \
	.version = "1", .summary = "a broken plugin for the tests", .create = wrong_create, \
	.destroy = wrong_destroy
#endif
