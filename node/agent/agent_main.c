/* agent_main.c - espalier-agent: starts, watches and ends the processes of trials on one node.
 *
 * It is reached through a command (nothing, ssh, srun) and speaks wire.h on its standard input and
 * output; it opens no port except a gang's meeting point. When the channel closes, for any reason,
 * everything that it has started is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "config.h"
#include "agent/agent_gpu.h"
#include "agent/agent_sup.h"
#include "agent/agent_warm.h"
#include "session/session.h"
#include "session/ship.h"

#define MAX_SLOTS 4096

/* ---- beginning and end ------------------------------------------------------------------- */

/* The channel moves out of reach of everything else that reads or prints. */
static int
make_private(struct espl__agent *a)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), flags;

	while (null >= 0 && null < 3) /* the parent started us with closed descriptors */
		null = fcntl(null, F_DUPFD_CLOEXEC, 3);
	if (null < 0)
		return -1;
	if (fcntl(2, F_GETFD) < 0 && dup2(null, 2) < 0)
		return -1;
	a->in = fcntl(0, F_DUPFD_CLOEXEC, 10);
	a->out = fcntl(1, F_DUPFD_CLOEXEC, 10);
	if (a->in < 0 || a->out < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0)
		return -1;
	close(null);
	flags = fcntl(a->out, F_GETFL);
	return flags < 0 || fcntl(a->out, F_SETFL, flags | O_NONBLOCK) != 0 ? -1 : 0;
}

static int
watch_signals(struct espl__agent *a)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	sigset_t set;
	int ends[2], fd;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_SETMASK, &set, NULL) != 0 || sigaction(SIGPIPE, &ignore, NULL) != 0 ||
	    sigaction(SIGINT, &ignore, NULL) != 0 || sigaction(SIGQUIT, &ignore, NULL) != 0)
		return -1; /* Ctrl-C is for the driver: it tells us what to do */
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0 || pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	a->signals = fd;
	a->jobs_out = ends[0];
	a->jobs_in = ends[1];
	return fcntl(a->jobs_out, F_SETFL, O_NONBLOCK);
}

static void
set_gpus(struct espl__agent *a, const char *list)
{
	a->gpus = espl__alloc(MAX_SLOTS * sizeof *a->gpus);
	for (; a->slots < MAX_SLOTS && *list != '\0'; list += strspn(list, ", ")) {
		size_t length = strcspn(list, ", ");

		if (length > 0 && length < ESPL__UUID_ROOM)
			memcpy(a->gpus[a->slots++].uuid, list, length);
		list += length;
	}
}

/* ESPALIER_AGENT_DEVICES: "GPU-uuid,..." or "cpu:N", as the cloud's reach command sets it;
 * without it what this machine has. */
static int
find_devices(struct espl__agent *a)
{
	const char *said = getenv("ESPALIER_AGENT_DEVICES"), *why = "";
	int64_t slots;

	if (said != NULL && strncmp(said, "cpu:", 4) == 0) {
		if (espl__parse_int(said + 4, &slots) != 0 || slots < 1 || slots > MAX_SLOTS)
			return -1;
		a->slots = (uint32_t)slots;
		return 0;
	}
	if (said != NULL && said[0] != '\0') {
		set_gpus(a, said);
		return a->slots > 0 ? 0 : -1;
	}
	a->gpus = espl__alloc(MAX_SLOTS * sizeof *a->gpus);
	a->slots = espl__nvml_list(a->gpus, MAX_SLOTS, &why);
	if (a->slots == 0) {
		long cpus = sysconf(_SC_NPROCESSORS_ONLN);

		free(a->gpus);
		a->gpus = NULL;
		a->slots = cpus > 0 ? (uint32_t)cpus : 1;
		if (why != NULL && why[0] != '\0')
			espl__agent_log(a, ESPL_WARN, "no GPUs: %s", why);
	}
	return 0;
}

/* ESPALIER_LIBEXEC, or the directory this program is in (of a build tree: the one above .libs). */
static void
find_libexec(struct espl__agent *a)
{
	const char *said = getenv("ESPALIER_LIBEXEC");
	char path[4096], *slash;
	ssize_t size;

	if (said != NULL && said[0] != '\0') {
		a->libexec = espl__strdup(said);
		return;
	}
	size = readlink("/proc/self/exe", path, sizeof path - 1);
	path[size > 0 ? size : 0] = '\0';
	slash = strrchr(path, '/');
	if (slash != NULL)
		*slash = '\0';
	slash = strrchr(path, '/');
	if (slash != NULL && strcmp(slash, "/.libs") == 0)
		*slash = '\0';
	a->libexec = espl__strdup(path);
}

static void
log_line(void *ctx, espl_level level, const char *text)
{
	espl__agent_log(ctx, level, "%s", text);
}

static void
release_agent(struct espl__agent *a)
{
	espl__log_to(NULL, NULL, ESPL_INFO);
	espl__gpus_free(a);
	espl__buf_free(&a->inbox);
	espl__buf_free(&a->outbox);
	espl__buf_free(&a->past);
	espl__map_free(&a->by_id);
	free(a->gangs);
	free(a->reserved);
	free(a->gpus);
	free(a->libexec);
	espl__relay_free(a);
	espl__setup_free(a);
	espl__warm_free(a);
	free(a->dir);
	free(a->run_dir);
	free(a->leaving);
	free(a->address);
}

int
main(int argc, char **argv)
{
	static struct espl__agent a;

	if (argc > 1) {
		if (strcmp(argv[1], "--connect") == 0)
			return espl__session_connect(argc - 2, argv + 2);
		if (strcmp(argv[1], "--keep") == 0)
			return espl__session_keep(argc - 2, argv + 2);
		if (strcmp(argv[1], "--ship") == 0)
			return espl__session_ship(argc - 2, argv + 2);
		if (strcmp(argv[1], "--supervise") == 0)
			return espl__sup_adopt(argc - 2, argv + 2);
		if (argc == 2 && strcmp(argv[1], "--version") == 0) {
			printf("espalier-agent %s\n", PACKAGE_VERSION);
			return 0;
		}
		fprintf(stderr,
		    "espalier-agent is started by espalier. It speaks espalier's protocol on "
		    "standard input and output. The arguments --connect, --ship, --keep and "
		    "--supervise are espalier's own (docs/sessions.md, docs/warm-starts.md).\n");
		return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : 2;
	}
	a.magic = ESPL__AGENT_MAGIC;
	if (make_private(&a) != 0 || watch_signals(&a) != 0 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
		fprintf(stderr, "espalier-agent: %s\n", strerror(errno));
		return 1;
	}
	espl__log_to(log_line, &a, ESPL_INFO);
	find_libexec(&a);
	if (find_devices(&a) != 0) {
		fprintf(stderr,
		    "espalier-agent: ESPALIER_AGENT_DEVICES must be cpu:N or a list of GPUs\n");
		release_agent(&a);
		return 2;
	}
	espl__gpus_open(&a);
	espl__agent_run(&a);
	if (a.jobs > 0) /* a thread hangs in a disk: its memory is not ours to free */
		_exit(a.exit_code);
	release_agent(&a);
	return a.exit_code;
}
