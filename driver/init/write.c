/* write.c - the configuration that `espalier init` prints. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "config/tree.h"
#include "init/propose.h"

#define COMMENT_SIZE 88u
#define COLUMN 76u /* where the words of a command are wrapped */

struct writer {
	const struct espl__script *s;
	struct espl__py_metric metric;
	struct espl__buf *to, space, words, kept;
	size_t line; /* where the last line of `words` begins */
	uint32_t tuned;
	uint64_t iterations; /* the default; 0: there is no such option */
	const char *group;   /* the subcommand that is tuned; "" none */
	int missing;         /* options that the user must give */
};

/* On one line, without control characters, and not too long. */
static void
put_comment(const char *text, struct espl__buf *to)
{
	size_t size = 0;

	for (const unsigned char *p = (const unsigned char *)text; *p != '\0';) {
		size_t n = espl__utf8_length(p);
		int blank =
		    n == 0 || *p <= ' ' || *p == 0x7f || (n == 2 && *p == 0xc2 && p[1] < 0xa0);

		if (size + n > COMMENT_SIZE) {
			espl__print(to, "...");
			return;
		}
		if (!blank)
			espl__put(to, p, n);
		else if (to->size > 0 && to->data[to->size - 1] != ' ')
			espl__put_u8(to, ' ');
		size += n > 0 ? n : 1;
		p += n > 0 ? n : 1;
	}
}

static void
put_word(struct writer *w, const char *text)
{
	struct espl__buf quoted = { NULL, 0, 0 };

	espl__print_quoted(&quoted, text);
	if (w->words.size > 0)
		espl__print(&w->words, ",");
	if (w->words.size - w->line + quoted.size > COLUMN) {
		espl__print(&w->words, "\n     ");
		w->line = w->words.size;
	}
	espl__print(&w->words, " %s", espl__buf_text(&quoted));
	espl__buf_free(&quoted);
}

static void
put_runner(struct writer *w)
{
	for (const char *p = w->s->runner; p != NULL && *p != '\0'; p += strspn(p, " \t")) {
		size_t n = strcspn(p, " \t");
		char *word = espl__format("%.*s", (int)n, p);

		put_word(w, word);
		free(word);
		p += n;
	}
}

/* "--lr={lr}"; a brace of the script's own is doubled. */
static void
put_option(struct writer *w, const char *flag, const char *value)
{
	struct espl__buf text = { NULL, 0, 0 };

	for (const char *p = flag; *p != '\0'; p++)
		espl__print(&text, *p == '{' ? "{{" : "%c", *p);
	/* -x VALUE: argparse would take x=VALUE for the value of -x=VALUE */
	if (strncmp(flag, "--", 2) != 0) {
		put_word(w, espl__buf_text(&text));
		espl__buf_clear(&text);
	} else {
		espl__print(&text, "=");
	}
	espl__print(&text, "%s", value);
	put_word(w, espl__buf_text(&text));
	espl__buf_free(&text);
}

static void
put_parameter(struct writer *w, const struct espl__py_option *o, enum espl__py_role role,
    struct espl__buf *range)
{
	char *value = espl__format("{%s}", o->name);

	espl__print(&w->space, "  # ");
	put_comment(o->flag, &w->space); /* it may contain anything, line ends too */
	espl__print(&w->space, "%s", o->help[0] != '\0' ? ": " : "");
	put_comment(o->help, &w->space);
	espl__print(&w->space, "\n  %s = %s;\n", o->name, espl__buf_text(range));
	w->tuned++;
	if (role == ESPL__PY_SWITCH)
		put_word(w, value);
	else
		put_option(w, o->flag, value);
	free(value);
}

/* By an option of this name, or by one that cannot be given together with it. */
static int
is_taken(const struct writer *w, const struct espl__py_option *o)
{
	for (const struct espl__py_option *p = w->s->options; p < o; p++)
		if ((strcmp(p->name, o->name) == 0 || (o->rivals != 0 && p->rivals == o->rivals)) &&
		    (p->group[0] == '\0' || strcmp(p->group, w->group) == 0))
			return 1;
	return 0;
}

static void
take_option(struct writer *w, const struct espl__py_option *o)
{
	struct espl__buf range = { NULL, 0, 0 };
	enum espl__py_role role = espl__space_propose(o, &range);

	switch (is_taken(w, o) ? ESPL__PY_LEFT : role) {
	case ESPL__PY_TUNED:
	case ESPL__PY_SWITCH: put_parameter(w, o, role, &range); break;
	case ESPL__PY_ITERATIONS:
		if (o->positional)
			put_word(w, "{iterations}");
		else
			put_option(w, o->flag, "{iterations}");
		w->iterations = o->fallback.kind == ESPL__LIT_INT && o->fallback.number >= 1 &&
			o->fallback.number < 1e6
		    ? (uint64_t)o->fallback.number
		    : 10;
		break;
	case ESPL__PY_OUTPUT: put_option(w, o->flag, "{output}"); break;
	case ESPL__PY_REQUIRED:
		w->missing = 1;
		if (o->positional)
			put_word(w, "CHANGE-ME");
		else
			put_option(w, o->flag, "CHANGE-ME");
		break;
	default:
		espl__print(&w->kept, "%s", w->kept.size > 0 ? " " : "");
		put_comment(o->flag, &w->kept);
		break;
	}
	espl__buf_free(&range);
}

