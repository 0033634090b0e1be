/* espalier kit: sampling.h - how an algorithm uses the sampler that its user chose.
 *
 * Use: ESPL_SAMPLER_OPTION among the options; host->service(host, ESPL_SAMPLING) in create, which
 * is NULL without one; espl_sampling_draw as the draw of espl_tried_new; espl_sampling_started
 * after a configuration was added, espl_sampling_ended in on_trial_end.  Without a sampler the
 * last two do nothing.
 */
#ifndef ESPALIER_KIT_SAMPLING_H
#define ESPALIER_KIT_SAMPLING_H
#include <espalier/algorithm.h>
#include <espalier/sampler.h>
#ifdef __cplusplus
extern "C" {
#endif

/* clang-format off */
#define ESPL_SAMPLER_OPTION \
	{ .name = "sampler", .help = "which configurations are tried: \"auto\", \"gp\", " \
	  "\"tpe\" or a sampler of your own; without it they are drawn uniformly", \
	  .type = ESPL_OPT_PLUGIN, .choices = "sampler" }
/* clang-format on */

/* An espl_tried_draw; sampling: its ctx, a const struct espl_sampling *. */
espl_status espl_sampling_draw(void *sampling, double *values, struct espl_error *error);
/* This trial, with this configuration, trains up to the iteration. */
espl_status espl_sampling_started(const struct espl_sampling *sampling, uint64_t trial,
    uint64_t iteration, const double *values, struct espl_error *error);
/* What on_trial_end was told. */
espl_status espl_sampling_ended(const struct espl_sampling *sampling,
    const struct espl_trial *trial, espl_end how, struct espl_error *error);
/* How many more trials a search with a model should create now; trials: how many it has in all, or
 * ESPL_SAMPLING_ENDLESS.  Normally as many as could run.  If all could run at once, the model would
 * be asked for all configurations before it has a result; so the trials in progress are limited to
 * the GPUs held or planned, or to 10 if that is more. */
#define ESPL_SAMPLING_ENDLESS (UINT32_MAX / 2)
uint64_t espl_sampling_room(const struct espl_host *host, const struct espl_search_view *view,
    uint64_t trials);

#ifdef __cplusplus
}
#endif
#endif
