/* calling.h - which plugin's code is running, so that a plugin that crashes or exits is named.
 *
 * The kernel's bare "Segmentation fault" blames espalier, and a plugin's exit(0) looks like a run
 * that is done.  Nothing of this reaches a journal or a decision.
 */
#ifndef ESPL__CALLING_H
#define ESPL__CALLING_H
#include <stddef.h>
#include <stdint.h>

#define ESPL__ASKED 3

struct espl__calling {
	const char *who;  /* "allocator 'fair'"; NULL: the host's own code runs */
	const char *what; /* "allocate": the entry that was called */
	const char *path; /* of its file, or "(builtin)" */
	unsigned number;  /* of calls so far: is it still the same one? */
	struct {
		const char *name;
		int64_t value;
	} asked[ESPL__ASKED]; /* name NULL: no more */
};
extern volatile struct espl__calling espl__calling;

extern volatile int espl__calling_reported; /* a message was written: abort() follows */

/* Around each call of a plugin; the texts live until the end.  Where one begins within another,
 * the outer one is forgotten. */
static inline void
espl__calling_begin(const char *who, const char *what, const char *path)
{
	espl__calling.what = what;
	espl__calling.path = path;
	espl__calling.number++;
	espl__calling.asked[0].name = NULL;
	espl__calling.who = who; /* last: a signal finds all or nothing */
}

/* What the call that has begun is asked, for a message: "items 40, nodes 10, second 123". */
static inline void
espl__calling_asked(const char *one, int64_t a, const char *two, int64_t b, const char *three,
    int64_t c)
{
	espl__calling.asked[1].value = b;
	espl__calling.asked[1].name = two;
	espl__calling.asked[2].value = c;
	espl__calling.asked[2].name = three;
	espl__calling.asked[0].value = a;
	espl__calling.asked[0].name = one;
}

static inline void
espl__calling_end(void)
{
	espl__calling.who = NULL;
}

/* Reports a crash, an abort(), or an exit() inside a plugin on standard error, in this process only
 * and not in its children.  The process still dies of the same signal; an exit() ends it with
 * status 1.  A call that has used 10 s of processor time (then 100 s, ...) is reported with its
 * arguments.  Signals that already have a handler (sanitizers) are left alone.  May be called
 * again. */
void espl__calling_watch(void);
#endif
