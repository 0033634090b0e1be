/* ec2_answers.c - what EC2 on a virtual clock answers: see ec2_world.h. */
#include "ec2_world.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define S ESPL_SECOND
#define FORGET (3600 * S)
#define TOKENS_LAST (24 * 3600 * S) /* after the end of a machine its token may be forgotten */
#define NAMESPACE "xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\""

/* Vcpus of each. */
static const struct {
	const char *name;
	uint32_t vcpus;
} sizes[] = { { "g5.xlarge", 4 }, { "c5.large", 2 } };

static espl_time
now_of(const struct ec2_world *w)
{
	return espl_kit_time(w->kit);
}

static int
starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void __attribute__((format(printf, 2, 3))) put(struct ec2_world *w, const char *format, ...)
{
	va_list list;
	int size;

	if (w->room - w->used < 60000) {
		w->room += 200000;
		w->answer = realloc(w->answer, w->room);
	}
	va_start(list, format);
	size = vsnprintf(w->answer + w->used, w->room - w->used, format, list);
	va_end(list);
	w->used += (size_t)size;
}

static void
put_stamp(struct ec2_world *w, const char *name, espl_time at, const char *format)
{
	time_t utc = (time_t)(EC2_UTC_START + at / S);
	struct tm tm;
	char text[60];

	(void)gmtime_r(&utc, &tm);
	(void)strftime(text, sizeof text, format, &tm);
	put(w, "<%s>%s</%s>", name, text, name);
}

static const char iso[] = "%Y-%m-%dT%H:%M:%S.000Z";

/* ---- requests ------------------------------------------------------------------------------ */

