/* notes.c - see notes.h. */
#include "base/notes.h"

#include <string.h>

#include "base/assert.h"

const char espl__notes_full[] = "more than 64 notes";

const char *
espl__note_misnamed(const char *key)
{
	ESPL__ASSERT(key != NULL);
	return key[0] == '\0'              ? "a note without a name"
	    : strlen(key) > ESPL__NOTE_KEY ? "a note whose name is longer than 64 bytes"
					   : NULL;
}

size_t
espl__note_length(const char *text)
{
	size_t length = strnlen(text, ESPL__NOTE_TEXT + 1);

	if (length <= ESPL__NOTE_TEXT)
		return length;
	for (length = ESPL__NOTE_TEXT; length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80;)
		length--;
	return length;
}
