/* cloud_aws_answer.c - answers of EC2: XML, machines, times, and what an error asks for. */
#include <expat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cloud_aws.h"

#define DEPTH_MOST 64u

/* ---- XML ---- */

struct parsing {
	XML_Parser parser;
	struct aws_element *stack[DEPTH_MOST], *root;
	uint32_t depth;
	int failed;
};

static void
stop_parsing(struct parsing *p)
{
	p->failed = 1;
	(void)XML_StopParser(p->parser, XML_FALSE);
}

static void
begin_element(void *ctx, const char *name, const char **attributes)
{
	struct parsing *p = ctx;
	struct aws_element *e = calloc(1, sizeof *e);

	(void)attributes;
	if (e != NULL)
		e->name = strdup(name);
	if (e == NULL || e->name == NULL || p->depth == DEPTH_MOST) {
		cloud_aws_answer_free(e);
		stop_parsing(p);
		return;
	}
	if (p->depth > 0) {
		struct aws_element *parent = p->stack[p->depth - 1];

		if (parent->last != NULL)
			parent->last->next = e;
		else
			parent->first = e;
		parent->last = e;
	} else {
		p->root = e;
	}
	p->stack[p->depth++] = e;
}

static void
end_element(void *ctx, const char *name)
{
	struct parsing *p = ctx;
	struct aws_element *e = p->stack[--p->depth];
	size_t size = e->size, skip;

	(void)name;
	if (size == 0)
		return;
	skip = strspn(e->text, " \t\r\n");
	memmove(e->text, e->text + skip, size - skip + 1);
	for (size -= skip; size > 0 && strchr(" \t\r\n", e->text[size - 1]) != NULL;)
		e->text[--size] = '\0';
}

static void
take_text(void *ctx, const char *text, int size)
{
	struct parsing *p = ctx;
	struct aws_element *e = p->stack[p->depth - 1];

	if (e->room - e->size <= (size_t)size) { /* it comes line by line */
		size_t room = 2 * e->room + (size_t)size + 1;
		char *longer = realloc(e->text, room);

		if (longer == NULL) {
			stop_parsing(p);
			return;
		}
		e->text = longer;
		e->room = room;
	}
	memcpy(e->text + e->size, text, (size_t)size);
	e->size += (size_t)size;
	e->text[e->size] = '\0';
}

struct aws_element *
cloud_aws_answer_parse(const void *xml, size_t size)
{
	struct parsing p = { .parser = XML_ParserCreate(NULL) };
	int fine;

	if (p.parser == NULL || size > (32u << 20)) {
		XML_ParserFree(p.parser);
		return NULL;
	}
	XML_SetUserData(p.parser, &p);
	XML_SetElementHandler(p.parser, begin_element, end_element);
	XML_SetCharacterDataHandler(p.parser, take_text);
	fine = XML_Parse(p.parser, xml, (int)size, 1) == XML_STATUS_OK && !p.failed;
	XML_ParserFree(p.parser);
	if (!fine) {
		cloud_aws_answer_free(p.root);
		return NULL;
	}
	return p.root;
}

void
cloud_aws_answer_free(struct aws_element *e)
{
	while (e != NULL) { /* children are few levels deep, siblings may be many */
		struct aws_element *next = e->next;

		cloud_aws_answer_free(e->first);
		free(e->name);
		free(e->text);
		free(e);
		e = next;
	}
}

const struct aws_element *
cloud_aws_answer_find(const struct aws_element *e, const char *path)
{
	while (e != NULL && *path != '\0') {
		size_t size = strcspn(path, "/");
		const struct aws_element *child = e->first;

		while (child != NULL &&
		    (strncmp(child->name, path, size) != 0 || child->name[size] != '\0'))
			child = child->next;
		e = child;
		path += size + (path[size] == '/');
	}
	return e;
}

const char *
cloud_aws_answer_text(const struct aws_element *e, const char *path)
{
	const struct aws_element *found = cloud_aws_answer_find(e, path);

	return found != NULL && found->text != NULL ? found->text : "";
}

/* ---- values ---- */

int64_t
cloud_aws_answer_time(const char *text)
{
	struct tm tm = { 0 };
	int read = 0;

	if (sscanf(text, "%4d-%2d-%2d%*1[T ]%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
		&tm.tm_hour, &tm.tm_min, &tm.tm_sec, &read) != 6 ||
	    read == 0)
		return 0;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	return (int64_t)timegm(&tm);
}