static int
hex_of(int c)
{
	return c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

static void
read_form(struct ec2_world *w, const char *body, size_t size)
{
	char *to;

	free(w->form);
	to = w->form = malloc(size + 1);
	w->form_count = 0;
	w->names[0] = to;
	for (size_t i = 0; i <= size && w->form_count < EC2_PARAMETERS - 1; i++) {
		if (i == size || body[i] == '&') {
			*to++ = '\0';
			w->names[++w->form_count] = to;
		} else if (body[i] == '=') {
			*to++ = '\0';
			w->values[w->form_count] = to;
		} else if (body[i] == '%' && i + 2 < size) {
			*to++ = (char)(16 * hex_of(body[i + 1]) + hex_of(body[i + 2]));
			i += 2;
		} else {
			*to++ = body[i];
		}
	}
}

static const char *
get(const struct ec2_world *w, const char *name)
{
	for (uint32_t i = 0; i < w->form_count; i++)
		if (strcmp(w->names[i], name) == 0)
			return w->values[i];
	return "";
}

/* 1 if the filter contains this value or is absent. */
static int
passes(const struct ec2_world *w, const char *name, const char *value)
{
	char key[40] = "";

	for (uint32_t i = 0; i < w->form_count; i++)
		if (starts(w->names[i], "Filter.") && strcmp(w->values[i], name) == 0 &&
		    strstr(w->names[i], ".Name") != NULL)
			(void)snprintf(key, sizeof key, "%.*s.Value.",
			    (int)(strlen(w->names[i]) - 5), w->names[i]);
	if (key[0] == '\0')
		return 1;
	for (uint32_t i = 0; i < w->form_count; i++)
		if (starts(w->names[i], key) && strcmp(w->values[i], value) == 0)
			return 1;
	return 0;
}

/* ---- answers ------------------------------------------------------------------------------- */

static void
put_item(struct ec2_world *w, struct ec2_machine *m)
{
	espl_time at = now_of(w) - ec2_world_span(w, w->stale_most);
	const char *state = ec2_world_state(m, at > m->launch ? at : m->launch);
	int ended = strcmp(state, "terminated") == 0 || strcmp(state, "shutting-down") == 0;

	if (strcmp(state, "pending") == 0)
		m->shown_pending = now_of(w) / S * S;
	if (ended && m->shown_end == ESPL_NEVER)
		m->shown_end = starts(m->why, "Client.User") ? m->end : now_of(w) / S * S;

	put(w,
	    "<item><more%u/><instanceId>%s</instanceId><instanceState><code>%u</code><name>%s</"
	    "name>"
	    "</instanceState><clientToken>%s</clientToken><instanceType>%s</instanceType>"
	    "<placement><availabilityZone>%s</availabilityZone></placement>",
	    (unsigned)ec2_world_draw(w, 3), m->id, 256, state, m->token, m->type, m->zone);
	put_stamp(w, "launchTime", m->launch, iso);
	if (m->spot)
		put(w, "<instanceLifecycle>spot</instanceLifecycle>");
	if (strcmp(state, "running") == 0)
		put(w,
		    "<ipAddress>10.9.0.%s</ipAddress><privateIpAddress>10.8.0.1</privateIpAddress>",
		    m->id + 2);
	if (ended)
		put(w, "<stateReason><code>%s</code><message>it has ended</message></stateReason>",
		    m->why);
	if (ended && starts(m->why, "Client.User"))
		put_stamp(w, "reason", m->end, "User initiated (%Y-%m-%d %H:%M:%S GMT)");
	put(w, "<tagSet>");
	if (m->tagged && now_of(w) >= m->launch + w->tag_lag)
		put(w,
		    "<item><key>espalier:run</key><value>%s</value></"
		    "item><item><key>espalier:driver"
		    "</key><value>%s</value></item>",
		    m->run, w->owner != NULL ? w->owner : "");
	put(w, "</tagSet></item>");
}

static void
refuse(struct ec2_world *w, struct espl_http_reply *reply, uint32_t status, const char *code)
{
	w->used = 0;
	put(w,
	    "<Response><Errors><Error><Code>%s</Code><Message>as the test wants</Message></Error>"
	    "</Errors><RequestID>1</RequestID></Response>",
	    code);
	reply->code = status;
}

/* 0: it was taken from the bucket of this kind of request. */
static int
take_token(struct ec2_world *w, uint32_t bucket, double room, double refill)
{
	double passed = espl_seconds(now_of(w) - w->buckets[bucket].at);

	w->buckets[bucket].at = now_of(w);
	w->buckets[bucket].left += passed * refill;
	if (w->buckets[bucket].left > room)
		w->buckets[bucket].left = room;
	if (w->buckets[bucket].left < 1)
		return -1;
	w->buckets[bucket].left -= 1;
	return 0;
}

static const char *
visible_by_filter(struct ec2_world *w, const struct ec2_machine *m)
{
	const char *state = ec2_world_state(m, now_of(w));
	const char *run = m->tagged && now_of(w) >= m->launch + w->tag_lag ? m->run : "";

	if (now_of(w) < m->launch + m->lag || now_of(w) >= m->forgotten)
		return NULL;
	if (m->end != ESPL_NEVER && now_of(w) >= m->end + FORGET)
		return NULL;
	return passes(w, "client-token", m->token) && passes(w, "instance-state-name", state) &&
		passes(w, "tag:espalier:run", run) && passes(w, "instance-id", m->id) &&
		passes(w, "tag-key", run[0] != '\0' ? "espalier:run" : "")
	    ? state
	    : NULL;
}

/* Machines from the one that the token names on, a page of them; an empty page now and then. */
static void
put_page(struct ec2_world *w, const char *set,
    void (*item)(struct ec2_world *, struct ec2_machine *), const char *before, const char *after)
{
	uint32_t from = (uint32_t)strtoul(get(w, "NextToken"), NULL, 10), put_count = 0;
	uint32_t most = ec2_world_draw(w, 8) == 0 ? 0 : w->page;

	put(w, "<%s>", set);
	for (; from < w->count; from++) {
		if (w->machines[from].unlisted || visible_by_filter(w, &w->machines[from]) == NULL)
			continue;
		if (put_count++ == most)
			break;
		put(w, "%s", before);
		item(w, &w->machines[from]);
		put(w, "%s", after);
	}
	put(w, "</%s>", set);
	if (from < w->count)
		put(w, "<nextToken>%u</nextToken>", from);
	else
		put(w, "<nextToken/>");
}

static void
describe_instances(struct ec2_world *w)
{
	put(w, "<DescribeInstancesResponse " NAMESPACE ">");
	put_page(w, "reservationSet", put_item, "<item><instancesSet>", "</instancesSet></item>");
	put(w, "</DescribeInstancesResponse>");
}

static void
put_spot(struct ec2_world *w, struct ec2_machine *m)
{
	int user = m->end != ESPL_NEVER && starts(m->why, "Client.");
	const char *code = user                               ? "instance-terminated-by-user"
	    : m->notice != ESPL_NEVER || m->end != ESPL_NEVER ? "instance-terminated-no-capacity"
							      : "fulfilled";

	if (!m->spot)
		return;
	put(w,
	    "<item><spotInstanceRequestId>sir-1</spotInstanceRequestId><instanceId>%s</instanceId>"
	    "<status><code>%s</code>",
	    m->id, code);
	put_stamp(w, "updateTime",
	    m->notice != ESPL_NEVER && !user ? m->notice
		: m->end != ESPL_NEVER       ? m->end
					     : m->launch,
	    iso);
	put(w, "</status></item>");
}

static void
describe_spots(struct ec2_world *w)
{
	put(w, "<DescribeSpotInstanceRequestsResponse>");
	put_page(w, "spotInstanceRequestSet", put_spot, "", "");
	put(w, "</DescribeSpotInstanceRequestsResponse>");
}

static void
describe_prices(struct ec2_world *w)
{
	int y = 0, mo = 0, d = 0, h = 0, mi = 0, s = 0;
	struct tm tm = { 0 };
	espl_time begin;

	(void)sscanf(get(w, "StartTime"), "%d-%d-%dT%d:%d:%d", &y, &mo, &d, &h, &mi, &s);
	tm.tm_year = y - 1900;
	tm.tm_mon = mo - 1;
	tm.tm_mday = d;
	tm.tm_hour = h;
	tm.tm_min = mi;
	tm.tm_sec = s;
	begin = ((espl_time)timegm(&tm) - EC2_UTC_START) * S;
	put(w, "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet>");
	for (uint32_t i = w->price_count; i-- > 0;) {
		if (w->prices[i].from > now_of(w))
			continue;
		for (unsigned zone = 0; zone < EC2_ZONES; zone++) {
			put(w,
			    "<item><availabilityZone>eu-central-1%c</"
			    "availabilityZone><instanceType>"
			    "g5.xlarge</instanceType><spotPrice>%" PRId64 ".%06" PRId64
			    "</spotPrice>",
			    (char)('a' + zone), w->prices[i].usd_hour / 1000000,
			    w->prices[i].usd_hour % 1000000);
			put_stamp(w, "timestamp", w->prices[i].from, iso);
			put(w, "</item>");
		}
		if (w->prices[i].from <= begin)
			break; /* the one that was in force then */
	}
	put(w, "</spotPriceHistorySet><nextToken/></DescribeSpotPriceHistoryResponse>");
}

static void
terminate(struct ec2_world *w, struct espl_http_reply *reply)
{
	const char *id = get(w, "InstanceId.1");
	struct ec2_machine *m = NULL;
	const char *before;

	for (uint32_t i = 0; i < w->count; i++)
		if (strcmp(w->machines[i].id, id) == 0)
			m = &w->machines[i];
	if (m == NULL || now_of(w) < m->launch + m->lag / 2 ||
	    (m->end != ESPL_NEVER && now_of(w) >= m->end + FORGET)) {
		refuse(w, reply, 400, "InvalidInstanceID.NotFound");
		return;
	}
	before = ec2_world_state(m, now_of(w));
	if (m->end == ESPL_NEVER)
		ec2_world_end(w, m, "Client.UserInitiatedShutdown");
	put(w,
	    "<TerminateInstancesResponse><instancesSet><item><instanceId>%s</instanceId>"
	    "<previousState><name>%s</name></previousState><currentState><name>shutting-down</name>"
	    "</currentState></item></instancesSet></TerminateInstancesResponse>",
	    id, before);
}

/* ---- RunInstances -------------------------------------------------------------------------- */

static void
decode_base64(const char *text, char *to)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = 0, count = 0;

	for (; *text != '\0' && *text != '='; text++) {
		bits = bits << 6 | (uint32_t)(strchr(digits, *text) - digits);
		if (++count % 4 == 0) {
			*to++ = (char)(bits >> 16);
			*to++ = (char)(bits >> 8);
			*to++ = (char)bits;
		}
	}
	if (count % 4 == 3) {
		*to++ = (char)(bits >> 10);
		*to++ = (char)(bits >> 2);
	} else if (count % 4 == 2) {
		*to++ = (char)(bits >> 4);
	}
	*to = '\0';
}

