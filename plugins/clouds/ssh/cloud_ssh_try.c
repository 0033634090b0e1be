/* cloud_ssh_try.c - commands on hosts: when they run, how many at a time, and what follows when a
 * host cannot be used.
 *
 * Nothing that is found at the start decides for the whole run: a host that fails its probe is
 * tried again after pauses that grow, and joins its offer when it answers.  Jump hosts and sshd
 * drop connections when many are opened at once, so only a few commands go the same way at a time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud_ssh.h"

#define AT_ONCE 16u   /* commands */
#define SAME_WAY 4u   /* of them, through the same jump hosts */
#define START_TIMES 8 /* connect_limit: how long a run waits for its first host */
#define PAUSE_CLOSED (ESPL_SECOND / 2)
#define PAUSE_SILENT (2 * ESPL_SECOND)
#define PAUSE_UNFIT (30 * ESPL_SECOND)
#define SILENT_MOST (30 * ESPL_SECOND) /* pauses do not grow beyond */
#define UNFIT_MOST (300 * ESPL_SECOND)

static espl_time
now_of(const struct ssh_cloud *cloud)
{
	return cloud->host->now(cloud->host);
}

/* ---- when ---- */

/* Between three and five quarters of the span, the same at each run: many hosts that failed at once
 * do not return at once. */
static espl_span
vary_span(const struct ssh_cloud *cloud, const struct ssh_host *host, espl_span span)
{
	uint32_t mixed = (uint32_t)(host - cloud->hosts) * 2654435761u ^ host->failures * 40503u;

	mixed ^= mixed >> 15;
	return span * 3 / 4 + span / 2 * (espl_span)(mixed % 1000) / 1000;
}

espl_span
cloud_ssh_try_pause(const struct ssh_cloud *cloud, const struct ssh_host *host)
{
	espl_span pause = host->failure == SSH_CLOSED ? PAUSE_CLOSED
	    : host->failure == SSH_SILENT             ? PAUSE_SILENT
						      : PAUSE_UNFIT,
		  most = host->failure == SSH_UNFIT ? UNFIT_MOST : SILENT_MOST;

	for (uint32_t i = 1; i < host->failures && pause < most; i++)
		pause *= 2;
	return vary_span(cloud, host, pause < most ? pause : most);
}

/* When a run no longer waits for its first host. */
static espl_time
start_limit(const struct ssh_cloud *cloud)
{
	return cloud->began + START_TIMES * cloud->config->values[SSH_OPT_LIMIT].as.i;
}

/* One timer, for the first of the commands that wait for their time. */
static void
set_timer(struct ssh_cloud *cloud)
{
	espl_time now = now_of(cloud), first = ESPL_NEVER;

	if (!cloud->started && start_limit(cloud) > now)
		first = start_limit(cloud);
	for (uint32_t i = 0; i < cloud->count; i++) {
		const struct ssh_host *host = &cloud->hosts[i];

		/* one that is due already waits for the end of another command */
		if (host->wanted != SSH_IDLE && host->due > now && host->due < first)
			first = host->due;
	}
	if (first >= cloud->timer_at)
		return;
	if (cloud->timer_at != ESPL_NEVER)
		cloud->io->cancel(cloud->io, SSH_TIMER);
	cloud->timer_at = ESPL_NEVER;
	if (cloud->io->timer(cloud->io, first - now, SSH_TIMER) == ESPL_OK)
		cloud->timer_at = first;
}

void
cloud_ssh_try_want(struct ssh_cloud *cloud, struct ssh_host *host, enum ssh_command command,
    espl_span after)
{
	host->wanted = command;
	host->due = now_of(cloud) + after;
}

void
cloud_ssh_try_forget(struct ssh_cloud *cloud, struct ssh_host *host)
{
	if (host->command == SSH_LOOK) {
		cloud->io->cancel(cloud->io, (uint64_t)(host - cloud->hosts));
		host->command = SSH_IDLE;
	}
	if (host->wanted == SSH_LOOK)
		host->wanted = SSH_IDLE;
}

/* ---- commands ---- */

/* The answer comes under the number of the host. */
static espl_status
run_command(struct ssh_cloud *cloud, struct ssh_host *host, enum ssh_command command)
{
	struct espl_spawn spawn = ESPL_INIT(struct espl_spawn);
	struct cloud_words list = command == SSH_WAY ? cloud_ssh_words_way(cloud, host)
	    : command == SSH_PROBE                   ? cloud_ssh_words_probe(cloud, host)
	    : command == SSH_ROUTE
	    ? cloud_ssh_words_route(cloud, host, &cloud->hosts[host->route_to])
	    : cloud_ssh_words_look(cloud, host, host->lease->lease.token);
	espl_status status = ESPL_E_NOMEM;

	if (list.list != NULL) {
		spawn.argc = list.count;
		spawn.argv = (const char *const *)list.list;
		spawn.limit = cloud->config->values[SSH_OPT_LIMIT].as.i + SSH_ANSWER_MORE;
		spawn.cookie = (uint64_t)(host - cloud->hosts);
		status = cloud->io->spawn(cloud->io, &spawn, NULL);
	}
	if (status == ESPL_OK)
		host->command = command;
	cloud_words_free(&list);
	return status;
}

