/* cloud_aws_hostkey.c - the ssh host key of each machine, known before the machine is there.
 *
 * ssh-keygen generates the key, user data passes it to the machine (cloud-init, ssh_keys), and ssh
 * accepts no other, so an attacker on the network cannot impersonate the machine. The public key is
 * recorded in RUN/aws. The private key stays in RUN/aws.keys until the id of the machine is known
 * and saved, because a repeated request must be identical; without it the machine is looked for in
 * listings. A token first sent without a key stays without one.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cloud_aws.h"

#define PATH 4300

/* "": the folder of all keys. */
static void
name_key(const struct aws_cloud *cloud, const char *token, const char *more, char path[PATH])
{
	(void)snprintf(path, PATH, "%.4100s/aws.keys/%.64s%s", cloud_aws_record_folder(cloud),
	    token, more);
}

int
cloud_aws_hostkey_pinned(const struct aws_cloud *cloud, const char *token)
{
	return cloud->run != NULL && cloud_aws_record_get(cloud, "host_key", token) != NULL;
}

int
cloud_aws_hostkey_due(const struct aws_cloud *cloud, const char *token)
{
	char path[PATH];

	if (cloud->run == NULL || cloud->visit != NULL ||
	    aws_number(cloud, AWS_OPT_HOST_KEY) != 0 ||
	    cloud_aws_record_get(cloud, "token", token) != NULL)
		return 0;
	name_key(cloud, token, "", path);
	return !cloud_aws_hostkey_pinned(cloud, token) || access(path, R_OK) != 0;
}

/* ---- a key is made ---- */

enum aws_class
cloud_aws_hostkey_make(struct aws_cloud *cloud, const char *token, uint64_t cookie,
    char text[AWS_TEXT])
{
	char folder[PATH], path[PATH];
	const char *words[] = { "ssh-keygen", "-q", "-t", "ed25519", "-C", "", "-N", "", "-f",
		path };
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);
	struct espl_error error = ESPL_INIT(struct espl_error);

	name_key(cloud, "", "", folder);
	name_key(cloud, token, "", path);
	if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
		(void)snprintf(text, AWS_TEXT, "cannot create %.400s: %s", folder, strerror(errno));
		return AWS_AGAIN;
	}
	cloud_aws_hostkey_forget(cloud, token); /* one that a crash has left was not sent */
	spawn.argc = sizeof words / sizeof words[0];
	spawn.argv = words;
	spawn.limit = 20 * ESPL_SECOND;
	spawn.cookie = cookie;
	if (cloud->io->spawn(cloud->io, &spawn, &error) == ESPL_OK)
		return AWS_FINE;
	(void)snprintf(text, AWS_TEXT, "cannot run ssh-keygen: %.400s", error.text);
	return AWS_AGAIN;
}

/* -1: it cannot be written to disk. */
static int
sync_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), failed;

	if (fd < 0)
		return -1;
	failed = fsync(fd) != 0 && errno != EINVAL; /* EINVAL: not on this file system */
	(void)close(fd);
	return failed ? -1 : 0;
}

/* "ssh-ed25519 ..."; -1: the file has no such key. */
static int
read_public(const char *path, char key[120])
{
	FILE *from = fopen(path, "re");
	char line[400], body[100];
	int found = from != NULL && fgets(line, sizeof line, from) != NULL &&
	    sscanf(line, "ssh-ed25519 %99s", body) == 1;

	if (from != NULL)
		(void)fclose(from);
	if (!found)
		return -1;
	(void)snprintf(key, 120, "ssh-ed25519 %s", body);
	return 0;
}

enum aws_class
cloud_aws_hostkey_take(struct aws_cloud *cloud, const char *token, const struct espl_child *child,
    char text[AWS_TEXT])
{
	const char *why = child->err != NULL ? child->err : "";
	char folder[PATH], path[PATH], public[PATH], key[120];

	name_key(cloud, "", "", folder);
	name_key(cloud, token, "", path);
	name_key(cloud, token, ".pub", public);
	if (child->status != ESPL_OK || child->exit_code != 0 || read_public(public, key) != 0) {
		(void)snprintf(text, AWS_TEXT,
		    "ssh-keygen has not made the ssh host key of a machine: %.*s",
		    (int)strcspn(why, "\r\n"), why);
		return child->status == ESPL_E_LIMIT || child->exit_code < 0 ? AWS_AGAIN
									     : AWS_REFUSED;
	}
	if (sync_path(path) != 0 || sync_path(folder) != 0 || sync_path(cloud->run->folder) != 0) {
		(void)snprintf(text, AWS_TEXT, "cannot write %.400s: %s", path, strerror(errno));
		return AWS_AGAIN;
	}
	return cloud_aws_record_put(cloud, "host_key", token, key, text) == 0 ? AWS_FINE
									      : AWS_AGAIN;
}

