/* agent_mps.c - the private MPS daemon of one GPU: starting, health check, ending.
 *
 * It runs under a supervisor like a rank's (agent_sup.c): all processes that it forks, including
 * itself as a daemon, stay below that supervisor and are killed with it, also when the agent is
 * killed. It is not enough that the daemon answers: its server must be listed and healthy, because
 * a fatal fault of one client ends all clients, and CUDA silently runs without MPS if there is no
 * server.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/tick.h"
#include "agent/agent_gpu.h"
#include "agent/agent_sup.h"

#define MS INT64_C(1000000)
#define START_LIMIT (60000 * MS) /* a machine without NVIDIA's persistence daemon is slow */
#define ASK_LIMIT (20000 * MS)
#define QUIT_LIMIT (5000 * MS)
#define KILL_LIMIT (10000 * MS)
#define AGAIN (50 * MS)

enum { NOTHING, WAKE, LIST, PROVE, QUIT }; /* questions */

static const char program[] = "nvidia-cuda-mps-control";

/* ---- its end ------------------------------------------------------------------------------- */

static void
turn_off(struct espl__mps *m)
{
	espl__ask_end(&m->ask);
	if (m->link >= 0)
		close(m->link);
	espl__mps_directory_remove(&m->directory);
	espl__strings_free(&m->env);
	free(m->program);
	m->program = NULL;
	m->link = -1;
	m->sup = m->server = 0;
	m->state = ESPL__MPS_OFF;
	m->question = NOTHING;
	m->killed = 0;
	m->card->agent->changed = 1;
}

