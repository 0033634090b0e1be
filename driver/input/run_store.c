/* run_store.c - the group `store`: a bucket for checkpoints instead of what espalier finds out. */
#include <string.h>

#include "base/assert.h"
#include "input/run_groups.h"

const struct espl_option espl__store_options[STORE_COLLECT + 1] = {
	[STORE_USE] = { .name = "use",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "auto|s3",
	    .fallback = "auto",
	    .help =
		"auto: the run directory; nodes that do not see it send over the connection. s3: "
		"a bucket of Amazon S3 or of a compatible store, for all nodes." },
	[STORE_BUCKET] = { .name = "bucket",
	    .type = ESPL_OPT_STRING,
	    .help = "Name of the bucket. It must exist." },
	[STORE_PREFIX] = { .name = "prefix",
	    .type = ESPL_OPT_STRING,
	    .fallback = "espalier",
	    .help = "Everything is kept below this name in the bucket, in a directory for each "
		    "run." },
	[STORE_REGION] = { .name = "region",
	    .type = ESPL_OPT_STRING,
	    .help = "Region of the bucket. Default: AWS_REGION, or else AWS_DEFAULT_REGION." },
	[STORE_ENDPOINT] = { .name = "endpoint",
	    .type = ESPL_OPT_STRING,
	    .help = "URL of a compatible store, such as \"https://minio.example:9000\"; the bucket "
		    "is part of the path. Default: Amazon S3 in the region." },
	[STORE_PROFILE] = { .name = "profile",
	    .type = ESPL_OPT_STRING,
	    .help = "Profile in ~/.aws that contains the keys. Default: the keys that the AWS CLI "
		    "would use." },
	[STORE_OWNER] = { .name = "owner",
	    .type = ESPL_OPT_STRING,
	    .help = "ID of the AWS account that the bucket must belong to. Default: any." },
	[STORE_PART] = { .name = "part_mb",
	    .type = ESPL_OPT_INT,
	    .fallback = "16",
	    .min = "5",
	    .max = "5000",
	    .help = "Checkpoints above this size are sent in parts of it, in MiB. A node holds up "
		    "to four parts in memory." },
	[STORE_CHECKSUMS] = { .name = "checksums",
	    .type = ESPL_OPT_BOOL,
	    .fallback = "true",
	    .help = "Send CRC-32C checksums for the store to verify; false: for compatible stores "
		    "that refuse them. espalier verifies its own in any case." },
	[STORE_COLLECT] = { .name = "collect",
	    .type = ESPL_OPT_CHOICE,
	    .choices = "all|best",
	    .fallback = "all",
	    .help = "Which checkpoints are fetched into the run directory at the end, and removed "
		    "from the bucket: all that the run keeps, or that of the best trial. The "
		    "others stay in the bucket." },
};

#define PREFIX "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.=-"

static espl_status
refuse_store(const struct espl__values *values, uint32_t option, struct espl__diag *diag,
    const char *text, const char *hint)
{
	espl__fail_at(diag, ESPL_E_CONFIG, values->files[option],
	    values->config.values[option].line, "%s", text);
	espl__hint(diag, "%s", hint);
	return ESPL_E_CONFIG;
}

static int
is_bucket(const char *name)
{
	size_t size = strlen(name);

	return size >= 3 && size <= 63 &&
	    strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-_ABCDEFGHIJKLMNOPQRSTUVWXYZ") ==
	    size;
}

static espl_status
check_store(const struct espl__run_config *config, struct espl__diag *diag)
{
	const struct espl__values *values = config->store_values;
	const char *end = config->s3_endpoint, *prefix = config->s3_prefix;

	if (config->s3_bucket == NULL)
		return refuse_store(values, STORE_USE, diag, "store: 'bucket' is missing",
		    "store = { use = \"s3\"; bucket = \"NAME\"; region = \"us-east-1\"; };");
	if (!is_bucket(config->s3_bucket))
		return refuse_store(values, STORE_BUCKET, diag,
		    "store: 'bucket' is not the name of a bucket",
		    "use 3 to 63 letters, digits, dots and hyphens, without \"s3://\"");
	if (prefix[0] == '\0' || prefix[0] == '/' || prefix[strlen(prefix) - 1] == '/' ||
	    strstr(prefix, "//") != NULL || strspn(prefix, PREFIX) != strlen(prefix) ||
	    strlen(prefix) > 500)
		return refuse_store(values, STORE_PREFIX, diag,
		    "store: 'prefix' must be a name of letters, digits, '/', '_', '.', '=' and '-'",
		    "for example prefix = \"team/espalier\", without '/' at its ends");
	if (end != NULL &&
	    ((strncmp(end, "https://", 8) != 0 && strncmp(end, "http://", 7) != 0) ||
		strpbrk(end, "?#@ ") != NULL || end[strlen(end) - 1] == '/'))
		return refuse_store(values, STORE_ENDPOINT, diag,
		    "store: 'endpoint' must be a URL without '/' at its end",
		    "for example endpoint = \"https://minio.example:9000\"");
	return ESPL_OK;
}

static const char *
text_of(const struct espl__values *values, uint32_t option)
{
	const struct espl_value *value = &values->config.values[option];

	return value->source == ESPL_UNSET || value->as.s[0] == '\0' ? NULL : value->as.s;
}

espl_status
espl__run_read_store(struct espl__run_config *config, struct espl__diag *diag)
{
	const struct espl__node *group = espl__node_get(espl__tree_root(config->tree), "store");
	const struct espl__values *values;
	espl_status status;

	ESPL__CHECK(config, RUN_CONFIG);
	if (group == NULL)
		return ESPL_OK;
	if (group->type != ESPL__GROUP) {
		espl__fail_at(diag, ESPL_E_CONFIG, group->file, group->line,
		    "'store' must be a group, not %s", espl__node_kind(group));
		espl__hint(diag, "store = { use = \"s3\"; bucket = \"NAME\"; };");
		return ESPL_E_CONFIG;
	}
	status = espl__schema_resolve(espl__store_options, STORE_COLLECT + 1,
	    (uint32_t)sizeof(struct espl_option), group, NULL, "store", "store",
	    &config->store_values, diag);
	if (status != ESPL_OK)
		return status;
	values = config->store_values;
	config->s3 = values->config.values[STORE_USE].as.i == 1;
	if (!config->s3)
		return ESPL_OK;
	config->s3_bucket = text_of(values, STORE_BUCKET);
	config->s3_prefix = values->config.values[STORE_PREFIX].as.s;
	config->s3_region = text_of(values, STORE_REGION);
	config->s3_endpoint = text_of(values, STORE_ENDPOINT);
	config->s3_profile = text_of(values, STORE_PROFILE);
	config->s3_owner = text_of(values, STORE_OWNER);
	config->s3_part = (uint64_t)values->config.values[STORE_PART].as.i << 20;
	config->s3_checksums = values->config.values[STORE_CHECKSUMS].as.i != 0;
	config->s3_best = values->config.values[STORE_COLLECT].as.i == 1;
	return check_store(config, diag);
}
