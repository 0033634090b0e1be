/* test_listen.c - words with {NAME} in them, and reports made from lines of output. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fill.h"
#include "base/mem.h"
#include "base/rng.h"
#include "listen/listen.h"

static uint64_t
below(struct espl__rng *rng, uint64_t limit)
{
	return espl__rng_next(rng) % limit;
}

/* ---- fill ---- */

static const char *
find(void *ctx, const char *name)
{
	const char *const *pairs = ctx;

	for (; *pairs != NULL; pairs += 2)
		if (strcmp(pairs[0], name) == 0)
			return pairs[1];
	return NULL;
}

static void
fills(const char *word, const char *want)
{
	static const char *const pairs[] = { "lr", "0.1", "s", "a b'\"\n\xc3\xa9{lr}$x", "empty",
		"", "optimizer.lr", "0.2", "1st rate", "0.3", NULL };
	struct espl__buf text = { NULL, 0, 0 };
	char bad[64] = "";
	int rc = espl__fill(word, find, (void *)(uintptr_t)pairs, &text, bad);

	if (want == NULL)
		cr_assert_eq(rc, -1, "%s is accepted", word);
	else
		cr_assert(rc == 0 && strcmp(espl__buf_text(&text), want) == 0, "%s -> %s", word,
		    espl__buf_text(&text));
	espl__buf_free(&text);
}

Test(fill, words)
{
	fills("", "");
	fills("--lr={lr}", "--lr=0.1");
	fills("{lr}{lr}", "0.10.1");
	fills("{s}", "a b'\"\n\xc3\xa9{lr}$x"); /* a value is not looked into */
	fills("{empty}", "");
	fills("{{lr}", "{lr}");
	fills("{{{lr}", "{0.1");
	fills("{\"a\": {\"b\": {lr}}}", "{\"a\": {\"b\": 0.1}}");
	fills("{ print $1 }", "{ print $1 }");
	fills("${HOME}", "${HOME}");
	fills("{lr", "{lr");
	fills("{}", "{}");
	fills("{1}", "{1}");
	fills("--x={unknown}", NULL);
	fills("{optimizer.lr} {1st rate}", "0.2 0.3");
	fills("{{optimizer.lr} {{optimizer.rate}", "{optimizer.lr} {optimizer.rate}");
	fills("{optimizer.rate}", "{optimizer.rate}");
	cr_assert(espl__fill_any("a{b}") && !espl__fill_any("a{ b }{{c}"));
}

/* Whoever fills in a guarded word knows of some names no value. */
Test(fill, guarded)
{
	static const char *const names[] = { "lr", "", "optimizer.lr", "", NULL },
				 *const active[] = { "lr", "0.1", NULL },
				 *const words[] = { "{lr}", "0.1", "{optimizer.lr}", NULL,
					 "{print $1}{lr}", "{print $1}0.1", "{{lr}${x.y}",
					 "{lr}${x.y}", "{\"a\": {x.y}}", "{\"a\": {x.y}}", "{}",
					 "{}", "{\"a\": {optimizer.lr}}", NULL };

	for (size_t i = 0; i < sizeof words / sizeof *words; i += 2) {
		struct espl__buf word = { NULL, 0, 0 }, text = { NULL, 0, 0 };
		int rc;

		espl__fill_guard(words[i], find, (void *)(uintptr_t)names, &word);
		rc = espl__fill_guarded(espl__buf_text(&word), find, (void *)(uintptr_t)active,
		    &text);
		cr_assert(words[i + 1] == NULL
			? rc == -1
			: rc == 0 && strcmp(espl__buf_text(&text), words[i + 1]) == 0,
		    "%s -> %s -> %s", words[i], espl__buf_text(&word), espl__buf_text(&text));
		espl__buf_free(&word);
		espl__buf_free(&text);
	}
}

/* Whatever the word: what is taken for a name is one, and all else stays as it is. */
Test(fill, random)
{
	static const char *const parts[] = { "{", "}", "{{", "lr", "{lr}", "$", " ", "\xc3\xa9",
		"_", "9", "{s}", "\n" };
	static const char *const none[] = { "lr", "", "s", "", NULL };
	struct espl__rng rng;

	espl__rng_seed(&rng, 7, "fill");
	for (int i = 0; i < 20000; i++) {
		struct espl__buf word = { NULL, 0, 0 }, got = { NULL, 0, 0 };
		size_t braces = 0;

		for (uint64_t k = below(&rng, 9); k > 0; k--)
			espl__print(&word, "%s", parts[below(&rng, 12)]);
		if (espl__fill(espl__buf_text(&word), find, (void *)(uintptr_t)none, &got, NULL) ==
		    0) {
			cr_assert(got.size <= word.size);
			for (size_t k = 0; k < got.size; k++)
				braces += got.data[k] == '{';
			cr_assert(braces <= word.size);
		}
		espl__buf_free(&word);
		espl__buf_free(&got);
	}
}

