/* resize_rig.h - a gang over several agents that a test grows, shrinks and moves: the driver's part
 * of a resize in place, so plain that it can be seen to be right.
 *
 * A gang for an agent (here: wing) is the ranks that were started there together.
 */
#ifndef TEST_RESIZE_RIG_H
#define TEST_RESIZE_RIG_H
#include <dirent.h>
#include <math.h>

#include "agent_peer.h"
#include "base/tick.h"

#define RIG_NODES 4
#define RIG_SLOTS 8
#define RIG_RANKS (RIG_NODES * RIG_SLOTS)

struct slot {
	uint32_t node, gpu;
};
struct member {
	struct slot at;
	uint64_t wing;
	uint32_t index;
}; /* index: in its wing */
/* ranks: that have not left */
struct wing {
	uint64_t id;
	uint32_t node, ranks;
	int leaves, open;
};

struct rig {
	struct peer peers[RIG_NODES];
	const char *trainable;
	struct member members[RIG_RANKS]; /* by rank */
	uint32_t world;
	struct wing wings[1000];
	uint32_t wing_count;
	uint64_t next_wing, gang;
	uint32_t generation, port, door_node;
	char line[4096]; /* the last report */
	/* what is still to come, by node */
	uint32_t started[RIG_NODES], ready[RIG_NODES], ended[RIG_NODES], left[RIG_NODES];
	uint32_t resized[RIG_NODES], saved[RIG_NODES];
	uint32_t reports; /* that came */
	int failing;      /* ranks may end badly */
	uint32_t bad;     /* that did */
	int64_t took;     /* of the last resize, as rank 0 says */
};

static inline void
rig_open(struct rig *g, const char *trainable, uint32_t nodes)
{
	const char *folder = getenv("abs_top_builddir");
	char path[8192];

	memset(g, 0, sizeof *g);
	if (folder != NULL) {
		snprintf(path, sizeof path, "%s/tests/unit", folder);
		cr_assert_eq(setenv("ESPALIER_PLUGIN_PATH", path, 1), 0);
	}
	g->trainable = trainable;
	g->next_wing = 1;
	for (uint32_t i = 0; i < nodes; i++)
		open_agent(&g->peers[i], "cpu:8", 0);
}

/* Was it made by one of these?  At its end a process under LeakSanitizer is looked at by a child
 * that has its environment; kill that, and the process waits for ever. */
static inline int
rig_child(pid_t pid, const pid_t *of, uint32_t count)
{
	struct espl__buf b = { NULL, 0, 0 };
	char path[64];
	const char *at;
	long parent = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	if (espl__file_read(path, 4096, &b, NULL) == ESPL_OK &&
	    (at = strrchr(espl__buf_text(&b), ')')) != NULL)
		(void)sscanf(at, ") %*c %ld", &parent);
	espl__buf_free(&b);
	for (uint32_t i = 0; i < count; i++)
		if (of[i] == (pid_t)parent)
			return 1;
	return 0;
}

/* A rank of these agents' trials, chosen by `pick`; 0: there is none. */
static inline pid_t
rig_process(const struct rig *g, uint32_t pick)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	pid_t found[256];
	uint32_t count = 0, ranks = 0;

	cr_assert(proc != NULL);
	while ((e = readdir(proc)) != NULL && count < 256) {
		struct espl__buf b = { NULL, 0, 0 };
		char path[300], wanted[100];

		snprintf(path, sizeof path, "/proc/%s/environ", e->d_name);
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
		    espl__file_read(path, 1 << 20, &b, NULL) == ESPL_OK && b.size > 0)
			for (int i = 0; i < RIG_NODES; i++) {
				snprintf(wanted, sizeof wanted, "ESPALIER_SCRATCH=%s/",
				    g->peers[i].dir);
				if (g->peers[i].pid > 0 &&
				    memmem(b.data, b.size, wanted, strlen(wanted)) != NULL) {
					found[count++] = (pid_t)strtol(e->d_name, NULL, 10);
					break;
				}
			}
		espl__buf_free(&b);
	}
	closedir(proc);
	for (uint32_t i = 0; i < count; i++)
		if (!rig_child(found[i], found, count)) {
			pid_t rank = found[i];

			found[i] = found[ranks];
			found[ranks++] = rank;
		}
	return ranks > 0 ? found[pick % ranks] : 0;
}

