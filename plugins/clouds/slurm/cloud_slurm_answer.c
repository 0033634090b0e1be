/* cloud_slurm_answer.c - what Slurm's commands answered, in plain words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cloud_slurm.h"

/* The next field of a line of fields with '|' between them. */
static const char *
take_field(const char *at, char *to, size_t room)
{
	size_t size = strcspn(at, "|\n"), kept = size < room ? size : room - 1;

	memcpy(to, at, kept);
	to[kept] = '\0';
	return at + size + (at[size] == '|');
}

int
cloud_slurm_answer_line(const char **text, struct slurm_line *line)
{
	const char *at = *text;
	char end[40];
	struct tm tm = { .tm_isdst = -1 };

	if (*at == '\0')
		return 0;
	at = take_field(at, line->id, sizeof line->id);
	at = take_field(at, line->name, sizeof line->name);
	at = take_field(at, line->state, sizeof line->state);
	at = take_field(at, end, sizeof end);
	at = take_field(at, line->node, sizeof line->node);
	at = take_field(at, line->reason, sizeof line->reason);
	line->end_s = 0;
	if (strptime(end, "%Y-%m-%dT%H:%M:%S", &tm) != NULL)
		line->end_s = mktime(&tm);
	at += strcspn(at, "\n");
	*text = at + (*at == '\n');
	return 1;
}

/* Ends a message where it is too long, and hides what is not printable. */
static void
add_words(char *to, size_t room, const char *text, size_t size)
{
	size_t used = strlen(to);

	if (used > 0 && used + 2 < room) {
		memcpy(to + used, ": ", 2);
		used += 2;
	}
	if (size >= room - used)
		size = room - 1 - used;
	memcpy(to + used, text, size);
	to[used + size] = '\0';
	for (char *c = to + used; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = '?';
}

/* The errors of a command, in one line: a limit is named before the line that says what came of it.
 * If no line is marked as an error, the last one that says something. */
static void
copy_errors(char *to, size_t room, const char *text, const char *program)
{
	const char *last = "";
	size_t last_size = 0, size;

	to[0] = '\0';
	for (; *text != '\0'; text += size + (text[size] == '\n')) {
		const char *error = strstr(text, ": error: ");

		size = strcspn(text, "\n");
		if (error != NULL && error < text + size) {
			if (to[0] == '\0')
				add_words(to, room, program, strlen(program));
			error += strlen(": error: ");
			add_words(to, room, error, (size_t)(text + size - error));
		} else if (strspn(text, " ") < size && strncmp(text, "Try ", 4) != 0) {
			last = text;
			last_size = size;
		}
	}
	if (to[0] == '\0')
		add_words(to, room, last, last_size);
}

int
cloud_slurm_answer_failed(const struct slurm_cloud *cloud, const char *program,
    const struct espl_child *child, char text[SLURM_TEXT])
{
	char last[400];

	if (child->status == ESPL_OK && child->exit_code == 0)
		return 0;
	copy_errors(last, sizeof last, child->err != NULL ? child->err : "", program);
	if (child->status == ESPL_E_LIMIT)
		(void)snprintf(text, SLURM_TEXT,
		    "%s did not answer within %lld s; does the controller run (scontrol ping)?",
		    program, (long long)(slurm_number(cloud, SLURM_OPT_LIMIT) / ESPL_SECOND));
	else if (child->status != ESPL_OK)
		(void)snprintf(text, SLURM_TEXT,
		    "there is no %s here; espalier must run where Slurm's commands are", program);
	else if (last[0] != '\0')
		(void)snprintf(text, SLURM_TEXT, "%s", last);
	else
		(void)snprintf(text, SLURM_TEXT, "%s failed with exit status %d", program,
		    child->exit_code);
	return -1;
}

/* What stops every job like this one: QOSMaxNodePerJobLimit, QOSMinGRES, or "Job's account not
 * permitted to use this partition". */
static int
is_for_good(const char *text)
{
	static const char *const words[] = { "PerJob", "PerNode", "QOSMinCpu", "QOSMinGRES",
		"QOSMinMemory", "use this partition" };

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strstr(text, words[i]) != NULL)
			return 1;
	return 0;
}

