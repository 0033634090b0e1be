/* aws_keys.c - the order is that of the AWS CLI: environment, a role or single sign-on, static
 * keys, credential_process, the machine's role.  Profiles are read here; what takes requests of
 * its own is left to the AWS CLI. */
#include "real/aws_keys.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/assert.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#define FILE_MAX (1u << 20)

/* What the two files say of one profile. */
struct profile {
	char *id, *secret, *token, *process;
	int roles; /* it takes a role, or single sign-on */
	int found;
};

static const char *
get_set(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

static void
free_profile(struct profile *profile)
{
	struct espl__aws_keys keys = { profile->id, profile->secret, profile->token, 0 };

	espl__aws_keys_clear(&keys);
	free(profile->process);
}

static void
set_once(char **to, const char *value)
{
	if (*to == NULL && value[0] != '\0')
		*to = espl__strdup(value);
}

static void
take_setting(struct profile *profile, const char *name, const char *value)
{
	if (strcmp(name, "aws_access_key_id") == 0)
		set_once(&profile->id, value);
	else if (strcmp(name, "aws_secret_access_key") == 0)
		set_once(&profile->secret, value);
	else if (strcmp(name, "aws_session_token") == 0)
		set_once(&profile->token, value);
	else if (strcmp(name, "credential_process") == 0)
		set_once(&profile->process, value);
	else if (strcmp(name, "role_arn") == 0 || strncmp(name, "sso_", 4) == 0 ||
	    strcmp(name, "login_session") == 0)
		profile->roles = 1;
}

static char *
trim_text(char *text)
{
	size_t size;

	text += strspn(text, " \t\r");
	size = strlen(text);
	while (size > 0 && strchr(" \t\r", text[size - 1]) != NULL)
		text[--size] = '\0';
	return text;
}

/* "[NAME]", in the config file "[profile NAME]" except for "default". */
static int
names_profile(char *line, const char *name, int is_config)
{
	char *end = strchr(line, ']');

	if (end == NULL)
		return 0;
	*end = '\0';
	line = trim_text(line + 1);
	if (strcmp(line, name) == 0)
		return !is_config || strcmp(name, "default") == 0;
	if (!is_config || strncmp(line, "profile", 7) != 0 || strchr(" \t", line[7]) == NULL)
		return 0;
	return strcmp(trim_text(line + 7), name) == 0;
}

static void
scan_profile(char *text, const char *name, int is_config, struct profile *profile)
{
	char *line, *rest = NULL, *equals;
	int here = 0;

	for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
		if (line[0] == '[') {
			here = names_profile(line, name, is_config);
			profile->found |= here;
		} else if (here && strchr("#; \t", line[0]) == NULL &&
		    (equals = strchr(line, '=')) != NULL) {
			*equals = '\0';
			take_setting(profile, trim_text(line), trim_text(equals + 1));
		}
	}
}

/* A file that does not exist says nothing. */
static espl_status
read_profile(const char *variable, const char *standard, const char *name, int is_config,
    struct profile *profile, struct espl_error *error)
{
	const char *named = get_set(variable), *home = get_set("HOME");
	struct espl__buf text = { 0 };
	espl_status status = ESPL_OK;
	char *path;

	if (named == NULL && home == NULL)
		return ESPL_OK;
	path = named != NULL ? espl__strdup(named) : espl__format("%s/.aws/%s", home, standard);
	if (access(path, F_OK) == 0) {
		if (espl__file_read(path, FILE_MAX, &text, NULL) != ESPL_OK)
			status = espl_fail(error, ESPL_E_CONFIG,
			    "cannot read '%s' for the keys of AWS", path);
		(void)espl__buf_text(&text);
		scan_profile((char *)text.data, name, is_config, profile);
	}
	espl__buf_free(&text);
	free(path);
	return status;
}

static void
move_keys(struct profile *from, struct espl__aws_keys *keys)
{
	*keys = (struct espl__aws_keys){ from->id, from->secret, from->token, INT64_MAX };
	from->id = from->secret = from->token = NULL;
}

/* The name in single quotes, for a shell. */
static char *
quote_name(const char *name)
{
	struct espl__buf out = { 0 };
	char *text;

	espl__put_u8(&out, '\'');
	for (; *name != '\0'; name++) {
		if (*name == '\'')
			espl__print(&out, "'\\''");
		else
			espl__put_u8(&out, (uint8_t)*name);
	}
	espl__put_u8(&out, '\'');
	text = espl__strdup(espl__buf_text(&out));
	espl__buf_free(&out);
	return text;
}

