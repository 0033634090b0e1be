/* emulate_product.c - the simplest matrix products, for whole runs with emulated kernels. */
#include <stdlib.h>
#include <string.h>
#include "fashion_cuda.h"

void emulate_queue_c(void (*work)(void *), const void *data, size_t size); /* emulate.cc */

static float
wide(fashion_cuda_bf16 v)
{
	uint32_t bits = (uint32_t)v << 16;
	float f;

	memcpy(&f, &bits, sizeof f);
	return f;
}

static fashion_cuda_bf16
narrow(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof bits);
	return (fashion_cuda_bf16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* The longest loop innermost, along rows. */
static void
multiply(void *data)
{
	const struct fashion_cuda_product *p = data;
	float *sum = calloc((size_t)p->m * p->n, sizeof *sum);

	if (sum == NULL)
		abort();
	for (uint32_t k = 0; k < p->k; k++)
		for (uint32_t m = 0; m < p->m; m++) {
			float a = wide(p->way == FASHION_CUDA_TN ? p->a[(size_t)k * p->m + m]
								 : p->a[(size_t)m * p->k + k]);

			for (uint32_t n = 0; n < p->n && a != 0.0f; n++)
				sum[(size_t)m * p->n + n] += a *
				    wide(p->way == FASHION_CUDA_NT ? p->b[(size_t)n * p->k + k]
								   : p->b[(size_t)k * p->n + n]);
		}
	for (size_t i = 0; i < (size_t)p->m * p->n; i++)
		if (p->wide)
			((float *)p->c)[i] = sum[i];
		else
			((fashion_cuda_bf16 *)p->c)[i] = narrow(sum[i]);
	free(sum);
}

void
fashion_cuda_own_product(const struct fashion_cuda_product *p, void *workspace, cudaStream_t stream)
{
	(void)workspace, (void)stream;
	emulate_queue_c(multiply, p, sizeof *p);
}
