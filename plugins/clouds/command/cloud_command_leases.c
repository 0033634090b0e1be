/* cloud_command_leases.c - what the commands answered, for the lease machine of the kit
 * (espalier/kit/leases.h), and the commands that it wants.
 *
 * An acquire whose answer does not show its outcome is not repeated: the next list decides.  A
 * machine that appears even later is released.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_command.h"

#define DOUBT (60 * ESPL_SECOND)           /* an acquire that was killed may yet take effect */
#define STARTING_MOST (7200 * ESPL_SECOND) /* and ten times as long as the offer says */
#define REQUEST_MOST (300 * ESPL_SECOND)   /* that no acquire can be started */

static espl_time
now_of(const struct command_cloud *cloud)
{
	return cloud->host->now(cloud->host);
}

uint32_t
cloud_command_offer(const struct command_cloud *cloud, const char *name, const char *market)
{
	static const char *const markets[] = { "on-demand", "spot" };

	for (uint32_t i = 0; i < cloud->offer_count; i++) {
		const struct espl_value *row = cloud->offers[i].row;

		if (strcmp(row[COMMAND_COL_NAME].as.s, name) == 0 &&
		    strcmp(markets[row[COMMAND_COL_MARKET].as.i], market) == 0)
			return i;
	}
	return ESPL_ANY;
}

/* ---- commands ---- */

static espl_status
send_acquire(void *self, struct espl_leased *lease)
{
	const struct command_cloud *cloud = self;
	const struct command_machine *m = (const struct command_machine *)lease;
	const struct espl_value *row = cloud->offers[m->offer].row;
	json_t *price =
	    m->max_price_hour > 0 ? json_real((double)m->max_price_hour / 1e6) : json_null();
	json_t *input = json_pack("{s:s, s:s, s:s, s:s, s:o}", "run", cloud->run, "token",
	    lease->token, "offer", row[COMMAND_COL_NAME].as.s, "market",
	    row[COMMAND_COL_MARKET].as.i == 1 ? "spot" : "on-demand", "max_price_hour", price);

	return input != NULL ? cloud_command_spawn(cloud, COMMAND_OPT_ACQUIRE, input,
				   COMMAND_MACHINES + lease->serial)
			     : ESPL_E_NOMEM;
}

static espl_status
send_release(void *self, struct espl_leased *lease, const char *id)
{
	json_t *input =
	    json_pack("{s:s?, s:s}", "id", id[0] != '\0' ? id : NULL, "token", lease->token);

	return input != NULL ? cloud_command_spawn(self, COMMAND_OPT_RELEASE, input,
				   COMMAND_MACHINES + lease->serial)
			     : ESPL_E_NOMEM;
}

static espl_status
send_list(void *self)
{
	const struct command_cloud *cloud = self;

	return cloud_command_list(cloud, cloud->run, COMMAND_LIST);
}

static void
stop_command(void *self, struct espl_leased *lease)
{
	const struct command_cloud *cloud = self;

	cloud->io->cancel(cloud->io, COMMAND_MACHINES + lease->serial);
}

static espl_status
set_timer(void *self, espl_span after)
{
	const struct command_cloud *cloud = self;

	cloud->io->cancel(cloud->io, COMMAND_POLL);
	return cloud->io->timer(cloud->io, after, COMMAND_POLL);
}

static const struct espl_lease_calls calls = { .ask = send_acquire,
	.cancel = send_release,
	.list = send_list,
	.stop = stop_command,
	.timer = set_timer };

void
cloud_command_leases_begin(struct command_cloud *cloud)
{
	espl_span poll = cloud->config->values[COMMAND_OPT_POLL].as.i, boot = 0;

	for (uint32_t i = 0; i < cloud->offer_count; i++) {
		const struct espl_latency *its = cloud->offers[i].row[COMMAND_COL_BOOT].as.latency;
		double s = its != NULL ? its->mean_s : 0;

		if (s > 0 && s < 1e6 && (espl_span)s * ESPL_SECOND > boot)
			boot = (espl_span)s * ESPL_SECOND;
	}
	cloud->rules = (struct espl_lease_rules){ .provider = "'list'",
		.noun = "machine",
		.missing = "the list no longer contains it",
		.asking = "'acquire'",
		.stuck = "is not released yet",
		.listing = "'list'",
		.waits = { [ESPL_STAGE_REQUESTED] = "'acquire' has not answered",
		    [ESPL_STAGE_STARTING] = "the provider is starting it" },
		.limits = { [ESPL_STAGE_REQUESTED] = REQUEST_MOST,
		    [ESPL_STAGE_STARTING] = STARTING_MOST + 10 * boot },
		.told = { [ESPL_STAGE_STARTING] = ESPL_NODE_BOOTING },
		.lost = ESPL_LOST_FINAL,
		.absent_lists = 1,
		.missing_lists = 2,
		.late_lists = 3,
		.doubt = DOUBT,
		.soon = poll,
		.least = poll,
		.most = poll,
		.silent_most = 4 * poll,
		.cancel_again = poll,
		.cancel_ends = 1,
		.cancel_by_token = 1 };
	espl_leases_begin(&cloud->leases, &calls, &cloud->rules, cloud, cloud->host,
	    sizeof(struct command_machine));
}

