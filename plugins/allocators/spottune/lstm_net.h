/* lstm_net.h - a small LSTM network with its gradient, for one type of numbers.
 *
 * Three LSTM layers read a sequence; with `present`, three dense layers read one more vector; a
 * dense layer joins their ends into one number, the log-odds.  Included once with REAL defined:
 * float for predictions, double to check the gradient.  All arrays are [step][row][unit]; widths
 * are multiples of NET_PAD, so that one kernel does all products.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/assert.h>

#define NET_IN 8u     /* numbers of one input vector, zero where unused */
#define NET_PAD 8u    /* widths are multiples of it */
#define NET_LAYERS 3u /* recurrent ones, and dense ones of the present */

/* Unaligned and of any alignment: loads and stores of four numbers. */
typedef REAL net_four __attribute__((vector_size(4 * sizeof(REAL)), aligned(sizeof(REAL))));
typedef __typeof__((net_four){ 0 } < (net_four){ 0 }) net_ints; /* as wide, of integers */

struct net_layer {
	uint32_t in, wx, wh, bias; /* input width; offsets in the parameters */
};
struct net {
	uint32_t hidden, steps, rows; /* rows: room for that many samples at once */
	int present;
	uint32_t count; /* parameters */
	struct net_layer layers[NET_LAYERS], dense[NET_LAYERS], join, last;
	REAL *w, *g, *first, *second,
	    *best; /* parameters, gradient, Adam's moments, the kept ones */
	uint64_t adam_steps;
	REAL *x, *now; /* inputs: [steps][rows][NET_IN], [rows][NET_IN] */
	REAL *gates[NET_LAYERS], *cells[NET_LAYERS], *outs[NET_LAYERS];
	REAL *acts[NET_LAYERS], *joined, *top, *logit; /* dense: [rows][...] */
	REAL *d_out, *d_below, *d_cell, *d_next, *d_joined, *d_top, *turned;
	void *memory;
};

/* c[m][n] += a[m][k] b[k][n]; a's element (i, k) is a[i * down + k * right]. */
static void
net_multiply(uint32_t m, uint32_t n, uint32_t k, const REAL *a, uint32_t down, uint32_t right,
    const REAL *b, REAL *c)
{
	uint32_t i = 0, j, p;

	ESPL_ASSERT(n % NET_PAD == 0);
	for (; i + 4 <= m; i += 4)
		for (j = 0; j < n; j += 8) {
			net_four s[8];
			REAL *to = c + (size_t)i * n + j;

			for (p = 0; p < 8; p++)
				memcpy(&s[p], to + (size_t)(p / 2) * n + p % 2 * 4, sizeof s[p]);
			for (p = 0; p < k; p++) {
				const REAL *at = a + (size_t)i * down + (size_t)p * right;
				net_four left, rest;

				memcpy(&left, b + (size_t)p * n + j, sizeof left);
				memcpy(&rest, b + (size_t)p * n + j + 4, sizeof rest);
				s[0] += at[0] * left;
				s[1] += at[0] * rest;
				s[2] += at[down] * left;
				s[3] += at[down] * rest;
				s[4] += at[2 * (size_t)down] * left;
				s[5] += at[2 * (size_t)down] * rest;
				s[6] += at[3 * (size_t)down] * left;
				s[7] += at[3 * (size_t)down] * rest;
			}
			for (p = 0; p < 8; p++)
				memcpy(to + (size_t)(p / 2) * n + p % 2 * 4, &s[p], sizeof s[p]);
		}
	for (; i < m; i++) {
		for (j = 0; j + 32 <= n; j += 32) { /* sums that do not wait for each other */
			net_four s[8], bs[8];

			memcpy(s, c + (size_t)i * n + j, sizeof s);
			for (p = 0; p < k; p++) {
				REAL at = a[(size_t)i * down + (size_t)p * right];

				memcpy(bs, b + (size_t)p * n + j, sizeof bs);
				for (uint32_t q = 0; q < 8; q++)
					s[q] += at * bs[q];
			}
			memcpy(c + (size_t)i * n + j, s, sizeof s);
		}
		for (; j < n; j += 8) {
			net_four s[2];

			memcpy(s, c + (size_t)i * n + j, sizeof s);
			for (p = 0; p < k; p++) {
				net_four bs[2];
				REAL at = a[(size_t)i * down + (size_t)p * right];

				memcpy(bs, b + (size_t)p * n + j, sizeof bs);
				s[0] += at * bs[0];
				s[1] += at * bs[1];
			}
			memcpy(c + (size_t)i * n + j, s, sizeof s);
		}
	}
}

