/* cloud_command_leases.c - machines, from `acquire` until they are certainly gone.
 *
 * An acquire whose answer does not show its outcome is followed by a list, because the machine may
 * exist. One that appears even later is released.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_command.h"

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

static struct command_machine *
find_machine(const struct command_cloud *cloud, const char *token)
{
	struct command_machine *m = cloud->machines;

	while (m != NULL && (m->over || strcmp(m->token, token) != 0))
		m = m->next;
	return m;
}

static struct command_machine *
add_machine(struct command_cloud *cloud, uint64_t lease, const char *token, uint32_t offer)
{
	struct command_machine *m = calloc(1, sizeof *m);

	if (m == NULL)
		return NULL;
	m->serial = cloud->serial++;
	m->lease = lease;
	m->offer = offer;
	m->since = cloud->list_number + 1;
	(void)snprintf(m->token, sizeof m->token, "%s", token);
	m->next = cloud->machines;
	cloud->machines = m;
	cloud_command_watch(cloud);
	return m;
}

static void
drop_machine(struct command_cloud *cloud, struct command_machine *m)
{
	struct command_machine **at = &cloud->machines;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	if (m->job != COMMAND_IDLE)
		cloud->io->cancel(cloud->io, m->serial);
	free(m->id);
	free(m->address);
	free(m);
}

void
cloud_command_leases_free(struct command_cloud *cloud)
{
	while (cloud->machines != NULL) {
		cloud->machines->job = COMMAND_IDLE;
		drop_machine(cloud, cloud->machines);
	}
}

static void
replace_text(char **at, const char *text)
{
	if (text == NULL || (*at != NULL && strcmp(*at, text) == 0))
		return;
	free(*at);
	*at = strdup(text);
}

/* ---- what the host is told ---- */

static struct espl_node_event
make_event(const struct command_machine *m, espl_node_state state)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);

	event.state = state;
	event.lease = m->lease;
	event.token = m->token;
	event.provider_id = m->id;
	event.address = m->address;
	event.at = event.ends_at = ESPL_NEVER;
	event.gpus = ESPL_ANY;
	event.charged = -1;
	return event;
}

static void
report_state(const struct command_cloud *cloud, struct command_machine *m, espl_node_state state,
    espl_time ends_at)
{
	struct espl_node_event event = make_event(m, state);

	if (state <= m->reported)
		return;
	m->reported = state;
	event.ends_at = ends_at;
	(void)cloud->events->node(cloud->events, &event);
}

static void
report_risk(const struct command_cloud *cloud, struct command_machine *m)
{
	struct espl_node_event event = make_event(m, ESPL_NODE_READY);

	if (m->at_risk)
		return;
	m->at_risk = 1;
	event.flags = ESPL_NODE_AT_RISK;
	(void)cloud->events->node(cloud->events, &event);
}

static void
report_end(const struct command_cloud *cloud, const struct command_machine *m, espl_reason reason,
    espl_money charged, const char *text)
{
	struct espl_node_event event = make_event(m, ESPL_NODE_ENDED);

	event.reason = reason;
	event.charged = charged;
	event.text = text;
	event.retry_after = m->retry_after;
	(void)cloud->events->node(cloud->events, &event);
}

static void
end_machine(struct command_cloud *cloud, struct command_machine *m, espl_reason reason,
    espl_money charged, const char *text)
{
	if (!m->over)
		report_end(cloud, m, reason, charged, text);
	drop_machine(cloud, m);
}

/* ---- states ---- */

/* Why a machine ended that the host did not release, or 0. A spot machine that was interrupted
 * before it was ready is no capacity: the host waits before it asks again. */
static espl_reason
find_reason(const struct command_machine *m, const char *word, const char **text)
{
	*text = NULL;
	if (m->releasing)
		return ESPL_BY_USER;
	if (word == NULL || strcmp(word, "fault") == 0) {
		*text = "the provider says that it failed";
		return ESPL_BY_FAULT;
	}
	if (strcmp(word, "interrupted") == 0)
		return m->reported < ESPL_NODE_READY ? ESPL_BY_CAPACITY : ESPL_BY_PROVIDER;
	if (strcmp(word, "expired") == 0)
		return ESPL_BY_EXPIRY;
	if (strcmp(word, "released") == 0) {
		*text = "it was released, but not by this run";
		return ESPL_BY_FAULT;
	}
	return 0;
}

