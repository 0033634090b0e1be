/* fail_alloc.h - lets the modules under test run out of memory: their malloc, calloc and realloc
 * are these, renamed on the compiler's command line (the .am of the program).  One file of a
 * program includes it, behind all others.
 */
#ifndef TEST_FAIL_ALLOC_H
#define TEST_FAIL_ALLOC_H
#include <stddef.h>
#include <stdint.h>

#undef malloc
#undef calloc
#undef realloc
extern void *malloc(size_t);
extern void *calloc(size_t, size_t);
extern void *realloc(void *, size_t);
void *test_malloc(size_t);
void *test_calloc(size_t, size_t);
void *test_realloc(void *, size_t);

uint32_t test_left =
    UINT32_MAX; /* allocations until one fails, and all after it; UINT32_MAX: none does */

static int
test_none_left(void)
{
	return test_left != UINT32_MAX && (test_left == 0 || --test_left == 0);
}

void *
test_malloc(size_t size)
{
	return test_none_left() ? NULL : malloc(size);
}

void *
test_calloc(size_t count, size_t size)
{
	return test_none_left() ? NULL : calloc(count, size);
}

void *
test_realloc(void *at, size_t size)
{
	return test_none_left() ? NULL : realloc(at, size);
}
#endif
