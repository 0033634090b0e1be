/* files.h - the files that PATH options name: read once, before create, for host->file. */
#ifndef ESPL__FILES_H
#define ESPL__FILES_H
#include "plugin/instance.h"

/* Reads all of them into instance->files and sums their digest. */
espl_status espl__files_read(struct espl__instance *, struct espl__diag *);
void espl__files_free(struct espl__instance *);
/* Bytes of an option (row ESPL_ANY) or cell; NULL: there is no such file. */
const void *espl__files_get(const struct espl__instance *, uint32_t option, uint32_t row,
    uint32_t column, uint64_t *size);
#endif
