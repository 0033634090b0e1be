/* Trains one trial, and speaks its verdict about one that does not exist; its spec declares
 * nothing. */
#include <espalier/algorithm.h>
#include <espalier/space.h>
#include <espalier/util.h>
#include "wrong.h"

struct slips {
	const struct espl_host *host;
	const struct espl_space *space;
	int begun;
};
static struct slips one[16];
static int next;

static espl_status
create(const struct espl_host *host, const struct espl_config *config, void **self,
    struct espl_error *error)
{
	struct slips *s = &one[next++ % 16];

	(void)config;
	(void)error;
	s->host = host;
	s->space = host->service(host, ESPL_SPACE);
	s->begun = 0;
	*self = s;
	return ESPL_OK;
}

static espl_status
next_group(void *self, const struct espl_search_view *view, struct espl_search_sink *sink,
    struct espl_error *error)
{
	struct slips *s = self;
	struct espl_group group = ESPL_INIT(struct espl_group);
	struct espl_start start = ESPL_INIT(struct espl_start);
	double unit[64], values[64];
	uint64_t id, trial;

	(void)view;
	(void)error;
	if (s->begun++)
		return sink->finish(sink);
	group.bracket = group.stage = ESPL_ANY;
	espl_draw(s->host, s->space, unit, values);
	start.how = ESPL_FRESH;
	start.values = values;
	start.budget = 3;
	if (sink->begin(sink, &group, &id) == ESPL_OK)
		(void)sink->add(sink, id, &start, &trial);
	return ESPL_OK;
}

static espl_status
on_report(void *self, const struct espl_trial *trial, const struct espl_observation *seen,
    struct espl_search_sink *sink, struct espl_error *error)
{
	(void)self;
	(void)trial;
	(void)seen;
	(void)error;
	(void)sink->verdict(sink, 99, ESPL_STOP);
	return ESPL_OK;
}

static espl_status
spec(void *self, struct espl_spec_sink *sink, struct espl_error *error)
{
	(void)self;
	(void)sink;
	(void)error;
	return ESPL_OK;
}

static const struct espl_algorithm_ops ops = { ESPL_TABLE(struct espl_algorithm_ops),
	.next_group = next_group, .on_report = on_report, .spec = spec };

ESPL_PLUGIN(algorithm, slips) = { ESPL_HEAD(ESPL_ALGORITHM, "slips"), .ops = &ops.head,
	.version = "1", .option_size = sizeof(struct espl_option),
	.summary = "a broken plugin for the tests", .create = create, .destroy = wrong_destroy };