static void
read_switch(struct ec2_machine *m, const char *user_data)
{
	const char *orphan, *most;

	m->user_data = malloc(strlen(user_data) + 4);
	decode_base64(user_data, m->user_data);
	orphan = strstr(m->user_data, "-lt ");
	most = orphan != NULL ? strstr(orphan + 4, "-lt ") : NULL;
	if (most == NULL || strstr(m->user_data, "poweroff") == NULL)
		return;
	m->orphan_s = strtoll(orphan + 4, NULL, 10);
	m->most_s = strtoll(most + 4, NULL, 10);
}

static struct ec2_machine *
make_machine(struct ec2_world *w, const char *digest)
{
	struct ec2_machine *m = &w->machines[w->count];
	const char *subnet = get(w, "SubnetId");
	espl_time now = now_of(w) / S * S;

	*m = (struct ec2_machine){ .launch = now,
		.running = now + ec2_world_span(w, w->boot_most),
		.end = ESPL_NEVER,
		.stopped = ESPL_NEVER,
		.notice = ESPL_NEVER,
		.forgotten = ESPL_NEVER,
		.shown_pending = now,
		.shown_end = ESPL_NEVER,
		.agent_from = ESPL_NEVER,
		.agent_until = ESPL_NEVER,
		.late = ec2_world_span(w, w->late_most),
		.lag = ec2_world_span(w, w->lag_most),
		.wants_spot = strcmp(get(w, "InstanceMarketOptions.MarketType"), "spot") == 0,
		.digest = strdup(digest) };
	m->spot = m->wants_spot && !w->on_demand;
	(void)snprintf(m->id, sizeof m->id, "i-%u", ++w->count);
	(void)snprintf(m->token, sizeof m->token, "%s", get(w, "ClientToken"));
	(void)snprintf(m->type, sizeof m->type, "%s", get(w, "InstanceType"));
	(void)snprintf(m->zone, sizeof m->zone, "eu-central-1%c", subnet[strlen(subnet) - 1]);
	for (uint32_t i = 0; i < w->form_count; i++)
		if (starts(w->names[i], "TagSpecification.1.Tag.") &&
		    strcmp(w->values[i], "espalier:run") == 0) {
			(void)snprintf(m->run, sizeof m->run, "%s", w->values[i + 1]);
			m->tagged = 1;
		}
	if (!w->without_user_data)
		read_switch(m, get(w, "UserData"));
	return m;
}

