/* backlog.h - what an agent keeps of a gang for a driver that resumes the run: the messages about
 * it that no reply has answered.  Pure.
 */
#ifndef ESPL__BACKLOG_H
#define ESPL__BACKLOG_H
#include "base/buf.h"

struct espl__backlog {
	struct espl__buf frames;
};
void espl__backlog_free(struct espl__backlog *);
/* A whole frame that was sent to the driver. */
void espl__backlog_keep(struct espl__backlog *, const void *frame, size_t size);
/* A reply answers the first line, and shows that the driver has all that came before it. */
void espl__backlog_answered(struct espl__backlog *);
/* There is a line that no reply has answered. */
int espl__backlog_waits(const struct espl__backlog *);
/* Appends STATE and the frames.  ranks 0: the gang cannot be continued. */
void espl__backlog_state(const struct espl__backlog *, uint64_t gang, uint64_t ranks,
    struct espl__buf *to);
#endif
