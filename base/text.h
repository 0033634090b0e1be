/* text.h - the numbers, spans and amounts that users write and read. */
#ifndef ESPL__TEXT_H
#define ESPL__TEXT_H
#include <stdarg.h>
#include <stdio.h>
#include <espalier/abi.h>

/* Each returns 0, or -1 if `text` is not wholly one.  Nothing is written then. */
int espl__parse_int(const char *text, int64_t *);  /* decimal, optional sign, range-checked */
int espl__parse_real(const char *text, double *);  /* finite; C locale */
int espl__parse_bool(const char *text, int64_t *); /* true false yes no on off 1 0 */
int espl__parse_span(const char *text,
    espl_span *); /* "90s" "1.5h" "1h30m" "250ms" "10us"; not negative */
int espl__parse_bytes(const char *text, int64_t *);    /* "512" "64KiB" "1.5GB" */
int espl__parse_money(const char *text, espl_money *); /* "12.24" dollars -> micro-dollars */
/* Into a buffer of the caller; return it. */
char *espl__format_span(espl_span, char to[32]);   /* shortest that parses back: "1h30m" */
char *espl__format_short(espl_span, char to[32]);  /* for people: "1m32s", "450ms" */
char *espl__format_money(espl_money, char to[32]); /* "12.24": at least 2 decimals */
/* A double as the shortest text that reads back equal (%.15g or %.17g). */
char *espl__format_real(double, char to[32]);
/* The same digits, spelled so that Python, JSON, YAML 1.1 and C all read a real and nothing else:
 * "1.0", "1.0e-05".  It is how a real value leaves for a program or a file of values. */
char *espl__format_value(double, char to[32]);
/* Replaces control characters by blanks, in place: text of a node, a trial or a provider must not
 * change what a terminal shows, or begin a line of its own. */
void espl__clean_text(char *text);
/* Name nearest to `text` among count names by edit distance (at most 1/3 of its length),
 * NULL if none is near. */
const char *espl__nearest(const char *text, const char *const *names, size_t count);
/* In a function that ends with `format, ...`: prints these into the array `text`. */
#define ESPL__FORMAT(text_, format_) \
	do { \
		va_list list_; \
		va_start(list_, format_); \
		(void)vsnprintf(text_, sizeof(text_), format_, list_); \
		va_end(list_); \
	} while (0)
#endif
