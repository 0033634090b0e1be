/* address.h - which addresses other machines can reach. */
#ifndef ESPL__ADDRESS_H
#define ESPL__ADDRESS_H
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static inline int
espl__is_loopback(const struct sockaddr *a)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)a;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)a;

	if (a->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
	return a->sa_family == AF_INET && ntohl(in->sin_addr.s_addr) >> 24 == 127;
}

/* The name of a machine often stands for a loopback address in its own /etc/hosts (on Debian
 * 127.0.1.1), while others find it elsewhere. */
static inline int
espl__is_inward(const char *host, const struct sockaddr *a)
{
	struct in6_addr any;

	return espl__is_loopback(a) && inet_pton(AF_INET, host, &any) != 1 &&
	    inet_pton(AF_INET6, host, &any) != 1;
}
#endif
