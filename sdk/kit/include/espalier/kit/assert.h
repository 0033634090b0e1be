/* espalier kit: assert.h - assertions that are always on.  They are for programming errors of a
 * plugin or its host, never for errors in what a user, a file or a trial provides.
 */
#ifndef ESPALIER_KIT_ASSERT_H
#define ESPALIER_KIT_ASSERT_H
#ifdef __cplusplus
extern "C" {
#endif

/* Prints the place and the condition on standard error and aborts; the host adds the names of the
 * plugin and of the entry that it called. */
__attribute__((__noreturn__, __cold__)) void espl_assert_failed(const char *file, int line,
    const char *condition);

#define ESPL_ASSERT(condition_) \
	do { \
		if (!(condition_)) \
			espl_assert_failed(__FILE__, __LINE__, #condition_); \
	} while (0)

#ifdef __cplusplus
}
#endif
#endif
