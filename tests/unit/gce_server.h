/* gce_server.h - Compute Engine for a test kit, on the kit's clock: instances, operations, listings
 * in pages. */
#ifndef GCE_SERVER_H
#define GCE_SERVER_H
#include <jansson.h>
#include "testkit.h"

#define GCE_MACHINES 64u
#define GCE_OPTIONS \
	"project=lab image=projects/debian-cloud/global/images/family/debian-12 user=me " \
	"offers=(n1-standard-4,us-central1-a,spot,4,1.0,1,T4,40s,nvidia-tesla-t4)" \
	"(n1-standard-4,us-central1-b,on-demand,4,2.0,4,cpu)"

struct gce_machine_there {
	char name[80], zone[64], run[80], type[80];
	int spot, there;      /* there: it is listed, and costs something */
	const char *status;   /* NULL: by the time */
	const char *label;    /* its token, if it is not its name */
	espl_time runs, ends; /* ends: of an interruption, or a deletion; ESPL_NEVER */
	json_t *body;         /* of its request */
};
struct gce_server {
	struct espl_kit *kit;
	struct gce_machine_there machines[GCE_MACHINES];
	unsigned count, inserts, deletes, tokens, expired; /* expired: answers with 401 to come */
	unsigned silent_lists;                             /* the next ones show no machine */
	const char *refuse;         /* code of the error of an insert's operation; NULL: none */
	const char *refuse_at_once; /* HTTP error of an insert: "STATUS REASON" */
	const char *unreachable;    /* this zone is, for listings */
	int logged_out;             /* gcloud prints no token */
	int keyless;                /* no host key is published */
	char *answer;
};

struct espl_kit *gce_server_open(struct gce_server *, uint64_t seed);
uint32_t gce_server_machines(void *server);
/* Takes a spot machine back: it is stopping for 30 s, and then deleted. */
void gce_server_interrupt(struct gce_server *, unsigned number);
extern const struct espl_plugin cloud_gce_LTX_espalier_plugin;
#endif
