// algorithm_cxx.cc - the algorithm of algorithm_mine.c in C++20: random search that stops trials far behind.
//
//	c++ -std=c++20 -shared -fPIC -fvisibility=hidden $(pkg-config --cflags espalier) -o algorithm_cxx.so algorithm_cxx.cc
//	espalier check-plugin ./algorithm_cxx.so
//
// The descriptor, the options and the table of entries are constants, as in C.  No exception may leave an entry: what throws is
// caught there and becomes an error.  Templates of the standard library that the compiler exports as weak symbols do no harm.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <vector>
#include <espalier/algorithm.h>
#include <espalier/util.h>

namespace
{
enum { TRIALS, ITERATIONS_MAX, GRACE, MARGIN };

// Designated initializers stand in the order of the declaration in C++: the type comes last.
const espl_option options[] = {
	{ .name = "trials",
	    .help = "number of configurations",
	    .fallback = "20",
	    .min = "1",
	    .max = "1000000",
	    .type = ESPL_OPT_INT },
	{ .name = "iterations_max",
	    .help = "number of iterations of a trial that is not stopped",
	    .fallback = "10",
	    .min = "1",
	    .max = "1000000",
	    .type = ESPL_OPT_INT },
	{ .name = "grace",
	    .help = "number of iterations before a trial can be stopped",
	    .fallback = "2",
	    .min = "0",
	    .max = "1000000",
	    .type = ESPL_OPT_INT },
	{ .name = "margin",
	    .help = "maximum excess over the best loss, as a fraction of it",
	    .fallback = "0.5",
	    .min = "0",
	    .max = "1e9",
	    .type = ESPL_OPT_REAL },
};

class Search
{
public:
	Search(const espl_host *host, const espl_space *space, const espl_config *config)
	    : host_(host), space_(space),
	      trials_(static_cast<uint64_t>(config->values[TRIALS].as.i)),
	      iterations_(static_cast<uint64_t>(config->values[ITERATIONS_MAX].as.i)),
	      grace_(static_cast<uint64_t>(config->values[GRACE].as.i)),
	      margin_(config->values[MARGIN].as.r), unit_(space->param_count + 1u),
	      values_(space->param_count + 1u),
	      best_(iterations_ + 1, std::numeric_limits<double>::infinity())
	{
	}

	espl_status spec(espl_spec_sink *sink) const
	{
		auto stage = ESPL_INIT(espl_stage);
		auto bracket = ESPL_INIT(espl_bracket);
		auto declared = ESPL_INIT(espl_spec);
		const espl_stage *stages = &stage;
		const espl_bracket *brackets = &bracket;

		stage.trials = static_cast<uint32_t>(trials_);
		stage.iterations = iterations_;
		bracket.stage_count = 1;
		bracket.stages = &stages;
		declared.bracket_count = 1;
		declared.brackets = &brackets;
		return sink->spec(sink, &declared);
	}

	espl_status next_group(const espl_search_view *view, espl_search_sink *sink)
	{
		uint32_t want = view->want;
		espl_status status = ESPL_OK;

		if (added_ == trials_)
			return ESPL_OK;
		if (group_ == ESPL_NONE) {
			auto group = ESPL_INIT(espl_group);

			group.flags = ESPL_GROUP_OPEN;
			status = sink->begin(sink, &group, &group_);
		}
		if (want == 0 && view->running == 0 && view->waiting == 0)
			want = 1; // the first trial of an empty run asks for the first GPU
		for (; want > 0 && added_ < trials_ && status == ESPL_OK; want--) {
			auto start = ESPL_INIT(espl_start);
			uint64_t trial;

			status = espl_draw(host_, space_, unit_.data(), values_.data());
			start.how = ESPL_FRESH;
			start.values = values_.data();
			start.budget = iterations_;
			if (status == ESPL_OK)
				status = sink->add(sink, group_, &start, &trial);
			added_ += status == ESPL_OK;
		}
		return status == ESPL_OK && added_ == trials_ ? sink->finish(sink) : status;
	}

	espl_status on_report(const espl_trial *trial, const espl_observation *seen, espl_search_sink *sink)
	{
		if (seen->iteration > iterations_)
			return ESPL_OK;
		double &best = best_[seen->iteration];
		if (seen->loss < best)
			best = seen->loss;
		else if (seen->iteration > grace_ && seen->iteration < trial->budget &&
		    !(seen->loss <= best + std::fabs(best) * margin_)) // NaN is stopped, too
			return sink->verdict(sink, trial->id, ESPL_STOP);
		return ESPL_OK;
	}

private:
	const espl_host *host_;
	const espl_space *space_;
	uint64_t trials_, iterations_, grace_, added_ = 0, group_ = ESPL_NONE;
	double margin_;
	std::vector<double> unit_, values_, best_;
};

espl_status
create(const espl_host *host, const espl_config *config, void **self, espl_error *error)
{
	auto *space = static_cast<const espl_space *>(host->service(host, ESPL_SPACE));

	if (space == nullptr)
		return espl_fail(error, ESPL_E_UNSUPPORTED, "this host does not provide the search space");
	if (config->values[GRACE].as.i > config->values[ITERATIONS_MAX].as.i)
		return espl_blame(error, GRACE, "'grace' is longer than 'iterations_max'");
	try {
		*self = std::make_unique<Search>(host, space, config).release();
	} catch (const std::bad_alloc &) {
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	}
	return ESPL_OK;
}

void
destroy(void *self)
{
	delete static_cast<Search *>(self);
}

espl_status
next_group(void *self, const espl_search_view *view, espl_search_sink *sink, espl_error *error)
{
	espl_status status = static_cast<Search *>(self)->next_group(view, sink);

	return status == ESPL_OK ? status : espl_fail(error, status, "a trial was rejected");
}

espl_status
on_report(void *self, const espl_trial *trial, const espl_observation *seen, espl_search_sink *sink, espl_error *)
{
	return static_cast<Search *>(self)->on_report(trial, seen, sink);
}

espl_status
spec(void *self, espl_spec_sink *sink, espl_error *)
{
	return static_cast<const Search *>(self)->spec(sink);
}

const espl_algorithm_ops ops = {
	ESPL_TABLE(espl_algorithm_ops),
	.next_group = next_group,
	.on_report = on_report,
	.spec = spec,
};
}

ESPL_PLUGIN(algorithm, cxx) = {
	ESPL_HEAD(ESPL_ALGORITHM, "cxx"),
	.version = "0.1",
	.summary = "random search that stops trials far behind the best, in C++",
	.caps = ESPL_CAP_PURE,
	ESPL_OPTIONS(options),
	.ops = &ops.head,
	.create = create,
	.destroy = destroy,
};
