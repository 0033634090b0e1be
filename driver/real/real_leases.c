/* real_leases.c - machines from the request to the end: the world's half of a cloud.
 *
 * The executor receives READY when the agent on the machine answers, not when the cloud says so;
 * and ENDED when the agent is gone and all gangs there have ended.
 */
#include "base/assert.h"
#include "real/real.h"
#include <string.h>
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/tick.h"
#include "model/ledger.h"
#include "plugin/instance.h"

#define RELEASE_PAUSE_MAX (30 * ESPL__REAL_SECOND)
/* The number of attempts is reset when an agent has lived this long. */
#define AGENT_LIVED (60 * ESPL__REAL_SECOND)

struct espl__rlease *
espl__real_lease_add(struct espl__real *real, uint64_t id, uint32_t offer,
    espl_money max_price_hour)
{
	struct espl__rlease *lease = espl__alloc(sizeof *lease);
	const struct espl_offer *terms = espl__exec_offer(real->world.exec, offer);
	uint32_t at = real->lease_count;

	ESPL__CHECK(real, REAL);
	lease->magic = ESPL__RLEASE_MAGIC;
	lease->id = id;
	lease->offer = offer;
	lease->max_price_hour = max_price_hour;
	lease->token = espl__format("espl-%s-%llu", real->run, (unsigned long long)id);
	lease->offer_name = espl__strdup(terms != NULL ? terms->name : "");
	lease->market = espl__strdup(terms != NULL && terms->market != NULL ? terms->market : "");
	lease->gpus = ESPL_ANY;
	lease->charged = -1;
	ESPL__GROW(real->leases, real->lease_cap, real->lease_count + 1);
	while (at > 0 && real->leases[at - 1]->id > id) {
		real->leases[at] = real->leases[at - 1];
		at--;
	}
	real->leases[at] = lease;
	real->lease_count++;
	real->leases_dirty = 1;
	return lease;
}

static void
free_lease(struct espl__rlease *lease)
{
	free(lease->token);
	free(lease->offer_name);
	free(lease->market);
	free(lease->provider_id);
	free(lease->address);
	free(lease->detail);
	free(lease->machine);
	free(lease->said);
	free(lease->why);
	free(lease->risk);
	espl__buf_free(&lease->backlog);
	lease->magic = 0;
	free(lease);
}

void
espl__real_leases_free(struct espl__real *real)
{
	uint32_t i;

	ESPL__CHECK(real, REAL);
	for (i = 0; i < real->lease_count; i++)
		free_lease(real->leases[i]);
	free(real->leases);
	real->leases = NULL;
	real->lease_count = 0;
}

static void
replace_text(char **at, const char *text)
{
	if (text == NULL || (*at != NULL && strcmp(*at, text) == 0))
		return;
	free(*at);
	*at = espl__strdup(text);
}

static void
report_state(struct espl__real *real, struct espl__rlease *lease, espl_node_state state,
    espl_time ends_at)
{
	struct espl__event *event = espl__real_event(real, ESPL__EV_NODE);

	event->as.node.lease = lease->id;
	event->as.node.state = state;
	event->as.node.gpus = state == ESPL_NODE_READY ? lease->gpus : ESPL_ANY;
	event->as.node.ends_at = ends_at;
	event->as.node.charged = -1;
	lease->reported = state;
}

/* For `explain`; where the end of the lease follows, its reason. */
static void
report_why(struct espl__real *real, const struct espl__rlease *lease, const char *what,
    const char *why)
{
	struct espl__event *event = espl__real_event(real, ESPL__EV_NODE_WHY);
	char *text = espl__format("%s%s", what, why);

	event->as.node_why.lease = lease->id;
	event->as.node_why.text = espl__arena_strdup(espl__real_arena(real), text);
	free(text);
}

static void
report_retry(struct espl__real *real, const struct espl__rlease *lease, espl_span after)
{
	struct espl__event *event;

	if (after <= 0)
		return;
	event = espl__real_event(real, ESPL__EV_RETRY);
	event->as.retry.lease = lease->id;
	event->as.retry.after = after;
}

