/* haste.h - policies that ask to be called soon, again and again, although nothing changes.
 *
 * Each has a number of such calls, which time gives back: a policy that loops at one instant, or in
 * steps of nanoseconds, has soon used them up, and any other never.
 */
#ifndef ESPL__HASTE_H
#define ESPL__HASTE_H
#include <espalier/abi.h>

#define ESPL__HASTE_SPAN (ESPL_SECOND / 1000) /* a call in less than this is soon */
#define ESPL__HASTE_MOST 1000u                /* calls */
#define ESPL__HASTE_BACK (ESPL_SECOND / 100)  /* that gives one back */

struct espl__haste {
	uint32_t calls;  /* that changed nothing */
	espl_time since; /* from which on time gives them back */
	uint8_t asked;   /* the call that it waits for was to be soon */
	uint8_t called;  /* in this round, for that */
};

static inline void
espl__haste_asks(struct espl__haste *h, espl_time at, espl_time now)
{
	h->asked |= at - now < ESPL__HASTE_SPAN;
}

/* Its alarm rings. */
static inline void
espl__haste_rings(struct espl__haste *h)
{
	h->called = h->asked;
	h->asked = 0;
}

/* The round is over. 1: it was one call too many. */
static inline int
espl__haste_counts(struct espl__haste *h, espl_time now, int in_vain)
{
	uint64_t back = (uint64_t)(now - h->since) / (uint64_t)ESPL__HASTE_BACK;
	int counts = h->called && in_vain;

	h->called = 0;
	if (!counts)
		return 0;
	h->calls = back < h->calls ? h->calls - (uint32_t)back : 0;
	h->since = h->calls == 0 ? now : h->since + (espl_time)back * ESPL__HASTE_BACK;
	h->calls += h->calls <= ESPL__HASTE_MOST;
	return h->calls > ESPL__HASTE_MOST;
}
#endif
