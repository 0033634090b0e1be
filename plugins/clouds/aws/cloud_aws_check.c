/* cloud_aws_check.c - what can be wrong with keys, clock, permissions and offers: found before
 * anything is leased, with EC2's own check of a request (DryRun), and said with a hint.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_aws.h"

#define SKEW_S 240 /* EC2 refuses requests whose time is more than five minutes off */

/* ---- failures ---- */

static int
holds_word(const char *text, const char *const *words)
{
	for (; *words != NULL; words++)
		if (strstr(text, *words) != NULL)
			return 1;
	return 0;
}

/* A clock that is off looks like a wrong key. */
int
cloud_aws_check_clock(const struct aws_cloud *cloud, const char *text)
{
	static const char *const codes[] = { "AuthFailure", "RequestExpired",
		"SignatureDoesNotMatch", "RequestTimeTooSkewed", "InvalidSignature", NULL };

	return llabs(cloud->ahead_s) > SKEW_S && holds_word(text, codes);
}

struct check_hint {
	const char *code, *hint;
};
static const struct check_hint hints[] = {
	{ "ExpiredToken",
	    "log in again, for example with `aws sso login`, or set newer keys "
	    "in AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN" },
	{ "SignatureDoesNotMatch",
	    "the secret key does not belong to the access key: check AWS_SECRET_ACCESS_KEY or "
	    "~/.aws/credentials" },
	{ "AuthFailure",
	    "AWS does not know these keys: check AWS_ACCESS_KEY_ID, AWS_SESSION_TOKEN or "
	    "~/.aws/credentials, and that the account has the region enabled" },
	{ "InvalidClientTokenId",
	    "AWS does not know these keys: check AWS_ACCESS_KEY_ID, "
	    "AWS_SESSION_TOKEN or ~/.aws/credentials" },
	{ "UnrecognizedClient",
	    "AWS does not know these keys: check AWS_ACCESS_KEY_ID, "
	    "AWS_SESSION_TOKEN or ~/.aws/credentials" },
	{ "RequestExpired", "set the clock of this machine, for example with NTP" },
	{ "OptInRequired", "the account is not signed up for EC2 in this region" },
	{ "PendingVerification", "AWS has not verified the account yet: wait, or ask AWS" },
	{ "InvalidAMIID", "an image belongs to one region: set cloud.image to one of this region" },
	{ "ParameterNotFound", "check the name, and that the parameter exists in this region" },
	{ "InvalidSubnet", "set 'subnet' of the offer to one of this account and region" },
	{ "InvalidGroup",
	    "set cloud.security_group to the id (sg-...) of a group in the network of the subnet" },
	{ "InvalidSecurityGroup",
	    "set cloud.security_group to the id (sg-...) of a group in the network of the subnet" },
	{ "InvalidKeyPair", "set cloud.key_name to an EC2 key pair of this region" },
	{ "InvalidInstanceType", "check 'type' of the offers, and that this region has it" },
	{ "Unsupported", "offer another zone or another type" },
	{ "VcpuLimitExceeded",
	    "request a higher quota for on-demand machines of this type from AWS (Service "
	    "Quotas)" },
	{ "MaxSpotInstanceCountExceeded",
	    "request a higher quota for spot machines of this type from AWS (Service Quotas)" },
	{ "LimitExceeded", "request a higher quota from AWS (Service Quotas)" },
	{ NULL, NULL },
};

static void
add_hint(char *text, const char *hint)
{
	size_t size = strlen(text);

	(void)snprintf(text + size, AWS_TEXT - size, "\n%s", hint);
}

/* "ACTION: CODE: ..." */
static void
hint_permission(char *text, const char *action)
{
	const char *service = strncmp(action, "Get", 3) == 0
	    ? strncmp(action, "GetParameter", 12) == 0 ? "ssm" : "sts"
	    : "ec2";
	char hint[200];

	(void)snprintf(hint, sizeof hint, "give these keys the permission %s:%.*s%s", service,
	    (int)strcspn(action, ": "), action,
	    strncmp(action, "RunInstances", 12) == 0 ? ", and ec2:CreateTags" : "");
	add_hint(text, hint);
}

static void
explain_clock(const struct aws_cloud *cloud, const char *what, const char *between,
    char text[AWS_TEXT])
{
	(void)snprintf(text, AWS_TEXT,
	    "the clock of this machine is %lld minutes %s that of AWS, so its requests are refused "
	    "(%.200s)%sset the clock, for example with `timedatectl set-ntp true`",
	    llabs(cloud->ahead_s) / 60, cloud->ahead_s > 0 ? "behind" : "ahead of", what, between);
}

enum aws_class
cloud_aws_check_reply(const struct aws_cloud *cloud, const struct espl_http_reply *reply,
    const char *action, struct aws_element **document, char text[AWS_TEXT])
{
	enum aws_class class = cloud_aws_answer_reply(reply, action, document, text);
	char what[AWS_TEXT];

	if (class == AWS_FINE || !cloud_aws_check_clock(cloud, text))
		return class;
	(void)snprintf(what, sizeof what, "%.300s", text);
	explain_clock(cloud, what, "; ", text);
	return AWS_AGAIN;
}