void
cloud_command_leases_due(struct command_cloud *cloud)
{
	espl_leases_due(&cloud->leases, now_of(cloud));
}

/* ---- answers ---- */

/* Why a machine ended that the host did not release, or 0. A spot machine that was interrupted
 * before it was ready is no capacity: the host waits before it asks again. */
static espl_reason
find_reason(const struct espl_leased *lease, const char *word, const char **text)
{
	*text = NULL;
	if (lease->releasing)
		return ESPL_BY_USER;
	if (word == NULL || strcmp(word, "fault") == 0) {
		*text = "the provider says that it failed";
		return ESPL_BY_FAULT;
	}
	if (strcmp(word, "interrupted") == 0)
		return lease->reported < ESPL_NODE_READY ? ESPL_BY_CAPACITY : ESPL_BY_PROVIDER;
	if (strcmp(word, "expired") == 0)
		return ESPL_BY_EXPIRY;
	if (strcmp(word, "released") == 0) {
		*text = "it was released, but not by this run";
		return ESPL_BY_FAULT;
	}
	return 0;
}

static void
warn_word(struct command_cloud *cloud, const json_t *answer, const char *key)
{
	const char *id = cloud_command_string(answer, "id"),
		   *word = cloud_command_string(answer, key);
	char text[COMMAND_TEXT];

	(void)snprintf(text, sizeof text, "machine '%.100s': its %s '%.100s' is unknown",
	    id != NULL ? id : "", key, word != NULL ? word : "");
	cloud_command_warn(cloud, text);
}

/* What an acquire or a list says of a machine.  lease NULL: it is not ours. */
static struct espl_lease_row
read_row(struct command_cloud *cloud, const struct espl_leased *lease, const json_t *answer)
{
	struct espl_lease_row row =
	    espl_lease_row(cloud_command_string(answer, "token"), ESPL_STAGE_NONE);
	const char *state = cloud_command_string(answer, "state");
	const json_t *left = json_object_get(answer, "ends_in_s");
	double s = json_is_number(left) ? json_number_value(left) : -1;

	row.id = cloud_command_string(answer, "id");
	row.address = cloud_command_string(answer, "address");
	if (lease == NULL)
		return row;
	if (state != NULL && strcmp(state, "booting") == 0) {
		row.stage = ESPL_STAGE_STARTING;
	} else if (state != NULL && strcmp(state, "ready") == 0) {
		row.stage = ESPL_STAGE_READY;
		row.at_risk = json_is_true(json_object_get(answer, "at_risk"));
	} else if (state != NULL && strcmp(state, "notice") == 0) {
		row.notice = 1;
		if (s >= 0 && s < 1e9)
			row.ends_at = now_of(cloud) + (espl_span)(s * (double)ESPL_SECOND);
	} else if (state != NULL && strcmp(state, "ended") == 0) {
		row.stage = ESPL_STAGE_ENDED;
		row.reason = find_reason(lease, cloud_command_string(answer, "reason"), &row.text);
		row.charged = cloud_command_money(answer, "charged_usd");
		if (row.reason == 0) {
			warn_word(cloud, answer, "reason");
			row.reason = ESPL_BY_FAULT;
		}
	} else {
		warn_word(cloud, answer, "state");
	}
	return row;
}

static void
take_refusal(struct command_cloud *cloud, struct espl_leased *lease, const json_t *answer)
{
	static const struct {
		const char *kind;
		espl_reason reason;
	} kinds[] = { { "capacity", ESPL_BY_CAPACITY }, { "quota", ESPL_BY_QUOTA },
		{ "permanent", ESPL_BY_REFUSAL } };
	const char *kind = cloud_command_string(answer, "kind");
	const json_t *after = json_object_get(answer, "retry_after_s");
	double s = json_is_number(after) ? json_number_value(after) : 0;
	espl_reason reason = 0;
	char text[COMMAND_TEXT];

	(void)snprintf(text, sizeof text, "%.500s", cloud_command_string(answer, "error"));
	for (size_t i = 0; kind != NULL && i < sizeof kinds / sizeof kinds[0]; i++)
		if (strcmp(kind, kinds[i].kind) == 0)
			reason = kinds[i].reason;
	if (kind != NULL && reason == 0)
		warn_word(cloud, answer, "kind");
	espl_leases_refused(&cloud->leases, lease, ESPL_DID_REFUSE,
	    reason != 0 ? reason : ESPL_BY_FAULT, text,
	    s > 0 && s < 1e9 ? (espl_span)(s * (double)ESPL_SECOND) : 0, now_of(cloud));
}

