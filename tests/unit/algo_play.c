/* algo_play.c - an event loop for whole searches in the test kit: a clock, slots, a queue. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/rng.h"
#include "algo_play.h"

/* a trial that waits for a slot or trains */
struct actor {
	uint64_t trial, since, at; /* at: when its next iteration ends; UINT64_MAX: it waits */
};
struct stage {
	struct play *play;
	struct actor *actors; /* in order of arrival */
	uint32_t count, room, busy, slots;
	uint64_t now, arrivals, known, groups;
	uint8_t *told; /* by group */
};

#define PLAYING(s_) \
	(s_)->play->plugin->name, (s_)->play->options, (unsigned long long)(s_)->play->fate, \
	    (unsigned long long)(s_)->play->order

double
play_chance(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t z = espl__mix_bits(seed + UINT64_C(0x9e3779b97f4a7c15));

	z = espl__mix_bits(z ^ (a + UINT64_C(0x632be59bd9b4e019)));
	z = espl__mix_bits(z ^ (b * UINT64_C(0xd1342543de82ef95) + 1));
	return (double)(espl__mix_bits(z ^ (c + UINT64_C(0x2545f4914f6cdd1d))) >> 11) * 0x1.0p-53;
}

double
play_loss(void *ctx, const struct espl_trial *trial, uint64_t iteration)
{
	const struct play *play = ctx;
	double noise = play_chance(play->fate, trial->id, iteration, 1);

	return fabs(trial->values[0] - 0.3) + (1.0 + 0.2 * noise) / (1.0 + (double)iteration);
}

static void *
room_for(void *at, size_t count, size_t size)
{
	at = realloc(at, count * size);
	cr_assert_not_null(at);
	return at;
}

static int
trains(const struct espl_trial *trial)
{
	return trial->state == ESPL_TRIAL_WAITING || trial->state == ESPL_TRIAL_RUNNING;
}

/* ---- who waits and who trains ------------------------------------------------------------- */

static int
is_actor(const struct stage *s, uint64_t trial)
{
	uint32_t i;

	for (i = 0; i < s->count; i++)
		if (s->actors[i].trial == trial)
			return 1;
	return 0;
}

static void
leave(struct stage *s, uint32_t at)
{
	s->busy -= s->actors[at].at != UINT64_MAX;
	memmove(&s->actors[at], &s->actors[at + 1], (--s->count - at) * sizeof *s->actors);
}

/* New and continued trials queue up; slots are given out from the front. */
static void
take_in(struct stage *s)
{
	struct play *play = s->play;
	uint64_t id;
	uint32_t i;

	for (id = 0; id < espl_kit_trials(play->kit); id++) {
		const struct espl_trial *trial = espl_kit_trial(play->kit, id);

		if (trial->group >= s->groups) {
			s->told = room_for(s->told, trial->group + 1, 1);
			memset(s->told + s->groups, 0, trial->group + 1 - s->groups);
			s->groups = trial->group + 1;
		}
		if (trial->state != ESPL_TRIAL_WAITING || is_actor(s, id))
			continue;
		if (s->count == s->room) {
			s->room = 2 * s->room + 16;
			s->actors = room_for(s->actors, s->room, sizeof *s->actors);
		}
		s->actors[s->count].trial = id;
		s->actors[s->count].since = s->arrivals++;
		s->actors[s->count++].at = UINT64_MAX;
	}
	for (i = 0; i < s->count && s->busy < s->slots; i++)
		if (s->actors[i].at == UINT64_MAX) {
			const struct espl_trial *trial =
			    espl_kit_trial(play->kit, s->actors[i].trial);

			s->actors[i].at = s->now + 1 +
			    (uint64_t)(8 *
				play_chance(play->order, trial->id, trial->iteration, 2));
			s->busy++;
		}
	if (s->busy > play->most)
		play->most = s->busy;
}

/* ---- events ------------------------------------------------------------------------------- */

static void
end(struct stage *s, uint64_t trial, espl_end how, double loss)
{
	struct play *play = s->play;

	play->failed += how == ESPL_END_FAILED;
	play->complete += how == ESPL_END_ITSELF;
	play->stopped += how == ESPL_END_STOPPED;
	play->paused += how == ESPL_END_PAUSED;
	play->reached += how == ESPL_END_BUDGET;
	cr_assert_eq(espl_kit_end(play->kit, trial, how, loss), ESPL_OK,
	    "%s %s fate %llu order %llu\n%s", PLAYING(s), espl_kit_log(play->kit));
}

