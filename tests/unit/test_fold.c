/* test_fold.c - warnings that repeat, alternate, or differ in numbers alone. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "report/fold.h"

struct seen {
	struct espl__buf text;
	unsigned lines;
};

static void
see(void *ctx, espl_level level, const char *text)
{
	struct seen *s = ctx;

	espl__print(&s->text, "%s%s\n",
	    level == ESPL_WARN      ? "w "
		: level > ESPL_WARN ? "e "
				    : "",
	    text);
	s->lines++;
}

static void
saw(struct seen *s, const char *want)
{
	cr_assert_str_eq(s->text.size > 0 ? espl__buf_text(&s->text) : "", want);
	espl__buf_free(&s->text);
}

#define S(n_) ((int64_t)(n_)*ESPL_SECOND + 1)

Test(fold, the_first_is_shown_at_once_and_the_others_are_counted)
{
	struct seen s = { 0 };
	struct espl__fold *f = espl__fold_new(see, &s);

	espl__fold_line(f, S(0), ESPL_WARN, "cloud 'aws': the keys are refused");
	saw(&s, "w cloud 'aws': the keys are refused\n");
	for (int i = 1; i < 12; i++)
		espl__fold_line(f, S(25 * i), ESPL_WARN, "cloud 'aws': the keys are refused");
	espl__fold_tick(f, S(299));
	saw(&s, "");
	espl__fold_tick(f, S(300));
	saw(&s, "w cloud 'aws': the keys are refused (12 times in 5m00s)\n");
	espl__fold_line(f, S(310), ESPL_WARN, "cloud 'aws': the keys are refused");
	espl__fold_tick(f, S(600));
	saw(&s, "w cloud 'aws': the keys are refused (1 time in 5m00s)\n");
	espl__fold_tick(f, S(900)); /* quiet for a whole window: it would be news again */
	espl__fold_line(f, S(901), ESPL_WARN, "cloud 'aws': the keys are refused");
	saw(&s, "w cloud 'aws': the keys are refused\n");
	espl__fold_free(f, S(902));
	saw(&s, "");
}

/* What has come again and lasts is said soon; what keeps coming is not said each time. */
Test(fold, a_state_that_lasts_is_told_within_half_a_minute)
{
	struct seen s = { 0 };
	struct espl__fold *f = espl__fold_new(see, &s);

	espl__fold_line(f, S(0), ESPL_WARN, "node 0 is unreachable: no route to host");
	espl__fold_line(f, S(100), ESPL_WARN, "node 0 is unreachable: no route to host");
	espl__fold_tick(f, S(129));
	saw(&s, "w node 0 is unreachable: no route to host\n");
	espl__fold_tick(f, S(130));
	saw(&s, "w node 0 is unreachable: no route to host (2 times in 2m10s)\n");
	for (int i = 2; i < 5; i++) {
		espl__fold_line(f, S(70 * i), ESPL_WARN, "node 0 is unreachable: no route to host");
		espl__fold_tick(f, S(70 * i + 69));
	}
	saw(&s, "");
	espl__fold_tick(f, S(430));
	saw(&s, "w node 0 is unreachable: no route to host (3 times in 5m00s)\n");
	espl__fold_free(f, S(431));
	saw(&s, "");
}

Test(fold, three_that_alternate)
{
	static const char *const texts[] = { "node 1: timed out during banner exchange",
		"node 1: port 22 timed out", "the provider throttles requests" };
	struct seen s = { 0 };
	struct espl__fold *f = espl__fold_new(see, &s);

	for (int i = 0; i < 300; i++)
		espl__fold_line(f, S(i / 10), ESPL_WARN, texts[i % 3]);
	cr_assert_eq(s.lines, 3);
	espl__buf_free(&s.text);
	espl__fold_free(f, S(30));
	saw(&s,
	    "w node 1: timed out during banner exchange (100 times in 30s)\n"
	    "w node 1: port 22 timed out (100 times in 30s)\n"
	    "w the provider throttles requests (100 times in 30s)\n");
}

Test(fold, numbers_and_ids_make_no_difference_and_other_words_do)
{
	struct seen s = { 0 };
	struct espl__fold *f = espl__fold_new(see, &s);
	char text[100];

	for (int i = 0; i < 50; i++) {
		(void)snprintf(text, sizeof text,
		    "cloud 'aws': attempt %d on i-0a%db failed after %dms", i, i * 7, i * 13);
		espl__fold_line(f, S(i), ESPL_WARN, text);
	}
	espl__fold_line(f, S(50), ESPL_WARN, "cloud 'aws': attempt 3 on i-0a1b was refused");
	espl__fold_line(f, S(50), ESPL_INFO, "a line that is no warning");
	espl__fold_line(f, S(50), ESPL_INFO, "a line that is no warning");
	saw(&s,
	    "w cloud 'aws': attempt 0 on i-0a0b failed after 0ms\n"
	    "w cloud 'aws': attempt 3 on i-0a1b was refused\n"
	    "a line that is no warning\n"
	    "a line that is no warning\n");
	espl__fold_free(f, S(60));
	saw(&s, "w cloud 'aws': attempt 49 on i-0a343b failed after 637ms (50 times in 1m00s)\n");
}

Test(fold, sources_are_told_apart_until_there_are_many)
{
	struct seen s = { 0 };
	struct espl__fold *f = espl__fold_new(see, &s);
	char text[100];

	for (int i = 0; i < 1000; i++) {
		(void)snprintf(text, sizeof text, "node %d: the disk is slow", i % 500);
		espl__fold_line(f, S(0), ESPL_WARN, text);
	}
	cr_assert_eq(s.lines, 8);
	espl__buf_free(&s.text);
	espl__fold_free(f, S(1));
	cr_assert(strstr(espl__buf_text(&s.text), "node 499: the disk is slow (") != NULL);
	cr_assert_leq(s.lines, 17);
	espl__buf_free(&s.text);
}

/* However many kinds there are, what is kept is bounded, and nothing is lost without a count. */
Test(fold, many_kinds)
{
	struct seen s = { 0 };
	struct espl__fold *f = espl__fold_new(see, &s);
	char text[100];

	for (int i = 0; i < 26 * 26 * 26; i++) {
		(void)snprintf(text, sizeof text, "x%c%c%c fails", 'a' + i / 676, 'a' + i / 26 % 26,
		    'a' + i % 26);
		espl__fold_line(f, S(1), ESPL_ERROR, text + 1);
	}
	cr_assert_eq(s.lines, 26 * 26 * 26);
	espl__fold_free(f, S(2));
	cr_assert_eq(s.lines, 26 * 26 * 26);
	espl__buf_free(&s.text);
}
