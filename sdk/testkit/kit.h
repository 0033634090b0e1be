/* kit.h - the internals of a kit, shared by the test kit's own files and by check-plugin. */
#ifndef ESPALIER_KIT_H
#define ESPALIER_KIT_H
#include "../kit/judge.h"
#include "testkit.h"

struct kit_block {
	struct kit_block *next;
}; /* memory that lives as long as the kit */
struct kit_service {
	struct kit_service *next;
	const char *id;
	const void *service;
};
struct kit_file {
	struct kit_file *next;
	uint32_t option, row, column, zero;
	const void *bytes;
	uint64_t size;
};
struct kit_trial {
	struct espl_trial pub;
	/* untold: stopped or paused by a verdict, but on_trial_end was not called */
	int dropped, untold;
	uint32_t continued; /* by this call of an entry; 0: by none */
	uint64_t reported;  /* in this round; 0: not yet */
};
struct kit_group {
	uint32_t flags, left, told;
	uint32_t closed; /* by this call of an entry; 0: by none */
};
/* What an algorithm has answered: it takes effect when the entry has returned. */
enum kit_act { KIT_ADD, KIT_CLOSE, KIT_FINISH, KIT_VERDICT, KIT_DROP, KIT_WAKE };
struct kit_answer {
	enum kit_act act;
	uint64_t id; /* of a trial or a group */
	espl_verdict verdict;
	espl_time at;
	struct espl_start start; /* ADD */
	uint64_t group;
};
struct kit_seen {
	struct espl_observation pub;
	double metric;
};

/* Severity of a rejected call. REFUSED: the host would reject it, too; GRAVE: no host could
 * interpret it; QUIET: the call is valid, but the kit does not act on it. */
enum kit_weight { KIT_REFUSED, KIT_GRAVE, KIT_QUIET };

/* A kit that is watched keeps no log: it passes all messages to these functions while the entry
 * runs. */
struct kit_watch {
	void *ctx;
	/* A sink was called with these arguments. */
	void (*heard)(void *ctx, const char *call, const void *bytes, size_t size);
	/* That call was refused, for this reason; not called if every call is refused
	 * (espl_kit_set_refusing). */
	void (*refused)(void *ctx, const char *call, enum kit_weight, const char *why);
	/* The entry's answer is not valid as a whole. */
	void (*wrong)(void *ctx, const char *entry, const char *why);
	/* An entry is called with this view (espl_kit_report: the observation), or has returned. */
	void (*called)(void *ctx, const char *entry, const void *view);
	void (*returned)(void *ctx, const char *entry, const void *view, espl_status,
	    const struct espl_error *);
	/* An entry answered with a plan; returns whether it is accepted. */
	espl_status (*plan)(void *ctx, const struct espl_plan *);
};
struct kit_node {
	struct espl_node pub;
	struct espl_gpu **gpus;
	uint64_t claimed; /* by the current call: the new owner, or ESPL_NONE */
	uint32_t sound;   /* GPUs that can be used */
	int gone, leaves; /* leaves: given up; gone when it is empty */
};
struct kit_item {
	struct espl_item pub;
	struct espl_gang gang;
	struct espl_slot *slots;   /* in force; gang.slots points at it */
	struct espl_slot *next;    /* as answered by the current call */
	struct espl_share granted; /* likewise: the grant as answered */
	uint32_t next_count;
	uint64_t *nodes; /* pub.nodes */
	uint32_t node_room;
	int placed, asked; /* the current call reported something about it */
	int on_bracket;    /* it was granted with ESPL_GRANT_BRACKET */
	int locked;        /* the test has locked its gang */
	int gone, changed, gang_changed;
};

#define KIT_MAGIC 0x6b697421u
struct espl_kit {
	uint32_t magic; /* KIT_MAGIC between espl_kit_new and espl_kit_free */
	struct espl_host host;
	espl_time now;
	uint64_t state; /* of the random stream */
	struct kit_block *blocks;
	struct kit_service *services;
	struct kit_file *files;
	const struct espl_plugin *plugin;
	void *self;
	struct espl_config config;

	const struct kit_watch *watch; /* NULL: none */
	struct kit_cloud *cloud;       /* kit_cloud.h; NULL: none was open */
	const char *entry, *call;      /* that run now */
	char reason[300];              /* of the last refusal */
	enum kit_weight weight;        /* of the next refusal */
	int refusing;

	char *log;
	size_t log_used, log_room;
	uint32_t calls, refused;

	struct espl_space space;
	struct espl_param **params;
	struct espl_first first;
	const double **points;
	struct espl_experiment experiment;
	const struct espl_experiment *experiments[1];

