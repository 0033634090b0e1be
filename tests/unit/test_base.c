/* test_base.c - base: what every other part takes for granted. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/assert.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/tick.h"

#define same_text(got_, want_) cr_assert_str_eq(got_, want_)

Test(base, diag_first_failure_wins)
{
	struct espl__diag d = ESPL__DIAG_INIT;
	struct espl_error e = ESPL_INIT(struct espl_error);
	char *text = NULL, name[2000];
	size_t size = 0;
	FILE *out;

	cr_assert_eq(espl__fail_at(&d, ESPL_E_CONFIG, "a.cfg", 7, "unknown key '%s'", "etta"),
	    ESPL_E_CONFIG);
	cr_assert_eq(espl__fail(&d, ESPL_E_BUG, "second"), ESPL_E_BUG);
	espl__hint(&d, "the hint of the second");
	same_text(d.hint, "");
	memset(&d, 0, sizeof d);
	espl__fail_at(&d, ESPL_E_CONFIG, "a.cfg", 7, "unknown key\n'%s'", "etta");
	espl__hint(&d, "did you mean '%s'?", "eta");
	espl__hint(&d, "another");
	out = open_memstream(&text, &size);
	espl__diag_print(out, &d);
	fclose(out);
	same_text(text, "a.cfg:7: error: unknown key 'etta'\nhint: did you mean 'eta'?\n");
	free(text);
	cr_assert_eq(espl__fail(NULL, ESPL_E_BUG, "nobody listens"), ESPL_E_BUG);
	espl__hint(NULL, "nobody");

	memset(&d, 0, sizeof d);
	memset(name, 'x', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	memcpy(name + sizeof name - 6, "e.cfg", 5);
	espl__fail_at(&d, ESPL_E_CONFIG, name, 1, "%s", name);
	same_text(d.file + strlen(d.file) - 5, "e.cfg");
	same_text(d.text + strlen(d.text) - 3, "...");
	cr_assert_lt(strlen(d.file), sizeof d.file);

	memset(&d, 0, sizeof d);
	errno = ENOSPC;
	cr_assert_eq(espl__fail_errno(&d, "cannot write '%s'", "j"), ESPL_E_LIMIT);
	same_text(d.text, "cannot write 'j': No space left on device");

	memset(&d, 0, sizeof d);
	cr_assert_eq(espl__diag_plugin(&d, "algorithm 'sha'", ESPL_E_CONFIG, &e), ESPL_E_CONFIG);
	cr_assert_not_null(strstr(d.text, "algorithm 'sha': an option is not valid"));
	memset(&d, 0, sizeof d);
	snprintf(e.text, sizeof e.text, "eta is 1");
	snprintf(e.hint, sizeof e.hint, "use 2 or more");
	espl__diag_plugin(&d, "algorithm 'sha'", ESPL_E_CONFIG, &e);
	same_text(d.text, "algorithm 'sha': eta is 1");
	same_text(d.hint, "use 2 or more");
}

static void
tell_seed(void *ctx, char *text, size_t room)
{
	(void)snprintf(text, room, "seed %d\n", *(int *)ctx);
}

Test(base, a_failed_assertion_says_where_and_what)
{
	int fds[2], seed = 42, status;
	char text[400] = "";
	size_t got = 0;
	ssize_t n;
	pid_t pid;

	cr_assert_eq(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		dup2(fds[1], STDERR_FILENO);
		espl__panic_context = tell_seed;
		espl__panic_context_arg = &seed;
		ESPL__ASSERT(1 + 1 == 3);
	}
	close(fds[1]);
	while ((n = read(fds[0], text + got, sizeof text - 1 - got)) > 0)
		got += (size_t)n;
	close(fds[0]);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	cr_assert_not_null(strstr(text, "1 + 1 == 3"));
	cr_assert_not_null(strstr(text, "test_base.c"));
	cr_assert_not_null(strstr(text, "seed 42\n"));
}

Test(base, memory)
{
	struct espl__pool pool;
	struct espl__arena arena = { NULL };
	uint32_t *grown = NULL;
	size_t cap = 0;
	uint64_t *records[1000];
	char *text;

	for (uint32_t i = 0; i < 1000; i++) {
		ESPL__GROW(grown, cap, i + 1);
		grown[i] = i;
	}
	cr_assert_geq(cap, 1000);
	cr_assert_eq(grown[999], 999);
	free(grown);

	espl__pool_init(&pool, 20);
	for (uint64_t i = 0; i < 1000; i++) {
		records[i] = espl__pool_add(&pool);
		cr_assert_eq((uintptr_t)records[i] % 8, 0);
		cr_assert_eq(*records[i], 0);
		*records[i] = i;
	}
	for (uint64_t i = 0; i < 1000; i++) {
		cr_assert_eq(espl__pool_at(&pool, i), records[i]);
		cr_assert_eq(*records[i], i);
	}
	espl__pool_free(&pool);

	for (size_t i = 0; i < 300; i++) {
		unsigned char *p = espl__arena_alloc(&arena, i * 37);

		cr_assert_eq((uintptr_t)p % 16, 0);
		for (size_t j = 0; j < i * 37; j++)
			cr_assert_eq(p[j], 0);
		memset(p, 0xff, i * 37);
	}
	same_text(espl__arena_strdup(&arena, "kept"), "kept");
	cr_assert_null(espl__arena_strdup(&arena, NULL));
	espl__arena_free(&arena);
	espl__arena_free(&arena);

	cr_assert_null(espl__strdup(NULL));
	text = espl__format("%s-%d", "trial", 12);
	same_text(text, "trial-12");
	free(text);
	free(espl__alloc(0));
}

Test(base, out_of_memory_ends_with_status_4)
{
	int status, null;
	pid_t pid = fork();

	if (pid == 0) {
		null = open("/dev/null", O_WRONLY);
		if (null >= 0)
			dup2(null, STDERR_FILENO);
		espl__realloc(NULL, SIZE_MAX / 4, 8);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 4);
}

Test(base, bytes_round_trip_and_end)
{
	static const uint64_t wholes[] = { 0, 1, 127, 128, 300, UINT32_MAX, INT64_MAX, UINT64_MAX };
	static const int64_t signs[] = { 0, -1, 1, -64, 64, INT64_MIN, INT64_MAX };
	struct espl__buf b = { NULL, 0, 0 };
	struct espl__reader r;
	char text[8];
	size_t size;

	espl__put_u8(&b, 200);
	espl__put_u32(&b, 0x01020304);
	espl__put_u64(&b, UINT64_C(0x0102030405060708));
	for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++)
		espl__put_v64(&b, wholes[i]);
	for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
		espl__put_z64(&b, signs[i]);
	espl__put_f64(&b, -0.1);
	espl__put_f64(&b, -NAN);
	espl__put_str(&b, "seven77");
	espl__put_str(&b, NULL);
	espl__put_bytes(&b, "ab\0c", 4);
	cr_assert_eq(b.data[1], 4, "integers are little-endian");

	r = espl__reader(b.data, b.size);
	cr_assert_eq(espl__get_u8(&r), 200);
	cr_assert_eq(espl__get_u32(&r), 0x01020304);
	cr_assert_eq(espl__get_u64(&r), UINT64_C(0x0102030405060708));
	for (size_t i = 0; i < sizeof wholes / sizeof wholes[0]; i++)
		cr_assert_eq(espl__get_v64(&r), wholes[i]);
	for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
		cr_assert_eq(espl__get_z64(&r), signs[i]);
	cr_assert_eq(espl__get_f64(&r), -0.1);
	cr_assert(isnan(espl__get_f64(&r)));
	espl__get_str(&r, text, sizeof text);
	same_text(text, "seven77");
	espl__get_str(&r, text, sizeof text);
	same_text(text, "");
	cr_assert_arr_eq(espl__get_bytes(&r, &size), "ab\0c", 4);
	cr_assert_eq(size, 4);
	cr_assert(!r.bad && r.at == r.end);
	cr_assert_eq(espl__get_u8(&r), 0);
	cr_assert(r.bad);

	/* Every cut is noticed and nothing beyond the cut is read. */
	for (size_t cut = 0; cut < b.size; cut++) {
		uint8_t *copy = malloc(cut + 1);

		memcpy(copy, b.data, cut);
		copy = realloc(copy, cut > 0 ? cut : 1);
		r = espl__reader(copy, cut);
		espl__get_u8(&r), espl__get_u32(&r), espl__get_u64(&r);
		for (int i = 0; i < 15; i++)
			espl__get_v64(&r);
		espl__get_f64(&r), espl__get_f64(&r);
		espl__get_str(&r, text, sizeof text), espl__get_str(&r, text, sizeof text);
		espl__get_bytes(&r, &size);
		cr_assert(r.bad, "cut at %zu", cut);
		free(copy);
	}
	espl__buf_free(&b);
}