void
espl__mps_kill(struct espl__mps *m)
{
	char what = ESPL__SUP_KILL;

	if (m->state == ESPL__MPS_OFF || m->killed)
		return;
	espl__ask_end(&m->ask);
	m->question = NOTHING;
	m->card->agent->changed = 1;
	if (m->link < 0) {
		turn_off(m);
		return;
	}
	m->state = ESPL__MPS_ENDING;
	m->killed = 1;
	m->until = espl__tick() + KILL_LIMIT;
	while (send(m->link, &what, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static void
put_question(struct espl__mps *m, int question, const char *text)
{
	m->question = question;
	m->ask_at = 0;
	m->card->agent->changed = 1;
	if (espl__ask_begin(&m->ask, m->program, m->env.list, text, ASK_LIMIT) != 0) {
		m->ask.gone = 1; /* as if it had failed: it is looked at in the next turn */
		m->ask.code = -1;
		m->ask.pid = -1;
	}
}

void
espl__mps_quit(struct espl__mps *m)
{
	if (m->state != ESPL__MPS_UP) {
		espl__mps_kill(m);
		return;
	}
	espl__ask_end(&m->ask);
	m->state = ESPL__MPS_ENDING;
	m->until = espl__tick() + QUIT_LIMIT;
	put_question(m, QUIT, "quit\n");
}

static void
last_word(const struct espl__mps *m, const char *name, char said[ESPL__LAST_LINE_MAX])
{
	struct espl__buf log = { NULL, 0, 0 };
	char *path = espl__format("%s/log/%s", m->directory.path, name);

	if (espl__file_read(path, 1 << 20, &log, NULL) == ESPL_OK) {
		(void)espl__buf_text(&log);
		espl__last_line((const char *)log.data, log.size, said, ESPL__LAST_LINE_MAX);
	}
	espl__buf_free(&log);
	free(path);
}

/* MPS is not available: send the reason to all waiting gangs. */
static void
fail_mps(struct espl__mps *m, const char *why)
{
	static const char *const logs[] = { "start", "server.log", "control.log" };
	char said[ESPL__LAST_LINE_MAX] = "";

	for (size_t i = 0;
	     i < sizeof logs / sizeof logs[0] && m->directory.path != NULL && said[0] == '\0'; i++)
		last_word(m, logs[i], said);
	espl__card_no_mps(m->card, "%s%s%s", why, said[0] != '\0' ? ": " : "", said);
	espl__mps_kill(m);
}

/* ---- its beginning ------------------------------------------------------------------------- */

static int
make_ready(struct espl__mps *m, const char **why)
{
	m->program = espl__find_program(program, "/", getenv("PATH"));
	if (m->program == NULL) {
		*why = "nvidia-cuda-mps-control not found in PATH";
		return -1;
	}
	if (espl__mps_directory_make(&m->directory, why) != 0)
		return -1;
	espl__env_inherit(&m->env);
	/* The daemon then has but this GPU, and its clients name it by UUID, too. */
	espl__env_set(&m->env,
	    espl__format("CUDA_VISIBLE_DEVICES=%s", m->card->agent->gpus[m->card->index].uuid));
	espl__env_set(&m->env, espl__format("CUDA_MPS_PIPE_DIRECTORY=%s", m->directory.path));
	espl__env_set(&m->env, espl__format("CUDA_MPS_LOG_DIRECTORY=%s/log", m->directory.path));
	return 0;
}

static void
start_daemon(struct espl__mps *m)
{
	char *const argv[] = { (char *)(uintptr_t)program, (char *)(uintptr_t) "-d", NULL };
	struct espl__sup s = { .dir = "/",
		.argv = argv,
		.report = -1,
		.listen = -1,
		.channel = m->card->agent->in };
	const char *why = "cannot start its daemon";
	char *path;
	int fd;

	m->begun = m->wanted;
	if (make_ready(m, &why) != 0) {
		espl__card_no_mps(m->card, "%s", why);
		turn_off(m);
		return;
	}
	path = espl__format("%s/log/start", m->directory.path);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	s.log = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 10);
	if (fd >= 0)
		close(fd);
	free(path);
	s.path = m->program;
	s.env = m->env.list;
	m->sup = s.log < 0 ? -1 : espl__sup_start(&s, &m->link);
	if (s.log >= 0)
		close(s.log);
	if (m->sup < 0) {
		m->link = -1;
		espl__card_no_mps(m->card, "cannot start its daemon: %s", strerror(errno));
		turn_off(m);
		return;
	}
	m->state = ESPL__MPS_STARTING;
	m->until = espl__tick() + START_LIMIT;
	m->card->agent->changed = 1;
}

uint64_t
espl__mps_prove(struct espl__mps *m)
{
	m->wanted = m->begun + 1;
	return m->wanted;
}

/* ---- what it answers ----------------------------------------------------------------------- */

static void
ask_for_proof(struct espl__mps *m)
{
	char text[80];

	(void)snprintf(text, sizeof text, "get_server_list\nget_server_status %d\n",
	    (int)m->server);
	m->begun = m->state == ESPL__MPS_UP ? m->wanted : m->begun;
	put_question(m, PROVE, text);
}

static void
mark_proven(struct espl__mps *m)
{
	if (m->state == ESPL__MPS_WAKING)
		espl__agent_log(m->card->agent, ESPL_DEBUG,
		    "GPU %" PRIu32 ": already served by another MPS daemon", m->card->index);
	m->state = ESPL__MPS_UP;
	m->until = 0;
	m->proved = m->begun;
	m->card->agent->changed = 1;
}

/* The server, seen for the first time and then again and again. */
static void
take_proof(struct espl__mps *m, const char *text)
{
	struct espl__mps_answer a;

	espl__mps_read(text, m->server, &a);
	if (m->state == ESPL__MPS_WAKING && (!a.seen || a.status == ESPL__MPS_COMING))
		m->ask_at = espl__tick() + AGAIN;
	else if (!a.seen)
		espl__card_fault(m->card, "its MPS server has ended");
	else if (a.status == ESPL__MPS_FAULT || a.status == ESPL__MPS_COMING)
		espl__card_fault(m->card, "its MPS server has had a fatal fault");
	else
		mark_proven(m);
}

static void
take_answer(struct espl__mps *m)
{
	struct espl__mps_answer a;
	int question = m->question, code = m->ask.code;
	const char *text = espl__buf_text(&m->ask.text);

	m->question = NOTHING;
	m->ask.pid = 0;
	if (question == QUIT) {
		if (code != 0)
			espl__mps_kill(m);
		return; /* its end is seen at the link */
	}
	if (code != 0 || strstr(text, "Cannot find MPS control daemon") != NULL) {
		if (m->state == ESPL__MPS_UP)
			espl__card_fault(m->card, "its MPS daemon does not answer");
		else
			fail_mps(m, "its daemon does not answer");
		return;
	}
	switch (question) {
	case WAKE: put_question(m, LIST, "get_server_list\n"); break;
	case LIST:
		espl__mps_read(text, 0, &a);
		m->server = a.server;
		if (a.server != 0)
			ask_for_proof(m);
		else
			m->ask_at = espl__tick() + AGAIN;
		break;
	default: take_proof(m, text);
	}
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void
wake_server(struct espl__mps *m)
{
	char text[64];

	m->state = ESPL__MPS_WAKING;
	/* The first client would start it, too, but only then would be known whether it can be. */
	(void)snprintf(text, sizeof text, "start_server -uid %u\n", (unsigned)geteuid());
	put_question(m, WAKE, text);
}

static void
link_closed(struct espl__mps *m)
{
	close(m->link);
	m->link = -1;
	m->card->agent->changed = 1;
	if (m->state == ESPL__MPS_STARTING || m->state == ESPL__MPS_WAKING)
		fail_mps(m, "its daemon exited immediately");
	else if (m->state == ESPL__MPS_UP)
		espl__card_fault(m->card, "its MPS daemon has ended");
	else
		turn_off(m);
}

static void
hear_link(struct espl__mps *m)
{
	struct espl__sup_note note;
	char why[120];

	while (m->link >= 0) {
		ssize_t got = recv(m->link, &note, sizeof note, MSG_DONTWAIT);

		if (got < 0 && (errno == EINTR || errno == ECONNRESET))
			continue;
		if (got < 0 && errno == EAGAIN)
			return;
		if (got != (ssize_t)sizeof note) {
			link_closed(m);
			return;
		}
		if (note.what == ESPL__SUP_RUNS || m->state != ESPL__MPS_STARTING)
			continue;
		if (note.what == ESPL__SUP_EXITED && note.value == 0) {
			wake_server(m);
			continue;
		}
		if (note.what == ESPL__SUP_EXITED)
			(void)snprintf(why, sizeof why, "%s -d exited with status %d", program,
			    (int)note.value);
		else
			(void)snprintf(why, sizeof why, "cannot run %s: %s", program,
			    strerror(note.value));
		fail_mps(m, why);
	}
}

void
espl__mps_receive(struct espl__mps *m, int fd)
{
	if (fd == m->ask.out)
		espl__ask_read(&m->ask);
	else
		hear_link(m);
	m->card->agent->changed |= m->ask.out < 0;
}

static void
handle_timeout(struct espl__mps *m)
{
	if (m->state != ESPL__MPS_ENDING) {
		fail_mps(m,
		    m->state == ESPL__MPS_STARTING ? "its daemon does not start"
						   : "its daemon has no server");
	} else if (!m->killed) {
		espl__mps_kill(m);
	} else {
		espl__card_aside(m->card, "cannot stop its MPS daemon");
		turn_off(m); /* its supervisor keeps trying */
	}
}

static void
keep_earlier(int64_t *next, int64_t at)
{
	if (at != 0 && (*next == 0 || at < *next))
		*next = at;
}

void
espl__mps_tend(struct espl__mps *m, int64_t now, int64_t *next)
{
	const struct espl__card *c = m->card;

	if (m->question != NOTHING && espl__ask_done(&m->ask, now)) {
		c->agent->changed = 1; /* a descriptor is polled no more */
		take_answer(m);
	}
	if (m->state != ESPL__MPS_OFF && m->until != 0 && now >= m->until)
		handle_timeout(m);
	if (m->state == ESPL__MPS_OFF && m->wanted > m->begun && c->mps_ranks > 0 &&
	    c->no_mps == NULL && !c->agent->ending && c->state == ESPL__CARD_OPEN)
		start_daemon(m);
	if (m->question == NOTHING && m->state == ESPL__MPS_UP && m->wanted > m->begun)
		ask_for_proof(m);
	if (m->question == NOTHING && m->state == ESPL__MPS_WAKING && m->ask_at != 0 &&
	    now >= m->ask_at) {
		if (m->server == 0)
			put_question(m, LIST, "get_server_list\n");
		else
			ask_for_proof(m);
	}
	if (m->state != ESPL__MPS_OFF)
		keep_earlier(next, m->until);
	keep_earlier(next, m->ask_at);
	if (m->question != NOTHING)
		keep_earlier(next, m->ask.pid < 0 ? now : m->ask.until);
}
