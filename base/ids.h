/* ids.h - a trial's number outside its search, and the directory that it has.
 *
 * The upper bits are the number of its search: an ordinary run's search is number 0, so that its
 * trials keep their numbers; those of a pool's experiments have directories below the experiment's
 * own.
 */
#ifndef ESPL__IDS_H
#define ESPL__IDS_H
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"

#define ESPL__TRIAL_BITS 40
#define ESPL__TRIAL_NUMBER ((UINT64_C(1) << ESPL__TRIAL_BITS) - 1)

/* "3", or "1/3": trial 3 of experiment 1 of a pool. */
static inline const char *
espl__trial_name(uint64_t trial, char to[48])
{
	const unsigned long long search = trial >> ESPL__TRIAL_BITS,
				 number = trial & ESPL__TRIAL_NUMBER;

	(void)(search == 0 ? snprintf(to, 48, "%llu", number)
			   : snprintf(to, 48, "%llu/%llu", search, number));
	return to;
}

/* Parses "TRIAL/checkpoint-N", as movers name checkpoints. 0; -1: it is not one. */
static inline int
espl__checkpoint_name(const char *name, uint64_t *trial, uint64_t *checkpoint)
{
	char again[64];

	if (sscanf(name, "%20" SCNu64 "/checkpoint-%20" SCNu64, trial, checkpoint) != 2)
		return -1;
	(void)snprintf(again, sizeof again, "%" PRIu64 "/checkpoint-%" PRIu64, *trial, *checkpoint);
	return strcmp(name, again) == 0 ? 0 : -1;
}

/* Parses "TRIAL/output", as movers name a trial's own output directory. 0; -1: it is not one. */
static inline int
espl__output_name(const char *name, uint64_t *trial)
{
	char again[64];

	if (sscanf(name, "%20" SCNu64 "/output", trial) != 1)
		return -1;
	(void)snprintf(again, sizeof again, "%" PRIu64 "/output", *trial);
	return strcmp(name, again) == 0 ? 0 : -1;
}

/* The copy of a search's files, below the directory of the run: 1; else 0. */
static inline int
espl__is_files_name(const char *name)
{
	uint64_t number;
	char again[64];

	if (strcmp(name, "files") == 0)
		return 1;
	if (sscanf(name, "experiments/%20" SCNu64 "/files", &number) != 1)
		return 0;
	(void)snprintf(again, sizeof again, "experiments/%" PRIu64 "/files", number);
	return strcmp(name, again) == 0;
}

/* "EXPERIMENT-trial-3": a word for other programs and a file's name, so that of the experiment's
 * name all but letters, digits, '.', '_' and '-' becomes '-'.  Malloc'd. */
static inline char *
espl__trial_label(const char *experiment, uint64_t trial)
{
	char *label = espl__format("%s%strial-%" PRIu64, experiment != NULL ? experiment : "",
	    experiment != NULL && experiment[0] != '\0' ? "-" : "", trial & ESPL__TRIAL_NUMBER);

	for (unsigned char *p = (unsigned char *)label; *p != '\0'; p++)
		if (*p < 0x80 && strchr("._-", *p) == NULL && (*p < '0' || *p > '9') &&
		    ((*p | 0x20) < 'a' || (*p | 0x20) > 'z'))
			*p = '-';
	return label;
}

/* Malloc'd. */
static inline char *
espl__trial_dir(const char *dir, uint64_t trial)
{
	const unsigned long long search = trial >> ESPL__TRIAL_BITS,
				 number = trial & ESPL__TRIAL_NUMBER;

	if (search == 0)
		return espl__format("%s/trials/%llu", dir, number);
	return espl__format("%s/experiments/%llu/trials/%llu", dir, search, number);
}

/* Where the directory of this name, a checkpoint's, a trial's output or a search's files, is below
 * the run directory.  Malloc'd; NULL if it is not such a name. */
static inline char *
espl__named_place(const char *dir, const char *name)
{
	uint64_t trial, checkpoint;
	char *trial_dir, *place;

	if (espl__is_files_name(name))
		return espl__format("%s/%s", dir, name);
	if (espl__output_name(name, &trial) == 0) {
		trial_dir = espl__trial_dir(dir, trial);
		place = espl__format("%s/output", trial_dir);
		free(trial_dir);
		return place;
	}
	if (espl__checkpoint_name(name, &trial, &checkpoint) != 0)
		return NULL;
	trial_dir = espl__trial_dir(dir, trial);
	place = espl__format("%s/checkpoint-%" PRIu64, trial_dir, checkpoint);
	free(trial_dir);
	return place;
}
#endif
