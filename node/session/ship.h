/* ship.h - sends the agent, and what it needs, to a node that lacks it.
 *
 *   driver == --connect -- --ship -- ssh -- sh, then espalier-agent --keep == ...
 *
 * `espalier-agent --ship FILE COMMAND...` runs the command, which ends in `sh -s`, and gives that
 * shell the script of FILE.  The script writes lines; it sends what the script asks for, until the
 * line `start`: then it passes bytes in both directions.  Nothing is sent that was not asked for,
 * since a program on the node may read ahead.
 *
 *   need DIGEST     the file with this SHA-256
 *   note TEXT       for the log
 *   refuse TEXT     the node cannot be used at all
 *   start           the agent is started
 */
#ifndef ESPL__SHIP_H
#define ESPL__SHIP_H
/* FILE holds texts that end with a NUL: the script, then DIGEST and PATH of each file. */
#define ESPL__SHIP_LIMIT ((size_t)64 << 20)
/* What --ship writes to its standard error for the driver, a line each. */
#define ESPL__SHIP_NOTE "\001note: " /* text, or nothing: it is busy */
#define ESPL__SHIP_REFUSED "\001refused: "
int espl__session_ship(int argc, char **argv); /* returns the exit status */
#endif
