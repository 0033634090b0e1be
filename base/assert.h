/* assert.h - assertions that stay on: for the programmer's errors, never for data.
 *
 * A failure prints the expression, the place and what espl__panic_context says (seed, virtual
 * time, last decisions), then aborts.
 */
#ifndef ESPL__ASSERT_H
#define ESPL__ASSERT_H
#include <espalier/abi.h>

_Noreturn void espl__panic(const char *file, int line, const char *what);
/* Called by espl__panic for more text, of at most `room` bytes with the NUL; must not allocate.
 * NULL: there is none. */
extern void (*espl__panic_context)(void *ctx, char *text, size_t room);
extern void *espl__panic_context_arg;

#define ESPL__ASSERT(c_) \
	do { \
		if (!(c_)) \
			espl__panic(__FILE__, __LINE__, #c_); \
	} while (0)
/* At the entry of a module: the object is one, and lives.  magic_: as in ESPL__EXEC_MAGIC. */
#define ESPL__CHECK(object_, magic_) \
	ESPL__ASSERT((object_) != NULL && (object_)->magic == ESPL__##magic_##_MAGIC)
#define ESPL__WRONG(text_) espl__panic(__FILE__, __LINE__, text_)
#endif