/* Those of the whole script, then the subcommand and its own. */
static void
take_options(struct writer *w)
{
	for (uint32_t i = 0; i < w->s->option_count; i++)
		if (w->s->options[i].group[0] == '\0')
			take_option(w, &w->s->options[i]);
	if (w->group[0] == '\0')
		return;
	put_word(w, w->group);
	for (uint32_t i = 0; i < w->s->option_count; i++)
		if (w->s->options[i].group[0] != '\0' &&
		    strcmp(w->s->options[i].group, w->group) == 0)
			take_option(w, &w->s->options[i]);
}

static const char *
choose_group(const struct espl__script *s)
{
	for (uint32_t i = 0; i < s->group_count; i++)
		if (strstr(s->groups[i], "train") != NULL || strcmp(s->groups[i], "fit") == 0)
			return s->groups[i];
	return s->group_count > 0 ? s->groups[0] : "";
}

static void
example_option(struct writer *w)
{
	espl__print(&w->space,
	    "  # An example: no option of the script could be read.  Types: real, int, choice, "
	    "ordinal.\n"
	    "  lr = { type = \"real\"; low = 1e-4; high = 0.1; scale = \"log\"; default = 0.01; "
	    "};\n");
	w->tuned = 1;
	if (w->s->hydra) {
		put_word(w, "lr={lr}");
		put_word(w, "hydra.run.dir={output}");
	} else if (!w->s->reports) { /* else it has run.params */
		put_option(w, "--lr", "{lr}");
	}
}

/* ---- the groups -------------------------------------------------------------------------- */

static void
write_experiment(struct writer *w, const char *path)
{
	const char *base =
	    path != NULL && strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
	struct espl__buf name = { NULL, 0, 0 };

	for (const char *p = base != NULL ? base : ""; *p != '\0' && *p != '.'; p++)
		espl__put_u8(&name, isalnum((unsigned char)*p) ? (uint8_t)*p : '-');
	if (name.size == 0 || name.data[0] == '-' || name.size > 60)
		espl__buf_clear(&name), espl__print(&name, "search");
	espl__print(w->to,
	    "experiment = {\n"
	    "  name = \"%s\"; # the run directory is named after it\n"
	    "  metric = \"%s\"; # what to optimize: a name in trial.metrics\n"
	    "  goal = \"%s\"; # or \"%s\"\n"
	    "  first = ( { } ); # try the defaults below first\n"
	    "};\n",
	    espl__buf_text(&name), w->metric.name, w->metric.maximize ? "maximize" : "minimize",
	    w->metric.maximize ? "minimize" : "maximize");
	espl__buf_free(&name);
}

static void
write_metrics(struct writer *w)
{
	if (w->s->reports) {
		espl__print(w->to,
		    "  # The script reports by itself, through espalier's helper.\n");
		return;
	}
	if (w->metric.pattern == NULL) {
		espl__print(w->to,
		    "  # The numbers in each line of JSON that the script prints are metrics.\n"
		    "  metrics = { from = \"stdout\"; format = \"json\";");
		if (w->metric.member != NULL)
			espl__print(w->to, " iteration = \"%s\";", w->metric.member);
		espl__print(w->to, " };\n");
		return;
	}
	if (w->metric.line != NULL) {
		espl__print(w->to, "  # Reads the metric from this line of the output: ");
		put_comment(w->metric.line, w->to);
	} else {
		espl__print(w->to,
		    "  # CHANGE THIS: no line of the script's output looks like a metric.  Copy "
		    "one, "
		    "and write\n  # {%s} where its number is printed.",
		    w->metric.name);
	}
	espl__print(w->to,
	    "\n  metrics = { from = \"%s\"; pattern = ", w->metric.to_err ? "stderr" : "stdout");
	espl__print_quoted(w->to, w->metric.pattern);
	espl__print(w->to, "; };\n");
}