static void
warn_word(struct command_cloud *cloud, const struct command_machine *m, const char *key,
    const char *word)
{
	char text[COMMAND_TEXT];

	(void)snprintf(text, sizeof text, "machine '%.100s': its %s '%.100s' is unknown",
	    m->id != NULL ? m->id : m->token, key, word != NULL ? word : "");
	cloud_command_warn(cloud, text);
}

/* From an acquire or a list; the machine may be freed. */
static void
take_state(struct command_cloud *cloud, struct command_machine *m, const json_t *answer)
{
	const char *state = cloud_command_string(answer, "state"), *text;
	const json_t *left = json_object_get(answer, "ends_in_s");
	espl_reason reason;

	replace_text(&m->id, cloud_command_string(answer, "id"));
	replace_text(&m->address, cloud_command_string(answer, "address"));
	m->claimed = 0;
	if (state != NULL && strcmp(state, "booting") == 0) {
		report_state(cloud, m, ESPL_NODE_BOOTING, ESPL_NEVER);
	} else if (state != NULL && strcmp(state, "ready") == 0) {
		report_state(cloud, m, ESPL_NODE_READY, ESPL_NEVER);
		if (json_is_true(json_object_get(answer, "at_risk")))
			report_risk(cloud, m);
	} else if (state != NULL && strcmp(state, "notice") == 0) {
		double s = json_is_number(left) ? json_number_value(left) : -1;

		report_state(cloud, m, ESPL_NODE_NOTICE,
		    s >= 0 && s < 1e9
			? cloud->host->now(cloud->host) + (espl_span)(s * (double)ESPL_SECOND)
			: ESPL_NEVER);
	} else if (state != NULL && strcmp(state, "ended") == 0) {
		reason = find_reason(m, cloud_command_string(answer, "reason"), &text);
		if (reason == 0)
			warn_word(cloud, m, "reason", cloud_command_string(answer, "reason"));
		end_machine(cloud, m, reason != 0 ? reason : ESPL_BY_FAULT,
		    cloud_command_money(answer, "charged_usd"), text);
	} else {
		warn_word(cloud, m, "state", state);
	}
}

/* ---- release ---- */

/* `release` runs with the user's credentials: a machine that this process has not asked for itself
 * is released only when `list` shows it with the token of the run. */
static espl_status
start_release(struct command_cloud *cloud, struct command_machine *m)
{
	const json_t *listed = cloud_command_find(cloud->known, m->token);
	json_t *input;
	espl_status status;

	if (m->claimed && listed != NULL)
		replace_text(&m->id, cloud_command_string(listed, "id"));
	if (m->claimed && listed == NULL) {
		cloud_command_list(cloud);
		return ESPL_OK;
	}
	m->claimed = 0;
	input = json_pack("{s:s?, s:s}", "id", m->id, "token", m->token);
	if (input == NULL)
		return ESPL_E_NOMEM;
	status = cloud_command_spawn(cloud, COMMAND_OPT_RELEASE, input, m->serial);
	if (status == ESPL_OK)
		m->job = COMMAND_RELEASE;
	return status;
}

static void
take_release(struct command_cloud *cloud, struct command_machine *m, const struct espl_child *child)
{
	char text[COMMAND_TEXT], named[COMMAND_TEXT + 150];
	json_t *answer = cloud_command_answer(cloud, COMMAND_OPT_RELEASE, child, text);

	if (answer != NULL) {
		end_machine(cloud, m, ESPL_BY_USER, cloud_command_money(answer, "charged_usd"),
		    NULL);
		json_decref(answer);
		return;
	}
	(void)snprintf(named, sizeof named, "machine '%.100s' is not released yet: %s",
	    m->id != NULL ? m->id : m->token, text);
	cloud->host->log(cloud->host, ESPL_WARN, named); /* the host asks again */
}

espl_status
cloud_command_release(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct command_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct command_machine *m = find_machine(cloud, list[i]->token);

		if (m == NULL) {
			m = add_machine(cloud, list[i]->lease, list[i]->token,
			    cloud_command_offer(cloud, list[i]->offer, list[i]->market));
			if (m == NULL)
				return espl_fail(error, ESPL_E_NOMEM, "out of memory");
			m->claimed = 1;
			replace_text(&m->id, list[i]->provider_id);
		}
		m->releasing = 1; /* an acquire under way is waited for: it may make a machine */
		if (m->job == COMMAND_IDLE && start_release(cloud, m) != ESPL_OK)
			return espl_fail(error, ESPL_E_NOMEM, "'release' cannot be started");
	}
	return ESPL_OK;
}

/* ---- acquire ---- */