/* e^x for |x| <= 40, to the last digits of REAL: the C library's is several times slower. */
static inline REAL
net_exp(REAL x)
{
	union {
		double value;
		int64_t bits;
	} power;
	REAL r, sum = 1, limit = 40;
	int n, terms = sizeof(REAL) == sizeof(float) ? 7 : 13;

	x = x > limit ? limit : x < -limit ? -limit : x;
	n = (int)(x * (REAL)1.4426950408889634 + (x < 0 ? (REAL)-0.5 : (REAL)0.5));
	r = x - (REAL)n * (REAL)0.693359375 + (REAL)n * (REAL)2.12194440054690583e-4;
	for (; terms > 0; terms--)
		sum = 1 + sum * r * ((REAL)1 / (REAL)terms);
	power.bits = (int64_t)(1023 + n) << 52;
	return sum * (REAL)power.value;
}

static inline REAL
net_tanh(REAL x)
{
	return 1 - 2 / (1 + net_exp(2 * x));
}

/* a where the mask is set, else b; no function, because wide vectors are not passed by value. */
#define NET_CHOOSE(mask_, a_, b_) \
	((net_four)(((mask_) & (net_ints)(a_)) | (~(mask_) & (net_ints)(b_))))

/* The same as net_exp of each, to the last digit. */
static inline void
net_exp_four(net_four *of)
{
	const net_four zero = { 0 }, limit = zero + 40, half = zero + (REAL)0.5;
	int terms = sizeof(REAL) == sizeof(float) ? 7 : 13;
	int bias = sizeof(REAL) == sizeof(float) ? 127 : 1023;
	int shift = sizeof(REAL) == sizeof(float) ? 23 : 52;
	net_four r, n, sum = zero + 1, x = *of;
	net_ints whole;

	x = NET_CHOOSE(x < -limit, -limit, x);
	x = NET_CHOOSE(x > limit, limit, x);
	whole = __builtin_convertvector(x * (REAL)1.4426950408889634 +
		NET_CHOOSE(x < zero, -half, half),
	    net_ints);
	n = __builtin_convertvector(whole, net_four);
	r = x - n * (REAL)0.693359375 + n * (REAL)2.12194440054690583e-4;
	for (; terms > 0; terms--)
		sum = 1 + sum * r * ((REAL)1 / (REAL)terms);
	*of = sum * (net_four)((whole + bias) << shift);
}

static void
net_sigmoids(REAL *x, uint32_t count)
{
	for (uint32_t i = 0; i < count; i += 4) {
		net_four v;

		memcpy(&v, x + i, sizeof v);
		v = -v;
		net_exp_four(&v);
		v = 1 / (1 + v);
		memcpy(x + i, &v, sizeof v);
	}
}

static void
net_tanhs(const REAL *x, uint32_t count, REAL *to)
{
	for (uint32_t i = 0; i < count; i += 4) {
		net_four v;

		memcpy(&v, x + i, sizeof v);
		v = 2 * v;
		net_exp_four(&v);
		v = 1 - 2 / (1 + v);
		memcpy(to + i, &v, sizeof v);
	}
}

static void
net_spread_bias(uint32_t m, uint32_t n, const REAL *bias, REAL *to)
{
	for (uint32_t i = 0; i < m; i++)
		memcpy(to + (size_t)i * n, bias, n * sizeof *to);
}

static void
net_run_layer(struct net *net, uint32_t layer, const REAL *in, uint32_t rows)
{
	const struct net_layer *l = &net->layers[layer];
	uint32_t h = net->hidden, n = 4 * h, t, i, k;
	REAL *gates = net->gates[layer], *cells = net->cells[layer], *outs = net->outs[layer];

	net_spread_bias(net->steps * rows, n, net->w + l->bias, gates);
	net_multiply(net->steps * rows, n, l->in, in, l->in, 1, net->w + l->wx, gates);
	for (t = 0; t < net->steps; t++) {
		size_t at = (size_t)t * rows, before = at - rows;

		if (t > 0)
			net_multiply(rows, n, h, outs + before * h, h, 1, net->w + l->wh,
			    gates + at * n);
		for (i = 0; i < rows; i++) {
			REAL *g = gates + (at + i) * n, *c = cells + (at + i) * h;
			const REAL *old = t > 0 ? cells + (before + i) * h : NULL;

			REAL *out = outs + (at + i) * h;

			net_sigmoids(g, 2 * h);
			net_tanhs(g + 2 * (size_t)h, h, g + 2 * (size_t)h);
			net_sigmoids(g + 3 * (size_t)h, h);
			for (k = 0; k < h; k++)
				c[k] = g[k] * g[2 * h + k];
			for (k = 0; k < h && old != NULL; k++)
				c[k] += g[h + k] * old[k];
			net_tanhs(c, h, out);
			for (k = 0; k < h; k++)
				out[k] *= g[3 * h + k];
		}
	}
}

