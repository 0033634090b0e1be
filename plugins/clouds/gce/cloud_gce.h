/* cloud_gce.h - the parts of the cloud `gce`: requests and options, and answers. */
#ifndef CLOUD_GCE_H
#define CLOUD_GCE_H
#include <espalier/kit/provider.h>

#define GCE_NOTICE (30 * ESPL_SECOND) /* between the notice of an interruption and the end */

enum {
	GCE_PROJECT = ESPL_PROVIDER_OWN,
	GCE_IMAGE,
	GCE_NETWORK,
	GCE_SUBNETWORK,
	GCE_ADDRESS,
	GCE_DISK,
	GCE_DISK_TYPE,
	GCE_PUBLIC_KEY,
	GCE_ACCOUNT,
	GCE_ORPHAN,
	GCE_MOST,
	GCE_HOST_KEY,
	GCE_ENDPOINT
};
enum { GCE_ACCELERATOR = ESPL_OFFERS_OWN };

struct gce_machine {
	struct espl_machine machine; /* first */
	uint32_t waits;
};
struct gce_cloud {
	struct espl_provider provider; /* first */
	struct espl_provider_api api;
	char *script, *ssh_keys;  /* ssh_keys NULL: none */
	char id[140], offer[140]; /* of the machine that is read */
};

static inline struct gce_cloud *
gce_of(struct espl_provider *p)
{
	return (struct gce_cloud *)p;
}

/* ---- cloud_gce.c ---- */

/* The zone of its offer, or of its id "ZONE/NAME". */
void cloud_gce_zone(const struct espl_provider *, const struct espl_machine *, char zone[64]);
/* Asks how an operation of a request for a machine fares; a status other than OK: it does not. */
espl_status cloud_gce_await(struct espl_provider *, struct espl_machine *, const char *operation);

/* ---- cloud_gce_answer.c ---- */

void cloud_gce_read(struct espl_provider *, enum espl_call_kind, struct espl_machine *,
    const struct espl_http_reply *, struct espl_answer *);
void cloud_gce_drop(void *document);
#endif
