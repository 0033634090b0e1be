/* worlds.c - opens the world that a run is in. */
#include "driver/worlds.h"

espl_status
espl__world_open(const struct espl__drive *drive, uint64_t token, struct espl__world **world,
    struct espl__diag *diag)
{
	if (drive->exec.plan_only)
		return espl__world_sold(drive->exec.inputs->config, drive->seed, world, diag);
	if (drive->exec.simulated)
		return espl__world_sim(drive->exec.inputs, drive->seed, drive->faults, world, diag);
	return espl__world_real(drive->exec.inputs, drive->dir, token, world, diag);
}
