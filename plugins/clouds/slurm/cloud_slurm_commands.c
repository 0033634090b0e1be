/* cloud_slurm_commands.c - the words of Slurm's commands, and the scripts that run on a node.
 *
 * A job step ends with its srun, and everything in it is killed then. So the keeper of a session
 * (docs/sessions.md) must not be in the step: the job's own script, the holder, starts it when the
 * step asks for that, and the step only relays. They meet in a directory of the node's /tmp.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_slurm.h"

/* Where holder and step meet; $t: the token of the lease. */
#define MEET "d=/tmp/espalier-$(id -u)-$t; "

/* $g: GPUs, or 0 for slots on cores; $s: slots. Sets $why if the job has other GPUs. */
#define DEVICES \
	"why=; if [ \"$g\" = 0 ]; then list=cpu:$s; else " \
	"case $CUDA_VISIBLE_DEVICES in GPU-* | MIG-*) list=$CUDA_VISIBLE_DEVICES;; " \
	"*) list=$(nvidia-smi -i \"$CUDA_VISIBLE_DEVICES\" --query-gpu=uuid " \
	"--format=csv,noheader 2>&1 | paste -s -d , -);; esac; " \
	"n=$(echo \"$list\" | tr , '\\n' | grep -c '^[GM][PI][UG]-'); [ \"$n\" = \"$g\" ] || " \
	"why=\"nvidia-smi finds $n GPUs of the job on $(uname -n) instead of $g " \
	"(CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES)\"; fi; "

/* $1: $g; $2: $s; $3: the seconds after which a job without an agent ends; $4: $t. The step writes
 * the words of a keeper to d/ask, one a line, and waits for d/EPOCH.
 *
 * SIGTERM comes at the end of a job and when the grace time of a preemption begins; only at the
 * end the session is ended. */
static const char holder_script[] =
    "set -o posix\n" /* a signal interrupts read */
    "g=$1 s=$2 t=$4 u=$(id -u) mask=$(umask) agent= lease= term=\n"
    "trap 'term=1' TERM\n" MEET "umask 077\n" DEVICES "\n"
    "export ESPALIER_AGENT_DEVICES=$list\n"
    "meet() {\n"
    "	[ ! -O \"$d\" ] || rm -rf \"$d\"\n"
    "	mkdir \"$d\" && mkfifo \"$d/ask\" || return 1\n"
    "	exec 3<>\"$d/ask\" 4<\"$d\"\n"
    "	! command -v flock >/dev/null || flock -s -n 4\n" /* systemd-tmpfiles leaves it alone */
    "	[ -z \"$why\" ] || echo \"$why\" >\"$d/why\"\n"
    "	echo \"$list\" >\"$d/new\" && mv \"$d/new\" \"$d/devices\"\n"
    "}\n"
    "meet || exit 1\n"
    "trap 'rm -rf \"$d\"' EXIT\n"
    "used=$SECONDS\n"
    "while [ $((SECONDS - used)) -lt \"$3\" ]; do\n"
    "	[ -p \"$d/ask\" ] && [ -e \"$d/devices\" ] || meet || sleep 2\n" /* /tmp was cleaned */
    "	if read -r -t 2 -u 3 word && [ \"$word\" = agent ]; then\n"
    "		for name in agent lease epoch linger; do read -r -t 2 -u 3 $name; done\n"
    "		(umask \"$mask\"; b=${agent%/*}\n"
    "		[ -z \"$ESPALIER_LIBEXEC\" ] || [ ! -x \"$b/espalier-worker\" ] || "
    "ESPALIER_LIBEXEC=$b\n"
    "		exec \"$agent\" --keep \"$lease\" \"$epoch\" "
    "\"$linger\" new) </dev/null >/dev/null 2>\"$d/new\"\n"
    "		mv \"$d/new\" \"$d/$epoch\"\n"
    "		used=$SECONDS\n"
    "	fi\n"
    "	if [ -n \"$term\" ]; then\n"
    "		term=\n"
    "		state=$(timeout 5 squeue -h -j $SLURM_JOB_ID -o %T 2>/dev/null)\n"
    "		[ \"$state\" = RUNNING ] || break\n"
    "	fi\n"
    "	[ -z \"$lease\" ] || ! grep -q \"@espalier-$u-$lease\\$\" /proc/net/unix || "
    "used=$SECONDS\n"
    "done\n"
    "rm -rf \"$d\"\n"
    "[ -z \"$lease\" ] || timeout 25 \"$agent\" --keep \"$lease\" 0 1 end </dev/null\n";

