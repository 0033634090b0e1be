/* notes.h - texts with names that a program, or its user, attaches to a trial: the same limits for
 * the trial protocol, for `espalier ask` and for `espalier trial note`.
 *
 * A note beyond the limits is dropped, a text that is too long is cut; neither disturbs a trial.
 */
#ifndef ESPL__NOTES_H
#define ESPL__NOTES_H
#include <stddef.h>

#define ESPL__NOTE_KEY 64u    /* bytes of a name, at least one */
#define ESPL__NOTE_TEXT 4096u /* bytes */
#define ESPL__NOTES_MOST 64u  /* different names of a trial */
/* Format of the warning: the trial, what is beyond which limit, the name. */
#define ESPL__NOTES_DROPPED "trial %s: %s; dropping note '%.64s' (further ones are not mentioned)"
#define ESPL__NOTES_CUT \
	"trial %s: note '%.64s' is longer than 4096 bytes: cut (further ones are " \
	"not mentioned)"

/* What is wrong with the name, in words; NULL: nothing. */
const char *espl__note_misnamed(const char *key);
/* How many bytes of the text are kept: whole characters of UTF-8, within the limit. */
size_t espl__note_length(const char *text);
/* In words: a trial has as many notes as it may, and none of this name. */
extern const char espl__notes_full[];
#endif