static const char *
room_wrong(struct ec2_world *w)
{
	uint32_t vcpus = 4;
	int spot = strcmp(get(w, "InstanceMarketOptions.MarketType"), "spot") == 0;

	if (now_of(w) < w->dry_until)
		return "InsufficientInstanceCapacity";
	for (uint32_t i = 0; i < w->count; i++)
		vcpus += w->machines[i].end == ESPL_NEVER ? 4 : 0;
	if (vcpus > w->vcpus)
		return spot ? "MaxSpotInstanceCountExceeded" : "VcpuLimitExceeded";
	return w->count == EC2_MACHINES ? "InstanceLimitExceeded" : NULL;
}

static void
run_instances(struct ec2_world *w, struct espl_http_reply *reply, const char *digest)
{
	const char *token = get(w, "ClientToken"), *wrong, *subnet = get(w, "SubnetId");
	struct ec2_machine *m = ec2_world_machine(w, token);

	w->runs++;
	w->last_run = now_of(w);
	if (m != NULL && m->end != ESPL_NEVER && now_of(w) >= m->end + TOKENS_LAST)
		m = NULL;
	if (m != NULL && m->zone[strlen(m->zone) - 1] != subnet[strlen(subnet) - 1]) {
		w->token_zones++;
		m = NULL;
	}
	if (m != NULL && strcmp(m->digest, digest) != 0) {
		refuse(w, reply, 400, "IdempotentParameterMismatch");
		return;
	}
	wrong = m == NULL ? room_wrong(w) : NULL;
	if (wrong != NULL) {
		refuse(w, reply, wrong[0] == 'I' && wrong[1] == 'n' ? 500 : 400, wrong);
		return;
	}
	if (m == NULL)
		m = make_machine(w, digest);
	put(w, "<RunInstancesResponse><instancesSet>");
	put_item(w, m);
	put(w, "</instancesSet></RunInstancesResponse>");
}