	struct espl_judge judge; /* of the running call */
	double *scratch;         /* for it: room for a configuration */
	struct kit_answer *answers;
	uint64_t answer_count, answer_room;
	uint32_t stamp; /* rises with every call of an entry */
	uint64_t round; /* rises with the first event after an algorithm was asked */
	espl_time round_at;
	int round_over; /* the algorithm has been asked in this round */

	struct kit_trial **trials;
	struct kit_group *groups;
	uint64_t trial_count, group_count;
	uint64_t trials_new, groups_new;   /* likewise, with those of the running call */
	uint64_t trial_limit, group_limit; /* beyond them calls are refused, and the kit is full */
	uint32_t brackets;                 /* of the spec */
	int finished, asking, full;        /* asking: next_group is running */
	int idle;       /* rounds in which nothing trained and nothing was pending */
	espl_time wake; /* the earliest that was requested, or ESPL_NEVER */
	espl_span pace; /* duration of an iteration in espl_kit_search */
	struct espl_history history;
	const struct espl_observation **seen;
	uint64_t seen_count;
	int keeps; /* observations, for the history */

	struct espl_offer **offers;
	uint32_t *targets, *new_targets, *lost;
	struct espl_judge_grant *grants; /* of the running call */
	uint32_t grant_count;
	struct espl_give_up *surplus;
	uint32_t offer_count, surplus_count;
	struct kit_node **nodes;
	uint32_t node_count, why, moved;
	struct kit_item **items;
	uint64_t next_item, *gone; /* gone: ids that left since the last allocate */
	uint32_t item_count, gone_count;
	uint64_t *given_up;
	uint32_t given_up_count;
	int wrong; /* the answer is discarded */
};

/* Zeroed memory of the kit; ends the program when there is none. */
void *espl__kit_alloc(struct espl_kit *, size_t);
char *espl__kit_text(struct espl_kit *, const char *, size_t length);
/* An array with one element more, old ones kept (the kit's memory). */
void *espl__kit_more(struct espl_kit *, const void *, uint64_t count, size_t size);
void espl__kit_print(struct espl_kit *, const char *format, ...) ESPL_PRINTF(2, 3);
/* To be called when a plugin calls a sink.  Returns NULL, or why the call is already refused. */
const char *espl__kit_heard(struct espl_kit *, const char *call, const void *, size_t);
/* The same for a sink of a cloud that takes a struct: is its size set, and is what is reserved 0?
 */
const char *espl__kit_handed(struct espl_kit *, const char *call, const void *, size_t size,
    size_t least, uint64_t zero);
/* Prepares the judge for a call of an entry: all is unknown. */
struct espl_judge *espl__kit_judge(struct espl_kit *);
/* Formats a reason to refuse the call, valid until the next one. */
const char *espl__kit_why(struct espl_kit *, enum kit_weight, const char *format, ...)
    ESPL_PRINTF(3, 4);
/* Counts the call and logs it as a line.  why NULL: it was accepted, returns OK; else it was
 * refused. */
espl_status espl__kit_told(struct espl_kit *, const char *why, const char *format, ...)
    ESPL_PRINTF(3, 4);
/* Ends the program: the test did something impossible. */
void espl__kit_stop(const char *what) __attribute__((noreturn));
void espl__kit_space_init(struct espl_kit *);
struct kit_item *espl__kit_find(const struct espl_kit *, uint64_t item);
struct kit_node *espl__kit_find_node(const struct espl_kit *, uint64_t node);
/* The entries of the open plugin, which must be of this kind; `error` is made ready for a call. */
const struct espl_ops *espl__kit_ops(struct espl_kit *, espl_kind, struct espl_error *);
/* Log that an entry is called with this view, and that it returned; espl__kit_returned returns its
 * status. */
void espl__kit_call(struct espl_kit *, const char *entry, const void *view);
espl_status espl__kit_returned(struct espl_kit *, const void *view, espl_status,
    const struct espl_error *);
/* The rounds of espl_kit_search, without the first call. */
espl_status espl__kit_rounds(struct espl_kit *, uint32_t slots, uint64_t rounds,
    double (*loss)(void *ctx, const struct espl_trial *, uint64_t iteration), void *ctx);
/* Discards the answer of the running call, for this reason. */
void espl__kit_wrong(struct espl_kit *, const char *format, ...) ESPL_PRINTF(2, 3);
/* Room for this many pointers, all NULL; the caller frees it. */
void *espl__kit_list(uint32_t count);
/* Counts the residents and idle GPUs of nodes again, from the slots of the items. */
void espl__kit_count(struct espl_kit *);
/* Reads "key=value ..." with the descriptor's options. */
espl_status espl__kit_options(struct espl_kit *, const struct espl_plugin *, const char *text,
    struct espl_error *);
#endif