/* The last word about a lease; it is freed. */
static void
finish_lease(struct espl__real *real, struct espl__rlease *lease)
{
	struct espl__event *event;
	uint32_t i;

	espl__real_gangs_lost(real, lease->id); /* those that waited for an agent there */
	if (lease->why != NULL && lease->why[0] != '\0')
		report_why(real, lease, "", lease->why);
	report_state(real, lease, ESPL_NODE_ENDED, ESPL_NEVER);
	event = &real->batch[real->filling].list[real->batch[real->filling].count - 1];
	event->as.node.reason =
	    lease->blame != 0 && lease->reason == ESPL_BY_USER ? lease->blame : lease->reason;
	event->as.node.charged = lease->charged;
	espl__real_owned_ended(real, lease);
	for (i = 0; i < real->lease_count; i++) {
		if (real->leases[i] == lease) {
			memmove(&real->leases[i], &real->leases[i + 1],
			    (real->lease_count - i - 1) * sizeof real->leases[0]);
			real->lease_count--;
			break;
		}
	}
	real->leases_dirty = 1;
	free_lease(lease);
}

static void
end_lease(struct espl__real *real, struct espl__rlease *lease, espl_reason reason,
    espl_money charged)
{
	lease->ended = 1;
	lease->cloud = ESPL_NODE_ENDED;
	lease->reason = reason;
	lease->charged = charged;
	lease->agent_at = 0;
	if (lease->agent == NULL)
		finish_lease(real, lease);
	else
		espl__agent_kill(lease->agent); /* the machine is gone: nothing to wait for there */
}

static espl_reason
reason_of(espl_status status)
{
	switch (status) {
	case ESPL_E_LIMIT: return ESPL_BY_QUOTA;
	case ESPL_E_INFEASIBLE:
	case ESPL_E_BUSY: return ESPL_BY_CAPACITY;
	default: return ESPL_BY_FAULT;
	}
}

/* Names of the offer's machines that failed recently; malloc'd. */
static const char *const *
avoided_machines(const struct espl__real *real, uint32_t offer, uint32_t *count)
{
	const char **names;

	*count = espl__exec_avoid(real->world.exec, offer, NULL, 0);
	names = espl__alloc((*count + (size_t)1) * sizeof *names);
	(void)espl__exec_avoid(real->world.exec, offer, names, *count);
	return names;
}

static void
acquire_all(struct espl__real *real, struct espl__rlease **list, uint32_t count)
{
	struct espl_acquire *requests = espl__alloc((count + 1) * sizeof *requests);
	const struct espl_acquire **pointers = espl__alloc((count + 1) * sizeof *pointers);
	struct espl_error error = ESPL_INIT(struct espl_error);
	espl_status status;
	uint64_t *ids = espl__alloc((count + 1) * sizeof *ids);
	uint32_t i;

	for (i = 0; i < count; i++) {
		requests[i].size = (uint32_t)sizeof requests[i];
		requests[i].lease = ids[i] = list[i]->id;
		requests[i].token = list[i]->token;
		requests[i].run = real->run;
		requests[i].offer = list[i]->offer_name;
		requests[i].market = list[i]->market;
		requests[i].max_price_hour = list[i]->max_price_hour;
		requests[i].avoid =
		    avoided_machines(real, list[i]->offer, &requests[i].avoid_count);
		pointers[i] = &requests[i];
		list[i]->asked = 1;
	}
	espl__real_enter(real);
	status = real->ops->acquire(real->cloud->self, pointers, count, &error);
	if (status != ESPL_OK) {
		espl__log(ESPL_WARN, "%s: acquiring %u nodes failed: %s", real->cloud->who, count,
		    error.text);
		for (i = 0; i < count; i++) { /* those that the plugin has not spoken of itself */
			struct espl__rlease *lease = espl__real_lease(real, ids[i]);

			if (lease != NULL && lease->cloud == 0) {
				replace_text(&lease->why, error.text);
				end_lease(real, lease, reason_of(status), -1);
			}
		}
	}
	for (i = 0; i < count; i++)
		free((void *)(uintptr_t)requests[i].avoid);
	free(requests);
	free(pointers);
	free(ids);
}

static void
adopt_all(struct espl__real *real, struct espl__rlease **list, uint32_t count)
{
	struct espl_lease *views = espl__alloc((count + 1) * sizeof *views);
	const struct espl_lease **pointers = espl__alloc((count + 1) * sizeof *pointers);
	struct espl_error error = ESPL_INIT(struct espl_error);
	uint32_t i;

	for (i = 0; i < count; i++) {
		list[i]->asked = 1;
		espl__real_lease_view(list[i], &views[i]);
		pointers[i] = &views[i];
	}
	espl__real_enter(real);
	if (real->ops->adopt(real->cloud->self, pointers, count, &error) != ESPL_OK)
		espl__log(ESPL_WARN, "%s: adopting %u nodes failed: %s", real->cloud->who, count,
		    error.text);
	free(views);
	free(pointers);
}

