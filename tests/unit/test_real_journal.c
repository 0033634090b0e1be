/* test_real_journal.c - whole runs whose driver dies, fails or finds no room: what its journal then
 * holds. */
#include <sys/resource.h>

#include "run/journal.h"
#include "test_real.h"

/* Records in the run's journal beside its header, and events of one type in its rounds. */
static unsigned
in_journal(const struct bench *b, enum espl__event_type type, unsigned *events)
{
	char path[128];
	struct espl__journal_reader *reader;
	struct espl__journal_header header;
	struct espl__reader payload;
	struct espl__arena arena = { 0 };
	enum espl__record kind;
	uint64_t lost, count;
	unsigned records = 0;

	*events = 0;
	snprintf(path, sizeof path, "%s/journal", b->run);
	cr_assert_eq(espl__journal_open(path, &reader, &header, NULL), ESPL_OK);
	for (; espl__journal_next(reader, &kind, &payload, &lost, NULL) == 1; records++) {
		struct espl__event event;

		if (kind != ESPL__REC_ROUND)
			continue;
		(void)espl__get_v64(&payload);
		for (count = espl__get_v64(&payload); count > 0; count--) {
			cr_assert_eq(espl__event_get(&payload, &arena, &event), 0);
			*events += event.type == type;
		}
	}
	cr_assert_eq(lost, 0);
	espl__journal_reader_free(reader);
	espl__arena_free(&arena);
	return records;
}

static void
is_written(struct bench *b)
{
	unsigned written;

	(void)in_journal(b, ESPL__EV_REPORT, &written);
	cr_assert_geq(written, b->reports);
}

Test(real, what_is_reported_is_written_before_it_is_heard)
{
	struct bench b;
	unsigned written;
	int status;
	pid_t pid;

	begin(&b, good_trial, "checkpoint = true; gpus_max = 1;", SHA9 LOCAL(2, 2));
	b.on_report = is_written;
	cr_assert_eq(drive(&b, 0), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.reports, 21);
	finish(&b);
	/* So a driver that dies of a report has it when it comes back. */
	begin(&b, good_trial, "checkpoint = true; gpus_max = 1;", SHA9 LOCAL(2, 2));
	pid = fork();
	if (pid == 0) {
		die_at = 5;
		b.on_report = die;
		(void)drive(&b, 0);
		_exit(0);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFSIGNALED(status));
	while (waitpid(-1, &status, 0) > 0) /* its agents */
		continue;
	(void)in_journal(&b, ESPL__EV_REPORT, &written);
	cr_assert_geq(written, 5);
	cr_assert_eq(drive(&b, 1), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.how, ESPL__RUN_DONE);
	cr_assert_eq(b.summary.reports, 21);
	finish(&b);
}

Test(real, a_round_that_fails_leaves_no_record)
{
	struct espl__event events[2] = { { .type = ESPL__EV_START }, { .type = ESPL__EV_CLOUD } };
	struct espl__buf round = { 0 };
	struct bench b;
	struct stat st;
	struct espl__journal *journal;
	char path[128];
	unsigned clouds;

	begin(&b, good_trial, "gpus_min = 9;",
	    "algorithm = { use = \"random\"; trials = 1; iterations_max = 1; };\n" LOCAL(2, 2));
	cr_assert_eq(drive(&b, 0), ESPL_E_CONFIG);
	cr_assert_eq(in_journal(&b, ESPL__EV_CLOUD, &clouds), 0);
	finish(&b);
	/* It is there if the driver was killed in that very moment: then it fails once more. */
	begin(&b, good_trial, "gpus_max = 1;", ONE(3));
	b.interrupt = 2;
	cr_assert_eq(drive(&b, 0), ESPL_E_LIMIT);
	b.interrupt = 0;
	cr_assert_eq(in_journal(&b, ESPL__EV_CLOUD, &clouds), 0);
	snprintf(path, sizeof path, "%s/journal", b.run);
	cr_assert_eq(stat(path, &st), 0);
	{
		struct espl__journal_reader *reader;
		struct espl__journal_header header;
		uint64_t valid;
		uint32_t chain;

		cr_assert_eq(espl__journal_open(path, &reader, &header, NULL), ESPL_OK);
		espl__journal_where(reader, &valid, &chain);
		espl__journal_reader_free(reader);
		cr_assert_eq(espl__journal_append_to(path, valid, chain, &journal, NULL), ESPL_OK);
	}
	events[1].as.cloud.status = ESPL_E_REMOTE;
	events[1].as.cloud.text = "out of reach";
	espl__put_v64(&round, 0);
	espl__put_v64(&round, 2);
	espl__event_put(&events[0], &round);
	espl__event_put(&events[1], &round);
	espl__journal_add(journal, ESPL__REC_ROUND, round.data, round.size);
	cr_assert_eq(espl__journal_close(journal, NULL), ESPL_OK);
	espl__buf_free(&round);
	cr_assert_eq(in_journal(&b, ESPL__EV_CLOUD, &clouds), 1);
	cr_assert_eq(drive(&b, 1), ESPL_E_REMOTE);
	cr_assert_not_null(strstr(b.diag.text, "out of reach"));
	cr_assert_eq(in_journal(&b, ESPL__EV_CLOUD, &clouds), 0);
	cr_assert_eq(drive(&b, 1), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.how, ESPL__RUN_DONE);
	finish(&b);
}

Test(real, a_full_disk_ends_the_driver_but_not_the_run)
{
	struct bench b;
	struct rlimit limit = { 2000, 2000 };
	int status;
	pid_t pid;

	begin(&b, good_trial, "checkpoint = true; gpus_max = 1;",
	    "algorithm = { use = \"random\"; trials = 2; iterations_max = 60; };\n" LOCAL(1, 2));
	pid = fork();
	if (pid == 0) {
		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &limit);
		status = drive(&b, 0);
		_exit(status != ESPL_OK && strstr(b.diag.text, "journal") != NULL ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	cr_assert_eq(drive(&b, 1), ESPL_OK, "%s", b.diag.text);
	cr_assert_eq(b.summary.how, ESPL__RUN_DONE);
	cr_assert_eq(b.summary.finished, 2);
	cr_assert_eq(b.summary.reports, 120);
	finish(&b);
}
