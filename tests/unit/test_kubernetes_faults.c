/* test_kubernetes_faults.c - cloud kubernetes against an API server that loses, refuses and delays
 * requests, and whose nodes die: every pod is deleted or belongs to a lease.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kube_server.h"

#define S ESPL_SECOND
#define HOUR (3600 * S)

/* ---- tests ---- */

/* Something happens to a pod. */
static void
disturb(struct kube_server *s)
{
	struct fake_pod *pod = s->count > 0 ? &s->pods[kube_server_random(s) % s->count] : NULL;

	s->full = kube_server_random(s) % 8 == 0;
	s->quota = kube_server_random(s) % 8 == 0;
	s->no_right = kube_server_random(s) % 16 == 0;
	kube_server_advance(s);
	if (pod == NULL || !pod->exists)
		return;
	if (kube_server_random(s) % 4 == 0 && pod->running) { /* its node dies */
		pod->lost = 1;
		kube_server_emit(s, "MODIFIED", pod);
	}
	if (kube_server_random(s) % 4 != 0)
		kube_server_delete(s, pod, pod->lost || kube_server_random(s) % 2 ? 30 * S : 0);
}

static void
live_with_faults(struct kube_server *s, uint64_t seed)
{
	struct espl_kit *kit = kube_server_open(s, seed);
	uint64_t leases = 0;

	kube_server_start(s);
	s->chance = 10 + (unsigned)(seed % 4) * 20;
	for (int i = 0; i < 12; i++) {
		if (kube_server_random(s) % 3 != 0) {
			(void)espl_kit_acquire(kit, 0, 1);
			leases++;
		} else if (leases > 0) {
			uint64_t one = kube_server_random(s) % leases;

			if (espl_kit_lease(kit, one)->state != ESPL_NODE_ENDED)
				(void)espl_kit_release(kit, one);
		}
		disturb(s);
		espl_kit_wait(kit, (espl_span)(kube_server_random(s) % 60) * S);
	}
	s->chance = 0;
	s->full = s->quota = s->no_right = 0;
	for (uint64_t i = 0; i < leases; i++)
		if (espl_kit_lease(kit, i)->state != ESPL_NODE_ENDED)
			(void)espl_kit_release(kit, i);
	for (uint64_t i = 0; i < leases; i++)
		cr_assert(espl_kit_wait_node(kit, i, ESPL_NODE_ENDED, HOUR), "seed %llu lease %llu",
		    (unsigned long long)seed, (unsigned long long)i);
	espl_kit_wait(kit, 120 * S);
	for (unsigned i = 0; i < s->count; i++)
		cr_assert_not(s->pods[i].exists, "seed %llu: pod %s is left\n%s",
		    (unsigned long long)seed, s->pods[i].name, espl_kit_log(kit));
	kube_server_close(s);
}

Test(kubernetes_faults, no_pod_is_forgotten, .timeout = 300)
{
	static struct kube_server s;

	for (uint64_t seed = 1; seed <= 200; seed++)
		live_with_faults(&s, seed);
}

/* The server is busy just when a pod that found no node is given up. */
Test(kubernetes_faults, an_end_is_confirmed)
{
	static struct kube_server s;
	struct espl_kit *kit = kube_server_open(&s, 3);

	kube_server_start(&s);
	s.full = 1;
	(void)espl_kit_acquire(kit, 0, 1);
	espl_kit_wait(kit, 100 * S);
	s.refuse_verbs = 3;
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_CAPACITY);
	cr_assert_eq(kube_server_count(&s), 1);
	s.full = 0; /* now it finds a node */
	/* what a run asks at its end: pods that are on their way out are not listed */
	cr_assert_eq(espl_kit_owned(kit, "kit"), ESPL_OK);
	cr_assert_eq(espl_kit_wait_done(kit, HOUR), ESPL_OK);
	cr_assert_not(kube_server_says(&s, "owned lease=0"), "%s", espl_kit_log(kit));
	cr_assert_eq(kube_server_count(&s), 0, "%s", espl_kit_log(kit));
	cr_assert_eq(s.refuse_verbs, 0);
	kube_server_close(&s);
}

Test(kubernetes_faults, a_lost_node_ends_the_lease)
{
	static struct kube_server s;
	struct espl_kit *kit = kube_server_open(&s, 4);
	espl_time begun;

	kube_server_start(&s);
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_READY, HOUR));
	s.pods[0].lost = 1;
	kube_server_emit(&s, "MODIFIED", &s.pods[0]);
	kube_server_delete(&s, &s.pods[0], 30 * S);
	begun = espl_kit_time(kit);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_NOTICE, 5 * S));
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	cr_assert_geq(espl_kit_time(kit) - begun, 30 * S);
	cr_assert_leq(espl_kit_time(kit) - begun, 50 * S);
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_PROVIDER);
	espl_kit_wait(kit, 10 * S);
	cr_assert_eq(kube_server_count(&s), 0, "%s", espl_kit_log(kit));
	cr_assert_geq(s.forced, 1);
	kube_server_close(&s);
}