static void
write_trial(struct writer *w)
{
	espl__print(w->to,
	    "trial = {\n"
	    "  # {NAME} is replaced by the value of a parameter of the space%s.\n",
	    w->iterations > 0 ? ", {iterations} by the last iteration" : "");
	if (w->s->hydra)
		espl__print(w->to,
		    "  # Hydra takes NAME=VALUE, with the names of the script's configuration.\n");
	if (w->missing)
		espl__print(w->to, "  # CHANGE-ME stands for what the script requires.\n");
	if (w->s->group_count > 1) {
		espl__print(w->to, "  # The script has %u subcommands; this is '",
		    w->s->group_count);
		put_comment(w->group, w->to);
		espl__print(w->to, "'.\n");
	}
	espl__print(w->to, "  command = [%s ];\n", espl__buf_text(&w->words));
	write_metrics(w);
	if (w->s->distributed)
		espl__print(w->to,
		    "  # GPUs of a trial, each with a process of its own, as torchrun starts "
		    "them.\n"
		    "  gpus_max = 4;\n"
		    "  # Debian's PyTorch 2 is built without libuv; others work with this, too.\n"
		    "  env = { USE_LIBUV = \"0\"; };\n");
	else
		espl__print(w->to,
		    "  gpus_max = 1; # GPUs, or slots, of a trial\n"
		    "  # Small trials can share a GPU: packing_max = 8; with allocator = "
		    "{ use = \"fluid\"; }.\n");
	espl__print(w->to, "};\n");
}

static void
write_algorithm(struct writer *w)
{
	/* With one or two epochs there is nothing to stop early. */
	int few = w->iterations > 0 && w->iterations < 3;
	uint64_t iterations = few ? 9 : w->iterations > 0 ? w->iterations : 10;

	if (w->iterations == 0 && !w->metric.iterations && !w->s->reports &&
	    (w->metric.line != NULL || w->metric.pattern == NULL))
		espl__print(w->to,
		    "# Each trial runs to its first report.  If the script reports after each "
		    "epoch, "
		    "use asha, which\n# stops the worse trials early.\n"
		    "algorithm = { use = \"random\"; trials = 20; iterations_max = 1; };\n");
	else
		/* A script that saves no checkpoint would train again from the beginning when it is
		 * promoted: its trials are stopped, never paused. */
		espl__print(w->to,
		    "# Successive halving: of the trials that reach 1, 3, 9, ... iterations the "
		    "best "
		    "third continues.\n"
		    "algorithm = { use = \"asha\"; %strials = 27; iterations_max = %llu; };%s\n",
		    w->s->reports ? "" : "mode = \"stopping\"; ", (unsigned long long)iterations,
		    few ? " # more than the script's default" : "");
	espl__print(w->to,
	    "allocator = { use = \"fair\"; }; # divides the GPUs among the trials that can run\n"
	    "cloud = { use = \"local\"; };    # this machine: its GPUs, or its cores\n");
}

static void
write_all(struct writer *w, const char *path)
{
	espl__print(w->to, "# Written by `espalier init`%s", path != NULL ? " for " : "");
	put_comment(path != NULL ? path : "", w->to);
	espl__print(w->to,
	    ", from names and defaults: check the ranges.\n"
	    "# `espalier check FILE` validates it, `espalier run FILE` starts the search.\n"
	    "# `espalier help trial` explains the command and the metrics.\n");
	write_experiment(w, path);
	write_trial(w);
	espl__print(w->to, "space = {\n%s};\n", espl__buf_text(&w->space));
	if (w->kept.size > 0) {
		espl__print(w->to, "# Not tuned, at their defaults:\n");
		for (const char *p = espl__buf_text(&w->kept); *p != '\0';) {
			size_t n = strlen(p);

			if (n > COMMENT_SIZE)
				for (n = COMMENT_SIZE; n > 0 && p[n] != ' '; n--)
					;
			n = n > 0 ? n : strcspn(p, " ");
			espl__print(w->to, "#   ");
			espl__print(w->to, "%.*s\n", (int)n, p);
			p += n + strspn(p + n, " ");
		}
	}
	write_algorithm(w);
}

void
espl__init_write(const struct espl__script *s, const char *path, struct espl__buf *to)
{
	struct writer w = { .s = s, .to = to, .group = choose_group(s) };
	size_t length = path != NULL ? strlen(path) : 0;
	int python = path == NULL || (length > 3 && strcmp(path + length - 3, ".py") == 0);
	struct espl__buf word = { NULL, 0, 0 };

	(void)espl__metric_guess(s, &w.metric);
	if (python)
		put_word(&w, "python3");
	else
		put_runner(&w);
	/* a program of this directory is not in PATH */
	if (!python && s->runner == NULL && strchr(path, '/') == NULL)
		espl__print(&word, "./");
	for (const char *p = path != NULL ? path : "train.py"; *p != '\0'; p++)
		espl__print(&word, *p == '{' ? "{{" : "%c", *p);
	put_word(&w, espl__buf_text(&word));
	take_options(&w);
	if (w.tuned == 0)
		example_option(&w);
	write_all(&w, path);
	espl__metric_free(&w.metric);
	espl__buf_free(&word);
	espl__buf_free(&w.space);
	espl__buf_free(&w.words);
	espl__buf_free(&w.kept);
}