/* ---- listen ---- */

static struct espl__listen *
listen_to(const char *pattern, uint64_t budget)
{
	struct espl__listen_spec spec = { "stdout", "", pattern, "iteration", "loss", -1, 1 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__listen *l;

	cr_assert_eq(espl__listen_new(&spec, &l, &diag), ESPL_OK, "%s", diag.text);
	espl__listen_begin(l, 0, budget, 0);
	return l;
}

static void
hears(struct espl__listen *l, const char *line, const char *want)
{
	struct espl__buf out = { NULL, 0, 0 };
	int got = espl__listen_line(l, line, strlen(line), &out);

	cr_assert(got == (want != NULL) &&
		(want == NULL || strcmp(espl__buf_text(&out), want) == 0),
	    "%s -> %s", line, got ? espl__buf_text(&out) : "nothing");
	espl__buf_free(&out);
}

static void
more(struct espl__listen *l, const char *want)
{
	struct espl__buf out = { NULL, 0, 0 };
	int got = espl__listen_more(l, &out);

	cr_assert(got == (want != NULL) &&
		(want == NULL || strcmp(espl__buf_text(&out), want) == 0),
	    "%s", got ? espl__buf_text(&out) : "nothing");
	espl__buf_free(&out);
}

static void
ends(struct espl__listen *l, const char *want)
{
	struct espl__buf out = { NULL, 0, 0 };
	int got = espl__listen_end(l, &out);

	cr_assert(got == (want != NULL) &&
		(want == NULL || strcmp(espl__buf_text(&out), want) == 0),
	    "%s", got ? espl__buf_text(&out) : "nothing");
	espl__buf_free(&out);
}

/* "2=0.5 " */
static void
put_short(struct espl__buf *report, struct espl__buf *to)
{
	const char *text = espl__buf_text(report), *value = strstr(text, "\"loss\": ");

	cr_assert(value != NULL, "%s", text);
	espl__print(to, "%d=%.*s ", atoi(text + strlen("{\"iteration\": ")),
	    (int)strcspn(value + 8, ",}"), value + 8);
}

static void
refuses(const char *pattern, const char *why)
{
	struct espl__listen_spec spec = { "stdout", "", pattern, "iteration", "loss", -1, 1 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__listen *l;

	cr_assert_neq(espl__listen_new(&spec, &l, &diag), ESPL_OK);
	cr_assert(strstr(diag.text, why) != NULL, "%s", diag.text);
}

Test(listen, patterns)
{
	struct espl__listen *l = listen_to("Average loss: {loss}, Accuracy: {hits}/(?<of>\\d+)", 3);

	hears(l, "Train Epoch: 1 Loss: 2.3", NULL);
	hears(l, "Test set: Average loss: 0.1234, Accuracy: 9876/10000 (99%)",
	    "{\"iteration\": 1, \"metrics\": {\"hits\": 9876, \"loss\": 0.1234, \"of\": 10000}}\n");
	hears(l, "Average loss: -1e-3, Accuracy: 1/2",
	    "{\"iteration\": 2, \"metrics\": {\"hits\": 1, \"loss\": -0.001, \"of\": 2}}\n");
	hears(l, "Average loss: NaN, Accuracy: inf/2",
	    "{\"iteration\": 3, \"metrics\": {\"hits\": \"inf\", \"loss\": \"nan\", \"of\": 2}}\n");
	hears(l, "Average loss: 1, Accuracy: 1/2", NULL); /* the budget is reached */
	espl__listen_budget(l, 9);
	hears(l, "\xff Average loss: 1, Accuracy: 1/2 \xfe",
	    "{\"iteration\": 4, \"metrics\": {\"hits\": 1, \"loss\": 1, \"of\": 2}}\n");
	espl__listen_free(l);
}

Test(listen, escapes)
{
	struct espl__listen *l = listen_to("loss.*?{loss}", 50);

	hears(l, "\x1b[1;31mloss\x1b[0m: \x1b[38;5;120m0.5\x1b[K",
	    "{\"iteration\": 1, \"metrics\": {\"loss\": 0.5}}\n");
	hears(l, "\x1b]0;epoch 7\a\x1b]8;;http://x\x1b\\los\x1b(Bs\x1b=\x1b[?25l 1\x1b[2m.5",
	    "{\"iteration\": 2, \"metrics\": {\"loss\": 1.5}}\n");
	hears(l, "loss \x1b", NULL);
	hears(l, "loss \x1b[", NULL);
	hears(l, "loss \x1b[31", NULL);
	hears(l, "loss \x1b]9", NULL);
	hears(l, "\x1b[1m", NULL);
	espl__listen_free(l);
	l = listen_to("\\e\\[32m{loss}", 50); /* it says what it wants */
	hears(l, "\x1b[31m1 \x1b[32m2", "{\"iteration\": 1, \"metrics\": {\"loss\": 2}}\n");
	espl__listen_free(l);
	l = listen_to("", 50);
	hears(l, "\x1b[32m{\"loss\": 2}\x1b[0m",
	    "{\"iteration\": 1, \"metrics\": {\"loss\": 2}}\n");
	espl__listen_free(l);
}

Test(listen, large_numbers)
{
	struct espl__listen *l = listen_to("loss={loss}", 50);

	hears(l, "loss=1e400", "{\"iteration\": 1, \"metrics\": {\"loss\": \"inf\"}}\n");
	hears(l, "loss=-1e400", "{\"iteration\": 2, \"metrics\": {\"loss\": \"-inf\"}}\n");
	hears(l, "loss=1e-400", "{\"iteration\": 3, \"metrics\": {\"loss\": 0}}\n");
	hears(l, "loss=5.", "{\"iteration\": 4, \"metrics\": {\"loss\": 5}}\n");
	hears(l, "loss=+.5", "{\"iteration\": 5, \"metrics\": {\"loss\": 0.5}}\n");
	espl__listen_free(l);
}

Test(listen, iterations)
{
	struct espl__listen *l = listen_to("step {iteration}|loss={loss}|acc={acc}", 50);

	hears(l, "step 10", NULL);
	hears(l, "acc=0.5", NULL); /* kept */
	hears(l, "loss=3", NULL);
	hears(l, "loss=2", NULL);
	hears(l, "step 20 loss=1 acc=0.75",
	    "{\"iteration\": 10, \"metrics\": {\"acc\": 0.5, \"loss\": 2}}\n");
	hears(l, "step 15 loss=1", NULL);
	hears(l, "step 60 loss=0.5",
	    "{\"iteration\": 20, \"metrics\": {\"loss\": 1, \"acc\": 0.75}}\n");
	more(l, "{\"iteration\": 50, \"metrics\": {\"loss\": 0.5}}\n"); /* a line each */
	more(l, NULL);
	hears(l, "step 70 loss=0.4", NULL);
	ends(l, NULL);
	espl__listen_free(l);
}

/* What programs print, line by line, and what is made of it: "iteration=value ..." */
static void
reads(const char *pattern, uint64_t most, const char *output, const char *want)
{
	struct espl__listen *l = listen_to(pattern, most);
	struct espl__buf report = { NULL, 0, 0 }, got = { NULL, 0, 0 };

	espl__listen_begin(l, 0, most, most);
	for (const char *p = output; *p != '\0';) {
		size_t n = strcspn(p, "\n");

		for (int is = espl__listen_line(l, p, n, &report); is;
		     is = espl__listen_more(l, &report))
			put_short(&report, &got);
		p += n + (p[n] != '\0');
	}
	for (int is = espl__listen_end(l, &report); is; is = espl__listen_more(l, &report))
		put_short(&report, &got);
	cr_assert_eq(espl__listen_end(l, &report), 0);
	cr_assert_str_eq(espl__buf_text(&got), want, "%s\n-> %s, not %s", output,
	    espl__buf_text(&got), want);
	espl__buf_free(&report);
	espl__buf_free(&got);
	espl__listen_free(l);
}

#define EPOCHS "epoch {iteration}:?.*[ =]{loss}$"

Test(listen, last_value_of_an_iteration)
{
	reads(EPOCHS, 9, "epoch 1: 5\nepoch 2: 4\nepoch 3: 3", "1=5 2=4 3=3 ");
	reads(EPOCHS, 9, "epoch 0: 5\nepoch 1: 4\nepoch 2: 3", "1=5 2=4 3=3 ");
	/* a sanity check before the first epoch, batches, an evaluation after the end */
	reads(EPOCHS, 9, "epoch 0 v=9.9\nepoch 0 v=0.5\nepoch 1 v=0.4\nepoch 2 v=0.3",
	    "1=0.5 2=0.4 3=0.3 ");
	reads(EPOCHS, 9, "epoch 1 b1 9\nepoch 1 b2 8\nepoch 1 b3 7\nepoch 2 b1 6\nepoch 2 b2 5",
	    "1=7 2=5 ");
	reads(EPOCHS, 3, "epoch 1: 3\nepoch 2: 2\nepoch 3: 1\nepoch 3: 99", "1=3 2=2 3=1 ");
	/* two values an epoch, of which the second counts */
	reads(EPOCHS, 9,
	    "epoch 1 t=1\nepoch 1 v=2\nepoch 2 t=3\nepoch 2 v=4\nepoch 3 t=5\nepoch 3 v=6",
	    "1=2 2=4 3=6 ");
	/* a second value in every second epoch, once that is known */
	reads(EPOCHS, 9,
	    "epoch 1 v=9\nepoch 2 v=9\nepoch 2 w=2\nepoch 3 v=3\nepoch 4 v=9\nepoch 4 w=4\n"
	    "epoch 5 v=5\nepoch 6 v=9\nepoch 6 w=6",
	    "1=9 2=9 3=3 4=4 5=5 6=6 ");
	/* a value in every second epoch alone */
	reads("epoch {iteration}|loss={loss}", 9,
	    "epoch 1\nepoch 2 loss=5\nepoch 3\nepoch 4 loss=3\nepoch 5", "2=5 4=3 ");
	/* one without a number, before the first that has one */
	reads("epoch {iteration} |loss={loss}", 9, "loss=99\nepoch 1 loss=3\nepoch 2 loss=2",
	    "1=3 2=2 ");
	reads("epoch {iteration} |loss={loss}", 9, "loss=9\nloss=8\nloss=7", "1=9 2=8 3=7 ");
	reads("epoch {iteration} |loss={loss}", 9, "loss=9", "1=9 ");
	/* several, as of a sanity check; but many mean that no iteration has a number */
	reads("epoch {iteration} |loss={loss}", 9,
	    "loss=99\nloss=98\nepoch 1 loss=3\nepoch 2 loss=2", "1=3 2=2 ");
	reads("epoch {iteration} |loss={loss}", 9,
	    "loss=9\nloss=9\nloss=9\nloss=9\nloss=9\nloss=9\nloss=9\nloss=9\nepoch 0 loss=3\n"
	    "epoch 1 loss=2",
	    "1=3 2=2 ");
	reads("epoch {iteration} |loss={loss}", 12,
	    "loss=9\nloss=8\nloss=7\nloss=6\nloss=5\nloss=4\nloss=3\nloss=2\nloss=1\nloss=0",
	    "1=9 2=8 3=7 4=6 5=5 6=4 7=3 8=2 9=1 10=0 ");
	reads("", 9, "{\"iteration\": 0, \"loss\": 3}\n{\"iteration\": 1, \"loss\": 2}",
	    "1=3 2=2 ");
}

static const struct espl__listen_counts *
counts_of(struct espl__listen *l, const char *output)
{
	struct espl__buf report = { NULL, 0, 0 };

	espl__listen_begin(l, 0, 9, 9);
	for (const char *p = output; *p != '\0';) {
		size_t n = strcspn(p, "\n");

		(void)espl__listen_line(l, p, n, &report);
		while (espl__listen_more(l, &report))
			;
		p += n + (p[n] != '\0');
	}
	espl__buf_free(&report);
	return espl__listen_counts(l);
}

/* Many values are held while the search has paused the trial, and none is lost. */
Test(listen, held_values_wait_for_the_budget)
{
	struct espl__listen *l = listen_to("epoch {iteration} |loss={loss}", 20);

	espl__listen_begin(l, 0, 3, 20);
	for (int i = 0; i < 9; i++)
		hears(l, "loss=5", NULL);
	hears(l, "loss=5", "{\"iteration\": 1, \"metrics\": {\"loss\": 5}}\n");
	more(l, "{\"iteration\": 2, \"metrics\": {\"loss\": 5}}\n");
	more(l, "{\"iteration\": 3, \"metrics\": {\"loss\": 5}}\n");
	more(l, NULL);
	espl__listen_budget(l, 20);
	for (int i = 4; i <= 10; i++) {
		char want[80];

		(void)snprintf(want, sizeof want,
		    "{\"iteration\": %d, \"metrics\": {\"loss\": 5}}\n", i);
		more(l, want);
	}
	more(l, NULL);
	espl__listen_free(l);
}

Test(listen, a_second_training_is_noticed)
{
	static const struct {
		const char *output;
		uint64_t restarts, unused;
	} cases[] = { { "epoch 1: 5\nepoch 2: 4\nepoch 3: 3\nepoch 1: 9\nepoch 2: 8\nepoch 3: 7", 3,
			  3 },
		{ "epoch 0: 5\nepoch 1: 4\nepoch 2: 3\nepoch 0: 9\nepoch 1: 8", 3, 2 },
		{ "epoch 1: 5\nepoch 2: 4\nepoch 3: 3\nepoch 1: 5", 0,
		    0 }, /* the best, named at the end */
		{ "epoch 1: 5\nepoch 2: 4\nepoch 3: 3\nepoch 2: 4", 0, 0 },
		{ "epoch 1: 5\nepoch 2: 4\nepoch 3: 3", 0, 0 } };

	/* its last epoch takes the place of none of the first */
	reads(EPOCHS, 9, cases[0].output, "1=5 2=4 3=3 ");
	reads(EPOCHS "|acc={acc}", 9,
	    "epoch 1: 5\nepoch 2: 4\nepoch 1: 9\nepoch 2: 8\nepoch 3: 7\nepoch 4: 6",
	    "1=5 2=4 3=7 4=6 ");
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct espl__listen *l = listen_to(EPOCHS, 9);

		cr_assert_eq(counts_of(l, cases[i].output)->restarts, cases[i].restarts, "%s",
		    cases[i].output);
		cr_assert_eq(espl__listen_unused(l), cases[i].unused, "%s", cases[i].output);
		espl__listen_free(l);
	}
}

Test(listen, grouped_digits_are_not_skipped_without_a_word)
{
	static const char *const cases[][2] = { { "epoch 1: loss 1,234.5 done", "1,234.5" },
		{ "epoch 1: loss 1_000 done", "1_000" }, { "epoch 1: loss 0x10 done", "0x10" },
		{ "epoch 1: loss 1'234.5 done", "1'234.5" }, { "epoch 1: loss 3.2k done", "3.2k" },
		{ "epoch 1: loss 1\u202f234 done", "1\u202f234" },
		{ "epoch 1: loss 12 M done\nloss 3 kg", NULL },
		{ "epoch 1: loss 1234.5, lr 3 done", NULL }, { "epoch 1: lr 1,000 done", NULL },
		{ "epoch 1: loss 12 done\nsize 640x480", NULL } };

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct espl__listen *l = listen_to("epoch {iteration}: loss {loss}", 9);
		const char *grouped = counts_of(l, cases[i][0])->grouped;

		cr_assert_str_eq(grouped != NULL ? grouped : "-",
		    cases[i][1] != NULL ? cases[i][1] : "-", "%s", cases[i][0]);
		cr_assert_eq(espl__listen_unused(l), cases[i][1] != NULL);
		espl__listen_free(l);
	}
}

