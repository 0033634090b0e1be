/* totals_text.c - the totals of a run in words: the summary at its end. */
#include "report/totals.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_value.h"
#include "base/mem.h"
#include "base/text.h"

void
espl__print_clean(struct espl__buf *b, const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	for (; p != NULL && *p != 0; p++) {
		/* C1 controls arrive as the two bytes c2 80..9f. */
		if (*p < 0x20 || *p == 0x7f) {
			espl__put_u8(b, '?');
		} else if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0) {
			espl__put_u8(b, '?');
			p++;
		} else {
			espl__put_u8(b, *p);
		}
	}
}

void
espl__print_params(struct espl__buf *b, const char *json, const char *gap)
{
	json_t *root = json == NULL ? NULL : json_loads(json, 0, NULL), *value;
	const char *name, *before = "";
	struct espl__buf text = { NULL, 0, 0 };

	json_object_foreach (root, name, value) {
		espl__print(b, "%s", before);
		espl__print_clean(b, name);
		espl__print(b, "=");
		espl__buf_clear(&text);
		espl__json_value_text(value, &text);
		espl__print_clean(b, espl__buf_text(&text));
		before = gap;
	}
	espl__buf_free(&text);
	json_decref(root);
}

/* Broken between parameters where a line would be longer than 80. */
static void
params_text(const char *json, int indent, struct espl__buf *b)
{
	struct espl__buf list = { NULL, 0, 0 };
	const char *at, *end;
	size_t used = 0;

	espl__print_params(&list, json, "\n");
	for (at = espl__buf_text(&list); *at != '\0'; at = *end == '\0' ? end : end + 1) {
		end = at + strcspn(at, "\n");
		if (used > 0 && (size_t)indent + used + 2 + (size_t)(end - at) > 80) {
			espl__print(b, "\n");
			used = 0;
		}
		espl__print(b, "%*s%.*s", used > 0 ? 2 : indent, "", (int)(end - at), at);
		used += (used > 0 ? 2 : 0) + (size_t)(end - at);
	}
	espl__print(b, "\n");
	espl__buf_free(&list);
}

const char *
espl__totals_cut(const struct espl__totals *t)
{
	return strcmp(t->status, "deadline") == 0 ? "ended by the deadline"
	    : strcmp(t->status, "budget") == 0    ? "ended by the budget"
						  : NULL;
}

/* Where the best trial was once better, or another trial was. */
static void
ever_text(const struct espl__totals *t, int indent, struct espl__buf *b)
{
	char number[32], name[48];

	if (!espl__totals_ever_differs(t))
		return;
	espl__print(b, "%*s%s seen: %s (trial %s at iteration %lld)\n", indent, "",
	    t->maximize ? "highest" : "lowest", espl__format_metric(t->ever_metric, number),
	    espl__trial_name((uint64_t)t->ever, name), (long long)t->ever_iteration);
}

void
espl__totals_best_metric(const struct espl__totals *t, struct espl__buf *b)
{
	char number[32];

	espl__print(b, " %s", espl__format_metric(t->best_metric, number));
	if (t->seeds > 1 && t->best_counted > 1)
		espl__print(b, " ± %s", espl__format_metric(t->best_spread, number));
}

/* Of which trials the metric of the best is the mean. */
static void
seeds_text(const struct espl__totals *t, int indent, struct espl__buf *b)
{
	espl__print(b, "%*smean and standard deviation of ", indent, "");
	if (t->best_counted < t->seeds)
		espl__print(b, "%lld of ", (long long)t->best_counted);
	espl__print(b, "trials %lld to %lld\n", (long long)t->best_first,
	    (long long)(t->best_first + t->seeds - 1));
}

