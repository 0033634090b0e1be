/* test_aws.c - cloud aws without a network: requests, answers, classes of errors, and leases. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_aws.h"

#define S ESPL_SECOND

static const struct aws_limits limits = { 300 * S, 600 * S, 0 };

/* ---- requests ---- */

Test(aws, request)
{
	struct aws_wish wish = { .token = "t-1",
		.run = "r & ü",
		.driver = "me@here:/run",
		.type = "g5.xlarge",
		.image = "ami-1",
		.subnet = "subnet-1",
		.group = "sg-1",
		.key_name = "",
		.user_data = "ab",
		.spot = 1,
		.max_price_hour = 1006000 };
	struct aws_query query, again;

	cloud_aws_query_run(&query, &wish);
	cloud_aws_query_run(&again, &wish);
	cr_assert(!query.failed);
	cr_assert_str_eq(query.text, again.text); /* EC2 refuses a token with other parameters */
	cr_assert(strstr(query.text, "Action=RunInstances&Version=2016-11-15&ClientToken=t-1") ==
	    query.text);
	cr_assert_not_null(strstr(query.text, "Value=r%20%26%20%C3%BC"));
	cr_assert_not_null(strstr(query.text, "&SecurityGroupId.1=sg-1&"));
	cr_assert_not_null(strstr(query.text, "SpotOptions.MaxPrice=1.006000&"));
	cr_assert_not_null(strstr(query.text, "InstanceInitiatedShutdownBehavior=terminate"));
	cr_assert_null(strstr(query.text, "KeyName"));
	cr_assert_not_null(strstr(query.text, "UserData=YWI%3D"));
	cloud_aws_query_free(&query);
	cloud_aws_query_free(&again);
	wish.spot = 0;
	cloud_aws_query_run(&query, &wish);
	cr_assert_null(strstr(query.text, "Market"));
	cr_assert_null(strstr(query.text, "spot-instances-request"));
	cloud_aws_query_free(&query);
}

/* ---- answers ---- */

static struct aws_machine
read_machine(const char *xml)
{
	struct aws_element *e = cloud_aws_answer_parse(xml, strlen(xml));
	struct aws_machine m;

	cr_assert_not_null(e);
	cloud_aws_answer_machine(cloud_aws_answer_find(e, "instancesSet/item"), 77, &m);
	cloud_aws_answer_free(e);
	return m;
}

Test(aws, machine)
{
	struct aws_machine m = read_machine(
	    "<?xml version=\"1.0\"?><R xmlns=\"x\"><more/><instancesSet> <item>"
	    "<instanceState><code>272</code><name> running\n</name></instanceState>"
	    "<instanceId>i-1</instanceId><clientToken>t&amp;1</clientToken><odd><a/></odd>"
	    "<launchTime>2026-01-02T03:04:05.000Z</launchTime>"
	    "<ipAddress>1.2.3.4</ipAddress><instanceLifecycle>spot</instanceLifecycle>"
	    "<tagSet><item><value>r</value><key>espalier:run</key></item></tagSet>"
	    "</item></instancesSet></R>");

	cr_assert_str_eq(m.id, "i-1");
	cr_assert_str_eq(m.token, "t&1");
	cr_assert_str_eq(m.run, "r");
	cr_assert_str_eq(m.public_address, "1.2.3.4");
	cr_assert_eq(m.state, AWS_RUNNING);
	cr_assert(m.spot);
	cr_assert_eq(m.launch_s, 1767323045);
	m = read_machine("<R><instancesSet><item><instanceState><name>terminated</name>"
			 "</instanceState><reason>User initiated (2026-01-02 03:04:05 GMT)</reason>"
			 "<stateReason><code>Client.UserInitiatedShutdown</code></stateReason>"
			 "</item></instancesSet></R>");
	cr_assert_eq(m.state, AWS_ENDED);
	cr_assert_eq(m.end_s, 1767323045);
	cr_assert_str_eq(m.id, "");
	m = read_machine("<R><instancesSet><item><instanceId>i-1</instanceId></item></instancesSet>"
			 "</R>");
	cr_assert_eq(m.state, 0);
}

