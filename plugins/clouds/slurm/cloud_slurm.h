/* cloud_slurm.h - the parts of the cloud `slurm`: jobs, and the words of commands. */
#ifndef CLOUD_SLURM_H
#define CLOUD_SLURM_H
#include <espalier/cloud.h>
#include <espalier/host.h>
#include <espalier/kit/leases.h>
#include <espalier/util.h>
#include <stdio.h>

#include "../words.h"

#define SLURM_TEXT 600 /* of a message */
#define SLURM_NAME 256 /* of a node or its address */
#define SLURM_REASON 200

enum {
	SLURM_OPT_PARTITION = 0,
	SLURM_OPT_QOS,
	SLURM_OPT_ACCOUNT,
	SLURM_OPT_CONSTRAINT,
	SLURM_OPT_GRES,
	SLURM_OPT_CPUS,
	SLURM_OPT_MEMORY,
	SLURM_OPT_TIME,
	SLURM_OPT_ARGUMENTS,
	SLURM_OPT_NODES,
	SLURM_OPT_GPUS,
	SLURM_OPT_TYPE,
	SLURM_OPT_PRICE,
	SLURM_OPT_AGENT,
	SLURM_OPT_POLL,
	SLURM_OPT_LIMIT,
	SLURM_OPT_NOTICE,
	SLURM_OPT_IDLE,
	SLURM_OPT_INSIDE,
	SLURM_OPT_COUNT
};

/* A command that is under way: the low bits of its cookie.  The others are the serial number of a
 * lease. */
enum slurm_command {
	SLURM_SINFO = 0,
	SLURM_SQUEUE,
	SLURM_SBATCH,
	SLURM_SCANCEL,
	SLURM_ADDRESS,
	SLURM_HOSTNAMES,
	SLURM_OWNED,
	SLURM_INCLUDE /* scontrol: its job may also start on nodes that were avoided */
};
#define SLURM_COMMANDS 16u
#define SLURM_COOKIE(serial_, command_) ((serial_)*SLURM_COMMANDS + (uint64_t)(command_))
#define SLURM_TIMER UINT64_MAX             /* no command has it */
#define SLURM_START_TIMER (UINT64_MAX - 1) /* nor this one */

/* A lease: one job on one node; inside an allocation one of its nodes. */
struct slurm_job {
	struct espl_leased lease; /* first; its id is the number of the job */
	char node[SLURM_NAME];
	char provider_id[SLURM_NAME + 40]; /* "JOB NODE", what the host keeps */
	char *avoid;          /* nodes that its job is kept away from: "n1,n2"; NULL none */
	espl_time avoids_at;  /* since then; ESPL_NEVER: its job does not wait */
	int avoided;          /* it was submitted with such nodes */
	int including;        /* scontrol runs */
	char discarded[32];   /* an earlier job, which Slurm refused for what it avoids */
	espl_time completing; /* since then; ESPL_NEVER: it is not */
};

struct slurm_cloud {
	const struct espl_host *host;
	const struct espl_config *config;
	const struct espl_io *io;
	const struct espl_run *run;
	const struct espl_cloud_events *events; /* from start on */
	struct espl_leases leases;              /* of slurm_job */
	struct espl_lease_rules rules;
	char partition[128]; /* "" the default one, until start has asked */
	char *inside;        /* the job that this process is in; NULL: jobs are submitted */
	char **nodes;        /* its nodes */
	uint32_t node_count;
	espl_time began;      /* start was called */
	uint32_t start_tries; /* of sinfo */
	uint64_t owned_what;  /* NONE: not asked */
	char owned_run[65];   /* the run whose jobs are asked for; "" all */
};

static inline int
slurm_is_set(const struct slurm_cloud *cloud, uint32_t option)
{
	return cloud->config->values[option].source != ESPL_UNSET;
}
static inline int64_t
slurm_number(const struct slurm_cloud *cloud, uint32_t option)
{
	return cloud->config->values[option].as.i;
}
static inline const char *
slurm_text(const struct slurm_cloud *cloud, uint32_t option)
{
	return slurm_is_set(cloud, option) ? cloud->config->values[option].as.s : "";
}

static inline void
slurm_offer_name(const struct slurm_cloud *cloud, char name[80])
{
	(void)snprintf(name, 80, "%ux%.50s", (unsigned)slurm_number(cloud, SLURM_OPT_GPUS),
	    slurm_text(cloud, SLURM_OPT_TYPE));
}

/* ---- cloud_slurm_commands.c: the words of commands; 0, or -1: out of memory ---- */

/* sbatch, and the script for its standard input: freed by the caller. */
struct cloud_words cloud_slurm_words_submit(const struct slurm_cloud *, const struct slurm_job *);
/* Ends what keeps the job of a lease away from nodes. */
struct cloud_words cloud_slurm_words_include(const struct slurm_cloud *, const struct slurm_job *);
char *cloud_slurm_words_holder(const struct slurm_cloud *, const char *token);
/* What the host completes with the words of an agent. */
struct cloud_words cloud_slurm_words_reach(const struct slurm_cloud *, const char *job,
    const char *node, const char *token);

/* ---- cloud_slurm_answer.c: what commands answered ---- */

/* A line of squeue. */
struct slurm_line {
	char id[32], state[32], reason[SLURM_REASON], node[SLURM_NAME], name[80];
	int64_t end_s; /* its time limit, UTC; 0 none */
};
/* Moves past the next line; 0: there is none. */
int cloud_slurm_answer_line(const char **text, struct slurm_line *);
/* Why a command failed: its errors, or that it did not answer.  0: it did not fail. */
int cloud_slurm_answer_failed(const struct slurm_cloud *, const char *program,
    const struct espl_child *, char text[SLURM_TEXT]);
/* Looks for the partition in what sinfo says; -1: it is of no use, and why; 1: it takes or starts
 * no jobs now, and how that is waited for. */
int cloud_slurm_answer_partition(struct slurm_cloud *, const char *sinfo, char text[SLURM_TEXT]);
/* What the refusal of a job is: 0 the controller did not answer, and may have taken the job. */
espl_reason cloud_slurm_answer_refusal(const struct espl_child *);
/* Why a job waits, for people; not 0: it will never start, and the lease ends for this reason. */
espl_reason cloud_slurm_answer_reason(const char *reason, char text[SLURM_TEXT]);

/* ---- cloud_slurm_owned.c: the jobs of all runs ---- */

espl_status cloud_slurm_owned_ask(void *, const char *run, uint64_t what, struct espl_error *);
void cloud_slurm_owned_take(struct slurm_cloud *, const struct espl_child *);

/* ---- cloud_slurm_jobs.c: leases ---- */

espl_status cloud_slurm_jobs_acquire(void *, const struct espl_acquire *const *, uint32_t count,
    struct espl_error *);
espl_status cloud_slurm_jobs_release(void *, const struct espl_lease *const *, uint32_t count,
    struct espl_error *);
espl_status cloud_slurm_jobs_adopt(void *, const struct espl_lease *const *, uint32_t count,
    struct espl_error *);
void cloud_slurm_jobs_begin(struct slurm_cloud *);
/* Of all commands but those of start. */
void cloud_slurm_jobs_child(struct slurm_cloud *, const struct espl_child *);
espl_status cloud_slurm_jobs_run(struct slurm_cloud *, struct cloud_words *, uint64_t cookie,
    const char *input);
#endif
