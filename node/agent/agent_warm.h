/* agent_warm.h - warm starts (agent_warm.c), and what a start of a command consists of. */
#ifndef ESPL__AGENT_WARM_H
#define ESPL__AGENT_WARM_H
#include "agent/agent.h"

/* Of a rank whose start was handed to another process: kept until that has taken it over, so that
 * it can be started cold. */
struct espl__launch {
	char *path;
	struct espl__strings words, env;
	const char *dir; /* the gang's */
	int anywhere, listens;
	int listens_to; /* 1 or 2: where espalier-listen reads */
	int log, report;
	int64_t file_max, log_limit;
	int64_t until; /* it must have been taken over by then */
};
void espl__launch_free(struct espl__launch *); /* what it points to */
/* Takes over what `from` points to; the descriptors stay the caller's, copies are kept. */
void espl__launch_keep(struct espl__agent_rank *, struct espl__launch *from);
void espl__launch_forget(struct espl__agent_rank *);

/* 1: it was asked for, and r->link is the agent's end of the link to its supervisor; if that ends
 * without a word, it is to be started cold.  0: it is to be started cold now. */
int espl__warm_start(struct espl__agent_rank *, const struct espl__launch *);
int espl__warm_fd(const struct espl__agent *, uint32_t index);    /* -1: there are no more */
pid_t espl__warm_pid(const struct espl__agent *, uint32_t index); /* 0: no more */
void espl__warm_receive(struct espl__agent *, int fd);
int64_t espl__warm_tend(struct espl__agent *, int64_t now); /* the next deadline (0 none) */
void espl__warm_free(struct espl__agent *);
#endif