void
espl__totals_best_text(const struct espl__totals *t, int indent, struct espl__buf *b)
{
	char name[48];

	if (t->best < 0) {
		espl__print(b, "%*sbest    %s\n", indent, "",
		    !t->over && espl__totals_cut(t) == NULL && strcmp(t->status, "failed") != 0
			? "none so far"
			: t->reports > 0 ? "none"
					 : "none (no trial reported a number)");
		return;
	}
	espl__print(b, "%*sbest    trial %s: ", indent, "",
	    espl__trial_name((uint64_t)t->best, name));
	espl__print_clean(b, t->metric);
	espl__totals_best_metric(t, b);
	espl__print(b, " at iteration %lld\n", (long long)t->best_iteration);
	if (t->seeds > 1)
		seeds_text(t, indent + 8, b);
	espl__confirmed_text(t->confirmed, t->maximize != 0, indent + 8, b);
	params_text(t->best_params, indent + 8, b);
	ever_text(t, indent + 8, b);
	if (t->best_checkpoint > 0 && !t->simulated) {
		espl__print(b, "%*s        ", indent, "");
		espl__totals_put_checkpoint(b, (uint64_t)t->best, t->best_checkpoint);
		espl__print(b, "\n");
	}
}

static const char *
status_words(const struct espl__totals *t)
{
	if (strcmp(t->status, "deadline") == 0)
		return "ended at the deadline";
	if (strcmp(t->status, "budget") == 0)
		return "ended at the budget limit";
	return t->status;
}

const char *
espl__totals_logs(const struct espl__totals *t)
{
	return t->experiments == NULL ? "trials/ID/log"
	    : t->jobs == 0            ? "experiments/N/trials/ID/log"
				      : "[experiments/N/]trials/ID/log";
}

void
espl__totals_logs_text(const struct espl__totals *t, const char *dir, struct espl__buf *b)
{
	if ((t->failed > 0 || strcmp(t->status, "failed") == 0) && !t->simulated)
		espl__print(b, "  logs    %s/%s\n", dir, espl__totals_logs(t));
}

static void
jobs_text(const struct espl__totals *t, struct espl__buf *b)
{
	int64_t left =
	    t->jobs - t->jobs_done - t->jobs_failed - t->jobs_cancelled - t->jobs_to_come;
	char mean[32], p95[32];

	espl__print(b, "  jobs    %lld, %lld done", (long long)t->jobs, (long long)t->jobs_done);
	if (t->jobs_failed > 0)
		espl__print(b, ", %lld failed", (long long)t->jobs_failed);
	if (t->jobs_cancelled > 0)
		espl__print(b, ", %lld cancelled", (long long)t->jobs_cancelled);
	if (left > 0 && espl__totals_cut(t) != NULL)
		espl__print(b, ", %lld %s", (long long)left, espl__totals_cut(t));
	if (t->jobs_to_come > 0)
		espl__print(b, "; %lld %s", (long long)t->jobs_to_come,
		    espl__totals_cut(t) != NULL ? "never arrived" : "not yet arrived");
	espl__print(b, "\n");
	if (isnan(t->queue_mean_s))
		return;
	espl__print(b, "  queue   %s on average", espl__format_seconds(t->queue_mean_s, mean));
	espl__print(b, ", p95 %s\n", espl__format_seconds(t->queue_p95_s, p95));
	if (isnan(t->total_mean_s))
		return;
	espl__print(b, "  time    %s on average from arrival to end",
	    espl__format_seconds(t->total_mean_s, mean));
	espl__print(b, ", p95 %s\n", espl__format_seconds(t->total_p95_s, p95));
}

