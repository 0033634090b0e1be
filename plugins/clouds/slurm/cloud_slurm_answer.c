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

/* The last line that says something. */
static void
copy_last(char *to, size_t room, const char *text)
{
	size_t end = strlen(text), begin;

	while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == ' '))
		end--;
	for (begin = end; begin > 0 && text[begin - 1] != '\n'; begin--)
		continue;
	if (end - begin >= room)
		end = begin + room - 1;
	memcpy(to, text + begin, end - begin);
	to[end - begin] = '\0';
	for (char *c = to; *c != '\0'; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = '?';
}

int
cloud_slurm_answer_failed(const struct slurm_cloud *cloud, const char *program,
    const struct espl_child *child, char text[SLURM_TEXT])
{
	char last[400];

	if (child->status == ESPL_OK && child->exit_code == 0)
		return 0;
	copy_last(last, sizeof last, child->err != NULL ? child->err : "");
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
	uint32_t gpus; /* of the node with most */
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
	if (count_gpus(gres) > found->gpus)
		found->gpus = count_gpus(gres);
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
	else if (!found.up)
		(void)snprintf(text, SLURM_TEXT, "partition '%s' is down", cloud->partition);
	else if (strcmp(slurm_text(cloud, SLURM_OPT_TYPE), "cpu") == 0 ||
	    slurm_is_set(cloud, SLURM_OPT_GRES) || found.gpus >= wanted)
		return 0;
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

int
cloud_slurm_answer_reason(const char *reason, char text[SLURM_TEXT])
{
	static const struct {
		const char *reason, *words;
		int never;
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
		{ "PartitionNodeLimit", "the partition does not have enough nodes for it", 1 },
		{ "PartitionTimeLimit", "the time limit of the partition is shorter than its own",
		    1 },
		{ "BadConstraints", "no node has what it asks for", 1 },
		{ "InvalidAccount", "the account is not valid", 1 },
		{ "InvalidQOS", "the QOS is not valid", 1 },
		{ "AccountNotAllowed", "the partition does not allow this account", 1 },
		{ "QOSNotAllowed", "the partition does not allow this QOS", 1 },
		{ "launch failed requeued held", "its script could not be started", 1 },
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
	return 0;
}