/* Starts the agent in a step: $1 is its path, the rest --keep LEASE EPOCH LINGER WHAT, or nothing.
 * Before it comes what sets $g, $s, $t, and $alone: "" if a holder is there.  A later connection of
 * a session finds the keeper by itself, and needs nothing of the disk. */
static const char start_script[] =
    "a=$1; shift; unset ESPALIER_START; "
    "case $5 in again | rejoin) exec \"$a\" \"$@\";; esac; " MEET
    "until_there() { n=0; until [ -O \"$1\" ]; do n=$((n + 1)); [ $n -lt 300 ] || "
    "{ echo \"$2 within 30 s\" >&2; exit 1; }; sleep 0.1; done; }; "
    "if [ -n \"$alone\" ]; then " DEVICES
    "else until_there \"$d/devices\" \"the script of job $SLURM_JOB_ID did not start\"; "
    "read -r list <\"$d/devices\"; why=$(cat \"$d/why\" 2>/dev/null); fi; "
    "[ -z \"$why\" ] || { echo \"$why\" >&2; exit 1; }; "
    "ESPALIER_AGENT_DEVICES=$list; export ESPALIER_AGENT_DEVICES; "
    "if [ -z \"$alone\" ] && [ \"$5\" = new ]; then "
    "printf '%s\\n' agent \"$a\" \"$2\" \"$3\" \"$4\" >\"$d/ask\"; "
    "until_there \"$d/$3\" \"job $SLURM_JOB_ID did not start espalier-agent\"; "
    "cat \"$d/$3\" >&2; fi; exec \"$a\" \"$@\"";

/* $1: $g; $2: $s; $3: $alone; $4: cloud.agent, or ""; $5: $t; $6: the script above.  Then come the
 * words that the host appends: with cloud.agent, the path of its own agent and the agent's words;
 * else a shell that sends the agent if need be, and has ESPALIER_START start it. */
static const char step_script[] =
    "ESPALIER_START=\"g=$1 s=$2 alone=$3 t=$5; $6\"; o=$4; shift 6; "
    "[ -n \"$o\" ] || { export ESPALIER_START; exec \"$@\"; }; "
    "a=$(command -v \"$o\") || { echo \"there is no espalier-agent at $o\" >&2; exit 127; }; "
    "shift; exec sh -c \"$ESPALIER_START\" espalier \"$a\" \"$@\"";

/* Runs on this machine: $1 is the job, the rest are arguments of srun. What the environment sets
 * for other jobs and steps, for example because espalier runs in a job itself, must not be taken
 * for options of this step; what names the cluster stays. When a run is resumed, checks first that
 * the job has not ended; exit status 3 means that its session is gone, and that retrying is
 * pointless. */
static const char reach_script[] =
    "job=$1; shift; for name in $(env | sed -n 's/^\\(S[A-Z]*_[A-Za-z0-9_]*\\)=.*/\\1/p'); do "
    "case $name in SLURM_CONF* | SLURM_CLUSTER* | SLURM_WORKING_CLUSTER | SLURM_JWT) ;; "
    "SLURM_* | SRUN_* | SQUEUE_*) unset \"$name\";; esac; done; "
    "for last do :; done; [ \"$last\" != rejoin ] || "
    "case $(timeout 5 squeue --noheader --jobs=\"$job\" --states=all --format=%T 2>&1) in "
    "BOOT_FAIL | CANCELLED | COMPLETED | COMPLETING | DEADLINE | FAILED | NODE_FAIL | "
    "OUT_OF_MEMORY | PREEMPTED | TIMEOUT | *'Invalid job id'*) "
    "echo \"job $job has ended\" >&2; exit 3;; esac; exec srun \"$@\"";