static void
experiments_text(const struct espl__totals *t, struct espl__buf *b)
{
	json_t *list = json_loads(t->experiments, 0, NULL), *one;
	size_t i;
	char metric[32];

	json_array_foreach (list, i, one) {
		json_t *best = json_object_get(one, "best"),
		       *value = json_object_get(best, "metric");
		const char *status = json_string_value(json_object_get(one, "status")),
			   *text = json_string_value(json_object_get(one, "text"));

		espl__print(b, "  %-7s %lld ", i == 0 ? "search" : "",
		    (long long)json_integer_value(json_object_get(one, "number")));
		espl__print_clean(b, json_string_value(json_object_get(one, "name")));
		espl__print(b, ": %s, %lld trials", status != NULL ? status : "?",
		    (long long)json_integer_value(json_object_get(one, "trials")));
		if (json_is_number(value))
			espl__print(b, ", best %s (trial %lld/%lld)",
			    espl__format_metric(json_number_value(value), metric),
			    (long long)json_integer_value(json_object_get(one, "number")),
			    (long long)json_integer_value(json_object_get(best, "trial")));
		espl__print(b, "\n");
		if (status != NULL && text != NULL &&
		    (strcmp(status, "failed") == 0 || strcmp(status, "done") == 0)) {
			espl__print(b, "          ");
			espl__print_clean(b, text);
			espl__print(b, "\n");
		}
	}
	json_decref(list);
}

/* "9 completed", or "9 finished (1 completed, 8 stopped early)". */
static void
finished_text(const struct espl__totals *t, struct espl__buf *b)
{
	if (t->early == 0 && t->completed > 0)
		espl__print(b, ", %lld completed", (long long)t->completed);
	if (t->early == 0)
		return;
	espl__print(b, ", %lld finished (", (long long)espl__totals_finished(t));
	if (t->completed > 0)
		espl__print(b, "%lld completed, ", (long long)t->completed);
	espl__print(b, "%lld stopped early)", (long long)t->early);
}

static void
cost_text(const struct espl__totals *t, struct espl__buf *b)
{
	char usd[32];

	espl__print(b, "  cost    %s", espl__format_usd(t->cost_usd, usd));
	if (!isnan(t->budget_usd))
		espl__print(b, " of %s", espl__format_usd(t->budget_usd, usd));
	if (t->refunded_usd > 0)
		espl__print(b, "; %s more was refunded, %.0f%% of the time held",
		    espl__format_usd(t->refunded_usd, usd),
		    t->gpu_s > 0 ? 100 * t->refunded_gpu_s / t->gpu_s : 0.0);
	espl__print(b, "\n");
}

/* The word that answers first. */
static const char *
going_words(const struct espl__totals *t)
{
	const char *outcome = espl__totals_outcome(t);
	int64_t ended = espl__totals_finished(t) + t->failed;

	if (strcmp(outcome, "running") != 0)
		return strcmp(outcome, "good") == 0  ? "went well"
		    : strcmp(outcome, "bad") == 0    ? "failed"
		    : espl__totals_cut(t) != NULL    ? espl__totals_cut(t)
		    : strcmp(t->status, "done") == 0 ? "done, but a part failed"
						     : t->status;
	if (t->failed > 0 && 2 * t->failed > ended)
		return "in trouble";
	if (t->running == 0 && t->waiting > 0 && t->gpus == 0)
		return "waiting for a node";
	return t->reports > 0 || t->jobs > 0 ? "going well" : "starting";
}

static void
best_sentence(const struct espl__totals *t, struct espl__buf *b)
{
	espl__print(b, ": best");
	espl__totals_best_metric(t, b);
}

const struct espl__outlook *
espl__totals_outlook(const struct espl__totals *t)
{
	return strcmp(t->status, "running") == 0 ? t->outlook : NULL;
}

