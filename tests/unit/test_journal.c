/* test_journal.c - what is written comes back; what is torn, moved or damaged does not. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "exec/event.h"
#include "run/journal.h"
#include "base/file.h"
#include "policy/ops.h"

static const struct espl__journal_header header = { ESPL__JOURNAL_FORMAT, "test", 7, 99, 12345,
	1000, 1 };

static char *
temporary(char name[32])
{
	int fd;

	snprintf(name, 32, "%s", "/tmp/espl-journal-XXXXXX");
	fd = mkstemp(name);
	cr_assert(fd >= 0);
	close(fd);
	unlink(name);
	return name;
}

static void
write_some(const char *path, int records)
{
	struct espl__journal *j;

	cr_assert_eq(espl__journal_create(path, &header, &j, NULL), ESPL_OK);
	for (int i = 0; i < records; i++) {
		char text[64];
		int n =
		    snprintf(text, sizeof text, "record %d with some length %*s", i, i % 20, "");
		espl__journal_add(j, i % 2 ? ESPL__REC_DECISIONS : ESPL__REC_ROUND, text,
		    (size_t)n);
	}
	cr_assert_eq(espl__journal_close(j, NULL), ESPL_OK);
}

static struct espl__rest rest; /* what lay behind what was read last */

static int
read_all(const char *path, uint64_t *lost)
{
	struct espl__journal_reader *r;
	struct espl__journal_header h;
	struct espl__reader p;
	enum espl__record type;
	uint32_t chain;
	int n = 0, got;

	if (espl__journal_open(path, &r, &h, NULL) != ESPL_OK)
		return -1;
	cr_assert_eq(h.seed, 7);
	cr_assert_eq(h.digest, 12345);
	cr_assert_str_eq(h.version, "test");
	while ((got = espl__journal_next(r, &type, &p, lost, NULL)) == 1) {
		char text[64];
		snprintf(text, sizeof text, "record %d ", n);
		cr_assert_eq(memcmp(p.at, text, strlen(text)), 0);
		n++;
	}
	cr_assert_eq(got, 0);
	espl__journal_where(r, &rest.at, &chain);
	espl__journal_reader_free(r);
	cr_assert_eq(espl__journal_find_rest(path, rest.at, &rest, NULL), ESPL_OK);
	cr_assert_eq(rest.size, *lost);
	return n;
}

Test(journal, comes_back_and_is_cut_at_every_byte)
{
	char name[32];
	struct stat st;
	uint64_t lost;

	write_some(temporary(name), 20);
	cr_assert_eq(read_all(name, &lost), 20);
	cr_assert_eq(lost, 0);
	cr_assert_eq(stat(name, &st), 0);
	for (off_t size = st.st_size - 1; size > st.st_size - 120; size--) {
		int n;
		cr_assert_eq(truncate(name, size), 0);
		n = read_all(name, &lost);
		cr_assert(n >= 16 && n < 20, "%d records of 20 at %ld bytes", n, (long)size);
	}
	cr_assert_eq(truncate(name, 10), 0);
	cr_assert_eq(read_all(name, &lost), -1);
	unlink(name);
}

Test(journal, a_changed_byte_ends_it_and_appending_goes_on_from_there)
{
	char name[32];
	struct stat st;
	struct espl__journal_reader *r;
	struct espl__journal_header h;
	struct espl__journal *j;
	struct espl__reader p;
	enum espl__record type;
	uint64_t lost, valid;
	uint32_t chain;
	int fd, n = 0;

	write_some(temporary(name), 20);
	cr_assert_eq(stat(name, &st), 0);
	fd = open(name, O_RDWR);
	cr_assert_eq(pwrite(fd, "X", 1, st.st_size / 2), 1);
	close(fd);
	cr_assert_eq(espl__journal_open(name, &r, &h, NULL), ESPL_OK);
	while (espl__journal_next(r, &type, &p, &lost, NULL) == 1)
		n++;
	cr_assert(n > 3 && n < 17);
	cr_assert_gt(lost, 0);
	espl__journal_where(r, &valid, &chain);
	espl__journal_reader_free(r);
	cr_assert_eq(espl__journal_append_to(name, valid, chain, &j, NULL), ESPL_OK);
	for (int i = 0; i < 3; i++) {
		char text[32];
		int size = snprintf(text, sizeof text, "record %d ", n + i);
		espl__journal_add(j, ESPL__REC_ROUND, text, (size_t)size);
	}
	cr_assert_eq(espl__journal_close(j, NULL), ESPL_OK);
	cr_assert_eq(read_all(name, &lost), n + 3);
	cr_assert_eq(lost, 0);
	unlink(name);
}

