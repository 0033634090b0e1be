/* fashion.h - the parts of the fashion_cnn trainable: the data set, the course of a trial, and the
 * network's arithmetic on one shard of a batch.  fashion_cuda shares all but the arithmetic.
 *
 * Each of the two is made with a copy of its own: FASHION_OF, which the makefile sets, begins the
 * global symbols of what they share, so that both can be linked into one program.
 */
#ifndef FASHION_H
#define FASHION_H
#include <espalier/trainable.h>
#include <espalier/util.h>

#define FASHION_SIDE 28u
#define FASHION_PIXELS (FASHION_SIDE * FASHION_SIDE)
#define FASHION_LABELS 10u

#ifndef FASHION_OF
#define FASHION_OF fashion
#endif
#define FASHION_PASTE_(of_, name_) of_##_##name_
#define FASHION_PASTE(of_, name_) FASHION_PASTE_(of_, name_)
#define FASHION(name_) FASHION_PASTE(FASHION_OF, name_)

#define fashion_data_load FASHION(data_load)
#define fashion_data_free FASHION(data_free)
#define fashion_net_shape FASHION(net_shape)
#define fashion_net_start FASHION(net_start)
#define fashion_init FASHION(init)
#define fashion_load FASHION(load)
#define fashion_course_read FASHION(course_read)
#define fashion_order FASHION(order)
#define fashion_rate FASHION(rate)
#define fashion_next FASHION(next)
#define fashion_name_regions FASHION(name_regions)
#define fashion_report FASHION(tell)

/* ---- fashion_data.c ----------------------------------------------------------------------- */

struct fashion_data {
	uint32_t train, validate; /* images: the first ones of the training set, and */
	uint8_t *pixels;          /* its last ones, behind one another */
	uint8_t *labels;
};
/* Reads train-images-idx3-ubyte and train-labels-idx1-ubyte (.gz or plain) in `folder`. */
espl_status fashion_data_load(const char *folder, uint32_t train, uint32_t validate,
    struct fashion_data **data, struct espl_error *error);
void fashion_data_free(struct fashion_data *data);

/* ---- fashion_course.c --------------------------------------------------------------------- */

/* The options that either trainable begins with. */
/* clang-format off */
#define FASHION_OPTIONS \
	{ .name = "data", .type = ESPL_OPT_STRING, \
	  .fallback = "/usr/share/datasets/fashion-mnist", \
	  .help = "directory of train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz" }, \
	{ .name = "train", .type = ESPL_OPT_INT, .fallback = "6000", .min = "8", .max = "59000", \
	  .help = "number of images to train on, from the start of the training set" }, \
	{ .name = "validate", .type = ESPL_OPT_INT, .fallback = "2000", .min = "1", \
	  .max = "50000", \
	  .help = "number of images to validate on, from the end of the training set" }, \
	{ .name = "schedule", .type = ESPL_OPT_CHOICE, .fallback = "cosine", \
	  .choices = "constant|cosine", \
	  .help = "schedule of the learning rate over the iterations of the search; " \
	          "cosine decreases it to 1/50" }
/* clang-format on */
enum { FASHION_DATA, FASHION_TRAIN, FASHION_VALIDATE, FASHION_SCHEDULE, FASHION_OPTION_COUNT };

/* an instance: its trials share the images */
struct fashion {
	const char *folder;
	uint32_t train, validate;
	int cosine;
	struct fashion_data *data; /* read when the first trial opens */
};
/* values: of FASHION_OPTIONS. */
void fashion_init(struct fashion *, const struct espl_value *values);
/* The images, unless they are there. */
espl_status fashion_load(struct fashion *, struct espl_error *);

#define FASHION_SHARDS 8u /* equal parts of a batch, whatever the gang */

