/* ec2_world.c - EC2 on a virtual clock: see ec2_world.h. */
#include "ec2_world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define S ESPL_SECOND
#define NOTICE (120 * S)
#define SSHD (8 * S) /* from running until ssh answers */

/* Micro-dollars per hour on demand. */
static const struct {
	const char *name;
	espl_money usd_hour;
} types[] = { { "g5.xlarge", 1006000 }, { "c5.large", 97000 } };

/* ---- time, chance, text -------------------------------------------------------------------- */

static espl_time
now_of(const struct ec2_world *w)
{
	return espl_kit_time(w->kit);
}

static espl_time
floor_second(espl_time at)
{
	return at / S * S;
}

uint64_t
ec2_world_draw(struct ec2_world *w, uint64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return below > 0 ? (w->random >> 11) % below : 0;
}

espl_span
ec2_world_span(struct ec2_world *w, espl_span most)
{
	return most > 0 ? (espl_span)ec2_world_draw(w, (uint64_t)(most / S + 1)) * S : 0;
}

/* ---- machines ------------------------------------------------------------------------------ */

const char *
ec2_world_state(const struct ec2_machine *m, espl_time at)
{
	if (at >= m->end)
		return at >= m->end + 20 * S ? "terminated" : "shutting-down";
	if (at >= m->stopped)
		return "stopped";
	return at >= m->running ? "running" : "pending";
}

struct ec2_machine *
ec2_world_machine(struct ec2_world *w, const char *token)
{
	struct ec2_machine *found = NULL;

	for (uint32_t i = 0; i < w->count; i++)
		if (strcmp(w->machines[i].token, token) == 0)
			found = &w->machines[i];
	return found;
}

static void
end_machine(struct ec2_machine *m, espl_time at, const char *why)
{
	m->end = floor_second(at);
	(void)snprintf(m->why, sizeof m->why, "%s", why);
}

void
ec2_world_end(struct ec2_world *w, struct ec2_machine *m, const char *why)
{
	end_machine(m, now_of(w), why);
}

void
ec2_world_interrupt(struct ec2_world *w, struct ec2_machine *m, int notice)
{
	if (notice)
		m->notice = floor_second(now_of(w));
	else
		end_machine(m, now_of(w), "Server.SpotInstanceTermination");
}

/* When its dead man's switch shuts it down. */
static espl_time
off_at(const struct ec2_machine *m)
{
	espl_time used = m->agent_from != ESPL_NEVER ? m->agent_until : m->running;
	espl_time most = m->running + m->most_s * S;

	if (m->orphan_s == 0)
		return ESPL_NEVER;
	if (used == ESPL_NEVER || used + m->orphan_s * S > most)
		return most;
	return used + m->orphan_s * S;
}

void
ec2_world_settle(struct ec2_world *w)
{
	for (uint32_t i = 0; i < w->count; i++) {
		struct ec2_machine *m = &w->machines[i];
		espl_time off = off_at(m);
		espl_time taken =
		    m->notice != ESPL_NEVER ? m->notice + NOTICE + m->late : ESPL_NEVER;

		if (m->end != ESPL_NEVER || m->stopped != ESPL_NEVER)
			continue;
		if (taken <= now_of(w) && taken <= off)
			end_machine(m, taken, "Server.SpotInstanceTermination");
		else if (off <= now_of(w))
			end_machine(m, off, "Client.InstanceInitiatedShutdown");
	}
}

uint32_t
ec2_world_left(struct ec2_world *w)
{
	uint32_t left = 0;

	ec2_world_settle(w);
	for (uint32_t i = 0; i < w->count; i++)
		left += w->machines[i].end == ESPL_NEVER;
	return left;
}

void
ec2_world_driver_gone(struct ec2_world *w)
{
	for (uint32_t i = 0; i < w->count; i++)
		if (w->machines[i].agent_until == ESPL_NEVER)
			w->machines[i].agent_until = now_of(w) + w->linger;
}

void
ec2_world_driver_back(struct ec2_world *w)
{
	for (uint32_t i = 0; i < w->count; i++)
		if (w->machines[i].agent_until > now_of(w))
			w->machines[i].agent_until = ESPL_NEVER;
}

/* ---- money --------------------------------------------------------------------------------- */

static espl_money
price_at(const struct ec2_world *w, const struct ec2_machine *m, espl_time at)
{
	espl_money price = 0;

	for (size_t i = 0; !m->spot && i < sizeof types / sizeof types[0]; i++)
		if (strcmp(types[i].name, m->type) == 0)
			price = types[i].usd_hour;
	for (uint32_t i = 0; m->spot && i < w->price_count; i++)
		if (w->prices[i].from <= at)
			price = w->prices[i].usd_hour;
	return price;
}

espl_money
ec2_world_charge(const struct ec2_world *w, const struct ec2_machine *m, espl_time begin,
    espl_time end)
{
	espl_money sum = 0;

	if (m->spot && strcmp(m->why, "Server.SpotInstanceTermination") == 0 &&
	    end - begin < 3600 * S)
		return 0;
	if (end < begin + 60 * S)
		end = begin + 60 * S;
	for (espl_time at = begin; at < end; at += S)
		sum += price_at(w, m, at);
	return (sum + 1800) / 3600;
}

