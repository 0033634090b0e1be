/* request.h - what a request must show to be answered, and which answer its address asks for. */
#ifndef ESPL__REQUEST_H
#define ESPL__REQUEST_H
#include <stdint.h>

#define ESPL__ACCESS_ROOM 16 /* bytes of a secret */
/* A secret of the system's random numbers, in hexadecimal.  0, or -1 with errno. */
int espl__access_random(char to[2 * ESPL__ACCESS_ROOM + 1]);
/* Is it the secret?  Takes the same time for every wrong text of its length; NULL is wrong. */
int espl__access_equal(const char *given, const char *secret);
/* Does a header Host name this machine (localhost, 127.0.0.1, [::1]), with any port?  A page of
 * another site that has its name point here does not; ssh -L may change the port. */
int espl__access_host(const char *host);
/* Does a header Origin (NULL: absent) say that the request comes from our page? */
int espl__access_origin(const char *origin, const char *host);

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
