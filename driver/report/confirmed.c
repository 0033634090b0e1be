/* confirmed.c - what experiment.confirm has shown: as JSON, and in words. */
#include <jansson.h>
#include <math.h>

#include "base/assert.h"
#include "base/json.h"
#include "report/totals.h"

static double
turn(double loss, int maximize)
{
	return maximize ? 0.0 - loss : loss;
}

static void
put_one(const struct espl__confirmation *c, uint32_t number, int maximize, struct espl__buf *b)
{
	const struct espl__confirmed *one = &c->list[number];

	espl__json_open(b, NULL, '{');
	espl__json_int(b, "trial", (int64_t)one->trial);
	espl__json_real(b, "searched", turn(one->searched, maximize));
	espl__json_real(b, "mean", turn(one->mean, maximize));
	espl__json_real(b, "interval", one->half);
	espl__json_int(b, "counted", one->counted);
	espl__json_real(b, "worse", one->worse);
	espl__json_real(b, "worse_interval", one->worse_half);
	espl__json_open(b, "trials", '[');
	for (uint32_t fold = 0; fold < c->folds; fold++)
		espl__json_int(b, NULL, (int64_t)(c->first + (uint64_t)fold * c->count + number));
	espl__print(b, "]}");
}

char *
espl__confirmed_json(const struct espl__confirmation *c, int maximize)
{
	struct espl__buf b = { NULL, 0, 0 };

	if (c->folds == 0)
		return NULL;
	ESPL__ASSERT(c->count <= ESPL__CONFIRM_MOST);
	espl__json_open(&b, NULL, '{');
	espl__json_int(&b, "folds", c->folds);
	if (c->winner != ESPL_ANY)
		espl__json_int(&b, "winner", (int64_t)c->list[c->winner].trial);
	espl__json_open(&b, "configurations", '[');
	for (uint32_t i = 0; i < c->count; i++)
		put_one(c, i, maximize, &b);
	espl__print(&b, "]}");
	return (char *)b.data;
}

/* ---- in words ------------------------------------------------------------------------------- */

static double
real_of(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	return json_is_number(value) ? json_number_value(value) : NAN;
}

static long long
trial_of(const json_t *object)
{
	return (long long)json_integer_value(json_object_get(object, "trial"));
}

/* Its interval contains 0, or it is not known. */
static int
is_not_worse(const json_t *one)
{
	return !(real_of(one, "worse") > real_of(one, "worse_interval"));
}

static void
put_number(struct espl__buf *b, double value, double interval)
{
	espl__print(b, "%.6g", value);
	if (interval > 1e-9 * fabs(value)) /* not the rounding of equal numbers */
		espl__print(b, " ± %.2g", interval);
}

static void
put_others(const json_t *list, const json_t *winner, struct espl__buf *b)
{
	const json_t *one;
	uint32_t alike = 0, said = 0;
	size_t i;

	json_array_foreach (list, i, one)
		alike += one != winner && is_not_worse(one);
	json_array_foreach (list, i, one)
		if (one != winner && is_not_worse(one))
			espl__print(b, "%s%lld",
			    said++ > 0      ? " and "
				: alike > 1 ? "; trials "
					    : "; trial ",
			    trial_of(one));
	if (alike > 0)
		espl__print(b, " %s not worse", alike > 1 ? "are" : "is");
	json_array_foreach (list, i, one)
		if (one != winner && !is_not_worse(one)) {
			espl__print(b, "; trial %lld is worse by ", trial_of(one));
			put_number(b, real_of(one, "worse"), real_of(one, "worse_interval"));
		}
}

/* How much of what the search saw between its two best is left. */
static void
put_noise(const json_t *first, const json_t *second, int maximize, int indent, struct espl__buf *b)
{
	double seen = fabs(real_of(second, "searched") - real_of(first, "searched")),
	       left = maximize ? real_of(first, "mean") - real_of(second, "mean")
			       : real_of(second, "mean") - real_of(first, "mean");

	if (second == NULL || isnan(left))
		return;
	espl__print(b, "%*sthe search saw trial %lld better than trial %lld by %.6g; ", indent, "",
	    trial_of(first), trial_of(second), seen);
	if (left > 0)
		espl__print(b, "with other seeds it is better by %.6g\n", left);
	else
		espl__print(b, "that was noise\n");
}

void
espl__confirmed_text(const char *json, int maximize, int indent, struct espl__buf *b)
{
	json_t *root = json != NULL ? json_loads(json, 0, NULL) : NULL;
	const json_t *list = json_object_get(root, "configurations"), *winner = NULL, *one;
	size_t i;

	json_array_foreach (list, i, one)
		if (json_object_get(root, "winner") != NULL &&
		    trial_of(one) == json_integer_value(json_object_get(root, "winner")))
			winner = one;
	if (winner != NULL) {
		espl__print(b, "%*sconfirmed: trial %lld: ", indent, "", trial_of(winner));
		put_number(b, real_of(winner, "mean"), real_of(winner, "interval"));
		espl__print(b, " in %lld trainings",
		    (long long)json_integer_value(json_object_get(winner, "counted")));
		put_others(list, winner, b);
		espl__print(b, "\n");
		put_noise(json_array_get(list, 0), json_array_get(list, 1), maximize, indent, b);
	}
	json_decref(root);
}