Test(base, bad_bytes_are_refused)
{
	static const uint8_t too_wide[] = { 255, 255, 255, 255, 255, 255, 255, 255, 255, 2 };
	static const uint8_t endless[] = { 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 0 };
	static const uint8_t huge[] = { 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 'x' };
	static const uint8_t nul[] = { 3, 'a', 0, 'b' }, longer[] = { 4, 'a', 'b', 'c', 'd' };
	struct espl__reader r = espl__reader(too_wide, sizeof too_wide);
	char text[4];
	size_t size;

	cr_assert_eq(espl__get_v64(&r), 0);
	cr_assert(r.bad);
	r = espl__reader(endless, sizeof endless);
	cr_assert_eq(espl__get_v64(&r), 0);
	cr_assert(r.bad);
	r = espl__reader(huge, sizeof huge);
	cr_assert_null(espl__get_bytes(&r, &size));
	cr_assert(r.bad);
	r = espl__reader(nul, sizeof nul);
	espl__get_str(&r, text, sizeof text);
	cr_assert(r.bad);
	same_text(text, "");
	r = espl__reader(NULL, 0);
	cr_assert_null(espl__get_bytes(&r, &size));
	cr_assert(r.bad);
	r = espl__reader(longer, sizeof longer);
	espl__get_str(&r, text, sizeof text);
	cr_assert(r.bad);
}