/* Wherever a byte is changed, sizes included: as long as another record follows it shows. */
Test(journal, damage_is_told_from_a_cut)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__journal_reader *r;
	struct espl__journal_header h;
	char name[32], byte;
	struct stat st;
	uint64_t lost;
	int fd, whole, read;

	write_some(temporary(name), 6);
	cr_assert_eq(stat(name, &st), 0);
	whole = read_all(name, &lost);
	cr_assert(whole == 6 && !rest.damaged);
	fd = open(name, O_RDWR);
	for (off_t at = 100; at < st.st_size - 60; at++) {
		cr_assert_eq(pread(fd, &byte, 1, at), 1);
		byte ^= 0x55;
		cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
		read = read_all(name, &lost);
		cr_expect(read < whole && rest.damaged, "byte %d", (int)at);
		/* Where it is a checksum the record behind it cannot be told, either. */
		cr_expect(rest.records <= (uint64_t)(whole - read - 1) &&
			rest.records + 2 >= (uint64_t)(whole - read),
		    "byte %d: %d records behind, of %d", (int)at, (int)rest.records,
		    whole - read - 1);
		byte ^= 0x55;
		cr_assert_eq(pwrite(fd, &byte, 1, at), 1);
	}
	for (off_t size = st.st_size - 1; size > 100; size--) {
		cr_assert_eq(ftruncate(fd, size), 0);
		cr_expect(read_all(name, &lost) < whole && !rest.damaged && rest.records == 0,
		    "cut to %d", (int)size);
	}
	close(fd);
	unlink(name);
	cr_assert_eq(mkdir(name, 0777), 0);
	cr_expect_eq(espl__journal_open(name, &r, &h, &diag), ESPL_E_CONFIG);
	cr_expect(strstr(diag.text, "is a directory, not a journal") != NULL, "%s", diag.text);
	cr_assert_eq(rmdir(name), 0);
}

/* Far behind, beyond what is looked at in one piece. */
Test(journal, records_are_found_behind_any_damage)
{
	char name[32], path[64], *kept, *noise = malloc(9 << 20);
	struct espl__journal *j;
	uint64_t lost, seed = 1;
	struct stat before, after;
	int fd;

	cr_assert_not_null(noise);
	for (size_t i = 0; i < 9u << 20; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		noise[i] = (char)(seed >> 40);
	}
	cr_assert_eq(espl__journal_create(temporary(name), &header, &j, NULL), ESPL_OK);
	espl__journal_add(j, ESPL__REC_ROUND, "record 0 ", 9);
	espl__journal_add(j, ESPL__REC_ROUND, noise, 9 << 20);
	for (int i = 2; i < 40; i++)
		espl__journal_add(j, ESPL__REC_DECISIONS, noise, (size_t)i * 5000);
	cr_assert_eq(espl__journal_close(j, NULL), ESPL_OK);
	cr_assert_eq(stat(name, &before), 0);
	fd = open(name, O_RDWR);
	cr_assert_eq(pwrite(fd, "XXXX", 4, 200), 4);
	close(fd);
	cr_assert_eq(read_all(name, &lost), 1);
	cr_assert_eq(rest.records, 38);
	cr_assert(rest.damaged);
	for (int i = 1; i <= 2; i++) { /* kept, and what was kept before is not touched */
		snprintf(path, sizeof path, "%s.damaged%s", name, i == 1 ? "" : "-2");
		cr_assert_eq(espl__journal_keep_rest(name, rest.at, &kept, NULL), ESPL_OK);
		cr_assert_str_eq(kept, strrchr(path, '/') + 1);
		cr_assert_eq(stat(path, &after), 0);
		cr_assert_eq((uint64_t)after.st_size + rest.at, (uint64_t)before.st_size);
		free(kept);
	}
	unlink(path);
	path[strlen(path) - 2] = '\0';
	unlink(path);
	cr_assert_eq(espl__journal_keep_rest(name, (uint64_t)before.st_size, &kept, NULL), ESPL_OK);
	cr_assert_null(kept);
	unlink(name);
	free(noise);
}