/* Notifies the algorithm of trials that a verdict has ended. */
static void
tell_ends(struct stage *s)
{
	uint32_t i = 0;

	while (i < s->count) {
		const struct espl_trial *trial = espl_kit_trial(s->play->kit, s->actors[i].trial);

		if (trains(trial)) {
			i++;
			continue;
		}
		leave(s, i);
		end(s, trial->id,
		    trial->state == ESPL_TRIAL_ENDED ? ESPL_END_STOPPED : ESPL_END_PAUSED,
		    trial->loss);
		i = 0;
	}
}

/* One iteration of the actor ends. */
static void
iterate(struct stage *s, uint32_t at)
{
	struct play *play = s->play;
	uint64_t id = s->actors[at].trial;
	const struct espl_trial *trial = espl_kit_trial(play->kit, id);
	uint64_t next = trial->iteration + 1;
	double loss =
	    play->loss != NULL ? play->loss(play->ctx, trial, next) : play_loss(play, trial, next);

	play->iterations++;
	if (play_chance(play->fate, id, next, 3) < play->fails) {
		leave(s, at);
		end(s, id, ESPL_END_FAILED, NAN);
		return;
	}
	if (play_chance(play->fate, id, next, 4) < play->nans)
		loss = NAN;
	cr_assert_eq(espl_kit_report(play->kit, id, next, loss), ESPL_OK,
	    "%s %s fate %llu order %llu\n%s", PLAYING(s), espl_kit_log(play->kit));
	if (!trains(trial))
		return; /* tell_ends sees to it */
	if (next >= trial->budget || play_chance(play->fate, id, next, 5) < play->itself) {
		leave(s, at);
		end(s, id, next >= trial->budget ? ESPL_END_BUDGET : ESPL_END_ITSELF, loss);
		return;
	}
	s->actors[at].at = s->now + 1 + (uint64_t)(8 * play_chance(play->order, id, next, 2));
}

/* All events of the next instant, in an order of `order`'s. */
static void
step(struct stage *s)
{
	uint64_t first = UINT64_MAX;
	uint32_t i;

	for (i = 0; i < s->count; i++)
		if (s->actors[i].at < first)
			first = s->actors[i].at;
	s->now = first;
	espl_kit_set_time(s->play->kit, (espl_time)s->now * ESPL_SECOND);
	for (;;) {
		uint32_t best = UINT32_MAX;
		double least = 2, chance;

		for (i = 0; i < s->count; i++) {
			chance = play_chance(s->play->order, s->actors[i].trial, s->now, 6);
			if (s->actors[i].at == first && chance < least) {
				least = chance;
				best = i;
			}
		}
		if (best == UINT32_MAX)
			return;
		iterate(s, best);
		tell_ends(s);
	}
}

/* ---- asking ------------------------------------------------------------------------------- */

static void
ask(struct stage *s, uint32_t why, uint64_t group)
{
	struct play *play = s->play;
	uint32_t want = s->slots > s->count ? s->slots - s->count : 0;

	cr_assert_eq(espl_kit_ask(play->kit, why | (want > 0 ? ESPL_ASK_CAPACITY : 0), group, want),
	    ESPL_OK, "%s %s fate %llu order %llu\n%s", PLAYING(s), espl_kit_log(play->kit));
	tell_ends(s);
	take_in(s);
}

/* One call for each group that has ended, or one for the round. */
static void
ask_all(struct stage *s, uint32_t why)
{
	uint32_t asked = 0;
	uint64_t group;
	int open;

	for (group = 0; group < s->groups && !espl_kit_finished(s->play->kit); group++) {
		if (s->told[group] || espl_kit_group_left(s->play->kit, group, &open) > 0 || open)
			continue;
		s->told[group] = 1;
		ask(s, (asked ? 0 : why) | ESPL_ASK_GROUP, group);
		asked = 1;
	}
	if (!asked && !espl_kit_finished(s->play->kit))
		ask(s, why, ESPL_NONE);
}

static void
prepare(struct play *play)
{
	struct espl_error error;

	play->kit = espl_kit_new(play->seed);
	if (play->prepare != NULL) {
		play->prepare(play->kit, play->ctx);
	} else {
		espl_kit_real(play->kit, "x", 0, 1, ESPL_LINEAR, 0);
		espl_kit_real(play->kit, "y", 0, 1, ESPL_LINEAR, 0);
		espl_kit_choice(play->kit, "k", "a|b|c");
		espl_kit_real(play->kit, "z", 0, 1, ESPL_LINEAR, 0);
		espl_kit_when(play->kit, "k", 0);
	}
	if (play->endless)
		espl_kit_experiment(play->kit)->deadline = 1000000 * ESPL_SECOND;
	cr_assert_eq(espl_kit_open(play->kit, play->plugin, play->options, &error), ESPL_OK, "%s",
	    error.text);
}