espl_reason
cloud_slurm_answer_refusal(const struct espl_child *child)
{
	static const struct {
		const char *words;
		espl_reason reason;
	} table[] = {
		{ "Unable to contact", 0 },
		{ "timed out", 0 },
		{ "Connection refused", 0 },
		{ "temporarily", 0 },
		{ "Zero Bytes were transmitted", 0 },
		{ "Transport endpoint", 0 },
		{ "not available now", ESPL_BY_CAPACITY },
		{ "not available (", ESPL_BY_CAPACITY },
		{ "nodes are busy", ESPL_BY_CAPACITY },
		{ "Invalid account", ESPL_BY_REFUSAL },
		{ "Invalid partition", ESPL_BY_REFUSAL },
		{ "Invalid qos", ESPL_BY_REFUSAL },
		{ "Invalid feature", ESPL_BY_REFUSAL },
		{ "Invalid generic resource", ESPL_BY_REFUSAL },
		{ "Invalid Trackable RESource", ESPL_BY_REFUSAL },
		{ "Invalid license", ESPL_BY_REFUSAL },
		{ "Invalid node name", ESPL_BY_REFUSAL },
		{ "Invalid user id", ESPL_BY_FAULT },
		{ "Invalid --", ESPL_BY_REFUSAL },
		{ "use this partition", ESPL_BY_REFUSAL },
		{ "Access/permission denied", ESPL_BY_FAULT },
		{ "Access denied to requested reservation", ESPL_BY_REFUSAL },
		{ "Requested reservation is invalid", ESPL_BY_REFUSAL },
		{ "Requested node configuration is not available", ESPL_BY_FAULT },
		{ "Requested time limit is invalid", ESPL_BY_REFUSAL },
		{ "Node count specification invalid", ESPL_BY_REFUSAL },
		{ "More processors requested than permitted", ESPL_BY_REFUSAL },
		{ "Memory required by task is not available", ESPL_BY_REFUSAL },
		{ "Memory specification can not be satisfied", ESPL_BY_REFUSAL },
		{ "unrecognized option", ESPL_BY_REFUSAL },
		{ "invalid option", ESPL_BY_REFUSAL },
		{ "requires an argument", ESPL_BY_REFUSAL },
	};

	if (child->status == ESPL_E_LIMIT)
		return 0;
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (strstr(child->err, table[i].words) != NULL)
			return table[i].reason;
	if (strstr(child->err, "QOS") == NULL && strstr(child->err, "imit") == NULL)
		return ESPL_BY_FAULT;
	return is_for_good(child->err) ? ESPL_BY_REFUSAL : ESPL_BY_QUOTA;
}

/* "gpu:a100:4(S:0-1),nvme:1": 4 */
static uint32_t
count_gpus(const char *gres)
{
	uint32_t count = 0;

	while (*gres != '\0') {
		size_t size = strcspn(gres, ",");

		if (strncmp(gres, "gpu", 3) == 0) {
			size_t end = strcspn(gres, "(,"), begin = end;

			while (begin > 0 && gres[begin - 1] >= '0' && gres[begin - 1] <= '9')
				begin--;
			count += begin < end && gres[begin - 1] == ':'
			    ? (uint32_t)strtoul(gres + begin, NULL, 10)
			    : 1;
		}
		gres += size + (gres[size] == ',');
		if (size > 0 && *gres == '\0')
			break;
	}
	return count;
}

/* What sinfo says of partitions. */
struct found {
	char names[300]; /* of all, for messages */
	int here, up;
	char state[16]; /* if it is not up: "down", "drain" or "inact" */
	uint32_t gpus;  /* of the node with most */
};

static void
take_partition(struct slurm_cloud *cloud, struct found *found, const char *line)
{
	char name[128], marked[130], up[16], gres[300];
	size_t used = strlen(found->names);

	line = take_field(line, name, sizeof name);
	line = take_field(line, marked, sizeof marked);
	line = take_field(line, up, sizeof up);
	(void)take_field(line, gres, sizeof gres);
	if (cloud->partition[0] == '\0' && marked[0] != '\0' && marked[strlen(marked) - 1] == '*')
		(void)snprintf(cloud->partition, sizeof cloud->partition, "%s", name);
	if (strstr(found->names, name) == NULL)
		(void)snprintf(found->names + used, sizeof found->names - used, "%s%s",
		    used > 0 ? ", " : "", name);
	if (strcmp(name, cloud->partition) != 0)
		return;
	found->here = 1;
	found->up |= strcmp(up, "up") == 0;
	(void)snprintf(found->state, sizeof found->state, "%s", up);
	if (count_gpus(gres) > found->gpus)
		found->gpus = count_gpus(gres);
}