void
espl__real_leases_ask(struct espl__real *real)
{
	struct espl__rlease **fresh, **old;
	uint32_t i, fresh_count = 0, old_count = 0;

	if (!real->cloud_up)
		return;
	fresh = espl__alloc((real->lease_count + 1) * sizeof(*fresh));
	old = espl__alloc((real->lease_count + 1) * sizeof(*old));
	for (i = 0; i < real->lease_count; i++) {
		struct espl__rlease *lease = real->leases[i];

		if (lease->asked || lease->ended)
			continue;
		if (lease->adopt)
			old[old_count++] = lease;
		else
			fresh[fresh_count++] = lease;
	}
	if (old_count > 0)
		adopt_all(real, old, old_count);
	if (fresh_count > 0)
		acquire_all(real, fresh, fresh_count);
	free(fresh);
	free(old);
}

static void
release_now(struct espl__real *real, struct espl__rlease *lease, int64_t tick)
{
	struct espl_lease view;
	const struct espl_lease *pointer = &view;
	struct espl_error error = ESPL_INIT(struct espl_error);
	int64_t pause = ESPL__REAL_SECOND << (lease->releases < 5 ? lease->releases : 5);
	espl_status status;

	lease->releases++;
	lease->release_at = tick + (pause < RELEASE_PAUSE_MAX ? pause : RELEASE_PAUSE_MAX);
	espl__real_lease_view(lease, &view);
	espl__real_enter(real);
	status =
	    real->ops->release(real->cloud->self, &pointer, 1, &error); /* may free the lease */
	if (status != ESPL_OK)
		espl__log(ESPL_WARN, "%s: releasing a node failed, retrying: %s", real->cloud->who,
		    error.text);
}

void
espl__real_release(struct espl__real *real, struct espl__rlease *lease, espl_reason blame)
{
	ESPL__CHECK(real, REAL);
	if (lease->blame == 0)
		lease->blame = blame;
	if (lease->releasing)
		return;
	lease->releasing = 1;
	lease->agent_at = 0;
	if (!lease->asked && !lease->adopt) { /* the cloud never heard of it */
		end_lease(real, lease, ESPL_BY_USER, 0);
		return;
	}
	lease->release_at = espl__tick();
	if (lease->agent != NULL)
		espl__agent_close(lease->agent); /* then espl__real_lease_agent_gone */
	else if (real->cloud_up)
		release_now(real, lease, lease->release_at);
}

void
espl__real_lease_risk(struct espl__real *real, struct espl__rlease *lease, const char *text)
{
	struct espl__event *event;

	if (text == NULL || text[0] == '\0')
		text = "the provider may take it back";
	if (lease->risk != NULL && strcmp(lease->risk, text) == 0)
		return;
	replace_text(&lease->risk, text);
	event = espl__real_event(real, ESPL__EV_RISK);
	event->as.node_why.lease = lease->id;
	event->as.node_why.text = espl__arena_strdup(espl__real_arena(real), text);
}

/* The executor knows machines by this name, over all their leases. */
static void
report_machine(struct espl__real *real, struct espl__rlease *lease, const char *machine)
{
	struct espl__event *event;
	char name[256];

	if (machine == NULL || machine[0] == '\0')
		return;
	(void)snprintf(name, sizeof name, "%s", machine);
	if (lease->machine != NULL && strcmp(lease->machine, name) == 0)
		return;
	replace_text(&lease->machine, name);
	event = espl__real_event(real, ESPL__EV_MACHINE);
	event->as.node_why.lease = lease->id;
	event->as.node_why.text = espl__arena_strdup(espl__real_arena(real), name);
}

static struct espl__rlease *
lease_of_event(const struct espl__real *real, const struct espl_node_event *event)
{
	uint32_t i;

	if (event->lease != ESPL_NONE)
		return espl__real_lease(real, event->lease);
	for (i = 0; event->token != NULL && i < real->lease_count; i++)
		if (strcmp(real->leases[i]->token, event->token) == 0)
			return real->leases[i];
	return NULL;
}

