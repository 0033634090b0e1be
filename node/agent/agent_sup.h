/* agent_sup.h - the supervisor of one rank: parent of all that the rank starts, immune to its
 * signals.
 *
 * The agent forks it and holds one end of a socket to it.  It starts the rank and reports
 * its end; it exits as soon as the rank and everything that descends from it are gone,
 * which the agent sees as the end of that socket.  If the agent dies it kills them all.  If the
 * driver's channel ends and the agent, which should then have killed everything, hangs, it kills
 * the agent, too.
 *
 * A rank that starts warm exists before its supervisor does (node/warm): a process that has forked
 * it becomes espalier-agent --supervise.
 */
#ifndef ESPL__AGENT_SUP_H
#define ESPL__AGENT_SUP_H
#include <stdint.h>
#include <sys/types.h>
#include <stddef.h>

/* from the supervisor */
enum espl__sup_what {
	ESPL__SUP_RUNS = 1, /* value: process id of the rank */
	ESPL__SUP_EXITED,   /* value: exit status, or -signal */
	ESPL__SUP_NO_FORK,  /* value: errno; the rank never ran, and is gone */
	ESPL__SUP_NO_FOLDER,
	ESPL__SUP_NO_LIMIT,
	ESPL__SUP_NO_EXEC,
	/* value: process id of the supervisor, of a rank that starts warm */
	ESPL__SUP_ADOPTED
};
struct espl__sup_note {
	int32_t what, value;
};

#define ESPL__SUP_TERM 'T' /* to the supervisor: SIGTERM to the rank's process group */
/* SIGKILL to the rank and everything that descends from it */
#define ESPL__SUP_KILL 'K'

/* What to do about a working directory that a node lacks. */
#define ESPL__LACKS_FOLDER " (a node that lacks it can be sent the files in trial.files)"
struct espl__sup {
	const char *path; /* of the program */
	char *const *argv, *const *env;
	const char *dir;              /* working directory, "" the agent's */
	int anywhere;                 /* 1: "/" if there is no such directory */
	int log, report, listen, key; /* descriptors >= 10, CLOEXEC; -1 none */
	/* the agent's, from the driver: only its end is looked for; CLOEXEC */
	int channel;
	int64_t file_max;  /* RLIMIT_FSIZE, 0 none */
	int64_t log_limit; /* size of the log, 0 none */
};
#define ESPL__FD_REPORT 3 /* where the rank finds them */
#define ESPL__FD_LISTEN 4
#define ESPL__FD_KEY 5

/* Forks it.  *link: the agent's end of the socket, non-blocking.  -1 with errno. */
pid_t espl__sup_start(const struct espl__sup *, int *link);
/* Such a socket; `theirs` is at least 10.  -1 with errno. */
int espl__sup_link(int *ours, int *theirs);
/* espalier-agent --supervise; the words are those of become_supervisor in node/warm. */
int espl__sup_adopt(int argc, char **argv);

/* ---- trial_log.c ----------------------------------------------------------------------------- */

/* A rank's output, copied into its trial's log up to a limit.
 *
 * A program that prints without end would fill the disk for all users. The supervisor reads all of
 * the output, so that the rank never blocks. Output beyond the limit is dropped; its end is kept in
 * memory, and is appended to the log if the rank fails, because it contains the reason.
 */

#define ESPL__TAP_END ((size_t)16 << 10) /* bytes of the end that are kept */

struct espl__tap {
	int from, log;    /* -1: none */
	int64_t limit;    /* size of the log */
	int full;         /* everything is dropped from now on */
	uint64_t dropped; /* bytes */
	size_t kept;      /* of `end` */
	char end[2 * ESPL__TAP_END];
};
/* Takes no lock and no heap.  Takes over `log`; *theirs: where the rank is to print, CLOEXEC and at
 * least 10.  -1 with errno. */
int espl__tap_open(struct espl__tap *, int log, int64_t limit, int *theirs);
/* Takes what is there, but not for long. */
void espl__tap_read(struct espl__tap *);
/* There is no writer left. */
void espl__tap_close(struct espl__tap *, int failed);
#endif
