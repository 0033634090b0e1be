/* array.c - see espalier/kit/array.h. */
#include <stdlib.h>
#include <espalier/kit/array.h>
#include <espalier/kit/assert.h>

void *
espl_array_grow(void *at, uint32_t *room, uint32_t count, size_t size)
{
	uint32_t more = *room > 0 ? *room : 16;
	void *bigger;

	ESPL_ASSERT(size > 0);
	if (count <= *room)
		return at;
	while (more < count)
		more = more > UINT32_MAX / 2 ? count : more * 2;
	bigger = realloc(at, more * size);
	if (bigger != NULL)
		*room = more;
	return bigger;
}