espl_money
ec2_world_bill(struct ec2_world *w, const struct ec2_machine *m)
{
	espl_time end;

	ec2_world_settle(w);
	end = m->end != ESPL_NEVER ? m->end : now_of(w);
	return end < m->running ? 0 : ec2_world_charge(w, m, m->running, end);
}

/* ssh-keygen: each key is another one. */
static void
make_key(struct ec2_world *w, const struct espl_spawn *spawn, struct espl_child *child)
{
	static const char usage[] = "usage: ssh-keygen\n", missing[] = "No such file or directory";
	const char *path = spawn->argv[spawn->argc - 1];
	char public[200];
	FILE *file;

	child->exit_code = 1;
	child->err = w->without_keygen ? missing : usage;
	child->err_size = strlen(child->err);
	child->status = w->without_keygen ? ESPL_E_REMOTE : ESPL_OK;
	if (w->without_keygen || strcmp(path, "-?") == 0 || access(path, F_OK) == 0)
		return;
	(void)snprintf(public, sizeof public, "%s.pub", path);
	file = fopen(path, "w");
	if (file == NULL)
		abort();
	(void)fprintf(file, "-----BEGIN KEY-----\nprivate%u\n-----END KEY-----\n", ++w->keys);
	(void)fclose(file);
	file = fopen(public, "w");
	if (file == NULL)
		abort();
	(void)fprintf(file, "ssh-ed25519 public%u \n", w->keys);
	(void)fclose(file);
	child->exit_code = 0;
}

/* ssh: machines answer some seconds after they run; the agent is there from then on. */
static void
answer_child(void *ctx, const struct espl_spawn *spawn, struct espl_child *child)
{
	static const char refused[] = "ssh: connect to host: Connection refused\n";
	static const char strange[] = "No ED25519 host key is known for espl-kit-0 and you have "
				      "requested strict checking.\nHost key verification failed.\n";
	struct ec2_world *w = ctx;

	if (strcmp(spawn->argv[0], "ssh-keygen") == 0) {
		make_key(w, spawn, child);
		return;
	}

	w->strict = 0;
	for (uint32_t k = 0; k < spawn->argc; k++)
		w->strict |= strcmp(spawn->argv[k], "-oStrictHostKeyChecking=yes") == 0;
	ec2_world_settle(w);
	for (uint32_t k = 0; k < spawn->argc; k++)
		for (uint32_t i = 0; i < w->count; i++) {
			struct ec2_machine *m = &w->machines[i];

			if (strncmp(spawn->argv[k], "10.9.0.", 7) != 0 ||
			    strcmp(spawn->argv[k] + 7, m->id + 2) != 0 || w->unreachable ||
			    w->other_keys || m->end != ESPL_NEVER || m->stopped != ESPL_NEVER ||
			    now_of(w) < m->running + SSHD)
				continue;
			if (m->agent_from == ESPL_NEVER && !w->without_agent)
				m->agent_from = now_of(w);
			return;
		}
	child->exit_code = 255;
	child->err = w->other_keys ? strange : refused;
	child->err_size = strlen(child->err);
}

/* ---- the world ----------------------------------------------------------------------------- */

static void
remove_files(const struct ec2_world *w)
{
	char command[300];

	(void)snprintf(command, sizeof command, "cd %s && rm -rf aws aws.keys known_hosts",
	    w->folder);
	if (system(command) != 0)
		abort();
}

static void
forget_all(void *ctx)
{
	struct ec2_world *w = ctx;

	for (uint32_t i = 0; i < w->count; i++) {
		free(w->machines[i].digest);
		free(w->machines[i].user_data);
	}
	w->count = 0;
	remove_files(w);
}

static uint32_t
count_left(void *ctx)
{
	return ec2_world_left(ctx);
}

void
ec2_world_begin(struct ec2_world *w, struct espl_kit *kit, uint64_t seed)
{
	const char *tmp = getenv("TMPDIR");

	*w = (struct ec2_world){ .kit = kit,
		.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 88172645463325252u,
		.linger = 60 * S,
		.page = 5,
		.vcpus = 1000,
		.account = "123456789012",
		.price_count = 1,
		.provider = { .size = sizeof w->provider,
		    .ctx = w,
		    .http = ec2_world_answer,
		    .child = answer_child,
		    .reset = forget_all,
		    .machines = count_left } };
	w->prices[0].from = -48 * 3600 * S;
	w->prices[0].usd_hour = 402413;
	for (int i = 0; i < 3; i++)
		w->buckets[i].left = 100;
	espl_kit_set_provider(kit, &w->provider);
	(void)snprintf(w->folder, sizeof w->folder, "%.40s/ec2-XXXXXX", tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(w->folder) == NULL)
		abort();
	w->run = (struct espl_run){ .size = sizeof w->run, .folder = w->folder };
	espl_kit_set_service(kit, ESPL_RUN, &w->run);
}

void
ec2_world_free(struct ec2_world *w)
{
	forget_all(w);
	(void)rmdir(w->folder);
	free(w->form);
	free(w->answer);
}