/* ---- words ---- */

static int
has_gpus(const struct slurm_cloud *cloud)
{
	return strcmp(slurm_text(cloud, SLURM_OPT_TYPE), "cpu") != 0;
}

static void
add_option(struct cloud_words *words, const struct slurm_cloud *cloud, uint32_t option,
    const char *name)
{
	if (slurm_is_set(cloud, option))
		cloud_words_add(words, "--%s=%s", name, slurm_text(cloud, option));
}

static void
add_devices(struct cloud_words *words, const struct slurm_cloud *cloud)
{
	long long gpus = slurm_number(cloud, SLURM_OPT_GPUS);

	cloud_words_add(words, "%lld", has_gpus(cloud) ? gpus : 0);
	cloud_words_add(words, "%lld", gpus);
}

/* It is sent as standard input, so its arguments are in its text. */
char *
cloud_slurm_words_holder(const struct slurm_cloud *cloud, const char *token)
{
	long long gpus = slurm_number(cloud, SLURM_OPT_GPUS);
	char *text;

	return asprintf(&text, "#!/bin/bash\nset -- %lld %lld %lld %s\n%s",
		   has_gpus(cloud) ? gpus : 0, gpus,
		   (long long)(slurm_number(cloud, SLURM_OPT_IDLE) / ESPL_SECOND), token,
		   holder_script) < 0
	    ? NULL
	    : text;
}

/* The nodes that the user's own arguments exclude; "" none. */
static const char *
own_exclude(const struct slurm_cloud *cloud)
{
	const struct espl_table *more = slurm_is_set(cloud, SLURM_OPT_ARGUMENTS)
	    ? cloud->config->values[SLURM_OPT_ARGUMENTS].as.table
	    : NULL;
	const char *found = "";

	for (uint32_t i = 0; more != NULL && i < more->row_count; i++) {
		const char *word = more->cells[i].as.s;

		if (strncmp(word, "--exclude=", 10) == 0)
			found = word + 10;
		else if (strncmp(word, "-x", 2) == 0 && word[2] != '\0')
			found = word + 2;
		else if ((strcmp(word, "-x") == 0 || strcmp(word, "--exclude") == 0) &&
		    i + 1 < more->row_count)
			found = more->cells[++i].as.s;
	}
	return found;
}

struct cloud_words
cloud_slurm_words_include(const struct slurm_cloud *cloud, const struct slurm_job *job)
{
	struct cloud_words words = { NULL, 0, 0 };

	cloud_words_add(&words, "scontrol");
	cloud_words_add(&words, "update");
	cloud_words_add(&words, "JobId=%s", job->lease.id);
	cloud_words_add(&words, "ExcNodeList=%s", own_exclude(cloud));
	return words;
}

