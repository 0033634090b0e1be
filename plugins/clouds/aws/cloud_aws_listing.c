/* cloud_aws_listing.c - listings of machines and of spot requests, read in pages.
 *
 * One listing, by client tokens, contains all machines. Another one, of spot requests, shows which
 * of them EC2 will interrupt, two minutes in advance.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_aws.h"

#define PAUSE_MOST (60 * ESPL_SECOND)
#define QUIET 6 /* times as long between listings when nothing is about to change */

/* ---- pauses ---- */

/* While listings fail, there are fewer: EC2 limits their rate, or is away. */
static void
note_outcome(struct aws_cloud *cloud, int fine)
{
	espl_time at;
	espl_span pause;

	if (fine) {
		cloud->failures = 0;
		return;
	}
	pause = aws_number(cloud, AWS_OPT_POLL) << (cloud->failures < 9 ? cloud->failures + 1 : 10);
	cloud->failures++;
	at = cloud->host->now(cloud->host) + (pause < PAUSE_MOST ? pause : PAUSE_MOST);
	if (cloud->list_at < at)
		cloud->list_at = at;
	if (cloud->spots_at < at)
		cloud->spots_at = at;
}

/* ---- machines ---- */

/* Those of which EC2 may know a machine, up to what one filter holds. */
static void
ask_listing(struct aws_cloud *cloud)
{
	struct aws_query query;
	unsigned count = 0;

	cloud_aws_query_begin(&query, "DescribeInstances", "2016-11-15");
	cloud_aws_query_add(&query, "client-token", "Filter.1.Name");
	for (struct aws_lease *lease = cloud->leases; lease != NULL; lease = lease->next) {
		if (count == AWS_FILTER || lease->over || lease->listing == cloud->listing ||
		    (lease->step == AWS_WANTED && !lease->unsure) || lease->step == AWS_ASKED)
			continue;
		lease->listing = cloud->listing;
		lease->listed = 1;
		cloud_aws_query_add(&query, lease->token, "Filter.1.Value.%u", ++count);
	}
	cloud_aws_query_add(&query, "1000", "MaxResults");
	if (count > 0)
		(void)cloud_aws_pages(cloud, AWS_LISTING, &query);
	else
		cloud_aws_query_free(&query);
}

void
cloud_aws_list(struct aws_cloud *cloud)
{
	espl_time now = cloud->host->now(cloud->host);
	espl_span pause = aws_number(cloud, AWS_OPT_POLL);
	int quiet = 1;

	for (struct aws_lease *lease = cloud->leases; lease != NULL; lease = lease->next) {
		lease->listed = 0;
		quiet &= lease->reported == ESPL_NODE_READY && !lease->releasing &&
		    !lease->ending && lease->missing == ESPL_NEVER;
	}
	cloud->list_at = now + (quiet ? QUIET * pause : pause);
	cloud->listing++;
	cloud->found_count = 0;
	ask_listing(cloud);
}

static const struct aws_machine *
find_machine(const struct aws_cloud *cloud, const struct aws_lease *lease)
{
	for (uint32_t i = 0; i < cloud->found_count; i++)
		if (strcmp(cloud->found[i].token, lease->token) == 0)
			return &cloud->found[i];
	return NULL;
}

/* The host has saved the machine's id, or will find it in a listing again. */
static void
remove_key(const struct aws_cloud *cloud, struct aws_lease *lease)
{
	if (!lease->keyless)
		cloud_aws_hostkey_forget(cloud, lease->token);
	lease->keyless = 1;
}

/* Complete: every page came. */
static void
take_listing(struct aws_cloud *cloud)
{
	struct aws_limits limits = cloud_aws_limits(cloud);
	espl_time now = cloud->host->now(cloud->host);
	struct aws_lease *next;

	for (struct aws_lease *lease = cloud->leases; lease != NULL; lease = next) {
		next = lease->next;
		if (!lease->listed)
			continue;
		lease->listed = 0;
		cloud_aws_state_listed(lease, find_machine(cloud, lease), &limits, now);
		if (lease->step == AWS_KNOWN && !lease->over) {
			cloud_aws_tell_state(cloud, lease);
			remove_key(cloud, lease);
		}
		cloud_aws_do(cloud, lease);
	}
	cloud->found_count = 0;
	ask_listing(cloud); /* those that the filter did not hold */
}

static int
add_found(void *ctx, const struct aws_machine *m)
{
	struct aws_cloud *cloud = ctx;
	struct aws_machine *found = realloc(cloud->found, (cloud->found_count + 1) * sizeof *found);

	if (found == NULL)
		return -1;
	cloud->found = found;
	found[cloud->found_count++] = *m;
	return 0;
}

void
cloud_aws_listing_reply(struct aws_cloud *cloud, const struct espl_http_reply *reply)
{
	struct aws_element *document;
	char text[AWS_TEXT] = "";
	int more = 0;
	int fine = cloud_aws_answer_reply(reply, "DescribeInstances", &document, text) == AWS_FINE;

	if (fine && cloud_aws_answer_each(document, cloud_aws_utc(cloud), add_found, cloud) != 0)
		fine = 0;
	if (fine)
		more = cloud_aws_next(cloud, AWS_LISTING, document);
	cloud_aws_answer_free(document);
	if (more > 0)
		return;
	cloud_aws_pages_end(cloud, AWS_LISTING);
	note_outcome(cloud, fine);
	if (fine && more == 0)
		take_listing(cloud);
	else
		cloud_aws_warn(cloud, text); /* a part of a listing says nothing */
}