/* Is there room for a command of this host? */
static int
has_room(const struct ssh_cloud *cloud, const struct ssh_host *host)
{
	uint32_t all = 0, same = 0;

	for (uint32_t i = 0; i < cloud->count; i++) {
		const struct ssh_host *other = &cloud->hosts[i];

		if (other->command == SSH_IDLE)
			continue;
		all++;
		same += other->command != SSH_WAY && host->way[0] != '\0' &&
		    strcmp(other->way, host->way) == 0;
	}
	return all < AT_ONCE && (host->wanted == SSH_WAY || same < SAME_WAY);
}

/* ---- the start ---- */

static int
knows_enough(const struct ssh_cloud *cloud)
{
	uint32_t usable = 0, silent = 0;

	for (uint32_t i = 0; i < cloud->count; i++) {
		const struct ssh_host *host = &cloud->hosts[i];

		usable += host->usable != 0;
		silent += host->failure == SSH_CLOSED || host->failure == SSH_SILENT;
		if (!host->usable &&
		    (host->failure == 0 ||
			(host->failure == SSH_CLOSED && host->failures < SSH_TRIES)))
			return 0;
	}
	return usable > 0 || silent == 0 || cloud->run == NULL ||
	    now_of(cloud) >= start_limit(cloud);
}

/* The first host tries one other after the other.  1: it has not tried all. */
static int
awaits_return(struct ssh_cloud *cloud)
{
	struct ssh_host *door = &cloud->hosts[cloud->door - 1];

	if (door->wanted == SSH_ROUTE || door->command == SSH_ROUTE)
		return 1;
	for (uint32_t i = (door->asked_route ? door->route_to : cloud->door - 1) + 1;
	     i < cloud->count; i++) {
		if (!cloud->hosts[i].usable)
			continue;
		door->asked_route = 1;
		door->route_to = i;
		cloud_ssh_try_want(cloud, door, SSH_ROUTE, 0);
		return 1;
	}
	return 0;
}

/* `check` asks whether the hosts reach the first one, and it them, as ranks on several of them
 * must; a run tries it with its agents.  1: not all have answered. */
static int
awaits_routes(struct ssh_cloud *cloud)
{
	int waits = 0;

	for (uint32_t i = 0; cloud->run == NULL && cloud->door == 0 && i < cloud->count; i++)
		cloud->door = cloud->hosts[i].usable ? i + 1 : 0;
	for (uint32_t i = cloud->door; cloud->door > 0 && i < cloud->count; i++) {
		struct ssh_host *host = &cloud->hosts[i];

		if (host->usable && !host->asked_route) {
			host->route_to = cloud->door - 1;
			cloud_ssh_try_want(cloud, host, SSH_ROUTE, 0);
		}
		host->asked_route = 1;
		waits |= host->wanted == SSH_ROUTE || host->command == SSH_ROUTE;
	}
	return waits | (cloud->door > 0 && awaits_return(cloud));
}

static void
take_route(const struct ssh_cloud *cloud, const struct ssh_host *host,
    const struct espl_child *child)
{
	const struct ssh_host *other = &cloud->hosts[host->route_to];
	char why[SSH_TEXT], text[SSH_TEXT];

	if (cloud_ssh_answer_route(child, why) == 0)
		return;
	(void)snprintf(text, sizeof text,
	    "it cannot reach host '%.80s' at %.64s (%.200s), so no trial could run on both",
	    ssh_name(other), other->address[0] != '\0' ? other->address : ssh_address(other), why);
	ssh_tell(cloud, ESPL_INFO, host, text);
}

static void
end_start(struct ssh_cloud *cloud)
{
	char text[SSH_TEXT + 200];
	uint32_t usable = 0;

	for (uint32_t i = 0; i < cloud->count; i++)
		usable += cloud->hosts[i].usable != 0;
	cloud->started = 1;
	(void)cloud_ssh_offers_report(cloud, cloud->events, ESPL_ANY, 1);
	if (usable > 0) {
		cloud->events->done(cloud->events, 0, ESPL_OK, "");
		return;
	}
	for (uint32_t i = 0; i < cloud->count; i++)
		cloud->hosts[i].wanted = SSH_IDLE;
	if (cloud->count == 1)
		(void)snprintf(text, sizeof text, "%s", cloud->why);
	else
		(void)snprintf(text, sizeof text,
		    "none of the %u hosts can be used; the last one: %s", cloud->count, cloud->why);
	cloud->events->done(cloud->events, 0, ESPL_E_REMOTE, text);
}

/* ---- probes ---- */

/* A host that fails is told of once, until it can be used or fails in another way.  The only one is
 * named by the end of the start. */
