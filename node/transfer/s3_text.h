/* s3_text.h - the little of S3's texts that nodes and the driver read alike. */
#ifndef ESPL__S3_TEXT_H
#define ESPL__S3_TEXT_H
#include <stddef.h>
#include <stdint.h>

/* The text of the first element of this name from *at on, which moves behind it: 1; else 0. */
int espl__xml_text(const char **at, const char *name, char *to, size_t room);
/* The header x-amz-checksum-crc32c. */
void espl__crc_text(uint32_t crc, char to[9]);
/* "SlowDown: Please reduce your request rate", or "HTTP status 503". */
void espl__s3_why(long status, const char *body, char *to, size_t room);
/* Was it refused because the clocks differ? */
int espl__s3_is_skew(const char *body);
/* Is it worth another request, with a new signature? */
int espl__s3_again(long status, const char *body);
#endif
