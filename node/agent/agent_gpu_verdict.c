/* agent_gpu_verdict.c - classifies observations of a GPU and answers about its MPS server: pure
 * functions. */
#include <stdlib.h>
#include <string.h>

#include "agent/agent_gpu.h"

#define MIB ((uint64_t)1 << 20)

/* A driver keeps some memory for itself, more on larger GPUs. */
static uint64_t
memory_slack(uint64_t total)
{
	return 64 * MIB + total / 256;
}

enum espl__verdict
espl__seen_judge(const struct espl__seen *s, uint64_t level, uint64_t strangers)
{
	uint64_t more = s->strangers > strangers ? s->strangers - strangers : 0;

	if (s->ours > 0)
		return ESPL__PROCESSES_LEFT;
	if (s->used <= level + memory_slack(s->total) + more || s->vague > 0)
		return ESPL__CLEAN;
	return ESPL__MEMORY_LEFT;
}

void
espl__mps_read(const char *text, pid_t known, struct espl__mps_answer *a)
{
	*a = (struct espl__mps_answer){ 0, 0, ESPL__MPS_SILENT };
	for (; *text != '\0'; text += *text != '\0') {
		size_t length = strcspn(text, "\r\n");
		char *end;
		long pid = strtol(text, &end, 10);

		if (pid > 0 && text[0] >= '0' && text[0] <= '9' && end == text + length) {
			if (a->server == 0 || pid == known)
				a->server = (pid_t)pid;
			a->seen |= pid == known;
		} else if (memmem(text, length, "FAULT", 5) != NULL) {
			a->status = ESPL__MPS_FAULT;
		} else if (memmem(text, length, "INITIALIZING", 12) != NULL) {
			a->status = ESPL__MPS_COMING;
		} else if (memmem(text, length, "ACTIVE", 6) != NULL) {
			a->status = ESPL__MPS_ACTIVE;
		}
		text += length;
	}
}