/* As slowly as its size demands: ten megabytes of lines in one element. */
Test(aws, long_text, .timeout = 20)
{
	static const char line[] = "and so on and so on and so on and so on\n";
	size_t lines = 10000000 / (sizeof line - 1), size = lines * (sizeof line - 1);
	char *xml = malloc(size + 20), *at = xml;
	struct aws_element *e;

	at += sprintf(at, "<a>");
	for (size_t i = 0; i < lines; i++, at += sizeof line - 1)
		memcpy(at, line, sizeof line - 1);
	at += sprintf(at, "</a>");
	e = cloud_aws_answer_parse(xml, (size_t)(at - xml));
	cr_assert_eq(strlen(cloud_aws_answer_text(e, "")), size - 1);
	cloud_aws_answer_free(e);
	free(xml);
}

Test(aws, bad_xml)
{
	static const char *const bad[] = { "", "<a>", "<a></b>", "no", "<a/><b/>", "<a>&x;</a>" };
	char *deep = calloc(1, 1000), *at = deep;

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		cr_assert_null(cloud_aws_answer_parse(bad[i], strlen(bad[i])), "%s", bad[i]);
	for (int i = 0; i < 100; i++)
		at += sprintf(at, "<a>");
	for (int i = 0; i < 100; i++)
		at += sprintf(at, "</a>");
	cr_assert_null(cloud_aws_answer_parse(deep, strlen(deep)));
	free(deep);
}

Test(aws, values)
{
	cr_assert_eq(cloud_aws_answer_money("1.006000"), 1006000);
	cr_assert_eq(cloud_aws_answer_money("0.0416"), 41600);
	cr_assert_eq(cloud_aws_answer_money("12"), 12000000);
	cr_assert_eq(cloud_aws_answer_money(""), -1);
	cr_assert_eq(cloud_aws_answer_money("-1"), -1);
	cr_assert_eq(cloud_aws_answer_money("1e3"), -1);
	cr_assert_eq(cloud_aws_answer_time("yesterday"), 0);
	cr_assert_eq(cloud_aws_answer_time("1970-01-01 00:00:07 GMT"), 7);
}

Test(aws, date)
{
	const char *headers[] = { "Server: x", "date: Fri, 02 Jan 2026 03:04:05 GMT" };
	struct espl_http_reply reply = ESPL_INIT(struct espl_http_reply);

	cr_assert_eq(cloud_aws_answer_date(&reply), 0);
	reply.headers = headers;
	reply.header_count = 2;
	cr_assert_eq(cloud_aws_answer_date(&reply), 1767323045);
	headers[1] = "Date: Fri, 02 Foo 2026 03:04:05 GMT";
	cr_assert_eq(cloud_aws_answer_date(&reply), 0);
}

static enum aws_class
class_of(espl_status status, uint32_t http, const char *body)
{
	struct espl_http_reply reply = ESPL_INIT(struct espl_http_reply);
	struct aws_element *document;
	char text[AWS_TEXT];
	enum aws_class class;

	reply.status = status;
	reply.code = http;
	reply.body = body;
	reply.body_size = strlen(body);
	reply.text = "cut";
	class = cloud_aws_answer_reply(&reply, "RunInstances", &document, text);
	cr_assert_eq(document != NULL, class == AWS_FINE);
	cr_assert(class == AWS_FINE || text[0] != '\0');
	cloud_aws_answer_free(document);
	return class;
}

/* A listing without a list says nothing of machines. */
Test(aws, no_list)
{
	static const char *const bodies[] = { "<DescribeInstancesResponse/>",
		"<DescribeInstancesResponse><requestId>1</requestId></DescribeInstancesResponse>",
		"<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>" };

	for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
		struct espl_http_reply reply = ESPL_INIT(struct espl_http_reply);
		struct aws_element *document;
		char text[AWS_TEXT];

		reply.code = 200;
		reply.body = bodies[i];
		reply.body_size = strlen(bodies[i]);
		cr_assert_eq(cloud_aws_answer_reply(&reply, "DescribeInstances", &document, text),
		    i < 2 ? AWS_UNKNOWN : AWS_FINE);
		cloud_aws_answer_free(document);
	}
}