/* The lease is over, but nothing is certain about a machine. */
static void
keep_watching(struct command_cloud *cloud, struct command_machine *m)
{
	report_end(cloud, m, m->releasing ? ESPL_BY_USER : ESPL_BY_FAULT, -1, m->why);
	m->over = 1;
	m->unsure = 0;
	m->lists = 0;
}

static void
take_refusal(struct command_cloud *cloud, struct command_machine *m, const json_t *answer)
{
	const char *kind = cloud_command_string(answer, "kind");
	const json_t *after = json_object_get(answer, "retry_after_s");
	double s = json_is_number(after) ? json_number_value(after) : 0;
	espl_reason reason = ESPL_BY_FAULT;
	char text[COMMAND_TEXT];

	(void)snprintf(text, sizeof text, "%.500s", cloud_command_string(answer, "error"));
	if (kind != NULL && strcmp(kind, "capacity") == 0)
		reason = ESPL_BY_CAPACITY;
	else if (kind != NULL && strcmp(kind, "quota") == 0)
		reason = ESPL_BY_QUOTA;
	else if (kind != NULL && strcmp(kind, "permanent") == 0)
		reason = ESPL_BY_REFUSAL;
	else if (kind != NULL)
		warn_word(cloud, m, "kind of error", kind);
	if (s > 0 && s < 1e9)
		m->retry_after = (espl_span)(s * (double)ESPL_SECOND);
	end_machine(cloud, m, m->releasing ? ESPL_BY_USER : reason, 0, text);
}

static void
take_acquire(struct command_cloud *cloud, struct command_machine *m, const struct espl_child *child)
{
	json_t *answer = cloud_command_answer(cloud, COMMAND_OPT_ACQUIRE, child, m->why);

	m->since = cloud->list_number + 1;
	if (cloud_command_string(answer, "error") != NULL) {
		take_refusal(cloud, m, answer);
	} else if (cloud_command_string(answer, "id") != NULL) {
		replace_text(&m->id, cloud_command_string(answer, "id"));
		if (m->releasing)
			(void)start_release(cloud, m);
		else
			take_state(cloud, m, answer);
	} else {
		if (answer != NULL)
			(void)snprintf(m->why, sizeof m->why,
			    "'acquire' printed neither an id nor an error");
		m->unsure = 1;
		if (m->releasing)
			(void)start_release(cloud, m);
		else
			cloud_command_list(cloud);
	}
	json_decref(answer);
}

static espl_status
start_acquire(struct command_cloud *cloud, struct command_machine *m,
    const struct espl_acquire *wish)
{
	json_t *price =
	    wish->max_price_hour > 0 ? json_real((double)wish->max_price_hour / 1e6) : json_null();
	json_t *input = json_pack("{s:s, s:s, s:s, s:s, s:o}", "run", wish->run, "token",
	    wish->token, "offer", wish->offer, "market", wish->market, "max_price_hour", price);
	espl_status status;

	if (input == NULL)
		return ESPL_E_NOMEM;
	status = cloud_command_spawn(cloud, COMMAND_OPT_ACQUIRE, input, m->serial);
	if (status == ESPL_OK)
		m->job = COMMAND_ACQUIRE;
	return status;
}

/* Asked for again after a crash of the driver: its machine was in the list. */
static int
take_known(struct command_cloud *cloud, struct command_machine *m)
{
	const json_t *known = cloud_command_find(cloud->known, m->token);
	const char *state = cloud_command_string(known, "state");

	if (known == NULL || state == NULL || strcmp(state, "ended") == 0)
		return 0;
	take_state(cloud, m, known);
	return 1;
}

static void
acquire_one(struct command_cloud *cloud, const struct espl_acquire *wish)
{
	uint32_t offer = cloud_command_offer(cloud, wish->offer, wish->market);
	struct command_machine *m = find_machine(cloud, wish->token);

	if (m != NULL && m->reported != 0) { /* asked again: the same machine */
		struct espl_node_event event = make_event(m, m->reported);

		(void)cloud->events->node(cloud->events, &event);
	}
	if (m != NULL)
		return;
	m = add_machine(cloud, wish->lease, wish->token, offer);
	if (m == NULL || offer == ESPL_ANY) {
		struct command_machine none = { .lease = wish->lease };

		report_end(cloud, &none, ESPL_BY_FAULT, 0,
		    m != NULL ? "its offer is no longer configured" : "out of memory");
		if (m != NULL)
			drop_machine(cloud, m);
		return;
	}
	if (take_known(cloud, m))
		return;
	if (start_acquire(cloud, m, wish) != ESPL_OK)
		end_machine(cloud, m, ESPL_BY_FAULT, 0, "'acquire' cannot be started");
}

