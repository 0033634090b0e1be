/* access.c - secrets, and the headers Host and Origin. */
#include "base/assert.h"
#include "serve/access.h"

#include <nettle/memops.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

int
espl__access_random(char to[2 * ESPL__ACCESS_ROOM + 1])
{
	unsigned char bytes[ESPL__ACCESS_ROOM];

	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		return -1;
	for (size_t i = 0; i < sizeof bytes; i++)
		(void)snprintf(to + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

int
espl__access_equal(const char *given, const char *secret)
{
	ESPL__ASSERT(secret != NULL && secret[0] != '\0');
	return given != NULL && strlen(given) == strlen(secret) &&
	    memeql_sec(given, secret, strlen(secret));
}

int
espl__access_host(const char *host)
{
	static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
	const char *port;
	size_t digits;

	for (size_t i = 0; host != NULL && i < sizeof names / sizeof names[0]; i++) {
		if (strncasecmp(host, names[i], strlen(names[i])) != 0)
			continue;
		port = host + strlen(names[i]);
		digits = *port == ':' ? strspn(port + 1, "0123456789") : 0;
		if (*port == '\0' || (digits > 0 && digits <= 5 && port[1 + digits] == '\0'))
			return 1;
	}
	return 0;
}

int
espl__access_origin(const char *origin, const char *host)
{
	return origin == NULL ||
	    (host != NULL && strncasecmp(origin, "http://", 7) == 0 &&
		strcasecmp(origin + 7, host) == 0);
}