#define ERROR(code_) \
	"<Response><Errors><Error><Code>" code_ \
	"</Code><Message>m</Message></Error></Errors></Response>"

Test(aws, classes)
{
	cr_assert_eq(class_of(ESPL_OK, 200, "<RunInstancesResponse/>"), AWS_FINE);
	/* The code counts, and not the status. */
	cr_assert_eq(class_of(ESPL_OK, 500, ERROR("InsufficientInstanceCapacity")), AWS_CAPACITY);
	cr_assert_eq(class_of(ESPL_OK, 503, ERROR("RequestLimitExceeded")), AWS_AGAIN);
	cr_assert_eq(class_of(ESPL_OK, 400, ERROR("ThrottlingException")), AWS_AGAIN);
	cr_assert_eq(class_of(ESPL_OK, 400, ERROR("MaxSpotInstanceCountExceeded")), AWS_QUOTA);
	cr_assert_eq(class_of(ESPL_OK, 400, ERROR("IdempotentParameterMismatch")), AWS_MISMATCH);
	cr_assert_eq(class_of(ESPL_OK, 400, ERROR("InvalidInstanceID.NotFound")), AWS_MISSING);
	cr_assert_eq(class_of(ESPL_OK, 400, ERROR("InvalidAMIID.NotFound")), AWS_REFUSED);
	cr_assert_eq(class_of(ESPL_OK, 403, ERROR("NeverHeardOf")), AWS_REFUSED);
	/* Nothing certain follows from these. */
	cr_assert_eq(class_of(ESPL_OK, 500, ERROR("NeverHeardOf")), AWS_UNKNOWN);
	cr_assert_eq(class_of(ESPL_OK, 500, "<html>Sorry"), AWS_UNKNOWN);
	cr_assert_eq(class_of(ESPL_OK, 200, "<html></html>"), AWS_UNKNOWN);
	cr_assert_eq(class_of(ESPL_OK, 200, "<RunInstancesResponse><half>"), AWS_UNKNOWN);
	cr_assert_eq(class_of(ESPL_E_REMOTE, 0, ""), AWS_UNKNOWN);
	cr_assert_eq(class_of(ESPL_E_LIMIT, 0, ""), AWS_UNKNOWN);
}

/* ---- leases ---- */

static struct aws_lease
begin(void)
{
	struct aws_lease lease = { .serial = 1 };

	cloud_aws_state_begin(&lease, 0);
	cr_assert_eq(cloud_aws_state_duty(&lease, 0), AWS_SEND_RUN);
	lease.step = AWS_ASKED;
	lease.busy = 1;
	cr_assert_eq(cloud_aws_state_duty(&lease, 0), AWS_NOTHING);
	return lease;
}

static struct aws_machine
machine(enum aws_state state)
{
	struct aws_machine m = { .id = "i-1",
		.state = state,
		.spot = 1,
		.launch_s = 1000,
		.seen_s = 1000 };

	(void)snprintf(m.public_address, sizeof m.public_address, "1.2.3.4");
	return m;
}

static struct aws_lease
begin_ready(void)
{
	struct aws_lease lease = begin();
	struct aws_machine m = machine(AWS_PENDING);

	cloud_aws_state_made(&lease, &m, 1, S);
	m.state = AWS_RUNNING;
	cloud_aws_state_listed(&lease, &m, &limits, 2 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 2 * S), AWS_PROBE);
	cloud_aws_state_reached(&lease, 1, "", &limits, 3 * S);
	lease.reported = ESPL_NODE_READY;
	lease.used = 1;
	cr_assert_eq(cloud_aws_state_duty(&lease, 1000 * S), AWS_NOTHING);
	return lease;
}

