/* cloud_aws_record.c - what must be the same in every process of a run: RUN/aws, lines that are
 * only added to.
 *
 * EC2 answers a repeated request with the same machine only if all of it is the same, for a day and
 * in one subnet; and only the same account and region show the machines of a run.
 */
#include <ctype.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cloud_aws.h"

static void
name_file(const struct aws_cloud *cloud, char path[4200])
{
	(void)snprintf(path, 4200, "%s/aws", cloud->run->folder);
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
	if (cloud->run == NULL) /* `check` */
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
	if (cloud->run != NULL) {
		name_file(cloud, path);
		file = fopen(path, "a");
		failed = file == NULL ||
		    fprintf(file, "%s%s\t%s\t%s\n", cloud->cut ? "\n" : "", kind, key, value) < 0 ||
		    fflush(file) != 0 || fsync(fileno(file)) != 0;
		if (file != NULL && fclose(file) != 0)
			failed = 1;
		if (failed) {
			(void)snprintf(text, AWS_TEXT, "cannot write %.400s: %s", path,
			    strerror(errno));
			return -1;
		}
		cloud->cut = 0;
	}
	if (keep_line(cloud, kind, key, value) == 0)
		return 0;
	(void)snprintf(text, AWS_TEXT, "out of memory");
	return -1;
}

void
cloud_aws_record_driver(const struct aws_cloud *cloud, char name[AWS_DRIVER])
{
	const struct passwd *user = getpwuid(getuid());
	char host[80] = "";

	(void)gethostname(host, sizeof host - 1);
	(void)snprintf(name, AWS_DRIVER, "%.40s@%s:%s", user != NULL ? user->pw_name : "", host,
	    cloud->run != NULL ? cloud->run->folder : "");
	for (char *at = name; *at != '\0'; at++) /* what the value of a tag may hold */
		if (!isalnum((unsigned char)*at) && strchr("+-=._:/@", *at) == NULL)
			*at = '_';
}