static void
tell_failure(struct ssh_cloud *cloud, struct ssh_host *host, const char *text)
{
	char line[SSH_TEXT + 60];
	int again = host->wanted != SSH_IDLE && host->failure != SSH_UNFIT;

	(void)snprintf(cloud->why, sizeof cloud->why, "host '%.80s': %s", ssh_name(host), text);
	if ((host->failure == SSH_CLOSED && host->failures < SSH_TRIES) ||
	    host->told == host->failure || (cloud->count == 1 && !again))
		return;
	host->told = host->failure;
	(void)snprintf(line, sizeof line, "%s%s", text, again ? "; it is tried again" : "");
	ssh_tell(cloud, ESPL_WARN, host, line);
}

static void
fail_probe(struct ssh_cloud *cloud, struct ssh_host *host, enum ssh_failure failure,
    const char *text)
{
	host->failures = host->failure == failure ? host->failures + 1 : 1;
	host->failure = failure;
	host->usable = 0;
	if (cloud->run != NULL || (failure == SSH_CLOSED && host->failures < SSH_TRIES))
		cloud_ssh_try_want(cloud, host, SSH_PROBE, cloud_ssh_try_pause(cloud, host));
	tell_failure(cloud, host, text);
}

/* Two names of one machine would be two leases of the same GPUs. */
static const struct ssh_host *
find_same(const struct ssh_cloud *cloud, const struct ssh_host *host)
{
	for (uint32_t i = 0; i < cloud->count; i++) {
		const struct ssh_host *other = &cloud->hosts[i];

		if (other != host && (other->usable || ssh_is_leased(other)) &&
		    host->lock[0] != '\0' && strcmp(other->lock, host->lock) == 0)
			return other;
	}
	return NULL;
}

static void
take_probe(struct ssh_cloud *cloud, struct ssh_host *host, const struct espl_child *child)
{
	char text[SSH_TEXT];
	enum ssh_failure failure = cloud_ssh_answer_probe(cloud, host, child, text);
	const struct ssh_host *same = failure == 0 ? find_same(cloud, host) : NULL;

	if (same != NULL) {
		failure = SSH_UNFIT;
		(void)snprintf(text, sizeof text,
		    "it is the same machine as host '%.80s' (same name, home and network); list "
		    "it once",
		    ssh_name(same));
	}
	if (failure != 0) {
		fail_probe(cloud, host, failure, text);
		return;
	}
	host->usable = 1;
	host->failure = host->told = 0;
	host->failures = 0;
	ssh_tell(cloud, ESPL_INFO, host, text);
	if (host->lockless[0] != '\0') {
		(void)snprintf(text, sizeof text,
		    "no file can be locked there (%s), so another run on it would not be noticed",
		    host->lockless);
		ssh_tell(cloud, ESPL_WARN, host, text);
	}
	if (cloud->started)
		(void)cloud_ssh_offers_report(cloud, cloud->events, host->offer, 1);
}

/* ---- entries ---- */

struct ssh_host *
cloud_ssh_try_due(struct ssh_cloud *cloud)
{
	espl_time now = now_of(cloud);

	if (!cloud->started && knows_enough(cloud))
		(void)awaits_routes(cloud);
	for (uint32_t i = 0; i < cloud->count; i++) {
		struct ssh_host *host = &cloud->hosts[i];
		enum ssh_command wanted = host->wanted;

		if (wanted == SSH_IDLE || host->due > now || host->command != SSH_IDLE ||
		    !has_room(cloud, host))
			continue;
		host->wanted = SSH_IDLE;
		if (run_command(cloud, host, wanted) == ESPL_OK)
			continue;
		if (wanted == SSH_LOOK)
			return host;
		if (wanted != SSH_ROUTE)
			fail_probe(cloud, host, SSH_SILENT, "ssh cannot be started");
	}
	if (!cloud->started && knows_enough(cloud) && !awaits_routes(cloud))
		end_start(cloud);
	set_timer(cloud);
	return NULL;
}

void
cloud_ssh_try_child(struct ssh_cloud *cloud, struct ssh_host *host, enum ssh_command command,
    const struct espl_child *child)
{
	if (command == SSH_PROBE || command == SSH_ROUTE) {
		if (command == SSH_PROBE)
			take_probe(cloud, host, child);
		else
			take_route(cloud, host, child);
		return;
	}
	cloud_ssh_answer_way(host, child);
	cloud_ssh_try_want(cloud, host, SSH_PROBE, 0);
}

/* Few hosts are no crowd, whatever way they go. */
void
cloud_ssh_try_begin(struct ssh_cloud *cloud)
{
	cloud->began = now_of(cloud);
	cloud->timer_at = ESPL_NEVER;
	for (uint32_t i = 0; i < cloud->count; i++)
		cloud_ssh_try_want(cloud, &cloud->hosts[i],
		    cloud->count > SAME_WAY ? SSH_WAY : SSH_PROBE, 0);
	(void)cloud_ssh_try_due(cloud);
}
