/* cloud_ssh_offers.c - the offers that hosts make: those with the same GPUs and price are one.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cloud_ssh.h"

static int
same_offer(const struct ssh_host *a, const struct ssh_host *b)
{
	return ssh_gpus(a) == ssh_gpus(b) &&
	    strcmp(a->row[SSH_COL_TYPE].as.s, b->row[SSH_COL_TYPE].as.s) == 0 &&
	    a->row[SSH_COL_MEMORY].as.i == b->row[SSH_COL_MEMORY].as.i &&
	    a->row[SSH_COL_PRICE].as.i == b->row[SSH_COL_PRICE].as.i;
}

void
cloud_ssh_offers_number(struct ssh_cloud *cloud)
{
	for (uint32_t i = 0; i < cloud->count; i++) {
		uint32_t k;

		for (k = 0; k < i && !same_offer(&cloud->hosts[k], &cloud->hosts[i]); k++)
			continue;
		cloud->hosts[i].offer = k < i ? cloud->hosts[k].offer : cloud->offer_count++;
	}
}

static const struct ssh_host *
first_of(const struct ssh_cloud *cloud, uint32_t offer)
{
	uint32_t i = 0;

	while (cloud->hosts[i].offer != offer)
		i++;
	return &cloud->hosts[i];
}

/* "4xA100"; with a number if memory or price tells several apart. */
static void
name_offer(const struct ssh_cloud *cloud, uint32_t offer, char name[80])
{
	const struct ssh_host *first = first_of(cloud, offer);
	uint32_t alike = 1;
	int size = snprintf(name, 80, "%ux%.50s", ssh_gpus(first), first->row[SSH_COL_TYPE].as.s);

	for (uint32_t i = 0; i < offer; i++) {
		const struct ssh_host *other = first_of(cloud, i);

		alike += ssh_gpus(other) == ssh_gpus(first) &&
		    strcmp(other->row[SSH_COL_TYPE].as.s, first->row[SSH_COL_TYPE].as.s) == 0;
	}
	if (alike > 1)
		(void)snprintf(name + size, 80 - (size_t)size, "-%u", alike);
}

uint32_t
cloud_ssh_offers_find(const struct ssh_cloud *cloud, const char *name)
{
	char own[80];

	for (uint32_t o = 0; o < cloud->offer_count; o++) {
		name_offer(cloud, o, own);
		if (strcmp(own, name) == 0)
			return o;
	}
	return ESPL_ANY;
}

/* A host that was adopted from an earlier driver counts, whether it answers now or not. */
static int
is_counted(const struct ssh_host *host, int usable_only)
{
	return !usable_only || host->usable || host->lease != NULL;
}

espl_status
cloud_ssh_offers_report(const struct ssh_cloud *cloud, const struct espl_cloud_events *events,
    uint32_t which, int usable_only)
{
	static const struct espl_latency none = { .size = sizeof none, .kind = ESPL_CONSTANT };
	static const struct espl_latency init = { .size = sizeof init,
		.kind = ESPL_CONSTANT,
		.mean_s = 1 };
	espl_status status = ESPL_OK;

	for (uint32_t o = 0; o < cloud->offer_count && status == ESPL_OK; o++) {
		const struct ssh_host *first = first_of(cloud, o);
		struct espl_offer offer = ESPL_INIT(struct espl_offer);
		char name[80];

		if (which != ESPL_ANY && which != o)
			continue;
		name_offer(cloud, o, name);
		for (uint32_t i = 0; i < cloud->count; i++)
			offer.nodes_max +=
			    cloud->hosts[i].offer == o && is_counted(&cloud->hosts[i], usable_only);
		if (offer.nodes_max == 0)
			offer.flags = ESPL_OFFER_GONE;
		offer.number = ESPL_ANY;
		offer.gpus = ssh_gpus(first);
		offer.name = name;
		offer.market = "own";
		offer.gpu_type = first->row[SSH_COL_TYPE].as.s;
		offer.zone = "";
		offer.memory_bytes = (uint64_t)first->row[SSH_COL_MEMORY].as.i;
		offer.price_hour = first->row[SSH_COL_PRICE].as.i * ssh_gpus(first);
		offer.fixed_price_hour = offer.price_hour;
		offer.billing = ESPL_BILL_NODE;
		offer.billed_from = ESPL_BILL_FROM_READY;
		offer.billing_step = ESPL_SECOND;
		offer.minimum_charge = cloud->config->values[SSH_OPT_MINIMUM].as.i;
		offer.provision = &none;
		offer.init = &init;
		offer.hazard_hour = NAN;
		status = events->offer(events, &offer);
	}
	return status;
}
