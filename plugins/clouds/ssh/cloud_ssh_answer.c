/* cloud_ssh_answer.c - what a command on a host answered, in plain words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_ssh.h"

#define CLOSED \
	"the connection to '%s' was closed before the login; sshd does that when many " \
	"connections " \
	"begin at once: raise MaxStartups in its sshd_config, and in that of the jump hosts"

/* The error messages of ssh, what they say of the host, and their meaning for the user. %s: the
 * address; %c: a command that reproduces it.  A message through a jump host may hold several: the
 * first one here counts. */
static const struct {
	const char *printed;
	enum ssh_failure failure;
	const char *means;
} failures[] = {
	{ "IDENTIFICATION HAS CHANGED", SSH_UNFIT,
	    "its host key has changed; check why before you remove the old one from known_hosts "
	    "(ssh-keygen -R)" },
	{ "host key verification failed", SSH_UNFIT,
	    "its host key is not known; connect once by hand and accept it: %c" },
	{ "temporary failure in name resolution", SSH_SILENT, "its address '%s' is not known" },
	{ "could not resolve hostname", SSH_UNFIT, "its address '%s' is not known" },
	{ "connection refused", SSH_SILENT,
	    "'%s' refused the connection; is sshd running at this port?" },
	{ "not accessible: ", SSH_UNFIT, "its key cannot be read" },
	{ "permission denied (", SSH_UNFIT,
	    "'%s' refused the key; this must work without a password: %c" },
	{ "no route to host", SSH_SILENT, "there is no route to '%s'" },
	{ "network is unreachable", SSH_SILENT, "there is no route to '%s'" },
	{ "timed out", SSH_SILENT, "'%s' did not answer in time" },
	{ "connection closed", SSH_CLOSED, CLOSED },
	{ "connection reset", SSH_CLOSED, CLOSED },
	{ "exchange_identification", SSH_CLOSED, CLOSED },
	{ "exceeded maxstartups", SSH_CLOSED, CLOSED },
};

static void
copy_clean(char *to, size_t room, const char *from, size_t size)
{
	size_t i;

	for (i = 0; i < size && i + 1 < room; i++)
		to[i] = (unsigned char)from[i] >= ' ' && from[i] != 127 ? from[i] : ' ';
	to[i] = '\0';
}

/* The last line that is not empty. */
static void
last_line(char *to, size_t room, const char *text)
{
	const char *begin, *end = text + strlen(text);

	while (end > text && (end[-1] == '\n' || end[-1] == '\r'))
		end--;
	for (begin = end; begin > text && begin[-1] != '\n';)
		begin--;
	copy_clean(to, room, begin, (size_t)(end - begin));
}

static void
put_meaning(const struct ssh_host *host, const char *means, char *text, size_t room)
{
	const struct espl_value *row = host->row;
	FILE *out = fmemopen(text, room, "w");

	text[0] = '\0';
	if (out == NULL)
		return;
	for (; *means != '\0'; means++) {
		if (means[0] != '%') {
			(void)fputc(means[0], out);
			continue;
		}
		if (*++means == 's') {
			(void)fprintf(out, "%.100s", ssh_address(host));
			continue;
		}
		(void)fprintf(out, "ssh ");
		if (row[SSH_COL_PORT].source != ESPL_UNSET)
			(void)fprintf(out, "-p %lld ", (long long)row[SSH_COL_PORT].as.i);
		if (row[SSH_COL_KEY].source != ESPL_UNSET)
			(void)fprintf(out, "-i %.100s ", row[SSH_COL_KEY].as.s);
		if (row[SSH_COL_USER].source != ESPL_UNSET)
			(void)fprintf(out, "%.60s@", row[SSH_COL_USER].as.s);
		(void)fprintf(out, "%.100s", ssh_address(host));
	}
	(void)fclose(out);
	text[room - 1] = '\0';
}

static enum ssh_failure
explain_failure(const struct ssh_cloud *cloud, const struct ssh_host *host,
    const struct espl_child *child, char text[SSH_TEXT])
{
	const char *err = child->err != NULL ? child->err : "";
	char line[200], means[370];

	last_line(line, sizeof line, err);
	if (child->status == ESPL_E_LIMIT) {
		(void)snprintf(text, SSH_TEXT, "'%.100s' did not answer within %lld s",
		    ssh_address(host),
		    (long long)((cloud->config->values[SSH_OPT_LIMIT].as.i + SSH_ANSWER_MORE) /
			ESPL_SECOND));
		return SSH_SILENT;
	}
	for (size_t i = 0; child->exit_code == 255 && i < sizeof failures / sizeof failures[0]; i++)
		if (strcasestr(err, failures[i].printed) != NULL) {
			put_meaning(host, failures[i].means, means, sizeof means);
			(void)snprintf(text, SSH_TEXT, "%s (%s)", means, line);
			return failures[i].failure;
		}
	if (child->status != ESPL_OK)
		(void)snprintf(text, SSH_TEXT, "%s", line);
	else if (child->exit_code < 0)
		(void)snprintf(text, SSH_TEXT, "ssh was killed by signal %d",
		    (int)-child->exit_code);
	else
		(void)snprintf(text, SSH_TEXT, "the command on it ended with status %d%s%s",
		    (int)child->exit_code, line[0] != '\0' ? ": " : "", line);
	return child->status == ESPL_OK && (child->exit_code == 255 || child->exit_code < 0)
	    ? SSH_SILENT
	    : SSH_UNFIT;
}

