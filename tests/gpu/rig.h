/* rig.h - a device, a gang of one rank and a trial's host, for the programs that check
 * fashion_cuda.
 *
 * rig_cuda.c provides the real device of espalier-worker, rig_emulate.c an emulated one.
 */
#ifndef GPU_RIG_H
#define GPU_RIG_H
#include <espalier/trainable.h>
#include "fashion_cuda.h"

struct rig {
	struct espl_device device;
	const struct espl_comm *comm;
	int emulated;
	void *state; /* of the way it is made */
};

/* NULL, or why there is no GPU. */
const char *rig_open(struct rig *);
void rig_close(struct rig *);
/* Of memory on the device, when its stream is done. */
int rig_to_host(struct rig *, void *to, const void *from, uint64_t bytes);

/* A gang of one on the CPU, for fashion_cnn. */
const struct espl_comm *rig_cpu_comm(void);

/* Adds an image's loss, whether its class is right (0 or 1), and `scale` times the gradient of the
 * loss; widths up to 800. */
void rig_plain_image(const struct fashion_cuda_net *, const uint8_t *pixels, uint32_t label,
    const float *params, double scale, float *gradient, double *loss, double *right);
#endif
