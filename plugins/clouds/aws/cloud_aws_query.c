/* cloud_aws_query.c - requests in the form that EC2 reads, and the script that a machine boots. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_aws.h"

static void
put_bytes(struct aws_query *query, const char *bytes, size_t size)
{
	if (query->failed)
		return;
	if (query->size + size + 1 > query->capacity) {
		size_t capacity = 2 * (query->size + size) + 500;
		char *text = realloc(query->text, capacity);

		if (text == NULL) {
			query->failed = 1;
			return;
		}
		query->text = text;
		query->capacity = capacity;
	}
	memcpy(query->text + query->size, bytes, size);
	query->size += size;
	query->text[query->size] = '\0';
}

static void
put_encoded(struct aws_query *query, const char *text)
{
	static const char plain[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";

	for (; *text != '\0'; text++) {
		char code[4];

		if (strchr(plain, *text) != NULL) {
			put_bytes(query, text, 1);
			continue;
		}
		(void)snprintf(code, sizeof code, "%%%02X", (unsigned)(unsigned char)*text);
		put_bytes(query, code, 3);
	}
}

void
cloud_aws_query_add(struct aws_query *query, const char *value, const char *name, ...)
{
	char key[200];
	va_list args;

	va_start(args, name);
	(void)vsnprintf(key, sizeof key, name, args);
	va_end(args);
	if (query->size > 0)
		put_bytes(query, "&", 1);
	put_bytes(query, key, strlen(key));
	put_bytes(query, "=", 1);
	put_encoded(query, value);
}

void
cloud_aws_query_begin(struct aws_query *query, const char *action, const char *version)
{
	*query = (struct aws_query){ NULL, 0, 0, 0 };
	cloud_aws_query_add(query, action, "Action");
	cloud_aws_query_add(query, version, "Version");
}

void
cloud_aws_query_free(struct aws_query *query)
{
	free(query->text);
	*query = (struct aws_query){ NULL, 0, 0, 0 };
}

static char *
encode_base64(const char *text)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	size_t size = strlen(text), k = 0;
	char *to = malloc(size / 3 * 4 + 5);

	for (size_t i = 0; to != NULL && i < size; i += 3) {
		uint32_t bits = (uint32_t)(unsigned char)text[i] << 16;

		if (i + 1 < size)
			bits |= (uint32_t)(unsigned char)text[i + 1] << 8;
		if (i + 2 < size)
			bits |= (unsigned char)text[i + 2];
		to[k++] = digits[bits >> 18];
		to[k++] = digits[bits >> 12 & 63];
		to[k++] = '=';
		to[k++] = '=';
		if (i + 1 < size)
			to[k - 2] = digits[bits >> 6 & 63];
		if (i + 2 < size)
			to[k - 1] = digits[bits & 63];
	}
	if (to != NULL)
		to[k] = '\0';
	return to;
}

/* Tags are given to all that costs something or can be found later. */
static void
add_tags(struct aws_query *query, const struct aws_wish *wish)
{
	static const char *const kinds[] = { "instance", "volume", "spot-instances-request" };
	unsigned count = wish->spot ? 3 : 2;

	for (unsigned i = 1; i <= count; i++) {
		unsigned n = 1;

		cloud_aws_query_add(query, kinds[i - 1], "TagSpecification.%u.ResourceType", i);
		for (uint32_t k = 0; wish->tags != NULL && k < wish->tags->row_count; k++, n++) {
			const struct espl_value *row = wish->tags->cells + (size_t)k * 2;

			cloud_aws_query_add(query, row[0].as.s, "TagSpecification.%u.Tag.%u.Key", i,
			    n);
			cloud_aws_query_add(query, row[1].as.s, "TagSpecification.%u.Tag.%u.Value",
			    i, n);
		}
		cloud_aws_query_add(query, "espalier:run", "TagSpecification.%u.Tag.%u.Key", i, n);
		cloud_aws_query_add(query, wish->run, "TagSpecification.%u.Tag.%u.Value", i, n++);
		cloud_aws_query_add(query, "espalier:token", "TagSpecification.%u.Tag.%u.Key", i,
		    n);
		cloud_aws_query_add(query, wish->token, "TagSpecification.%u.Tag.%u.Value", i, n++);
		cloud_aws_query_add(query, "espalier:driver", "TagSpecification.%u.Tag.%u.Key", i,
		    n);
		cloud_aws_query_add(query, wish->driver, "TagSpecification.%u.Tag.%u.Value", i,
		    n++);
		cloud_aws_query_add(query, "Name", "TagSpecification.%u.Tag.%u.Key", i, n);
		cloud_aws_query_add(query, wish->token, "TagSpecification.%u.Tag.%u.Value", i, n);
	}
}

void
cloud_aws_query_listing(struct aws_query *query, const char *run)
{
	static const char *const states[] = { "pending", "running", "stopping", "stopped" };

	cloud_aws_query_begin(query, "DescribeInstances", "2016-11-15");
	cloud_aws_query_add(query, run != NULL ? "tag:espalier:run" : "tag-key", "Filter.1.Name");
	cloud_aws_query_add(query, run != NULL ? run : "espalier:run", "Filter.1.Value.1");
	cloud_aws_query_add(query, "instance-state-name", "Filter.2.Name");
	for (unsigned i = 0; i < 4; i++)
		cloud_aws_query_add(query, states[i], "Filter.2.Value.%u", i + 1);
	cloud_aws_query_add(query, "1000", "MaxResults");
}

void
cloud_aws_query_run(struct aws_query *query, const struct aws_wish *wish)
{
	char *data = wish->user_data != NULL ? encode_base64(wish->user_data) : NULL, price[40];

	cloud_aws_query_begin(query, "RunInstances", "2016-11-15");
	if (wish->dry_run)
		cloud_aws_query_add(query, "true", "DryRun");
	else
		cloud_aws_query_add(query, wish->token, "ClientToken");
	cloud_aws_query_add(query, "1", "MinCount");
	cloud_aws_query_add(query, "1", "MaxCount");
	cloud_aws_query_add(query, wish->type, "InstanceType");
	cloud_aws_query_add(query, wish->image, "ImageId");
	cloud_aws_query_add(query, wish->subnet, "SubnetId");
	if (wish->group[0] != '\0')
		cloud_aws_query_add(query, wish->group, "SecurityGroupId.1");
	if (wish->key_name[0] != '\0')
		cloud_aws_query_add(query, wish->key_name, "KeyName");
	/* A machine that is shut down from within must not be kept, stopped and paid for. */
	cloud_aws_query_add(query, "terminate", "InstanceInitiatedShutdownBehavior");
	cloud_aws_query_add(query, "required", "MetadataOptions.HttpTokens");
	if (wish->spot) {
		cloud_aws_query_add(query, "spot", "InstanceMarketOptions.MarketType");
		cloud_aws_query_add(query, "one-time",
		    "InstanceMarketOptions.SpotOptions.SpotInstanceType");
		cloud_aws_query_add(query, "terminate",
		    "InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior");
	}
	if (wish->spot && wish->max_price_hour > 0) {
		(void)snprintf(price, sizeof price, "%lld.%06lld",
		    (long long)(wish->max_price_hour / 1000000),
		    (long long)(wish->max_price_hour % 1000000));
		cloud_aws_query_add(query, price, "InstanceMarketOptions.SpotOptions.MaxPrice");
	}
	add_tags(query, wish);
	if (data != NULL)
		cloud_aws_query_add(query, data, "UserData");
	else
		query->failed = 1;
	free(data);
}
