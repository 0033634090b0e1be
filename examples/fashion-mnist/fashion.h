/* fashion.h - the parts of the fashion_cnn trainable: the data set, and the network's arithmetic on
 * one shard of a batch.  Only trainable_fashion_cnn.c knows of gangs, settings and checkpoints.
 */
#ifndef FASHION_H
#define FASHION_H
#include <espalier/trainable.h>
#include <espalier/util.h>

#define FASHION_SIDE   28u
#define FASHION_PIXELS (FASHION_SIDE * FASHION_SIDE)
#define FASHION_LABELS 10u

/* ---- fashion_data.c ----------------------------------------------------------------------- */

struct fashion_data {
	uint32_t train, validate;	/* images: the first ones of the training set, and    */
	uint8_t *pixels;		/* its last ones, behind one another                  */
	uint8_t *labels;
};
/* Reads train-images-idx3-ubyte and train-labels-idx1-ubyte (.gz or plain) in `folder`. */
espl_status fashion_data_load(const char *folder, uint32_t train, uint32_t validate,
                              struct fashion_data **data, struct espl_error *error);
void        fashion_data_free(struct fashion_data *data);

/* ---- fashion_shape.c ---------------------------------------------------------------------- */

struct fashion_conv {			/* square convolution, then the maximum of pool x pool */
	uint32_t in, out;		/* channels */
	uint32_t in_side, kernel, stride, pad, side, pool, pooled;
	uint32_t weights, bias;		/* offsets into the parameters                        */
};
struct fashion_dense { uint32_t in, out, weights, bias; };

struct fashion_net {
	struct fashion_conv  conv[2];
	struct fashion_dense dense[2];	/* [0]: hidden layer, out 0: none; [1]: the output    */
	uint32_t count;			/* of all parameters                                  */
	float    dropout;		/* share of the features left out in training         */
};
void     fashion_net_shape(struct fashion_net *net, uint32_t width, uint32_t hidden, float dropout);
/* The start of a trial: a function of the seed alone. */
void     fashion_net_start(const struct fashion_net *net, uint64_t seed, float *params);

/* ---- fashion_net.c ------------------------------------------------------------------------ */

/* Workspace of one shard; nothing is allocated after fashion_work_new. */
struct fashion_work;

struct fashion_work *fashion_work_new(const struct fashion_net *net, uint32_t images_max);
void     fashion_work_free(struct fashion_work *work);
/* Image `index` of the data becomes number `at` of the shard.  key != 0: with dropout, whose mask
 * is a function of the key alone. */
void     fashion_work_image(struct fashion_work *work, const struct fashion_data *data,
                            uint32_t index, uint32_t at, uint64_t key);
/* Forward over `images` images: sums of loss and of right answers. */
void     fashion_forward(struct fashion_work *work, const float *params, uint32_t images,
                         double *loss, double *right);
/* Backward after forward: writes the gradient of the loss's sum times `scale`. */
void     fashion_backward(struct fashion_work *work, const float *params, uint32_t images,
                          float scale, float *gradient);

/* 64 bits that depend on all bits of x: generators here are counters put through it. */
static inline uint64_t
fashion_mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}
#endif