static void
take_acquire(struct command_cloud *cloud, struct espl_leased *lease, const struct espl_child *child)
{
	char text[COMMAND_TEXT];
	json_t *answer = cloud_command_answer(cloud, COMMAND_OPT_ACQUIRE, child, text);
	struct espl_lease_row row;

	if (cloud_command_string(answer, "error") != NULL) {
		take_refusal(cloud, lease, answer);
	} else if (cloud_command_string(answer, "id") != NULL) {
		row = read_row(cloud, lease, answer);
		espl_leases_made(&cloud->leases, lease, &row, now_of(cloud));
	} else {
		if (answer != NULL)
			(void)snprintf(text, sizeof text,
			    "'acquire' printed neither an id nor an error");
		espl_leases_refused(&cloud->leases, lease, ESPL_DID_UNSURE, 0, text, 0,
		    now_of(cloud));
	}
	json_decref(answer);
}

void
cloud_command_leases_child(struct command_cloud *cloud, const struct espl_child *child)
{
	struct espl_leased *lease =
	    espl_leases_serial(&cloud->leases, child->cookie - COMMAND_MACHINES);
	char text[COMMAND_TEXT];
	json_t *answer;

	if (lease != NULL && lease->busy == ESPL_LEASE_ASKS) {
		take_acquire(cloud, lease, child);
	} else if (lease != NULL && lease->busy == ESPL_LEASE_CANCELS) {
		answer = cloud_command_answer(cloud, COMMAND_OPT_RELEASE, child, text);
		espl_leases_cancelled(&cloud->leases, lease,
		    answer != NULL ? ESPL_DID_FINE : ESPL_DID_LATER, text,
		    cloud_command_money(answer, "charged_usd"), now_of(cloud));
		json_decref(answer);
	}
}

void
cloud_command_leases_listed(struct command_cloud *cloud)
{
	size_t count = json_array_size(cloud->known);
	struct espl_lease_row *rows = calloc(count + 1, sizeof *rows);

	cloud->warned[0] = '\0';
	for (size_t i = 0; rows != NULL && i < count; i++) {
		const json_t *one = json_array_get(cloud->known, i);

		rows[i] = read_row(cloud,
		    espl_leases_find(&cloud->leases, cloud_command_string(one, "token")), one);
	}
	if (rows != NULL)
		espl_leases_listed(&cloud->leases, rows, (uint32_t)count, now_of(cloud));
	else
		espl_leases_unlisted(&cloud->leases, "out of memory", now_of(cloud));
	free(rows);
}

/* ---- entries ---- */

/* Asked for again after a crash of the driver: its machine was in the list. */
static void
take_known(struct command_cloud *cloud, struct espl_leased *lease)
{
	const json_t *known = cloud_command_find(cloud->known, lease->token);
	struct espl_lease_row row;

	if (known == NULL)
		return;
	row = read_row(cloud, lease, known);
	if (row.stage != ESPL_STAGE_ENDED)
		espl_leases_seen(&cloud->leases, lease, &row, now_of(cloud));
}

static espl_status
begin_machine(void *self, struct espl_leased *lease, const struct espl_acquire *wanted)
{
	struct command_cloud *cloud = self;
	struct command_machine *m = (struct command_machine *)lease;
	char *run = strdup(wanted->run);

	if (run == NULL)
		return ESPL_E_NOMEM;
	free(cloud->run);
	cloud->run = run;
	m->offer = cloud_command_offer(cloud, wanted->offer, wanted->market);
	m->max_price_hour = wanted->max_price_hour;
	if (m->offer == ESPL_ANY)
		espl_leases_give_up(&cloud->leases, lease, ESPL_BY_FAULT,
		    "the configuration no longer has its offer", now_of(cloud));
	else
		take_known(cloud, lease);
	return ESPL_OK;
}

espl_status
cloud_command_acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	struct command_cloud *cloud = self;

	return espl_leases_acquire_all(&cloud->leases, list, count, begin_machine, error);
}

espl_status
cloud_command_release(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct command_cloud *cloud = self;

	return espl_leases_claim_all(&cloud->leases, espl_leases_release, list, count, NULL, error);
}

espl_status
cloud_command_adopt(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct command_cloud *cloud = self;

	return espl_leases_claim_all(&cloud->leases, espl_leases_adopt, list, count, NULL, error);
}
