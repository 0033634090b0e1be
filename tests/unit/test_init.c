/* test_init.c - what is seen in the source of a script. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "config/tree.h"
#include "init/propose.h"

static struct espl__script *
read_text(const char *text)
{
	struct espl__script *s = espl__alloc(sizeof *s);

	espl__script_read(s, text);
	return s;
}

static void
drop(struct espl__script *s)
{
	espl__script_free(s);
	free(s);
}

Test(init, one_option)
{
	struct espl__script *s = read_text(
	    "p.add_argument('-l', '--lr', type = float,\n  default=1_0.5e-1, # the rate, (see\n"
	    "  help=('a' \"b\\\"\" r'\\d'), metavar=('X', 'Y'), required=False)\n");
	const struct espl__py_option *o = &s->options[0];

	cr_assert_eq(s->option_count, 1);
	cr_assert_str_eq(o->flag, "--lr");
	cr_assert_str_eq(o->name, "lr");
	cr_assert_str_eq(o->type, "float");
	cr_assert_str_eq(o->help, "ab\"\\d");
	cr_assert(o->fallback.kind == ESPL__LIT_REAL && o->fallback.number == 1.05);
	cr_assert(!o->positional && !o->required);
	drop(s);
}

/* A name is text of somebody else's: in the configuration it stays in its comment. */
Test(init, names_with_line_ends)
{
	struct espl__script *s = read_text(
	    "p.add_argument('--lr\\nallocator = { use = \"evil\"; };', type=float, default=0.1)\n"
	    "p.add_argument('--out\\ncloud = { use = \"evil\"; };', default='x')\n");
	struct espl__buf text = { NULL, 0, 0 };

	espl__init_write(s, "train.py", &text);
	cr_assert_null(strstr(espl__buf_text(&text), "\nallocator = { use = \"evil\""), "%s",
	    espl__buf_text(&text));
	cr_assert_null(strstr(espl__buf_text(&text), "\ncloud = { use = \"evil\""), "%s",
	    espl__buf_text(&text));
	espl__buf_free(&text);
	drop(s);
}

Test(init, literals)
{
	struct espl__script *s = read_text(
	    "x.add_argument('--a', default=None)\nx.add_argument('--b', default=True)\n"
	    "x.add_argument('--c', default=-3)\nx.add_argument('--d', default=os.getenv('D', 1))\n"
	    "x.add_argument('--e', choices=[1, 2.5, 'x', None], default='')\n"
	    "add_argument('--f')\nx.add_argument(*args)\nx.add_argument('--a', default=1)\n");
	static const enum espl__literal want[] = { ESPL__LIT_NONE, ESPL__LIT_BOOL, ESPL__LIT_INT,
		ESPL__LIT_OTHER, ESPL__LIT_TEXT };

	cr_assert_eq(s->option_count, 5);
	for (int i = 0; i < 5; i++)
		cr_assert_eq(s->options[i].fallback.kind, want[i], "%d", i);
	cr_assert_eq(s->options[4].choice_count, 4);
	cr_assert_eq(s->options[4].choices[1].number, 2.5);
	drop(s);
}

static void
guesses(const char *source, const char *name, const char *pattern)
{
	struct espl__script *s = read_text(source);
	struct espl__py_metric m;
	int rc = espl__metric_guess(s, &m);

	cr_assert_eq(rc, pattern != NULL ? 0 : -1, "%s", source);
	if (pattern != NULL) {
		cr_assert_str_eq(m.name, name);
		cr_assert_str_eq(m.pattern, pattern);
	}
	espl__metric_free(&m);
	drop(s);
}

Test(init, metrics)
{
	guesses("print(f'epoch {e} loss {l:.3f}')", "loss", "epoch {iteration} loss {loss}");
	guesses("print('Epoch: %3d\\tval loss: %.4f (%s)' % x)", "loss",
	    "Epoch: \\s*{iteration}\\s+val loss: {loss}");
	guesses("print('train loss {} acc {}')\nprint('test loss {} acc {}')", "loss",
	    "test loss {loss} acc {acc}");
	guesses("print('[{}/{}] RMSE={:>9.3f}'.format(i, n, r))", "rmse",
	    "\\[.*?/.*?\\] RMSE=\\s*{rmse}");
	guesses("print('100%% {{x}} error {}')", "error", "100% \\{x\\} error {error}");
	guesses("print('Accuracy:', a)", "accuracy", "Accuracy:\\s*{accuracy}");
	guesses("print('hello {}')", NULL, NULL);
	guesses("add_argument('--loss', help='the loss')", NULL, NULL);
}

/* Whatever the source: what is written is a configuration that can be parsed. */
Test(init, random, .timeout = 120)
{
	static const char *const parts[] = { "p.add_argument(", "'--lr'", "'--", "\"", "'",
		"\"\"\"", ", ", ")", "(", "[", "]", "type=float", "default=", "0.1", "64", "None",
		"True", "choices=", "'a', 'b'", "help=", "f'loss {x:.3f}'", "\\", "\n", "#", "{",
		"}", "x = sub.add_parser('train')", "x.add_argument('--batch-size', default=", "%",
		"\xff", "'store_true'", "action=", "print('loss:', ", "é", "required=True",
		"1e-3" };
	struct espl__rng rng;

	espl__rng_seed(&rng, 5, "init");
	for (int round = 0; round < 3000; round++) {
		struct espl__buf text = { NULL, 0, 0 }, out = { NULL, 0, 0 };
		struct espl__diag diag = ESPL__DIAG_INIT;
		struct espl__script *s;
		struct espl__tree *tree;
		char path[] = "/tmp/espalier-init-XXXXXX";
		FILE *file;
		int fd;

		for (uint64_t k = espl__rng_next(&rng) % 60; k > 0; k--)
			espl__print(&text, "%s",
			    parts[espl__rng_next(&rng) % (sizeof parts / sizeof parts[0])]);
		s = read_text(espl__buf_text(&text));
		espl__init_write(s, "a b.py", &out);
		fd = mkstemp(path);
		cr_assert(fd >= 0 && (file = fdopen(fd, "w")) != NULL);
		cr_assert_eq(fwrite(out.data, 1, out.size, file), out.size);
		fclose(file);
		cr_assert_eq(espl__tree_load(path, &tree, &diag), ESPL_OK, "%s:%u: %s\n%s",
		    diag.file, diag.line, diag.text, espl__buf_text(&out));
		espl__tree_free(tree);
		cr_assert_eq(remove(path), 0);
		espl__buf_free(&text);
		espl__buf_free(&out);
		drop(s);
	}
}
