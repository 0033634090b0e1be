/* access.h - what a request must show to be answered. */
#ifndef ESPL__ACCESS_H
#define ESPL__ACCESS_H
#include <stddef.h>

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
#endif