espl_money
cloud_aws_answer_money(const char *text)
{
	espl_money value = 0, unit = 1000000;
	const char *at = text;

	for (; *at >= '0' && *at <= '9' && value < 1000000; at++)
		value = 10 * value + (*at - '0');
	if (at == text)
		return -1;
	value *= unit;
	if (*at == '.')
		for (at++; *at >= '0' && *at <= '9'; at++) {
			unit /= 10;
			value += unit * (*at - '0');
		}
	return *at == '\0' ? value : -1;
}

int64_t
cloud_aws_answer_date(const struct espl_http_reply *reply)
{
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

	for (uint32_t i = 0; i < reply->header_count; i++) {
		struct tm tm = { 0 };
		char month[4] = "";
		const char *at;

		if (strncasecmp(reply->headers[i], "Date:", 5) != 0 ||
		    sscanf(reply->headers[i] + 5, " %*3s, %d %3s %d %d:%d:%d GMT", &tm.tm_mday,
			month, &tm.tm_year, &tm.tm_hour, &tm.tm_min, &tm.tm_sec) != 6)
			continue;
		at = strstr(months, month);
		if (at == NULL || strlen(month) != 3 || (at - months) % 3 != 0)
			continue;
		tm.tm_mon = (int)(at - months) / 3;
		tm.tm_year -= 1900;
		return (int64_t)timegm(&tm);
	}
	return 0;
}

static void
copy_text(char *to, size_t size, const char *text)
{
	(void)snprintf(to, size, "%s", text);
}

static enum aws_state
read_state(const char *name)
{
	if (strcmp(name, "pending") == 0)
		return AWS_PENDING;
	if (strcmp(name, "running") == 0)
		return AWS_RUNNING;
	if (strcmp(name, "stopping") == 0 || strcmp(name, "stopped") == 0)
		return AWS_STOPPED;
	if (strcmp(name, "shutting-down") == 0 || strcmp(name, "terminated") == 0)
		return AWS_ENDED;
	return 0;
}

void
cloud_aws_answer_machine(const struct aws_element *item, int64_t seen_s, struct aws_machine *m)
{
	const struct aws_element *tags = cloud_aws_answer_find(item, "tagSet");
	const char *ended = strchr(cloud_aws_answer_text(item, "reason"), '(');

	memset(m, 0, sizeof *m);
	m->seen_s = seen_s;
	copy_text(m->id, sizeof m->id, cloud_aws_answer_text(item, "instanceId"));
	copy_text(m->token, sizeof m->token, cloud_aws_answer_text(item, "clientToken"));
	copy_text(m->type, sizeof m->type, cloud_aws_answer_text(item, "instanceType"));
	copy_text(m->zone, sizeof m->zone,
	    cloud_aws_answer_text(item, "placement/availabilityZone"));
	copy_text(m->public_address, sizeof m->public_address,
	    cloud_aws_answer_text(item, "ipAddress"));
	copy_text(m->private_address, sizeof m->private_address,
	    cloud_aws_answer_text(item, "privateIpAddress"));
	copy_text(m->why, sizeof m->why, cloud_aws_answer_text(item, "stateReason/code"));
	copy_text(m->text, sizeof m->text, cloud_aws_answer_text(item, "stateReason/message"));
	m->state = read_state(cloud_aws_answer_text(item, "instanceState/name"));
	m->spot = strcmp(cloud_aws_answer_text(item, "instanceLifecycle"), "spot") == 0;
	m->launch_s = cloud_aws_answer_time(cloud_aws_answer_text(item, "launchTime"));
	if (m->state == AWS_ENDED && ended != NULL) /* "User initiated (2026-01-02 03:04:05 GMT)" */
		m->end_s = cloud_aws_answer_time(ended + 1);
	for (const struct aws_element *tag = tags != NULL ? tags->first : NULL; tag != NULL;
	     tag = tag->next)
		if (strcmp(cloud_aws_answer_text(tag, "key"), "espalier:run") == 0)
			copy_text(m->run, sizeof m->run, cloud_aws_answer_text(tag, "value"));
		else if (strcmp(cloud_aws_answer_text(tag, "key"), "espalier:driver") == 0)
			copy_text(m->driver, sizeof m->driver, cloud_aws_answer_text(tag, "value"));
}