Test(base, text_and_json)
{
	struct espl__buf b = { NULL, 0, 0 };
	char big[500];

	same_text(espl__buf_text(&b), "");
	memset(big, 'y', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	espl__print(&b, "%s|", big);
	espl__print(&b, "%d", 7);
	cr_assert_eq(b.size, 501);
	same_text(espl__buf_text(&b) + 499, "|7");
	espl__buf_clear(&b);
	espl__print_json(&b,
	    "a\"b\\\n\t\x01 gr\xc3\xbc\xc3\x9f \xff \xc0\xaf \xed\xa0\x80 \xf0\x9f\x98\x80 "
	    "\xe2\x82");
	same_text(espl__buf_text(&b),
	    "\"a\\\"b\\\\\\n\\t\\u0001 gr\xc3\xbc\xc3\x9f \\ufffd \\ufffd\\ufffd "
	    "\\ufffd\\ufffd\\ufffd \xf0\x9f\x98\x80 \\ufffd\\ufffd\"");
	espl__buf_clear(&b);
	espl__print_number(&b, 0.1 + 0.2);
	espl__print(&b, " ");
	espl__print_number(&b, 1e300 * 1e300);
	same_text(espl__buf_text(&b), "0.30000000000000004 null");
	espl__buf_free(&b);
}

Test(base, checksums)
{
	uint8_t bytes[300], zeros[32] = { 0 };

	/* Values of RFC 3720, B.4, and of the usual check string. */
	cr_assert_eq(espl__crc32c(0, "123456789", 9), 0xe3069283);
	cr_assert_eq(espl__crc32c(0, zeros, 32), 0x8a9136aa);
	cr_assert_eq(espl__crc32c_portable(0, zeros, 32), 0x8a9136aa);
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 31 + 7);
	for (size_t i = 0; i <= sizeof bytes; i++) {
		uint32_t whole = espl__crc32c(0, bytes, sizeof bytes);

		cr_assert_eq(espl__crc32c(espl__crc32c(0, bytes, i), bytes + i, sizeof bytes - i),
		    whole);
		cr_assert_eq(espl__crc32c_portable(0, bytes, i), espl__crc32c(0, bytes, i));
	}
	/* Fixed, since journals are compared across machines. */
	cr_assert_eq(espl__digest(0, "", 0), espl__digest(0, "", 0));
	cr_assert_neq(espl__digest(0, "a", 1), espl__digest(0, "b", 1));
	cr_assert_neq(espl__digest(0, "a", 1), espl__digest(1, "a", 1));
	cr_assert_neq(espl__digest(0, "a\0", 2), espl__digest(0, "a", 1));
	cr_assert_neq(espl__digest(0, zeros, 8), espl__digest(0, zeros, 16));
	cr_assert_eq(espl__digest(0, "espalier", 8), UINT64_C(0xfd77946c8deb475d));
}

