/* cluster_health.c - the ledger of machines: which failed, and which are avoided.
 *
 * An offer sells machines that are not alike: one that fails is avoided for a while, whatever lease
 * it was part of.
 */
#include <string.h>

#include "base/assert.h"
#include "exec/cluster_health.h"
#include "exec/effects.h"

static struct espl__health *
health_of(struct espl__exec *x, const struct espl__machine *n)
{
	return espl__health_of(&x->cluster.health, n->pub.offer, n->machine, n->pub.id);
}

void
espl__cluster_machine(struct espl__exec *x, uint64_t lease, const char *machine)
{
	struct espl__machine *n = espl__machine_at(&x->fleet, lease);

	ESPL__CHECK(x, EXEC);
	if (n == NULL || !n->live || (n->machine != NULL && strcmp(n->machine, machine) == 0))
		return;
	n->machine = espl__arena_strdup(&x->fleet.arena, machine);
	(void)health_of(x, n);
	espl__exec_note(x, ESPL_ABOUT_NODE, lease, "node %llu is on machine '%s'",
	    (unsigned long long)lease, machine);
}

void
espl__cluster_fails(struct espl__exec *x, const struct espl__machine *n,
    enum espl__health_fault fault, const char *why)
{
	ESPL__CHECK(n, MACHINE);
	espl__health_fails(health_of(x, n), fault, why, x->now);
}

void
espl__cluster_works(struct espl__exec *x, const struct espl__machine *n)
{
	ESPL__CHECK(n, MACHINE);
	if (n->machine != NULL)
		espl__health_works(health_of(x, n), x->now);
}

void
espl__cluster_forgive_machines(struct espl__exec *x)
{
	ESPL__CHECK(x, EXEC);
	for (uint32_t i = 0; i < x->cluster.health.count; i++)
		espl__health_forgive(x->cluster.health.list[i]);
}
