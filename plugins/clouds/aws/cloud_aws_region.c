/* cloud_aws_region.c - region and endpoints that the configuration does not name: from the
 * environment and the profile, as the AWS CLI finds them.  No keys are read here.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_aws.h"

static const char *
get_set(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

static char *
trim_text(char *text)
{
	size_t size;

	text += strspn(text, " \t\r\n");
	for (size = strlen(text); size > 0 && strchr(" \t\r\n", text[size - 1]) != NULL;)
		text[--size] = '\0';
	return text;
}

/* "[NAME]" or "[profile NAME]" */
static int
names_profile(char *line, const char *profile)
{
	char *end = strchr(line, ']');

	if (end == NULL)
		return 0;
	*end = '\0';
	line = trim_text(line + 1);
	if (strncmp(line, "profile", 7) == 0 && isspace((unsigned char)line[7]))
		line = trim_text(line + 7);
	return strcmp(line, profile) == 0;
}

/* Of the profile, from the config file; "": it does not say. */
static void
read_profile(const struct aws_cloud *cloud, const char *name, char *to, size_t room)
{
	const char *profile = aws_text(cloud, AWS_OPT_PROFILE), *file = get_set("AWS_CONFIG_FILE");
	const char *home = get_set("HOME");
	char path[4200], *line = NULL, *equals;
	size_t size = 0;
	int here = 0;
	FILE *from;

	if (profile[0] == '\0')
		profile = get_set("AWS_PROFILE");
	if (profile == NULL)
		profile = get_set("AWS_DEFAULT_PROFILE");
	if (profile == NULL)
		profile = "default";
	to[0] = '\0';
	if (file == NULL && home == NULL)
		return;
	(void)snprintf(path, sizeof path, "%s%s", file != NULL ? file : home,
	    file != NULL ? "" : "/.aws/config");
	from = fopen(path, "r");
	while (from != NULL && to[0] == '\0' && getline(&line, &size, from) > 0) {
		if (line[0] == '[') {
			here = names_profile(line, profile);
		} else if (here && !isspace((unsigned char)line[0]) &&
		    (equals = strchr(line, '=')) != NULL) {
			*equals = '\0';
			if (strcmp(trim_text(line), name) == 0)
				(void)snprintf(to, room, "%s", trim_text(equals + 1));
		}
	}
	free(line);
	if (from != NULL)
		(void)fclose(from);
}

/* A run stays in the region in which it began. */
void
cloud_aws_region_find(struct aws_cloud *cloud)
{
	const char *region = aws_text(cloud, AWS_OPT_REGION);
	char text[AWS_TEXT];

	if (region[0] == '\0' && cloud_aws_record_read(cloud, text) == 0)
		region = cloud_aws_record_get(cloud, "region", "");
	if (region == NULL || region[0] == '\0')
		region = get_set("AWS_REGION");
	if (region == NULL)
		region = get_set("AWS_DEFAULT_REGION");
	if (region != NULL)
		(void)snprintf(cloud->region, sizeof cloud->region, "%s", region);
	else
		read_profile(cloud, "region", cloud->region, sizeof cloud->region);
}

/* Of "ec2", "sts" or "ssm"; "": AWS itself. */
void
cloud_aws_region_endpoint(const struct aws_cloud *cloud, const char *service, char to[400])
{
	const char *ignored = get_set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), *url;
	char name[40];
	size_t size;

	(void)snprintf(name, sizeof name, "AWS_ENDPOINT_URL_%s", service);
	for (char *at = name; *at != '\0'; at++)
		*at = (char)toupper((unsigned char)*at);
	url = aws_text(cloud, AWS_OPT_ENDPOINT);
	to[0] = '\0';
	if (url[0] == '\0' && ignored != NULL && strcmp(ignored, "true") == 0)
		return;
	if (url[0] == '\0')
		url = get_set(name);
	if (url == NULL)
		url = get_set("AWS_ENDPOINT_URL");
	if (url != NULL)
		(void)snprintf(to, 399, "%.390s", url);
	else
		read_profile(cloud, "endpoint_url", to, 399);
	size = strlen(to);
	if (size > 0 && to[size - 1] != '/')
		memcpy(to + size, "/", 2);
}