/* ---- requests ------------------------------------------------------------------------------ */

static enum ec2_fault
fault_of(struct ec2_world *w, const char *action)
{
	for (uint32_t i = 0; i < w->script_count; i++) {
		struct ec2_script *s = &w->scripts[i];

		if ((s->action != NULL && strcmp(s->action, action) != 0) || now_of(w) >= s->until)
			continue;
		if (s->nth == 0 || --s->nth == 0) {
			if (s->nth == 0 && s->until == ESPL_NEVER)
				s->until = 0; /* once */
			return s->fault;
		}
	}
	return EC2_FINE;
}

static void
perform(struct ec2_world *w, const char *action, struct espl_http_reply *reply, const char *body)
{
	int is_run = strcmp(action, "RunInstances") == 0;
	int is_end = strcmp(action, "TerminateInstances") == 0;

	ec2_world_settle(w);
	w->used = 0;
	if (take_token(w,
		is_run       ? 0
		    : is_end ? 1
			     : 2,
		is_run ? 5 : 100,
		is_run       ? 2
		    : is_end ? 5
			     : 20) != 0) {
		w->run_denied += is_run;
		refuse(w, reply, 503, "RequestLimitExceeded");
	} else if (is_run && strcmp(get(w, "DryRun"), "true") == 0) {
		w->dry_runs++;
		refuse(w, reply, 412, "DryRunOperation");
	} else if (is_run) {
		run_instances(w, reply, body);
	} else if (is_end) {
		terminate(w, reply);
	} else if (strcmp(action, "DescribeInstances") == 0) {
		describe_instances(w);
	} else if (strcmp(action, "DescribeSpotInstanceRequests") == 0) {
		describe_spots(w);
	} else if (strcmp(action, "DescribeSpotPriceHistory") == 0) {
		describe_prices(w);
	} else if (strcmp(action, "GetCallerIdentity") == 0) {
		put(w,
		    "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>%s</Account>"
		    "</GetCallerIdentityResult></GetCallerIdentityResponse>",
		    w->account);
	} else if (strcmp(action, "DescribeInstanceTypes") == 0) {
		put(w, "<DescribeInstanceTypesResponse><instanceTypeSet>");
		for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
			put(w,
			    "<item><instanceType>%s</instanceType><vCpuInfo><defaultVCpus>%u"
			    "</defaultVCpus></vCpuInfo></item>",
			    sizes[i].name, sizes[i].vcpus);
		put(w, "</instanceTypeSet></DescribeInstanceTypesResponse>");
	} else if (strcmp(action, "DescribeInstanceTypeOfferings") == 0) {
		put(w, "<DescribeInstanceTypeOfferingsResponse><instanceTypeOfferingSet>");
		for (unsigned k = 0; k < 2 * EC2_ZONES; k++)
			put(w,
			    "<item><instanceType>%s</instanceType><location>eu-central-1%c"
			    "</location></item>",
			    sizes[k % 2].name, (char)('a' + k / 2));
		put(w, "</instanceTypeOfferingSet></DescribeInstanceTypeOfferingsResponse>");
	} else if (strcmp(action, "DescribeSubnets") == 0) {
		put(w, "<DescribeSubnetsResponse><subnetSet>");
		for (unsigned zone = 0; zone < EC2_ZONES; zone++)
			put(w,
			    "<item><subnetId>subnet-%c</subnetId><availabilityZone>eu-central-1%c"
			    "</availabilityZone><defaultForAz>true</defaultForAz></item>",
			    (char)('a' + zone), (char)('a' + zone));
		put(w, "</subnetSet></DescribeSubnetsResponse>");
	} else {
		w->unknown++;
		refuse(w, reply, 400, "InvalidAction");
	}
}

