/* kube_server.h - an API server on a virtual clock, for cloud kubernetes in the test kit: it loses,
 * refuses and delays requests, and its nodes die.
 */
#ifndef KUBE_SERVER_H
#define KUBE_SERVER_H
#include <jansson.h>
#include <stdint.h>
#include <espalier/util.h>
#include "testkit.h"

#define KUBE_PODS 400
#define KUBE_EVENTS 4000
#define KUBE_OPTIONS "image=any kubectl=kubectl nodes_max=4"

extern const struct espl_plugin cloud_kubernetes_LTX_espalier_plugin;

struct fake_pod {
	char name[70], uid[40], run[70];
	espl_time made, deleted, gone; /* ESPL_NEVER: not yet */
	int exists, running, full, lost;
};
struct kube_server {
	struct espl_kit *kit;
	struct fake_pod pods[KUBE_PODS];
	unsigned count, creates, deletes, forced, proxies, lists;
	char *events[KUBE_EVENTS];
	unsigned event_count;
	const void *watch; /* the request that is answered so far, and up to which event */
	unsigned watched;
	char *answer;
	unsigned chance;       /* of a fault, in percent */
	uint64_t state;        /* of the faults */
	unsigned refuse_verbs; /* the next N deletions get 503 */
	int full;              /* no pod is scheduled */
	const char *stuck;   /* pods have a node, and do not start for this reason; NULL: they do */
	const char *event;   /* of each pod, as JSON; NULL: none */
	int broken;          /* creates fail, and nothing else does */
	int quota, no_right; /* no pod is created */
	int wedged;          /* nothing is answered until another proxy is started */
	int hides;           /* lists do not show the pods */
	int empty_watches;   /* end at once, and say nothing */
	espl_span ahead;     /* of its clock */
	char date[80];
	const char *header[1];
};

uint64_t kube_server_random(struct kube_server *s);
void kube_server_advance(struct kube_server *s);
void kube_server_emit(struct kube_server *s, const char *type, const struct fake_pod *pod);
struct espl_kit *kube_server_open(struct kube_server *s, uint64_t seed);
void kube_server_start(struct kube_server *s);
void kube_server_close(struct kube_server *s);
int kube_server_says(const struct kube_server *s, const char *text);
uint32_t kube_server_count(void *ctx);
void kube_server_delete(struct kube_server *s, struct fake_pod *pod, espl_span grace);
#endif
