/* help_pages.c - the manual page, made of the verbs' own text.
 *
 * Committed as docs/man/espalier.1; tests/runs/10-help.test compares it.
 */
#include <string.h>

#include "cli/cli.h"
#include "input/input.h"
#include "config/schema.h"

static const char description[] =
    ".SH DESCRIPTION\n"
    ".B espalier\n"
    "searches the hyperparameters of a training program. An\n"
    ".I algorithm\n"
    "chooses the configurations and which of them to promote, an\n"
    ".I allocator\n"
    "how many GPUs each trial gets and how large the cluster is, a\n"
    ".I cloud\n"
    "provides the machines, and a\n"
    ".I placer\n"
    "assigns workers to GPUs. All four are plugins, chosen in the configuration file\n"
    ".RB ( espalier\\-config (5)).\n";
static const char other_words[] = ".TP\n"
				  ".I WORD\n"
				  "Any other word runs the program\n"
				  ".B espalier\\-\\fIWORD\\fP\n"
				  "from the libexec directory or from PATH.\n";
static const char sections[] =
    ".SH OPTIONS\n"
    ".TP\n"
    "\\fB\\-\\-set\\fP, \\fB\\-s\\fP \\fIPATH\\fP=\\fIVALUE\\fP\n"
    "Overrides one value of the file, as in\n"
    ".BR \"\\-\\-set algorithm.eta=4\" ,\n"
    "or a whole group, as in\n"
    ".BR \"\\-\\-set 'allocator={ use=\\(dqstatic\\(dq; gpus=4; }'\" .\n"
    "May be repeated.\n"
    ".TP\n"
    "\\fB\\-\\-plugins\\fP, \\fB\\-P\\fP \\fIDIR\\fP\n"
    "Searches this directory for plugins first. Allowed before or after the command.\n"
    ".TP\n"
    "\\fB\\-\\-json\\fP, \\fB\\-j\\fP\n"
    "Prints JSON on standard output and nothing else. Numbers carry 15 significant digits.\n"
    ".TP\n"
    "\\fB\\-\\-quiet\\fP, \\fB\\-q\\fP\n"
    "Prints only the final summary.\n"
    ".TP\n"
    "\\fB\\-\\-help\\fP, \\fB\\-h\\fP\n"
    "Shows help for the command, as does\n"
    ".B espalier help\n"
    ".IR COMMAND .\n"
    ".TP\n"
    ".B \\-\\-version\n"
    "Prints the version.\n"
    ".SH \"EXIT STATUS\"\n"
    ".TP\n"
    ".B 0\n"
    "Success. This includes a run that stopped at its deadline or budget.\n"
    ".TP\n"
    ".B 1\n"
    "The run failed.\n"
    ".TP\n"
    ".B 2\n"
    "A usage or configuration error; nothing was started.\n"
    ".TP\n"
    ".B 3\n"
    "Infeasible: no plan meets the deadline or the budget.\n"
    ".TP\n"
    ".B 4\n"
    "Interrupted; it can be resumed.\n"
    ".SH ENVIRONMENT\n"
    ".TP\n"
    ".B ESPALIER_PLUGIN_PATH\n"
    "Directories with plugins, separated by colons; searched after those of\n"
    ".BR \\-P .\n"
    ".TP\n"
    ".B ESPALIER_LIBEXEC\n"
    "The directory of espalier\\-agent and espalier\\-worker, if not the installed one.\n"
    ".TP\n"
    ".B ESPALIER_SLOTS\n"
    "The directory, instead of\n"
    ".IR /run/lock ,\n"
    "of the locks that keep runs on one machine from using the same GPUs and CPU slots. If set but "
    "empty, no locks are taken.\n"
    ".TP\n"
    ".B NO_COLOR\n"
    "If set, the live view uses no colors. With\n"
    ".B TERM=dumb\n"
    "espalier prints log lines instead of the live view.\n"
    ".TP\n"
    ".B XDG_CACHE_HOME\n"
    "The directory, instead of\n"
    ".IR ~/.cache ,\n"
    "in which\n"
    ".I espalier/profiles\n"
    "keeps measured profiles.\n"
    ".SH FILES\n"
    ".TP\n"
    ".I DIR/run.cfg\n"
    "The configuration as resolved; secrets are left out.\n"
    ".TP\n"
    ".I DIR/journal\n"
    "Every event and decision, with checksums.\n"
    ".TP\n"
    ".I DIR/results.db\n"
    "An SQLite database for queries, rebuilt from the journal by\n"
    ".BR resume .\n"
    ".TP\n"
    ".I DIR/inputs/\n"
    "Copies of the files that the configuration names.\n"
    ".TP\n"
    ".I DIR/trials/N/\n"
    "Parameters, log and checkpoints of a trial.\n"
    ".PP\n"
    "Everything needed to resume is in\n"
    ".IR DIR ,\n"
    "which may be moved.\n"
    ".SH EXAMPLES\n"
    ".nf\n"
    "espalier check search.cfg\n"
    "espalier profile search.cfg\n"
    "espalier plan search.cfg \\-\\-compare\n"
    "espalier simulate search.cfg \\-\\-runs 20\n"
    "espalier run search.cfg \\-\\-dir results\n"
    "espalier best results\n"
    "espalier export results \\-\\-format csv\n"
    ".fi\n"
    ".SH SEE ALSO\n"
    ".BR espalier\\-config (5),\n"
    ".BR espalier\\-plugin (7)\n";

