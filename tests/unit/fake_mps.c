/* fake_mps.c - nvidia-cuda-mps-control for machines without a GPU: a daemon, its server, and the
 * program that asks it, as far as an agent sees them.  Two words more stand for what CUDA does in a
 * trial:
 *
 *   nvidia-cuda-mps-control client PID   connects for that process; exits with 0: success, 6: the
 *                                        server has failed, 3: no daemon (CUDA works without one)
 *   nvidia-cuda-mps-control crash PID    the same, then a fault that is fatal to all clients
 *
 * FAKE_MPS, words in the daemon's environment, says what goes wrong:
 *   refuse     -d fails                      mute       the daemon never answers
 *   empty      no server ever comes          stubborn   "quit" is heard but nothing comes of it
 *   dies       a crash ends the server (else it is in FAULT until its clients have gone)
 *   all        a crash ends the daemon, too
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS 64

static struct {
	pid_t server;
	int fault;
	pid_t clients[CLIENTS];
} state;

static int
wants(const char *word)
{
	const char *said = getenv("FAKE_MPS");

	return said != NULL && strstr(said, word) != NULL;
}

static const char *
in_pipe(const char *name)
{
	static char path[4096];
	const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");

	snprintf(path, sizeof path, "%s/%s", folder != NULL ? folder : "/tmp/nvidia-mps", name);
	return path;
}

static int
door(struct sockaddr_un *address)
{
	memset(address, 0, sizeof *address);
	address->sun_family = AF_UNIX;
	if (strlen(in_pipe("control")) >= sizeof address->sun_path)
		return -1;
	strcpy(address->sun_path, in_pipe("control"));
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* ---- the daemon ---------------------------------------------------------------------------- */

static void
note(const char *text)
{
	const char *folder = getenv("CUDA_MPS_LOG_DIRECTORY");
	char path[4096];
	FILE *f;

	snprintf(path, sizeof path, "%s/control.log", folder != NULL ? folder : "/tmp");
	f = fopen(path, "a");
	if (f != NULL) {
		fprintf(f, "%s\n", text);
		fclose(f);
	}
}

static void
start_server(void)
{
	if (state.server > 0 || wants("empty"))
		return;
	state.server = fork();
	if (state.server == 0) {
		for (int fd = 3; fd < 64; fd++)
			close(fd); /* the client waits for the end of the answer */
		(void)setsid();
		(void)prctl(PR_SET_NAME, "nvidia-cuda-mps", 0, 0, 0);
		for (;;)
			pause();
	}
	note("Starting new server");
}

static void
end_server(void)
{
	if (state.server > 0) {
		(void)kill(state.server, SIGKILL);
		(void)waitpid(state.server, NULL, 0);
	}
	state.server = 0;
}

static int
clients_alive(void)
{
	int alive = 0;

	for (int i = 0; i < CLIENTS; i++) {
		if (state.clients[i] > 0 && kill(state.clients[i], 0) != 0)
			state.clients[i] = 0;
		alive += state.clients[i] > 0;
	}
	return alive;
}

static int
is_client(pid_t pid)
{
	for (int i = 0; i < CLIENTS; i++)
		if (state.clients[i] == pid)
			return 1;
	return 0;
}

static void
client(pid_t pid, char *answer, size_t room)
{
	int known = is_client(pid);

	if (!known && state.fault && clients_alive() == 0)
		state.fault = 0; /* it takes new ones again */
	if (!known && !state.fault)
		start_server();
	for (int i = 0; i < CLIENTS && !known && !state.fault; i++)
		if (state.clients[i] == 0) {
			state.clients[i] = pid;
			known = 2;
		}
	snprintf(answer, room, known && !state.fault && state.server > 0 ? "ok\n" : "failed\n");
}

static void
crash(void)
{
	note("fatal fault");
	if (wants("all")) {
		end_server();
		_exit(1);
	}
	if (wants("dies"))
		end_server();
	else
		state.fault = 1;
}