/* Of `ssh -G`: what its connections pass through.  An ssh that does not know -G may send all of
 * them through one gate. */
void
cloud_ssh_answer_way(struct ssh_host *host, const struct espl_child *child)
{
	static const char *const names[] = { "proxyjump ", "proxycommand " };
	const char *line = child->status == ESPL_OK && child->exit_code == 0 ? child->out : NULL;

	(void)snprintf(host->way, sizeof host->way, "%s", line == NULL ? "?" : "");
	while (line != NULL && *line != '\0') {
		size_t size = strcspn(line, "\n");

		for (size_t i = 0; i < 2; i++)
			if (strncmp(line, names[i], strlen(names[i])) == 0)
				copy_clean(host->way, sizeof host->way, line, size);
		line += size + (line[size] != '\0');
	}
}

/* What follows the marker; NULL and the reason if the shell of the host printed something else. */
static const char *
after_marker(const struct ssh_cloud *cloud, const struct ssh_host *host,
    const struct espl_child *child, const char *marker, enum ssh_failure *failure,
    char text[SSH_TEXT])
{
	const char *out = child->out != NULL ? child->out : "";
	char line[120];

	*failure = SSH_UNFIT;
	if (child->status == ESPL_OK && strncmp(out, marker, strlen(marker)) == 0)
		return out + strlen(marker);
	if (child->status != ESPL_OK || strstr(out, marker) == NULL) {
		*failure = explain_failure(cloud, host, child, text);
		return NULL;
	}
	copy_clean(line, sizeof line, out, strcspn(out, "\n"));
	(void)snprintf(text, SSH_TEXT,
	    "its login shell prints '%s' before a command runs, which mixes with espalier's "
	    "messages; let it print only in interactive shells",
	    line);
	return NULL;
}

struct found {
	char machine[40], agent[120], driver[40];
	unsigned gpus;
	long long disk_kb;
	int ended;
};

/* "gpu UUID, DRIVER": the first ones become the devices of the host's agent. */
static int
take_gpu(struct ssh_host *host, struct found *found, const char *line, size_t size)
{
	const char *comma = memchr(line, ',', size);
	size_t uuid = comma != NULL ? (size_t)(comma - line) : size;
	size_t have = host->devices != NULL ? strlen(host->devices) : 0;
	char *more;

	if (comma != NULL && comma + 2 < line + size)
		copy_clean(found->driver, sizeof found->driver, comma + 2, size - uuid - 2);
	if (found->gpus++ >= ssh_gpus(host))
		return 0;
	more = realloc(host->devices, have + uuid + 2);
	if (more == NULL)
		return -1;
	host->devices = more;
	if (have > 0)
		more[have++] = ',';
	copy_clean(more + have, uuid + 1, line, uuid);
	return 0;
}

static int
take_line(struct ssh_host *host, struct found *found, const char *line, size_t size)
{
	static const char *const words[] = { "machine ", "address ", "gpu ", "disk ", "lock ",
		"lockless ", "agent ", "end" };
	const size_t count = sizeof words / sizeof words[0];
	size_t which = 0, skip;

	while (which < count && strncmp(line, words[which], strlen(words[which])) != 0)
		which++;
	if (which == count)
		return 0;
	skip = strlen(words[which]);
	if (skip > size)
		return 0;
	line += skip;
	size -= skip;
	switch (which) {
	case 0: copy_clean(found->machine, sizeof found->machine, line, size); break;
	case 1: copy_clean(host->address, sizeof host->address, line, size); break;
	case 2: return take_gpu(host, found, line, size);
	case 3: found->disk_kb = strtoll(line, NULL, 10); break;
	case 4: copy_clean(host->lock, sizeof host->lock, line, size); break;
	case 5: copy_clean(host->lockless, sizeof host->lockless, line, size); break;
	case 6: copy_clean(found->agent, sizeof found->agent, line, size); break;
	default: found->ended = 1; break;
	}
	return 0;
}

static int
set_slots(struct ssh_host *host)
{
	free(host->devices);
	if (asprintf(&host->devices, "cpu:%u", ssh_gpus(host)) < 0)
		host->devices = NULL;
	return host->devices != NULL ? 0 : -1;
}

