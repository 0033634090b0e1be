/* agent_channel.c - what the agent receives from its driver.
 *
 * Anything that violates wire.h ends the channel, and with it every process: commands that cannot
 * be parsed must not be guessed.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/tick.h"
#include "config.h"
#include "agent/agent.h"

#define READ_STEP ((size_t)256 << 10)

/* ---- frames ------------------------------------------------------------------------------ */

/* Copies a string from a frame; NULL: the frame is malformed. */
static char *
get_string(struct espl__reader *r)
{
	size_t size;
	const void *p = espl__get_bytes(r, &size);
	char *text;

	if (r->bad || (size > 0 && memchr(p, 0, size) != NULL))
		return NULL;
	text = espl__alloc(size + 1);
	if (size > 0)
		memcpy(text, p, size);
	return text;
}

/* What the driver wrote into the run directory; 0 if this node has another disk at its path. */
static uint64_t
read_token(const struct espl__agent *a)
{
	struct espl__buf text = { NULL, 0, 0 };
	char *path = espl__format("%s/token", a->dir != NULL ? a->dir : "");
	uint64_t token = 0;

	if (a->mover != NULL)
		token = 0;
	else if (a->dir == NULL ||
	    a->own_dir) /* not known yet, or not the directory of the driver */
		token = a->token;
	else if (espl__file_read(path, 64, &text, NULL) == ESPL_OK)
		token = strtoull(espl__buf_text(&text), NULL, 16);
	espl__buf_free(&text);
	free(path);
	return token;
}

static void
send_hello(struct espl__agent *a)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES);
	long page = sysconf(_SC_PAGESIZE);
	size_t mark = espl__frame_begin(&a->outbox, ESPL__MSG_HELLO_BACK);

	espl__imds_greet(a);
	espl__put_u32(&a->outbox, ESPL__WIRE_PROTOCOL);
	espl__put_str(&a->outbox, PACKAGE_VERSION);
	espl__put_u32(&a->outbox, a->slots);
	espl__put_u32(&a->outbox, cpus > 0 ? (uint32_t)cpus : 1);
	espl__put_v64(&a->outbox, pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0);
	espl__put_u64(&a->outbox, read_token(a));
	espl__put_u64(&a->outbox, (uint64_t)time(NULL));
	espl__frame_end(&a->outbox, mark);
}

/* Without a run directory that is visible here, the agent creates one and removes it when it
 * exits. */
static int
find_folder(struct espl__agent *a)
{
	const char *tmp = getenv("TMPDIR");

	if (a->dir[0] == '/' && read_token(a) == a->token)
		return 0;
	if (a->dir[0] == '/') {
		a->run_dir = espl__strdup(a->dir);
		return espl__relay_begin(a);
	}
	if (a->dir[0] != '\0')
		return -1;
	free(a->dir);
	a->dir = espl__format("%s/espalier-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp");
	if (mkdtemp(a->dir) == NULL) {
		espl__agent_log(a, ESPL_ERROR, "cannot create a directory like '%s': %s", a->dir,
		    strerror(errno));
		return -1;
	}
	a->own_dir = 1;
	return 0;
}

/* ---- what a driver that resumes wants to know --------------------------------------------- */

static int
repeat_hello(struct espl__agent *a, struct espl__reader *r)
{
	uint32_t protocol = espl__get_u32(r);
	char *dir = get_string(r), *address;
	uint64_t token = espl__get_u64(r), node = espl__get_u64(r);
	int bad;

	address = get_string(r);
	(void)espl__get_u32(r);
	bad = r->bad || r->at != r->end || protocol != ESPL__WIRE_PROTOCOL || token != a->token ||
	    node != a->node || dir == NULL ||
	    strcmp(dir, a->run_dir != NULL ? a->run_dir : a->dir) != 0;
	free(dir);
	free(address);
	if (bad)
		return -1;
	send_hello(a);
	if (a->past.size > 0)
		espl__put(&a->outbox, a->past.data, a->past.size);
	for (uint32_t i = 0; i < a->gang_count; i++)
		espl__agent_put_state(a->gangs[i], &a->outbox);
	espl__frame_put(&a->outbox, ESPL__MSG_STATED, NULL, 0);
	espl__agent_close_doors(a);
	espl__relay_again(a);
	return 0;
}

static int
take_hello(struct espl__agent *a, struct espl__reader *r)
{
	uint32_t protocol = espl__get_u32(r);

	if (r->bad)
		return -1;
	if (protocol != ESPL__WIRE_PROTOCOL) {
		send_hello(a); /* the driver sees what we speak */
		return -1;
	}
	a->dir = get_string(r);
	a->token = espl__get_u64(r);
	a->node = espl__get_u64(r);
	a->address = get_string(r);
	a->heartbeat_ns = (int64_t)espl__get_u32(r) * INT64_C(1000000);
	if (r->bad || r->at != r->end || a->dir == NULL || a->address == NULL ||
	    find_folder(a) != 0)
		return -1;
	a->greeted = 1;
	send_hello(a);
	return 0;
}

