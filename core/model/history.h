/* history.h - observations for algorithms that asked for them, kept compactly.
 *
 * 40 bytes and 8 a further metric for each observation; curves are chained per trial.
 */
#ifndef ESPL__HISTORY_H
#define ESPL__HISTORY_H
#include "model/earlier.h"
#include "model/trials.h"

struct espl__history;
/* earlier: what comes before the first own observation; NULL nothing. */
struct espl__history *espl__history_new(const struct espl__trials *,
    const struct espl__earlier *earlier);
void espl__history_free(struct espl__history *);
const struct espl_history *espl__history_view(struct espl__history *);
/* metrics: by metric number, NaN where not reported; [0] is the objective, raw. */
void espl__history_add(struct espl__history *, const struct espl_observation *);
/* The user's first points: count arrays of params doubles, borrowed. */
void espl__history_first(struct espl__history *, const double *const *points, uint32_t count);
#endif
