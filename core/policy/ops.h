/* ops.h - what policies answered, as values: recorded by sinks, journaled, then applied.
 *
 * A sink checks a call and records it as an op; nothing changes until the plugin has returned
 * and its answer as a whole is good.  So an answer is a transaction, the journal holds the very
 * decisions, and a replay can compare or repeat them.
 */
#ifndef ESPL__OPS_H
#define ESPL__OPS_H
#include <espalier/algorithm.h>
#include <espalier/allocator.h>
#include <espalier/placer.h>
#include "base/buf.h"
#include "base/mem.h"

enum espl__op_type {
	ESPL__OP_BEGIN = 1,
	ESPL__OP_ADD,
	ESPL__OP_CLOSE,
	ESPL__OP_FINISH,
	ESPL__OP_VERDICT,
	ESPL__OP_DROP,
	ESPL__OP_HINT,
	ESPL__OP_WAKE,
	ESPL__OP_GRANT = 20,
	ESPL__OP_TARGET,
	ESPL__OP_RETIRE,
	ESPL__OP_PLAN,
	ESPL__OP_WATCH,
	ESPL__OP_OBJECTIVE,
	ESPL__OP_HORIZON,
	ESPL__OP_CLAIM,
	ESPL__OP_PLACE = 40,
	ESPL__OP_GIVE_UP,
	ESPL__OP_SUBMIT = 60,
	ESPL__OP_CANCEL /* computations */
};
struct espl__op {
	enum espl__op_type type;
	union {
		struct espl_group group; /* BEGIN: gets the next group id */
		/* gets the next trial id if FRESH or CLONE */
		struct {
			uint64_t group;
			struct espl_start start;
		} add;
		/* CLOSE group, DROP trial, RETIRE and GIVE_UP node, SUBMIT and CANCEL token */
		uint64_t id;
		struct {
			uint64_t trial;
			espl_verdict verdict;
		} verdict;
		struct {
			uint64_t trial;
			double weight;
			uint32_t gpus_min, gpus_max;
		} hint;
		espl_time at; /* WAKE */
		struct espl_grant grant;
		struct espl_target target;
		struct {
			uint64_t experiment;
			struct espl_plan plan;
		} plan;
		struct {
			uint32_t offer, on;
		} watch;
		struct {
			double value, bound;
			const char *status;
		} objective;
		struct {
			uint64_t item;
			uint32_t steps;
			const uint32_t *gpus;
		} horizon;
		struct {
			uint64_t node;
			uint32_t bracket;
		} claim;
		struct {
			uint64_t item;
			uint32_t count;
			const struct espl_slot *slots;
		} place;
	} as;
};
/* params: doubles of a configuration. */
void espl__op_put(const struct espl__op *, uint32_t params, struct espl__buf *);
/* 1 an op, 0 the end, -1 not an op.  Pointers live in the arena. */
int espl__op_get(struct espl__reader *, uint32_t params, struct espl__arena *, struct espl__op *);
/* For people: "add trial to group 3, budget 9" without its end of line. */
/* What it is called, for a panic's list of decisions: a constant. */
const char *espl__op_word(uint8_t type);
void espl__op_print(const struct espl__op *, struct espl__buf *);
#endif