/* It costs neither the metric nor the iteration. */
Test(listen, another_number_with_grouped_digits)
{
	reads("epoch {iteration} tokens {tokens} loss {loss}", 9,
	    "epoch 1 tokens 900 loss 3\nepoch 2 tokens 1,800 loss 2\nepoch 3 tokens 2,700 loss 1",
	    "1=3 2=2 3=1 ");
	reads("step {iteration} loss {loss}", 9999,
	    "step 900 loss 3\nstep 1,000 loss 2\nstep 1100 loss 1", "900=3 1100=1 ");
}

Test(listen, iterations_that_fall_are_noticed)
{
	struct espl__listen *l = listen_to(EPOCHS, 9);

	cr_assert_eq(counts_of(l, "epoch 5: 5\nepoch 4: 4\nepoch 3: 3\nepoch 2: 2")->falling, 3);
	cr_assert_eq(espl__listen_unused(l), 3);
	espl__listen_free(l);
	l = listen_to(EPOCHS, 9); /* folds, and the best at the end, do not fall */
	cr_assert_eq(counts_of(l,
			 "epoch 1: 5\nepoch 2: 4\nepoch 1: 3\nepoch 2: 2\nepoch 1: 3\nepoch 3: 2\n"
			 "epoch 2: 2")
			 ->falling,
	    0);
	espl__listen_free(l);
}

