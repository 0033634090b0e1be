/* test_serve.c - who is answered by `espalier serve`, what an address asks for, the end of a log.
 */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/ids.h"
#include "serve/server.h"

Test(serve, secrets_are_random_and_long)
{
	char one[2 * ESPL__ACCESS_ROOM + 1], two[2 * ESPL__ACCESS_ROOM + 1];

	cr_assert(espl__access_random(one) == 0 && espl__access_random(two) == 0);
	cr_assert_eq(strlen(one), 32);
	cr_assert_eq(strspn(one, "0123456789abcdef"), 32);
	cr_assert_str_neq(one, two);
}

Test(serve, only_the_whole_secret_is_equal)
{
	cr_assert(espl__access_equal("0123abcd", "0123abcd"));
	cr_assert_not(espl__access_equal(NULL, "0123abcd"));
	cr_assert_not(espl__access_equal("", "0123abcd"));
	cr_assert_not(espl__access_equal("0123abc", "0123abcd"));
	cr_assert_not(espl__access_equal("0123abcd0", "0123abcd"));
	cr_assert_not(espl__access_equal("0123abcD", "0123abcd"));
}

Test(serve, hosts)
{
	static const char *const good[] = { "localhost", "LocalHost:1", "127.0.0.1:65535",
		"127.0.0.1", "[::1]", "[::1]:80" };
	static const char *const bad[] = { "", "localhost:", "localhost:a", "localhost:123456",
		"localhost.", "localhost.evil.com", "evil.com", "127.0.0.1.evil.com", "127.0.0.10",
		"127.0.0.1:80@evil.com", "::1", "localhost:80,evil.com", " localhost" };

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		cr_expect(espl__access_host(good[i]), "%s", good[i]);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		cr_expect_not(espl__access_host(bad[i]), "%s", bad[i]);
	cr_expect_not(espl__access_host(NULL));
}

Test(serve, origins)
{
	cr_expect(espl__access_origin(NULL, "localhost:1"));
	cr_expect(espl__access_origin("http://localhost:1", "localhost:1"));
	cr_expect_not(espl__access_origin("http://localhost:2", "localhost:1"));
	cr_expect_not(espl__access_origin("https://localhost:1", "localhost:1"));
	cr_expect_not(espl__access_origin("null", "localhost:1"));
	cr_expect_not(espl__access_origin("", "localhost:1"));
	cr_expect_not(espl__access_origin("http://localhost:1", NULL));
}

static void
expect_route(const char *url, enum espl__place place, uint32_t run, uint64_t trial)
{
	struct espl__route route = espl__route_of(url, "ab12");

	cr_expect(route.place == place, "%s: %d", url, route.place);
	if (place != ESPL__PLACE_NONE) {
		cr_expect_eq(route.run, run, "%s: %u", url, route.run);
		cr_expect_eq(route.trial, trial, "%s", url);
	}
}

Test(serve, routes)
{
	static const char *const nowhere[] = { "", "/", "ab12/", "/ab12", "/ab1/", "/ab123/",
		"/ab12//", "/ab12/run", "/ab12/0", "/ab12/-1/", "/ab12/+1/", "/ab12/0/nothing",
		"/ab12/4294967296/", "/ab12/0/log", "/ab12/0/log/", "/ab12/0/log/x",
		"/ab12/0/log/1/", "/ab12/0/log/1/2/3", "/ab12/0/log/../1", "/ab12/0/log/ 1",
		"/ab12/0/log/1099511627775", "/ab12/0/log/1000000/1", "/ab12/0/log//1",
		"/ab12/99999999999999999999999/" };

	expect_route("/ab12/", ESPL__PLACE_INDEX, 0, 0);
	expect_route("/ab12/runs", ESPL__PLACE_RUNS, 0, 0);
	expect_route("/ab12/17/", ESPL__PLACE_RUN, 17, 0);
	expect_route("/ab12/17/data", ESPL__PLACE_RUN_DATA, 17, 0);
	expect_route("/ab12/0/stop", ESPL__PLACE_STOP, 0, 0);
	expect_route("/ab12/0/log/3", ESPL__PLACE_LOG, 0, 3);
	expect_route("/ab12/2/log/1/3", ESPL__PLACE_LOG, 2, UINT64_C(1) << ESPL__TRIAL_BITS | 3);
	for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++)
		expect_route(nowhere[i], ESPL__PLACE_NONE, 0, 0);
}

Test(serve, the_end_of_a_log)
{
	char dir[] = "/tmp/espl-serve-XXXXXX", path[96];
	struct espl__buf b = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;

	cr_assert_not_null(mkdtemp(dir));
	(void)snprintf(path, sizeof path, "%s/trials/3", dir);
	cr_assert_eq(espl__tail_log(dir, 3, 100, &b, &diag), ESPL_E_UNKNOWN);
	cr_assert_not_null(strstr(diag.text, "trial 3 has no log"));
	cr_assert_eq(espl__dir_make(path, NULL), ESPL_OK);
	(void)snprintf(path, sizeof path, "%s/trials/3/log", dir);
	cr_assert_eq(espl__file_write(path, "one\ntwo\nthree\n", 14, NULL), ESPL_OK);
	cr_assert_eq(espl__tail_log(dir, 3, 100, &b, NULL), ESPL_OK);
	cr_assert_str_eq(espl__buf_text(&b), "one\ntwo\nthree\n");
	espl__buf_clear(&b);
	cr_assert_eq(espl__tail_log(dir, 3, 9, &b, NULL), ESPL_OK);
	cr_assert_str_eq(espl__buf_text(&b), "three\n", "the rest of a line is left out");
	espl__buf_clear(&b);
	cr_assert(unlink(path) == 0 && mkfifo(path, 0600) == 0);
	cr_assert_eq(espl__tail_log(dir, 3, 9, &b, NULL), ESPL_E_UNKNOWN, "what is no file");
	cr_assert(unlink(path) == 0 && symlink("/etc/passwd", path) == 0);
	cr_assert_eq(espl__tail_log(dir, 3, 9, &b, NULL), ESPL_E_UNKNOWN, "what is a link");
	espl__buf_free(&b);
	cr_assert_eq(espl__tree_remove(dir, NULL), ESPL_OK);
}