static int
take_reply(struct espl__agent *a, struct espl__reader *r)
{
	struct espl__agent_gang *g = espl__gang_find(a, espl__get_v64(r));
	char line[256];

	espl__get_str(r, line, sizeof line);
	if (r->bad || r->at != r->end || strchr(line, '\n') != NULL)
		return -1;
	if (g != NULL) { /* else it has just ended, and the driver will hear so */
		espl__backlog_answered(&g->backlog);
		espl__report_reply(g, line);
	}
	return 0;
}

static int
take_new_slots(struct espl__agent *a, struct espl__reader *r)
{
	struct espl__rank_slots s;
	struct espl__agent_gang *g;
	struct espl__arena memory = { NULL };
	int bad;

	if (espl__rank_slots_get(r, &s, &memory) != 0)
		return -1;
	g = espl__gang_find(a, s.gang);
	bad = g != NULL ? espl__gang_new_slots(g, &s) : 0;
	espl__arena_free(&memory);
	return bad;
}

static int
obey_message(struct espl__agent *a, uint8_t type, struct espl__reader *r)
{
	struct espl__agent_gang *g;
	struct espl__start start;
	char epoch[64];
	uint64_t id, n;
	struct espl__arena memory = { NULL };

	if (!a->greeted && type != ESPL__MSG_HELLO && type != ESPL__MSG_LEAVE)
		return -1;
	if (espl__is_tree(type) || type == ESPL__MSG_TAILED)
		return espl__relay_receive(a, type, r);
	switch (type) {
	case ESPL__MSG_HELLO: return a->greeted ? repeat_hello(a, r) : take_hello(a, r);
	case ESPL__MSG_START:
		if (espl__start_get(r, &start, &memory) != 0)
			return -1;
		espl__gang_start(a, &start, &memory);
		return 0;
	case ESPL__MSG_REPLY: return take_reply(a, r);
	case ESPL__MSG_RESERVE:
		id = espl__get_v64(r);
		n = espl__get_u64(r);
		if (!r->bad && r->at == r->end)
			espl__agent_reserve(a, id, n);
		break;
	case ESPL__MSG_LAUNCH:
		g = espl__gang_find(a, espl__get_v64(r));
		if (!r->bad && r->at == r->end && g != NULL)
			espl__gang_together(g);
		break;
	case ESPL__MSG_TRY: return espl__reach_try(a, r);
	case ESPL__MSG_KILL:
		id = espl__get_v64(r);
		n = espl__get_v64(r);
		if (r->bad || r->at != r->end)
			return -1;
		g = espl__gang_find(a, id);
		if (g != NULL)
			espl__gang_kill(g, n);
		else
			espl__agent_unreserve(a, id);
		break;
	case ESPL__MSG_SLOTS: return take_new_slots(a, r);
	case ESPL__MSG_COLLECT:
		id = espl__get_v64(r);
		n = espl__get_v64(r);
		if (!r->bad && r->at == r->end)
			espl__files_collect(a, id, n);
		break;
	case ESPL__MSG_LEAVE:
		espl__get_str(r, epoch, sizeof epoch);
		if (!r->bad && r->at == r->end)
			espl__leave_begin(a, epoch);
		break;
	case ESPL__MSG_BYE: break; /* for the keeper of the session */
	case ESPL__MSG_PING: espl__frame_put(&a->outbox, ESPL__MSG_PONG, NULL, 0); break;
	default: /* meant for drivers */ return -1;
	}
	return r->bad || r->at != r->end ? -1 : 0;
}

static void
act_on_inbox(struct espl__agent *a)
{
	struct espl__reader r;
	uint8_t type;
	size_t used;
	int got = 0;

	while (
	    !a->ending && (got = espl__frame_get(&a->inbox, a->inbox_at, &type, &r, &used)) == 1) {
		a->inbox_at += used;
		a->heard_at = espl__tick();
		if (obey_message(a, type, &r) != 0) {
			espl__agent_log(a, ESPL_ERROR,
			    "received an invalid message of type %u from the driver",
			    (unsigned)type);
			espl__agent_end(a, 2);
			return;
		}
	}
	if (got < 0) {
		espl__agent_log(a, ESPL_ERROR,
		    "received data from the driver that is not a message");
		espl__agent_end(a, 2);
	}
	if (a->inbox_at > 0) {
		memmove(a->inbox.data, a->inbox.data + a->inbox_at, a->inbox.size - a->inbox_at);
		a->inbox.size -= a->inbox_at;
		a->inbox_at = 0;
	}
}

void
espl__agent_receive(struct espl__agent *a)
{
	ssize_t got;

	ESPL__CHECK(a, AGENT);
	ESPL__ASSERT(a->inbox_at <= a->inbox.size);
	espl__buf_reserve(&a->inbox, READ_STEP);
	got = read(a->in, a->inbox.data + a->inbox.size, READ_STEP);
	if (got > 0) {
		a->inbox.size += (size_t)got;
		act_on_inbox(a);
	} else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
		espl__agent_end(a, 0);
	}
}
