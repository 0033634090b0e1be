/* courier_main.c - see courier.h. */
#include "courier/courier.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/tick.h"
#include "config.h"

#define SECOND INT64_C(1000000000)
#define WAIT_MS 1000

void
espl__courier_print(const char *format, ...)
{
	struct espl__buf line = { NULL, 0, 0 };
	va_list args;

	va_start(args, format);
	espl__vprint(&line, format, args);
	va_end(args);
	espl__put_u8(&line, '\n');
	if (espl__write_all(1, line.data, line.size) != 0)
		_exit(1); /* the agent is gone */
	espl__buf_free(&line);
}

void
espl__courier_fail(struct espl__courier *c, int how, const char *why)
{
	if (!c->over)
		espl__courier_print("failed %d %.400s", how, why);
	c->over = c->code = 1;
}

void
espl__courier_moved(struct espl__courier *c, uint64_t bytes)
{
	int64_t now = espl__tick();

	c->moved += bytes;
	if (now - c->said < SECOND)
		return;
	c->said = now;
	espl__courier_print("moved %" PRIu64, c->moved);
}

/* ---- lines -------------------------------------------------------------------------------- */

static void
take_url(struct espl__courier *c, const char *text)
{
	char *url;
	uint64_t number = strtoull(text, &url, 10);

	for (int i = 0; i < ESPL__COURIER_PARTS && *url == ' '; i++) {
		struct espl__errand *e = &c->errands[i];

		if (e->state == ESPL__ERRAND_ASKED && e->number == number) {
			espl__errand_run(e, url + 1);
			return;
		}
	}
	espl__courier_fail(c, 1, "received a URL that was not requested");
}

static void
obey_line(struct espl__courier *c, const char *line)
{
	int begun = c->part_size > 0 || c->size > 0;

	if (begun && strncmp(line, "url ", 4) == 0) {
		take_url(c, line + 4);
	} else if (!begun &&
	    sscanf(line, "put %" SCNx64 " %zu %d", &c->digest, &c->part_size, &c->checksums) == 3 &&
	    c->part_size > 0) {
		c->put = 1;
		espl__put_begin(c);
		espl__put_more(c);
	} else if (!begun && sscanf(line, "get %" SCNx64 " %" SCNu64, &c->digest, &c->size) == 2 &&
	    c->size > 0) {
		espl__get_begin(c);
	} else {
		espl__courier_fail(c, 1, "espalier-courier received an invalid line");
	}
}

static void
read_lines(struct espl__courier *c)
{
	char *from, *end;
	ssize_t got;

	espl__buf_reserve(&c->in, 65536);
	got = read(0, c->in.data + c->in.size, 65535);
	if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) {
		c->over = 1;
		return;
	}
	c->in.size += got > 0 ? (size_t)got : 0;
	from = (char *)c->in.data;
	while (!c->over &&
	    (end = memchr(from, '\n', c->in.size - (size_t)(from - (char *)c->in.data))) != NULL) {
		*end = '\0';
		obey_line(c, from);
		from = end + 1;
	}
	c->in.size -= (size_t)(from - (char *)c->in.data);
	memmove(c->in.data, from, c->in.size);
}

/* ---- requests ----------------------------------------------------------------------------- */

static void
collect_done(struct espl__courier *c)
{
	CURLMsg *message;
	int left;

	while ((message = curl_multi_info_read(c->multi, &left)) != NULL) {
		struct espl__errand *e = NULL;
		CURLcode result = message->data.result;

		if (message->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&e);
		if (!espl__errand_over(e, result))
			continue;
		if (c->put)
			espl__put_done(c, e);
		else
			espl__get_done(c);
	}
}

/* Retries errands whose pause has ended; returns the ms until the next one is due. */
static int
tend_errands(struct espl__courier *c)
{
	int64_t now = espl__tick(), wait = WAIT_MS;

	for (int i = 0; i < ESPL__COURIER_PARTS; i++) {
		struct espl__errand *e = &c->errands[i];
		int64_t left = (e->at - now) / 1000000 + 1;

		if (e->state != ESPL__ERRAND_RESTS)
			continue;
		if (now >= e->at)
			espl__errand_ask(e);
		else if (left < wait)
			wait = left;
	}
	return (int)wait;
}

static void
turn_loop(struct espl__courier *c)
{
	struct curl_waitfd in = { .fd = 0, .events = CURL_WAIT_POLLIN };
	int running;

	if (curl_multi_poll(c->multi, &in, 1, tend_errands(c), NULL) != CURLM_OK ||
	    curl_multi_perform(c->multi, &running) != CURLM_OK) {
		espl__courier_fail(c, 1, "libcurl failed");
		return;
	}
	collect_done(c);
	if (!c->over && in.revents != 0)
		read_lines(c);
}

int
main(int argc, char **argv)
{
	static struct espl__courier c;

	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		printf("espalier-courier %s\n", PACKAGE_VERSION);
		return 0;
	}
	if (argc != 2 || argv[1][0] != '/') {
		fprintf(stderr,
		    "espalier-courier is started by espalier-agent. It carries a "
		    "checkpoint to or from a bucket (docs/stores.md).\n");
		return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)fcntl(0, F_SETFL, O_NONBLOCK);
	c.place = argv[1];
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
	    (c.multi = curl_multi_init()) == NULL) {
		espl__courier_fail(&c, 1, "cannot initialize libcurl");
		return 1;
	}
	srandom((unsigned)espl__tick() ^ (unsigned)getpid());
	for (int i = 0; i < ESPL__COURIER_PARTS; i++)
		c.errands[i].of = &c;
	while (!c.over)
		turn_loop(&c);
	for (int i = 0; i < ESPL__COURIER_PARTS; i++)
		espl__errand_free(&c.errands[i]);
	(void)curl_multi_cleanup(c.multi);
	espl__courier_close(&c);
	espl__buf_free(&c.in);
	curl_global_cleanup();
	return c.code;
}