/* a parameter of the search space; name NULL: none */
struct fashion_knob {
	const char *name;
	double value, low, high; /* value: its default, NAN: none */
	int whole;
};
/* Options of all networks; each adds its own. */
enum { FASHION_RATE, FASHION_MOMENTUM, FASHION_BATCH, FASHION_KNOBS };
struct fashion_told {
	/* for messages: who asks; "only learning_rate, ...", of all but the last two */
	const char *plugin, *names;
	struct fashion_knob *knobs; /* values are filled in */
	uint32_t count;
};
/* how a trial learns */
struct fashion_course {
	float learning_rate, momentum;
	int adam, cosine;
	uint32_t batch, batches; /* images of a batch, batches of an iteration */
};
/* Reads a trial's settings.  ESPL_E_CONFIG. */
espl_status fashion_course_read(struct fashion_course *, const struct fashion *,
    const struct espl_trial_context *, const struct fashion_told *, struct espl_error *);
/* The order of the images in an iteration. */
void fashion_order(uint64_t seed, uint64_t iteration, uint32_t *order, uint32_t count);
/* The learning rate of a batch; of adam: with its correction for so many updates, this one's
 * included. */
float fashion_rate(const struct fashion_course *, double iterations, uint64_t iteration,
    uint32_t batch, uint64_t updates);

struct fashion_counters {
	uint64_t iterations, updates;
};
/* the state of a trial */
struct fashion_regions {
	float *params, *velocity, *square; /* square: NULL if there is none */
	uint64_t bytes;                    /* of each */
	espl_device_kind where;
	struct fashion_counters *counters;
};
/* Is it this iteration's turn?  ESPL_E_BUG. */
espl_status fashion_next(const struct fashion_counters *, uint64_t iteration, struct espl_error *);
espl_status fashion_name_regions(struct espl_region_sink *, const struct fashion_regions *);
espl_status fashion_report(struct espl_report_sink *, double accuracy, double loss,
    double train_loss);

/* ---- fashion_shape.c ---------------------------------------------------------------------- */

/* square convolution, then the maximum of pool x pool */
struct fashion_conv {
	uint32_t in, out; /* channels */
	uint32_t in_side, kernel, stride, pad, side, pool, pooled;
	uint32_t weights, bias; /* offsets into the parameters */
};
struct fashion_dense {
	uint32_t in, out, weights, bias;
};

struct fashion_net {
	struct fashion_conv conv[2];
	struct fashion_dense dense[2]; /* [0]: hidden layer, out 0: none; [1]: the output */
	uint32_t count;                /* of all parameters */
	float dropout;                 /* share of the features left out in training */
};
void fashion_net_shape(struct fashion_net *net, uint32_t width, uint32_t hidden, float dropout);
/* The start of a trial: a function of the seed alone. */
void fashion_net_start(const struct fashion_net *net, uint64_t seed, float *params);

/* ---- fashion_net.c ------------------------------------------------------------------------ */

/* Workspace of one shard; nothing is allocated after fashion_work_new. */
struct fashion_work;

struct fashion_work *fashion_work_new(const struct fashion_net *net, uint32_t images_max);
void fashion_work_free(struct fashion_work *work);
/* Image `index` of the data becomes number `at` of the shard.  key != 0: with dropout, whose mask
 * is a function of the key alone. */
void fashion_work_image(struct fashion_work *work, const struct fashion_data *data, uint32_t index,
    uint32_t at, uint64_t key);
/* Forward over `images` images: sums of loss and of right answers. */
void fashion_forward(struct fashion_work *work, const float *params, uint32_t images, double *loss,
    double *right);
/* Backward after forward: writes the gradient of the loss's sum times `scale`. */
void fashion_backward(struct fashion_work *work, const float *params, uint32_t images, float scale,
    float *gradient);

/* 64 bits that depend on all bits of x: generators here are counters put through it. */
static inline uint64_t
fashion_mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

/* With it the dropout masks of an iteration are made. */
static inline uint64_t
fashion_mask_key(uint64_t seed, uint64_t iteration)
{
	return fashion_mix(fashion_mix(seed ^ UINT64_C(0x6d61736b)) ^ iteration);
}

/* Which of `total` are this rank's: [*first, *first + result). */
static inline uint32_t
fashion_share(const struct espl_comm *comm, uint32_t total, uint32_t *first)
{
	*first = (uint32_t)((uint64_t)total * comm->rank / comm->world);
	return (uint32_t)((uint64_t)total * (comm->rank + 1u) / comm->world) - *first;
}
#endif