static inline void
rig_close(struct rig *g)
{
	cr_assert_eq(rig_process(g, 0), 0, "a process is left");
	for (int i = 0; i < RIG_NODES; i++)
		if (g->peers[i].pid > 0)
			cr_assert_eq(close_agent(&g->peers[i]), 0);
}

static inline struct wing *
rig_wing(struct rig *g, uint64_t id, uint32_t node)
{
	for (uint32_t i = 0; i < g->wing_count; i++)
		if (g->wings[i].id == id && g->wings[i].node == node)
			return &g->wings[i];
	cr_assert_fail("nothing was started as %" PRIu64, id);
	return NULL;
}

static inline void
rig_one(uint32_t *what, const char *name)
{
	if (*what == 0)
		fprintf(stderr, "a message too many: %s\n", name);
	cr_assert(*what > 0);
	(*what)--;
}

static inline void
rig_line(struct rig *g, uint32_t n, struct peer *p)
{
	char text[4096];

	espl__get_str(&p->r, text, sizeof text);
	if (strstr(text, "\"ready\"") != NULL) {
		rig_one(&g->ready[n], "ready");
	} else if (strstr(text, "\"resized\"") != NULL) {
		unsigned generation;

		if (!g->failing)
			rig_one(&g->resized[n], "resized");
		else if (g->resized[n] > 0)
			g->resized[n]--;
		cr_assert_eq(sscanf(text,
				 "{\"resized\": %u, \"port\": %" SCNu32 ", \"took\": %" SCNd64 "}",
				 &generation, &g->port, &g->took),
		    3);
		cr_assert_eq(generation, g->generation);
	} else {
		g->reports++;
		memcpy(g->line, text, sizeof text);
	}
}

static inline void
rig_ended(struct rig *g, uint32_t n, struct peer *p, struct wing *w)
{
	uint32_t ranks;

	cr_assert_eq(espl__get_u8(&p->r), 1, "something is left");
	ranks = espl__get_u32(&p->r);
	for (uint32_t i = 0; i < ranks; i++) {
		char text[600];
		int64_t code;

		(void)espl__get_v64(&p->r);
		code = espl__get_z64(&p->r);
		espl__get_str(&p->r, text, sizeof text);
		cr_assert(code == 0 || g->failing, "code %d: %s", (int)code, text);
		g->bad += code != 0;
	}
	w->ranks = 0;
	w->open = 0;
	if (!g->failing)
		rig_one(&g->ended[n], "ended");
	else if (g->ended[n] > 0)
		g->ended[n]--;
}

/* Takes one message of this node. */
static inline void
rig_hear(struct rig *g, uint32_t n)
{
	struct peer *p = &g->peers[n];
	uint8_t type = hear(p);
	uint64_t id;

	cr_assert_neq(type, 0, "an agent is gone");
	id = espl__get_v64(&p->r);
	if (type == ESPL__MSG_STARTED) {
		uint32_t port = espl__get_u32(&p->r);

		rig_one(&g->started[n], "started");
		if (id == g->gang && port > 0)
			g->port = port;
	} else if (type == ESPL__MSG_LINE) {
		rig_line(g, n, p);
	} else if (type == ESPL__MSG_FAILED) {
		cr_assert(g->failing, "a rank has failed");
		g->bad++;
	} else if (type == ESPL__MSG_LEFT) {
		rig_one(&g->left[n], "left");
	} else if (type == ESPL__MSG_SAVED) {
		if (!g->failing)
			rig_one(&g->saved[n], "saved");
	} else {
		cr_assert_eq(type, ESPL__MSG_ENDED, "message %d", type);
		rig_ended(g, n, p, rig_wing(g, id, n));
	}
}