void
play_run(struct play *play)
{
	struct stage s = { .play = play };
	uint64_t most = play->events > 0 ? play->events : 200000;

	s.slots =
	    play->slots > 0 ? play->slots : 1 + (uint32_t)(9 * play_chance(play->order, 0, 0, 7));
	prepare(play);
	ask_all(&s, ESPL_ASK_START);
	while (play->iterations < most && (s.count > 0 || !espl_kit_finished(play->kit))) {
		if (s.count > 0)
			step(&s);
		ask_all(&s, ESPL_ASK_RESULT);
		if (s.count == 0 && !espl_kit_finished(play->kit))
			ask_all(&s, ESPL_ASK_RESULT);
		cr_assert(s.count > 0 || espl_kit_finished(play->kit),
		    "%s %s fate %llu order %llu: nobody trains, and nothing is begun\n%s",
		    PLAYING(&s), espl_kit_log(play->kit));
	}
	cr_assert(play->endless || s.count == 0,
	    "%s %s fate %llu order %llu: no end in %llu iterations", PLAYING(&s),
	    (unsigned long long)most);
	cr_assert_eq(espl_kit_refused(play->kit), 0, "%s %s fate %llu order %llu\n%s", PLAYING(&s),
	    espl_kit_log(play->kit));
	play->trials = espl_kit_trials(play->kit);
	free(s.actors);
	free(s.told);
}

uint64_t
play_reached(const struct play *play, uint64_t iteration)
{
	uint64_t id, count = 0;

	for (id = 0; id < play->trials; id++)
		count += espl_kit_trial(play->kit, id)->iteration >= iteration;
	return count;
}

char *
play_outcome(const struct play *play)
{
	uint32_t i, params = espl_kit_space(play->kit)->param_count;
	size_t room = (size_t)play->trials * (64 + 24 * (size_t)params) + 1, used = 0;
	char *text = room_for(NULL, room, 1);
	uint64_t id;

	text[0] = '\0';
	for (id = 0; id < play->trials; id++) {
		const struct espl_trial *trial = espl_kit_trial(play->kit, id);

		used += (size_t)snprintf(text + used, room - used,
		    "%" PRIu64 " state %u at %" PRIu64, id, trial->state, trial->iteration);
		for (i = 0; i < params; i++)
			used +=
			    (size_t)snprintf(text + used, room - used, " %.12g", trial->values[i]);
		used += (size_t)snprintf(text + used, room - used, "\n");
	}
	return text;
}

void
play_end(struct play *play)
{
	espl_kit_free(play->kit);
	play->kit = NULL;
}

static struct play
seeded(const struct play *like, uint64_t seed)
{
	struct play play = *like;
	double scale = seed % 4 == 0 ? 0.0 : seed % 4 == 1 ? 1.0 / 3.0 : 1.0;

	play.seed = play.fate = play.order = seed;
	play.fails *= scale;
	play.itself *= scale;
	play.nans *= scale;
	if (seed % 16 == 7 && like->fails > 0)
		play.fails = 0.5;
	return play;
}

void
play_seeds(const struct play *like, uint64_t seeds, void (*check)(struct play *, uint64_t seed))
{
	uint64_t seed;

	for (seed = 1; seed <= seeds; seed++) {
		struct play first = seeded(like, seed), again = first;

		play_run(&first);
		if (check != NULL)
			check(&first, seed);
		play_run(&again);
		cr_assert_str_eq(espl_kit_log(first.kit), espl_kit_log(again.kit));
		play_end(&first);
		play_end(&again);
	}
}

void
play_orders(const struct play *like, uint64_t seeds)
{
	uint64_t seed;

	for (seed = 1; seed <= seeds; seed++) {
		struct play first = seeded(like, seed), other = first;
		char *a, *b;

		other.order = seed + 1000003;
		other.slots = first.slots > 0 ? first.slots % 9 + 1 : 0;
		play_run(&first);
		play_run(&other);
		a = play_outcome(&first);
		b = play_outcome(&other);
		cr_assert_str_eq(a, b, "%s %s seed %llu", like->plugin->name, like->options,
		    (unsigned long long)seed);
		free(a);
		free(b);
		play_end(&first);
		play_end(&other);
	}
}