Test(base, maps)
{
	struct espl__map map = { 0 };
	struct espl__names names = { 0 };
	static int values[2000];
	uint64_t keys[2000];
	struct espl__rng rng;

	cr_assert_null(espl__map_get(&map, 1));
	cr_assert_null(espl__map_remove(&map, 1));
	espl__rng_seed(&rng, 1, "map");
	for (size_t i = 0; i < 2000; i++) {
		keys[i] = i % 2 ? i : espl__rng_next(&rng);
		espl__map_set(&map, keys[i], &values[i]);
	}
	espl__map_set(&map, 0, &values[0]);
	espl__map_set(&map, UINT64_MAX, &values[1]);
	cr_assert_eq(map.count, 2002);
	for (size_t i = 0; i < 2000; i += 3)
		cr_assert_eq(espl__map_remove(&map, keys[i]), &values[i]);
	for (size_t i = 0; i < 2000; i++)
		cr_assert_eq(espl__map_get(&map, keys[i]), i % 3 ? &values[i] : NULL, "key %zu", i);
	cr_assert_eq(espl__map_get(&map, UINT64_MAX), &values[1]);
	espl__map_set(&map, UINT64_MAX, &values[2]);
	cr_assert_eq(espl__map_get(&map, UINT64_MAX), &values[2]);
	espl__map_free(&map);
	cr_assert_null(espl__map_get(&map, 0));

	cr_assert_eq(espl__names_find(&names, "loss"), ESPL_ANY);
	cr_assert_eq(espl__names_add(&names, "loss"), 0);
	cr_assert_eq(espl__names_add(&names, "accuracy"), 1);
	cr_assert_eq(espl__names_add(&names, "loss"), 0);
	cr_assert_eq(espl__names_find(&names, "accuracy"), 1);
	espl__names_free(&names);
	for (uint32_t i = 0; i < 40000; i++) { /* what took minutes, one by one */
		char name[16];

		(void)snprintf(name, sizeof name, "m%u", i);
		cr_assert_eq(espl__names_add(&names, name), i);
	}
	cr_assert_eq(espl__names_find(&names, "m0"), 0);
	cr_assert_eq(espl__names_find(&names, "m39999"), 39999);
	cr_assert_eq(espl__names_find(&names, "m40000"), ESPL_ANY);
	espl__names_free(&names);
	cr_assert_eq(espl__names_find(&names, "m0"), ESPL_ANY);
}

/* An object of metrics m0, m1, ... with "loss" at the end. */
static json_t *
many_metrics(uint32_t count)
{
	json_t *object = json_object();

	for (uint32_t i = 0; i < count; i++) {
		char name[16];

		(void)snprintf(name, sizeof name, "m%u", i);
		json_object_set_new(object, name, json_real(i));
	}
	json_object_set_new(object, "loss", json_real(0.5));
	return object;
}

static double
value_of(const struct espl__metrics_read *read, const char *name)
{
	for (uint32_t i = 0; i < read->count; i++)
		if (strcmp(read->list[i].name, name) == 0)
			return read->list[i].value;
	return NAN;
}