/* One message of whoever has any. */
static inline void
rig_hear_any(struct rig *g)
{
	struct pollfd fds[RIG_NODES];

	for (uint32_t n = 0; n < RIG_NODES; n++) {
		struct peer *p = &g->peers[n];
		struct espl__reader r;
		uint8_t type;
		size_t used;

		fds[n] = (struct pollfd){ .fd = p->pid > 0 ? p->from : -1, .events = POLLIN };
		while (p->pid > 0 && espl__frame_get(&p->in, p->drop, &type, &r, &used) == 1) {
			if (type != ESPL__MSG_LOG) {
				rig_hear(g, n);
				return;
			}
			p->drop += used;
		}
	}
	cr_assert(poll(fds, RIG_NODES, 60000) > 0, "all agents are silent");
	for (uint32_t n = 0; n < RIG_NODES; n++)
		if (fds[n].revents != 0) {
			rig_hear(g, n);
			return;
		}
}

/* A rank was killed: until that is seen, then until all is over. */
static inline void
rig_lose(struct rig *g)
{
	uint32_t left;

	while (g->bad == 0) {
		uint32_t leaving = 0;

		for (uint32_t n = 0; n < RIG_NODES; n++)
			leaving += g->left[n] + g->ended[n];
		if (g->reports > 0 && leaving == 0) { /* it was one that had just left */
			pid_t pid = rig_process(g, 0);

			g->reports = 0;
			if (pid > 1)
				(void)kill(pid, SIGKILL);
		}
		rig_hear_any(g);
	}
	for (uint32_t k = 0; k < g->wing_count; k++)
		if (g->wings[k].open)
			two(&g->peers[g->wings[k].node], ESPL__MSG_KILL, g->wings[k].id, 0);
	do {
		left = 0;
		for (uint32_t k = 0; k < g->wing_count; k++)
			left += g->wings[k].open;
		if (left > 0)
			rig_hear_any(g);
	} while (left > 0);
	g->wing_count = 0;
	memset(g->started, 0, sizeof g->started);
	memset(g->ready, 0, sizeof g->ready);
	memset(g->resized, 0, sizeof g->resized);
	memset(g->ended, 0, sizeof g->ended);
	memset(g->left, 0, sizeof g->left);
	memset(g->saved, 0, sizeof g->saved);
	g->reports = g->bad = 0;
	g->failing = 0;
}

/* Until nothing of this is outstanding. */
static inline void
rig_wait(struct rig *g, uint32_t what[RIG_NODES])
{
	for (uint32_t n = 0; n < RIG_NODES; n++)
		while (what[n] > 0)
			rig_hear(g, n);
}

static inline struct wing *
rig_new_wing(struct rig *g, uint32_t node)
{
	struct wing *w = &g->wings[g->wing_count++];

	cr_assert(g->wing_count < 1000);
	*w = (struct wing){ .id = g->next_wing++, .node = node };
	return w;
}

/* The ranks of `list` on this node as a wing; `meet` NULL: the first ones. */
static inline void
rig_start(struct rig *g, uint32_t node, const struct espl__start_rank *list, uint32_t count,
    uint32_t world, uint64_t checkpoint, const struct espl__meeting *meet, uint32_t local_first)
{
	struct wing *w = rig_new_wing(g, node);
	struct espl__start t = { .gang = w->id,
		.trial = 7,
		.world = world,
		.nodes = RIG_NODES,
		.node_rank = node,
		.rank_count = count,
		.ranks = list,
		.packing = 1,
		.threads = 1,
		.trainable = g->trainable,
		.options = "",
		.params = "{}",
		.directory = g->peers[node].dir,
		.iteration = checkpoint,
		.budget = 100,
		.iterations_max = 100,
		.seed = 4242,
		.grace_ms = 60000,
		.source = 7,
		.checkpoint = checkpoint,
		.master = "127.0.0.1",
		.port = meet == NULL ? g->port : 0,
		.of = g->gang,
		.local_first = local_first };
	struct espl__buf b = { NULL, 0, 0 };

	if (meet != NULL)
		t.join = *meet;
	w->ranks = count;
	w->open = 1;
	espl__start_put(&t, &b);
	say(&g->peers[node], ESPL__MSG_START, &b);
	espl__buf_free(&b);
	g->started[node]++;
	for (uint32_t i = 0; i < count; i++) {
		g->members[list[i].rank] = (struct member){ { node, list[i].gpu }, w->id, i };
		g->ready[node] += meet != NULL;
	}
}

