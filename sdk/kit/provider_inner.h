/* provider_inner.h - a cloud over HTTP, between its two files: provider.c has requests and answers,
 * provider_entries.c the entries of a cloud, its offers and ssh. */
#ifndef KIT_PROVIDER_INNER_H
#define KIT_PROVIDER_INNER_H
#include <espalier/kit/provider.h>

/* Cookies: the serial number of a lease, or 0, and a kind of request. */
#define PROVIDER_KINDS 16u
#define PROVIDER_COOKIE(serial_, kind_) ((serial_)*PROVIDER_KINDS + (uint64_t)(kind_))
enum { PROVIDER_TIMER = 0, PROVIDER_SSH = 14, PROVIDER_RETRY = 15 };

/* ---- provider.c ---- */

void espl_provider_take(struct espl_provider *, const struct espl_http_reply *);
void espl_provider_token_child(struct espl_provider *, const struct espl_child *);
/* The requests of a lease are no longer of interest. */
void espl_provider_stop(struct espl_provider *, uint64_t serial);
espl_status espl_provider_list(void *self);

/* ---- provider_entries.c ---- */

/* A request of start was answered. */
void espl_provider_started(struct espl_provider *, const struct espl_answer *);
/* Tries ssh; a status other than OK: it cannot be started. */
espl_status espl_provider_ssh(struct espl_provider *, struct espl_machine *);
#endif
