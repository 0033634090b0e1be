/* results_space.c - the search space in results.db, as JSON: what its readers need to draw and to
 * compare parameters (docs/results.md, meta).
 */
#include "base/json.h"
#include "report/results_impl.h"

static void
print_param(const struct espl__space *space, uint32_t param, struct espl__buf *to)
{
	const struct espl_param *p = espl__space_view(space)->params[param];
	static const char *const types[] = { "real", "int", "choice", "ordinal" };
	static const char *const scales[] = { "linear", "log", "reverse-log" };

	espl__json_open(to, NULL, '{');
	espl__json_text(to, "name", p->name);
	espl__json_text(to, "type", types[p->type - ESPL_REAL]);
	if (p->type == ESPL_REAL || p->type == ESPL_INT) {
		espl__json_text(to, "scale", scales[p->scale - ESPL_LINEAR]);
		espl__json_real(to, "low", p->low);
		espl__json_real(to, "high", p->high);
	} else {
		espl__json_open(to, "values", '[');
		for (uint32_t i = 0; i < p->label_count; i++) {
			espl__json_key(to, NULL);
			espl__space_value_json(space, param, i, to);
		}
		espl__print(to, "]");
	}
	espl__print(to, "}");
}

void
espl__results_space(struct espl__results *r, uint64_t experiment, const struct espl__space *space)
{
	const struct espl_space *view = espl__space_view(space);
	char key[40] = "space";

	if (experiment > 0)
		(void)snprintf(key, sizeof key, "space/%llu", (unsigned long long)experiment);
	espl__buf_clear(&r->text);
	espl__json_open(&r->text, NULL, '[');
	for (uint32_t i = 0; i < view->param_count; i++)
		print_param(space, i, &r->text);
	espl__print(&r->text, "]");
	espl__results_put(r, PUT_META, "tt", key, espl__buf_text(&r->text));
}
