/* aws_keys.h - where keys for AWS come from: the environment, the files of the AWS CLI, or a
 * command that prints them. */
#ifndef ESPL__AWS_KEYS_H
#define ESPL__AWS_KEYS_H
#include "real/sigv4.h"

/* Looks for the keys of a profile; NULL: those of the environment, else of AWS_PROFILE, else of
 * "default".  E_BUSY: run *command in a shell (free() it) and have its output parsed: the
 * profile's credential_process, or the AWS CLI for all that takes more than a file (SSO, roles,
 * containers, the metadata of a machine).  E_CONFIG: a file cannot be used. */
espl_status espl__aws_keys_find(const char *profile, struct espl__aws_keys *, char **command,
    struct espl_error *);
/* What credential_process prints: JSON with Version 1.  E_CONFIG with the reason. */
espl_status espl__aws_keys_parse(const void *json, size_t size, struct espl__aws_keys *,
    struct espl_error *);
#endif
