/* agent_python.h - the words of a command that runs Python: which interpreter runs what. */
#ifndef ESPL__AGENT_PYTHON_H
#define ESPL__AGENT_PYTHON_H
#include "agent/agent.h"

struct espl__python {
	char *program;                /* path of the interpreter */
	char *name;                   /* of the process, as execve sets it */
	struct espl__strings options; /* its argv[0], and its options */
	int module; /* 1: `entry` is the name behind -m; 0: the path of a script */
	char *entry;
	struct espl__strings argv; /* the whole command, as the interpreter finds it */
	size_t skip;               /* of argv, before the script's own arguments */
};
/* `path`: the program that words[0] is found at.  NULL; or why it cannot be forked from a process
 * of the same kind, a static text. */
const char *espl__python_parse(const char *path, char *const *words, size_t count, const char *dir,
    const char *search, struct espl__python *);
void espl__python_free(struct espl__python *);
#endif