struct cloud_words
cloud_slurm_words_submit(const struct slurm_cloud *cloud, const struct slurm_job *job)
{
	const struct espl_value *values = cloud->config->values;
	const struct espl_table *more =
	    slurm_is_set(cloud, SLURM_OPT_ARGUMENTS) ? values[SLURM_OPT_ARGUMENTS].as.table : NULL;
	long long gpus = slurm_number(cloud, SLURM_OPT_GPUS);
	struct cloud_words words = { NULL, 0, 0 };

	cloud_words_add(&words, "sbatch");
	cloud_words_add(&words, "--comment=%s", job->lease.token);
	cloud_words_add(&words, "--nodes=1");
	cloud_words_add(&words, "--ntasks=1");
	cloud_words_add(&words, "--no-requeue");
	cloud_words_add(&words, "--output=/dev/null");
	add_option(&words, cloud, SLURM_OPT_PARTITION, "partition");
	add_option(&words, cloud, SLURM_OPT_QOS, "qos");
	add_option(&words, cloud, SLURM_OPT_ACCOUNT, "account");
	add_option(&words, cloud, SLURM_OPT_CONSTRAINT, "constraint");
	if (slurm_is_set(cloud, SLURM_OPT_GRES))
		add_option(&words, cloud, SLURM_OPT_GRES, "gres");
	else if (has_gpus(cloud))
		cloud_words_add(&words, "--gres=gpu:%lld", gpus);
	if (slurm_is_set(cloud, SLURM_OPT_CPUS) || !has_gpus(cloud))
		cloud_words_add(&words, "--cpus-per-task=%lld",
		    slurm_is_set(cloud, SLURM_OPT_CPUS)
			? (long long)slurm_number(cloud, SLURM_OPT_CPUS)
			: gpus);
	if (slurm_is_set(cloud, SLURM_OPT_MEMORY))
		cloud_words_add(&words, "--mem=%lldM",
		    ((long long)slurm_number(cloud, SLURM_OPT_MEMORY) + 1048575) / 1048576);
	if (slurm_is_set(cloud, SLURM_OPT_TIME))
		cloud_words_add(&words, "--time=%lld",
		    (long long)((slurm_number(cloud, SLURM_OPT_TIME) + 60 * ESPL_SECOND - 1) /
			(60 * ESPL_SECOND)));
	for (uint32_t i = 0; more != NULL && i < more->row_count; i++)
		cloud_words_add(&words, "%s", more->cells[i].as.s);
	if (job->avoid != NULL) /* the last one counts */
		cloud_words_add(&words, "--exclude=%s%s%s", own_exclude(cloud),
		    own_exclude(cloud)[0] != '\0' ? "," : "", job->avoid);
	cloud_words_add(&words, "--parsable"); /* the last ones count: a job is found by its name */
	cloud_words_add(&words, "--job-name=%s", job->lease.token);
	if (words.failed)
		cloud_words_free(&words);
	return words;
}

/* --unbuffered: otherwise only whole lines pass, and frames are none. The agent may use what the
 * whole job has on the node. */
struct cloud_words
cloud_slurm_words_reach(const struct slurm_cloud *cloud, const char *job, const char *node,
    const char *token)
{
	struct cloud_words words = { NULL, 0, 0 };

	cloud_words_add(&words, "sh");
	cloud_words_add(&words, "-c");
	cloud_words_add(&words, "%s", reach_script);
	cloud_words_add(&words, "srun");
	cloud_words_add(&words, "%s", job);
	cloud_words_add(&words, "--jobid=%s", job);
	cloud_words_add(&words, "--overlap");
	cloud_words_add(&words, "--nodes=1");
	cloud_words_add(&words, "--ntasks=1");
	cloud_words_add(&words, "--nodelist=%s", node);
	if (cloud->inside != NULL) /* else the agent is not in the step */
		cloud_words_add(&words, "--cpu-bind=none");
	/* A step of a job with --gpus=ALL would ask for all of them on this node. */
	if (cloud->inside != NULL && has_gpus(cloud) && getenv("SLURM_GPUS") != NULL)
		cloud_words_add(&words, "--gres=gpu:%lld",
		    (long long)slurm_number(cloud, SLURM_OPT_GPUS));
	cloud_words_add(&words, "--unbuffered");
	cloud_words_add(&words, "--quiet");
	cloud_words_add(&words, "--chdir=/");
	cloud_words_add(&words, "sh");
	cloud_words_add(&words, "-c");
	cloud_words_add(&words, "%s", step_script);
	cloud_words_add(&words, "espalier");
	add_devices(&words, cloud);
	cloud_words_add(&words, "%s", cloud->inside != NULL ? "alone" : "");
	cloud_words_add(&words, "%s", slurm_text(cloud, SLURM_OPT_AGENT));
	cloud_words_add(&words, "%s", token);
	cloud_words_add(&words, "%s", start_script);
	if (words.failed)
		cloud_words_free(&words);
	return words;
}
