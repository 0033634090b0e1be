/* leases_inner.h - the lease machine, between its two files: leases.c has the table, what is
 * reported and what is due; leases_state.c has what follows from answers. */
#ifndef KIT_LEASES_INNER_H
#define KIT_LEASES_INNER_H
#include <espalier/kit/leases.h>

/* ---- leases.c ---- */

void espl_leases_log(const struct espl_leases *, const struct espl_leased *, const char *format,
    ...) __attribute__((format(printf, 3, 4)));
void espl_leases_report(const struct espl_leases *, struct espl_leased *, struct espl_node_event *);
void espl_leases_list_now(struct espl_leases *, espl_time now);
/* Its request is no longer of interest. */
void espl_leases_stop(const struct espl_leases *, struct espl_leased *);

/* ---- leases_state.c ---- */

/* The last word about a lease.  sure: an answer has confirmed that nothing is left to pay for. */
void espl_lease_end(struct espl_leases *, struct espl_leased *, espl_reason, const char *text,
    espl_money charged, int sure, espl_time now);
/* What a row says of the machine; -1: out of memory. */
int espl_lease_copy(struct espl_leased *, const struct espl_lease_row *);
void espl_lease_begin(struct espl_leased *, espl_time now);
void espl_lease_release(struct espl_leases *, struct espl_leased *, espl_time now);
/* Gives up what has waited for too long. */
void espl_lease_expire(struct espl_leases *, struct espl_leased *, espl_time now);
/* When that is due; ESPL_NEVER: no limit runs. */
espl_time espl_lease_limit(const struct espl_leases *, const struct espl_leased *);
/* What is to be sent: an espl_lease_busy. */
enum espl_lease_busy espl_lease_duty(const struct espl_leases *, const struct espl_leased *);
/* Pauses grow up to 30 s. */
void espl_lease_wait(struct espl_leased *, espl_time now);
#endif