void
ec2_world_answer(void *ctx, const struct espl_http *request, struct espl_http_reply *reply)
{
	static const char *const codes[] = { [EC2_ERROR] = "InternalError",
		[EC2_ERROR_AFTER] = "InternalError",
		[EC2_THROTTLED] = "RequestLimitExceeded",
		[EC2_EXPIRED] = "ExpiredToken",
		[EC2_SKEWED] = "AuthFailure" };
	struct ec2_world *w = ctx;
	time_t utc = (time_t)(EC2_UTC_START + now_of(w) / S);
	struct tm tm;
	char action[60];
	enum ec2_fault fault;

	read_form(w, request->body, request->body_size);
	(void)snprintf(action, sizeof action, "%s", get(w, "Action"));
	w->requests++;
	if (request->sign != NULL && strstr(request->sign, ":servicequotas") != NULL) {
		w->used = 0;
		put(w, "{\"Quota\": {\"QuotaName\": \"of vCPUs\", \"Value\": %u.0}}", w->vcpus);
		w->quotas++;
		reply->body = w->answer;
		reply->body_size = w->used;
		return;
	}
	fault = fault_of(w, action);
	if (fault == EC2_FINE || fault == EC2_CUT_AFTER || fault == EC2_ERROR_AFTER ||
	    fault == EC2_HALF)
		perform(w, action, reply, request->body);
	else
		w->used = 0;
	if (fault == EC2_CUT_BEFORE || fault == EC2_CUT_AFTER) {
		reply->status = ESPL_E_REMOTE;
		reply->code = 0;
		reply->text = "the connection was lost";
		return;
	}
	if (fault == EC2_ERROR || fault == EC2_ERROR_AFTER)
		refuse(w, reply, 500, codes[fault]);
	else if (fault == EC2_THROTTLED || fault == EC2_EXPIRED || fault == EC2_SKEWED)
		refuse(w, reply, fault == EC2_THROTTLED ? 503 : 400, codes[fault]);
	else if (fault == EC2_UNAVAILABLE || fault == EC2_GARBAGE)
		put(w, "<html>Sorry</html");
	if (fault == EC2_UNAVAILABLE)
		reply->code = 503;
	utc += fault == EC2_SKEWED ? 900 : 0;
	(void)gmtime_r(&utc, &tm);
	(void)strftime(w->date, sizeof w->date, "Date: %a, %d %b %Y %H:%M:%S GMT", &tm);
	w->headers[0] = w->date;
	reply->headers = w->headers;
	reply->header_count = 1;
	reply->body = w->answer;
	reply->body_size = fault == EC2_HALF ? w->used / 2 : w->used;
}