/* Words in capitals are what the user fills in. */
static void
put_usage(const struct espl__verb *verb, struct espl__buf *b)
{
	const char *at = verb->usage;

	espl__print(b, "\\fBespalier ");
	espl__help_groff(verb->name, b);
	espl__print(b, "\\fP ");
	while (*at != '\0') {
		size_t upper = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"),
		       other = strcspn(at + upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") + upper;
		char part[200];

		if (upper > 0)
			espl__print(b, "\\fI%.*s\\fP", (int)upper, at);
		(void)snprintf(part, sizeof part, "%.*s", (int)(other - upper), at + upper);
		espl__help_groff(part, b);
		at += other;
	}
	espl__print(b, "\n");
}

static void
put_verb(const struct espl__verb *verb, struct espl__buf *b)
{
	const struct espl__flag *flag;
	char left[64];

	espl__print(b, ".TP\n");
	put_usage(verb, b);
	espl__help_groff(verb->summary, b);
	espl__print(b, ".");
	if (verb->text[0] != '\0') {
		espl__print(b, "\n");
		espl__help_groff(verb->text, b);
	}
	espl__print(b, "\n");
	if (verb->flags == NULL)
		return;
	espl__print(b, ".RS\n");
	for (flag = verb->flags; flag->name != NULL; flag++) {
		espl__help_flag(flag, left);
		espl__print(b, ".TP\n.B \"");
		espl__help_groff(left + strspn(left, " "), b);
		espl__print(b, "\"\n");
		espl__help_groff(flag->help, b);
		espl__print(b, "\n");
	}
	espl__print(b, ".RE\n");
}

void
espl__help_man_page(struct espl__buf *b)
{
	const struct espl__verb *verb;

	espl__print(b,
	    ".\\\" Made by `espalier help --man espalier`.\n"
	    ".TH ESPALIER 1 \"\" espalier \"User commands\"\n"
	    ".SH NAME\n"
	    "espalier \\- elastic hyperparameter tuning\n"
	    ".SH SYNOPSIS\n"
	    "\\fBespalier\\fP \\fICOMMAND\\fP [\\fIARGUMENTS\\fP]\n");
	espl__print(b, "%s.SH COMMANDS\n", description);
	for (verb = espl__verbs; verb->name != NULL; verb++)
		put_verb(verb, b);
	espl__print(b, "%s%s", other_words, sections);
}
