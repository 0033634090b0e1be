/* oracle.h - what every fuzzer here demands: the same answer twice, work in proportion to the
 * input, and nothing outside of the directory that it is given. */
#ifndef FUZZ_ORACLE_H
#define FUZZ_ORACLE_H
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *, size_t);

static inline void
demand(int truth)
{
	if (!truth)
		abort();
}

/* ---- work: processor time of this thread, far above what any honest input takes -------------- */

static inline double
fuzz_seconds(void)
{
	struct timespec now;

	demand(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static inline void
demand_linear(double begun, size_t size)
{
	demand(fuzz_seconds() - begun < 1.0 + (double)size * 1e-4);
}

/* ---- places: DIR/run gets what comes, DIR/victim must stay as it is ---------------------------
 */

struct fuzz_place {
	char dir[48], run[64], victim[64];
};

static inline void
fuzz_open(struct fuzz_place *p)
{
	char path[96];
	FILE *f;

	strcpy(p->dir,
	    access("/dev/shm", W_OK) == 0 ? "/dev/shm/espl-fuzz-XXXXXX" : "/tmp/espl-fuzz-XXXXXX");
	demand(mkdtemp(p->dir) != NULL);
	snprintf(p->run, sizeof p->run, "%s/run", p->dir);
	snprintf(p->victim, sizeof p->victim, "%s/victim", p->dir);
	demand(mkdir(p->run, 0755) == 0 && mkdir(p->victim, 0755) == 0);
	snprintf(path, sizeof path, "%s/secret", p->victim);
	f = fopen(path, "w");
	demand(f != NULL && fputs("0123", f) >= 0 && fclose(f) == 0);
}

static inline unsigned
fuzz_entries(const char *path)
{
	DIR *dir = opendir(path);
	unsigned n = 0;

	demand(dir != NULL);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

/* The caller has removed DIR/run, which must be possible. */
static inline void
fuzz_close(struct fuzz_place *p)
{
	char path[96];
	struct stat st;

	snprintf(path, sizeof path, "%s/secret", p->victim);
	demand(lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 4 &&
	    (st.st_mode & 07777) != 06777 && fuzz_entries(p->victim) == 3);
	demand(unlink(path) == 0 && rmdir(p->victim) == 0);
	demand(fuzz_entries(p->dir) == 2 && rmdir(p->dir) == 0);
}
#endif