Test(aws, failures)
{
	static const struct {
		enum aws_class class;
		espl_reason reason;
	} ends[] = { { AWS_CAPACITY, ESPL_BY_CAPACITY }, { AWS_QUOTA, ESPL_BY_QUOTA },
		{ AWS_REFUSED, ESPL_BY_REFUSAL } };

	for (size_t i = 0; i < 3; i++) {
		struct aws_lease lease = begin();

		cloud_aws_state_failed(&lease, ends[i].class, "why", S);
		cr_assert_eq(cloud_aws_state_duty(&lease, S), AWS_TELL_END);
		cr_assert_eq(lease.end_reason, ends[i].reason);
		cr_assert_eq(cloud_aws_state_charge(&lease, 1, NULL, 0), 0);
	}
}

/* An answer that was lost is followed by the same request, and pauses grow. */
Test(aws, unknown_outcome)
{
	struct aws_lease lease = begin();
	espl_time at = 0;

	for (int i = 0; i < 8; i++) {
		cloud_aws_state_failed(&lease, AWS_UNKNOWN, "cut", at);
		cr_assert_eq(cloud_aws_state_duty(&lease, at), AWS_NOTHING);
		cr_assert(lease.due - at <= 30 * S && lease.due > at);
		at = lease.due;
		cr_assert_eq(cloud_aws_state_duty(&lease, at), AWS_SEND_RUN);
		lease.step = AWS_ASKED;
	}
	/* Keys that have expired meanwhile do not prove that there is no machine. */
	cloud_aws_state_failed(&lease, AWS_REFUSED, "AuthFailure", at);
	cr_assert_eq(lease.step, AWS_LOST);
	cloud_aws_state_listed(&lease, NULL, &limits, at + 299 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, at + 299 * S), AWS_NOTHING);
	cloud_aws_state_listed(&lease, NULL, &limits, at + 300 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, at + 300 * S), AWS_TELL_END);
	cr_assert_eq(lease.end_reason, ESPL_BY_REFUSAL);
}

Test(aws, released_while_unknown)
{
	struct aws_lease lease = begin();
	struct aws_machine m = machine(AWS_PENDING);

	cloud_aws_state_failed(&lease, AWS_UNKNOWN, "cut", S);
	cloud_aws_state_release(&lease, 2 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 100 * S), AWS_NOTHING); /* not sent again */
	cloud_aws_state_listed(&lease, &m, &limits, 101 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 101 * S), AWS_SEND_TERMINATE);
	cloud_aws_state_terminated(&lease, AWS_FINE, "running", 102 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 103 * S), AWS_NOTHING);
	m.state = AWS_ENDED;
	(void)snprintf(m.why, sizeof m.why, "Client.UserInitiatedShutdown");
	cloud_aws_state_listed(&lease, &m, &limits, 110 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 110 * S), AWS_TELL_END);
	cr_assert_eq(lease.end_reason, ESPL_BY_USER);
}

/* EC2 keeps it pending: it is not waited for without end. */
Test(aws, never_starts)
{
	struct aws_lease lease = begin();
	struct aws_machine m = machine(AWS_PENDING);

	cloud_aws_state_made(&lease, &m, 1, S);
	cloud_aws_state_listed(&lease, &m, &limits, 600 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 600 * S), AWS_NOTHING);
	cloud_aws_state_listed(&lease, &m, &limits, 601 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 601 * S), AWS_SEND_TERMINATE);
	m.state = AWS_ENDED;
	cloud_aws_state_listed(&lease, &m, &limits, 610 * S);
	cr_assert_eq(lease.end_reason, ESPL_BY_FAULT);
}

/* The token was used: an earlier request was accepted, and its machine is looked for. */
Test(aws, mismatch)
{
	struct aws_lease lease = begin();
	struct aws_machine m = machine(AWS_RUNNING);

	cloud_aws_state_failed(&lease, AWS_MISMATCH, "mismatch", S);
	cloud_aws_state_listed(&lease, NULL, &limits, 200 * S);
	cr_assert(!lease.over);
	cloud_aws_state_listed(&lease, &m, &limits, 201 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 201 * S), AWS_SEND_TERMINATE);
}

Test(aws, on_demand_in_place_of_spot)
{
	struct aws_lease lease = begin();
	struct aws_machine m = machine(AWS_PENDING);

	m.spot = 0;
	cloud_aws_state_made(&lease, &m, 1, S);
	cr_assert_eq(cloud_aws_state_duty(&lease, S), AWS_SEND_TERMINATE);
	m.state = AWS_ENDED;
	cloud_aws_state_listed(&lease, &m, &limits, 9 * S);
	cr_assert(lease.over);
	cr_assert_eq(lease.end_reason, ESPL_BY_CAPACITY);
}