Test(base, metrics_beyond_the_limits_are_dropped_but_never_the_objective)
{
	struct espl__names known = { 0 };
	struct espl__metrics_read read;
	json_t *object = many_metrics(300);

	cr_assert_eq(espl__metrics_read(object, "loss", &known, &read), 0);
	cr_assert(read.count == 256 && read.dropped == 45 && read.beyond_run == 0);
	cr_assert_eq(value_of(&read, "loss"), 0.5);
	cr_assert_str_eq(read.first_dropped, "m255");
	cr_assert_eq(known.count, 0, "reading alone makes no name known");
	espl__metrics_free(&read);
	cr_assert_eq(espl__metrics_read(object, NULL, &known, &read), 0);
	cr_assert(read.count == 256 && read.dropped == 45);
	espl__metrics_free(&read);
	json_decref(object);

	for (uint32_t i = 0; i < ESPL__METRICS_IN_RUN; i++) {
		char name[16];

		(void)snprintf(name, sizeof name, "old%u", i);
		(void)espl__names_add(&known, name);
	}
	object = many_metrics(3);
	json_object_set_new(object, "old7", json_string("-Infinity"));
	cr_assert_eq(espl__metrics_read(object, "loss", &known, &read), 0);
	cr_assert(read.count == 2 && read.fresh == 1 && read.dropped == 3 && read.beyond_run == 3);
	cr_assert_eq(value_of(&read, "loss"), 0.5);
	cr_assert_eq(value_of(&read, "old7"), -INFINITY);
	espl__metrics_free(&read);
	json_object_set_new(object, "bad", json_string("one"));
	cr_assert_eq(espl__metrics_read(object, "loss", &known, &read), -1);
	cr_assert(read.wrong == ESPL__METRICS_NO_NUMBER && strcmp(read.wrong_name, "bad") == 0);
	espl__metrics_free(&read);
	json_decref(object);
	espl__names_free(&known);
}

Test(base, numbers_of_reports)
{
	cr_assert(espl__iteration_of(1) == 1 && espl__iteration_of(9007199254740992.0) != 0);
	cr_assert(espl__iteration_of(0) == 0 && espl__iteration_of(-5) == 0 &&
	    espl__iteration_of(1.5) == 0 && espl__iteration_of(NAN) == 0 &&
	    espl__iteration_of(INFINITY) == 0 && espl__iteration_of(1e19) == 0);
	cr_assert(espl__metric_is_too_good(-INFINITY, 0) && espl__metric_is_too_good(INFINITY, 1));
	cr_assert(!espl__metric_is_too_good(INFINITY, 0) &&
	    !espl__metric_is_too_good(-INFINITY, 1) && !espl__metric_is_too_good(NAN, 0) &&
	    !espl__metric_is_too_good(-1e308, 0));
}

Test(base, random_streams)
{
	struct espl__rng a, b, c;
	double sum = 0, squares = 0, least = 1, most = 0;

	espl__rng_seed(&a, 7, "algorithm");
	espl__rng_seed(&b, 7, "algorithm");
	espl__rng_seed(&c, 7, "cloud");
	cr_assert_eq(espl__rng_next(&a), espl__rng_next(&b));
	cr_assert_neq(espl__rng_next(&a), espl__rng_next(&c));
	espl__rng_seed(&b, 8, "algorithm");
	cr_assert_neq(espl__rng_next(&a), espl__rng_next(&b));
	/* xoshiro256** from the state 1 2 3 4, as published. */
	a = (struct espl__rng){ { 1, 2, 3, 4 } };
	cr_assert_eq(espl__rng_next(&a), 11520);
	cr_assert_eq(espl__rng_next(&a), 0);
	cr_assert_eq(espl__rng_next(&a), 1509978240);
	for (int i = 0; i < 100000; i++) {
		double u = espl__rng_uniform(&a), n = espl__rng_normal(&a);

		least = u < least ? u : least;
		most = u > most ? u : most;
		sum += n;
		squares += n * n;
	}
	cr_assert(least >= 0 && least < 0.001 && most < 1 && most > 0.999);
	cr_assert_lt(fabs(sum / 100000), 0.015);
	cr_assert_lt(fabs(squares / 100000 - 1), 0.03);
}

Test(base, numbers_that_users_write)
{
	static const char *const wrong_ints[] = { "", "-", "1 ", " 1", "1.0", "0x10", "1e3",
		"9223372036854775808", "-9223372036854775809", "99999999999999999999" };
	static const char *const wrong_reals[] = { "", ".", "1e", "inf", "nan", "0x1p3", "1e999",
		" 1", "1,5", "1.5.2" };
	int64_t i = 0;
	double r = 0;

	cr_assert(espl__parse_int("-9223372036854775808", &i) == 0 && i == INT64_MIN);
	cr_assert(espl__parse_int("9223372036854775807", &i) == 0 && i == INT64_MAX);
	cr_assert(espl__parse_int("+12", &i) == 0 && i == 12);
	for (size_t k = 0; k < sizeof wrong_ints / sizeof wrong_ints[0]; k++)
		cr_assert_eq(espl__parse_int(wrong_ints[k], &i), -1, "'%s'", wrong_ints[k]);
	cr_assert_eq(i, 12, "a refused text writes nothing");
	cr_assert(espl__parse_real("-1.5e-3", &r) == 0 && r == -1.5e-3);
	cr_assert(espl__parse_real(".5", &r) == 0 && r == 0.5);
	cr_assert(espl__parse_real("1e-400", &r) == 0 && r == 0);
	for (size_t k = 0; k < sizeof wrong_reals / sizeof wrong_reals[0]; k++)
		cr_assert_eq(espl__parse_real(wrong_reals[k], &r), -1, "'%s'", wrong_reals[k]);
	cr_assert(espl__parse_bool("on", &i) == 0 && i == 1);
	cr_assert(espl__parse_bool("false", &i) == 0 && i == 0);
	cr_assert_eq(espl__parse_bool("maybe", &i), -1);
}

