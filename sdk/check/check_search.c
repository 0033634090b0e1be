/* check_search.c - check-plugin for algorithms: a search of the test kit trains made-up trials,
 * four at a time.
 */
#include <math.h>

#include "check/check_kit.h"

#define ROUNDS_MAX 3000
#define TRIALS_MAX 2500u /* a script ends when there are more */
#define AT_ONCE 4

static double
make_up_loss(void *ctx, const struct espl_trial *trial, uint64_t iteration)
{
	(void)ctx;
	return fabs(log(trial->values[0]) - log(0.01)) + trial->values[2] * 0.1 +
	    5.0 / (double)(iteration + 1);
}

static int
open_search(struct espl__check *check, uint64_t limit, int refuse)
{
	espl__check_world(check, 0);
	check->kit->trial_limit = check->kit->group_limit = limit;
	espl_kit_set_refusing(check->kit, refuse);
	return espl__check_open(check);
}

/* Names the next step, for messages. */
static void
begin_view(struct espl__check *check, const char *before, const char *view)
{
	espl__check_step(check, "%s%s", before, view);
	check->view = view;
}

/* A whole search.  Returns 1 if it could be tried. */
static int
run_search(struct espl__check *check, uint64_t *digest)
{
	struct espl_kit *kit;
	int made = open_search(check, TRIALS_MAX, 0);

	kit = check->kit;
	if (made) {
		begin_view(check, "next_group, ", "the first call");
		(void)espl_kit_ask(kit, ESPL_ASK_START, ESPL_NONE, AT_ONCE);
		if (kit->trial_count == 0 && !kit->finished && kit->wake == ESPL_NEVER)
			espl__check_error(check,
			    "next_group: the first answer does not start a trial, so the search "
			    "never begins");
		begin_view(check, "", "a search with generated trials");
		(void)espl__kit_rounds(kit, AT_ONCE, ROUNDS_MAX, make_up_loss, NULL);
		if (kit->idle == 3 && !kit->finished)
			espl__check_error(check,
			    "next_group: no trial is running, none was requested, and the search "
			    "is not finished");
	}
	*digest = check->digest;
	espl__check_close(check);
	return made;
}

static void
try_spec(struct espl__check *check)
{
	const struct espl_algorithm_ops *ops = (const void *)check->instance->ops;
	espl_status status;
	uint32_t brackets;

	if (!ESPL_HAS(struct espl_algorithm_ops, ops, spec))
		return;
	espl__check_step(check, "spec");
	status = espl_kit_spec(check->kit);
	brackets = check->kit->brackets;
	if (status == ESPL_E_UNKNOWN)
		espl__check_ok(check,
		    "spec: stages are not known in advance, so nothing can be planned");
	else if (status == ESPL_OK && brackets > 0)
		espl__check_ok(check, "spec: declares %u bracket%s", brackets,
		    brackets == 1 ? "" : "s");
	else if (status == ESPL_OK)
		espl__check_ok(check,
		    "spec: returned OK without declaring stages, so nothing can be planned");
}

static void
try_edges(struct espl__check *check)
{
	if (open_search(check, TRIALS_MAX, 0)) {
		try_spec(check);
		begin_view(check, "next_group, with ", "no room");
		(void)espl_kit_ask(check->kit, ESPL_ASK_START, ESPL_NONE, 0);
		espl__check_ok(check, "next_group: returns when there is no room");
	}
	espl__check_close(check);
	if (open_search(check, ESPL__CHECK_CALLS / 2, 0)) {
		begin_view(check, "next_group, with ", "room for 100000 trials");
		(void)espl_kit_ask(check->kit, ESPL_ASK_START, ESPL_NONE, 100000);
		espl__check_ok(check, "next_group: returns if there is room for 100000 trials");
	}
	espl__check_close(check);
	if (open_search(check, TRIALS_MAX, 1)) {
		espl__check_step(check, "next_group, every call rejected");
		for (int i = 0; i < 10; i++)
			(void)espl_kit_ask(check->kit,
			    i == 0 ? ESPL_ASK_START : ESPL_ASK_RESULT | ESPL_ASK_CAPACITY,
			    ESPL_NONE, AT_ONCE);
		espl__check_ok(check, "next_group: returns if every sink call is rejected");
	}
	espl__check_close(check);
}

static void
live_once(struct espl__check *check)
{
	uint64_t digest;

	(void)run_search(check, &digest);
}

void
espl__check_search(struct espl__check *check)
{
	uint64_t one, two;

	if (!run_search(check, &one))
		return;
	(void)run_search(check, &two);
	if (one != two)
		espl__check_error(check,
		    "not deterministic: the same seed and the same results led to different "
		    "decisions");
	else
		espl__check_ok(check, "deterministic: the same seed leads to the same decisions");
	try_edges(check);
	espl__check_leaks(check, live_once);
}