Test(journal, what_was_added_is_taken_back)
{
	char name[32];
	struct espl__journal *j;
	uint64_t lost;

	for (int written = 0; written < 2; written++) {
		cr_assert_eq(espl__journal_create(temporary(name), &header, &j, NULL), ESPL_OK);
		for (int i = 0; i < 3; i++) {
			char text[32];
			int n = snprintf(text, sizeof text, "record %d ", i);
			espl__journal_mark(j);
			espl__journal_add(j, ESPL__REC_ROUND, "gone", 4);
			if (written)
				cr_assert_eq(espl__journal_commit(j, 0, NULL), ESPL_OK);
			espl__journal_add(j, ESPL__REC_DECISIONS, "gone too", 8);
			cr_assert_eq(espl__journal_take_back(j, NULL), ESPL_OK);
			espl__journal_add(j, ESPL__REC_ROUND, text, (size_t)n);
		}
		cr_assert_eq(espl__journal_close(j, NULL), ESPL_OK);
		cr_assert_eq(read_all(name, &lost), 3);
		cr_assert_eq(lost, 0);
		unlink(name);
	}
}

Test(journal, one_without_a_header_is_told_from_all_else)
{
	char name[32];
	struct stat st;
	int fd;

	write_some(temporary(name), 0);
	cr_assert_eq(stat(name, &st), 0);
	cr_expect(!espl__journal_is_empty(name));
	for (off_t size = st.st_size - 1; size >= 0; size--) {
		cr_assert_eq(truncate(name, size), 0);
		cr_expect(espl__journal_is_empty(name), "cut to %d", (int)size);
	}
	unlink(name);
	cr_expect(!espl__journal_is_empty(name));
	cr_assert_eq(espl__file_write(name, "somebody else's notes\n", 22, NULL), ESPL_OK);
	cr_expect(!espl__journal_is_empty(name));
	cr_assert_eq(truncate(name, 0), 0);
	cr_assert_eq(truncate(name, 77), 0);
	cr_expect(espl__journal_is_empty(name), "zeros");
	write_some((unlink(name), name), 1);
	fd = open(name, O_RDWR);
	cr_assert_eq(pwrite(fd, "X", 1, 10), 1);
	close(fd);
	cr_expect(!espl__journal_is_empty(name));
	unlink(name);
}

