/* ec2_driver.h - cloud aws in the test kit, with the EC2 of ec2_world.h: it starts, is killed,
 * comes back and ends, and what it has reported is compared with what EC2 charges.
 */
#ifndef EC2_DRIVER_H
#define EC2_DRIVER_H
#include "ec2_world.h"

#define S ESPL_SECOND
#define MINUTE (60 * S)
#define HOUR (3600 * S)
#define EC2_OPTIONS \
	"region=eu-central-1 image=ami-1 offers=(g5.xlarge,a,,spot,4,1.006,1,cpu,20s)" \
	"(g5.xlarge,b,,on-demand,4,1.006,1,cpu,20s)(g5.xlarge,c,,spot,4,1.006,1,cpu,20s)"
#define SPOT 0
#define ON_DEMAND 1

extern const struct espl_plugin cloud_aws_LTX_espalier_plugin;

void ec2_driver_open(struct espl_kit *kit, const char *options);
struct espl_kit *ec2_driver_begin(struct ec2_world *w, uint64_t seed);
/* A start that fails ends a run, and the user resumes it. */
void ec2_driver_start(struct espl_kit *kit);
/* Until a driver that was killed is there again: a run does nothing before. */
void ec2_driver_wait_up(struct espl_kit *kit);
struct espl_kit *ec2_driver_begin_started(struct ec2_world *w);
/* The end of what the kit has logged. */
const char *ec2_driver_log(struct espl_kit *kit);
/* The driver is away for this time. */
void ec2_driver_be_away(struct espl_kit *kit, struct ec2_world *w, espl_span span);
/* As an earlier process of the run would have left it in RUN/aws. */
void ec2_driver_write_fact(const struct ec2_world *w, const char *kind, const char *key,
    const char *value);
/* All leases are released and end; then no machine is left, and each cost what EC2 charges. */
void ec2_driver_end(struct espl_kit *kit, struct ec2_world *w, uint64_t seed);
/* Until the lease is READY or has ended. */
void ec2_driver_wait_ready(struct espl_kit *kit, uint64_t lease);
/* Asks for a machine of offer SPOT, until that request is met by this fault. */
void ec2_driver_acquire_fault(struct espl_kit *, const struct ec2_world *, espl_kit_fault);
uint64_t ec2_driver_acquire_ready(struct espl_kit *kit, uint32_t offer);
#endif