void
espl__totals_sentence(const struct espl__totals *t, struct espl__buf *b)
{
	char ago[32];

	espl__print(b, "%s", going_words(t));
	if (t->experiments == NULL && t->jobs == 0) {
		if (t->best < 0)
			espl__print(b, ": no result%s",
			    strcmp(t->status, "running") == 0 ? " yet" : "");
		else
			best_sentence(t, b);
		if (strcmp(t->status, "running") == 0 && t->ever >= 0 && t->jct_s >= t->ever_s)
			espl__print(b, ", improved %s ago",
			    espl__format_seconds(t->jct_s - t->ever_s, ago));
	}
	if (espl__totals_outlook(t) != NULL) {
		espl__print(b, "; ");
		espl__outlook_sentence(t->outlook, b);
	}
	if (t->failed > 0)
		espl__print(b, "; %lld of %lld failed%s", (long long)t->failed,
		    (long long)t->trials, t->causes != NULL ? t->causes : "");
	if (t->jobs_failed > 0)
		espl__print(b, "; %lld of %lld jobs failed", (long long)t->jobs_failed,
		    (long long)t->jobs);
	if (strcmp(t->status, "running") == 0 && t->waiting > 0 && t->gpus > 0)
		espl__print(b, "; %lld wait: %lld of %lld %s in use", (long long)t->waiting,
		    (long long)t->gpus_busy, (long long)t->gpus,
		    espl__slots_word(t->on_cpu, t->gpus));
}

void
espl__totals_text(const struct espl__totals *t, int reason, struct espl__buf *b)
{
	char time[32], busy[32], held[32];

	espl__print_clean(b, t->experiment);
	espl__print(b, ": %s after %s%s\n", status_words(t), espl__format_seconds(t->jct_s, time),
	    t->simulated ? " (simulated)" : "");
	espl__print(b, "  ");
	espl__totals_sentence(t, b);
	espl__print(b, "\n");
	if ((reason || strcmp(t->status, "done") == 0) && t->text != NULL && t->text[0] != '\0') {
		espl__print(b, "  reason  ");
		espl__print_clean(b, t->text);
		espl__print(b, "\n");
	}
	espl__print(b, "  trials  %lld", (long long)t->trials);
	finished_text(t, b);
	if (espl__totals_paused(t) > 0)
		espl__print(b, ", %lld paused", (long long)espl__totals_paused(t));
	if (t->failed > 0)
		espl__print(b, ", %lld failed", (long long)t->failed);
	if (t->failed_attempts > t->failed)
		espl__print(b, " (%lld failed attempts)", (long long)t->failed_attempts);
	if (t->unfinished > 0)
		espl__print(b, "%s%lld %s", espl__totals_cut(t) != NULL ? "; " : ", ",
		    (long long)t->unfinished,
		    espl__totals_cut(t) != NULL ? espl__totals_cut(t) : "unfinished");
	if (t->running > 0)
		espl__print(b, "; %lld running", (long long)t->running);
	if (t->waiting > 0)
		espl__print(b, "%s%lld waiting", t->running > 0 ? ", " : "; ",
		    (long long)t->waiting);
	espl__print(b, "\n");
	/* A failed run's reason quotes it. */
	if (t->failed > 0 && t->failure != NULL && strcmp(t->status, "failed") != 0) {
		espl__print(b, "  failed  the last: ");
		espl__print_clean(b, t->failure);
		espl__print(b, "\n");
	}
	if (t->jobs > 0)
		jobs_text(t, b);
	if (t->experiments != NULL)
		experiments_text(t, b);
	else if (t->jobs == 0)
		espl__totals_best_text(t, 2, b);
	cost_text(t, b);
	if (espl__totals_outlook(t) != NULL)
		espl__outlook_text(t->outlook, b);
	espl__print(b, "  %-7s %s used, %s held; %lld resize%s, %lld move%s; at most %lld node%s\n",
	    espl__slots_word(t->on_cpu, 0), espl__format_seconds(t->busy_gpu_s, busy),
	    espl__format_seconds(t->gpu_s, held), (long long)t->resizes, t->resizes == 1 ? "" : "s",
	    (long long)t->moves, t->moves == 1 ? "" : "s", (long long)t->nodes_peak,
	    t->nodes_peak == 1 ? "" : "s");
	if (t->nodes_leaked > 0)
		espl__print(b,
		    "  leaked  %lld node%s may still be running: check your provider's console\n",
		    (long long)t->nodes_leaked, t->nodes_leaked == 1 ? "" : "s");
}
