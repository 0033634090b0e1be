/* pbt_rank.c - population based training: ranks the members and chooses sources (exploit).
 */
#include <math.h>
#include <stdlib.h>
#include <espalier/util.h>
#include "pbt.h"

/* By population, then the best first. */
static int
score_order(const void *a, const void *b)
{
	const struct score *x = a, *y = b;

	if (x->population != y->population)
		return x->population < y->population ? -1 : 1;
	return espl_score_order(&x->of, &y->of);
}

void
pbt_rank(struct pbt *pbt)
{
	uint32_t i;

	pbt->scored = 0;
	pbt->standing.population = ESPL_ANY;
	for (i = 0; i < pbt->size; i++) {
		const struct member *m = &pbt->members[i];

		if ((m->flags & MEMBER_SCORED) != 0)
			pbt->scores[pbt->scored++] =
			    (struct score){ { m->loss, m->trial }, m->population, i };
	}
	qsort(pbt->scores, pbt->scored, sizeof *pbt->scores, score_order);
	for (i = 0; i < pbt->scored; i++)
		pbt->rank[pbt->scores[i].member] = i;
}

/* A member that was replaced counts no more. */
void
pbt_unrank(struct pbt *pbt, uint32_t index)
{
	uint32_t i;

	ESPL_ASSERT(pbt->scored > 0 && pbt->rank[index] < pbt->scored);
	pbt->standing.population = ESPL_ANY;
	pbt->scored--;
	for (i = pbt->rank[index]; i < pbt->scored; i++) {
		pbt->scores[i] = pbt->scores[i + 1];
		pbt->rank[pbt->scores[i].member] = i;
	}
}

const struct standing *
pbt_standing(struct pbt *pbt, uint32_t population)
{
	struct standing *s = &pbt->standing;
	uint32_t i;

	if (s->population == population)
		return s;
	*s = (struct standing){ .population = population, .behind = UINT64_MAX };
	for (i = 0; i < pbt->scored; i++) {
		if (pbt->scores[i].population != population)
			continue;
		if (s->count++ == 0)
			s->from = i;
		s->good += isnan(pbt->scores[i].of.loss) ? 0 : 1;
	}
	for (i = 0; i < pbt->size; i++) {
		const struct member *m = &pbt->members[i];

		if ((m->flags & MEMBER_TRAINS) != 0 && (m->flags & MEMBER_ASKED) != 0 &&
		    m->population == population && m->iteration < s->behind)
			s->behind = m->iteration;
	}
	return s;
}

/* Number of members in a quantile of `count`: rounded up, at most half. */
static uint32_t
quantile_of(const struct pbt *pbt, uint32_t count)
{
	uint32_t n = (uint32_t)ceil(pbt->quantile * (double)count - 1e-9);

	return n > count / 2 ? count / 2 : n;
}

static uint32_t
draw_below(const struct pbt *pbt, uint32_t count)
{
	return (uint32_t)(espl_uniform(pbt->host) * (double)count);
}

/* One of the best, preferably one whose checkpoint is of its last interval. */
static uint32_t
draw_best(const struct pbt *pbt, uint32_t from, uint32_t count)
{
	uint32_t i, fresh = 0, chosen;

	ESPL_ASSERT(count > 0 && from + count <= pbt->scored);
	for (i = from; i < from + count; i++)
		fresh += pbt->members[pbt->scores[i].member].saved != 0;
	if (fresh == 0)
		return pbt->scores[from + draw_below(pbt, count)].member;
	chosen = draw_below(pbt, fresh);
	for (i = from; i < from + count; i++)
		if (pbt->members[pbt->scores[i].member].saved != 0 && chosen-- == 0)
			break;
	return pbt->scores[i].member;
}

/* The member whose weights this one copies; ESPL_ANY: it keeps its own. */
uint32_t
pbt_source(struct pbt *pbt, uint32_t index)
{
	const struct member *m = &pbt->members[index];
	const struct standing *s = pbt_standing(pbt, m->population);
	uint32_t rank = pbt->rank[index] - s->from, best;

	ESPL_ASSERT(index < pbt->size && pbt->rank[index] < pbt->scored);
	if (s->good == 0 || s->count < 2)
		return ESPL_ANY;
	if (pbt->tournament) {
		uint32_t other = draw_below(pbt, s->count - 1);

		other += other >= rank;
		if (isnan(m->loss) && other >= s->good)
			other = draw_below(pbt, s->good);
		return other < rank && other < s->good ? pbt->scores[s->from + other].member
						       : ESPL_ANY;
	}
	best = quantile_of(pbt, s->count);
	if (!isnan(m->loss) && rank < s->count - best)
		return ESPL_ANY;
	best = best == 0 ? 1 : best > s->good ? s->good : best;
	return rank < best ? ESPL_ANY : draw_best(pbt, s->from, best);
}

/* For a member without a loss, one that failed. */
uint32_t
pbt_source_for_failed(struct pbt *pbt, uint32_t index)
{
	const struct standing *s = pbt_standing(pbt, pbt->members[index].population);
	uint32_t best = quantile_of(pbt, s->count);

	if (s->good == 0)
		return ESPL_ANY;
	return draw_best(pbt, s->from, best == 0 ? 1 : best > s->good ? s->good : best);
}