void
espl__real_lease_event(struct espl__real *real, const struct espl_node_event *event)
{
	struct espl__rlease *lease = lease_of_event(real, event);

	if (lease == NULL)
		espl__real_owned_event(real, event);
	if (lease == NULL || lease->ended || event->run != NULL) /* run: an answer of `owned` */
		return;
	replace_text(&lease->provider_id, event->provider_id);
	replace_text(&lease->address, event->address);
	replace_text(&lease->detail, event->detail);
	report_machine(real, lease, event->machine);
	real->leases_dirty = 1;
	if (event->text != NULL && event->text[0] != '\0')
		replace_text(&lease->said, event->text);
	if (event->text != NULL && event->text[0] != '\0')
		espl__log(ESPL_INFO, "node %llu: %s", (unsigned long long)lease->id, event->text);
	if (event->state == ESPL_NODE_READY && (event->flags & ESPL_NODE_AT_RISK) != 0)
		espl__real_lease_risk(real, lease, event->text);
	if (event->state <= lease->cloud)
		return; /* states only advance */
	lease->cloud = event->state;
	switch (event->state) {
	case ESPL_NODE_BOOTING: report_state(real, lease, ESPL_NODE_BOOTING, ESPL_NEVER); break;
	case ESPL_NODE_READY:
		lease->gpus = event->gpus;
		if (!lease->releasing && !real->closing)
			espl__agent_start(real, lease);
		break;
	case ESPL_NODE_NOTICE:
		if (lease->agent == NULL && !lease->releasing && !real->closing)
			espl__agent_start(real, lease);
		report_state(real, lease, ESPL_NODE_NOTICE, event->ends_at);
		break;
	case ESPL_NODE_ENDED:
		if (event->reason != ESPL_BY_USER)
			replace_text(&lease->why, event->text);
		report_retry(real, lease, event->retry_after);
		end_lease(real, lease,
		    event->reason == 0                     ? ESPL_BY_FAULT
			: event->reason == ESPL_BY_REFUSAL ? ESPL__BY_REFUSAL
							   : event->reason,
		    /* a request that was refused made no machine */
		    event->reason == ESPL_BY_REFUSAL && event->charged < 0 ? 0 : event->charged);
		break;
	default: break;
	}
}

void
espl__real_lease_reach(struct espl__real *real, struct espl__rlease *lease, const char *why,
    int64_t lost)
{
	struct espl__event *event = espl__real_event(real, ESPL__EV_REACH);
	char span[32];

	ESPL__CHECK(lease, RLEASE);
	lease->lost_at = why != NULL ? espl__tick() : 0;
	event->as.reach.lease = lease->id;
	event->as.reach.reachable = why == NULL;
	event->as.reach.text = espl__arena_strdup(espl__real_arena(real),
	    why != NULL ? why : espl__format_short(lost, span));
	if (why == NULL)
		espl__real_gangs_away(real, lease->id, lost);
}

void
espl__real_tell_ready(struct espl__real *real, struct espl__rlease *lease)
{
	ESPL__CHECK(lease, RLEASE);
	lease->gpus = lease->agent->gpus;
	if (lease->agent->remote && lease->provider_id != NULL) {
		struct espl__event *event = espl__real_event(real, ESPL__EV_HOST);

		event->as.node_why.lease = lease->id;
		event->as.node_why.text =
		    espl__arena_strdup(espl__real_arena(real), lease->provider_id);
	}
	report_state(real, lease, ESPL_NODE_READY, ESPL_NEVER);
}

void
espl__real_lease_hello(struct espl__real *real, struct espl__rlease *lease)
{
	ESPL__CHECK(lease, RLEASE);
	if (lease->lost_at != 0) /* the session before this one was lost */
		espl__real_lease_reach(real, lease, NULL, espl__tick() - lease->lost_at);
	if (lease->reported >= ESPL_NODE_READY || lease->releasing || lease->ended ||
	    real->rejoining)
		return;
	espl__real_tell_ready(real, lease);
	espl__real_reach_join(real, lease);
}

/* Its agent failed too often, or must fail again: the machine is of no use. */
static void
give_up(struct espl__real *real, struct espl__rlease *lease, const char *why, espl_reason blame)
{
	if (lease->reported == ESPL_NODE_READY) /* nothing new is to be placed there meanwhile */
		report_state(real, lease, ESPL_NODE_NOTICE, espl__real_clock(real));
	replace_text(&lease->why, why);
	espl__real_release(real, lease, blame);
}

