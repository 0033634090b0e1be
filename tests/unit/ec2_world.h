/* ec2_world.h - EC2 on a virtual clock, for cloud aws in the test kit: client tokens, lags, answers
 * of the past, pages, limits of requests, prices, interruptions, faults, machines that end
 * themselves, and a bill.  It shares nothing with the driver, nor with the stand-in in tests/aws.
 */
#ifndef EC2_WORLD_H
#define EC2_WORLD_H
#include <stdint.h>
#include <espalier/util.h>
#include "testkit.h"

#define EC2_UTC_START 1700000000 /* the kit's */
#define EC2_ZONES 3u
#define EC2_MACHINES 64u
#define EC2_PARAMETERS 900u

enum ec2_fault {
	EC2_FINE = 0,
	EC2_CUT_BEFORE,  /* nothing is done, and no answer comes */
	EC2_CUT_AFTER,   /* it is done, and no answer comes */
	EC2_ERROR,       /* InternalError, and nothing is done */
	EC2_ERROR_AFTER, /* InternalError, and it is done */
	EC2_UNAVAILABLE, /* 503 without a code */
	EC2_THROTTLED,
	EC2_HALF, /* it is done, and half of the answer comes */
	EC2_GARBAGE,
	EC2_EXPIRED, /* the keys have expired */
	EC2_FAULTS,
	EC2_SKEWED /* the driver's clock is a quarter of an hour behind; not one of random faults */
};
/* `fault` befalls the nth request of this action (0: each), or of all (NULL), until this time. */
struct ec2_script {
	const char *action;
	uint32_t nth;
	enum ec2_fault fault;
	espl_time until;
};

struct ec2_machine {
	char id[24], token[65], type[40], zone[40], run[65], why[40], *digest, *user_data;
	int spot, tagged, wants_spot;
	int unlisted;                            /* listings do not have it, although it is there */
	espl_time launch, running, end, stopped; /* ESPL_NEVER: not (yet) */
	espl_time notice, forgotten;
	espl_span late;           /* that it runs on after the two minutes of its notice */
	espl_span lag;            /* until listings have it */
	int64_t orphan_s, most_s; /* of its dead man's switch; 0: none runs */
	espl_time agent_from, agent_until;
	espl_time shown_pending, shown_end; /* by answers: the last, and the first */
};

struct ec2_world {
	struct espl_kit *kit;
	struct espl_kit_provider provider;
	struct espl_run run; /* in a folder of its own */
	char folder[60];
	uint64_t random;
	struct ec2_machine machines[EC2_MACHINES];
	uint32_t count;

	/* What a test sets; ec2_world_begin: all at once, nothing fails. */
	espl_span boot_most, lag_most, stale_most, tag_lag, late_most, linger;
	uint32_t page;       /* of a listing */
	uint32_t vcpus;      /* the quota */
	espl_time dry_until; /* no capacity before */
	int on_demand;       /* spot is asked for, and on demand made */
	int unreachable, without_agent, without_user_data, without_keygen;
	int other_keys;              /* machines have other ssh host keys than they were given */
	int strict;                  /* ssh was told to accept no unknown key, the last time */
	uint32_t keys;               /* that ssh-keygen has made */
	const char *account, *owner; /* owner: of the machine */
	struct ec2_script scripts[8];
	uint32_t script_count;
	struct {
		espl_time from;
		espl_money usd_hour;
	} prices[16];
	uint32_t price_count;

	/* What was seen. */
	uint32_t requests;                   /* all that reached EC2 */
	uint32_t quotas;                     /* that were asked for */
	uint32_t runs, dry_runs, run_denied; /* runs: RunInstances; denied: by its bucket */
	uint32_t token_zones;                /* tokens with machines in two zones */
	uint32_t unknown;                    /* actions or parameters that EC2 does not have */
	espl_time last_run;

	struct {
		double left;
		espl_time at;
	} buckets[3];
	char *form, *names[EC2_PARAMETERS], *values[EC2_PARAMETERS];
	uint32_t form_count;
	char *answer, date[64];
	const char *headers[1];
	size_t used, room;
};

void ec2_world_begin(struct ec2_world *, struct espl_kit *, uint64_t seed);
void ec2_world_free(struct ec2_world *);
uint64_t ec2_world_draw(struct ec2_world *, uint64_t below);
espl_span ec2_world_span(struct ec2_world *, espl_span most); /* of whole seconds */
/* ec2_answers.c: the provider's. */
void ec2_world_answer(void *world, const struct espl_http *, struct espl_http_reply *);
const char *ec2_world_state(const struct ec2_machine *, espl_time at);
/* Moves machines on to the kit's time. */
void ec2_world_settle(struct ec2_world *);
/* How many run, are pending or stopped. */
uint32_t ec2_world_left(struct ec2_world *);
struct ec2_machine *ec2_world_machine(struct ec2_world *, const char *token);
void ec2_world_end(struct ec2_world *, struct ec2_machine *, const char *why);
/* A notice (it ends two minutes later), or none (it ends now). */
void ec2_world_interrupt(struct ec2_world *, struct ec2_machine *, int notice);
/* The driver is gone: its agents end after `linger`.  It came back. */
void ec2_world_driver_gone(struct ec2_world *);
void ec2_world_driver_back(struct ec2_world *);
/* Micro-dollars: whole seconds from `running` to the end, at least 60, the first hour of an
 * interrupted one free. */
espl_money ec2_world_bill(struct ec2_world *, const struct ec2_machine *);
/* The same for another begin and end. */
espl_money ec2_world_charge(const struct ec2_world *, const struct ec2_machine *, espl_time begin,
    espl_time end);
#endif
