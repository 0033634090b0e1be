/* verb_nodes.c - nodes: the machines of all runs of this user, and the end of those that a run left
 * behind.
 */
#include <dirent.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/inputs.h"
#include "cli/run_dir.h"
#include "input/input.h"
#include "real/try_cloud.h"
#include "report/results_read.h"
#include "report/totals.h"
#include "run/drive.h"
#include "run/journal.h"
#include "model/fleet.h"

#define RELEASE_LIMIT (600 * ESPL_SECOND)

/* A run directory that was found: its label is the run's token. */
struct known_run {
	char *dir;
	char label[20];
	int held; /* a driver is running in it */
};
struct known_runs {
	struct known_run *list;
	uint32_t count, cap;
};

/* ---- run directories ---- */

static int
read_label(const char *dir, char label[20])
{
	char *path = espl__format("%s/journal", dir);
	struct espl__journal_reader *reader = NULL;
	struct espl__journal_header header;
	int found = espl__run_dir_has(dir, "run.cfg") &&
	    espl__journal_open(path, &reader, &header, NULL) == ESPL_OK;

	free(path);
	if (!found)
		return 0;
	espl__journal_reader_free(reader);
	(void)snprintf(label, 20, "%016llx", (unsigned long long)header.token);
	return !header.simulated;
}

static const struct known_run *
find_run(const struct known_runs *runs, const char *label)
{
	for (uint32_t i = 0; label != NULL && i < runs->count; i++)
		if (strcmp(runs->list[i].label, label) == 0)
			return &runs->list[i];
	return NULL;
}

/* Takes over dir. */
static void
add_run(struct known_runs *runs, char *dir)
{
	struct known_run run = { .dir = dir };

	if (!read_label(dir, run.label) || find_run(runs, run.label) != NULL) {
		free(dir);
		return;
	}
	run.held = espl__run_held(dir);
	ESPL__GROW(runs->list, runs->cap, runs->count + 1);
	runs->list[runs->count++] = run;
}

static void
add_runs_in(struct known_runs *runs, const char *dir)
{
	DIR *list = opendir(dir);
	const struct dirent *entry;

	while (list != NULL && (entry = readdir(list)) != NULL)
		if (entry->d_name[0] != '.')
			add_run(runs, espl__format("%s/%s", dir, entry->d_name));
	if (list != NULL)
		(void)closedir(list);
}

static void
free_runs(struct known_runs *runs)
{
	for (uint32_t i = 0; i < runs->count; i++)
		free(runs->list[i].dir);
	free(runs->list);
}

/* ---- what is shown ---- */

static const char *
text_of(const char *text)
{
	return text != NULL ? text : "unknown";
}

static const char *
driver_of(const struct known_run *run)
{
	return run == NULL ? "unknown" : run->held ? "running" : "stopped";
}

/* The number of the lease, from the token; NULL: it has none. */
static const char *
lease_of(const struct espl__owned *o)
{
	const char *digits = o->token != NULL ? strrchr(o->token, '-') : NULL;

	return digits != NULL && digits[1] != '\0' &&
		digits[1 + strspn(digits + 1, "0123456789")] == '\0'
	    ? digits + 1
	    : NULL;
}

/* Seconds since it is billed; -1: unknown. */
static int64_t
age_of(const struct espl__owned *o, int64_t now_s)
{
	return o->billed_utc_s > 0 && now_s >= o->billed_utc_s ? now_s - o->billed_utc_s : -1;
}

/* Price times age; -1: unknown. */
static double
cost_of(const struct espl__owned *o, int64_t now_s)
{
	int64_t age = age_of(o, now_s);

	return age >= 0 && o->price_hour >= 0 ? (double)o->price_hour / 1e6 * (double)age / 3600
					      : -1;
}

static void
put_row(const struct espl__owned *o, const struct known_runs *runs, int64_t now_s,
    struct espl__buf *b)
{
	char age[32] = "unknown", price[40] = "unknown", cost[40] = "unknown", usd[32];
	size_t at;