/* Whether a process is the keeper of a session on another node that is this machine: it has no
 * parent but us, and must live when its connection is down. */
static int
is_keeper(const void *ctx, pid_t pid)
{
	const struct espl__real *real = ctx;
	uint64_t epoch = espl__reap_epoch(pid);

	for (uint32_t i = 0; epoch != 0 && i < real->lease_count; i++)
		if (real->leases[i]->epoch == epoch && real->leases[i]->agent != NULL)
			return 1;
	return 0;
}

void
espl__real_lease_agent_gone(struct espl__real *real, struct espl__rlease *lease,
    const struct espl__ragent *agent)
{
	int64_t tick = espl__tick();
	uint32_t orphans, left = 0;

	ESPL__CHECK(real, REAL);
	ESPL__CHECK(lease, RLEASE);
	ESPL__CHECK(agent, RAGENT);
	lease->agent = NULL;
	espl__real_reach_gone(real, lease);
	if (real->rejoining) { /* its session is gone: an ordinary agent is started later */
		lease->rejoined = 0;
		return;
	}
	orphans = espl__reap_orphans(&real->pids, is_keeper, real, 2000, &left);
	if (left > 0)
		espl__log(ESPL_ERROR, "node %llu: %u processes of trials could not be killed",
		    (unsigned long long)lease->id, left);
	else if (orphans > 0)
		espl__log(ESPL_DEBUG, "node %llu: killed %u processes that its agent left behind",
		    (unsigned long long)lease->id, orphans);
	espl__real_gangs_lost(real, lease->id);
	if (lease->ended) {
		finish_lease(real, lease);
		return;
	}
	if (lease->releasing) {
		if (real->cloud_up)
			release_now(real, lease, tick);
		return;
	}
	if (real->closing)
		return;
	real->agents_lost = 1;
	if (tick - agent->born > AGENT_LIVED)
		lease->tries = 0;
	lease->tries++;
	if (!agent->unfit) {
		espl__log(ESPL_WARN, "node %llu: agent lost: %s", (unsigned long long)lease->id,
		    agent->why);
		report_why(real, lease, "agent lost: ", agent->why);
	}
	if (agent->unfit)
		give_up(real, lease, agent->why, ESPL__BY_GIVING_UP);
	else if (agent->refused)
		give_up(real, lease, agent->why, ESPL__BY_REFUSAL);
	else if (lease->tries >= ESPL__REAL_AGENT_TRIES)
		give_up(real, lease, agent->why, ESPL__BY_GIVING_UP);
	else if (lease->tries == 1)
		espl__agent_start(real, lease);
	else
		lease->agent_at = tick + ESPL__REAL_SECOND;
}

void
espl__real_leases_tick(struct espl__real *real, int64_t tick)
{
	uint32_t i;

	for (i = real->lease_count; i-- > 0;) { /* backwards: the one at i may be freed */
		struct espl__rlease *lease;

		if (i >= real->lease_count) /* the plugin ended others meanwhile */
			continue;
		lease = real->leases[i];
		if (lease->agent_at != 0 && tick >= lease->agent_at && !real->closing) {
			lease->agent_at = 0;
			espl__agent_start(real, lease);
		} else if (lease->releasing && lease->agent == NULL && real->cloud_up &&
		    tick >= lease->release_at) {
			release_now(real, lease, tick);
		}
	}
}

/* The leases that are held according to the journal, with the details from DIR/leases.json. */
espl_status
espl__real_leases_resume(struct espl__real *real, struct espl__diag *diag)
{
	uint32_t i, count = espl__exec_leases(real->world.exec, NULL, 0);
	struct espl__lease_info *list = espl__alloc((count + 1) * sizeof *list);
	espl_status status;

	ESPL__CHECK(real, REAL);
	count = espl__exec_leases(real->world.exec, list, count);
	for (i = 0; i < count; i++)
		(void)espl__real_lease_add(real, list[i].lease, list[i].offer,
		    list[i].max_price_hour);
	status = espl__real_dir_load_leases(real, diag);
	for (i = 0; i < count; i++) {
		struct espl__rlease *lease = espl__real_lease(real, list[i].lease);

		/* Asked for, but no answer on record: asked again with the same token. */
		lease->adopt = lease->provider_id != NULL || list[i].state >= ESPL_NODE_BOOTING;
	}
	free(list);
	return status;
}