static inline void
rig_begin(struct rig *g, const struct slot *slots, uint32_t world, uint64_t checkpoint)
{
	struct espl__buf b = { NULL, 0, 0 };
	uint32_t first = slots[0].node;

	g->gang = g->next_wing;
	g->world = world;
	g->door_node = first;
	espl__put_v64(&b, g->gang);
	espl__put_u64(&b, 0);
	say(&g->peers[first], ESPL__MSG_RESERVE, &b);
	espl__buf_free(&b);
	expect(&g->peers[first], ESPL__MSG_PORT, g->gang);
	g->port = espl__get_u32(&g->peers[first].r);
	cr_assert(g->port > 0);
	for (uint32_t k = 0; k < RIG_NODES; k++) {
		struct espl__start_rank list[RIG_SLOTS];
		uint32_t node = (first + k) % RIG_NODES, count = 0;

		for (uint32_t r = 0; r < world; r++)
			if (slots[r].node == node) {
				list[count] = (struct espl__start_rank){ r, count, slots[r].gpu };
				count++;
			}
		if (count > 0) {
			/* all wings of a start have one number with their agents */
			uint64_t next = g->next_wing;

			g->next_wing = g->gang;
			rig_start(g, node, list, count, world, checkpoint, NULL, 0);
			g->next_wing = next + 1;
		}
	}
	rig_wait(g, g->started);
}

static inline uint32_t
rig_lead(const struct rig *g)
{
	return g->members[0].at.node;
}

/* The next report is in g->line; rank 0 waits for its answer. */
static inline void
rig_report(struct rig *g)
{
	while (g->reports == 0)
		rig_hear(g, rig_lead(g));
	g->reports--;
}

static inline void
rig_answer(struct rig *g, const char *text)
{
	reply(&g->peers[rig_lead(g)], g->members[0].wing, text);
}

/* Says where everybody will sit and starts who is to come.  The gang is not touched yet; what it
 * will be is written to `next`. */