/* A state that the answer does not tell, or that is new, is not an end. */
Test(aws, no_state)
{
	struct aws_lease lease = begin_ready();
	struct aws_machine m = machine(AWS_RUNNING);

	m.state = 0;
	cloud_aws_state_listed(&lease, &m, &limits, 9 * S);
	cr_assert(!lease.over && !lease.ending);
	cr_assert_eq(cloud_aws_state_duty(&lease, 9 * S), AWS_NOTHING);
}

/* Missing from listings is not ended: TerminateInstances, which ends it, must not know it either.
 */
Test(aws, missing)
{
	struct aws_lease lease = begin_ready();
	struct aws_machine m = machine(AWS_PENDING);

	cloud_aws_state_listed(&lease, NULL, &limits, 200 * S);
	cr_assert(!lease.over);
	cloud_aws_state_listed(&lease, NULL, &limits, 400 * S);
	cr_assert(!lease.over);
	cloud_aws_state_listed(&lease, &m, &limits, 410 * S); /* an answer of the past */
	cr_assert(lease.running);
	cloud_aws_state_listed(&lease, NULL, &limits, 450 * S);
	cloud_aws_state_listed(&lease, NULL, &limits, 509 * S);
	cr_assert(!lease.over);
	cr_assert_eq(cloud_aws_state_duty(&lease, 509 * S), AWS_NOTHING);
	cloud_aws_state_listed(&lease, NULL, &limits, 510 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 510 * S), AWS_SEND_TERMINATE);
	cloud_aws_state_terminated(&lease, AWS_AGAIN, "", 511 * S);
	cr_assert(!lease.over);
	cloud_aws_state_listed(&lease, &m, &limits, 512 * S); /* it is there again */
	cr_assert_eq(cloud_aws_state_duty(&lease, 600 * S), AWS_NOTHING);
	cloud_aws_state_listed(&lease, NULL, &limits, 600 * S);
	cloud_aws_state_listed(&lease, NULL, &limits, 660 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 660 * S), AWS_SEND_TERMINATE);
	cloud_aws_state_terminated(&lease, AWS_MISSING, "", 661 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 661 * S), AWS_TELL_END);
	cr_assert_eq(lease.end_reason, ESPL_BY_FAULT);
}

Test(aws, stopped_and_unreachable)
{
	struct aws_lease lease = begin_ready();
	struct aws_machine m = machine(AWS_STOPPED);

	cloud_aws_state_listed(&lease, &m, &limits, 9 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 9 * S), AWS_SEND_TERMINATE);
	lease = begin_ready();
	lease.reported = ESPL_NODE_BOOTING;
	cloud_aws_state_reached(&lease, 0, "refused", &limits, 600 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 604 * S), AWS_PROBE);
	cloud_aws_state_reached(&lease, 0, "refused", &limits, 601 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 605 * S), AWS_SEND_TERMINATE);
	cr_assert_str_eq(lease.why, "refused");
}

/* A machine that EC2 ends in its first hour is free: after a notice it is not ended by us. */
Test(aws, notice)
{
	static const struct {
		int64_t notice_s;
		enum aws_duty duty;
	} table[] = { { 1000 + 3479, AWS_NOTHING }, { 1000 + 3480, AWS_SEND_TERMINATE } };

	for (size_t i = 0; i < 2; i++) {
		struct aws_lease lease = begin_ready();
		int64_t at = table[i].notice_s;

		cr_assert(!cloud_aws_state_spot(&lease, "fulfilled", 1000, at, 50 * S));
		cr_assert(cloud_aws_state_spot(&lease, "instance-terminated-no-capacity", at,
		    at + 20, 60 * S));
		cr_assert_eq(lease.ends_at, 160 * S);
		cr_assert(!cloud_aws_state_spot(&lease, "instance-terminated-no-capacity", at,
		    at + 25, 65 * S));
		/* An answer without a status says nothing. */
		cr_assert(!cloud_aws_state_spot(&lease, "", 0, at + 26, 66 * S));
		cloud_aws_state_release(&lease, 70 * S);
		cr_assert_eq(cloud_aws_state_duty(&lease, 70 * S), table[i].duty);
		/* It still runs five minutes after its end. */
		cr_assert_eq(cloud_aws_state_duty(&lease, 460 * S), AWS_SEND_TERMINATE);
	}
}

