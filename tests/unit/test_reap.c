/* test_reap.c - the sweep for what an agent has left behind, beside the keepers of other sessions.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "real/reap.h"

#define EPOCH UINT64_C(0x1f2e3d4c5b6a7988)

/* A process that looks like a keeper of this epoch; NULL: like any other one. */
static pid_t
start_orphan(const char *epoch)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (epoch != NULL)
			execl("/bin/sh", "espalier-agent", "-c", "sleep 60; :", "--keep",
			    "espl-1-2", epoch, "1000", (char *)NULL);
		execl("/bin/sh", "sh", "-c", "sleep 60; :", (char *)NULL);
		_exit(127);
	}
	cr_assert_gt(pid, 0);
	return pid;
}

static int
is_alive(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == 0;
}

/* Until it is another program. */
static void
await_epoch(pid_t pid)
{
	for (int i = 0; i < 1000 && espl__reap_epoch(pid) == 0; i++)
		(void)usleep(5000);
}

static int
is_ours(const void *ctx, pid_t pid)
{
	(void)ctx;
	return espl__reap_epoch(pid) == EPOCH;
}

Test(reap, the_keeper_of_a_neighbor_lives)
{
	struct espl__pids known = { 0 };
	pid_t keeper, other, orphan;
	uint32_t left;

	cr_assert_eq(espl__reap_init(&known), 0);
	keeper = start_orphan("1f2e3d4c5b6a7988.2");
	other = start_orphan("77.2"); /* of a session that is over */
	orphan = start_orphan(NULL);
	await_epoch(keeper);
	await_epoch(other);
	cr_assert_eq(espl__reap_epoch(keeper), EPOCH);
	cr_assert_eq(espl__reap_epoch(orphan), 0);
	cr_assert_geq(espl__reap_orphans(&known, is_ours, NULL, 20000, &left), 2u);
	cr_assert_eq(left, 0);
	cr_assert(is_alive(keeper), "the keeper of another session was killed");
	cr_assert(!is_alive(other) && !is_alive(orphan));
	cr_assert_geq(espl__reap_orphans(&known, NULL, NULL, 20000, &left), 1u);
	cr_assert(!is_alive(keeper));
	espl__pids_free(&known);
}