static inline void
rig_prepare(struct rig *g, const struct slot *slots, uint32_t world, struct member *next,
    int *moved)
{
	struct member old[RIG_RANKS];
	uint32_t was = g->world, rank_of[RIG_RANKS], at = 0, nodes[RIG_NODES] = { 0 },
		 local[RIG_RANKS];
	struct espl__meeting meet = { .generation = ++g->generation,
		.door = "127.0.0.1",
		.port = g->port,
		.master = "127.0.0.1",
		.world = world };

	memcpy(old, g->members, sizeof old);
	*moved = 1;
	for (uint32_t i = 0; i < world; i++)
		if (slots[i].node == old[0].at.node && slots[i].gpu == old[0].at.gpu)
			*moved = 0;
	meet.moved = *moved;
	at = *moved ? 0 : 1;
	for (uint32_t i = 0; i < world; i++) {
		int first =
		    !*moved && slots[i].node == old[0].at.node && slots[i].gpu == old[0].at.gpu;

		rank_of[i] = first ? 0 : at++;
		local[i] = nodes[slots[i].node]++;
	}
	/* those that are here: SLOTS to every wing */
	for (uint32_t k = 0; k < g->wing_count; k++) {
		struct wing *w = &g->wings[k];
		struct espl__start_rank ranks[RIG_SLOTS];
		struct espl__rank_slots s = { .gang = w->id, .meet = meet, .ranks = ranks };
		struct espl__buf b = { NULL, 0, 0 };

		if (w->ranks == 0)
			continue;
		w->leaves = 0;
		/* in the order of the wing: by index */
		for (uint32_t index = 0; index < 64; index++)
			for (uint32_t r = 0; r < was; r++) {
				if (old[r].wing != w->id || old[r].at.node != w->node ||
				    old[r].index != index)
					continue;
				ranks[s.count] =
				    (struct espl__start_rank){ world, 0, old[r].at.gpu };
				for (uint32_t i = 0; i < world; i++)
					if (slots[i].node == old[r].at.node &&
					    slots[i].gpu == old[r].at.gpu) {
						ranks[s.count].rank = rank_of[i];
						ranks[s.count].local_rank = local[i];
						next[rank_of[i]] = old[r];
					}
				w->leaves += ranks[s.count].rank == world;
				s.count++;
			}
		cr_assert_eq(s.count, w->ranks);
		s.meet.node = w->node;
		s.meet.local_world = nodes[w->node];
		espl__rank_slots_put(&s, &b);
		say(&g->peers[w->node], ESPL__MSG_SLOTS, &b);
		espl__buf_free(&b);
	}
	/* those that come */
	for (uint32_t n = 0; n < RIG_NODES; n++) {
		struct espl__start_rank list[RIG_SLOTS];
		uint32_t count = 0;

		for (uint32_t rank = 0; rank < world; rank++)
			for (uint32_t i = 0; i < world; i++) {
				int here = rank_of[i] != rank || slots[i].node != n;

				for (uint32_t r = 0; r < was && !here; r++)
					here = old[r].at.node == n && old[r].at.gpu == slots[i].gpu;
				if (here)
					continue;
				list[count] =
				    (struct espl__start_rank){ rank, count, slots[i].gpu };
				count++;
			}
		if (count == 0)
			continue;
		meet.node = n;
		meet.local_world = nodes[n];
		rig_start(g, n, list, count, world, 0, &meet, nodes[n] - count);
		for (uint32_t i = 0; i < count; i++)
			next[list[i].rank] = g->members[list[i].rank];
	}
	memcpy(g->members, old, sizeof old);
	rig_wait(g, g->started);
	rig_wait(g, g->ready);
}

/* What follows from "resize": who leaves is awaited. */
static inline void
rig_commit(struct rig *g, const struct member *next, uint32_t world)
{
	char text[64];

	snprintf(text, sizeof text, "resize %" PRIu32, g->generation);
	rig_answer(g, text);
	memcpy(g->members, next, world * sizeof *next);
	g->world = world;
	g->resized[rig_lead(g)]++;
	for (uint32_t k = 0; k < g->wing_count; k++) {
		struct wing *w = &g->wings[k];

		if (w->ranks == 0 || w->leaves == 0)
			continue;
		if ((uint32_t)w->leaves == w->ranks)
			g->ended[w->node]++;
		else
			g->left[w->node]++;
		w->ranks -= (uint32_t)w->leaves;
		w->leaves = 0;
	}
}

static inline void
rig_resize(struct rig *g, const struct slot *slots, uint32_t world)
{
	struct member next[RIG_RANKS];
	int moved;

	rig_prepare(g, slots, world, next, &moved);
	rig_commit(g, next, world);
	rig_wait(g, g->resized);
	rig_wait(g, g->left);
	rig_wait(g, g->ended);
}

/* Rank 0 was told to leave: everybody does. */
static inline void
rig_end(struct rig *g)
{
	for (uint32_t k = 0; k < g->wing_count; k++)
		g->ended[g->wings[k].node] += g->wings[k].ranks > 0;
	rig_wait(g, g->ended);
	g->wing_count = 0;
}
#endif
