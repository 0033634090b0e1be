/* What is sold, against what a trial needs: GPUs that no layout can give are refused before a run.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "config/run.h"
#include "model/fleet.h"
#include "model/jobs.h"

static struct espl__fleet fleet;

static void
sell(const char *name, uint32_t gpus, uint32_t nodes, uint32_t flags)
{
	struct espl_offer offer = ESPL_INIT(struct espl_offer);

	offer.name = name;
	offer.gpus = gpus;
	offer.nodes_max = nodes;
	offer.flags = flags;
	(void)espl__fleet_offer(&fleet, &offer);
}

/* Does it suit trials of so many GPUs?  A refusal says `why`. */
static int
suits(uint32_t min, uint32_t max, int colocate, uint32_t limit, const char *why)
{
	struct espl__run_config config = { .magic = ESPL__RUN_CONFIG_MAGIC,
		.path = "a.cfg",
		.cloud.use = "sim",
		.gpus_limit = limit };
	struct espl__diag diag = ESPL__DIAG_INIT;

	config.trial.gpus_min = min;
	config.trial.gpus_max = max;
	config.trial.colocate = colocate;
	if (espl__sold_suits(&fleet, &config, &diag) == ESPL_OK)
		return 1;
	cr_assert_eq(diag.status, ESPL_E_CONFIG);
	cr_assert_str_eq(diag.file, "a.cfg");
	cr_assert(why != NULL && strstr(diag.text, why) != NULL, "%s", diag.text);
	cr_assert_str_neq(diag.hint, "");
	return 0;
}

Test(sold, a_trial_fits_a_node_or_is_whole_nodes)
{
	espl__fleet_init(&fleet);
	sell("small", 2, 2, 0);
	cr_assert_eq(espl__sold_gpus(&fleet, ESPL_ANY), 4);
	cr_assert_eq(espl__sold_gpus(&fleet, 3), 3);
	cr_expect(suits(1, 1, 1, ESPL_ANY, NULL));
	cr_expect(suits(2, 2, 1, ESPL_ANY, NULL));
	cr_expect(suits(4, ESPL_ANY, 1, ESPL_ANY, NULL));
	cr_expect(suits(3, 4, 1, ESPL_ANY, NULL));
	cr_expect_not(suits(3, 3, 1, ESPL_ANY, "3 GPUs neither fit on one node"));
	cr_expect_not(suits(3, ESPL_ANY, 1, 3, "3 GPUs neither fit on one node"));
	cr_expect(suits(3, 3, 0, ESPL_ANY, NULL));
	cr_expect_not(suits(5, 8, 0, ESPL_ANY, "offers at most 4"));
	sell("gone", 8, 8, ESPL_OFFER_GONE);
	cr_expect_not(suits(3, 3, 1, ESPL_ANY, "neither fit on one node"));
	sell("large", 4, 3, 0);
	cr_expect(suits(3, 3, 1, ESPL_ANY, NULL));
	cr_expect_not(suits(5, 7, 1, ESPL_ANY, "no number of GPUs from 5 to 7"));
	cr_expect(suits(5, 8, 1, ESPL_ANY, NULL));
	cr_expect_not(suits(13, 16, 1, ESPL_ANY, "no number of GPUs from 13 to 16"));
	sell("endless", 4, ESPL_ANY, 0);
	cr_expect(suits(13, 16, 1, ESPL_ANY, NULL));
	espl__fleet_free(&fleet);
}
