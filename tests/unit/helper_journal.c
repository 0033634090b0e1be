/* helper_journal.c - what happened to gangs as the journal tells it, for tests of what is shown of
 * a run: AT_NS started|resized|ended GANG [TOOK_NS] AT_NS resume Nothing of the executor or of the
 * reports has a part in it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/event.h"
#include "run/journal.h"

static void
tell(uint64_t at, const struct espl__event *e)
{
	switch (e->type) {
	case ESPL__EV_STARTED: printf("%" PRIu64 " started %" PRIu64 "\n", at, e->as.gang); break;
	case ESPL__EV_RESIZED:
		printf("%" PRIu64 " resized %" PRIu64 " %" PRId64 "\n", at, e->as.resized.gang,
		    e->as.resized.took);
		break;
	case ESPL__EV_ENDED: printf("%" PRIu64 " ended %" PRIu64 "\n", at, e->as.ended.gang); break;
	case ESPL__EV_RESUME: printf("%" PRIu64 " resume\n", at); break;
	default: break;
	}
}

static int
tell_round(struct espl__reader *r, uint64_t *now)
{
	struct espl__arena arena;
	uint64_t count;
	int bad = 0;

	memset(&arena, 0, sizeof arena);
	*now += espl__get_v64(r);
	for (count = espl__get_v64(r); count > 0 && !bad; count--) {
		struct espl__event e;

		bad = espl__event_get(r, &arena, &e) != 0;
		if (!bad)
			tell(*now, &e);
	}
	espl__arena_free(&arena);
	return bad || r->bad ? -1 : 0;
}

int
main(int argc, char **argv)
{
	struct espl__journal_reader *journal;
	struct espl__journal_header header;
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__reader payload;
	enum espl__record type;
	uint64_t now = 0, lost;
	int more = -1;

	if (argc != 2 || espl__journal_open(argv[1], &journal, &header, &diag) != ESPL_OK) {
		fprintf(stderr, "helper_journal: %s\n",
		    argc == 2 ? diag.text : "give it a journal");
		return 2;
	}
	while ((more = espl__journal_next(journal, &type, &payload, &lost, &diag)) == 1)
		if (type == ESPL__REC_ROUND && tell_round(&payload, &now) < 0)
			break;
	espl__journal_reader_free(journal);
	return more == 0 ? 0 : 1;
}