	if (age_of(o, now_s) >= 0)
		(void)espl__format_short(age_of(o, now_s) * ESPL_SECOND, age);
	if (o->price_hour >= 0)
		(void)snprintf(price, sizeof price, "$%s", espl__format_money(o->price_hour, usd));
	if (cost_of(o, now_s) >= 0)
		(void)snprintf(cost, sizeof cost, "about $%.2f", cost_of(o, now_s));
	at = b->size;
	espl__print_clean(b, text_of(o->run)); /* a tag, which others may set */
	espl__print(b, "%*s", b->size - at < 16 ? (int)(16 - (b->size - at)) : 0, "");
	espl__print(b, "  %-7s  %5s  %-7s  %8s  %10s  %12s  ", driver_of(find_run(runs, o->run)),
	    lease_of(o) != NULL ? lease_of(o) : "-", espl__node_state_word(o->state), age, price,
	    cost);
	espl__print_clean(b, o->id != NULL ? o->id : text_of(o->token));
	espl__print(b, "\n");
}

static void
put_member(const char *name, const char *text, struct espl__buf *b)
{
	espl__print(b, ", \"%s\": ", name);
	if (text != NULL)
		espl__print_json(b, text);
	else
		espl__print(b, "null");
}

static void
put_json(const struct espl__owned *o, const struct known_runs *runs, int64_t now_s,
    struct espl__buf *b)
{
	const struct known_run *run = find_run(runs, o->run);
	int64_t age = age_of(o, now_s);

	espl__print(b, "{\"state\": \"%s\"", espl__node_state_word(o->state));
	put_member("run", o->run, b);
	put_member("dir", run != NULL ? run->dir : NULL, b);
	put_member("driver", driver_of(run), b);
	espl__print(b, ", \"lease\": %s", lease_of(o) != NULL ? lease_of(o) : "null");
	put_member("token", o->token, b);
	put_member("id", o->id, b);
	put_member("address", o->address, b);
	put_member("offer", o->offer, b);
	put_member("market", o->market, b);
	if (age >= 0)
		espl__print(b, ", \"age_s\": %lld", (long long)age);
	else
		espl__print(b, ", \"age_s\": null");
	if (o->price_hour >= 0)
		espl__print(b, ", \"price_hour\": %.10g", (double)o->price_hour / 1e6);
	else
		espl__print(b, ", \"price_hour\": null");
	if (cost_of(o, now_s) >= 0)
		espl__print(b, ", \"cost_usd\": %.6f}", cost_of(o, now_s));
	else
		espl__print(b, ", \"cost_usd\": null}");
}

/* What the run in this directory knows of its machines, those included that it has no more. */
static void
show_machines(const char *dir, int json, struct espl__buf *b)
{
	struct espl__reading *r = NULL;
	struct espl__buf table = { NULL, 0, 0 };

	if (dir == NULL || espl__reading_open(dir, &r, NULL) != ESPL_OK)
		return;
	if (json) {
		espl__json_open(b, "machines", '[');
		(void)espl__reading_machines(r, 1, b);
		espl__print(b, "]");
	} else if (espl__reading_machines(r, 0, &table) > 0) {
		espl__print(b, "\n%s", espl__buf_text(&table));
	}
	espl__buf_free(&table);
	espl__reading_free(r);
}

static espl_status
show_nodes(struct espl__visit *visit, const struct known_runs *runs, const char *dir, int json,
    struct espl__buf *b, struct espl__diag *diag)
{
	struct espl__owned *list = NULL;
	uint32_t count = 0;
	int64_t now_s = (int64_t)time(NULL);
	espl_status status =
	    visit != NULL ? espl__visit_owned(visit, NULL, &list, &count, diag) : ESPL_OK;

