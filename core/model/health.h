/* health.h - what is known of each machine, over all its leases: when it worked, how it failed, and
 * until when it is avoided.
 *
 * A machine is known by its offer and by the name that its provider has for it.  Where the provider
 * does not name machines each lease is taken for a machine of its own.  Pure: the executor enters
 * what events report, so that a replay makes the same ledger.
 */
#ifndef ESPL__HEALTH_H
#define ESPL__HEALTH_H
#include <espalier/fleet.h>
#include "base/mem.h"

/* What failed. */
enum espl__health_fault {
	ESPL__HEALTH_GOOD = 0,
	ESPL__HEALTH_START,  /* the lease ended before a trial on it reported */
	ESPL__HEALTH_TRIALS, /* trials fail there that work elsewhere */
	ESPL__HEALTH_GPU,    /* none of its GPUs can be used */
	ESPL__HEALTH_NODE    /* its disk, cache, clock or access to the store */
};

struct espl__health {
	uint8_t drained;     /* the user holds it out; by espl__health_drain */
	const char *machine; /* its provider's name for it; NULL: not known */
	uint32_t offer;
	uint32_t failures;             /* in a row, since a trial reported from there */
	uint64_t lease;                /* the newest */
	espl_time reported_at;         /* when a trial reported from there first; NEVER */
	espl_time failed_at;           /* the last failure; NEVER: none */
	espl_time avoid_until;         /* NEVER: it is not avoided */
	enum espl__health_fault fault; /* the last one; GOOD: none since a trial reported */
	char *why;                     /* the last failure in words; NULL: none */
};

struct espl__health_book {
	struct espl__arena arena;
	struct espl__health **list; /* in the order in which they became known */
	uint32_t count, cap;
	uint32_t drained; /* how many are held out */
};
void espl__health_free(struct espl__health_book *);
/* The machine behind a lease, made if it is new.  machine: NULL not known. */
struct espl__health *espl__health_of(struct espl__health_book *, uint32_t offer,
    const char *machine, uint64_t lease);
/* It is avoided from now on, each time for twice as long, up to a limit. */
void espl__health_fails(struct espl__health *, enum espl__health_fault, const char *why,
    espl_time now);
void espl__health_works(struct espl__health *, espl_time now); /* a trial reported: forgiven */
void espl__health_forgive(struct espl__health *);              /* it may be leased at once */
void espl__health_drain(struct espl__health_book *, struct espl__health *, int drained);
/* It is avoided, or failed from `since` on (NEVER: none did), when failures in a row of its offer
 * began: a pause may end before the other machines have been tried. */
int espl__health_is_avoided(const struct espl__health *, espl_time since, espl_time now);
/* Names of the machines of this offer that are avoided, or held out, at most `room`; returns how
 * many. */
uint32_t espl__health_avoided(const struct espl__health_book *, uint32_t offer, espl_time since,
    espl_time now, const char **names, uint32_t room);
/* How many different machines of this offer failed from this time on. */
uint32_t espl__health_failed_since(const struct espl__health_book *, uint32_t offer, espl_time);
/* "good", "avoided" or "drained". */
const char *espl__health_word(const struct espl__health *, espl_time now);
#endif
