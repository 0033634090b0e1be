/* request.h - requests to the driver of a run, through its directory. */
#ifndef ESPL__CLI_REQUEST_H
#define ESPL__CLI_REQUEST_H
#include "cli/cli.h"

/* Directory of a real run, or (pool) of a pool, that has not ended: E_CONFIG with a hint where it
 * is none. */
espl_status espl__request_find(const char *given, int pool, char **dir, struct espl__diag *);
char *espl__request_name(const char *kind); /* unique, in order of submission; malloc'd */
/* Made before the request: DIR/spool, and .ID.asker, which is locked until the descriptor is
 * closed. */
espl_status espl__request_begin(const char *dir, const char *request, int *asker,
    struct espl__diag *);
void espl__request_end(const char *dir, const char *request, int asker);
/* Waits for the driver's word, and ends the asking.  Returns the exit status. */
int espl__request_wait(const char *dir, const char *request, int asker, const char *what,
    const char *name);
/* All of it, for a request that is a name: DIR NAME on the command line. */
int espl__request_send(const char *given, int pool, const char *kind, const char *name,
    const char *what);
/* The same with a text, which is about `name`. */
int espl__request_send_text(const char *given, int pool, const char *kind, const char *text,
    const char *name, const char *what);
#endif
