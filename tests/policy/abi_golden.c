/* abi_golden.c - offset and size of every field of the ABI, and every number in it, against the
 * list in abi_golden.txt, so that nobody changes the ABI without meaning to.
 *
 * `abi_golden --print` prints the list.  A field appended, or a constant added, is a new line (and
 * a new minor); a line that changes breaks every plugin (and is a new major).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/algorithm.h>
#include <espalier/allocator.h>
#include <espalier/cloud.h>
#include <espalier/market.h>
#include <espalier/placer.h>
#include <espalier/sampler.h>
#include <espalier/trainable.h>

struct line {
	const char *name, *field;
	long long offset, size;
};
/* clang-format off */
#define S(s) { #s, NULL, -1, (long long)sizeof(struct s) },
#define F(s, f) \
	{ #s, #f, (long long)offsetof(struct s, f), (long long)sizeof(((struct s *)0)->f) },
#define C(c) { #c, NULL, -2, (long long)(c) },

static const struct line lines[] = {
	S(espl_error) F(espl_error, size) F(espl_error, status) F(espl_error, option)
	F(espl_error, row) F(espl_error, text) F(espl_error, hint)
	S(espl_option) F(espl_option, name) F(espl_option, help) F(espl_option, fallback)
	F(espl_option, min) F(espl_option, max) F(espl_option, choices) F(espl_option, columns)
	F(espl_option, column_count) F(espl_option, type) F(espl_option, flags)
	F(espl_option, zero)
	S(espl_latency) F(espl_latency, size) F(espl_latency, kind) F(espl_latency, mean_s)
	F(espl_latency, sd_s) F(espl_latency, samples_s) F(espl_latency, sample_count)
	F(espl_latency, zero)
	S(espl_value) F(espl_value, as) F(espl_value, source) F(espl_value, line)
	S(espl_table) F(espl_table, size) F(espl_table, row_count) F(espl_table, column_count)
	F(espl_table, zero) F(espl_table, cells)
	S(espl_config) F(espl_config, size) F(espl_config, count) F(espl_config, instance)
	F(espl_config, values)
	S(espl_ops) F(espl_ops, size) F(espl_ops, zero)
	S(espl_plugin) F(espl_plugin, magic) F(espl_plugin, abi) F(espl_plugin, size)
	F(espl_plugin, kind) F(espl_plugin, name) F(espl_plugin, version) F(espl_plugin, summary)
	F(espl_plugin, caps) F(espl_plugin, options) F(espl_plugin, option_count)
	F(espl_plugin, option_size) F(espl_plugin, ops) F(espl_plugin, create)
	F(espl_plugin, destroy) F(espl_plugin, extension)
	S(espl_when) F(espl_when, param) F(espl_when, zero) F(espl_when, value)
	S(espl_param) F(espl_param, size) F(espl_param, type) F(espl_param, scale)
	F(espl_param, label_count) F(espl_param, name) F(espl_param, low) F(espl_param, high)
	F(espl_param, quantum) F(espl_param, fallback) F(espl_param, levels) F(espl_param, labels)
	F(espl_param, when) F(espl_param, when_count) F(espl_param, zero)
	S(espl_space) F(espl_space, size) F(espl_space, param_count) F(espl_space, ctx)
	F(espl_space, params) F(espl_space, find) F(espl_space, value) F(espl_space, from_unit)
	F(espl_space, to_unit) F(espl_space, snap) F(espl_space, hash)
	F(espl_space, allowed)
	S(espl_share) F(espl_share, gpus) F(espl_share, packing)
	S(espl_point) F(espl_point, x) F(espl_point, y)
	S(espl_price) F(espl_price, from) F(espl_price, usd_hour)
	S(espl_offer) F(espl_offer, size) F(espl_offer, flags) F(espl_offer, number)
	F(espl_offer, gpus) F(espl_offer, cpus) F(espl_offer, nodes_max) F(espl_offer, name)
	F(espl_offer, market) F(espl_offer, gpu_type) F(espl_offer, zone)
	F(espl_offer, memory_bytes) F(espl_offer, gpu_memory_bytes) F(espl_offer, price_hour)
	F(espl_offer, fixed_price_hour) F(espl_offer, data_gb) F(espl_offer, billing)
	F(espl_offer, billed_from) F(espl_offer, billing_step) F(espl_offer, minimum_charge)
	F(espl_offer, refund_before) F(espl_offer, notice) F(espl_offer, lease_max)
	F(espl_offer, provision) F(espl_offer, init) F(espl_offer, hazard_hour)
	F(espl_offer, hazard_hours)
	S(espl_market) F(espl_market, size) F(espl_market, zero) F(espl_market, ctx)
	F(espl_market, history) F(espl_market, mean) F(espl_market, hazard)
	S(espl_hazard) F(espl_hazard, size) F(espl_hazard, zero) F(espl_hazard, rate_hour)
	F(espl_hazard, hours) F(espl_hazard, observed)
	S(espl_gpu) F(espl_gpu, size) F(espl_gpu, residents) F(espl_gpu, packing)
	F(espl_gpu, blocked)
	S(espl_node) F(espl_node, size) F(espl_node, state) F(espl_node, id) F(espl_node, offer)
	F(espl_node, flags) F(espl_node, gpus_idle) F(espl_node, gpu_count) F(espl_node, gpus)
	F(espl_node, owner) F(espl_node, ready_at) F(espl_node, billed_from) F(espl_node, ends_at)
	F(espl_node, max_price_hour) F(espl_node, charged)
	S(espl_stage) F(espl_stage, size) F(espl_stage, trials) F(espl_stage, iterations)
	S(espl_bracket) F(espl_bracket, size) F(espl_bracket, stage_count) F(espl_bracket, stages)
	S(espl_spec) F(espl_spec, size) F(espl_spec, flags) F(espl_spec, bracket_count)
	F(espl_spec, zero) F(espl_spec, brackets)
	S(espl_plan_stage) F(espl_plan_stage, size) F(espl_plan_stage, bracket)
	F(espl_plan_stage, stage) F(espl_plan_stage, offer) F(espl_plan_stage, gpus)
	F(espl_plan_stage, gpus_per_trial) F(espl_plan_stage, nodes) F(espl_plan_stage, zero)
	F(espl_plan_stage, max_price_hour)
	S(espl_plan) F(espl_plan, size) F(espl_plan, flags) F(espl_plan, stage_count)
	F(espl_plan, zero) F(espl_plan, stages) F(espl_plan, gap) F(espl_plan, searched)
	F(espl_plan, effort)
	S(espl_standing) F(espl_standing, size) F(espl_standing, bracket) F(espl_standing, stage)
	F(espl_standing, trials_left) F(espl_standing, stage_started) F(espl_standing, trains_since)
	S(espl_experiment) F(espl_experiment, size) F(espl_experiment, flags)
	F(espl_experiment, id) F(espl_experiment, name) F(espl_experiment, metrics)
	F(espl_experiment, metric_count) F(espl_experiment, gpus_limit)
	F(espl_experiment, arrived) F(espl_experiment, deadline) F(espl_experiment, budget)
	F(espl_experiment, spent) F(espl_experiment, risk) F(espl_experiment, weight)
	F(espl_experiment, data_gb) F(espl_experiment, spec) F(espl_experiment, plan)
	F(espl_experiment, standing) F(espl_experiment, standing_count) F(espl_experiment, zero)
	F(espl_experiment, gpus_min) F(espl_experiment, gpus_max)
	S(espl_speed_query) F(espl_speed_query, size) F(espl_speed_query, offer)
	F(espl_speed_query, experiment) F(espl_speed_query, trial) F(espl_speed_query, share)
	S(espl_speed) F(espl_speed, size) F(espl_speed, evidence) F(espl_speed, iteration_s)
	F(espl_speed, sd_s) F(espl_speed, samples)
	S(espl_overheads) F(espl_overheads, size) F(espl_overheads, zero)
	F(espl_overheads, start_s) F(espl_overheads, save_s) F(espl_overheads, restore_s)
	F(espl_overheads, resize_s) F(espl_overheads, sync_s) F(espl_overheads, boundary_s)
	F(espl_overheads, save_every_s)
	S(espl_stage_query) F(espl_stage_query, size) F(espl_stage_query, flags)
	F(espl_stage_query, experiment) F(espl_stage_query, bracket) F(espl_stage_query, stage)
	F(espl_stage_query, offer) F(espl_stage_query, gpus_from) F(espl_stage_query, gpus_to)
	F(espl_stage_query, zero)
	S(espl_cell) F(espl_cell, mean_s) F(espl_cell, sd_s) F(espl_cell, busy_gpu_s)
	F(espl_cell, nodes) F(espl_cell, gpus_per_trial) F(espl_cell, slots) F(espl_cell, flags)
	S(espl_predict) F(espl_predict, size) F(espl_predict, flags) F(espl_predict, experiment)
	F(espl_predict, quantile) F(espl_predict, samples) F(espl_predict, zero)
	F(espl_predict, stage_ends_s) F(espl_predict, stage_asks_s)
	S(espl_prediction) F(espl_prediction, size) F(espl_prediction, meets)
	F(espl_prediction, jct_s) F(espl_prediction, jct_sd_s)
	F(espl_prediction, jct_at_quantile_s) F(espl_prediction, cost_usd)
	F(espl_prediction, cost_sd_usd) F(espl_prediction, cost_at_quantile_usd)
	S(espl_model) F(espl_model, size) F(espl_model, zero) F(espl_model, ctx)
	F(espl_model, speed) F(espl_model, overheads) F(espl_model, stage) F(espl_model, predict)
	S(espl_host) F(espl_host, size) F(espl_host, abi) F(espl_host, ctx) F(espl_host, now)
	F(espl_host, random) F(espl_host, log) F(espl_host, note) F(espl_host, service)
	F(espl_host, file) F(espl_host, utc_start_s) F(espl_host, verbose) F(espl_host, simulated)
	F(espl_host, rules) F(espl_host, zero)
	S(espl_sample) F(espl_sample, size) F(espl_sample, state) F(espl_sample, trial)
	F(espl_sample, iteration) F(espl_sample, loss) F(espl_sample, cost)
	F(espl_sample, values) F(espl_sample, metrics) F(espl_sample, metric_count)
	F(espl_sample, zero)
	S(espl_wish) F(espl_wish, size) F(espl_wish, count) F(espl_wish, iteration)
	S(espl_sampler_ops) F(espl_sampler_ops, head) F(espl_sampler_ops, tell)
	F(espl_sampler_ops, ask)
	S(espl_sampling) F(espl_sampling, size) F(espl_sampling, zero) F(espl_sampling, ctx)
	F(espl_sampling, tell) F(espl_sampling, ask)
	S(espl_byte_sink) F(espl_byte_sink, size) F(espl_byte_sink, zero) F(espl_byte_sink, write)
	S(espl_byte_source) F(espl_byte_source, size) F(espl_byte_source, zero)
	F(espl_byte_source, read) F(espl_byte_source, left)
	S(espl_compute_request) F(espl_compute_request, size) F(espl_compute_request, zero)
	F(espl_compute_request, what) F(espl_compute_request, input)
	F(espl_compute_request, input_size) F(espl_compute_request, limit)
	F(espl_compute_request, assumed) F(espl_compute_request, memory_limit)
	S(espl_compute) F(espl_compute, size) F(espl_compute, zero) F(espl_compute, ctx)
	F(espl_compute, submit) F(espl_compute, cancel)
	S(espl_outcome) F(espl_outcome, size) F(espl_outcome, status) F(espl_outcome, token)
	F(espl_outcome, output) F(espl_outcome, output_size) F(espl_outcome, took)
	S(espl_compute_ops) F(espl_compute_ops, head) F(espl_compute_ops, run)
	S(espl_trial) F(espl_trial, size) F(espl_trial, state) F(espl_trial, id)
	F(espl_trial, tag) F(espl_trial, group) F(espl_trial, parent) F(espl_trial, iteration)
	F(espl_trial, budget) F(espl_trial, checkpoint) F(espl_trial, loss) F(espl_trial, gpu_s)
	F(espl_trial, spent) F(espl_trial, values)
	S(espl_observation) F(espl_observation, size) F(espl_observation, flags)
	F(espl_observation, trial) F(espl_observation, iteration) F(espl_observation, loss)
	F(espl_observation, metrics) F(espl_observation, metric_count) F(espl_observation, zero)
	F(espl_observation, values) F(espl_observation, at) F(espl_observation, iteration_s)
	F(espl_observation, share)
	S(espl_history) F(espl_history, size) F(espl_history, zero) F(espl_history, ctx)
	F(espl_history, count) F(espl_history, at) F(espl_history, trial) F(espl_history, curve)
	F(espl_history, first)
	S(espl_first) F(espl_first, size) F(espl_first, count) F(espl_first, ctx)
	F(espl_first, at)
	S(espl_start) F(espl_start, size) F(espl_start, how) F(espl_start, trial)
	F(espl_start, checkpoint) F(espl_start, values) F(espl_start, budget) F(espl_start, tag)
	F(espl_start, weight) F(espl_start, gpus_min) F(espl_start, gpus_max)
	S(espl_group) F(espl_group, size) F(espl_group, flags) F(espl_group, bracket)
	F(espl_group, stage) F(espl_group, concurrency) F(espl_group, zero)
	S(espl_search_sink) F(espl_search_sink, size) F(espl_search_sink, zero)
	F(espl_search_sink, begin) F(espl_search_sink, add) F(espl_search_sink, close)
	F(espl_search_sink, finish) F(espl_search_sink, verdict) F(espl_search_sink, drop)
	F(espl_search_sink, hint) F(espl_search_sink, wake_at)
	S(espl_search_view) F(espl_search_view, size) F(espl_search_view, why)
	F(espl_search_view, now) F(espl_search_view, group) F(espl_search_view, trials)
	F(espl_search_view, want) F(espl_search_view, running) F(espl_search_view, waiting)
	F(espl_search_view, gpus) F(espl_search_view, gpus_max) F(espl_search_view, outcome_count)
	F(espl_search_view, outcomes)
	S(espl_spec_sink) F(espl_spec_sink, size) F(espl_spec_sink, zero) F(espl_spec_sink, spec)
	S(espl_algorithm_ops) F(espl_algorithm_ops, head) F(espl_algorithm_ops, next_group)
	F(espl_algorithm_ops, on_report) F(espl_algorithm_ops, on_trial_end)
	F(espl_algorithm_ops, spec) F(espl_algorithm_ops, extend)
	S(espl_extension) F(espl_extension, size) F(espl_extension, flags)
	F(espl_extension, trials) F(espl_extension, values)
	S(espl_plan_view) F(espl_plan_view, size) F(espl_plan_view, gpus_max)
	F(espl_plan_view, experiment) F(espl_plan_view, offers) F(espl_plan_view, offer_count)
	F(espl_plan_view, outcome_count) F(espl_plan_view, outcomes)
	S(espl_plan_sink) F(espl_plan_sink, size) F(espl_plan_sink, zero) F(espl_plan_sink, plan)
	F(espl_plan_sink, least)
	S(espl_item) F(espl_item, size) F(espl_item, flags) F(espl_item, id)
	F(espl_item, experiment) F(espl_item, trial) F(espl_item, group) F(espl_item, bracket)
	F(espl_item, stage) F(espl_item, arrived) F(espl_item, started) F(espl_item, elapsed_s)
	F(espl_item, work_s) F(espl_item, work_total_s) F(espl_item, iterations_left)
	F(espl_item, gpus_min) F(espl_item, gpus_max) F(espl_item, unit) F(espl_item, packing_max)
	F(espl_item, scaling) F(espl_item, packing) F(espl_item, scaling_count)
	F(espl_item, packing_count) F(espl_item, granted) F(espl_item, offer)
	F(espl_item, node_count) F(espl_item, nodes) F(espl_item, weight) F(espl_item, resize_s)
	F(espl_item, boundary_s) F(espl_item, start_s) F(espl_item, gpu_memory_bytes)
	F(espl_item, gpu) F(espl_item, zero)
	S(espl_alloc_view) F(espl_alloc_view, size) F(espl_alloc_view, why)
	F(espl_alloc_view, now) F(espl_alloc_view, items) F(espl_alloc_view, changed)
	F(espl_alloc_view, experiments) F(espl_alloc_view, offers) F(espl_alloc_view, nodes)
	F(espl_alloc_view, targets) F(espl_alloc_view, outcomes) F(espl_alloc_view, item_count)
	F(espl_alloc_view, changed_count) F(espl_alloc_view, experiment_count)
	F(espl_alloc_view, offer_count) F(espl_alloc_view, node_count)
	F(espl_alloc_view, outcome_count) F(espl_alloc_view, gpus) F(espl_alloc_view, gpus_idle)
	F(espl_alloc_view, gone) F(espl_alloc_view, gone_count) F(espl_alloc_view, gpus_granted)
	F(espl_alloc_view, gpus_lost)
	S(espl_grant) F(espl_grant, size) F(espl_grant, flags) F(espl_grant, item)
	F(espl_grant, share) F(espl_grant, offer) F(espl_grant, zero)
	F(espl_grant, max_price_hour)
	S(espl_target) F(espl_target, size) F(espl_target, offer) F(espl_target, nodes)
	F(espl_target, zero) F(espl_target, max_price_hour)
	S(espl_alloc_sink) F(espl_alloc_sink, size) F(espl_alloc_sink, zero)
	F(espl_alloc_sink, grant) F(espl_alloc_sink, target) F(espl_alloc_sink, retire)
	F(espl_alloc_sink, plan) F(espl_alloc_sink, wake_at) F(espl_alloc_sink, watch_prices)
	F(espl_alloc_sink, objective) F(espl_alloc_sink, horizon) F(espl_alloc_sink, claim)
	S(espl_allocator_ops) F(espl_allocator_ops, head) F(espl_allocator_ops, allocate)
	F(espl_allocator_ops, plan)
	S(espl_http) F(espl_http, size) F(espl_http, header_count) F(espl_http, method)
	F(espl_http, url) F(espl_http, headers) F(espl_http, body) F(espl_http, body_size)
	F(espl_http, limit) F(espl_http, sign) F(espl_http, sign_user) F(espl_http, sign_secret)
	F(espl_http, cookie) F(espl_http, socket) F(espl_http, lines) F(espl_http, zero)
	S(espl_http_reply) F(espl_http_reply, size) F(espl_http_reply, status)
	F(espl_http_reply, cookie) F(espl_http_reply, code) F(espl_http_reply, header_count)
	F(espl_http_reply, headers) F(espl_http_reply, body) F(espl_http_reply, body_size)
	F(espl_http_reply, text) F(espl_http_reply, more) F(espl_http_reply, zero)
	S(espl_spawn) F(espl_spawn, size) F(espl_spawn, argc) F(espl_spawn, argv)
	F(espl_spawn, env) F(espl_spawn, env_count) F(espl_spawn, zero) F(espl_spawn, input)
	F(espl_spawn, input_size) F(espl_spawn, limit) F(espl_spawn, cookie)
	S(espl_child) F(espl_child, size) F(espl_child, status) F(espl_child, cookie)
	F(espl_child, exit_code) F(espl_child, zero) F(espl_child, out) F(espl_child, err)
	F(espl_child, out_size) F(espl_child, err_size)
	S(espl_io) F(espl_io, size) F(espl_io, zero) F(espl_io, ctx) F(espl_io, http)
	F(espl_io, spawn) F(espl_io, timer) F(espl_io, cancel) F(espl_io, utc_ns)
	F(espl_io, secret)
	S(espl_run) F(espl_run, size) F(espl_run, gpus_min) F(espl_run, folder)
	S(espl_visit) F(espl_visit, size) F(espl_visit, zero) F(espl_visit, folder)
	F(espl_visit, idle) F(espl_visit, zero2)
	S(espl_acquire) F(espl_acquire, size) F(espl_acquire, zero) F(espl_acquire, lease)
	F(espl_acquire, token) F(espl_acquire, run) F(espl_acquire, offer) F(espl_acquire, market)
	F(espl_acquire, max_price_hour) F(espl_acquire, avoid_count) F(espl_acquire, zero2)
	F(espl_acquire, avoid)
	S(espl_lease) F(espl_lease, size) F(espl_lease, state) F(espl_lease, lease)
	F(espl_lease, token) F(espl_lease, offer) F(espl_lease, market) F(espl_lease, provider_id)
	F(espl_lease, address) F(espl_lease, detail)
	S(espl_node_event) F(espl_node_event, size) F(espl_node_event, state)
	F(espl_node_event, lease) F(espl_node_event, token) F(espl_node_event, run)
	F(espl_node_event, provider_id) F(espl_node_event, address) F(espl_node_event, detail)
	F(espl_node_event, at) F(espl_node_event, ends_at) F(espl_node_event, reason)
	F(espl_node_event, gpus) F(espl_node_event, charged) F(espl_node_event, text)
	F(espl_node_event, retry_after) F(espl_node_event, offer) F(espl_node_event, market)
	F(espl_node_event, billed_utc_s) F(espl_node_event, flags) F(espl_node_event, zero)
	F(espl_node_event, machine)
	S(espl_cloud_events) F(espl_cloud_events, size) F(espl_cloud_events, zero)
	F(espl_cloud_events, ctx) F(espl_cloud_events, offer) F(espl_cloud_events, prices)
	F(espl_cloud_events, node) F(espl_cloud_events, done)
	F(espl_cloud_events, interruptions) F(espl_cloud_events, supply)
	S(espl_supply) F(espl_supply, size) F(espl_supply, machines) F(espl_supply, free_s)
	F(espl_supply, taken_s) F(espl_supply, wait)
	S(espl_interruption) F(espl_interruption, at) F(espl_interruption, share)
	S(espl_argv_sink) F(espl_argv_sink, size) F(espl_argv_sink, zero) F(espl_argv_sink, argv)
	F(espl_argv_sink, agent)
	S(espl_cloud_ops) F(espl_cloud_ops, head) F(espl_cloud_ops, start)
	F(espl_cloud_ops, acquire) F(espl_cloud_ops, release) F(espl_cloud_ops, adopt)
	F(espl_cloud_ops, owned) F(espl_cloud_ops, reach) F(espl_cloud_ops, history)
	F(espl_cloud_ops, describe) F(espl_cloud_ops, on_http) F(espl_cloud_ops, on_child)
	F(espl_cloud_ops, on_timer)
	S(espl_slot) F(espl_slot, node) F(espl_slot, gpu) F(espl_slot, packing)
	S(espl_gang) F(espl_gang, size) F(espl_gang, flags) F(espl_gang, item) F(espl_gang, share)
	F(espl_gang, offer) F(espl_gang, slot_count) F(espl_gang, slots) F(espl_gang, owner)
	F(espl_gang, move_s) F(espl_gang, gpu_memory_bytes)
	S(espl_give_up) F(espl_give_up, offer) F(espl_give_up, nodes)
	S(espl_place_view) F(espl_place_view, size) F(espl_place_view, why)
	F(espl_place_view, now) F(espl_place_view, gangs) F(espl_place_view, changed)
	F(espl_place_view, nodes) F(espl_place_view, give_up) F(espl_place_view, gang_count)
	F(espl_place_view, changed_count) F(espl_place_view, node_count)
	F(espl_place_view, give_up_count)
	S(espl_place_sink) F(espl_place_sink, size) F(espl_place_sink, zero)
	F(espl_place_sink, place) F(espl_place_sink, give_up)
	S(espl_placer_ops) F(espl_placer_ops, head) F(espl_placer_ops, place)
	S(espl_device) F(espl_device, size) F(espl_device, kind) F(espl_device, ordinal)
	F(espl_device, packing) F(espl_device, threads) F(espl_device, zero)
	F(espl_device, stream) F(espl_device, memory_limit) F(espl_device, uuid)
	S(espl_comm) F(espl_comm, size) F(espl_comm, rank) F(espl_comm, world)
	F(espl_comm, node_rank) F(espl_comm, node_world) F(espl_comm, generation)
	F(espl_comm, ctx) F(espl_comm, native) F(espl_comm, allreduce) F(espl_comm, broadcast)
	F(espl_comm, allgather) F(espl_comm, barrier) F(espl_comm, sum_shards) F(espl_comm, wait)
	F(espl_comm, reduce_host)
	S(espl_setting) F(espl_setting, name) F(espl_setting, text) F(espl_setting, value)
	S(espl_trial_context) F(espl_trial_context, size) F(espl_trial_context, setting_count)
	F(espl_trial_context, settings) F(espl_trial_context, trial) F(espl_trial_context, seed)
	F(espl_trial_context, budget) F(espl_trial_context, iterations_max)
	F(espl_trial_context, device) F(espl_trial_context, comm) F(espl_trial_context, scratch)
	S(espl_report_sink) F(espl_report_sink, size) F(espl_report_sink, zero)
	F(espl_report_sink, metric) F(espl_report_sink, finished)
	S(espl_region_sink) F(espl_region_sink, size) F(espl_region_sink, zero)
	F(espl_region_sink, region)
	S(espl_trainable_ops) F(espl_trainable_ops, head) F(espl_trainable_ops, open)
	F(espl_trainable_ops, close) F(espl_trainable_ops, step) F(espl_trainable_ops, regions)
	F(espl_trainable_ops, save) F(espl_trainable_ops, load) F(espl_trainable_ops, resize)
	F(espl_trainable_ops, resized) F(espl_trainable_ops, suits)
	C(ESPL_ABI_MAJOR) C(ESPL_ABI_MINOR) C(ESPL_ABI) C(ESPL_MAGIC) C(ESPL_NEVER) C(ESPL_NONE)
	C(ESPL_ANY) C(ESPL_SECOND) C(ESPL_USD) C(ESPL_CAP_PURE) C(ESPL_CAP_SIMULATED)
	C(ESPL_CAP_EXAMPLE) C(ESPL_CAP_NEEDS_SAVES)
	C(ESPL_NEED_IO) C(ESPL_NEED_COMPUTE) C(ESPL_NEED_CUDA) C(ESPL_OPT_REQUIRED)
	C(ESPL_OPT_SECRET) C(ESPL_OPT_EXPERIMENTAL) C(ESPL_OPT_DEPRECATED) C(ESPL_ALGORITHM)
	C(ESPL_RULES_UNIQUE) C(ESPL_SAMPLER) C(ESPL_OPT_PLUGIN)
	C(ESPL_SAMPLE_PENDING) C(ESPL_SAMPLE_SEEN) C(ESPL_SAMPLE_FAILED)
	C(ESPL_ALLOCATOR) C(ESPL_CLOUD) C(ESPL_PLACER) C(ESPL_TRAINABLE) C(ESPL_OK)
	C(ESPL_E_CONFIG) C(ESPL_E_NOMEM) C(ESPL_E_BUSY) C(ESPL_E_INFEASIBLE) C(ESPL_E_REMOTE)
	C(ESPL_E_REJECTED) C(ESPL_E_BUG) C(ESPL_E_PEER) C(ESPL_E_LIMIT) C(ESPL_E_UNSUPPORTED)
	C(ESPL_E_UNKNOWN) C(ESPL_OPT_BOOL) C(ESPL_OPT_INT) C(ESPL_OPT_REAL) C(ESPL_OPT_STRING)
	C(ESPL_OPT_CHOICE) C(ESPL_OPT_SPAN) C(ESPL_OPT_BYTES) C(ESPL_OPT_MONEY) C(ESPL_OPT_PATH)
	C(ESPL_OPT_LATENCY) C(ESPL_OPT_TABLE) C(ESPL_CONSTANT) C(ESPL_NORMAL) C(ESPL_LOGNORMAL)
	C(ESPL_EMPIRICAL) C(ESPL_UNSET) C(ESPL_FALLBACK) C(ESPL_FILE) C(ESPL_COMMAND)
	C(ESPL_REAL) C(ESPL_INT) C(ESPL_CHOICE) C(ESPL_ORDINAL) C(ESPL_LINEAR) C(ESPL_LOG)
	C(ESPL_REVERSE_LOG) C(ESPL_OFFER_MARKET) C(ESPL_OFFER_REVOCABLE) C(ESPL_OFFER_GONE)
	C(ESPL_OFFER_CANARY)
	C(ESPL_NODE_RETIRING) C(ESPL_NODE_QUARANTINED) C(ESPL_NODE_AT_RISK)
	C(ESPL_NODE_UNREACHABLE) C(ESPL_WHY_ARRIVAL)
	C(ESPL_WHY_DEPARTURE) C(ESPL_WHY_NODES) C(ESPL_WHY_NOTICE) C(ESPL_WHY_TIME)
	C(ESPL_WHY_PRICE)
	C(ESPL_WHY_PROFILE) C(ESPL_WHY_OUTCOME) C(ESPL_WHY_HINT) C(ESPL_WHY_SETTLED)
	C(ESPL_BILL_NODE)
	C(ESPL_BILL_FUNCTION) C(ESPL_BILL_FROM_REQUEST) C(ESPL_BILL_FROM_BOOT)
	C(ESPL_BILL_FROM_READY) C(ESPL_NODE_REQUESTED) C(ESPL_NODE_BOOTING) C(ESPL_NODE_READY)
	C(ESPL_NODE_NOTICE) C(ESPL_NODE_ENDED) C(ESPL_SPEC_PARALLEL)
	C(ESPL_SPEC_OPEN) C(ESPL_PLAN_OPTIMAL)
	C(ESPL_PLAN_EFFORT)
	C(ESPL_EXPERIMENT_MAXIMIZE) C(ESPL_EXPERIMENT_WARM) C(ESPL_EXPERIMENT_AHEAD)
	C(ESPL_EXPERIMENT_CHAIN) C(ESPL_EXPERIMENT_NO_SAVE) C(ESPL_EXPERIMENT_EARLIER)
	C(ESPL_EXPERIMENT_IDLE)
	C(ESPL_FROM_NOW) C(ESPL_AFRESH) C(ESPL_CELL_INVALID) C(ESPL_CELL_BEGUN)
	C(ESPL_CELL_SKIPPED) C(ESPL_GUESSED) C(ESPL_PROFILED)
	C(ESPL_MEASURED_LIKE) C(ESPL_MEASURED) C(ESPL_DEBUG) C(ESPL_INFO) C(ESPL_WARN)
	C(ESPL_ERROR) C(ESPL_ABOUT_RUN) C(ESPL_ABOUT_TRIAL) C(ESPL_ABOUT_ITEM)
	C(ESPL_ABOUT_GROUP) C(ESPL_ABOUT_NODE) C(ESPL_ABOUT_OFFER) C(ESPL_OBSERVED_EARLIER)
	C(ESPL_GROUP_OPEN) C(ESPL_ASK_START) C(ESPL_ASK_GROUP) C(ESPL_ASK_CAPACITY)
	C(ESPL_ASK_RESULT) C(ESPL_ASK_TIME) C(ESPL_ASK_OUTCOME) C(ESPL_EXTEND_OVER)
	C(ESPL_TRIAL_WAITING)
	C(ESPL_TRIAL_RUNNING) C(ESPL_TRIAL_PAUSED) C(ESPL_TRIAL_RESTING) C(ESPL_TRIAL_ENDED)
	C(ESPL_TRIAL_FAILED)
	C(ESPL_FRESH) C(ESPL_CONTINUE) C(ESPL_CLONE) C(ESPL_SAVE) C(ESPL_PAUSE) C(ESPL_STOP)
	C(ESPL_END_BUDGET) C(ESPL_END_ITSELF) C(ESPL_END_PAUSED) C(ESPL_END_STOPPED)
	C(ESPL_END_FAILED) C(ESPL_ITEM_OPEN) C(ESPL_ITEM_RUNNING) C(ESPL_ITEM_CHANGING)
	C(ESPL_ITEM_INPLACE) C(ESPL_ITEM_EVICTED) C(ESPL_ITEM_NO_SAVE)
	C(ESPL_ITEM_EXPERIMENT) C(ESPL_ITEM_COLOCATE)
	C(ESPL_GRANT_AT_ONCE)
	C(ESPL_GRANT_QUEUED) C(ESPL_GRANT_YIELD) C(ESPL_GRANT_BRACKET) C(ESPL_BY_USER)
	C(ESPL_BY_PROVIDER) C(ESPL_BY_FAULT) C(ESPL_BY_CAPACITY) C(ESPL_BY_QUOTA)
	C(ESPL_BY_EXPIRY) C(ESPL_BY_REFUSAL)
	C(ESPL_GANG_LOCKED) C(ESPL_GANG_UNPLACED) C(ESPL_GANG_MUST)
	C(ESPL_GANG_COLOCATE) C(ESPL_GANG_YIELDS) C(ESPL_CPU) C(ESPL_CUDA) C(ESPL_F32)
	C(ESPL_F64) C(ESPL_F16)
	C(ESPL_BF16) C(ESPL_I32) C(ESPL_I64) C(ESPL_U8) C(ESPL_SUM) C(ESPL_MEAN) C(ESPL_MIN)
	C(ESPL_MAX)
};
/* clang-format on */

static void
put(const struct line *line, char *text, size_t room)
{
	if (line->offset == -2)
		(void)snprintf(text, room, "constant %s %lld", line->name, line->size);
	else if (line->field == NULL)
		(void)snprintf(text, room, "struct %s size %lld", line->name, line->size);
	else
		(void)snprintf(text, room, "field %s.%s offset %lld size %lld", line->name,
		    line->field, line->offset, line->size);
}

/* The next line that says something; 0 at the end. */
static int
next(FILE *file, char *text, int room)
{
	while (fgets(text, room, file) != NULL) {
		text[strcspn(text, "\n")] = '\0';
		if (text[0] != '\0' && text[0] != '#')
			return 1;
	}
	return 0;
}

/* Compares from top to bottom.  Returns how many differ, printing them. */
static int
compare(FILE *golden)
{
	char wanted[256], found[256];
	size_t i;
	int bad = 0;

	for (i = 0; i < sizeof lines / sizeof lines[0]; i++) {
		put(&lines[i], found, sizeof found);
		if (!next(golden, wanted, (int)sizeof wanted)) {
			printf("# not in the list: %s\n", found);
			return bad + 1;
		}
		if (strcmp(wanted, found) != 0) {
			printf("# is:     %s\n# golden: %s\n", found, wanted);
			if (++bad == 10)
				return bad;
		}
	}
	if (next(golden, wanted, (int)sizeof wanted)) {
		printf("# in the list, but no more in the headers: %s\n", wanted);
		bad++;
	}
	return bad;
}

int
main(int argc, char **argv)
{
	const char *top = getenv("abs_top_srcdir");
	char path[4096], text[256];
	FILE *golden;
	size_t i;
	int bad;

	if (argc > 1 && strcmp(argv[1], "--print") == 0) {
		for (i = 0; i < sizeof lines / sizeof lines[0]; i++) {
			put(&lines[i], text, sizeof text);
			printf("%s\n", text);
		}
		return 0;
	}
	(void)snprintf(path, sizeof path, "%s/tests/policy/abi_golden.txt",
	    top != NULL ? top : ".");
	printf("1..1\n");
	if (sizeof(void *) != 8) {
		printf("ok 1 # SKIP the list is for 64-bit machines\n");
		return 0;
	}
	golden = fopen(path, "r");
	if (golden == NULL) {
		printf("not ok 1 - %s cannot be read\n", path);
		return 1;
	}
	bad = compare(golden);
	(void)fclose(golden);
	printf("%sok 1 - the ABI is as abi_golden.txt has it\n", bad > 0 ? "not " : "");
	return bad > 0;
}
