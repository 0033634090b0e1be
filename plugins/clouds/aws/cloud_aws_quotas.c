/* cloud_aws_quotas.c - quotas: how many vCPUs of a family and market the account may have at once,
 * compared with what the offers may hold, before anything is leased.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_aws.h"

/* Families by the letters, and the generation, with which a type begins.  AWS has no request that
 * tells the quota of a type; families that are not listed are not checked. */
static const struct {
	const char *letters;
	int first, last; /* generation */
	const char *demand, *spot;
} families[] = {
	{ "a c d h i m r t z im is", 0, 99, "L-1216C47A", "L-34B43A08" },
	{ "g gr vt", 0, 99, "L-DB2E81BA", "L-3819A6DF" },
	{ "p", 2, 4, "L-417A185B", "L-7212CCBC" },
	{ "p", 5, 5, "L-417A185B", "L-C4BD4855" },
	{ "p", 6, 99, "L-417A185B", NULL },
	{ "x", 0, 99, "L-7295265B", "L-E3A00192" },
	{ "f", 0, 99, "L-74FC7D96", "L-88CF9481" },
	{ "inf", 0, 99, "L-1945791B", "L-B5D1601B" },
};
#define FAMILIES (sizeof families / sizeof families[0])

static int
has_word(const char *list, const char *word, size_t size)
{
	for (const char *at = list; *at != '\0'; at += strcspn(at, " "), at += *at == ' ')
		if (strcspn(at, " ") == size && strncmp(at, word, size) == 0)
			return 1;
	return 0;
}

/* The quota that counts machines of this offer; NULL: it is not known. */
static const char *
code_of(const struct aws_offer *o)
{
	const char *type = o->row[AWS_COL_TYPE].as.s;
	size_t size = strspn(type, "abcdefghijklmnopqrstuvwxyz");
	long generation = strtol(type + size, NULL, 10);

	for (size_t i = 0; i < FAMILIES; i++)
		if (has_word(families[i].letters, type, size) && generation >= families[i].first &&
		    generation <= families[i].last)
			return aws_is_spot(o) ? families[i].spot : families[i].demand;
	return NULL;
}

/* Quotas are numbered by the first offer that needs them. */
uint32_t
cloud_aws_quotas_next(const struct aws_cloud *cloud, uint32_t from)
{
	for (uint32_t i = from; i < cloud->offer_count; i++) {
		const char *code = code_of(&cloud->offers[i]), *other;
		uint32_t k = 0;

		while (code != NULL && k < i &&
		    ((other = code_of(&cloud->offers[k])) == NULL || strcmp(other, code) != 0))
			k++;
		if (code != NULL && k == i)
			return i;
	}
	return UINT32_MAX;
}

void
cloud_aws_quotas_ask(const struct aws_cloud *cloud, char body[120])
{
	(void)snprintf(body, 120, "{\"ServiceCode\": \"ec2\", \"QuotaCode\": \"%s\"}",
	    code_of(&cloud->offers[cloud->quota]));
}

/* What the offers of this quota may hold at once; those of which no machine fits are marked. */
static void
compare_offers(struct aws_cloud *cloud, const char *name, double most)
{
	const char *code = code_of(&cloud->offers[cloud->quota]);
	uint64_t held = 0;
	char text[AWS_TEXT];

	for (uint32_t i = 0; i < cloud->offer_count; i++) {
		struct aws_offer *o = &cloud->offers[i];
		const char *other = code_of(o);

		if (other == NULL || strcmp(other, code) != 0)
			continue;
		held += o->cpus * (uint64_t)o->row[AWS_COL_NODES].as.i;
		o->too_large = (double)o->cpus > most;
	}
	if ((double)held <= most)
		return;
	(void)snprintf(text, sizeof text,
	    "the quota \"%.120s\" (%s) of this account is %.0f vCPUs, and the offers may hold %llu "
	    "of them at once: lower nodes_max, or request a higher quota from AWS (Service Quotas)",
	    name, code, most, (unsigned long long)held);
	cloud->host->log(cloud->host, ESPL_WARN, text);
}

/* The quota stays unknown; the run can start. */
static void
tell_unknown(const struct aws_cloud *cloud, const struct espl_http_reply *reply, const json_t *root)
{
	const char *type = json_string_value(json_object_get(root, "__type"));
	char text[AWS_TEXT], why[200];

	if (reply->status != ESPL_OK)
		(void)snprintf(why, sizeof why, "%.190s", reply->text);
	else if (type != NULL)
		(void)snprintf(why, sizeof why, "%.190s", type);
	else
		(void)snprintf(why, sizeof why, "the answer (HTTP status %u) cannot be read",
		    reply->code);
	(void)snprintf(text, sizeof text, "quotas were not checked: GetServiceQuota: %s%s", why,
	    strstr(why, "AccessDenied") != NULL
		? "; give these keys the permission servicequotas:GetServiceQuota"
		: "");
	cloud->host->log(cloud->host, ESPL_INFO, text);
}

int
cloud_aws_quotas_take(struct aws_cloud *cloud, const struct espl_http_reply *reply,
    char text[AWS_TEXT])
{
	json_t *root =
	    reply->status == ESPL_OK ? json_loadb(reply->body, reply->body_size, 0, NULL) : NULL;
	const json_t *quota = json_object_get(root, "Quota");
	const json_t *value = json_object_get(quota, "Value");
	const char *name = json_string_value(json_object_get(quota, "QuotaName"));
	const char *type = json_string_value(json_object_get(root, "__type"));
	uint32_t fits = 0;

	if (reply->code == 200 && json_is_number(value)) {
		compare_offers(cloud, name != NULL ? name : "", json_number_value(value));
		cloud->quota = cloud_aws_quotas_next(cloud, cloud->quota + 1);
	} else if (type != NULL && strstr(type, "NoSuchResource") != NULL) {
		/* Regions do not have all of them. */
		cloud->quota = cloud_aws_quotas_next(cloud, cloud->quota + 1);
	} else { /* the others would not be answered, either */
		tell_unknown(cloud, reply, root);
		cloud->quota = UINT32_MAX;
	}
	json_decref(root);
	for (uint32_t i = 0; i < cloud->offer_count; i++)
		fits += !cloud->offers[i].too_large;
	if (fits == 0) {
		(void)snprintf(text, AWS_TEXT,
		    "no machine of an offer fits into the quotas of this account\nrequest a higher "
		    "quota from AWS (Service Quotas), or offer smaller types");
		return -1;
	}
	return cloud->quota != UINT32_MAX;
}