espl_status
cloud_command_acquire(void *self, const struct espl_acquire *const *list, uint32_t count,
    struct espl_error *error)
{
	struct command_cloud *cloud = self;

	(void)error;
	for (uint32_t i = 0; i < count; i++) {
		replace_text(&cloud->run, list[i]->run);
		acquire_one(cloud, list[i]);
	}
	return ESPL_OK;
}

void
cloud_command_leases_child(struct command_cloud *cloud, const struct espl_child *child)
{
	struct command_machine *m = cloud->machines;
	enum command_job job;

	while (m != NULL && m->serial != child->cookie)
		m = m->next;
	if (m == NULL)
		return;
	job = m->job;
	m->job = COMMAND_IDLE;
	if (job == COMMAND_ACQUIRE)
		take_acquire(cloud, m, child);
	else if (job == COMMAND_RELEASE)
		take_release(cloud, m, child);
}

/* ---- lists ---- */

/* It is gone, or was never ours. */
static void
end_missing(struct command_cloud *cloud, struct command_machine *m)
{
	char text[COMMAND_TEXT];

	if (m->claimed && m->id != NULL) {
		(void)snprintf(text, sizeof text,
		    "'list' does not show machine '%.100s' of leases.json with token '%.64s' of "
		    "this run: it has ended, or is not of this run, and is not released; if it is "
		    "yours, release it yourself",
		    m->id, m->token);
		cloud->host->log(cloud->host, ESPL_WARN, text);
	}
	end_machine(cloud, m, m->releasing ? ESPL_BY_USER : ESPL_BY_FAULT, -1,
	    m->releasing ? NULL : "it is no longer in the list");
}

/* Not listed: of a lease that ran, once may be a slip of the provider. */
static void
miss_machine(struct command_cloud *cloud, struct command_machine *m)
{
	m->lists++;
	if (m->unsure)
		keep_watching(cloud, m);
	else if (m->over && m->lists >= COMMAND_WATCHED)
		drop_machine(cloud, m);
	else if (!m->over && m->lists >= COMMAND_MISSING)
		end_missing(cloud, m);
}

static void
take_listed(struct command_cloud *cloud, struct command_machine *m, const json_t *answer)
{
	const char *state = cloud_command_string(answer, "state");
	char text[COMMAND_TEXT];

	m->lists = 0;
	m->unsure = 0;
	if (!m->over && m->claimed && m->releasing &&
	    strcmp(state != NULL ? state : "", "ended") != 0) {
		(void)start_release(cloud, m);
		return;
	}
	if (!m->over) {
		take_state(cloud, m, answer);
		return;
	}
	if (state != NULL && strcmp(state, "ended") == 0) {
		drop_machine(cloud, m);
		return;
	}
	replace_text(&m->id, cloud_command_string(answer, "id"));
	(void)snprintf(text, sizeof text,
	    "machine '%.100s' appeared after its 'acquire' had failed; it is released",
	    m->id != NULL ? m->id : m->token);
	cloud->host->log(cloud->host, ESPL_WARN, text);
	(void)start_release(cloud, m);
}

void
cloud_command_leases_listed(struct command_cloud *cloud)
{
	struct command_machine *next;

	for (struct command_machine *m = cloud->machines; m != NULL; m = next) {
		const json_t *answer = cloud_command_find(cloud->known, m->token);

		next = m->next;
		if (m->job != COMMAND_IDLE || cloud->list_number < m->since)
			continue;
		if (answer != NULL)
			take_listed(cloud, m, answer);
		else
			miss_machine(cloud, m);
	}
}

/* ---- resume ---- */

/* The list of start is fresh. A machine that it does not show may be in the next one. */
espl_status
cloud_command_adopt(void *self, const struct espl_lease *const *list, uint32_t count,
    struct espl_error *error)
{
	struct command_cloud *cloud = self;

	for (uint32_t i = 0; i < count; i++) {
		struct command_machine *m = add_machine(cloud, list[i]->lease, list[i]->token,
		    cloud_command_offer(cloud, list[i]->offer, list[i]->market));
		const json_t *answer;

		if (m == NULL)
			return espl_fail(error, ESPL_E_NOMEM, "out of memory");
		m->claimed = 1;
		replace_text(&m->id, list[i]->provider_id);
		replace_text(&m->address, list[i]->address);
		answer = cloud_command_find(cloud->known, m->token);
		if (answer != NULL)
			take_state(cloud, m, answer);
		else
			m->lists++;
	}
	return ESPL_OK;
}