static void
obey(const char *line, char *answer, size_t room)
{
	answer[0] = '\0';
	if (strncmp(line, "get_server_list", 15) == 0 && state.server > 0)
		snprintf(answer, room, "%d\n", (int)state.server);
	else if (strncmp(line, "get_server_status ", 18) == 0)
		snprintf(answer, room, "%s\n",
		    strtol(line + 18, NULL, 10) != state.server || state.server == 0
			? "Server not found"
			: state.fault && clients_alive() > 0 ? "FAULT"
							     : "ACTIVE");
	else if (strncmp(line, "start_server -uid ", 18) == 0)
		start_server();
	else if (strncmp(line, "client ", 7) == 0)
		client((pid_t)strtol(line + 7, NULL, 10), answer, room);
	else if (strncmp(line, "crash ", 6) == 0)
		crash();
	else if (strncmp(line, "quit", 4) == 0 && !wants("stubborn")) {
		end_server();
		(void)unlink(in_pipe("control"));
		(void)unlink(in_pipe("nvidia-cuda-mps-control.pid"));
		_exit(0);
	}
}

static void
serve(int listening)
{
	for (;;) {
		int fd = accept(listening, NULL, NULL);
		char line[200], answer[200];
		ssize_t got;

		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (fd < 0)
			continue;
		got = read(fd, line, sizeof line - 1);
		if (wants("mute"))
			continue; /* whoever asked waits for ever */
		if (got > 0) {
			line[got] = '\0';
			obey(line, answer, sizeof answer);
			if (write(fd, answer, strlen(answer)) < 0)
				note("an answer was not wanted");
		}
		close(fd);
	}
}

static int
become_daemon(void)
{
	struct sockaddr_un address;
	int fd = door(&address);
	FILE *f;
	pid_t pid;

	if (wants("refuse")) {
		fprintf(stderr, "MPS is not supported on this machine\n");
		return 1;
	}
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
	    listen(fd, 64) != 0) {
		fprintf(stderr, "An instance of this daemon is already running\n");
		return 1;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	pid = fork();
	if (pid != 0)
		return pid < 0;
	(void)setsid();
	pid = fork(); /* nobody's child any more */
	if (pid != 0)
		_exit(pid < 0);
	f = fopen(in_pipe("nvidia-cuda-mps-control.pid"), "w");
	if (f != NULL) {
		fprintf(f, "%d\n", (int)getpid());
		fclose(f);
	}
	serve(fd);
	return 0;
}

/* ---- who asks it --------------------------------------------------------------------------- */

/* -1: there is none. */
static int
say(const char *line, char *answer, size_t room)
{
	struct sockaddr_un address;
	int fd = door(&address);
	size_t size = 0;
	ssize_t got;

	answer[0] = '\0';
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
	    write(fd, line, strlen(line)) != (ssize_t)strlen(line)) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while (size + 1 < room && (got = read(fd, answer + size, room - 1 - size)) > 0)
		size += (size_t)got;
	answer[size] = '\0';
	close(fd);
	return 0;
}

static int
ask(void)
{
	char line[200], answer[1000];

	while (fgets(line, sizeof line, stdin) != NULL) {
		if (say(line, answer, sizeof answer) != 0) {
			printf("Cannot find MPS control daemon process\n");
			return 1;
		}
		printf("%s", answer);
	}
	return 0;
}

int
main(int argc, char **argv)
{
	char line[200], answer[1000];

	(void)signal(SIGPIPE, SIG_IGN);
	if (argc == 1)
		return ask();
	if (argc == 2 && strcmp(argv[1], "-d") == 0)
		return become_daemon();
	if (argc != 3 || (strcmp(argv[1], "client") != 0 && strcmp(argv[1], "crash") != 0))
		return 2;
	snprintf(line, sizeof line, "%s %s", argv[1], argv[2]);
	if (say(line, answer, sizeof answer) != 0)
		return 3;
	return strncmp(answer, "ok", 2) == 0 ? 0 : 6;
}