Test(kubernetes_faults, a_pod_that_leaves_is_ready_and_then_noticed_after_a_restart)
{
	static struct kube_server s;
	struct espl_kit *kit = kube_server_open(&s, 5);
	const char *ready, *notice;

	kube_server_start(&s);
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_READY, HOUR));
	s.pods[0].deleted = espl_kit_time(kit); /* an eviction */
	s.pods[0].gone = espl_kit_time(kit) + 20 * S;
	kube_server_emit(&s, "MODIFIED", &s.pods[0]);
	espl_kit_clear(kit);
	espl_kit_restart(kit);
	espl_kit_wait(kit, 5 * S);
	ready = strstr(espl_kit_log(kit), "node lease=0 READY");
	notice = strstr(espl_kit_log(kit), "node lease=0 NOTICE");
	cr_assert(ready != NULL && notice > ready, "%s", espl_kit_log(kit));
	cr_assert_eq(s.deletes, 0);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_PROVIDER);
	kube_server_close(&s);
}

/* kubectl proxy takes requests and answers none. */
Test(kubernetes_faults, a_wedged_proxy_is_replaced)
{
	static struct kube_server s;
	struct espl_kit *kit = kube_server_open(&s, 6);

	kube_server_start(&s);
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_READY, HOUR));
	s.wedged = 1;
	(void)espl_kit_acquire(kit, 0, 2);
	espl_kit_clear(kit);
	espl_kit_wait(kit, 150 * S);
	cr_assert(kube_server_says(&s,
		      "kubectl proxy does not answer in time; starting another one"),
	    "%s", espl_kit_log(kit));
	cr_assert(kube_server_says(&s, "child sh -c"), "%s", espl_kit_log(kit));
	s.wedged = 0;
	cr_assert(espl_kit_wait_node(kit, 2, ESPL_NODE_READY, HOUR));
	kube_server_close(&s);
}

Test(kubernetes_faults, a_watch_without_an_event_is_not_repeated_at_once)
{
	static struct kube_server s;
	struct espl_kit *kit = kube_server_open(&s, 7);

	kube_server_start(&s);
	s.empty_watches = 1;
	(void)espl_kit_acquire(kit, 0, 1);
	s.lists = 0;
	espl_kit_wait(kit, 300 * S);
	cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY);
	cr_assert_leq(s.lists, 30, "%u lists in 300 s", s.lists);
	kube_server_close(&s);
}

/* Whatever the reason is called, and also if it changes all the time. */
Test(kubernetes_faults, a_pod_that_lists_leave_out_has_not_ended)
{
	static struct kube_server s;
	struct espl_kit *kit = kube_server_open(&s, 5);
	unsigned lists;

	kube_server_start(&s);
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_READY, HOUR));
	s.hides = s.empty_watches = 1; /* so that it lists again */
	lists = s.lists;
	espl_kit_wait(kit, 900 * S);
	cr_assert_gt(s.lists, lists);
	cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY, "%s", espl_kit_log(kit));
	kube_server_close(&s);
}

Test(kubernetes_faults, a_pod_that_has_a_node_and_does_not_start_is_given_up)
{
	static struct kube_server s;
	struct espl_kit *kit = kube_server_open(&s, 11);

	kube_server_start(&s);
	s.stuck = "ContainerCreating";
	s.event = "{\"type\": \"Warning\", \"reason\": \"FailedCreatePodSandBox\", \"message\": "
		  "\"failed to assign an IP address\"}";
	(void)espl_kit_acquire(kit, 0, 1);
	espl_kit_wait(kit, 25 * S);
	cr_assert_not(kube_server_says(&s, "waits"), "%s", espl_kit_log(kit));
	espl_kit_wait(kit, 20 * S);
	cr_assert(kube_server_says(&s,
		      "waits: its container is being created: ContainerCreating, for 3"),
	    "%s", espl_kit_log(kit));
	cr_assert(kube_server_says(&s, "FailedCreatePodSandBox: failed to assign an IP address"));
	for (int i = 0; i < 14; i++) {
		s.stuck = i % 2 ? "ContainerCreating" : "PodInitializing";
		kube_server_emit(&s, "MODIFIED", &s.pods[0]);
		cr_assert_neq(espl_kit_lease(kit, 0)->state, ESPL_NODE_ENDED, "%s",
		    espl_kit_log(kit));
		espl_kit_wait(kit, 60 * S);
	}
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, 120 * S), "%s", espl_kit_log(kit));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_FAULT);
	espl_kit_wait(kit, 10 * S);
	cr_assert_eq(kube_server_count(&s), 0);
	kube_server_close(&s);
}

