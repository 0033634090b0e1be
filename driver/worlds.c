/* worlds.c - opens the world that a run is in. */
#include "driver/worlds.h"

espl_status
espl__world_open(const struct espl__drive *drive, uint64_t token, struct espl__world **world,
    struct espl__diag *diag)
{
	if (drive->plan_only)
		return espl__world_sold(drive->config, drive->seed, world, diag);
	if (drive->simulated)
		return espl__world_sim(drive->config, drive->space, drive->profile, drive->seed,
		    drive->faults, world, diag);
	return espl__world_real(drive->config, drive->space, drive->dir, token, world, diag);
}