/* ---- spot requests ---- */

/* Of 200 machines at most; the end of others is seen in listings all the same. */
void
cloud_aws_list_spots(struct aws_cloud *cloud)
{
	struct aws_query query;
	unsigned count = 0;

	cloud->spots_at = cloud->host->now(cloud->host) + aws_number(cloud, AWS_OPT_POLL);
	cloud_aws_query_begin(&query, "DescribeSpotInstanceRequests", "2016-11-15");
	cloud_aws_query_add(&query, "instance-id", "Filter.1.Name");
	for (const struct aws_lease *lease = cloud->leases; lease != NULL; lease = lease->next)
		if (count < AWS_FILTER && !lease->over && lease->step == AWS_KNOWN &&
		    cloud_aws_is_spot(cloud, lease))
			cloud_aws_query_add(&query, lease->id, "Filter.1.Value.%u", ++count);
	cloud_aws_query_add(&query, "1000", "MaxResults");
	if (count > 0)
		(void)cloud_aws_pages(cloud, AWS_SPOTS, &query);
	else
		cloud_aws_query_free(&query);
}

static void
take_spots(struct aws_cloud *cloud, const struct aws_element *document)
{
	const struct aws_element *set = cloud_aws_answer_find(document, "spotInstanceRequestSet");
	int64_t utc_s = cloud_aws_utc(cloud);

	for (const struct aws_element *item = set != NULL ? set->first : NULL; item != NULL;
	     item = item->next) {
		const char *id = cloud_aws_answer_text(item, "instanceId");
		struct aws_lease *lease = cloud->leases;

		while (lease != NULL && (lease->step != AWS_KNOWN || strcmp(lease->id, id) != 0))
			lease = lease->next;
		if (lease != NULL && !lease->over &&
		    cloud_aws_state_spot(lease, cloud_aws_answer_text(item, "status/code"),
			cloud_aws_answer_time(cloud_aws_answer_text(item, "status/updateTime")),
			utc_s, cloud->host->now(cloud->host))) {
			cloud_aws_report(cloud, lease, ESPL_NODE_NOTICE);
			cloud->list_at = cloud->host->now(cloud->host);
		}
	}
}

void
cloud_aws_spots_reply(struct aws_cloud *cloud, const struct espl_http_reply *reply)
{
	struct aws_element *document;
	char text[AWS_TEXT] = "";
	int more = 0;
	int fine = cloud_aws_answer_reply(reply, "DescribeSpotInstanceRequests", &document, text) ==
	    AWS_FINE;

	take_spots(cloud, document);
	if (fine)
		more = cloud_aws_next(cloud, AWS_SPOTS, document);
	cloud_aws_answer_free(document);
	if (more > 0)
		return;
	cloud_aws_pages_end(cloud, AWS_SPOTS);
	note_outcome(cloud, fine);
	if (!fine)
		cloud_aws_warn(cloud, text);
}

/* ---- machines of other runs ---- */

espl_status
cloud_aws_owned(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	struct aws_cloud *cloud = self;
	struct aws_query query;

	if (cloud->asked[AWS_OWNED] != NULL)
		return espl_fail(error, ESPL_E_BUSY,
		    "an earlier request has not been answered yet");
	cloud_aws_query_listing(&query, run);
	if (cloud_aws_pages(cloud, AWS_OWNED, &query) != 0)
		return espl_fail(error, ESPL_E_REMOTE, "%s", cloud->warned);
	cloud->owned_what = what;
	return ESPL_OK;
}

static int
report_owned(void *ctx, const struct aws_machine *m)
{
	struct aws_cloud *cloud = ctx;
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);
	char offer[2 * AWS_ID + 2];

	if (m->state == AWS_ENDED)
		return 0;
	(void)snprintf(offer, sizeof offer, "%s/%s", m->type, m->zone);
	event.state = m->state == AWS_PENDING ? ESPL_NODE_BOOTING : ESPL_NODE_READY;
	event.lease = ESPL_NONE;
	event.token = m->token;
	event.run = m->run;
	event.provider_id = m->id;
	event.offer = offer;
	event.market = m->spot ? "spot" : "on-demand";
	event.billed_utc_s = m->launch_s;
	event.at = event.ends_at = ESPL_NEVER;
	event.gpus = ESPL_ANY;
	event.charged = -1;
	(void)cloud->events->node(cloud->events, &event);
	return 0;
}

void
cloud_aws_owned_reply(struct aws_cloud *cloud, const struct espl_http_reply *reply)
{
	struct aws_element *document;
	char text[AWS_TEXT] = "";
	int more = 0;
	int fine = cloud_aws_answer_reply(reply, "DescribeInstances", &document, text) == AWS_FINE;

	(void)cloud_aws_answer_each(document, 0, report_owned, cloud);
	if (fine)
		more = cloud_aws_next(cloud, AWS_OWNED, document);
	cloud_aws_answer_free(document);
	if (more > 0)
		return;
	cloud_aws_pages_end(cloud, AWS_OWNED);
	fine &= more == 0;
	if (fine && cloud->visit != NULL)
		cloud_aws_hostkey_forget_all(cloud);
	cloud->events->done(cloud->events, cloud->owned_what, fine ? ESPL_OK : ESPL_E_REMOTE,
	    more < 0 ? cloud->warned : text);
}
