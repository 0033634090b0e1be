/* test_real.h - the stage on which whole runs in the real world are tested: a folder with a
 * configuration, a trial and a run, and what was seen of that run. */
#ifndef TEST_REAL_H
#define TEST_REAL_H
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "plugin/registry.h"
#include "run/drive.h"

/* Reports x.iteration as its loss, and does what it is told; PACE: seconds an iteration takes. */
extern const char good_trial[];

struct bench {
	char dir[64], run[80], config[80];
	struct espl__inputs inputs;
	struct espl__observer observer;
	struct espl__drive drive;
	struct espl__exec_summary summary;
	struct espl__diag diag;
	volatile int interrupt;
	char ended[512]; /* text of the gang that ended last with one */
	unsigned reports, gangs;
	void (*on_report)(struct bench *);
};

/* trial: members of the trial group beside the command; rest: the other groups. */
void begin(struct bench *b, const char *script, const char *trial, const char *rest);
/* summary, diag, ended, reports and gangs tell what came of it. */
espl_status drive(struct bench *b, int resume);
/* A file of the folder. */
void put(const struct bench *b, const char *name, const char *text);
/* Has this test any child left, and with it any process of a run? */
int children_left(void);
/* Fails if a process of the run is left. */
void finish(struct bench *b);
/* on_report: the driver is killed at the report of this number. */
extern unsigned die_at;
void die(struct bench *b);

#define SHA9 \
	"algorithm = { use = \"sha\"; trials = 9; iterations_min = 1; iterations_max = 9; eta = " \
	"3; };\n" \
	"allocator = { use = \"static\"; gpus = 4; };\n"
#define LOCAL(n_, g_) \
	"cloud = { use = \"local\"; device = \"cpu\"; nodes = " #n_ "; gpus = " #g_ "; };\n"
#define ONE(iterations_) \
	"algorithm = { use = \"random\"; trials = 1; iterations_max = " #iterations_ \
	"; };\n" LOCAL(1, 1)
#endif
