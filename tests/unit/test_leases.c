/* test_leases.c - the lease machine of the kit: what follows from each answer in each state, as a
 * table of short plays, and random lives with a provider that loses requests and answers, makes two
 * machines, and lists late or incompletely.
 *
 * Seeds are fixed; SEED=n repeats one, SEEDS=n says how many (more find more).
 */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <espalier/kit/leases.h>
#include <espalier/util.h>

#define S ESPL_SECOND
#define HOUR (3600 * S)

/* ---- a host that writes down what it hears -------------------------------------------------- */

struct rig {
	struct espl_leases set;
	struct espl_host host;
	struct espl_cloud_events events;
	espl_time now, timer;
	char log[20000];
	size_t used;
	int refuses; /* nothing can be sent */
};

static void
note(struct rig *r, const char *format, ...)
{
	va_list args;

	if (r->used > 0 && r->used + 2 < sizeof r->log)
		r->used += (size_t)snprintf(r->log + r->used, sizeof r->log - r->used, "; ");
	va_start(args, format);
	if (r->used < sizeof r->log)
		r->used +=
		    (size_t)vsnprintf(r->log + r->used, sizeof r->log - r->used, format, args);
	va_end(args);
}

static void
hear_log(const struct espl_host *host, espl_level level, const char *text)
{
	(void)level;
	note(host->ctx, "\"%s\"", text);
}

static espl_status
hear_node(const struct espl_cloud_events *events, const struct espl_node_event *event)
{
	static const char *const states[] = { "?", "REQUESTED", "BOOTING", "READY", "NOTICE",
		"ENDED" };
	static const char *const reasons[] = { "", " user", " provider", " fault", " capacity",
		" quota", " expiry", " refusal" };

	note(events->ctx, "%s%s%s%s%s", states[event->state], reasons[event->reason],
	    event->flags != 0 ? " risk" : "", event->text != NULL ? ": " : "",
	    event->text != NULL ? event->text : "");
	return ESPL_OK;
}

