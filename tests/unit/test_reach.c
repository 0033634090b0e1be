/* test_reach.c - whether nodes reach each other, as their agents try it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/address.h"
#include "agent_peer.h"

#define WORD UINT64_C(0x1122334455667788)

static uint32_t
open_door(struct peer *p, uint64_t number)
{
	struct espl__buf b = { NULL, 0, 0 };
	uint32_t port;

	espl__put_v64(&b, number);
	espl__put_u64(&b, WORD);
	say(p, ESPL__MSG_RESERVE, &b);
	espl__buf_free(&b);
	expect(p, ESPL__MSG_PORT, number);
	port = espl__get_u32(&p->r);
	cr_assert(port > 0);
	return port;
}

static void
try_doors(struct peer *p, uint64_t number, uint32_t count, const char *const *addresses,
    const uint32_t *ports, const uint64_t *words)
{
	struct espl__buf b = { NULL, 0, 0 };

	espl__put_v64(&b, number);
	espl__put_v64(&b, count);
	for (uint32_t i = 0; i < count; i++) {
		espl__put_str(&b, addresses[i]);
		espl__put_u32(&b, ports[i]);
		espl__put_u64(&b, words[i]);
	}
	say(p, ESPL__MSG_TRY, &b);
	espl__buf_free(&b);
}

static void
try_one(struct peer *p, uint64_t number, const char *address, uint32_t port, uint64_t word)
{
	try_doors(p, number, 1, &address, &port, &word);
}

/* A port that never accepts a connection, or accepts it and sends nothing, is not a door. */
static uint32_t
listen_in_silence(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 8) == 0 &&
	    getsockname(fd, (struct sockaddr *)&at, &size) == 0);
	return ntohs(at.sin_port);
}

Test(reach, a_node_reaches_the_doors_of_others_and_names_the_one_that_it_does_not)
{
	const char *here[3] = { "127.0.0.1", "127.0.0.1", "127.0.0.1" };
	uint64_t words[3] = { WORD, 0, WORD };
	uint32_t ports[3], silent = listen_in_silence();
	struct peer p[2];
	char why[200];
	int told = 0;

	open_agent(&p[0], "cpu:1", 0);
	open_agent(&p[1], "cpu:1", 0);
	ports[0] = open_door(&p[0], 1);
	ports[1] = silent; /* it need not answer */
	ports[2] = open_door(&p[0], 2);
	try_doors(&p[1], 10, 3, here, ports, words);
	expect(&p[1], ESPL__MSG_TRIED, 10);
	(void)espl__get_v64(&p[1].r);
	espl__get_str(&p[1].r, why, sizeof why);
	cr_assert_str_eq(why, "");
	/* All of these take their time, and take it together. */
	try_one(&p[1], 11, "127.0.0.1", ports[0], WORD + 1);
	try_one(&p[1], 12, "127.0.0.1", silent, WORD);
	try_one(&p[1], 13, "no-such-host.invalid", ports[0], WORD);
	ports[1] = 1; /* nobody listens */
	try_doors(&p[1], 14, 3, here, ports, words);
	for (int i = 0; i < 4; i++) {
		uint64_t number, door;

		cr_assert_eq(hear(&p[1]), ESPL__MSG_TRIED);
		number = espl__get_v64(&p[1].r);
		door = espl__get_v64(&p[1].r);
		espl__get_str(&p[1].r, why, sizeof why);
		cr_assert(!p[1].r.bad);
		told |= 1 << (number - 10);
		cr_assert_eq(door, number == 14 ? 1 : 0);
		if (number == 11)
			cr_assert_str_eq(why, "another program answers there");
		else if (number == 12)
			cr_assert_str_eq(why, "it connects, but nothing is received");
		else if (number == 14)
			cr_assert_str_eq(why, "Connection refused");
		else
			cr_assert_str_neq(why, "");
	}
	cr_assert_eq(told, 0x1e);
	cr_assert_eq(close_agent(&p[0]), 0);
	cr_assert_eq(close_agent(&p[1]), 0);
}

/* Its doors are closed: by KILL, and when another driver comes. */
Test(reach, a_door_is_closed)
{
	struct espl__buf b = { NULL, 0, 0 };
	struct peer p;
	uint32_t port;
	char why[200];

	open_agent(&p, "cpu:1", 0);
	port = open_door(&p, 1);
	try_one(&p, 10, "127.0.0.1", port, WORD);
	expect(&p, ESPL__MSG_TRIED, 10);
	espl__put_v64(&b, 1);
	espl__put_v64(&b, 0);
	say(&p, ESPL__MSG_KILL, &b);
	espl__buf_free(&b);
	try_one(&p, 11, "127.0.0.1", port, WORD);
	expect(&p, ESPL__MSG_TRIED, 11);
	(void)espl__get_v64(&p.r);
	espl__get_str(&p.r, why, sizeof why);
	cr_assert_str_eq(why, "Connection refused");
	cr_assert_eq(close_agent(&p), 0);
}

static int
is_inward(const char *host, const char *address)
{
	struct sockaddr_storage room = { .ss_family = AF_INET };

	cr_assert_eq(inet_pton(AF_INET, address, &((struct sockaddr_in *)&room)->sin_addr), 1);
	return espl__is_inward(host, (struct sockaddr *)&room);
}

Test(reach, a_name_that_means_this_machine_to_itself_alone)
{
	cr_assert(is_inward("gpu1", "127.0.1.1"));
	cr_assert(!is_inward("gpu1", "10.0.0.7"));
	cr_assert(!is_inward("127.0.0.1", "127.0.0.1"));
	cr_assert(!is_inward("127.77.0.2", "127.77.0.2"));
}