Test(base, spans_bytes_and_money)
{
	static const struct {
		const char *text;
		int64_t ns;
		const char *back;
	} spans[] = {
		{ "90s", 90 * ESPL_SECOND, "1m30s" },
		{ "1234.5s", 1234500000000, "20m34.5s" },
		{ "1h30m", 5400 * ESPL_SECOND, "1h30m" },
		{ "1.5h", 5400 * ESPL_SECOND, "1h30m" },
		{ "250ms", 250000000, "250ms" },
		{ "10us", 10000, "10us" },
		{ "0", 0, "0s" },
		{ "0.1s", 100000000, "100ms" },
		{ "1.5ms", 1500000, "1.5ms" },
		{ "1ns", 1, "1ns" },
		{ "2d", 172800 * ESPL_SECOND, "48h" },
		{ "1h0.000000001s", 3600000000001, "1h1ns" },
		{ "0.333333333333333333333s", 333333333, "333.333333ms" },
	};
	static const char *const wrong_spans[] = { "", "90", "s", "-1s", "1m1h", "1s1s", "1h 30m",
		"1x", "10000000000s", "99999999999999999999s", "9999d99999999999d", "1e3s",
		"1.2.3s" };
	char to[32];
	int64_t v = 5;

	for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
		cr_assert_eq(espl__parse_span(spans[i].text, &v), 0, "'%s'", spans[i].text);
		cr_assert_eq(v, spans[i].ns, "'%s' gave %lld", spans[i].text, (long long)v);
		same_text(espl__format_span(v, to), spans[i].back);
		cr_assert(espl__parse_span(to, &v) == 0 && v == spans[i].ns, "'%s'", to);
	}
	v = 5;
	for (size_t i = 0; i < sizeof wrong_spans / sizeof wrong_spans[0]; i++)
		cr_assert_eq(espl__parse_span(wrong_spans[i], &v), -1, "'%s'", wrong_spans[i]);
	cr_assert_eq(v, 5);
	same_text(espl__format_short(92 * ESPL_SECOND, to), "1m32s");
	same_text(espl__format_short(450 * ESPL_SECOND / 1000, to), "450ms");
	same_text(espl__format_short(ESPL_NEVER, to), "never");
	same_text(espl__format_short(-ESPL_SECOND * 2, to), "-2.0s");

	cr_assert(espl__parse_bytes("512", &v) == 0 && v == 512);
	cr_assert(espl__parse_bytes("64KiB", &v) == 0 && v == 65536);
	cr_assert(espl__parse_bytes("1.5GB", &v) == 0 && v == 1500000000);
	cr_assert(espl__parse_bytes("64Ki", &v) == -1 && espl__parse_bytes("9000000PiB", &v) == -1);
	cr_assert(espl__parse_bytes("-1", &v) == -1 && espl__parse_bytes("1 GB", &v) == -1);

	cr_assert(espl__parse_money("12.24", &v) == 0 && v == 12240000);
	same_text(espl__format_money(v, to), "12.24");
	cr_assert(espl__parse_money("0.0000166667", &v) == 0 && v == 17);
	cr_assert(espl__parse_money("1e-05", &v) == 0 && v == 10);
	same_text(espl__format_money(v, to), "0.00001");
	same_text(espl__format_money(-ESPL_USD * 3, to), "-3.00");
	cr_assert(espl__parse_money("1e30", &v) == -1 && espl__parse_money("$1", &v) == -1);
	cr_assert(espl__parse_money("", &v) == -1 && espl__parse_money("1e", &v) == -1);
}