Test(journal, a_full_disk_leaves_whole_records)
{
	char name[32];
	struct espl__journal *j;
	struct rlimit limit = { 600, 600 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	uint64_t lost;
	espl_status status = ESPL_OK;
	int written = 0;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(espl__journal_create(temporary(name), &header, &j, NULL), ESPL_OK);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	for (int i = 0; i < 100 && status == ESPL_OK; i++) {
		char text[64];
		int n = snprintf(text, sizeof text, "record %d padded to be long enough", i);
		espl__journal_add(j, ESPL__REC_ROUND, text, (size_t)n);
		status = espl__journal_commit(j, 0, &diag);
		written += status == ESPL_OK;
	}
	cr_assert_neq(status, ESPL_OK);
	cr_assert(diag.hint[0] != '\0');
	(void)espl__journal_close(j, NULL);
	cr_assert_eq(read_all(name, &lost), written);
	cr_assert_eq(lost, 0);
	unlink(name);
}

Test(journal, events_and_ops_survive_their_encoding)
{
	struct espl_latency latency = { sizeof latency, ESPL_NORMAL, 15, 2, NULL, 0, 0 };
	struct espl_offer offer = { .size = sizeof offer,
		.number = ESPL_ANY,
		.gpus = 4,
		.nodes_max = ESPL_ANY,
		.name = "p3",
		.market = "spot",
		.gpu_type = "",
		.zone = "",
		.price_hour = 12240000,
		.provision = &latency,
		.billing = ESPL_BILL_NODE,
		.hazard_hour = 0.5 };
	struct espl__metric metrics[2] = { { 0, 0, 0.5 }, { 3, 0, -1e300 } };
	struct espl__event in[7] = { { .type = ESPL__EV_OFFER }, { .type = ESPL__EV_REPORT },
		{ .type = ESPL__EV_ENDED }, { .type = ESPL__EV_TROUBLE }, { .type = ESPL__EV_GPU },
		{ .type = ESPL__EV_HELD }, { .type = ESPL__EV_ASK } };
	struct espl__arena arena = { 0 };
	struct espl__buf b = { 0 };
	struct espl__reader r;
	struct espl__event e;

	in[0].as.offer = &offer;
	in[1].as.report.gang = 9;
	in[1].as.report.iteration = 300;
	in[1].as.report.count = 2;
	in[1].as.report.metrics = metrics;
	in[2].as.ended.gang = 9;
	in[2].as.ended.how = ESPL__END_FAILED;
	in[2].as.ended.node = ESPL_NONE;
	in[2].as.ended.text = "rank 1: exit status 3";
	in[3].as.text = "no room on node 1";
	in[4].as.gpu.what = ESPL__GPU_MEMORY;
	in[4].as.gpu.id = 70;
	in[4].as.gpu.number = UINT64_C(9) << 40;
	in[4].as.gpu.text = "";
	in[5].as.late = 5 * ESPL_SECOND;
	in[6].as.count = 3000;
	for (int i = 0; i < 7; i++)
		espl__event_put(&in[i], &b);
	r = espl__reader(b.data, b.size);
	cr_assert_eq(espl__event_get(&r, &arena, &e), 0);
	cr_assert_str_eq(e.as.offer->name, "p3");
	cr_assert_eq(e.as.offer->price_hour, 12240000);
	cr_assert_float_eq(e.as.offer->provision->sd_s, 2, 0);
	cr_assert_null(e.as.offer->init);
	cr_assert_eq(espl__event_get(&r, &arena, &e), 0);
	cr_assert_eq(e.as.report.count, 2);
	cr_assert_float_eq(e.as.report.metrics[1].value, -1e300, 0);
	cr_assert_eq(espl__event_get(&r, &arena, &e), 0);
	cr_assert_str_eq(e.as.ended.text, "rank 1: exit status 3");
	cr_assert_eq(e.as.ended.node, ESPL_NONE);
	cr_assert_eq(espl__event_get(&r, &arena, &e), 0);
	cr_assert_str_eq(e.as.text, "no room on node 1");
	cr_assert_eq(espl__event_get(&r, &arena, &e), 0);
	cr_assert(e.as.gpu.what == ESPL__GPU_MEMORY && e.as.gpu.id == 70 &&
	    e.as.gpu.number == UINT64_C(9) << 40);
	cr_assert_eq(espl__event_get(&r, &arena, &e), 0);
	cr_assert_eq(e.as.late, 5 * ESPL_SECOND);
	cr_assert_eq(espl__event_get(&r, &arena, &e), 0);
	cr_assert_eq(e.as.count, 3000);
	cr_assert_eq(r.at, r.end);
	/* every cut is refused, none crashes */
	for (size_t n = 0; n < b.size; n++) {
		r = espl__reader(b.data, n);
		while (r.at < r.end && espl__event_get(&r, &arena, &e) == 0)
			;
	}
	espl__buf_clear(&b);
	{
		double values[2] = { 0.25, 7 };
		struct espl_slot slots[2] = { { 3, 1, 1 }, { 4, 0, 1 } };
		struct espl__op add = { .type = ESPL__OP_ADD }, place = { .type = ESPL__OP_PLACE },
				op;

		add.as.add.group = 5;
		add.as.add.start = (struct espl_start){ .size = sizeof(struct espl_start),
			.how = ESPL_FRESH,
			.trial = ESPL_NONE,
			.values = values,
			.budget = 9,
			.weight = 2 };
		place.as.place.item = 77;
		place.as.place.count = 2;
		place.as.place.slots = slots;
		espl__op_put(&add, 2, &b);
		espl__op_put(&place, 2, &b);
		r = espl__reader(b.data, b.size);
		cr_assert_eq(espl__op_get(&r, 2, &arena, &op), 1);
		cr_assert_eq(op.as.add.start.trial, ESPL_NONE);
		cr_assert_float_eq(op.as.add.start.values[1], 7, 0);
		cr_assert_eq(espl__op_get(&r, 2, &arena, &op), 1);
		cr_assert_eq(op.as.place.slots[1].node, 4);
		cr_assert_eq(espl__op_get(&r, 2, &arena, &op), 0);
	}
	espl__buf_free(&b);
	espl__arena_free(&arena);
}
