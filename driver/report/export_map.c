/* export_map.c - the GPU map as CSV: which trial used which part of which GPU, and when.
 *
 * A row for each GPU of each stay: a trial that is resized in place, or starts again, has several.
 */
#include "report/reading.h"

#include <jansson.h>

/* The stay's GPUs as it holds them in order of rank; what is no list of pairs holds none. */
static void
put_stay(sqlite3_stmt *st, FILE *to, struct espl__buf *b)
{
	const char *text = (const char *)sqlite3_column_text(st, 6);
	json_t *slots = text != NULL ? json_loads(text, 0, NULL) : NULL, *slot;
	size_t rank;
	int i;

	json_array_foreach (slots, rank, slot) {
		const json_t *node = json_array_get(slot, 0), *gpu = json_array_get(slot, 1);

		if (!json_is_integer(node) || !json_is_integer(gpu))
			continue;
		espl__print(b, "%lld,%lld,%lld", (long long)json_integer_value(node),
		    (long long)json_integer_value(gpu), sqlite3_column_int64(st, 3));
		for (i = 4; i < 6; i++) {
			espl__print(b, ",");
			if (sqlite3_column_type(st, i) != SQLITE_NULL)
				espl__print_number(b, sqlite3_column_double(st, i));
		}
		for (i = 0; i < 3; i++)
			espl__print(b, ",%lld", sqlite3_column_int64(st, i));
		espl__print(b, ",%lld\n", (long long)rank);
		(void)fwrite(b->data, 1, b->size, to);
		espl__buf_clear(b);
	}
	json_decref(slots);
}

espl_status
espl__export_map(struct espl__reading *r, FILE *to, struct espl__diag *diag)
{
	sqlite3_stmt *st = espl__reading_query(r,
	    "SELECT trial, gang, number, packing, from_s, until_s, slots"
	    " FROM stays ORDER BY from_s, gang, number",
	    -1, -1, diag);
	struct espl__buf b = { NULL, 0, 0 };
	int more;

	if (st == NULL)
		return ESPL_E_REMOTE;
	(void)fputs("node,gpu,packing,from_s,until_s,trial,gang,stay,rank\n", to);
	while ((more = espl__reading_next(r, st, diag)) == 1)
		put_stay(st, to, &b);
	(void)sqlite3_finalize(st);
	espl__buf_free(&b);
	return more < 0 ? ESPL_E_REMOTE : ESPL_OK;
}