/* to = max(0, in w + bias) */
static void
net_run_dense(const struct net *net, const struct net_layer *l, const REAL *in, uint32_t rows,
    REAL *to)
{
	uint32_t n = net->hidden, i;

	net_spread_bias(rows, n, net->w + l->bias, to);
	net_multiply(rows, n, l->in, in, l->in, 1, net->w + l->wx, to);
	for (i = 0; i < rows * n; i++)
		to[i] = to[i] > 0 ? to[i] : 0;
}

/* From x and now to logit, for the first `rows` samples, which lie in rows of that number. */
static void
net_forward(struct net *net, uint32_t rows)
{
	uint32_t h = net->hidden, wide = net->join.in, i, k;
	const REAL *in = net->x;

	ESPL_ASSERT(rows > 0 && rows <= net->rows);
	for (i = 0; i < NET_LAYERS; i++) {
		net_run_layer(net, i, in, rows);
		in = net->outs[i];
	}
	for (i = 0; i < rows; i++)
		memcpy(net->joined + (size_t)i * wide,
		    in + ((size_t)(net->steps - 1) * rows + i) * h, h * sizeof *in);
	if (net->present) {
		in = net->now;
		for (i = 0; i < NET_LAYERS; i++) {
			net_run_dense(net, &net->dense[i], in, rows, net->acts[i]);
			in = net->acts[i];
		}
		for (i = 0; i < rows; i++)
			memcpy(net->joined + (size_t)i * wide + h, in + (size_t)i * h,
			    h * sizeof *in);
	}
	net_run_dense(net, &net->join, net->joined, rows, net->top);
	for (i = 0; i < rows; i++) {
		REAL sum = net->w[net->last.bias];

		for (k = 0; k < h; k++)
			sum += net->top[(size_t)i * h + k] * net->w[net->last.wx + k];
		net->logit[i] = sum;
	}
}

/* turned[n][m] = w[m][n] */
static void
net_turn(uint32_t m, uint32_t n, const REAL *w, REAL *turned)
{
	for (uint32_t i = 0; i < m; i++)
		for (uint32_t j = 0; j < n; j++)
			turned[(size_t)j * m + i] = w[(size_t)i * n + j];
}

/* Gradient of parameters from d [m][n]; of the inputs, too, unless d_in is NULL. */
static void
net_back_product(struct net *net, const struct net_layer *l, uint32_t m, uint32_t n, const REAL *in,
    const REAL *d, REAL *d_in)
{
	net_multiply(l->in, n, m, in, 1, l->in, d, net->g + l->wx);
	for (uint32_t i = 0; i < m; i++)
		for (uint32_t j = 0; j < n; j++)
			net->g[l->bias + j] += d[(size_t)i * n + j];
	if (d_in == NULL)
		return;
	net_turn(l->in, n, net->w + l->wx, net->turned);
	memset(d_in, 0, (size_t)m * l->in * sizeof *d_in);
	net_multiply(m, l->in, n, d, n, 1, net->turned, d_in);
}

/* d holds the gradient of `out` = max(0, ...), and is changed. */
static void
net_back_dense(struct net *net, const struct net_layer *l, uint32_t rows, const REAL *in,
    const REAL *out, REAL *d, REAL *d_in)
{
	for (uint32_t i = 0; i < rows * net->hidden; i++)
		d[i] = out[i] > 0 ? d[i] : 0;
	net_back_product(net, l, rows, net->hidden, in, d, d_in);
}

