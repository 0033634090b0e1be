/* test_kde.h - a host for tests of the model: its random stream, or numbers that the test gives. */
#ifndef TEST_KDE_H
#define TEST_KDE_H
#include "kde.h"
#include "testkit.h"

struct stage {
	struct espl_host host;
	struct espl_kit *kit; /* for its space */
	struct espl_experiment experiment;
	const struct espl_history *history;
	uint64_t state;
	const double *given; /* NULL: the stream */
	char heard[256];     /* the last line for the log */
};
extern const struct kde_setup test_defaults;
extern uint32_t test_left; /* allocations until one fails; UINT32_MAX: none does */

void test_stage(struct stage *, uint64_t seed);
void test_open(struct kde *, struct stage *, const struct kde_setup *);
void test_close(struct kde *, struct stage *);
void test_observe(struct kde *, uint64_t budget, uint64_t trial, double loss, const double *values);
/* Equal but for the last digits? */
void test_near(double is, double wanted, const char *what);
#endif