/* A notice whose time cannot be read is one of now. */
Test(aws, notice_without_a_time)
{
	struct aws_lease lease = begin_ready();

	cr_assert(cloud_aws_state_spot(&lease, "instance-terminated-by-price", 0, 1500, 60 * S));
	cr_assert_eq(lease.ends_at, 180 * S);
	cloud_aws_state_release(&lease, 70 * S);
	cr_assert_eq(cloud_aws_state_duty(&lease, 70 * S), AWS_NOTHING);
}

Test(aws, charge)
{
	static const struct aws_price prices[] = { { 500, 360000 }, { 1100, 720000 } };
	struct aws_lease lease = begin_ready();
	struct aws_machine m = machine(AWS_ENDED);

	(void)cloud_aws_state_spot(&lease, "instance-terminated-no-capacity", 1080, 1080, 60 * S);
	(void)snprintf(m.why, sizeof m.why, "Server.SpotInstanceTermination");
	m.seen_s = 1200;
	cloud_aws_state_listed(&lease, &m, &limits, 200 * S);
	cr_assert_eq(lease.end_reason, ESPL_BY_PROVIDER);
	cr_assert_eq(cloud_aws_state_charge(&lease, 1, prices, 2), 0); /* the first hour */
	lease.interrupted = 0;
	cr_assert_eq(cloud_aws_state_charge(&lease, 1, prices, 2), 100 * 100 + 100 * 200);
	cr_assert_eq(cloud_aws_state_charge(&lease, 0, prices, 1), 200 * 100);
	lease.end_s = 1001; /* a minute at least */
	cr_assert_eq(cloud_aws_state_charge(&lease, 0, prices, 1), 60 * 100);
	cr_assert_eq(cloud_aws_state_charge(&lease, 1, prices + 1, 1), -1);
	cr_assert_eq(cloud_aws_state_charge(&lease, 1, NULL, 0), -1);
	lease.end_s = 0;
	cr_assert_eq(cloud_aws_state_charge(&lease, 1, prices, 2), -1);
}

/* EC2 does not tell when a machine began to run: what is charged is counted from the last listing
 * that showed it pending, and never less than EC2 counts. */
Test(aws, billed_from)
{
	static const struct aws_price price = { 0, 3600 };
	struct aws_lease lease = begin();
	struct aws_machine m = machine(AWS_PENDING);

	cloud_aws_state_made(&lease, &m, 1, S);
	cr_assert_eq(lease.billed_s, 1000);
	m.seen_s = 1010;
	cloud_aws_state_listed(&lease, &m, &limits, 10 * S);
	m.state = AWS_RUNNING;
	m.seen_s = 1015;
	cloud_aws_state_listed(&lease, &m, &limits, 15 * S);
	m.state = AWS_PENDING; /* an answer of the past */
	m.seen_s = 1020;
	cloud_aws_state_listed(&lease, &m, &limits, 20 * S);
	cr_assert_eq(lease.billed_s, 1010);
	m.state = AWS_ENDED;
	m.end_s = 1190;
	m.seen_s = 1200;
	cloud_aws_state_listed(&lease, &m, &limits, 200 * S);
	cr_assert_eq(cloud_aws_state_charge(&lease, 1, &price, 1), 180);

	lease = begin(); /* the driver was away: the launch is what is known */
	m = machine(AWS_RUNNING);
	m.seen_s = 5000;
	lease.step = AWS_LOST;
	cloud_aws_state_listed(&lease, &m, &limits, S);
	cr_assert_eq(lease.billed_s, 1000);

	lease = begin(); /* ended by us before it ran */
	m = machine(AWS_PENDING);
	cloud_aws_state_made(&lease, &m, 1, S);
	cloud_aws_state_release(&lease, S);
	cloud_aws_state_terminated(&lease, AWS_FINE, "pending", 2 * S);
	m.state = AWS_ENDED;
	cloud_aws_state_listed(&lease, &m, &limits, 9 * S);
	cr_assert_eq(cloud_aws_state_charge(&lease, 1, &price, 1), 0);
}