/* A table of values that ends with the number of its iteration. */
Test(listen, iterations_named_after_their_values)
{
	struct espl__listen_spec spec = { "stdout", "", "loss={loss}|step {iteration}", "iteration",
		"loss", -1, 1 };
	struct espl__listen_layout layout = ESPL__LISTEN_LAYOUT_INIT;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__listen *l;
	char *plain = espl__listen_spec_text(&spec), *known;
	int from;

	reads(spec.pattern, 9, "loss=5\nstep 1\nloss=4\nstep 2\nloss=3\nstep 3", "1=4 2=3 3=3 ");
	layout.trailing = 1;
	known = espl__listen_spec_known(plain, &layout);
	cr_assert_eq(espl__listen_new_json(known, &l, &from, NULL, &diag), ESPL_OK, "%s",
	    diag.text);
	espl__listen_begin(l, 0, 9, 9);
	hears(l, "loss=5", NULL);
	hears(l, "step 1", "{\"iteration\": 1, \"metrics\": {\"loss\": 5}}\n");
	hears(l, "loss=4", NULL);
	hears(l, "step 2", "{\"iteration\": 2, \"metrics\": {\"loss\": 4}}\n");
	hears(l, "loss=3", NULL);
	ends(l, NULL);
	espl__listen_free(l);
	free(plain);
	free(known);
}

