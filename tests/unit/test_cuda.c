/* test_cuda.c - the device of GPUs: without a GPU it gives the reason; with one it
 * copies, and a gang of one computes.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "comm/device.h"

/* 0, or the test was skipped: no module, or no GPU. */
static int
open_gpu(struct espl__device *d)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	espl_status status;

	memset(d, 0, sizeof *d);
	d->view.packing = d->view.threads = 1;
	status = espl__device_open("cuda", d, &diag);
	if (status == ESPL_OK)
		return 0;
	cr_assert_eq(status, ESPL_E_UNSUPPORTED, "%s", diag.text);
	cr_assert_neq(diag.text[0], '\0');
	cr_skip("%s", diag.text);
	return -1;
}

Test(cuda, a_device_that_is_none_is_refused)
{
	struct espl__device d = { 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;

	cr_assert_eq(espl__device_open("abacus", &d, &diag), ESPL_E_UNSUPPORTED);
	cr_assert(strstr(diag.text, "abacus") != NULL, "%s", diag.text);
}

Test(cuda, no_gpu_is_said_and_leaves_nothing)
{
	struct espl__device d = { 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;

	cr_assert_eq(setenv("CUDA_VISIBLE_DEVICES", "", 1), 0);
	cr_assert_eq(espl__device_open("cuda", &d, &diag), ESPL_E_UNSUPPORTED);
	cr_assert(strstr(diag.text, "no GPU") != NULL ||
		strstr(diag.text, "cannot load device") != NULL,
	    "%s", diag.text);
	cr_assert_eq(d.state, NULL);
	espl__device_close(&d);
}

Test(cuda, one_rank_computes)
{
	struct espl__device d;
	struct espl__comm_setup s = { .world = 1, .node_world = 1, .listen_fd = -1 };
	struct espl__comm *comm;
	struct espl__diag diag = ESPL__DIAG_INIT;
	double value = 2.5;

	if (open_gpu(&d) != 0)
		return;
	cr_assert(d.view.stream != NULL && strncmp(d.view.uuid, "GPU-", 4) == 0);
	cr_assert_eq(d.ops->connect(&d, &s, &comm, &diag), ESPL_OK, "%s", diag.text);
	cr_assert_eq(comm->view.reduce_host(&comm->view, &value, 1, ESPL_SUM), ESPL_OK);
	cr_assert_eq(value, 2.5);
	cr_assert_eq(comm->view.wait(&comm->view), ESPL_OK);
	espl__comm_finish(comm);
	espl__device_close(&d);
}
