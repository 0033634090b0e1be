/* algo_play.h - whole searches with delays, failures and losses drawn at random, through the
 * test kit.
 *
 * Whether a trial fails or completes, and its loss, are a function of `fate`, the trial and the
 * iteration; the length of an iteration is a function of `order`.  So a play with another `order`
 * has the same losses and failures in another sequence, and the decisions of a synchronous search
 * must not change.
 *
 *     struct play play = { .plugin = &algorithm_x_LTX_espalier_plugin,
 *             .options = "trials=9", .fate = 3 };
 *     play_run(&play);  // fails the test if anything is wrong
 *     cr_assert_eq(play.trials, 9);
 *     play_end(&play);
 */
#ifndef ALGO_PLAY_H
#define ALGO_PLAY_H
#include "testkit.h"

/* What is played; what is 0 means what the comment says. */
struct play {
	const struct espl_plugin *plugin;
	const char *options;
	uint64_t seed;   /* of the plugin's random stream */
	uint64_t fate;   /* of failures, losses, NaN */
	uint64_t order;  /* of delays, and of events of one instant */
	uint32_t slots;  /* trials at once; 0: 1..9, drawn from order */
	uint64_t events; /* most iterations in all; 0: 200000 */
	/* probability of failing, being complete, NaN in an iteration */
	double fails, itself, nans;
	void (*prepare)(struct espl_kit *,
	    void *ctx); /* the space, first points, deadline; NULL: x
			 * and y in [0, 1], k one of three, z in [0, 1] if k is 0 */
	double (*loss)(void *ctx, const struct espl_trial *,
	    uint64_t iteration); /* NULL: play_loss
				  * with the play as ctx */
	void *ctx;
	int endless; /* 1: the search has no end; it is left after `events` */

	/* What came of it. */
	struct espl_kit *kit;
	uint64_t trials;                                     /* made */
	uint64_t iterations;                                 /* trained by all of them */
	uint64_t failed, complete, stopped, paused, reached; /* ends told, by kind */
	uint32_t most;                                       /* trials that trained at once */
};

/* A loss that falls with iterations: the distance from a point, and noise.  ctx: the play. */
double play_loss(void *ctx, const struct espl_trial *, uint64_t iteration);
/* Uniform in [0, 1), a function of its arguments. */
double play_chance(uint64_t seed, uint64_t a, uint64_t b, uint64_t c);

/* Plays until the search is finished and nothing trains.  Checked on the way: no call is refused or
 * fails, nothing hangs (nobody trains, the search is not finished, asking changes nothing), who has
 * started has ended.  Trials wait for a slot in order of arrival. */
void play_run(struct play *);
/* Trials that have trained so far at least. */
uint64_t play_reached(const struct play *, uint64_t iteration);
/* One line a trial: id, state, iterations, configuration.  The caller frees it. */
char *play_outcome(const struct play *);
void play_end(struct play *);

/* For every seed in 1..seeds: a play with all its seeds, then the same again: the sink calls must
 * be the same, which is what a resume by replay relies on.  `fails`, `itself` and `nans` are scaled
 * by the seed: by 0, a third or 1; every 16th time half of the iterations fail.  check (or NULL) is
 * called after the first. */
void play_seeds(const struct play *like, uint64_t seeds,
    void (*check)(struct play *, uint64_t seed));
/* For every seed: two plays with different orders and slots must have the same outcome. */
void play_orders(const struct play *like, uint64_t seeds);

#endif
