/* cloud_aws_record.c - what must be the same in every process of a run: RUN/aws, lines that are
 * only added to.
 *
 * EC2 answers a repeated request with the same machine only if all of it is the same, for a day and
 * in one subnet; and only the same account and region show the machines of a run.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cloud_aws.h"

const char *
cloud_aws_record_folder(const struct aws_cloud *cloud)
{
	if (cloud->visit != NULL && cloud->visit->folder != NULL)
		return cloud->visit->folder;
	return cloud->run != NULL ? cloud->run->folder : NULL;
}

static void
name_file(const struct aws_cloud *cloud, char path[4200])
{
	(void)snprintf(path, 4200, "%s/aws", cloud_aws_record_folder(cloud));
}

static int
keep_line(struct aws_cloud *cloud, const char *kind, const char *key, const char *value)
{
	struct aws_fact *list = realloc(cloud->facts, (cloud->fact_count + 1) * sizeof *list);
	struct aws_fact fact = { strdup(kind), strdup(key), strdup(value) };

	if (list != NULL)
		cloud->facts = list;
	if (list == NULL || fact.kind == NULL || fact.key == NULL || fact.value == NULL) {
		free(fact.kind);
		free(fact.key);
		free(fact.value);
		return -1;
	}
	list[cloud->fact_count++] = fact;
	return 0;
}

void
cloud_aws_record_free(struct aws_cloud *cloud)
{
	for (uint32_t i = 0; i < cloud->fact_count; i++) {
		free(cloud->facts[i].kind);
		free(cloud->facts[i].key);
		free(cloud->facts[i].value);
	}
	free(cloud->facts);
	cloud->facts = NULL;
	cloud->fact_count = 0;
}

int
cloud_aws_record_read(struct aws_cloud *cloud, char text[AWS_TEXT])
{
	char path[4200], *line = NULL;
	size_t room = 0;
	ssize_t size;
	int failed = 0;
	FILE *file;

	cloud_aws_record_free(cloud);
	if (cloud_aws_record_folder(cloud) == NULL)
		return 0;
	name_file(cloud, path);
	file = fopen(path, "r");
	if (file == NULL && errno == ENOENT)
		return 0;
	while (file != NULL && (size = getline(&line, &room, file)) > 0) {
		char *key = strchr(line, '\t'), *value = key != NULL ? strchr(key + 1, '\t') : NULL;

		cloud->cut = line[size - 1] != '\n';
		if (value == NULL || cloud->cut)
			continue; /* by a crash: what it is about was not done */
		*key = *value = line[size - 1] = '\0';
		failed |= keep_line(cloud, line, key + 1, value + 1);
	}
	failed |= file == NULL || ferror(file);
	if (failed)
		(void)snprintf(text, AWS_TEXT, "cannot read %.400s: %s", path, strerror(errno));
	free(line);
	if (file != NULL)
		(void)fclose(file);
	return failed ? -1 : 0;
}

const char *
cloud_aws_record_get(const struct aws_cloud *cloud, const char *kind, const char *key)
{
	for (uint32_t i = cloud->fact_count; i-- > 0;)
		if (strcmp(cloud->facts[i].kind, kind) == 0 &&
		    strcmp(cloud->facts[i].key, key) == 0)
			return cloud->facts[i].value;
	return NULL;
}

/* A new file is there after a crash only if its folder was written, too. */
static int
sync_folder(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), failed;

	if (fd < 0)
		return -1;
	failed = fsync(fd) != 0 && errno != EINVAL; /* EINVAL: not on this file system */
	(void)close(fd);
	return failed ? -1 : 0;
}

int
cloud_aws_record_put(struct aws_cloud *cloud, const char *kind, const char *key, const char *value,
    char text[AWS_TEXT])
{
	const char *known = cloud_aws_record_get(cloud, kind, key);
	char path[4200] = "";
	FILE *file;
	int failed;

	if (known != NULL && strcmp(known, value) == 0)
		return 0;
	if (cloud->run != NULL && cloud->visit == NULL) {
		name_file(cloud, path);
		file = fopen(path, "a");
		failed = file == NULL ||
		    fprintf(file, "%s%s\t%s\t%s\n", cloud->cut ? "\n" : "", kind, key, value) < 0 ||
		    fflush(file) != 0 || fsync(fileno(file)) != 0;
		if (file != NULL && fclose(file) != 0)
			failed = 1;
		if (!failed && cloud->fact_count == 0)
			failed = sync_folder(cloud->run->folder) != 0;
		if (failed) {
			(void)snprintf(text, AWS_TEXT, "cannot write %.400s: %s", path,
			    strerror(errno));
			cloud->cut = 1; /* a part of the line may be there */
			return -1;
		}
		cloud->cut = 0;
	}
	if (keep_line(cloud, kind, key, value) == 0)
		return 0;
	(void)snprintf(text, AWS_TEXT, "out of memory");
	return -1;
}

/* FNV-1a: different enough for names, and the same in every version. */
static uint64_t
digest_name(const char *name)
{
	uint64_t sum = UINT64_C(14695981039346656037);

	for (; *name != '\0'; name++)
		sum = (sum ^ (unsigned char)*name) * UINT64_C(1099511628211);
	return sum;
}

void
cloud_aws_record_tag(const char *name, char tag[AWS_DRIVER])
{
	int lost = strlen(name) >= AWS_DRIVER;
	char digest[20];

	(void)snprintf(tag, AWS_DRIVER, "%s", name);
	for (char *at = tag; *at != '\0'; at++) /* what the value of a tag may hold */
		if (!isalnum((unsigned char)*at) && strchr("+-=._:/@", *at) == NULL) {
			*at = '_';
			lost = 1;
		}
	if (!lost)
		return;
	(void)snprintf(digest, sizeof digest, ":%016" PRIx64, digest_name(name));
	if (strlen(tag) + strlen(digest) >= AWS_DRIVER)
		tag[AWS_DRIVER - 1 - strlen(digest)] = '\0';
	memcpy(tag + strlen(tag), digest, strlen(digest) + 1);
}

int
cloud_aws_record_driver(struct aws_cloud *cloud)
{
	const struct passwd *user = getpwuid(getuid());
	char host[80] = "";

	free(cloud->driver_name);
	(void)gethostname(host, sizeof host - 1);
	if (asprintf(&cloud->driver_name, "%.40s@%s:%s", user != NULL ? user->pw_name : "", host,
		cloud->run != NULL ? cloud->run->folder : "") < 0) {
		cloud->driver_name = NULL;
		return -1;
	}
	for (char *at = cloud->driver_name; *at != '\0'; at++)
		if (iscntrl((unsigned char)*at)) /* it would end the line of the record */
			*at = '_';
	cloud_aws_record_tag(cloud->driver_name, cloud->driver);
	return 0;
}
