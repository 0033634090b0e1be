/* cloud_local_gpus.c - the GPUs of this machine that we may use, and its cores. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cloud_local_gpus.h"

/* CUDA_VISIBLE_DEVICES of the user's shell holds for espalier too: numbers or UUIDs. */
static int
is_visible(const char *uuid, unsigned index)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	char number[16];

	if (list == NULL)
		return 1;
	(void)snprintf(number, sizeof number, "%u", index);
	while (*list != '\0') {
		size_t length = strcspn(list, ",");

		if ((length == strlen(number) && strncmp(list, number, length) == 0) ||
		    (length >= 8 && strncmp(list, uuid, length) == 0))
			return 1;
		list += length;
		list += *list == ',';
	}
	return 0;
}

static int
by_index(const void *a, const void *b)
{
	const struct espl__nvml_gpu *x = a, *y = b;

	return x->index < y->index ? -1 : 1;
}

espl_status
local_gpus(struct espl__nvml_gpu **list, uint32_t *found, const char **why)
{
	struct espl__nvml_gpu *all = calloc(ESPL__GPUS_MAX, sizeof *all);
	uint32_t count = all != NULL ? espl__nvml_list(all, ESPL__GPUS_MAX, why) : 0;

	*list = all;
	if (all == NULL)
		return ESPL_E_NOMEM;
	if (*why == NULL)
		*why = "the NVIDIA driver is not installed";
	else if ((*why)[0] == '\0')
		*why = "the NVIDIA management library found none";
	qsort(all, count, sizeof *all, by_index);
	for (uint32_t i = 0; i < count; i++)
		if (is_visible(all[i].uuid, all[i].index))
			all[(*found)++] = all[i];
	return ESPL_OK;
}

uint32_t
local_cores(void)
{
	cpu_set_t *set = CPU_ALLOC(4096);
	size_t size = CPU_ALLOC_SIZE(4096);
	int count = 0;
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	if (set != NULL && sched_getaffinity(0, size, set) == 0)
		count = CPU_COUNT_S(size, set);
	CPU_FREE(set);
	if (count <= 0)
		count = online > 0 ? (int)online : 1;
	return (uint32_t)count;
}
