/* fashion_cuda_products.c - who multiplies: cuBLASLt, whose library is opened when a trial opens,
 * or the kernels of fashion_cuda_products.cu.
 *
 * cuBLASLt counts columns first.  A matrix that lies row by row is for it the transposed one, so it
 * is asked for c transposed = b transposed times a transposed, with the operands swapped.
 */
#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fashion_cuda.h"

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define LIBRARY "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

struct library {
	__typeof__(cublasLtCreate) *create;
	__typeof__(cublasLtDestroy) *destroy;
	__typeof__(cublasLtGetStatusName) *name;
	__typeof__(cublasLtMatmul) *matmul;
	__typeof__(cublasLtMatmulAlgoGetHeuristic) *choose;
	__typeof__(cublasLtMatmulDescCreate) *desc_create;
	__typeof__(cublasLtMatmulDescDestroy) *desc_destroy;
	__typeof__(cublasLtMatmulDescSetAttribute) *desc_set;
	__typeof__(cublasLtMatrixLayoutCreate) *layout_create;
	__typeof__(cublasLtMatrixLayoutDestroy) *layout_destroy;
	__typeof__(cublasLtMatmulPreferenceCreate) *preference_create;
	__typeof__(cublasLtMatmulPreferenceDestroy) *preference_destroy;
	__typeof__(cublasLtMatmulPreferenceSetAttribute) *preference_set;
};

struct fashion_cuda_engine {
	struct library lt;
	cublasLtHandle_t handle; /* NULL: our own kernels */
	void *workspace;
	cudaStream_t stream;
	int strict; /* cuBLASLt or nothing */
};

struct plan {
	cublasLtMatmulDesc_t what;
	cublasLtMatrixLayout_t first, second, result;
	cublasLtMatmulAlgo_t algo;
};

/* The library stays open: the driver may still hold what it has loaded. */
static const char *
open_library(struct library *lt)
{
	const struct {
		const char *name;
		void *to;
	} wanted[] = {
		{ "cublasLtCreate", &lt->create },
		{ "cublasLtDestroy", &lt->destroy },
		{ "cublasLtGetStatusName", &lt->name },
		{ "cublasLtMatmul", &lt->matmul },
		{ "cublasLtMatmulAlgoGetHeuristic", &lt->choose },
		{ "cublasLtMatmulDescCreate", &lt->desc_create },
		{ "cublasLtMatmulDescDestroy", &lt->desc_destroy },
		{ "cublasLtMatmulDescSetAttribute", &lt->desc_set },
		{ "cublasLtMatrixLayoutCreate", &lt->layout_create },
		{ "cublasLtMatrixLayoutDestroy", &lt->layout_destroy },
		{ "cublasLtMatmulPreferenceCreate", &lt->preference_create },
		{ "cublasLtMatmulPreferenceDestroy", &lt->preference_destroy },
		{ "cublasLtMatmulPreferenceSetAttribute", &lt->preference_set },
	};
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (library == NULL)
		return dlerror();
	for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
		void *symbol = dlsym(library, wanted[i].name);

		if (symbol == NULL)
			return "a function is missing from " LIBRARY;
		memcpy(wanted[i].to, &symbol, sizeof symbol);
	}
	return NULL;
}

espl_status
fashion_cuda_engine_new(enum fashion_cuda_engines which, void *workspace, cudaStream_t stream,
    struct fashion_cuda_engine **to, struct espl_error *error)
{
	struct fashion_cuda_engine *e = calloc(1, sizeof *e);
	const char *why = NULL;
	cublasStatus_t status;

