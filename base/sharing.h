/* sharing.h - how trials share a GPU: names that configuration, agent, driver and journal have in
 * common. The numbers are part of messages and journals and must not change.
 */
#ifndef ESPL__SHARING_H
#define ESPL__SHARING_H

/* As the configuration wants it; as it came about, where AUTO stands for not yet known. */
enum espl__sharing {
	ESPL__SHARE_AUTO,
	ESPL__SHARE_MPS,
	ESPL__SHARE_TIMESLICE,
	ESPL__SHARE_EXCLUSIVE
};

enum espl__gpu_news {
	ESPL__GPU_SHARED = 1, /* number: MPS or TIMESLICE; text: why, "" as wanted */
	ESPL__GPU_MEMORY,     /* number: bytes seen in use per GPU */
	ESPL__GPU_FAULT,      /* number: the node's GPU on which MPS failed; text: how */
	ESPL__GPU_ASIDE       /* number: the node's GPU that is not usable; text: why */
};
#endif
