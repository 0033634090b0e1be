/* test_helper.c - the helper for trials in C, used carelessly and in odd surroundings. */
#include <criterion/criterion.h>
#include <sys/wait.h>

#include "espalier_trial.h"

static struct espalier_trial t;
static int driver; /* the other end of its report socket */

/* A trial whose parameters are this text. */
static int
begin(const char *params)
{
	char path[] = "/tmp/espalier-helper-XXXXXX", number[16];
	int ends[2], file = mkstemp(path), status;

	cr_assert(file >= 0 && write(file, params, strlen(params)) == (ssize_t)strlen(params));
	close(file);
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	driver = ends[0];
	snprintf(number, sizeof number, "%d", ends[1]);
	setenv("ESPALIER_TRIAL", "1", 1);
	setenv("ESPALIER_BUDGET", "9", 1);
	setenv("ESPALIER_PARAMS", path, 1);
	setenv("ESPALIER_REPORT_FD", number, 1);
	status = espalier_start(&t, 3);
	unlink(path);
	return status;
}

static const char *
heard(void)
{
	static char text[20000];
	ssize_t n = recv(driver, text, sizeof text - 1, 0);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

Test(helper, parameters_are_found_or_it_is_said)
{
	char room[6];
	const char *seven = "seven";

	cr_assert_eq(begin("{\"a\": \"b\", \"b\": -2.5e-1, \"c\": \"x\\\"y\", \"d\": true, "
			   "\"long\": \"123456\", \"last\": 3}\n"),
	    0);
	cr_assert_eq(espalier_number(&t, "b", 7), -0.25);
	cr_assert_eq(espalier_number(&t, "d", 7), 1);
	cr_assert_eq(espalier_number(&t, "last", 7), 3);
	cr_assert_eq(espalier_number(&t, "none", 7), 7);
	cr_assert_str_eq(espalier_word(&t, "a", seven, room, sizeof room), "b");
	cr_assert_str_eq(espalier_word(&t, "c", seven, room, sizeof room), "x\\\"y");
	cr_assert_eq(espalier_word(&t, "none", seven, room, sizeof room), seven);
	cr_assert_null(espalier_word(&t, "long", seven, room, sizeof room),
	    "cut short it is another word");
	espalier_finish(&t);
}

Test(helper, what_is_no_trial_is_refused)
{
	char number[16];
	int ends[2];

	cr_assert_eq(begin("{}"), 0);
	espalier_finish(&t);
	setenv("ESPALIER_REPORT_FD", "none", 1);
	cr_assert_eq(espalier_start(&t, 3), -1);
	setenv("ESPALIER_REPORT_FD", "999", 1);
	cr_assert_eq(espalier_start(&t, 3), -1);
	cr_assert_eq(pipe(ends), 0);
	snprintf(number, sizeof number, "%d", ends[0]); /* open, but something else */
	setenv("ESPALIER_REPORT_FD", number, 1);
	cr_assert_eq(espalier_start(&t, 3), -1);
	unsetenv("ESPALIER_REPORT_FD");
	setenv("ESPALIER_PARAMS", "/", 1); /* opens, but cannot be read */
	cr_assert_eq(espalier_start(&t, 3), -1);
	setenv("ESPALIER_PARAMS", "/no/such/file", 1);
	cr_assert_eq(espalier_start(&t, 3), -1);
}

Test(helper, reports_are_json_whatever_the_names)
{
	const char *names[2000];
	double values[2000];

	cr_assert_eq(begin("{}"), 0);
	cr_assert_eq(send(driver, "continue 12\nstop\n", 17, 0), 17);
	cr_assert_eq(espalier_report(&t, 1, "a\"b\\\n", 0.1), 0);
	cr_assert_eq(t.budget, 12);
	cr_assert_str_eq(heard(),
	    "{\"iteration\": 1, \"metrics\": {\"a\\u0022b\\u005c\\u000a\": "
	    "0.10000000000000001}}\n");
	cr_assert_eq(espalier_report(&t, 2, "inf", -INFINITY), ESPALIER_END);
	cr_assert_str_eq(heard(), "{\"iteration\": 2, \"metrics\": {\"inf\": \"-inf\"}}\n");
	cr_assert_eq(espalier_report(&t, 2, "other", 1), -1, "once, with all its metrics");
	cr_assert_eq(espalier_report(&t, 1, "a", 1), -1);
	cr_assert_eq(t.iteration, 2);
	for (int i = 0; i < 2000; i++) {
		names[i] = "a metric with a long name";
		values[i] = i;
	}
	cr_assert_eq(espalier_report_all(&t, 3, names, values, 2000), -1);
	close(driver);
	cr_assert_eq(espalier_report(&t, 3, "a", 1), -1, "nobody hears it, and it lives");
	espalier_finish(&t);
}

/* JSON has one decimal point, whatever the program has set. */
Test(helper, decimal_commas)
{
	static const char *const some[] = { "de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "nl_NL.UTF-8" };
	size_t i = 0;

	while (i < 4 && setlocale(LC_ALL, some[i]) == NULL)
		i++;
	if (i == 4)
		cr_skip("no locale with a decimal comma is installed");
	cr_assert_eq(begin("{\"lr\": 0.125}"), 0);
	cr_assert_eq(espalier_number(&t, "lr", 7), 0.125);
	cr_assert_eq(send(driver, "stop\n", 5, 0), 5);
	(void)espalier_report(&t, 1, "loss", 0.5);
	cr_assert_str_eq(heard(), "{\"iteration\": 1, \"metrics\": {\"loss\": 0.5}}\n");
}

static pid_t
sleeper(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

static void
from_another(pid_t pid, int sig)
{
	pid_t other = fork();

	if (other == 0)
		_exit(kill(pid, sig) != 0);
	cr_assert_eq(waitpid(other, NULL, 0), other);
}

Test(helper, sigterm_is_a_notice_to_the_trial_and_an_end_to_its_children)
{
	int status, ends[2];
	char c;
	pid_t child, writer;

	cr_assert_eq(begin("{}"), 0);
	child = sleeper();
	from_another(child, SIGTERM); /* as espalier asks a whole group: it stays */
	cr_assert_eq(usleep(50000), 0);
	cr_assert_eq(waitpid(child, &status, WNOHANG), 0);
	cr_assert_eq(kill(child, SIGTERM), 0); /* its parent asks it */
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	/* The program's own reads are not cut short. */
	cr_assert_eq(pipe(ends), 0);
	writer = fork();
	if (writer == 0) {
		(void)usleep(50000);
		(void)kill(getppid(), SIGTERM);
		(void)usleep(50000);
		_exit(write(ends[1], "x", 1) != 1);
	}
	cr_assert_eq(read(ends[0], &c, 1), 1);
	cr_assert_eq(espalier_report(&t, 1, "loss", 1), ESPALIER_SAVE | ESPALIER_END);
	cr_assert_eq(t.ended, 1);
	espalier_finish(&t);
}