/* 0 to 3 for three iterations: the first was not trained; 0 to 9: the program trains longer. */
Test(listen, evaluation_before_training)
{
	reads(EPOCHS, 3, "epoch 0 2.3\nepoch 1 1.0\nepoch 2 0.7\nepoch 3 0.6", "1=2.3 2=1 3=0.6 ");
	reads(EPOCHS, 3,
	    "epoch 0 2.3\nepoch 1 1.0\nepoch 2 0.7\nepoch 3 0.6\nepoch 4 0.5\nepoch 5 0.4",
	    "1=2.3 2=1 3=0.7 ");
	reads(EPOCHS, 3, "epoch 0 2.3\nepoch 1 1.0\nepoch 2 0.7", "1=2.3 2=1 3=0.7 ");
	reads(EPOCHS, 3, "epoch 0.0 2.3\nepoch 1.0 1.5\nepoch 2.0 0.7\nepoch 3.0 0.6",
	    "1=1.5 2=0.7 3=0.6 ");
	reads(EPOCHS, 3, "epoch 0 2.3\nepoch 0.5 2\nepoch 1.0 1.5\nepoch 1.5 1\nepoch 2.0 0.7",
	    "1=1.5 2=0.7 ");
}

/* A later trial knows from the start, and reports at once. */
Test(listen, layouts_are_learned)
{
	struct espl__listen_spec spec = { "stdout", "", EPOCHS, "iteration", "loss", -1, 1 };
	struct espl__listen_layout layout = { 1, 2, 1, 0, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	char *plain = espl__listen_spec_text(&spec),
	     *known = espl__listen_spec_known(plain, &layout);
	struct espl__listen *l = listen_to(EPOCHS, 9);
	int from;

	hears(l, "epoch 0 v=9", NULL);
	hears(l, "epoch 0 v=8", NULL);
	hears(l, "epoch 1 v=7", "{\"iteration\": 1, \"metrics\": {\"loss\": 8}}\n");
	hears(l, "epoch 2 v=6", "{\"iteration\": 2, \"metrics\": {\"loss\": 7}}\n");
	more(l, "{\"iteration\": 3, \"metrics\": {\"loss\": 6}}\n");
	cr_assert(espl__listen_found(l)->begins == 2 && espl__listen_found(l)->each == 1);
	espl__listen_free(l);
	cr_assert_eq(espl__listen_new_json(known, &l, &from, NULL, &diag), ESPL_OK, "%s",
	    diag.text);
	espl__listen_begin(l, 0, 9, 9);
	hears(l, "epoch 0 v=9", NULL); /* known to be from before the training */
	hears(l, "epoch 1 v=9", NULL);
	hears(l, "epoch 1 v=8", "{\"iteration\": 1, \"metrics\": {\"loss\": 8}}\n");
	hears(l, "epoch 2 v=7", "{\"iteration\": 2, \"metrics\": {\"loss\": 7}}\n");
	espl__listen_free(l);
	free(plain);
	free(known);
}

Test(listen, amounts)
{
	struct espl__listen_spec spec = { "stdout", "", EPOCHS, "iteration", "loss", -1, 300 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__listen *l;

	reads("", 3,
	    "{'loss': 9, 'iteration': 0.5}\n{'loss': 8, 'iteration': 1.0}\n"
	    "{'loss': 7, 'iteration': 1.5}\n{'loss': 6, 'iteration': 2.0}\n"
	    "{'loss': 5, 'iteration': 2.5}\n{'loss': 4, 'iteration': 3.0}",
	    "1=8 2=6 3=4 ");
	reads(EPOCHS, 9, "epoch 0.4 9\nepoch 0.8 8\nepoch 1.2 7\nepoch 1.6 6\nepoch 2.4 5",
	    "1=8 2=6 ");
	reads(EPOCHS, 3, "epoch 0.99 9\nepoch 1.98 8\nepoch 2.97 7", "1=9 2=8 3=7 ");
	reads(EPOCHS, 9, "Epoch 1.\nepoch 1. 5\nepoch 2. 4", "1=5 2=4 ");
	cr_assert_eq(espl__listen_new(&spec, &l, &diag), ESPL_OK);
	espl__listen_begin(l, 0, 9, 9);
	hears(l, "epoch 0: 9", NULL);
	hears(l, "epoch 150: 8", NULL);
	hears(l, "epoch 300: 7", "{\"iteration\": 1, \"metrics\": {\"loss\": 7}}\n");
	hears(l, "epoch 450: 6", NULL);
	hears(l, "epoch 650: 5", "{\"iteration\": 2, \"metrics\": {\"loss\": 6}}\n");
	espl__listen_free(l);
}

Test(listen, numbers_are_whole)
{
	reads("loss: {loss}", 9, "loss: 1,234.5\nloss: 12,345\nloss: 1_000\nloss: 0x10\nloss: 7",
	    "1=7 ");
	reads("loss: {loss}, acc", 9, "loss: 5, acc 3\nloss: 1,234.5, acc 3", "1=5 ");
	reads("^{iteration},{loss},{acc}$", 9, "1,5,0.1\n2,4,0.2", "1=5 2=4 ");
	reads("loss {loss}x{n}", 9, "loss 5x3", "1=5 ");
	reads("v{a}\\.{loss}", 9, "v1.5", "1=5 ");
}

Test(listen, names)
{
	struct espl__listen_spec spec = { "stdout", "",
		"val/acc {val/acc} of {top-5.of} |it {iteration}", "iteration", "val/acc", -1, 1 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__listen *l;

	cr_assert_eq(espl__listen_new(&spec, &l, &diag), ESPL_OK, "%s", diag.text);
	espl__listen_begin(l, 0, 9, 9);
	hears(l, "it 1", NULL);
	hears(l, "val/acc 0.5 of 3 ", NULL);
	ends(l, "{\"iteration\": 1, \"metrics\": {\"val/acc\": 0.5, \"top-5.of\": 3}}\n");
	espl__listen_free(l);
}

Test(listen, json)
{
	struct espl__listen *l = listen_to("", 9);

	hears(l, "hello {\"loss\" 1}", NULL);
	hears(l, "{\"acc\": 1}", NULL);
	hears(l, "{\"loss\": NaN, \"note\": \"NaN or \\\" so\", \"list\": [1], \"iteration\": 2}",
	    NULL);
	hears(l, "12:30 INFO {\"loss\": 0.25, \"iteration\": 3, \"val\": {\"acc\": {\"5\": 1}}} ok",
	    "{\"iteration\": 2, \"metrics\": {\"acc\": 1, \"loss\": \"nan\"}}\n");
	more(l, "{\"iteration\": 3, \"metrics\": {\"loss\": 0.25, \"val/acc/5\": 1}}\n");
	hears(l, "{\"loss\": \"high\", \"iteration\": 4}",
	    "{\"iteration\": 4, \"metrics\": {\"loss\": \"high\"}}\n"); /* the driver refuses it */
	hears(l, "[{\"loss\": 1}]", NULL);
	hears(l,
	    "{'loss': 3, 'iteration': 5, 'it\\'s': None, \"b\": True, 'c': -inf, "
	    "'d': np.float64(0.5), 'None': 2}",
	    NULL);
	ends(l,
	    "{\"iteration\": 5, \"metrics\": {\"loss\": 3, \"c\": \"-inf\", \"d\": 0.5, \"None\": "
	    "2}}\n");
	espl__listen_free(l);
}

/* Numbers as PyTorch and JAX print them, brackets that are no object, and long lines. */
Test(listen, json_among_other_words)
{
	struct espl__listen *l;
	struct espl__buf line = { NULL, 0, 0 };

	reads("", 9,
	    "{'iteration': 1, 'loss': tensor(0.5, device='cuda:0', grad_fn=<NllLossBackward0>)}\n"
	    "{'iteration': 2, 'loss': Array(0.25, dtype=float32), 'all': tensor([1., 2.])}\n"
	    "{'iteration': 3, 'loss': tensor(2.)}\n{'iteration': 4, 'loss': tensor(nan)}",
	    "1=0.5 2=0.25 3=2 4=\"nan\" ");
	reads("", 9,
	    "{rank0} {\"iteration\": 1, \"loss\": 5}\n"
	    "f={} {\"iteration\": 2, \"loss\": NaN} {done}\n{ {'iteration': 3, 'loss': 3}\n"
	    "{bad: {\"loss\": 7}} {'iteration': 4, 'loss': 2}",
	    "1=5 2=\"nan\" 3=3 4=2 ");
	l = listen_to("", 9);
	espl__print(&line, "{\"note\": \"");
	for (int i = 0; i < 200000; i++)
		espl__put_u8(&line, 'x');
	espl__print(&line, "\", \"loss\": 1}");
	hears(l, espl__buf_text(&line), "{\"iteration\": 1, \"metrics\": {\"loss\": 1}}\n");
	espl__buf_free(&line);
	espl__listen_free(l);
}

/* Batches are counted in steps, and the metric in epochs, as many scripts do for TensorBoard. */
Test(listen, steps_beside_epochs)
{
	reads("", 9,
	    "{\"iteration\": 0, \"t\": 9}\n{\"iteration\": 50, \"t\": 8}\n"
	    "{\"iteration\": 1, \"loss\": 5}\n{\"iteration\": 100, \"t\": 7}\n"
	    "{\"iteration\": 150, \"t\": 6}\n{\"iteration\": 2, \"loss\": 4}\n"
	    "{\"iteration\": 200, \"t\": 6}\n{\"iteration\": 3, \"loss\": 3}",
	    "1=5 2=4 3=3 ");
	reads("", 9,
	    "{\"iteration\": 0, \"loss\": 5}\n{\"iteration\": 50, \"t\": 8}\n"
	    "{\"iteration\": 1, \"loss\": 4}\n{\"iteration\": 100, \"t\": 7}\n"
	    "{\"iteration\": 2, \"loss\": 3}",
	    "1=5 2=4 3=3 ");
}

/* An iteration that cannot be counted makes a line no report; a part of one does not. */
Test(listen, iterations_that_are_none)
{
	struct espl__listen *l = listen_to("epoch {iteration} loss:? {loss}", 9);

	hears(l, "epoch -5 loss: -inf", NULL);
	hears(l, "epoch -1 loss: 3", NULL);
	hears(l, "epoch nan loss: 2", NULL);
	hears(l, "epoch -inf loss: 2", NULL);
	hears(l, "epoch 99999999999999999999 loss: 2", NULL);
	hears(l, "epoch 1 loss: -inf", NULL);
	hears(l, "epoch -2 loss: 0", NULL);
	hears(l, "epoch 2 loss: 1",
	    "{\"iteration\": 1, \"metrics\": {\"loss\": \"-inf\"}}\n"); /* the driver judges it */
	more(l, "{\"iteration\": 2, \"metrics\": {\"loss\": 1}}\n");
	espl__listen_free(l);
}

/* The excess is dropped, the objective never. */
Test(listen, too_many_metrics)
{
	struct espl__listen *l = listen_to("", 9);
	struct espl__buf line = { NULL, 0, 0 }, out = { NULL, 0, 0 };

	for (int i = 0; i < 3000; i++)
		espl__print(&line, "%s\"m%d\": %d", i == 0 ? "{" : ", ", i, i);
	espl__print(&line, ", \"loss\": 0.25}");
	cr_assert_eq(espl__listen_line(l, espl__buf_text(&line), line.size, &out), 1);
	cr_assert(strstr(espl__buf_text(&out), "\"loss\": 0.25") != NULL);
	cr_assert(strstr(espl__buf_text(&out), "\"m254\": 254") != NULL);
	cr_assert(strstr(espl__buf_text(&out), "\"m255\"") == NULL);
	cr_assert_eq(espl__listen_counts(l)->dropped, 3000 - 255);
	hears(l, "{\"loss\": 1}", "{\"iteration\": 2, \"metrics\": {\"loss\": 1}}\n");
	espl__buf_free(&line);
	espl__buf_free(&out);
	espl__listen_free(l);
}

Test(listen, refusals)
{
	refuses("loss (", "not a valid expression");
	refuses("nothing", "no group for the metric 'loss'");
	refuses("{accuracy}", "no group for the metric 'loss'");
}

/* A pattern that would take for ever is given up, and the next line is read. */
Test(listen, catastrophe, .timeout = 30)
{
	struct espl__listen *l = listen_to("^(a+)+$|^loss={loss}$", 9);
	char line[200];

	memset(line, 'a', sizeof line - 2);
	line[198] = '!';
	line[199] = '\0';
	for (int i = 0; i < 20; i++)
		hears(l, line, NULL);
	cr_assert_eq(espl__listen_counts(l)->hard, 20);
	hears(l, "loss=1", "{\"iteration\": 1, \"metrics\": {\"loss\": 1}}\n");
	espl__listen_free(l);
}

/* Random bytes never break a reader, and a report is one line with the next iteration. */
Test(listen, random)
{
	static const char *const parts[] = { "loss=", "1.5", "-", "e9", "{\"loss\": ", "}", " ",
		"\xff", "\xc3", "nan", "step ", "7", "\"", "acc=", "\t", "[" };
	struct espl__rng rng;

	espl__rng_seed(&rng, 11, "lines");
	for (int round = 0; round < 200; round++) {
		struct espl__listen *l =
		    listen_to(round % 2 ? "" : "loss={loss}|step {iteration}|acc={acc}", 40);
		uint64_t last = 0;

		for (int i = 0; i < 200; i++) {
			struct espl__buf line = { NULL, 0, 0 }, out = { NULL, 0, 0 };

			for (uint64_t k = below(&rng, 8); k > 0; k--)
				espl__print(&line, "%s", parts[below(&rng, 16)]);
			if (espl__listen_line(l, espl__buf_text(&line), line.size, &out)) {
				cr_assert(out.size > 0 && out.data[out.size - 1] == '\n');
				cr_assert(memchr(out.data, '\n', out.size - 1) == NULL);
				cr_assert(
				    espl__listen_last(l) > last && espl__listen_last(l) <= 40);
			}
			last = espl__listen_last(l);
			espl__buf_free(&line);
			espl__buf_free(&out);
		}
		espl__listen_free(l);
	}
}
