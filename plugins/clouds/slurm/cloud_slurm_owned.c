/* cloud_slurm_owned.c - the jobs that runs of this user hold, by the names that they were submitted
 * with: espl-RUN-LEASE.
 */
#include <stdio.h>
#include <string.h>

#include "cloud_slurm.h"

/* Inside an allocation there is one job, which ends with this program's own. */
espl_status
cloud_slurm_owned_ask(void *self, const char *run, uint64_t what, struct espl_error *error)
{
	struct slurm_cloud *cloud = self;
	struct cloud_words list = { NULL, 0, 0 };
	espl_status status;

	if (cloud->inside != NULL) {
		cloud->events->done(cloud->events, what, ESPL_OK, "");
		return ESPL_OK;
	}
	if (cloud->owned_what != ESPL_NONE)
		return espl_fail(error, ESPL_E_BUSY,
		    "an earlier request has not been answered yet");
	(void)snprintf(cloud->owned_run, sizeof cloud->owned_run, "%s", run != NULL ? run : "");
	cloud_words_add(&list, "squeue");
	cloud_words_add(&list, "--noheader");
	cloud_words_add(&list, "--me");
	cloud_words_add(&list, "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED,STOPPED,REQUEUED");
	cloud_words_add(&list, "--format=%%i|%%j|%%T|%%S|%%N|%%r");
	status = cloud_slurm_jobs_run(cloud, &list, SLURM_OWNED, NULL);
	if (status == ESPL_OK)
		cloud->owned_what = what;
	else
		return espl_fail(error, status, "squeue cannot be started");
	return ESPL_OK;
}

/* The run in "espl-RUN-LEASE"; 0, or -1 if it is not such a name. */
static int
run_of(const char *name, char run[65])
{
	const char *end = strrchr(name, '-');

	if (strncmp(name, "espl-", 5) != 0 || end == NULL || end <= name + 5 || end[1] == '\0' ||
	    end[1 + strspn(end + 1, "0123456789")] != '\0' || end - name - 5 >= 65)
		return -1;
	(void)snprintf(run, 65, "%.*s", (int)(end - name - 5), name + 5);
	return 0;
}

/* The field that holds the end of a job in other lists is its start here. */
static void
report_job(const struct slurm_cloud *cloud, const struct slurm_line *line, const char *run)
{
	struct espl_node_event event = ESPL_INIT(struct espl_node_event);
	char id[SLURM_NAME + 40], offer[80];
	int runs = strcmp(line->state, "PENDING") != 0 && strcmp(line->state, "CONFIGURING") != 0;

	(void)snprintf(id, sizeof id, "%s%s%s", line->id, line->node[0] != '\0' ? " " : "",
	    line->node);
	slurm_offer_name(cloud, offer);
	event.state = runs ? ESPL_NODE_READY : ESPL_NODE_REQUESTED;
	event.lease = ESPL_NONE;
	event.token = line->name;
	event.run = run;
	event.provider_id = id;
	event.at = event.ends_at = ESPL_NEVER;
	event.gpus = ESPL_ANY;
	event.charged = -1;
	event.offer = cloud->owned_run[0] != '\0' ? offer : NULL; /* of others it may differ */
	event.market = "job";
	event.billed_utc_s = runs ? line->end_s : 0;
	(void)cloud->events->node(cloud->events, &event);
}

void
cloud_slurm_owned_take(struct slurm_cloud *cloud, const struct espl_child *child)
{
	char text[SLURM_TEXT] = "", run[65];
	int failed = cloud_slurm_answer_failed(cloud, "squeue", child, text);
	const char *at = failed == 0 ? child->out : "";
	uint64_t what = cloud->owned_what;
	struct slurm_line line;

	cloud->owned_what = ESPL_NONE;
	while (cloud_slurm_answer_line(&at, &line))
		if (run_of(line.name, run) == 0 &&
		    (cloud->owned_run[0] == '\0' || strcmp(run, cloud->owned_run) == 0))
			report_job(cloud, &line, run);
	cloud->events->done(cloud->events, what, failed == 0 ? ESPL_OK : ESPL_E_REMOTE, text);
}
