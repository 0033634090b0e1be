/* deadline.h - when to pay for a machine on demand: work with a deadline, on machines that come and
 * go beside machines that are always there and cost more.
 *
 * A Markov decision problem, solved exactly on a grid.  Its state: the work left; the slack, which
 * is the time left less that work; whether a machine of the cheap kind can be had; and where the
 * work runs.  Work makes the work left shrink, waiting and starting make the slack shrink, and an
 * end after the deadline costs more than any money.  So machines on demand are bought exactly where
 * that is expected to cost least, and a choice that might end late is never made while another is
 * left.  Arithmetic is + - * / and square roots alone: the same on every processor.
 */
#ifndef SPOTTUNE_DEADLINE_H
#define SPOTTUNE_DEADLINE_H
#include <espalier/abi.h>

struct deadline_world {
	double spot_boot_s, demand_boot_s; /* from a request until the machine is ready */
	double away_s; /* to save, start and restore: no training, on a machine that is paid */
	double redo_s; /* training that an interruption loses */
	double slower; /* seconds on spot for what takes a second on demand */
	double spot_usd_h, demand_usd_h; /* of a machine */
	double lost_h;                   /* interruptions an hour on spot */
	double back_h;                   /* returns of capacity an hour, while there is none */
	double other; /* probability that another spot machine can be had after one is lost */
};

/* The machines that the work takes when at most this much of it is left: a search needs fewer at
 * its end. */
struct deadline_part {
	double work_s, machines;
};

/* Where the work runs; with spot capacity to be had, or without. */
enum deadline_state {
	DEADLINE_IDLE_OUT,
	DEADLINE_IDLE_IN,
	DEADLINE_SPOT,
	DEADLINE_DEMAND_OUT,
	DEADLINE_DEMAND_IN,
	DEADLINE_STATES
};
enum deadline_action {
	DEADLINE_WAIT,    /* hold no machine */
	DEADLINE_TAKE,    /* run on spot */
	DEADLINE_RENT,    /* run on demand */
	DEADLINE_TOO_LATE /* whatever is done may end after the deadline */
};

struct deadline; /* a solved problem */

/* For at most so much work (in seconds on demand) and slack.  parts: by rising work_s, the last one
 * holds for more work, too; may be empty: one machine.  ESPL_E_NOMEM. */
espl_status deadline_solve(const struct deadline_world *world, const struct deadline_part *parts,
    uint32_t count, double work_s, double slack_s, struct deadline **solved);
void deadline_free(struct deadline *solved); /* NULL: nothing */

/* Is what it was solved for close enough to this, so that solving again would change little? */
int deadline_covers(const struct deadline *solved, const struct deadline_world *world,
    double work_s, double slack_s);

/* Is the grid large enough? */
int deadline_holds(const struct deadline *solved, double work_s, double slack_s);

/* A look-up. */
enum deadline_action deadline_act(const struct deadline *solved, enum deadline_state state,
    double work_s, double slack_s);

/* For how long the action stays the same, if the state does: as time passes without work, on demand
 * and on spot with work. */
double deadline_lasts(const struct deadline *solved, enum deadline_state state, double work_s,
    double slack_s);

/* The least slack with which it waits for spot capacity, when so much work is left. */
double deadline_threshold(const struct deadline *solved, double work_s);
/* Expected cost in dollars, from a state; INFINITY: it may end late. */
double deadline_cost(const struct deadline *solved);
#endif
