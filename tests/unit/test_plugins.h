/* test_plugins.h - the shipped policy plugins, linked into their tests. */
#ifndef TEST_PLUGINS_H
#define TEST_PLUGINS_H
#include <espalier/abi.h>

extern const struct espl_plugin algorithm_asha_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_bohb_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_grid_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_hyperband_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_hypersched_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_median_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_pbt_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_random_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_replay_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_sha_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_sobol_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_spottune_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_stages_LTX_espalier_plugin;
extern const struct espl_plugin algorithm_tpe_LTX_espalier_plugin;
extern const struct espl_plugin allocator_fair_LTX_espalier_plugin;
extern const struct espl_plugin allocator_static_LTX_espalier_plugin;
extern const struct espl_plugin placer_colocate_LTX_espalier_plugin;
extern const struct espl_plugin placer_scatter_LTX_espalier_plugin;
#endif
