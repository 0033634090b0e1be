/* real_gpu.c - the agents' reports about their GPUs, and the ends of gangs that GPUs caused.
 *
 * A gang whose GPU failed is lost, not failed: its trial continues from its last checkpoint and
 * does not use up a retry.
 */
#include "base/assert.h"
#include "real/real.h"
#include <string.h>
#include "base/mem.h"
#include "base/text.h"

int
espl__real_gpu_message(struct espl__real *real, const struct espl__rlease *lease,
    struct espl__reader *reader)
{
	uint8_t what = espl__get_u8(reader);
	uint64_t id = espl__get_v64(reader), number = espl__get_v64(reader);
	char text[512];
	struct espl__event *event;

	ESPL__CHECK(lease, RLEASE);
	espl__get_str(reader, text, sizeof text);
	if (reader->bad || reader->at != reader->end || what < ESPL__GPU_SHARED ||
	    what > ESPL__GPU_ASIDE)
		return -1;
	if (what == ESPL__GPU_SHARED || what == ESPL__GPU_MEMORY) {
		const struct espl__rgang *gang = espl__real_gang(real, id);

		if (gang == NULL || !espl__real_gang_is_on(gang, lease->id)) /* it has just ended */
			return 0;
		/* trials that joined it later have their own number there */
		id = gang->id;
	} else {
		id = lease->id;
	}
	espl__clean_text(text);
	event = espl__real_event(real, ESPL__EV_GPU);
	event->as.gpu.what = (enum espl__gpu_news)what;
	event->as.gpu.id = id;
	event->as.gpu.number = number;
	event->as.gpu.text = espl__arena_strdup(espl__real_arena(real), text);
	return 0;
}

const struct espl__rank_end *
espl__real_end_with(const struct espl__rgang *gang, const char *prefix)
{
	for (uint32_t i = 0; i < gang->end_count; i++)
		if (strncmp(gang->ends[i].text, prefix, strlen(prefix)) == 0)
			return &gang->ends[i];
	return NULL;
}

int
espl__real_gpu_fault(const struct espl__rgang *gang)
{
	return espl__real_end_with(gang, "gpu: ") != NULL ||
	    espl__real_end_with(gang, "sharing: ") != NULL;
}
