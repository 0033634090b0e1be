/* test_agent_outputs.c - an agent with a private disk and a driver that does not take output files:
 * the gang ends all the same, soon enough, and its node can be released.
 */
#include "agent_peer.h"

#include "base/tick.h"

static char base[64]; /* in which the agent makes its own directory */

/* A driver whose run directory the agent does not see. */
static void
open_private(struct peer *p, struct espl__buf *logs)
{
	struct espl__buf b = { NULL, 0, 0 };
	char *home;

	strcpy(base, "/tmp/espl-outputs-XXXXXX");
	cr_assert_not_null(mkdtemp(base));
	cr_assert_eq(setenv("TMPDIR", base, 1), 0);
	spawn_agent(p, "cpu:2");
	home = espl__format("%s/run", p->dir); /* there is none */
	p->logs = logs;
	espl__put_u32(&b, ESPL__WIRE_PROTOCOL);
	espl__put_str(&b, home);
	espl__put_u64(&b, 0x1234);
	espl__put_u64(&b, 1);
	espl__put_str(&b, "127.0.0.1");
	espl__put_u32(&b, 0);
	say(p, ESPL__MSG_HELLO, &b);
	espl__buf_free(&b);
	free(home);
	cr_assert_eq(hear(p), ESPL__MSG_HELLO_BACK);
}

/* The agent has removed its directory. */
static void
close_private(struct peer *p)
{
	cr_assert_eq(close_agent(p), 0);
	cr_assert_eq(rmdir(base), 0);
}

/* The next message but PONG, while the agent is pinged. */
static uint8_t
next_message(struct peer *p)
{
	for (;;) {
		struct pollfd f = { .fd = p->from, .events = POLLIN };

		while (p->in.size == p->drop && poll(&f, 1, 1000) == 0)
			say(p, ESPL__MSG_PING, NULL);
		if (hear(p) != ESPL__MSG_PONG)
			return p->type;
	}
}

static uint64_t
expect_offer(struct peer *p)
{
	uint64_t number;
	char name[64];

	while (next_message(p) != ESPL__MSG_TREE_OFFER)
		cr_assert_eq(p->type, ESPL__MSG_STARTED, "message %d", p->type);
	number = espl__get_v64(&p->r);
	espl__get_str(&p->r, name, sizeof name);
	cr_assert_str_eq(name, "3/output");
	return number;
}

static void
start_writer(struct peer *p)
{
	struct script s = { .gang = 7,
		.trial = 3,
		.text = "echo x >\"$ESPALIER_OUTPUT/x\"; ln -s / \"$ESPALIER_OUTPUT/out\"" };

	s.directory = "/";
	start(p, &s);
}

Test(agent_outputs, a_driver_that_cannot_store_them_loses_them)
{
	struct espl__buf logs = { NULL, 0, 0 }, b = { NULL, 0, 0 };
	struct peer p;

	open_private(&p, &logs);
	start_writer(&p);
	espl__put_v64(&b, expect_offer(&p));
	espl__put_u8(&b, 1);
	espl__put_str(&b, "cannot write 'x\033[1m': No space left on device");
	say(&p, ESPL__MSG_TREE_KEPT, &b);
	cr_assert_eq(next_message(&p), ESPL__MSG_ENDED);
	cr_assert_not_null(strstr(espl__buf_text(&logs),
			       "trial 3: not all files in its ESPALIER_OUTPUT were sent to the run "
			       "directory: cannot write 'x [1m': No space left on device"),
	    "%s", espl__buf_text(&logs));
	close_private(&p);
	espl__buf_free(&b);
	espl__buf_free(&logs);
}

Test(agent_outputs, a_driver_that_takes_nothing_is_not_waited_for)
{
	struct espl__buf logs = { NULL, 0, 0 };
	int64_t begun;
	uint64_t number;
	struct peer p;

	open_private(&p, &logs);
	start_writer(&p);
	number = expect_offer(&p);
	begun = espl__tick();
	cr_assert_eq(next_message(&p), ESPL__MSG_ENDED);
	cr_assert_eq(next_message(&p), ESPL__MSG_TREE_GONE);
	cr_assert_eq(espl__get_v64(&p.r), number);
	cr_assert_gt(espl__tick() - begun, INT64_C(15000000000));
	cr_assert_not_null(strstr(espl__buf_text(&logs), "took too long"), "%s",
	    espl__buf_text(&logs));
	close_private(&p);
	espl__buf_free(&logs);
}

Test(agent_outputs, an_agent_that_ends_does_not_wait_for_them)
{
	struct espl__buf logs = { NULL, 0, 0 };
	int64_t begun;
	struct peer p;

	open_private(&p, &logs);
	start_writer(&p);
	(void)expect_offer(&p);
	begun = espl__tick();
	close_private(&p);
	cr_assert_lt(espl__tick() - begun, INT64_C(15000000000));
	espl__buf_free(&logs);
}

Test(agent_outputs, they_are_sent_while_the_trial_runs)
{
	struct espl__buf b = { NULL, 0, 0 };
	struct script s = { .gang = 7,
		.trial = 3,
		.directory = "/",
		.text = "echo x >\"$ESPALIER_OUTPUT/x\"; exec sleep 300" };
	struct peer p;

	open_private(&p, NULL);
	start(&p, &s);
	espl__put_v64(&b, expect_offer(&p));
	say(&p, ESPL__MSG_TREE_WANT, &b);
	cr_assert_eq(next_message(&p), ESPL__MSG_TREE_DATA);
	espl__buf_free(&b);
	close_private(&p);
}