	if (status != ESPL_OK)
		return status;
	if (json)
		espl__print(b, "{\"nodes\": [");
	else if (count > 0)
		espl__print(b, "%-16s  %-7s  %5s  %-7s  %8s  %10s  %12s  %s\n", "run", "driver",
		    "lease", "state", "age", "price/hour", "cost so far", "machine");
	else
		espl__print(b, "no machines\n");
	for (uint32_t i = 0; i < count; i++) {
		if (json && i > 0)
			espl__print(b, ", ");
		if (json)
			put_json(&list[i], runs, now_s, b);
		else
			put_row(&list[i], runs, now_s, b);
	}
	if (json)
		espl__print(b, "]");
	show_machines(dir, json, b);
	if (json)
		espl__print(b, "}\n");
	return ESPL_OK;
}

/* ---- --release ---- */

struct releasing {
	struct espl__buf *b;
	int json;
	uint32_t count;
};

static void
take_end(void *ctx, const struct espl__owned *o)
{
	struct releasing *r = ctx;
	const char *name = o->id != NULL ? o->id : o->token;
	char usd[32];

	r->count++;
	if (r->json) {
		espl__print(r->b, "%s{\"id\": ", r->count > 1 ? ", " : "");
		espl__print_json(r->b, name);
		put_member("token", o->token, r->b);
		if (o->charged >= 0)
			espl__print(r->b, ", \"charged_usd\": %.6f}", (double)o->charged / 1e6);
		else
			espl__print(r->b, ", \"charged_usd\": null}");
	} else {
		espl__print(r->b, "released ");
		espl__print_clean(r->b, name);
		if (o->charged >= 0)
			espl__print(r->b, ", which cost $%s", espl__format_money(o->charged, usd));
		espl__print(r->b, "\n");
	}
}

/* The run whose machines will be released must not have a driver, and must not get one meanwhile.
 */
static espl_status
hold_run(const struct known_runs *runs, const char *label, const char *given, int force, int *lock,
    struct espl__diag *diag)
{
	const struct known_run *run = find_run(runs, label);
	espl_status status;

	if (run == NULL && !force) {
		status = espl__fail(diag, ESPL_E_CONFIG,
		    "the directory of run '%s' was not found, so it may still be running", given);
		espl__hint(diag,
		    "give its directory: --release DIR; if you are sure that it is not running on "
		    "any machine, add --force");
		return status;
	}
	return run != NULL ? espl__drive_lock(run->dir, lock, diag) : ESPL_OK;
}

static espl_status
release_run(struct espl__visit *visit, const char *label, int json, struct espl__buf *b,
    struct espl__diag *diag)
{
	struct releasing r = { b, json, 0 };
	struct espl__owned *list = NULL;
	uint32_t count = 0, chosen_count = 0;
	uint8_t *chosen;
	espl_status status =
	    visit != NULL ? espl__visit_owned(visit, label, &list, &count, diag) : ESPL_OK;

	if (status != ESPL_OK)
		return status;
	if (json)
		espl__print(b, "{\"released\": [");
	chosen = espl__alloc(count + 1);
	for (uint32_t i = 0; i < count; i++) /* whatever the provider lists beyond */
		chosen_count += chosen[i] = list[i].run != NULL && strcmp(list[i].run, label) == 0;
	if (chosen_count > 0)
		status = espl__visit_release(visit, chosen, RELEASE_LIMIT, take_end, &r, diag);
	else if (!json)
		espl__print(b, "run %s has no machines\n", label);
	if (json)
		espl__print(b, "]}\n");
	free(chosen);
	return status;
}

/* ---- the verb ---- */

/* The configuration of the cloud that is queried, its run directory (or NULL) and the runs beside
 * it. */
static espl_status
load_config(const struct espl__args *args, const char *dir, const char *file,
    struct known_runs *runs, struct espl__run_config **config, char **visited,
    struct espl__diag *diag)
{
	const char **sets;
	uint32_t count = espl__arg_all(args, "set", &sets);
	char *full = NULL, *path, *above;
	espl_status status;

