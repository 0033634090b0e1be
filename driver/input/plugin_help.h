/* help.h - what a plugin is and takes, printed for people. */
#ifndef ESPL__HELP_H
#define ESPL__HELP_H
#include "config/schema.h"

/* Text for terminals; a section of docs/config.md; a .SS of a man page. */
void espl__plugin_help(const struct espl_plugin *, enum espl__help_form, struct espl__buf *);
#endif
