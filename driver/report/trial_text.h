/* trial_text.h - the words of a report about a trial, by the experiment to which it belongs. */
#ifndef ESPL__TRIAL_TEXT_H
#define ESPL__TRIAL_TEXT_H
#include "exec/questions.h"
#include "report/seen_trials.h"

/* The search of the trial; NULL: there is one alone, the configuration's. */
static inline const struct espl__inputs *
espl__inputs_of_trial(const struct espl__observer *o, const struct espl__run_config *config,
    uint64_t trial)
{
	return config->pool && o->exec != NULL
	    ? espl__exec_search_of(o->exec, trial >> ESPL__TRIAL_BITS)
	    : NULL;
}

/* The trial's state in a word. */
static inline const char *
espl__trial_state_word(const struct espl__observer *o, const struct espl_trial *t)
{
	static const char *const words[] = { "?", "waiting", "running", "paused", "completed",
		"failed" };
	const char *word = o->exec != NULL ? espl__exec_trial_info(o->exec, t->id).word : NULL;

	return word != NULL ? word : words[t->state <= ESPL_TRIAL_FAILED ? t->state : 0];
}

/* A change of a trial in a word; state: that of its state. */
static inline const char *
espl__change_word(enum espl__trial_change change, const char *state)
{
	static const char *const words[] = { "", "created", "promoted", "budget", "started",
		"retried", "displaced", "queued" };

	return change < ESPL__CHANGE_STATE ? words[change] : state;
}

static inline const char *
espl__phase_word(enum espl__gang_phase phase)
{
	static const char *const words[] = { "?", "starting", "running", "resized", "ended" };

	return words[phase];
}

/* A loss as the trial reported it. */
static inline double
espl__reported_metric(const struct espl__inputs *of, const struct espl__run_config *config,
    double loss)
{
	return (of != NULL ? of->config : config)->maximize ? 0.0 - loss : loss;
}
#endif