	if (dir == NULL) {
		status = espl__run_load(file, sets, count, ESPL__NEED_NOTHING, config, diag);
		free(sets);
		return status;
	}
	status = espl__run_dir_find(dir, &full, diag);
	if (status != ESPL_OK) {
		free(sets);
		return status;
	}
	path = espl__format("%s/run.cfg", full);
	status = espl__run_dir_check(full, diag);
	if (status == ESPL_OK)
		status = espl__run_load(path, sets, count, ESPL__NEED_NOTHING, config, diag);
	if (status == ESPL_OK)
		status = espl__inputs_secret_sets(*config, sets, count, diag);
	free(path);
	free(sets);
	above = espl__strdup(full);
	*visited = espl__strdup(full);
	add_run(runs, full);
	add_runs_in(runs, dirname(above));
	free(above);
	return status;
}

/* The run directory whose machines are meant, absolute: that of the run to be released (label), or
 * the given one, which is taken over.  NULL: it is not known. */
static char *
find_visited(const struct known_runs *runs, const char *label, char *given)
{
	const struct known_run *run = find_run(runs, label);
	char full[PATH_MAX];

	if (label[0] == '\0')
		return given;
	free(given);
	return run != NULL && realpath(run->dir, full) != NULL ? espl__strdup(full) : NULL;
}

static void
log_line(void *ctx, espl_level level, const char *text)
{
	(void)ctx, (void)level;
	fprintf(stderr, "espalier: %s\n", text);
}

int
espl__verb_nodes(const struct espl__args *args)
{
	const char *release = espl__arg(args, "release"), *file = espl__arg(args, "config");
	const char *dir = args->count > 0 ? args->positional[0] : NULL;
	int json = espl__arg(args, "json") != NULL, lock = -1, result;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__run_config *config = NULL;
	struct espl__visit *visit = NULL;
	struct known_runs runs = { NULL, 0, 0 };
	struct espl__buf b = { NULL, 0, 0 };
	char label[20] = "", *visited = NULL;
	espl_status status;

	if (release != NULL && !read_label(release, label)) {
		if (label[0] != '\0') {
			(void)espl__fail(&diag, ESPL_E_CONFIG,
			    "'%s' is a simulation, which has no machines", release);
			return espl__cli_fail(&diag);
		}
		(void)snprintf(label, sizeof label, "%s", release);
	} else if (release != NULL) {
		add_run(&runs, espl__strdup(release));
		dir = dir == NULL && file == NULL ? release : dir;
	}
	if ((dir == NULL) == (file == NULL))
		return free_runs(&runs),
		       espl__cli_usage(args, "give either a run directory or --config FILE");
	espl__log_to(log_line, NULL, ESPL_WARN);
	status = load_config(args, dir, file, &runs, &config, &visited, &diag);
	add_runs_in(&runs, ".");
	if (status == ESPL_OK && release != NULL)
		status =
		    hold_run(&runs, label, release, espl__arg(args, "force") != NULL, &lock, &diag);
	visited = find_visited(&runs, label, visited);
	if (status == ESPL_OK)
		status = espl__visit_begin(config, visited, lock >= 0, &visit, &diag);
	if (status == ESPL_OK && release != NULL)
		status = release_run(visit, label, json, &b, &diag);
	else if (status == ESPL_OK)
		status = show_nodes(visit, &runs, dir, json, &b, &diag);
	result = b.size > 0 ? espl__cli_print(&b) : ESPL__EXIT_DONE;
	if (status != ESPL_OK)
		result = espl__cli_fail(&diag);
	espl__visit_end(visit);
	if (lock >= 0)
		(void)close(lock);
	espl__run_free(config);
	free_runs(&runs);
	free(visited);
	espl__buf_free(&b);
	return result;
}
