/* agent_imds.c - reports upcoming interruptions of a machine of EC2 or of Compute Engine, as
 * announced by its metadata service (EC2: IMDSv2).
 *
 * A thread polls the service every five seconds, with short timeouts. Polling stops if the first
 * three requests get no answer, and never starts on machines elsewhere. It needs no permissions.
 */
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent.h"
#include "node/wire.h"

#define PAUSE (5000 * INT64_C(1000000))
#define LIMIT_MS 500 /* for each step of a request */
#define ANSWER_MOST 4096
#define TRIES 3u                               /* without any answer */
#define RENEW (5 * 3600 * INT64_C(1000000000)) /* a token is good for six hours */

enum imds_level { IMDS_FINE = 0, IMDS_REBALANCE, IMDS_INTERRUPTED };

struct espl__imds {
	char host[64], port[8], prefix[120];
	char token[200];
	int64_t at, token_at; /* the next request; when the token came */
	uint32_t failures;
	int google;                  /* Compute Engine: it needs no token */
	int busy, known;             /* known: it has answered once */
	enum imds_level level, told; /* the last one seen; the highest that the driver knows of */
	char risk[160];              /* the level in words */
};

struct imds_poll {
	struct espl__task task;
	struct espl__imds copy; /* the thread's own */
	int answered;
};

/* ---- requests (in a thread) ------------------------------------------------------------------ */

static int
open_socket(const struct espl__imds *m)
{
	struct timeval limit = { 0, LIMIT_MS * 1000 };
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *found = NULL;
	int fd = -1;

	if (getaddrinfo(m->host, m->port, &hints, &found) != 0)
		return -1;
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 &&
	    (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
		connect(fd, found->ai_addr, found->ai_addrlen) != 0)) {
		(void)close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	return fd;
}

/* The whole answer as text; its status, or -1. */
static int
ask_imds(const struct espl__imds *m, const char *method, const char *path, const char *header,
    char answer[ANSWER_MOST])
{
	int64_t until = espl__tick() + 2 * LIMIT_MS * INT64_C(1000000);
	char request[700];
	size_t used = 0;
	ssize_t got;
	int status = -1, fd = open_socket(m);
	int size = snprintf(request, sizeof request,
	    "%s %s%s HTTP/1.1\r\nHost: %s\r\n%s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
	    method, m->prefix, path, m->host, header);

	if (fd < 0)
		return -1;
	if (size > 0 && (size_t)size < sizeof request &&
	    send(fd, request, (size_t)size, MSG_NOSIGNAL) == size)
		while (used + 1 < ANSWER_MOST && espl__tick() < until &&
		    (got = recv(fd, answer + used, ANSWER_MOST - 1 - used, 0)) > 0)
			used += (size_t)got;
	(void)close(fd);
	answer[used] = '\0';
	if (sscanf(answer, "HTTP/1.%*1[01] %3d", &status) != 1)
		return -1;
	return strstr(answer, "\r\n\r\n") != NULL ? status : -1;
}

static int
fetch_token(struct espl__imds *m)
{
	char answer[ANSWER_MOST];
	const char *body;
	size_t size;

	if (m->google || (m->token[0] != '\0' && espl__tick() - m->token_at < RENEW))
		return 0;
	m->token[0] = '\0';
	if (ask_imds(m, "PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 21600",
		answer) != 200)
		return -1;
	body = strstr(answer, "\r\n\r\n") + 4;
	size = strcspn(body, " \r\n");
	if (size == 0 || size >= sizeof m->token)
		return -1;
	memcpy(m->token, body, size);
	m->token[size] = '\0';
	m->token_at = espl__tick();
	return 0;
}

/* The time in `"NAME": "2026-01-02T03:04:05Z"`; "": there is none. */
static void
find_time(const char *body, const char *name, char to[24])
{
	const char *at = strstr(body, name);
	size_t size;

	to[0] = '\0';
	if (at == NULL)
		return;
	at += strlen(name);
	at += strspn(at, "\": ");
	size = strspn(at, "0123456789-:TZ");
	if (size > 0 && size < 24) {
		memcpy(to, at, size);
		to[size] = '\0';
	}
}

/* 0: it was answered. */
static int
ask_google(struct espl__imds *m)
{
	char answer[ANSWER_MOST];

	if (ask_imds(m, "GET", "/computeMetadata/v1/instance/preempted", "Metadata-Flavor: Google",
		answer) != 200)
		return -1;
	if (strncmp(strstr(answer, "\r\n\r\n") + 4, "TRUE", 4) != 0)
		return 0;
	m->level = IMDS_INTERRUPTED;
	(void)snprintf(m->risk, sizeof m->risk,
	    "Compute Engine is about to interrupt its spot machine");
	return 0;
}