int
cloud_aws_answer_each(const struct aws_element *document, int64_t seen_s,
    int (*take)(void *ctx, const struct aws_machine *), void *ctx)
{
	const struct aws_element *set = cloud_aws_answer_find(document, "reservationSet");
	struct aws_machine m;
	int taken = 0;

	for (const struct aws_element *r = set != NULL ? set->first : NULL; r != NULL;
	     r = r->next) {
		const struct aws_element *list = cloud_aws_answer_find(r, "instancesSet");

		for (const struct aws_element *item = list != NULL ? list->first : NULL;
		     item != NULL && taken == 0; item = item->next) {
			cloud_aws_answer_machine(item, seen_s, &m);
			taken = take(ctx, &m);
		}
	}
	return taken;
}

/* ---- errors ---- */

enum aws_class
cloud_aws_answer_class(const char *code, uint32_t http)
{
	static const struct {
		const char *code; /* ending in '*': all that begin so */
		enum aws_class class;
	} table[] = {
		{ "RequestLimitExceeded", AWS_AGAIN },
		{ "EC2ThrottledException", AWS_AGAIN },
		{ "Throttl*", AWS_AGAIN },
		{ "RequestThrottled*", AWS_AGAIN },
		{ "SlowDown", AWS_AGAIN },
		/* The host looks for newer keys when these come, so that a login may be renewed. */
		{ "ExpiredToken*", AWS_AGAIN },
		{ "RequestExpired", AWS_AGAIN },
		{ "DryRunOperation", AWS_FINE }, /* it would have been done */
		{ "InsufficientInstanceCapacity", AWS_CAPACITY },
		{ "InsufficientCapacity", AWS_CAPACITY },
		{ "InsufficientHostCapacity", AWS_CAPACITY },
		{ "InsufficientFreeAddressesInSubnet", AWS_CAPACITY },
		{ "UnfulfillableCapacity", AWS_CAPACITY },
		{ "SpotMaxPriceTooLow", AWS_CAPACITY },
		{ "MaxSpotInstanceCountExceeded", AWS_QUOTA },
		{ "VcpuLimitExceeded", AWS_QUOTA },
		{ "InstanceLimitExceeded", AWS_QUOTA },
		{ "VolumeLimitExceeded", AWS_QUOTA },
		{ "InvalidInstanceID.NotFound", AWS_MISSING },
		{ "IdempotentParameterMismatch", AWS_MISMATCH },
		{ "InternalError", AWS_UNKNOWN },
		{ "InternalFailure", AWS_UNKNOWN },
		{ "Unavailable", AWS_UNKNOWN },
		{ "ServiceUnavailable", AWS_UNKNOWN },
	};

	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		size_t size = strcspn(table[i].code, "*");

		if (strncmp(code, table[i].code, size) == 0 &&
		    (table[i].code[size] == '*' || code[size] == '\0'))
			return table[i].class;
	}
	return code[0] != '\0' && http >= 400 && http < 500 ? AWS_REFUSED : AWS_UNKNOWN;
}

enum aws_class
cloud_aws_answer_reply(const struct espl_http_reply *reply, const char *action,
    struct aws_element **document, char text[AWS_TEXT])
{
	struct aws_element *root = NULL;
	const struct aws_element *error;
	enum aws_class class = AWS_UNKNOWN;
	size_t size = strlen(action);

	*document = NULL;
	if (reply->status == ESPL_OK)
		root = cloud_aws_answer_parse(reply->body, reply->body_size);
	error = cloud_aws_answer_find(root, "Errors/Error");
	if (error == NULL)
		error = cloud_aws_answer_find(root, "Error"); /* STS */
	if (reply->status != ESPL_OK) {
		(void)snprintf(text, AWS_TEXT, "%s: %s", action, reply->text);
		if (reply->status == ESPL_E_CONFIG) /* there are no keys: it was not sent */
			class = AWS_AGAIN;
	} else if (error != NULL) {
		const char *code = cloud_aws_answer_text(error, "Code");

		(void)snprintf(text, AWS_TEXT, "%s: %.80s: %.400s", action, code,
		    cloud_aws_answer_text(error, "Message"));
		class = cloud_aws_answer_class(code, reply->code);
	} else if (reply->code != 200 || root == NULL || strncmp(root->name, action, size) != 0 ||
	    /* A list that is not there does not say that there are no machines. */
	    (strcmp(action, "DescribeInstances") == 0 &&
		cloud_aws_answer_find(root, "reservationSet") == NULL)) {
		(void)snprintf(text, AWS_TEXT, "%s: the answer (HTTP status %u) cannot be read",
		    action, reply->code);
	} else {
		*document = root;
		return AWS_FINE;
	}
	cloud_aws_answer_free(root);
	return class;
}