static espl_status
send_note(struct rig *r, const char *what, const char *id)
{
	if (r->refuses)
		return ESPL_E_NOMEM;
	note(r, "%s%s%s", what, id[0] != '\0' ? " " : "", id);
	return ESPL_OK;
}
static espl_status
send_ask(void *cloud, struct espl_leased *lease)
{
	(void)lease;
	return send_note(cloud, "ask", "");
}
static espl_status
send_look(void *cloud, struct espl_leased *lease)
{
	(void)lease;
	return send_note(cloud, "look", "");
}
static espl_status
send_cancel(void *cloud, struct espl_leased *lease, const char *id)
{
	(void)lease;
	return send_note(cloud, "cancel", id);
}
static espl_status
send_probe(void *cloud, struct espl_leased *lease)
{
	(void)lease;
	return send_note(cloud, "probe", "");
}
static espl_status
send_list(void *cloud)
{
	return ((struct rig *)cloud)->refuses ? ESPL_E_NOMEM : ESPL_OK;
}
static void
send_stop(void *cloud, struct espl_leased *lease)
{
	(void)lease;
	note(cloud, "stop");
}
static espl_status
set_timer(void *cloud, espl_span after)
{
	struct rig *r = cloud;

	cr_assert_geq(after, 0);
	r->timer = r->now + after;
	return ESPL_OK;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* A provider for each way in which they differ. */
#define COMMON \
	.provider = "Rack", .noun = "unit", .missing = "not listed", .asking = "'ask'", \
	.stuck = "stays", .missing_lists = 2, .late_lists = 2, .soon = S, .least = 10 * S, \
	.most = 10 * S, .silent_most = 40 * S, .doubt = 15 * S, .cancel_again = 20 * S, \
	.told = { [ESPL_STAGE_STARTING] = ESPL_NODE_BOOTING, \
		[ESPL_STAGE_JOINING] = ESPL_NODE_BOOTING }
static const struct espl_lease_rules kinds[] = {
	{ COMMON, .absent_lists = 1, .lost = ESPL_LOST_FINAL, .cancel_ends = 1,
	    .listing = "'list'" },
	{ COMMON, .lost = ESPL_LOST_AGAIN, .asks_most = 2, .list_first = 1, .absent_lists = 2,
	    .settle = 5 * S, .gone_ends = 1 },
	{ COMMON, .absent_lists = 1, .lost = ESPL_LOST_REPEAT, .cancel_tells = 1,
	    .waits = { [ESPL_STAGE_REQUESTED] = "not accepted",
		[ESPL_STAGE_SCHEDULED] = "no room",
		[ESPL_STAGE_STARTING] = "boots",
		[ESPL_STAGE_JOINING] = "runs" },
	    .limits = { [ESPL_STAGE_REQUESTED] = 90 * S,
		[ESPL_STAGE_SCHEDULED] = 60 * S,
		[ESPL_STAGE_STARTING] = 60 * S,
		[ESPL_STAGE_JOINING] = 60 * S } },
	{ COMMON, .absent_lists = 1, .lost = ESPL_LOST_AGAIN, .gone_ends = 1 },
	{ COMMON, .absent_lists = 1, .lost = ESPL_LOST_FINAL, .cancel_ends = 1,
	    .cancel_by_token = 1 },
};
/* what of the calls it has: l(ook), p(robe) */
static const char *const has[] = { "", "", "p", "l", "" };

static void
begin(struct rig *r, size_t kind)
{
	static struct espl_lease_calls calls;

	*r = (struct rig){ .timer = ESPL_NEVER };
	calls = (struct espl_lease_calls){ .ask = send_ask,
		.cancel = send_cancel,
		.list = send_list,
		.stop = send_stop,
		.timer = set_timer };
	if (strchr(has[kind], 'l') != NULL)
		calls.look = send_look;
	if (strchr(has[kind], 'p') != NULL)
		calls.probe = send_probe;
	r->host = (struct espl_host){ .ctx = r, .log = hear_log };
	r->events = (struct espl_cloud_events){ .ctx = r, .node = hear_node };
	espl_leases_begin(&r->set, &calls, &kinds[kind], r, &r->host, sizeof(struct espl_leased));
	r->set.events = &r->events;
}

static struct espl_lease_row
make_row(const char *id, enum espl_lease_stage stage)
{
	struct espl_lease_row row = espl_lease_row("t-0", stage);

	row.id = id;
	row.reason = ESPL_BY_PROVIDER;
	return row;
}

static void
play_list(struct rig *r, const char *word)
{
	struct espl_lease_row rows[2] = { make_row("a", ESPL_STAGE_READY),
		make_row("b", ESPL_STAGE_READY) };
	uint32_t count = 1;

	if (strcmp(word, "none") == 0)
		count = 0;
	else if (strcmp(word, "waits") == 0) {
		rows[0].stage = ESPL_STAGE_SCHEDULED;
		rows[0].text = "queue";
	} else if (strcmp(word, "queued") == 0)
		rows[0].stage = ESPL_STAGE_SCHEDULED;
	else if (strcmp(word, "boots") == 0)
		rows[0].stage = ESPL_STAGE_STARTING;
	else if (strcmp(word, "runs") == 0)
		rows[0].stage = ESPL_STAGE_JOINING;
	else if (strcmp(word, "there") == 0)
		rows[0].stage = ESPL_STAGE_NONE;
	else if (strcmp(word, "ends") == 0)
		rows[0].stage = ESPL_STAGE_ENDED;
	else if (strcmp(word, "half") == 0) {
		rows[0].stage = ESPL_STAGE_ENDED;
		count = 2;
	} else if (strcmp(word, "notice") == 0)
		rows[0].notice = 1;
	else if (strcmp(word, "risk") == 0)
		rows[0].at_risk = 1;
	else if (strcmp(word, "two") == 0)
		count = 2;
	else
		cr_assert_str_eq(word, "ready");
	espl_leases_listed(&r->set, rows, count, r->now);
}

/* An answer to the request of the lease. */
static int
play_answer(struct rig *r, const char *word)
{
	static const struct {
		const char *word;
		enum espl_lease_failure failure;
		espl_reason reason;
	} refusals[] = {
		{ "later", ESPL_DID_LATER, 0 },
		{ "unsure", ESPL_DID_UNSURE, 0 },
		{ "exists", ESPL_DID_EXIST, 0 },
		{ "full", ESPL_DID_REFUSE, ESPL_BY_CAPACITY },
		{ "never", ESPL_DID_REFUSE, ESPL_BY_REFUSAL },
		{ "gone", ESPL_DID_GONE, 0 },
		{ "fine", ESPL_DID_FINE, 0 },
	};
	struct espl_leased *lease = r->set.first;
	struct espl_lease_row row = make_row("a", ESPL_STAGE_STARTING);
	size_t i = 0;

	if (strcmp(word, "made") == 0) {
		cr_assert_eq(lease->busy, ESPL_LEASE_ASKS);
		espl_leases_made(&r->set, lease, &row, r->now);
		return 1;
	}
	while (i < sizeof refusals / sizeof refusals[0] && strcmp(refusals[i].word, word) != 0)
		i++;
	if (i == sizeof refusals / sizeof refusals[0])
		return 0;
	cr_assert_not_null(lease);
	if (lease->busy == ESPL_LEASE_ASKS)
		espl_leases_refused(&r->set, lease, refusals[i].failure, refusals[i].reason, word,
		    0, r->now);
	else if (lease->busy == ESPL_LEASE_LOOKS)
		espl_leases_looked(&r->set, lease, refusals[i].failure, &row, word, r->now);
	else if (lease->busy == ESPL_LEASE_CANCELS)
		espl_leases_cancelled(&r->set, lease, refusals[i].failure, word, -1, r->now);
	else if (lease->busy == ESPL_LEASE_PROBES)
		espl_leases_probed(&r->set, lease, refusals[i].failure == ESPL_DID_FINE, word,
		    r->now);
	else
		cr_assert_fail("'%s' answers no request after '%s'", word, r->log);
	return 1;
}

static void
pass_timer(struct rig *r)
{
	r->now = r->timer;
	r->timer = ESPL_NEVER;
	espl_leases_timer(&r->set, r->now);
}

/* Until the next listing is asked for. */
static void
wait_list(struct rig *r)
{
	while (!r->set.listing) {
		cr_assert_neq(r->timer, ESPL_NEVER, "no listing comes after '%s'", r->log);
		pass_timer(r);
	}
}

static void
play_word(struct rig *r, const char *word)
{
	struct espl_acquire wanted = ESPL_INIT(struct espl_acquire);
	struct espl_lease view = ESPL_INIT(struct espl_lease);
	espl_time until;
	int fresh;

	wanted.token = view.token = "t-0";
	view.provider_id = "a";
	if (word[0] == '+') {
		until = r->now + strtoll(word + 1, NULL, 10) * S;
		while (r->timer <= until)
			pass_timer(r);
		r->now = until;
		return;
	}
	if (strcmp(word, "acquire") == 0)
		cr_assert_not_null(espl_leases_acquire(&r->set, &wanted, &fresh, r->now));
	else if (strcmp(word, "adopt") == 0)
		cr_assert_not_null(espl_leases_adopt(&r->set, &view, r->now));
	else if (strcmp(word, "release") == 0)
		cr_assert_not_null(espl_leases_release(&r->set, &view, r->now));
	else if (strcmp(word, "silent") == 0) {
		wait_list(r);
		espl_leases_unlisted(&r->set, "no answer", r->now);
	} else if (strcmp(word, "giveup") == 0)
		espl_leases_give_up(&r->set, r->set.first, ESPL_BY_FAULT, "given up", r->now);
	else if (strcmp(word, "refuse") == 0)
		r->refuses = 1;
	else if (!play_answer(r, word)) {
		wait_list(r);
		play_list(r, word);
	}
	espl_leases_due(&r->set, r->now);
}

/* FINAL, AGAIN, REPEAT, LOOK, TOKEN: the kind of provider; what happens; what is done and said. */
enum { FINAL, AGAIN, REPEAT, LOOK, TOKEN };
static const struct {
	size_t kind;
	const char *play, *log;
} plays[] = {
	/* a life without trouble */
	{ FINAL, "acquire made ready release fine", "ask; BOOTING; READY; cancel a; ENDED user" },
	{ AGAIN, "acquire none made runs release fine ends",
	    "ask; BOOTING; READY; cancel a; ENDED user" },
	{ REPEAT, "acquire made runs fine release fine ends",
	    "ask; BOOTING; probe; READY; cancel a; ENDED user" },
	{ LOOK, "acquire made ready release fine +20 gone",
	    "ask; BOOTING; READY; cancel a; cancel a; ENDED user" },
	{ FINAL, "acquire made ready risk risk notice notice ends",
	    "ask; BOOTING; READY; READY risk; NOTICE; ENDED provider" },
	/* asked again by the host: nothing is sent twice */
	{ FINAL, "acquire acquire made acquire", "ask; BOOTING; BOOTING" },
	/* the answer to `ask` is lost */
	{ FINAL, "acquire unsure boots ready", "ask; BOOTING; READY" },
	{ FINAL, "acquire unsure none", "ask; ENDED fault: unsure" },
	{ FINAL, "acquire unsure none none none +99", "ask; ENDED fault: unsure" },
	{ FINAL, "acquire unsure none ready fine none none +99",
	    "ask; ENDED fault: unsure; \"unit 'a' appeared after its 'ask' had failed; "
	    "it is released\"; cancel a" },
	{ AGAIN, "acquire none unsure none ready", "ask; READY" },
	{ AGAIN, "acquire none unsure none none made", "ask; ask; BOOTING" },
	{ AGAIN, "acquire none unsure none none unsure none none none",
	    "ask; ask; ENDED capacity: Rack has not accepted its unit in 2 attempts" },
	{ REPEAT, "acquire unsure +2 made", "ask; ask; BOOTING" },
	{ LOOK, "acquire unsure gone made", "ask; look; ask; BOOTING" },
	{ LOOK, "acquire unsure fine", "ask; look; BOOTING" },
	{ LOOK, "acquire exists fine", "ask; look; BOOTING" },
	/* a request whose answer was lost may take effect after the end of its lease */
	{ LOOK, "acquire unsure fine release gone none ready",
	    "ask; look; BOOTING; cancel a; ENDED user; \"unit 'a' is there again after its lease "
	    "had "
	    "ended; it is released\"; cancel a" },
	/* nothing was done */
	{ FINAL, "acquire later +2 made", "ask; ask; BOOTING" },
	{ FINAL, "acquire later release", "ask; ENDED user" },
	{ REPEAT, "acquire later +2 later +2 full", "ask; ask; ask; ENDED capacity: full" },
	{ REPEAT, "acquire unsure +2 full", "ask; ask; ENDED capacity: full" },
	{ REPEAT, "acquire unsure +2 never none none none", "ask; ask; ENDED refusal: never" },
	{ FINAL, "acquire never", "ask; ENDED refusal: never" },
	{ FINAL, "acquire full", "ask; ENDED capacity: full" },
	{ FINAL, "refuse acquire release", "ENDED user" },
	/* released before the answer */
	{ FINAL, "acquire release made fine", "ask; cancel a; ENDED user" },
	{ FINAL, "acquire release full", "ask; ENDED user" },
	{ FINAL, "acquire release unsure none", "ask; ENDED user" },
	{ FINAL, "acquire release unsure ready fine", "ask; cancel a; ENDED user" },
	{ TOKEN, "acquire release unsure fine", "ask; cancel; ENDED user" },
	{ AGAIN, "acquire release", "ENDED user" },
	/* one listing is no proof */
	{ FINAL, "acquire made ready none ready none ready", "ask; BOOTING; READY" },
	{ FINAL, "acquire made ready none none", "ask; BOOTING; READY; ENDED fault: not listed" },
	{ FINAL, "acquire made ready none none ready fine",
	    "ask; BOOTING; READY; ENDED fault: not listed; \"unit 'a' is there "
	    "again after its lease had ended; it is released\"; cancel a" },
	{ REPEAT, "acquire made none none fine", "ask; BOOTING; cancel a" },
	{ REPEAT, "acquire made none none gone",
	    "ask; BOOTING; cancel a; ENDED fault: not listed" },
	{ LOOK, "acquire made none none gone", "ask; BOOTING; look; ENDED fault: not listed" },
	{ LOOK, "acquire made ready none none fine", "ask; BOOTING; READY; look" },
	/* a listing that began before the machine was made says nothing of it */
	{ FINAL, "acquire +10 made none none none", "ask; BOOTING; ENDED fault: not listed" },
	{ FINAL, "acquire +10 made none none ready", "ask; BOOTING; READY" },
	/* a second machine of the token */
	{ FINAL, "acquire made two fine ready",
	    "ask; BOOTING; \"Rack has two units for one node, a and b; cancelling the second\"; "
	    "cancel b; READY" },
	{ FINAL, "acquire made half fine none none",
	    "ask; BOOTING; \"Rack has two units for one node, a and b; cancelling the second\"; "
	    "cancel b; ENDED provider" },
	{ FINAL, "acquire made half later +1 two fine +20",
	    "ask; BOOTING; \"Rack has two units for one node, a and b; cancelling the second\"; "
	    "cancel b; ENDED provider; \"unit 'a' stays: later; trying again\"; cancel b; \"unit "
	    "'a' is there again after its lease had ended; it is released\"; cancel a" },
	/* a cancel that fails, and one that is accepted and does nothing */
	{ FINAL, "acquire made release later +2 later +2 fine",
	    "ask; BOOTING; cancel a; \"unit 'a' stays: later; trying again\"; cancel a; cancel a; "
	    "ENDED user" },
	{ AGAIN, "acquire none made ready release fine +20",
	    "ask; BOOTING; READY; cancel a; cancel a" },
	/* known from a file only: listed with its token before it is cancelled */
	{ FINAL, "release none none",
	    "\"'list' does not show unit 'a' of leases.json with token 't-0' of this "
	    "run: it has ended, or is not of this run, and is not released; if it is yours, "
	    "release it yourself\"; ENDED user" },
	{ FINAL, "release ready fine", "cancel a; ENDED user" },
	{ FINAL, "adopt ready", "READY" },
	{ AGAIN, "adopt none none", "ENDED fault: not listed" },
	{ LOOK, "adopt gone", "look; ENDED fault: not listed" },
	{ REPEAT, "adopt runs later +3 fine", "BOOTING; probe; probe; READY" },
	/* a provider that does not answer */
	{ FINAL, "acquire made ready silent silent none none",
	    "ask; BOOTING; READY; \"no answer; waiting for it, the units keep running\"; "
	    "\"Rack answers again after 30 s\"; ENDED fault: not listed" },
	/* clocks */
	{ REPEAT, "acquire +40 made", "ask; \"unit t-0 waits: not accepted, for 30 s\"; BOOTING" },
	{ REPEAT, "acquire made boots boots boots boots boots boots boots",
	    "ask; BOOTING; BOOTING: unit a waits: boots, for 30 s; "
	    "cancel a" },
	{ REPEAT, "acquire made waits queued queued queued queued",
	    "ask; BOOTING; BOOTING: unit a waits: queue" },
	{ AGAIN, "acquire none made giveup fine ends",
	    "ask; BOOTING; cancel a; ENDED fault: given up" },
	{ AGAIN, "acquire none made giveup release fine ends",
	    "ask; BOOTING; cancel a; ENDED user" },
	{ FINAL, "acquire giveup made fine", "ask; cancel a; ENDED fault: given up" },
	{ FINAL, "acquire giveup later +99", "ask; ENDED fault: given up" },
	{ REPEAT, "acquire giveup unsure none", "ask; ENDED fault: given up" },
	{ AGAIN, "acquire giveup", "ENDED fault: given up" },
	{ FINAL, "acquire made release +61",
	    "ask; BOOTING; cancel a; \"unit 'a' may still be running, 1 minutes after its end "
	    "was first requested; trying again: the request is accepted, and it does not end\"" },
};

Test(leases, what_follows_from_each_answer)
{
	for (size_t i = 0; i < sizeof plays / sizeof plays[0]; i++) {
		struct rig r;
		char play[300], *word, *rest;

		begin(&r, plays[i].kind);
		(void)snprintf(play, sizeof play, "%s", plays[i].play);
		for (word = strtok_r(play, " ", &rest); word != NULL;
		     word = strtok_r(NULL, " ", &rest))
			play_word(&r, word);
		cr_expect_str_eq(r.log, plays[i].log, "'%s'\n  was  %s\n  not  %s", plays[i].play,
		    r.log, plays[i].log);
		espl_leases_free(&r.set);
	}
}

/* ---- random lives -------------------------------------------------------------------------- */

#define TOKENS 3
#define BOXES 400
#define REQUESTS 60

struct box {
	uint32_t token; /* TOKENS: of another run */
	int alive;
	espl_time listed_from, ended_at;
	int omitted; /* by the last listing */
};
struct request {
	enum espl_lease_busy kind; /* IDLE: a listing */
	uint64_t serial;
	uint32_t token, box;
	espl_time acts_at, answers_at;
	int acts, acted, heard; /* the request arrives; it has been acted on; its answer arrives */
};
struct life {
	struct rig rig; /* first: it is what the translators get */
	size_t kind;
	uint64_t seed;
	struct box boxes[BOXES];
	uint32_t box_count;
	struct request requests[REQUESTS];
	uint32_t request_count, asks;
	struct {
		int wanted, released, ended, reported;
		char id[20];
		espl_time release_at, again_at;
	} leases[TOKENS];
	int crashed;
};
static struct life *life;

static uint32_t
roll(uint32_t sides)
{
	life->seed = life->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(life->seed >> 33) % sides;
}

static uint32_t
token_number(const char *token)
{
	return (uint32_t)(token[2] - '0');
}

static espl_status
send_request(enum espl_lease_busy kind, const struct espl_leased *lease, const char *id)
{
	struct request *q = &life->requests[life->request_count];

	cr_assert_lt(life->request_count, REQUESTS);
	if (roll(50) == 0)
		return ESPL_E_NOMEM;
	life->request_count++;
	*q = (struct request){ .kind = kind,
		.serial = lease != NULL ? lease->serial : 0,
		.token = lease != NULL ? token_number(lease->token) : TOKENS,
		.box = id != NULL && id[0] == 'm' ? (uint32_t)strtoul(id + 1, NULL, 10) : BOXES };
	q->acts_at = life->rig.now + S / 10 * (1 + roll(10));
	q->answers_at = q->acts_at + S / 10 * (1 + roll(30));
	q->acts = roll(12) != 0;
	q->heard = q->acts && roll(12) != 0;
	if (q->acts && !q->heard && kind == ESPL_LEASE_ASKS && roll(3) == 0)
		q->acts_at = q->answers_at + S * roll(12); /* the cloud has given up on it */
	life->asks += kind == ESPL_LEASE_ASKS;
	return ESPL_OK;
}
static espl_status
life_ask(void *cloud, struct espl_leased *lease)
{
	(void)cloud;
	return send_request(ESPL_LEASE_ASKS, lease, NULL);
}
static espl_status
life_look(void *cloud, struct espl_leased *lease)
{
	(void)cloud;
	return send_request(ESPL_LEASE_LOOKS, lease, NULL);
}
static espl_status
life_cancel(void *cloud, struct espl_leased *lease, const char *id)
{
	(void)cloud;
	return send_request(ESPL_LEASE_CANCELS, lease, id);
}
static espl_status
life_probe(void *cloud, struct espl_leased *lease)
{
	(void)cloud;
	return send_request(ESPL_LEASE_PROBES, lease, NULL);
}
static espl_status
life_list(void *cloud)
{
	(void)cloud;
	return send_request(ESPL_LEASE_IDLE, NULL, NULL);
}
static void
life_stop(void *cloud, struct espl_leased *lease)
{
	(void)cloud;
	for (uint32_t i = 0; i < life->request_count; i++)
		if (life->requests[i].serial == lease->serial)
			life->requests[i].serial = UINT64_MAX; /* acted on, not answered */
}

static uint32_t
find_box(uint32_t token)
{
	uint32_t i = 0;

	while (i < life->box_count && (life->boxes[i].token != token || !life->boxes[i].alive))
		i++;
	return i < life->box_count ? i : BOXES;
}

static void
end_box(uint32_t i)
{
	cr_assert_lt(life->boxes[i].token, TOKENS, "a machine of another run was ended");
	if (life->boxes[i].alive)
		life->boxes[i].ended_at = life->rig.now;
	life->boxes[i].alive = 0;
}

static void
act(struct request *q)
{
	q->acted = 1;
	if (q->kind == ESPL_LEASE_ASKS) {
		q->box = life->kind == LOOK ? find_box(q->token) : BOXES;
		for (uint32_t i = 0; life->kind == REPEAT && i < life->box_count; i++)
			if (life->boxes[i].token == q->token) /* it may have ended */
				q->box = i;
		if (q->box != BOXES) {
			q->acted = 2; /* there is one already */
			return;
		}
		cr_assert_lt(life->box_count, BOXES);
		q->box = life->box_count++;
		life->boxes[q->box] = (struct box){ .token = q->token,
			.alive = 1,
			.listed_from = life->rig.now + S / 10 * roll(40) };
	} else if (q->kind == ESPL_LEASE_LOOKS) {
		q->box = find_box(q->token);
	} else if (q->kind == ESPL_LEASE_CANCELS) {
		if (q->box == BOXES && kinds[life->kind].cancel_by_token)
			q->box = find_box(q->token);
		q->acted = q->box != BOXES && life->boxes[q->box].alive ? 1 : 2;
		if (q->box != BOXES)
			end_box(q->box);
	}
}

static struct espl_lease_row
box_row(uint32_t i, char token[8], char id[20])
{
	struct espl_lease_row row =
	    espl_lease_row(token, life->boxes[i].alive ? ESPL_STAGE_JOINING : ESPL_STAGE_ENDED);

	(void)snprintf(token, 8, "t-%u", life->boxes[i].token);
	(void)snprintf(id, 20, "m%u", i);
	row.id = id;
	row.reason = ESPL_BY_FAULT;
	return row;
}

/* Late, and at times without one that it has shown before, but never twice in a row. */
static void
answer_list(const struct request *q)
{
	static struct espl_lease_row rows[BOXES];
	static char tokens[BOXES][8], ids[BOXES][20];
	uint32_t count = 0;

	if (!q->heard) {
		espl_leases_unlisted(&life->rig.set, "no answer", life->rig.now);
		return;
	}
	for (uint32_t i = 0; i < life->box_count; i++) {
		struct box *box = &life->boxes[i];
		int young = life->rig.now < box->listed_from;

		if (!box->alive && life->rig.now - box->ended_at > 60 * S)
			continue;
		box->omitted = young || (!box->omitted && roll(12) == 0);
		if (!box->omitted) {
			rows[count] = box_row(i, tokens[count], ids[count]);
			count++;
		}
	}
	espl_leases_listed(&life->rig.set, rows, count, life->rig.now);
}

static void
answer(const struct request *q)
{
	struct espl_leases *set = &life->rig.set;
	struct espl_leased *lease = espl_leases_serial(set, q->serial);
	espl_time now = life->rig.now;
	struct espl_lease_row row = espl_lease_row("", ESPL_STAGE_NONE);
	enum espl_lease_failure failure = !q->heard ? ESPL_DID_UNSURE
	    : q->acted == 2                         ? ESPL_DID_GONE
						    : ESPL_DID_FINE;
	char token[8], id[20];

	if (q->kind == ESPL_LEASE_IDLE) {
		answer_list(q);
		return;
	}
	if (lease == NULL || lease->busy == ESPL_LEASE_IDLE)
		return;
	if (q->box != BOXES)
		row = box_row(q->box, token, id);
	if (q->kind == ESPL_LEASE_ASKS && (!q->heard || (q->acted == 2 && life->kind == LOOK)))
		espl_leases_refused(set, lease, q->heard ? ESPL_DID_EXIST : ESPL_DID_UNSURE, 0,
		    "lost", 0, now);
	else if (q->kind == ESPL_LEASE_ASKS)
		espl_leases_made(set, lease, &row, now);
	else if (q->kind == ESPL_LEASE_LOOKS)
		espl_leases_looked(set, lease,
		    !q->heard             ? ESPL_DID_LATER
			: q->box == BOXES ? ESPL_DID_GONE
					  : ESPL_DID_FINE,
		    &row, "lost", now);
	else if (q->kind == ESPL_LEASE_CANCELS)
		espl_leases_cancelled(set, lease,
		    failure == ESPL_DID_GONE && kinds[life->kind].cancel_ends ? ESPL_DID_FINE
									      : failure,
		    "lost", -1, now);
	else
		espl_leases_probed(set, lease, q->heard && roll(3) == 0, "lost", now);
}

static espl_status
life_node(const struct espl_cloud_events *events, const struct espl_node_event *event)
{
	uint32_t k = token_number(event->token);

	(void)events;
	if (event->lease == ESPL_NONE)
		return ESPL_OK; /* of the sweep */
	cr_assert_not(life->leases[k].ended, "an event after ENDED");
	life->leases[k].ended = event->state == ESPL_NODE_ENDED;
	life->leases[k].reported = 1;
	if (event->provider_id != NULL)
		(void)snprintf(life->leases[k].id, sizeof life->leases[k].id, "%s",
		    event->provider_id);
	cr_assert(event->reason != ESPL_BY_USER || life->leases[k].released);
	return ESPL_OK;
}
static void
life_log(const struct espl_host *host, espl_level level, const char *text)
{
	(void)host, (void)level, (void)text;
}

static void
begin_table(void)
{
	static struct espl_lease_calls calls;

	calls = (struct espl_lease_calls){ .ask = life_ask,
		.cancel = life_cancel,
		.list = life_list,
		.stop = life_stop,
		.timer = set_timer };
	if (strchr(has[life->kind], 'l') != NULL)
		calls.look = life_look;
	if (strchr(has[life->kind], 'p') != NULL)
		calls.probe = life_probe;
	life->rig.host = (struct espl_host){ .log = life_log };
	life->rig.events = (struct espl_cloud_events){ .node = life_node };
	life->rig.timer = ESPL_NEVER;
	espl_leases_begin(&life->rig.set, &calls, &kinds[life->kind], &life->rig, &life->rig.host,
	    sizeof(struct espl_leased));
	life->rig.set.events = &life->rig.events;
}

static void
call_release(uint32_t k, uint64_t lease)
{
	struct espl_lease view = ESPL_INIT(struct espl_lease);
	char token[8];

	(void)snprintf(token, sizeof token, "t-%u", k);
	view.token = token;
	view.lease = lease;
	cr_assert_not_null(espl_leases_release(&life->rig.set, &view, life->rig.now));
	espl_leases_due(&life->rig.set, life->rig.now);
}

/* The driver dies, and another one takes over.  The file of its leases may have been changed. */
static void
crash(void)
{
	espl_leases_free(&life->rig.set);
	for (uint32_t i = 0; i < life->request_count; i++)
		if (!life->requests[i].acted && roll(2) == 0)
			act(&life->requests[i]);
	life->request_count = 0;
	life->crashed = 1;
	begin_table();
	for (uint32_t k = 0; k < TOKENS; k++) {
		struct espl_acquire wanted = ESPL_INIT(struct espl_acquire);
		struct espl_lease view = ESPL_INIT(struct espl_lease);
		struct espl_leased *lease;
		char token[8];
		int fresh;

		(void)snprintf(token, sizeof token, "t-%u", k);
		wanted.token = view.token = token;
		wanted.lease = view.lease = k;
		view.provider_id = life->leases[k].id[0] == '\0' ? NULL
		    : roll(3) == 0                               ? "m0"
								 : life->leases[k].id;
		if (!life->leases[k].wanted || life->leases[k].ended)
			continue;
		lease = life->leases[k].reported
		    ? espl_leases_adopt(&life->rig.set, &view, life->rig.now)
		    : espl_leases_acquire(&life->rig.set, &wanted, &fresh, life->rig.now);
		cr_assert_not_null(lease);
		if (!life->leases[k].reported) /* what a cloud's own record says */
			lease->unsure = life->kind == REPEAT;
		if (life->leases[k].released)
			call_release(k, k);
	}
	espl_leases_due(&life->rig.set, life->rig.now);
}

static void
host_acts(void)
{
	for (uint32_t k = 0; k < TOKENS; k++) {
		struct espl_acquire wanted = ESPL_INIT(struct espl_acquire);
		char token[8];
		int fresh;

		(void)snprintf(token, sizeof token, "t-%u", k);
		wanted.token = token;
		wanted.lease = k;
		if (!life->leases[k].wanted && life->rig.now >= (espl_time)k * 7 * S) {
			life->leases[k].wanted = 1;
			life->leases[k].release_at = life->rig.now + S * roll(400);
			cr_assert_not_null(
			    espl_leases_acquire(&life->rig.set, &wanted, &fresh, life->rig.now));
		}
		if (life->leases[k].wanted && !life->leases[k].ended &&
		    life->rig.now >= life->leases[k].release_at) {
			life->leases[k].released = 1;
			life->leases[k].release_at = life->rig.now + 10 * S;
			call_release(k, k);
		}
	}
	for (uint32_t i = 1; i < life->box_count; i++)
		if (life->boxes[i].alive && life->rig.now < 300 * S && roll(9000) == 0)
			end_box(i); /* its provider takes it; later nothing but we ends one */
	if (roll(3000) == 0 && life->rig.now < 600 * S)
		crash();
}

/* After each answer, as a cloud does it; otherwise only the timer wakes it. */
static void
pass_tick(void)
{
	life->rig.now += S / 10;
	for (uint32_t i = 0; i < life->request_count; i++)
		if (life->requests[i].acts && !life->requests[i].acted &&
		    life->rig.now >= life->requests[i].acts_at)
			act(&life->requests[i]);
	for (uint32_t i = 0; i < life->request_count; i++) {
		struct request q = life->requests[i];
		int late = q.acts && !q.acted;

		if (life->rig.now < q.answers_at)
			continue;
		if (!late)
			life->requests[i--] = life->requests[--life->request_count];
		else
			life->requests[i].serial = UINT64_MAX;
		answer(&q);
		espl_leases_due(&life->rig.set, life->rig.now);
	}
	if (life->rig.now + S / 20 >= life->rig.timer) { /* perhaps a little early */
		life->rig.timer = ESPL_NEVER;
		espl_leases_timer(&life->rig.set, life->rig.now);
	}
	for (uint32_t k = 0; k < TOKENS; k++) {
		uint32_t count = 0;

		for (uint32_t i = 0; i < life->box_count; i++)
			count += life->boxes[i].alive && life->boxes[i].token == k;
		cr_assert_leq(count, life->kind == REPEAT || life->kind == LOOK ? 1 : 3);
	}
}

static void
live(size_t kind, uint64_t seed)
{
	struct life l = { .kind = kind, .seed = seed * 2 + 1 };
	int done = 0;

	life = &l;
	l.boxes[l.box_count++] = (struct box){ .token = TOKENS, .alive = 1 };
	begin_table();
	while (l.rig.now < 4 * HOUR && !done) {
		host_acts();
		pass_tick();
		done = l.rig.now > 900 * S && l.rig.set.first == NULL && l.request_count == 0;
		for (uint32_t k = 0; k < TOKENS; k++) {
			done &= l.leases[k].ended;
			if (!l.crashed || !done || l.rig.set.first != NULL || find_box(k) == BOXES)
				continue;
			call_release(k, ESPL_NONE); /* the sweep of the next run */
			done = 0;
		}
	}
	for (uint32_t k = 0; k < TOKENS; k++) {
		cr_assert(l.leases[k].ended, "kind %zu, SEED=%llu: lease %u has not ended", kind,
		    (unsigned long long)seed, k);
		cr_assert_eq(find_box(k), BOXES, "kind %zu, SEED=%llu: machine %u is left", kind,
		    (unsigned long long)seed, find_box(k));
	}
	cr_assert_null(l.rig.set.first, "kind %zu, SEED=%llu: the table is not empty", kind,
	    (unsigned long long)seed);
	cr_assert_lt(l.asks, 60);
	espl_leases_free(&l.rig.set);
}

Test(leases, no_machine_is_left_whatever_a_provider_loses)
{
	const char *one = getenv("SEED"), *many = getenv("SEEDS");
	uint64_t count = many != NULL ? strtoull(many, NULL, 10) : 60;

	for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++)
		for (uint64_t seed = 1; seed <= count; seed++)
			live(kind, one != NULL ? strtoull(one, NULL, 10) : seed);
}