/* 0: it was answered. */
static int
ask_risk(struct espl__imds *m)
{
	static const struct {
		enum imds_level level;
		const char *path, *name, *text;
	} asked[] = { { IMDS_INTERRUPTED, "/latest/meta-data/spot/instance-action", "\"time\"",
			  "EC2 is about to interrupt its spot machine" },
		{ IMDS_REBALANCE, "/latest/meta-data/events/recommendations/rebalance",
		    "\"noticeTime\"", "EC2 recommends replacing its spot machine" } };
	char header[260], answer[ANSWER_MOST], when[24];

	if (m->google)
		return ask_google(m);
	(void)snprintf(header, sizeof header, "X-aws-ec2-metadata-token: %s", m->token);
	for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
		int status = ask_imds(m, "GET", asked[i].path, header, answer);

		if (status == 401)
			m->token[0] = '\0';
		if (status != 200 && status != 404)
			return -1;
		if (status == 404)
			continue;
		find_time(strstr(answer, "\r\n\r\n"), asked[i].name, when);
		m->level = asked[i].level;
		(void)snprintf(m->risk, sizeof m->risk, "%s%s%s%s", asked[i].text,
		    when[0] != '\0' ? " (" : "", when, when[0] != '\0' ? ")" : "");
		return 0;
	}
	return 0;
}

static void
run_poll(struct espl__task *task)
{
	struct imds_poll *poll = (struct imds_poll *)task;

	poll->answered = fetch_token(&poll->copy) == 0 && ask_risk(&poll->copy) == 0;
}

/* ---- the loop's part ------------------------------------------------------------------------- */

static void
end_poll(struct espl__agent *a, struct espl__task *task)
{
	struct imds_poll *poll = (struct imds_poll *)task;
	struct espl__imds *m = a->imds;
	size_t mark;

	memcpy(m->token, poll->copy.token, sizeof m->token);
	memcpy(m->risk, poll->copy.risk, sizeof m->risk);
	m->level = poll->copy.level;
	m->token_at = poll->copy.token_at;
	m->busy = 0;
	m->known |= poll->answered;
	m->failures = poll->answered ? 0 : m->failures + 1;
	m->at = !m->known && m->failures >= TRIES ? INT64_MAX : espl__tick() + PAUSE;
	free(poll);
	if (m->level <= m->told || a->ending)
		return;
	m->told = m->level;
	mark = espl__frame_begin(&a->outbox, ESPL__MSG_RISK);
	espl__put_str(&a->outbox, m->risk);
	espl__frame_end(&a->outbox, mark);
}

static int
file_begins(const char *path, const char *with)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof text - 1) < 0)
		text[0] = '\0';
	(void)close(fd);
	return strncasecmp(text, with, strlen(with)) == 0;
}

/* "http://ADDRESS[:PORT][/PATH]", with an address of numbers; -1: it is not that. */
static int
read_endpoint(const char *url, struct espl__imds *m)
{
	size_t size;

	if (strncmp(url, "http://", 7) != 0)
		return -1;
	url += 7;
	size = url[0] == '[' ? strcspn(url, "]") : strcspn(url, ":/");
	url += url[0] == '[' && size-- > 0;
	if (size == 0 || size >= sizeof m->host)
		return -1;
	memcpy(m->host, url, size);
	url += size + (url[size] == ']');
	(void)snprintf(m->port, sizeof m->port, "80");
	if (url[0] == ':') {
		size = strspn(url + 1, "0123456789");
		(void)snprintf(m->port, sizeof m->port, "%.*s", (int)(size < 6 ? size : 6),
		    url + 1);
		url += 1 + size;
	}
	size = strlen(url);
	while (size > 0 && url[size - 1] == '/')
		size--;
	if (size >= sizeof m->prefix || strpbrk(url, " \r\n") != NULL)
		return -1;
	memcpy(m->prefix, url, size);
	return 0;
}

/* Where this machine has the metadata service of EC2; "": nowhere. */
static const char *
find_ec2(void)
{
	const char *off = getenv("AWS_EC2_METADATA_DISABLED");
	const char *url = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");

	if (off != NULL && strcasecmp(off, "true") == 0)
		return "";
	if (url != NULL && url[0] != '\0')
		return url;
	return file_begins("/sys/class/dmi/id/sys_vendor", "Amazon EC2") ||
		file_begins("/sys/hypervisor/uuid", "ec2")
	    ? "http://169.254.169.254"
	    : "";
}

/* Decides once whether this machine has a metadata service. */
static void
begin_imds(struct espl__agent *a)
{
	const char *host = getenv("GCE_METADATA_HOST");
	char google[300] = "";

	a->imds = espl__alloc(sizeof *a->imds);
	a->imds->at = INT64_MAX;
	if (host == NULL || host[0] == '\0')
		host = file_begins("/sys/class/dmi/id/sys_vendor", "Google") ? "169.254.169.254"
									     : NULL;
	if (host != NULL)
		(void)snprintf(google, sizeof google, "http://%.280s", host);
	a->imds->google = host != NULL;
	if (read_endpoint(host != NULL ? google : find_ec2(), a->imds) == 0)
		a->imds->at = espl__tick();
}

/* A new driver has not received what was sent to another one. */
void
espl__imds_greet(struct espl__agent *a)
{
	if (a->imds != NULL)
		a->imds->told = IMDS_FINE;
}

int64_t
espl__imds_tend(struct espl__agent *a, int64_t now)
{
	struct imds_poll *poll;

	ESPL__CHECK(a, AGENT);
	if (!a->greeted || a->ending)
		return 0;
	if (a->imds == NULL)
		begin_imds(a);
	if (a->imds->busy || a->imds->at == INT64_MAX)
		return 0;
	if (now < a->imds->at)
		return a->imds->at;
	poll = espl__alloc(sizeof *poll);
	poll->task = (struct espl__task){ run_poll, end_poll };
	poll->copy = *a->imds;
	a->imds->busy = 1;
	espl__agent_job(a, &poll->task);
	return 0;
}
