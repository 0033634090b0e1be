/* route.h - which answer an address asks for. */
#ifndef ESPL__ROUTE_H
#define ESPL__ROUTE_H
#include <stdint.h>

enum espl__place {
	ESPL__PLACE_NONE,
	ESPL__PLACE_INDEX,       /* /ROOM/ */
	ESPL__PLACE_RUNS,        /* /ROOM/runs */
	ESPL__PLACE_EVENTS,      /* /ROOM/events */
	ESPL__PLACE_LIVE_SCRIPT, /* /ROOM/live.js */
	ESPL__PLACE_LIVE_STYLE,  /* /ROOM/live.css */
	ESPL__PLACE_DRAW_SCRIPT, /* /ROOM/report.js */
	ESPL__PLACE_RUN,         /* /ROOM/3/ */
	ESPL__PLACE_RUN_DATA,    /* /ROOM/3/data */
	ESPL__PLACE_RUN_EVENTS,  /* /ROOM/3/events */
	ESPL__PLACE_LOG,         /* /ROOM/3/log/17, /ROOM/3/log/1/17 in a pool */
	ESPL__PLACE_STOP,        /* POST /ROOM/3/stop */
	ESPL__PLACE_CANCEL,      /* POST /ROOM/3/cancel, with a name */
	ESPL__PLACE_SUBMIT       /* POST /ROOM/3/submit, with a file */
};
struct espl__route {
	enum espl__place place;
	uint32_t run;
	uint64_t trial;
};
/* Words and numbers must match exactly: nothing of an address ever becomes part of a path. */
struct espl__route espl__route_of(const char *url, const char *room);
static inline int
espl__route_posts(enum espl__place place)
{
	return place >= ESPL__PLACE_STOP;
}
#endif