espl_status
espl__aws_keys_find(const char *profile, struct espl__aws_keys *keys, char **command,
    struct espl_error *error)
{
	struct profile has = { 0 };
	espl_status status;
	char *quoted;

	ESPL__ASSERT(keys->id == NULL && keys->secret == NULL);
	*command = NULL;
	if (profile == NULL && get_set("AWS_ACCESS_KEY_ID") && get_set("AWS_SECRET_ACCESS_KEY")) {
		take_setting(&has, "aws_access_key_id", getenv("AWS_ACCESS_KEY_ID"));
		take_setting(&has, "aws_secret_access_key", getenv("AWS_SECRET_ACCESS_KEY"));
		if (get_set("AWS_SESSION_TOKEN"))
			take_setting(&has, "aws_session_token", getenv("AWS_SESSION_TOKEN"));
		move_keys(&has, keys);
		return ESPL_OK;
	}
	if (profile == NULL)
		profile = get_set("AWS_PROFILE");
	if (profile == NULL)
		profile = get_set("AWS_DEFAULT_PROFILE");
	if (profile == NULL)
		profile = "default";
	status =
	    read_profile("AWS_SHARED_CREDENTIALS_FILE", "credentials", profile, 0, &has, error);
	if (status == ESPL_OK)
		status = read_profile("AWS_CONFIG_FILE", "config", profile, 1, &has, error);
	if (status != ESPL_OK) {
		free_profile(&has);
		return status;
	}
	if (!has.found && strcmp(profile, "default") != 0) {
		free_profile(&has);
		return espl_fail(error, ESPL_E_CONFIG,
		    "AWS profile '%s' is in neither ~/.aws/credentials nor ~/.aws/config", profile);
	}
	if (!has.roles && has.id != NULL && has.secret != NULL) {
		move_keys(&has, keys);
	} else if (!has.roles && has.process != NULL) {
		*command = has.process;
		has.process = NULL;
		status = ESPL_E_BUSY;
	} else {
		quoted = quote_name(profile);
		*command = has.found
		    ? espl__format("aws configure export-credentials --format process --profile %s",
			  quoted)
		    : espl__strdup("aws configure export-credentials --format process");
		free(quoted);
		status = ESPL_E_BUSY;
	}
	free_profile(&has);
	return status;
}

/* "2026-01-02T03:04:05Z", also with a fraction or +00:00; -1: none of these. */
static int64_t
parse_time(const char *text)
{
	struct tm when = { 0 };
	int used = 0;

	if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d%n", &when.tm_year, &when.tm_mon, &when.tm_mday,
		&when.tm_hour, &when.tm_min, &when.tm_sec, &used) != 6)
		return -1;
	text += used;
	if (*text == '.')
		text += 1 + strspn(text + 1, "0123456789");
	if (strcmp(text, "Z") != 0 && strcmp(text, "+00:00") != 0)
		return -1;
	when.tm_year -= 1900;
	when.tm_mon -= 1;
	return (int64_t)timegm(&when);
}

espl_status
espl__aws_keys_parse(const void *bytes, size_t size, struct espl__aws_keys *keys,
    struct espl_error *error)
{
	json_t *json = json_loadb(bytes, size, 0, NULL);
	const char *id = json_string_value(json_object_get(json, "AccessKeyId"));
	const char *secret = json_string_value(json_object_get(json, "SecretAccessKey"));
	const char *token = json_string_value(json_object_get(json, "SessionToken"));
	const char *ends = json_string_value(json_object_get(json, "Expiration"));
	int64_t until = ends != NULL ? parse_time(ends) : INT64_MAX;
	espl_status status = ESPL_OK;

	ESPL__ASSERT(keys->id == NULL && keys->secret == NULL);
	if (json_integer_value(json_object_get(json, "Version")) != 1)
		status = espl_fail(error, ESPL_E_CONFIG,
		    "it printed no JSON object with \"Version\": 1");
	else if (id == NULL || secret == NULL)
		status = espl_fail(error, ESPL_E_CONFIG,
		    "it printed no \"AccessKeyId\" or no \"SecretAccessKey\"");
	else if (until < 0)
		status = espl_fail(error, ESPL_E_CONFIG,
		    "its \"Expiration\" is not a time such as 2026-01-02T03:04:05Z");
	else
		*keys = (struct espl__aws_keys){ espl__strdup(id), espl__strdup(secret),
			token != NULL ? espl__strdup(token) : NULL, until };
	json_decref(json);
	return status;
}