Test(base, reals_read_back_and_near_names)
{
	static const char *const names[] = { "eta", "trials", "iterations_min", "iterations_max" };
	static const double values[] = { 0.1, 1e300, 5e-324, 1.0 / 3, 123456789012345680.0, -0.0 };
	char to[32];
	double back;

	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
		cr_assert_eq(espl__parse_real(espl__format_real(values[i], to), &back), 0);
		cr_assert_eq(back, values[i]);
	}
	same_text(espl__format_real(0.1, to), "0.1");
	same_text(espl__format_real(5e-324, to), "5e-324");
	same_text(espl__format_value(5e-324, to), "5.0e-324");
	same_text(espl__format_value(-2, to), "-2.0");
	same_text(espl__format_value(1e-5, to), "1.0e-05");
	same_text(espl__format_value(1.5e-5, to), "1.5e-05");
	same_text(espl__format_value(1e300, to), "1.0e+300");
	same_text(espl__nearest("eat", names, 4), "eta");
	same_text(espl__nearest("iteration_max", names, 4), "iterations_max");
	same_text(espl__nearest("Trials", names, 4), "trials");
	same_text(espl__nearest("beta", names, 4), "eta");
	cr_assert_null(espl__nearest("seat", names, 4)); /* half of it is other letters */
	cr_assert_null(espl__nearest("zzz", names, 4));
	cr_assert_null(espl__nearest("x", names, 4));
	cr_assert_null(espl__nearest("", names, 4));
}

/* What printf and strtod make of it: the reference. */
static const char *
print_real(double value, char to[32])
{
	for (int digits = fabs(value) < DBL_MIN ? 1 : 15; digits <= 17; digits++) {
		snprintf(to, 32, "%.*g", digits, value);
		if (strtod(to, NULL) == value)
			break;
	}
	return to;
}

static void
same_real(double value)
{
	char to[32], reference[32];

	same_text(espl__format_real(value, to), print_real(value, reference));
	same_text(espl__format_real(-value, to), print_real(-value, reference));
}

Test(base, reals_have_the_shortest_text)
{
	static const double ends[] = { 0.0, 1e-5, 1e-4, 1e13, 1e14, 999999999999999.9, 1e15, 1e17,
		1e22 };
	struct espl__rng rng;

	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		same_real(nextafter(ends[i], 0.0));
		same_real(ends[i]);
		same_real(nextafter(ends[i], INFINITY));
	}
	for (int i = -20; i < 60; i++) {
		same_real(nextafter(ldexp(1.0, i), 0.0));
		same_real(ldexp(1.0, i));
		same_real(ldexp(1.5, i));
		same_real(nextafter(ldexp(1.0, i), INFINITY));
	}
	espl__rng_seed(&rng, 7, "reals");
	for (int i = 0; i < 20000; i++) {
		double u = (double)(espl__rng_next(&rng) >> 11) * 0x1.0p-53,
		       ten = pow(10, i % 20 - 5);
		double some = round(u * pow(10, i % 17)) / pow(10, i % 17);

		same_real(u * ten);        /* 16 or 17 digits */
		same_real(some * ten);     /* few digits, or nearly so */
		same_real(rint(u * ten));  /* an integer */
		same_real((float)u * ten); /* more zeros at its end */
	}
}

static void
keep(void *ctx, espl_level level, const char *text)
{
	snprintf(ctx, 100, "%u %s", (unsigned)level, text);
}

Test(base, log_and_quantiles)
{
	static struct espl__quantiles q;
	char got[100] = "";

	espl__log_to(keep, got, ESPL_INFO);
	espl__log(ESPL_DEBUG, "unseen");
	same_text(got, "");
	espl__log(ESPL_WARN, "node %d", 3);
	same_text(got, "3 node 3");
	cr_assert(!espl__log_wants(ESPL_DEBUG) && espl__log_wants(ESPL_ERROR));
	espl__log_to(NULL, NULL, ESPL_INFO);

	cr_assert_eq(espl__quantiles_at(&q, 0.5), 0);
	for (int64_t i = 1; i <= 1000; i++)
		espl__quantiles_add(&q, i * 1000);
	cr_assert_float_eq(espl__quantiles_at(&q, 0.5), 500000, 10000);
	cr_assert_float_eq(espl__quantiles_at(&q, 0.95), 950000, 19000);
	cr_assert_eq(espl__quantiles_at(&q, 1.0), 1000000);
	cr_assert(q.max == 1000000 && q.count == 1000);
	espl__quantiles_add(&q, INT64_MAX);
	cr_assert_eq(q.max, INT64_MAX);
	cr_assert_leq(espl__tick(), espl__tick());
}

