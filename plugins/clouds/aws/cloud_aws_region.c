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

/* "[KIND NAME]", or "[NAME]" of a profile */
static int
names_section(char *line, const char *kind, const char *name)
{
	char *end = strchr(line, ']');
	size_t size = strlen(kind);
	int bare = strcmp(kind, "profile") == 0;

	if (end == NULL)
		return 0;
	*end = '\0';
	line = trim_text(line + 1);
	if (strncmp(line, kind, size) == 0 && isspace((unsigned char)line[size]))
		line = trim_text(line + size);
	else if (!bare)
		return 0;
	return strcmp(line, name) == 0;
}

/* "NAME = VALUE": the value; NULL: it is another setting. */
static const char *
read_value(char *line, const char *name)
{
	char *equals = strchr(line, '=');

	if (equals == NULL)
		return NULL;
	*equals = '\0';
	return strcmp(trim_text(line), name) == 0 ? trim_text(equals + 1) : NULL;
}

/* A setting of a section of the config file; `outer`: one of the indented settings below that name,
 * or NULL.  "": it is not set. */
static void
read_setting(const char *kind, const char *section, const char *outer, const char *name, char *to,
    size_t room)
{
	const char *file = get_set("AWS_CONFIG_FILE"), *home = get_set("HOME"), *value;
	char path[4200], *line = NULL;
	size_t size = 0;
	int here = 0, inside = 0;
	FILE *from;

	to[0] = '\0';
	if (file == NULL && home == NULL)
		return;
	(void)snprintf(path, sizeof path, "%s%s", file != NULL ? file : home,
	    file != NULL ? "" : "/.aws/config");
	from = fopen(path, "r");
	while (from != NULL && to[0] == '\0' && getline(&line, &size, from) > 0) {
		int indented = isspace((unsigned char)line[0]) != 0;

		if (line[0] == '[') {
			here = names_section(line, kind, section);
			inside = 0;
		} else if (here && !indented && outer != NULL) {
			inside = read_value(line, outer) != NULL;
		} else if (here && indented == (outer != NULL) && (!indented || inside)) {
			value = read_value(line, name);
			if (value != NULL)
				(void)snprintf(to, room, "%s", value);
		}
	}
	free(line);
	if (from != NULL)
		(void)fclose(from);
}

/* Of the profile, from the config file; "": it does not say. */
static void
read_profile(const struct aws_cloud *cloud, const char *name, char *to, size_t room)
{
	const char *profile = aws_text(cloud, AWS_OPT_PROFILE);

	if (profile[0] == '\0')
		profile = get_set("AWS_PROFILE");
	if (profile == NULL)
		profile = get_set("AWS_DEFAULT_PROFILE");
	if (profile == NULL)
		profile = "default";
	read_setting("profile", profile, NULL, name, to, room);
}

/* A run stays in the region in which it began; what it has recorded was read. */
void
cloud_aws_region_find(struct aws_cloud *cloud)
{
	const char *region = aws_text(cloud, AWS_OPT_REGION);

	if (region[0] == '\0')
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

/* Of "ec2", "sts", "ssm" or "servicequotas"; "": AWS itself. */
void
cloud_aws_region_endpoint(const struct aws_cloud *cloud, const char *service, char to[400])
{
	const char *ignored = get_set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), *url;
	char name[40], section[80];
	size_t size;

	if (strcmp(service, "servicequotas") == 0)
		service = "service_quotas";
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
	if (url != NULL) {
		(void)snprintf(to, 399, "%.390s", url);
	} else {
		read_profile(cloud, "services", section, sizeof section);
		read_setting("services", section, service, "endpoint_url", to, 399);
		if (to[0] == '\0')
			read_profile(cloud, "endpoint_url", to, 399);
	}
	size = strlen(to);
	if (size > 0 && to[size - 1] != '/')
		memcpy(to + size, "/", 2);
}