/* Is the host of use, as far as its answer tells? */
static int
judge_host(const struct ssh_cloud *cloud, const struct ssh_host *host, const struct found *found,
    char text[SSH_TEXT])
{
	const struct espl_value *agent = &cloud->config->values[SSH_OPT_AGENT];
	int slots = strcmp(host->row[SSH_COL_TYPE].as.s, "cpu") == 0;

	if (!found->ended)
		(void)snprintf(text, SSH_TEXT, "its answer is not complete");
	else if (!slots && found->gpus < ssh_gpus(host))
		(void)snprintf(text, SSH_TEXT,
		    "nvidia-smi finds %u GPUs there, but gpus = %u; for slots on its cores set "
		    "gpu_type = \"cpu\"",
		    found->gpus, ssh_gpus(host));
	else if (found->agent[0] == '\0' && agent->source != ESPL_UNSET)
		(void)snprintf(text, SSH_TEXT,
		    "there is no espalier-agent at '%.200s' (cloud.agent)", agent->as.s);
	else if (agent->source != ESPL_UNSET && strncmp(found->agent, "espalier-agent ", 15) != 0)
		(void)snprintf(text, SSH_TEXT, "its espalier-agent does not run there: %s",
		    found->agent);
	else
		return 0;
	return -1;
}

enum ssh_failure
cloud_ssh_answer_probe(const struct ssh_cloud *cloud, struct ssh_host *host,
    const struct espl_child *child, char text[SSH_TEXT])
{
	enum ssh_failure failure;
	const char *line = after_marker(cloud, host, child, "espalier-probe\n", &failure, text);
	struct found found = { .disk_kb = -1 };
	char disk[40] = "free space at home unknown";
	int failed = 0;

	if (line == NULL)
		return failure;
	free(host->devices); /* of an earlier probe */
	host->devices = NULL;
	host->lock[0] = host->lockless[0] = '\0';
	while (*line != '\0' && !failed) {
		size_t size = strcspn(line, "\n");

		failed = take_line(host, &found, line, size) != 0;
		line += size + (line[size] != '\0');
	}
	if (strcmp(host->row[SSH_COL_TYPE].as.s, "cpu") == 0)
		failed |= set_slots(host) != 0;
	if (failed) {
		(void)snprintf(text, SSH_TEXT, "out of memory");
		return SSH_UNFIT;
	}
	if (judge_host(cloud, host, &found, text) != 0)
		return found.ended ? SSH_UNFIT : SSH_SILENT;
	if (found.disk_kb >= 0)
		(void)snprintf(disk, sizeof disk, "%.1f GB free at home",
		    (double)found.disk_kb * 1024 / 1e9);
	(void)snprintf(text, SSH_TEXT, "%s, %u GPUs%s%s, %s, %s", found.machine, found.gpus,
	    found.driver[0] != '\0' ? " with driver " : "", found.driver, disk,
	    strncmp(found.agent, "espalier-agent ", 15) == 0 ? found.agent
							     : "no espalier-agent: it is sent");
	return 0;
}

int
cloud_ssh_answer_route(const struct espl_child *child, char text[SSH_TEXT])
{
	const char *shut = child->status == ESPL_OK && child->out != NULL
	    ? strstr(child->out, "espalier-route\nshut ")
	    : NULL;

	if (shut == NULL)
		return 0;
	shut = strstr(shut, "shut ") + 5;
	copy_clean(text, SSH_TEXT, shut, strcspn(shut, "\n"));
	return -1;
}

/* Does this run itself hold the host that the holder's line is of?  Its first word is the token of
 * a lease, espl-RUN-LEASE. */
static const struct ssh_host *
find_holder(const struct ssh_cloud *cloud, const char *holder)
{
	size_t size = strcspn(holder, ", ");

	for (uint32_t i = 0; i < cloud->count; i++) {
		const struct ssh_host *host = &cloud->hosts[i];

		if (ssh_is_leased(host) && strlen(host->lease->lease.token) == size &&
		    memcmp(host->lease->lease.token, holder, size) == 0)
			return host;
	}
	return NULL;
}

enum ssh_failure
cloud_ssh_answer_look(const struct ssh_cloud *cloud, const struct ssh_host *host,
    const struct espl_child *child, int *used, char text[SSH_TEXT])
{
	enum ssh_failure failure;
	const char *line = after_marker(cloud, host, child, "espalier-look\n", &failure, text);
	const struct ssh_host *same;
	char holder[300];

	*used = 0;
	if (line == NULL)
		return failure;
	if (strncmp(line, "free\n", 5) == 0)
		return 0;
	if (strncmp(line, "used ", 5) != 0)
		return explain_failure(cloud, host, child, text);
	copy_clean(holder, sizeof holder, line + 5, strcspn(line + 5, "\n"));
	same = find_holder(cloud, holder);
	*used = same == NULL;
	if (same == NULL)
		(void)snprintf(text, SSH_TEXT, "it is used by %s", holder);
	else
		(void)snprintf(text, SSH_TEXT,
		    "this run uses it already, as host '%.80s': both share their name and home, or "
		    "are one machine; list it once, or give each a name or home of its own",
		    ssh_name(same));
	return SSH_UNFIT;
}