/* An autoscaler adds a node for it: `wait` is too short, and `start` bounds it. */
Test(kubernetes_faults, a_pod_for_which_a_node_is_added_is_waited_for)
{
	static struct kube_server s;
	struct espl_kit *kit = kube_server_open(&s, 12);

	kube_server_start(&s);
	s.full = 1;
	s.event = "{\"reason\": \"TriggeredScaleUp\", \"message\": \"1->2\"}";
	(void)espl_kit_acquire(kit, 0, 1);
	espl_kit_wait(kit, 14 * 60 * S);
	cr_assert_neq(espl_kit_lease(kit, 0)->state, ESPL_NODE_ENDED, "%s", espl_kit_log(kit));
	cr_assert(kube_server_says(&s, "TriggeredScaleUp: 1->2"), "%s", espl_kit_log(kit));
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, 120 * S), "%s", espl_kit_log(kit));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_CAPACITY);
	kube_server_close(&s);
}

/* A webhook fails for pods alone: the server is not away. */
Test(kubernetes_faults, a_pod_that_is_never_accepted_is_given_up)
{
	static struct kube_server s;
	struct espl_kit *kit = kube_server_open(&s, 13);

	kube_server_start(&s);
	s.broken = 1;
	(void)espl_kit_acquire(kit, 0, 1);
	espl_kit_wait(kit, 60 * S);
	cr_assert(kube_server_says(&s,
		      "waits: the API server has not accepted it: failed calling webhook"),
	    "%s", espl_kit_log(kit));
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR), "%s", espl_kit_log(kit));
	cr_assert_eq(espl_kit_reason(kit, 0), ESPL_BY_CAPACITY);
	kube_server_close(&s);
}

/* The scheduler cannot be heard, so the time for it does not pass. */
Test(kubernetes_faults, silence_does_not_count_as_no_room)
{
	static struct kube_server s;
	struct espl_kit *kit = kube_server_open(&s, 8);

	kube_server_start(&s);
	s.full = 1;
	(void)espl_kit_acquire(kit, 0, 1);
	espl_kit_wait(kit, 200 * S);
	s.chance = 100;
	s.watch = NULL;
	espl_kit_wait(kit, 900 * S);
	cr_assert_neq(espl_kit_lease(kit, 0)->state, ESPL_NODE_ENDED, "%s", espl_kit_log(kit));
	s.chance = 0;
	s.full = 0;
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_READY, HOUR));
	cr_assert_eq(espl_kit_lease(kit, 0)->state, ESPL_NODE_READY, "%s", espl_kit_log(kit));
	kube_server_close(&s);
}

/* activeDeadlineSeconds is counted by the clocks of the cluster: `time` is 24 h, `notice` 2 min. */
Test(kubernetes_faults, time_limits_are_by_the_clock_of_the_server)
{
	static struct kube_server s;
	struct espl_kit *kit = kube_server_open(&s, 9);
	espl_time ready;

	s.ahead = 5 * HOUR;
	kube_server_start(&s);
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_READY, HOUR));
	ready = espl_kit_time(kit);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_NOTICE, 48 * HOUR));
	cr_assert_geq(espl_kit_time(kit) - ready, 24 * HOUR - 130 * S);
	cr_assert_leq(espl_kit_time(kit) - ready, 24 * HOUR - 110 * S);
	kube_server_close(&s);
}

Test(kubernetes_faults, a_quota_and_a_right_are_waited_for)
{
	static struct kube_server s;
	struct espl_kit *kit = kube_server_open(&s, 10);

	kube_server_start(&s);
	s.quota = 1;
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 0, ESPL_NODE_ENDED, HOUR));
	s.quota = 0;
	s.no_right = 1;
	(void)espl_kit_acquire(kit, 0, 1);
	cr_assert(espl_kit_wait_node(kit, 1, ESPL_NODE_ENDED, HOUR));
	for (uint64_t i = 0; i < 2; i++) {
		cr_assert_eq(espl_kit_reason(kit, i), ESPL_BY_QUOTA);
		cr_assert_eq(espl_kit_retry_after(kit, i), 60 * S);
	}
	cr_assert(kube_server_says(&s,
		      "a right is missing: pods is forbidden: User \"me\" cannot create"),
	    "%s", espl_kit_log(kit));
	kube_server_close(&s);
}