/* In maintenance: a partition that is down takes jobs and starts none, others take none. */
static int
explain_closed(const struct slurm_cloud *cloud, const char *state, char text[SLURM_TEXT])
{
	(void)snprintf(text, SLURM_TEXT, "partition '%s' is %s; %s", cloud->partition,
	    strcmp(state, "drain") == 0       ? "draining"
		: strcmp(state, "inact") == 0 ? "inactive"
					      : "down",
	    strcmp(state, "down") == 0 ? "jobs are submitted, and wait until it is up"
				       : "jobs are submitted when it takes them");
	return 1;
}

int
cloud_slurm_answer_partition(struct slurm_cloud *cloud, const char *sinfo, char text[SLURM_TEXT])
{
	struct found found = { .names = "" };
	uint32_t wanted = (uint32_t)slurm_number(cloud, SLURM_OPT_GPUS);

	for (const char *line = sinfo; *line != '\0';) {
		take_partition(cloud, &found, line);
		line += strcspn(line, "\n");
		line += *line == '\n';
	}
	if (cloud->partition[0] == '\0')
		(void)snprintf(text, SLURM_TEXT,
		    "the cluster has no default partition; set partition to one of: %s",
		    found.names);
	else if (!found.here)
		(void)snprintf(text, SLURM_TEXT, "there is no partition '%s'; there are: %s",
		    cloud->partition, found.names);
	else if (strcmp(slurm_text(cloud, SLURM_OPT_TYPE), "cpu") == 0 ||
	    slurm_is_set(cloud, SLURM_OPT_GRES) || found.gpus >= wanted)
		return found.up ? 0 : explain_closed(cloud, found.state, text);
	else if (found.gpus == 0)
		(void)snprintf(text, SLURM_TEXT,
		    "partition '%s' has no GPUs; for slots on cores set gpu_type = \"cpu\"",
		    cloud->partition);
	else
		(void)snprintf(text, SLURM_TEXT,
		    "the nodes of partition '%s' have at most %u GPUs, but gpus = %u",
		    cloud->partition, found.gpus, wanted);
	return -1;
}

espl_reason
cloud_slurm_answer_reason(const char *reason, char text[SLURM_TEXT])
{
	static const struct {
		const char *reason, *words;
		espl_reason never;
	} table[] = {
		{ "None", "it was submitted", 0 },
		{ "Resources", "no node is free", 0 },
		{ "Priority", "jobs with a higher priority are ahead of it", 0 },
		{ "BeginTime", "its start time has not come", 0 },
		{ "JobHeldUser", "it is held by a user (scontrol release)", 0 },
		{ "JobHeldAdmin", "it is held by an administrator", 0 },
		{ "PartitionConfig", "the partition does not allow it now", 0 },
		{ "PartitionDown", "the partition is down", 0 },
		{ "PartitionInactive", "the partition is not active", 0 },
		{ "PartitionNodeLimit", "the partition does not have enough nodes for it",
		    ESPL_BY_FAULT },
		{ "PartitionTimeLimit", "the time limit of the partition is shorter than its own",
		    ESPL_BY_REFUSAL },
		{ "BadConstraints", "no node has what it asks for", ESPL_BY_FAULT },
		{ "InvalidAccount", "the account is not valid", ESPL_BY_REFUSAL },
		{ "InvalidQOS", "the QOS is not valid", ESPL_BY_REFUSAL },
		{ "AccountNotAllowed", "the partition does not allow this account",
		    ESPL_BY_REFUSAL },
		{ "QOSNotAllowed", "the partition does not allow this QOS", ESPL_BY_REFUSAL },
		{ "launch failed requeued held", "its script could not be started", ESPL_BY_FAULT },
	};

	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		if (strcmp(reason, table[i].reason) == 0) {
			(void)snprintf(text, SLURM_TEXT, "%s", table[i].words);
			return table[i].never;
		}
	}
	if (strncmp(reason, "QOS", 3) == 0 || strncmp(reason, "Assoc", 5) == 0 ||
	    strncmp(reason, "MaxGRES", 7) == 0)
		(void)snprintf(text, SLURM_TEXT, "a limit of the account or QOS is reached: %s",
		    reason);
	else
		(void)snprintf(text, SLURM_TEXT, "%s", reason);
	return is_for_good(reason) ? ESPL_BY_REFUSAL : 0;
}
