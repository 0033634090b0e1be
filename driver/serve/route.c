/* route.c - reads the path of an address. */
#include "base/assert.h"
#include "serve/route.h"

#include <string.h>

#include "base/ids.h"

/* Digits up to `end` or the end of the text, below `limit`.  Returns what follows them, or NULL. */
static const char *
read_number(const char *at, char end, uint64_t limit, uint64_t *to)
{
	const char *from = at;

	for (*to = 0; *at >= '0' && *at <= '9' && *to < limit; at++)
		*to = 10 * *to + (uint64_t)(*at - '0');
	if (at == from || *to >= limit || *at != end)
		return NULL;
	return end != '\0' ? at + 1 : at;
}

/* "17", or "1/17" in a pool. */
static int
read_trial(const char *at, uint64_t *trial)
{
	uint64_t search = 0, number;
	const char *rest = read_number(at, '/', 1000000, &search);

	if (rest == NULL)
		search = 0;
	if (read_number(rest != NULL ? rest : at, '\0', ESPL__TRIAL_NUMBER, &number) == NULL)
		return 0;
	*trial = search << ESPL__TRIAL_BITS | number;
	return 1;
}

struct espl__route
espl__route_of(const char *url, const char *room)
{
	static const struct {
		const char *word;
		enum espl__place place;
	} all[] = { { "", ESPL__PLACE_INDEX }, { "runs", ESPL__PLACE_RUNS },
		{ "events", ESPL__PLACE_EVENTS }, { "live.js", ESPL__PLACE_LIVE_SCRIPT },
		{ "live.css", ESPL__PLACE_LIVE_STYLE }, { "report.js", ESPL__PLACE_DRAW_SCRIPT } },
	  own[] = { { "", ESPL__PLACE_RUN }, { "data", ESPL__PLACE_RUN_DATA },
		  { "events", ESPL__PLACE_RUN_EVENTS }, { "stop", ESPL__PLACE_STOP },
		  { "cancel", ESPL__PLACE_CANCEL }, { "submit", ESPL__PLACE_SUBMIT } };
	struct espl__route route = { ESPL__PLACE_NONE, 0, 0 };
	size_t length = strlen(room);
	uint64_t run;

	ESPL__ASSERT(length > 0);
	if (url[0] != '/' || strncmp(url + 1, room, length) != 0 || url[1 + length] != '/')
		return route;
	url += length + 2;
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if (strcmp(url, all[i].word) == 0)
			route.place = all[i].place;
	url = read_number(url, '/', UINT32_MAX, &run);
	if (url == NULL)
		return route;
	route.run = (uint32_t)run;
	for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
		if (strcmp(url, own[i].word) == 0)
			route.place = own[i].place;
	if (strncmp(url, "log/", 4) == 0 && read_trial(url + 4, &route.trial))
		route.place = ESPL__PLACE_LOG;
	return route;
}