/* The driver of the run may, and a visitor only while the run does not run. */
static int
may_remove(const struct aws_cloud *cloud)
{
	const struct espl_visit *visit = cloud->visit;

	if (visit == NULL)
		return cloud->run != NULL;
	return visit->folder != NULL &&
	    visit->size >= offsetof(struct espl_visit, idle) + sizeof visit->idle &&
	    visit->idle != 0;
}

void
cloud_aws_hostkey_forget(const struct aws_cloud *cloud, const char *token)
{
	char path[PATH];

	if (!may_remove(cloud))
		return;
	name_key(cloud, token, "", path);
	(void)unlink(path);
	name_key(cloud, token, ".pub", path);
	(void)unlink(path);
}

void
cloud_aws_hostkey_forget_all(const struct aws_cloud *cloud)
{
	char path[PATH];
	const struct dirent *entry;
	DIR *list;

	if (!may_remove(cloud))
		return;
	name_key(cloud, "", "", path);
	list = opendir(path);
	while (list != NULL && (entry = readdir(list)) != NULL)
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(list), entry->d_name, 0);
	if (list != NULL)
		(void)closedir(list);
	(void)rmdir(path);
}

/* ---- what it is for ---- */

/* The lines of a file, each after this indent; -1: it cannot be read, or is empty. */
static int
copy_indented(const char *path, const char *indent, FILE *to)
{
	FILE *from = fopen(path, "re");
	char line[200];
	int lines = 0, failed;

	if (from == NULL)
		return -1;
	for (; fgets(line, sizeof line, from) != NULL; lines++)
		(void)fprintf(to, "%s%.*s\n", indent, (int)strcspn(line, "\n"), line);
	failed = ferror(from) || lines == 0;
	(void)fclose(from);
	return failed ? -1 : 0;
}

char *
cloud_aws_hostkey_user_data(const struct aws_cloud *cloud, const char *token)
{
	const char *public = cloud_aws_record_get(cloud, "host_key", token);
	char path[PATH], *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	int failed;

	if (to == NULL)
		return NULL;
	name_key(cloud, token, "", path);
	(void)fputs("Content-Type: multipart/mixed; boundary=\"==espalier==\"\n"
		    "MIME-Version: 1.0\n\n--==espalier==\n"
		    "Content-Type: text/cloud-config; charset=\"us-ascii\"\n\n"
		    "#cloud-config\nssh_deletekeys: true\nssh_keys:\n  ed25519_private: |\n",
	    to);
	failed = copy_indented(path, "    ", to) != 0;
	(void)fprintf(to,
	    "  ed25519_public: %s\n\n--==espalier==\n"
	    "Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n%s\n--==espalier==--\n",
	    public, cloud->user_data);
	failed |= ferror(to);
	if (fclose(to) == 0 && !failed)
		return text;
	free(text);
	return NULL;
}

/* A line of known_hosts; there may be others. */
static int
has_line(const char *path, const char *line)
{
	FILE *from = fopen(path, "re");
	char *text = NULL;
	size_t room = 0;
	int found = 0;

	while (from != NULL && !found && getline(&text, &room, from) > 0)
		found = strcmp(text, line) == 0;
	free(text);
	if (from != NULL)
		(void)fclose(from);
	return found;
}

espl_status
cloud_aws_hostkey_pin(const struct aws_cloud *cloud, const char *token, struct espl_error *error)
{
	char path[PATH], line[300];
	FILE *to;
	int failed;

	(void)snprintf(path, sizeof path, "%.4200s/known_hosts", cloud->run->folder);
	(void)snprintf(line, sizeof line, "%.64s %.120s\n", token,
	    cloud_aws_record_get(cloud, "host_key", token));
	if (has_line(path, line))
		return ESPL_OK;
	to = fopen(path, "ae");
	failed = to == NULL || fputs(line, to) < 0;
	if (to != NULL && fclose(to) != 0)
		failed = 1;
	return failed
	    ? espl_fail(error, ESPL_E_REMOTE, "cannot write %.150s: %s", path, strerror(errno))
	    : ESPL_OK;
}

int
cloud_aws_hostkey_refused(const struct espl_child *child)
{
	static const char refused[] = "Host key verification failed.";
	const char *err = child->err != NULL ? (const char *)child->err : "";
	size_t size = strlen(err), least = sizeof refused - 1;

	while (size > 0 && strchr("\r\n ", err[size - 1]) != NULL)
		size--;
	/* the last line: that of a jump host's key is followed by another */
	return child->status == ESPL_OK && child->exit_code == 255 && size >= least &&
	    strncmp(err + size - least, refused, least) == 0;
}
