/* session.h - an agent that outlives the channel to it.
 *
 * The driver starts `espalier-agent --connect`, which runs the command that reaches the node and,
 * whenever its channel breaks, runs it again.  On the node that command starts
 * `espalier-agent --keep`: a relay between the channel and the keeper, a process without terminal
 * or parent that runs the agent itself.  Between --connect and keeper there is a stream
 * (stream.h), so driver and agent see one channel that never breaks:
 *
 *   driver == --connect -- ssh -- relay -- keeper == agent
 *
 * A relay finds the keeper by an abstract Unix socket named after user and lease.  The session ends
 * when the driver closes its channel with a BYE; when the agent ends; when --connect had no
 * connection for its patience; and when the keeper heard nothing for its linger time: then the
 * agent asks trials to save, and ends everything on the node.
 *
 * A keeper answers a relay with a line: "go"; "ending": its session ends; "saving": it ends, and
 * trials may still save; "last": it has ended, and the last command runs.
 */
#ifndef ESPL__SESSION_H
#define ESPL__SESSION_H
#include <stdint.h>
#include "session/stream.h"

#define ESPL__SESSION_MS INT64_C(1000000)
#define ESPL__SESSION_ALIVE (3000 * ESPL__SESSION_MS)   /* an ACK at least as often */
#define ESPL__SESSION_SILENT (15000 * ESPL__SESSION_MS) /* then the channel is broken */
#define ESPL__SESSION_CLOSE (10000 * ESPL__SESSION_MS)  /* for the last bytes, at the end */
#define ESPL__SESSION_WORDS 32u /* maximum number of words of cloud.after_linger */
/* after the linger time: for trials to save, at most */
#define ESPL__SESSION_LEAVE (300000 * ESPL__SESSION_MS)
/* after that: for the rest of the agent's end, until it is killed */
#define ESPL__SESSION_AGENT (30000 * ESPL__SESSION_MS)
/* Reported if the command that reaches a node exits with status 0 and prints nothing. */
#define ESPL__SESSION_DEAF \
	"its command ended without any output; does it pass on its standard input? (StdinNull in " \
	"ssh_config must not be set)"
#define ESPL__SESSION_GONE 3 /* exit status of a relay: there is no such session */
/* exit status of ssh if the connection failed; sshd closes some when many begin at once */
#define ESPL__SESSION_UNREACHED 255

/* What --connect writes to its standard error for the driver, a line each; SAVING is the relay's,
 * which waits until the session has ended. */
#define ESPL__SESSION_LOST "\001unreachable: " /* and why */
#define ESPL__SESSION_FOUND "\001reachable"
#define ESPL__SESSION_SAVING "\001saving"

/* driver_end.c: espalier-agent --connect PATIENCE_MS new|rejoin COMMAND...  This word, and later
 * again, is appended to the command.  A rejoin is tried again also if the first attempt fails.
 * Returns the exit status. */
int espl__session_connect(int argc, char **argv);
/* keeper.c: espalier-agent --keep LEASE EPOCH.DRIVER LINGER_MS[:LAST] WORD.  LAST is the command
 * that the keeper runs if no driver came within the linger time and everything has ended: its words
 * in hexadecimal digits, with commas between them.  EPOCH identifies one session of the lease,
 * DRIVER (hexadecimal) the driver: it rises from one to the next.  Words: `new` starts a session,
 * and ends any earlier one; `again` joins it after its channel broke; `rejoin` joins it for a
 * driver that resumes the run of a killed one; `end` ends whatever there is. */
int espl__session_keep(int argc, char **argv);

/* ---- session.c: shared by both ------------------------------------------------------------ */

int espl__session_number(const char *text, int64_t *to); /* milliseconds -> ns; 0, or -1 */
void espl__session_nonblocking(int fd);
/* A pipe that checkpoints pass through: fewer, longer turns. */
void espl__session_widen(int pipe);
/* Writes as much as possible and removes it from the front; -1: the reader is gone. */
int espl__session_write(int fd, struct espl__buf *);
/* Reads the user's side into the stream.  1: read; 0: nothing now; -1: the end. */
int espl__session_read(int fd, struct espl__stream *);
/* Copies what there is from one to the other.  1: goes on; 0: its end. */
int espl__session_pass(int from, int to);
#endif