/* Of keys, permissions and settings: the user can fix it, and trying again does not. */
espl_status
cloud_aws_check_failed(struct aws_cloud *cloud, const struct espl_http_reply *reply,
    const char *offer, char text[AWS_TEXT])
{
	static const char *const denied[] = { "UnauthorizedOperation", "AccessDenied", NULL };
	static const char *const fixed[] = { "ExpiredToken", "RequestExpired", NULL };
	char what[AWS_TEXT];

	(void)snprintf(what, sizeof what, "%.300s", text);
	if (cloud_aws_check_clock(cloud, what)) {
		explain_clock(cloud, what, "\n", text);
		return ESPL_E_CONFIG;
	}
	(void)snprintf(text, AWS_TEXT, "%s%s%.300s", offer, offer[0] != '\0' ? ": " : "", what);
	if (strstr(what, "resolve host") != NULL)
		add_hint(text, "check the network, and that the region exists");
	if (reply->status != ESPL_OK)
		return reply->status == ESPL_E_CONFIG ? ESPL_E_CONFIG : ESPL_E_REMOTE;
	/* RequestLimitExceeded means throttling, not a quota. */
	if (strstr(what, "RequestLimitExceeded") != NULL || strstr(what, ": Throttl") != NULL)
		return ESPL_E_REMOTE;
	if (holds_word(what, denied)) {
		hint_permission(text, what);
		return ESPL_E_CONFIG;
	}
	for (const struct check_hint *h = hints; h->code != NULL; h++)
		if (strstr(what, h->code) != NULL) {
			add_hint(text, h->hint);
			return ESPL_E_CONFIG;
		}
	return reply->code >= 400 && reply->code < 500 && !holds_word(what, fixed) &&
		strstr(what, ": Request") == NULL
	    ? ESPL_E_CONFIG
	    : ESPL_E_REMOTE;
}

/* ---- types that a zone has ---- */

void
cloud_aws_check_offerings(struct aws_cloud *cloud, struct aws_query *query)
{
	unsigned n = 0;

	cloud_aws_query_begin(query, "DescribeInstanceTypeOfferings", "2016-11-15");
	cloud_aws_query_add(query, "availability-zone", "LocationType");
	cloud_aws_query_add(query, "instance-type", "Filter.1.Name");
	for (uint32_t i = 0; i < cloud->offer_count && n < AWS_FILTER; i++) {
		uint32_t k = 0;

		while (strcmp(cloud->offers[k].row[AWS_COL_TYPE].as.s,
			   cloud->offers[i].row[AWS_COL_TYPE].as.s) != 0)
			k++;
		if (k == i)
			cloud_aws_query_add(query, cloud->offers[i].row[AWS_COL_TYPE].as.s,
			    "Filter.1.Value.%u", ++n);
	}
	for (uint32_t i = 0; i < cloud->offer_count; i++)
		cloud->offers[i].offered = 0;
}

/* A page of them. */
void
cloud_aws_check_offered(struct aws_cloud *cloud, const struct aws_element *document)
{
	const struct aws_element *set = cloud_aws_answer_find(document, "instanceTypeOfferingSet");

	for (const struct aws_element *item = set != NULL ? set->first : NULL; item != NULL;
	     item = item->next)
		for (uint32_t i = 0; i < cloud->offer_count; i++) {
			struct aws_offer *o = &cloud->offers[i];

			if (strcmp(o->zone, cloud_aws_answer_text(item, "location")) == 0 &&
			    strcmp(o->row[AWS_COL_TYPE].as.s,
				cloud_aws_answer_text(item, "instanceType")) == 0)
				o->offered = 1;
		}
}

/* All pages came.  -1: one of the offers cannot be had. */
int
cloud_aws_check_zones(const struct aws_cloud *cloud, char text[AWS_TEXT])
{
	for (uint32_t i = 0; i < cloud->offer_count; i++) {
		const struct aws_offer *o = &cloud->offers[i];

		if (o->offered)
			continue;
		(void)snprintf(text, AWS_TEXT,
		    "zone %s does not have machines of type %s\noffer another zone or another type",
		    o->zone, o->row[AWS_COL_TYPE].as.s);
		return -1;
	}
	return 0;
}

/* ---- each request, as EC2 would take it ---- */

void
cloud_aws_check_ask(struct aws_cloud *cloud, struct aws_query *query)
{
	struct aws_wish wish;

	cloud_aws_wish(cloud, &cloud->offers[cloud->checked], &wish);
	wish.dry_run = 1;
	cloud_aws_count_run(cloud);
	cloud_aws_query_run(query, &wish);
}

/* 1: ask about the next offer; 0: the run can start; -1: it cannot.  A lack of capacity passes, and
 * so does a quota that is used up while another offer is left: both may change during the run. */
int
cloud_aws_check_take(struct aws_cloud *cloud, enum aws_class class,
    const struct aws_element *document, char text[AWS_TEXT])
{
	const char *id = cloud_aws_answer_text(document, "instancesSet/item/instanceId");
	char note[AWS_TEXT];

	if (id[0] != '\0') {
		(void)snprintf(text, AWS_TEXT,
		    "this service does not know DryRun: it has made machine %.40s\nterminate it",
		    id);
		return -1;
	}
	if (class == AWS_FINE || class == AWS_CAPACITY) {
		cloud->passed++;
	} else if (class == AWS_QUOTA &&
	    (cloud->passed > 0 || cloud->checked + 1 < cloud->offer_count)) {
		(void)snprintf(note, sizeof note, "offer %s (%s): %.300s",
		    cloud->offers[cloud->checked].name, aws_market(&cloud->offers[cloud->checked]),
		    text);
		cloud_aws_warn(cloud, note);
	} else {
		return -1;
	}
	return ++cloud->checked < cloud->offer_count;
}