/* One step of a layer back in time: gates become the gradient of what they were made of. */
static void
net_back_step(struct net *net, uint32_t layer, uint32_t t, uint32_t rows)
{
	uint32_t h = net->hidden, n = 4 * h, i, k;
	size_t at = (size_t)t * rows;

	for (i = 0; i < rows; i++) {
		REAL *g = net->gates[layer] + (at + i) * n, *dc = net->d_cell + (size_t)i * h;
		const REAL *c = net->cells[layer] + (at + i) * h;
		const REAL *old = t > 0 ? c - (size_t)rows * h : NULL;

		for (k = 0; k < h; k++) {
			REAL dh = net->d_out[(at + i) * h + k] + net->d_next[(size_t)i * h + k];
			REAL tc = net_tanh(c[k]), in = g[k], keep = g[h + k], new = g[2 * h + k];
			REAL out = g[3 * h + k], d = dc[k] + dh * out * (1 - tc * tc);

			g[k] = d * new *in *(1 - in);
			g[h + k] = old != NULL ? d * old[k] * keep * (1 - keep) : 0;
			g[2 * h + k] = d * in * (1 - new *new);
			g[3 * h + k] = dh * tc * out * (1 - out);
			dc[k] = d * keep;
		}
	}
}

static void
net_back_layer(struct net *net, uint32_t layer, uint32_t rows, const REAL *in)
{
	const struct net_layer *l = &net->layers[layer];
	uint32_t h = net->hidden, n = 4 * h, t;
	REAL *gates = net->gates[layer];
	size_t size = (size_t)rows * h;

	memset(net->d_cell, 0, size * sizeof(REAL));
	memset(net->d_next, 0, size * sizeof(REAL));
	net_turn(h, n, net->w + l->wh, net->turned);
	for (t = net->steps; t-- > 0;) {
		net_back_step(net, layer, t, rows);
		memset(net->d_next, 0, size * sizeof(REAL));
		net_multiply(rows, h, n, gates + (size_t)t * rows * n, n, 1, net->turned,
		    net->d_next);
	}
	net_multiply(h, n, (net->steps - 1) * rows, net->outs[layer], 1, h,
	    gates + (size_t)rows * n, net->g + l->wh);
	net_back_product(net, l, net->steps * rows, n, in, gates, layer > 0 ? net->d_below : NULL);
}

/* After net_forward: adds to g the gradient of a loss whose derivative by each logit is given. */
static void
net_backward(struct net *net, uint32_t rows, const REAL *d_logit)
{
	uint32_t h = net->hidden, wide = net->join.in, i, k;

	for (i = 0; i < rows; i++) {
		net->g[net->last.bias] += d_logit[i];
		for (k = 0; k < h; k++) {
			net->g[net->last.wx + k] += d_logit[i] * net->top[(size_t)i * h + k];
			net->d_top[(size_t)i * h + k] = d_logit[i] * net->w[net->last.wx + k];
		}
	}
	net_back_dense(net, &net->join, rows, net->joined, net->top, net->d_top, net->d_joined);
	for (i = 0; net->present && i < rows; i++)
		memcpy(net->d_top + (size_t)i * h, net->d_joined + (size_t)i * wide + h,
		    h * sizeof(REAL));
	for (k = NET_LAYERS; net->present && k-- > 0;) {
		net_back_dense(net, &net->dense[k], rows, k > 0 ? net->acts[k - 1] : net->now,
		    net->acts[k], net->d_top, k > 0 ? net->d_next : NULL);
		if (k > 0)
			memcpy(net->d_top, net->d_next, (size_t)rows * h * sizeof(REAL));
	}
	memset(net->d_out, 0, (size_t)net->steps * rows * h * sizeof(REAL));
	for (i = 0; i < rows; i++)
		memcpy(net->d_out + ((size_t)(net->steps - 1) * rows + i) * h,
		    net->d_joined + (size_t)i * wide, h * sizeof(REAL));
	for (k = NET_LAYERS; k-- > 0;) {
		REAL *below = net->d_below;

		net_back_layer(net, k, rows, k > 0 ? net->outs[k - 1] : net->x);
		net->d_below = net->d_out;
		net->d_out = below;
	}
}

/* Adam with its usual constants; clears the gradient. */
static inline void
net_improve(struct net *net, REAL rate)
{
	double steps = (double)++net->adam_steps;
	REAL scale = rate * (REAL)(sqrt(1 - pow(0.999, steps)) / (1 - pow(0.9, steps)));

	for (uint32_t i = 0; i < net->count; i++) {
		REAL g = net->g[i];

		net->first[i] = (REAL)0.9 * net->first[i] + (REAL)0.1 * g;
		net->second[i] = (REAL)0.999 * net->second[i] + (REAL)0.001 * g * g;
		net->w[i] -= scale * net->first[i] / ((REAL)sqrt(net->second[i]) + (REAL)1e-8);
		net->g[i] = 0;
	}
}