/* If EC2 does not report the end, the first listing that shows it counts; for an interruption at
 * most five minutes after its notice. */
Test(aws, billed_until)
{
	static const struct {
		int64_t notice_s, seen_s, end_s;
		const char *why;
	} table[] = {
		{ 1080, 1203, 1203, "Server.SpotInstanceTermination" },
		{ 1080, 9000, 1380, "Server.SpotInstanceTermination" },
		{ 0, 1203, 1203, "Server.SpotInstanceTermination" },
		{ 0, 9000, 9000, "Client.InstanceInitiatedShutdown" },
	};

	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		struct aws_lease lease = begin_ready();
		struct aws_machine m = machine(AWS_ENDED);

		if (table[i].notice_s != 0)
			(void)cloud_aws_state_spot(&lease, "instance-terminated-no-capacity",
			    table[i].notice_s, table[i].notice_s, 60 * S);
		(void)snprintf(m.why, sizeof m.why, "%s", table[i].why);
		m.seen_s = table[i].seen_s;
		cloud_aws_state_listed(&lease, &m, &limits, 200 * S);
		cr_assert_eq(lease.end_s, table[i].end_s, "row %zu", i);
	}
}

/* Whatever happens in whatever order, a lease that may have a machine is never taken for ended
 * without a word of EC2 or the time that listings need; and in the end it ends. */
Test(aws, random)
{
	static const enum aws_class classes[] = { AWS_AGAIN, AWS_UNKNOWN, AWS_CAPACITY, AWS_REFUSED,
		AWS_MISMATCH, AWS_UNKNOWN };
	uint32_t seed = 7;

	for (int round = 0; round < 20000; round++) {
		struct aws_lease lease = { .serial = 1 + (uint64_t)round % 10 };
		int exists = 0, ended = 0, seen_end = 0;
		espl_time now = 0, made = 0;

		cloud_aws_state_begin(&lease, 0);
		for (int step = 0; step < 400 && !lease.over; step++) {
			struct aws_machine m = machine(ended ? AWS_ENDED : AWS_RUNNING);
			enum aws_duty duty;
			uint32_t draw = (seed = seed * 1664525u + 1013904223u) >> 16;

			now += (espl_span)(draw % 7) * S;
			if (step == 200 || draw % 50 == 0)
				cloud_aws_state_release(&lease, now);
			duty = cloud_aws_state_duty(&lease, now);
			if (duty == AWS_SEND_RUN && !exists && draw % 3 == 0) { /* heard by EC2 */
				exists = 1;
				made = now;
			}
			if (duty == AWS_SEND_RUN && exists && draw % 4 == 1) {
				lease.step = AWS_ASKED;
				cloud_aws_state_made(&lease, &m, 1, now);
			} else if (duty ==
			    AWS_SEND_RUN) { /* once it exists, no capacity is no answer */
				lease.step = AWS_ASKED;
				cloud_aws_state_failed(&lease,
				    exists ? AWS_UNKNOWN : classes[draw % 6], "no", now);
			} else if (duty == AWS_SEND_TERMINATE) {
				ended |= draw % 2 == 0;
				cloud_aws_state_terminated(&lease, ended ? AWS_FINE : AWS_UNKNOWN,
				    "", now);
			} else if (draw % 2 == 0) { /* listed after five minutes for certain */
				int shown = exists && (now - made >= 300 * S || draw % 3 == 0);

				seen_end |= shown && ended;
				cloud_aws_state_listed(&lease, shown ? &m : NULL, &limits, now);
			}
			if (step > 200)
				now += 5 * S;
		}
		cr_assert(lease.over, "round %d does not end", round);
		cr_assert(!exists || (ended && seen_end), "round %d loses a machine", round);
	}
}