Test(base, certificate_authorities)
{
	cr_assert_eq(setenv("SSL_CERT_FILE", "/here/ours.pem", 1), 0);
	cr_assert_eq(unsetenv("CURL_CA_BUNDLE"), 0);
	cr_assert_str_eq(espl__find_authorities(), "/here/ours.pem");
	cr_assert_eq(setenv("CURL_CA_BUNDLE", "/here/curl.pem", 1), 0);
	cr_assert_str_eq(espl__find_authorities(), "/here/curl.pem");
	cr_assert_eq(setenv("CURL_CA_BUNDLE", "", 1), 0);
	cr_assert_eq(setenv("SSL_CERT_FILE", "", 1), 0);
	if (access("/etc/ssl/certs/ca-certificates.crt", R_OK) == 0)
		cr_assert_str_eq(espl__find_authorities(), "/etc/ssl/certs/ca-certificates.crt");
}

Test(base, files_as_wholes)
{
	pid_t child;
	int status;
	char root[] = "/tmp/espalier-test-XXXXXX", path[200], deep[200];
	struct espl__diag d = ESPL__DIAG_INIT;
	struct espl__buf b = { NULL, 0, 0 };
	int fd, other;
	struct stat st;

	cr_assert_not_null(mkdtemp(root));
	snprintf(deep, sizeof deep, "%s/a//b/c/", root);
	cr_assert_eq(espl__dir_make(deep, &d), ESPL_OK, "%s", d.text);
	cr_assert_eq(espl__dir_make(deep, &d), ESPL_OK);
	snprintf(path, sizeof path, "%s/a/b/c/file", root);
	cr_assert_eq(espl__file_write(path, "old", 3, &d), ESPL_OK);
	cr_assert_eq(espl__file_write(path, "newer", 5, &d), ESPL_OK);
	cr_assert_eq(espl__file_read(path, 5, &b, &d), ESPL_OK);
	same_text(espl__buf_text(&b), "newer");
	cr_assert_eq(espl__file_read(path, 4, &b, &d), ESPL_E_LIMIT);
	d.status = ESPL_OK;
	snprintf(deep, sizeof deep, "%s/a/b/c/file/d", root);
	cr_assert_neq(espl__dir_make(deep, &d), ESPL_OK);
	d.status = ESPL_OK;
	cr_assert_eq(espl__file_read("/nonexistent/x", 10, &b, &d), ESPL_E_UNKNOWN);
	cr_assert_not_null(strstr(d.text, "/nonexistent/x"));
	d.status = ESPL_OK;
	cr_assert_neq(espl__file_read(root, 10, &b, &d), ESPL_OK, "a folder is no file");
	cr_assert_neq(espl__file_write("/nonexistent/x", "", 0, NULL), ESPL_OK);

	snprintf(path, sizeof path, "%s/lock", root);
	cr_assert_eq(espl__lock(path, &fd, &d), ESPL_OK);
	d.status = ESPL_OK;
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) /* a child has no part in it, another process is refused */
		_exit(espl__lock(path, &other, &d) == ESPL_E_BUSY && other == -1 ? 0 : 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	close(fd);
	cr_assert_eq(espl__lock(path, &fd, &d), ESPL_OK);
	close(fd);

	/* A link out of the tree is removed, what it points to stays; so does a closed folder go.
	 */
	snprintf(path, sizeof path, "%s/a/link", root);
	cr_assert_eq(symlink("/usr", path), 0);
	snprintf(path, sizeof path, "%s/a/b", root);
	cr_assert_eq(chmod(path, 0), 0);
	cr_assert_eq(espl__tree_remove(root, &d), ESPL_OK, "%s", d.text);
	cr_assert_neq(stat(root, &st), 0);
	cr_assert_eq(stat("/usr", &st), 0);
	cr_assert_eq(espl__tree_remove(root, &d), ESPL_OK, "absent is fine");
	espl__buf_free(&b);
}