/* splitmix64, uniform in [0, 1) */
static inline double
net_draw(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void
net_fill(REAL *to, uint32_t in, uint32_t out, uint64_t *seed)
{
	double reach = sqrt(6.0 / (in + out));

	for (uint32_t i = 0; i < in * out; i++)
		to[i] = (REAL)((2 * net_draw(seed) - 1) * reach);
}

static void
net_lay(struct net *net, struct net_layer *l, uint32_t in, uint32_t out, int recurrent)
{
	l->in = in;
	l->wx = net->count;
	l->wh = l->wx + in * out;
	l->bias = l->wh + (recurrent ? net->hidden * out : 0);
	net->count = l->bias + (out + 7) / 8 * 8;
}

static REAL *
net_carve(REAL **from, size_t count)
{
	REAL *at = *from;

	*from += count;
	return at;
}

/* Divides `all` among the arrays, or only counts if it is NULL: the numbers needed. */
static size_t
net_divide(struct net *net, REAL *all)
{
	static REAL origin[1];
	REAL *from = all != NULL ? all : origin, *begin = from;
	size_t rows = net->rows, h = net->hidden, wide = net->join.in, i;
	REAL **equal[] = { &net->w, &net->g, &net->first, &net->second, &net->best };

	for (i = 0; i < 5; i++)
		*equal[i] = net_carve(&from, net->count);
	net->x = net_carve(&from, net->steps * rows * NET_IN);
	net->now = net_carve(&from, rows * NET_IN);
	for (i = 0; i < NET_LAYERS; i++) {
		net->gates[i] = net_carve(&from, net->steps * rows * 4 * h);
		net->cells[i] = net_carve(&from, net->steps * rows * h);
		net->outs[i] = net_carve(&from, net->steps * rows * h);
		net->acts[i] = net_carve(&from, rows * h);
	}
	net->joined = net_carve(&from, rows * wide);
	net->d_joined = net_carve(&from, rows * wide);
	net->top = net_carve(&from, rows * h);
	net->d_top = net_carve(&from, rows * h);
	net->logit = net_carve(&from, rows);
	net->d_out = net_carve(&from, net->steps * rows * h);
	net->d_below = net_carve(&from, net->steps * rows * h);
	net->d_cell = net_carve(&from, rows * h);
	net->d_next = net_carve(&from, rows * h);
	net->turned = net_carve(&from, (2 * h + NET_IN) * 4 * h);
	return (size_t)(from - begin);
}

static void
net_free(struct net *net)
{
	if (net != NULL)
		free(net->memory);
	free(net);
}

/* NULL: out of memory. */
static struct net *
net_make(uint32_t hidden, uint32_t steps, int present, uint32_t rows, uint64_t seed)
{
	struct net *net = (struct net *)calloc(1, sizeof *net);
	uint32_t i, k;

	ESPL_ASSERT(hidden % NET_PAD == 0 && hidden > 0 && steps > 1 && rows > 0);
	if (net == NULL)
		return NULL;
	net->hidden = hidden;
	net->steps = steps;
	net->present = present;
	net->rows = rows;
	for (i = 0; i < NET_LAYERS; i++)
		net_lay(net, &net->layers[i], i > 0 ? hidden : NET_IN, 4 * hidden, 1);
	for (i = 0; present && i < NET_LAYERS; i++)
		net_lay(net, &net->dense[i], i > 0 ? hidden : NET_IN, hidden, 0);
	net_lay(net, &net->join, present ? 2 * hidden : hidden, hidden, 0);
	net_lay(net, &net->last, hidden, 1, 0);
	net->memory = calloc(net_divide(net, NULL), sizeof(REAL));
	if (net->memory == NULL) {
		free(net);
		return NULL;
	}
	(void)net_divide(net, (REAL *)net->memory);
	for (i = 0; i < NET_LAYERS; i++) {
		net_fill(net->w + net->layers[i].wx, net->layers[i].in, 4 * hidden, &seed);
		net_fill(net->w + net->layers[i].wh, hidden, 4 * hidden, &seed);
		for (k = hidden; k < 2 * hidden; k++)
			net->w[net->layers[i].bias + k] = 1; /* to remember, at first */
		if (present)
			net_fill(net->w + net->dense[i].wx, net->dense[i].in, hidden, &seed);
	}
	net_fill(net->w + net->join.wx, net->join.in, hidden, &seed);
	net_fill(net->w + net->last.wx, hidden, 1, &seed);
	return net;
}