	if (e == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	e->workspace = workspace;
	e->stream = stream;
	e->strict = which == FASHION_CUDA_CUBLASLT;
	if (which != FASHION_CUDA_OWN) {
		why = open_library(&e->lt);
		if (why == NULL && (status = e->lt.create(&e->handle)) != CUBLAS_STATUS_SUCCESS) {
			why = e->lt.name(status);
			e->handle = NULL;
		}
	}
	if (why != NULL && e->strict) {
		free(e);
		return espl_fail(error, ESPL_E_UNSUPPORTED, "cannot initialize cuBLASLt: %s", why);
	}
	if (why != NULL)
		fprintf(stderr, "fashion_cuda: cannot use cuBLASLt (%s), using its own kernels\n",
		    why);
	*to = e;
	return ESPL_OK;
}

void
fashion_cuda_engine_free(struct fashion_cuda_engine *e)
{
	if (e == NULL)
		return;
	if (e->handle != NULL)
		(void)e->lt.destroy(e->handle);
	free(e);
}

/* ---- plans -------------------------------------------------------------------------------- */

static void
free_plan(const struct library *lt, struct plan *plan)
{
	if (plan->what != NULL)
		(void)lt->desc_destroy(plan->what);
	if (plan->first != NULL)
		(void)lt->layout_destroy(plan->first);
	if (plan->second != NULL)
		(void)lt->layout_destroy(plan->second);
	if (plan->result != NULL)
		(void)lt->layout_destroy(plan->result);
	free(plan);
}

static cublasStatus_t
describe_product(const struct library *lt, const struct fashion_cuda_product *p, struct plan *plan)
{
	cublasOperation_t first = p->way == FASHION_CUDA_NT ? CUBLAS_OP_T : CUBLAS_OP_N;
	cublasOperation_t second = p->way == FASHION_CUDA_TN ? CUBLAS_OP_T : CUBLAS_OP_N;
	uint32_t m = p->m, n = p->n, k = p->k;
	cublasStatus_t s = lt->desc_create(&plan->what, CUBLAS_COMPUTE_32F, CUDA_R_32F);

	if (s == CUBLAS_STATUS_SUCCESS)
		s = lt->desc_set(plan->what, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
	if (s == CUBLAS_STATUS_SUCCESS)
		s = lt->desc_set(plan->what, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
	if (s == CUBLAS_STATUS_SUCCESS) /* b */
		s = first == CUBLAS_OP_T ? lt->layout_create(&plan->first, CUDA_R_16BF, k, n, k)
					 : lt->layout_create(&plan->first, CUDA_R_16BF, n, k, n);
	if (s == CUBLAS_STATUS_SUCCESS) /* a */
		s = second == CUBLAS_OP_T ? lt->layout_create(&plan->second, CUDA_R_16BF, m, k, m)
					  : lt->layout_create(&plan->second, CUDA_R_16BF, k, m, k);
	if (s == CUBLAS_STATUS_SUCCESS)
		s = lt->layout_create(&plan->result, p->wide ? CUDA_R_32F : CUDA_R_16BF, n, m, n);
	return s;
}

static cublasStatus_t
make_plan(const struct fashion_cuda_engine *e, const struct fashion_cuda_product *p,
    struct plan *plan)
{
	cublasLtMatmulHeuristicResult_t result;
	cublasLtMatmulPreference_t preference = NULL;
	size_t room = FASHION_CUDA_WORKSPACE;
	int found = 0;
	cublasStatus_t s = describe_product(&e->lt, p, plan);

	if (s == CUBLAS_STATUS_SUCCESS)
		s = e->lt.preference_create(&preference);
	if (s == CUBLAS_STATUS_SUCCESS)
		s = e->lt.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
		    &room, sizeof room);
	if (s == CUBLAS_STATUS_SUCCESS)
		s = e->lt.choose(e->handle, plan->what, plan->first, plan->second, plan->result,
		    plan->result, preference, 1, &result, &found);
	if (s == CUBLAS_STATUS_SUCCESS && (found < 1 || result.state != CUBLAS_STATUS_SUCCESS))
		s = CUBLAS_STATUS_NOT_SUPPORTED;
	if (s == CUBLAS_STATUS_SUCCESS)
		plan->algo = result.algo;
	if (preference != NULL)
		(void)e->lt.preference_destroy(preference);
	return s;
}

espl_status
fashion_cuda_product_plan(struct fashion_cuda_engine *e, struct fashion_cuda_product *p,
    struct espl_error *error)
{
	struct plan *plan;
	cublasStatus_t s;

	p->plan = NULL;
	if (e->handle == NULL)
		return ESPL_OK;
	plan = calloc(1, sizeof *plan);
	if (plan == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	s = make_plan(e, p, plan);
	if (s == CUBLAS_STATUS_SUCCESS) {
		p->plan = plan;
		return ESPL_OK;
	}
	free_plan(&e->lt, plan);
	if (e->strict)
		return espl_fail(error, ESPL_E_UNSUPPORTED,
		    "cuBLASLt cannot multiply %u x %u by %u x %u: %s", p->m, p->k, p->k, p->n,
		    e->lt.name(s));
	fprintf(stderr,
	    "fashion_cuda: cuBLASLt cannot multiply %u x %u by %u x %u (%s), using its own "
	    "kernels\n",
	    p->m, p->k, p->k, p->n, e->lt.name(s));
	return ESPL_OK;
}

espl_status
fashion_cuda_product_run(struct fashion_cuda_engine *e, const struct fashion_cuda_product *p,
    struct espl_error *error)
{
	const struct plan *plan = p->plan;
	const float one = 1.0f, none = 0.0f;
	cublasStatus_t s;

	if (plan == NULL) {
		fashion_cuda_own_product(p, e->workspace, e->stream);
		return ESPL_OK;
	}
	s = e->lt.matmul(e->handle, plan->what, &one, p->b, plan->first, p->a, plan->second, &none,
	    p->c, plan->result, p->c, plan->result, &plan->algo, e->workspace,
	    FASHION_CUDA_WORKSPACE, e->stream);
	return s == CUBLAS_STATUS_SUCCESS
	    ? ESPL_OK
	    : espl_fail(error, ESPL_E_REMOTE, "cublasLtMatmul: %s", e->lt.name(s));
}

void
fashion_cuda_product_free(struct fashion_cuda_engine *e, struct fashion_cuda_product *p)
{
	if (p->plan != NULL)
		free_plan(&e->lt, p->plan);
	p->plan = NULL;
}
