/* log.h - lines for people on standard error (or wherever the program points them). */
#ifndef ESPL__LOG_H
#define ESPL__LOG_H
#include <espalier/host.h>
typedef void espl__log_fn(void *ctx, espl_level, const char *text);
void espl__log_to(espl__log_fn *, void *ctx, espl_level least); /* fn NULL: standard error */
void espl__log(espl_level, const char *format, ...) ESPL_PRINTF(2, 3);
int espl__log_wants(espl_level);
#endif
