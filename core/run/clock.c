/* clock.c - how long a crashed run was without a driver: DIR/clock.
 *
 * A wall clock that was wrong before the crash (a boot before NTP) would add days to the run. As
 * long as the machine has not been restarted, the clock since boot gives the time that really
 * passed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/drive_private.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define ID_ROOM 40

/* Which boot this is, and the time since then, sleep included. */
static int
read_boot(char id[ID_ROOM], int64_t *ns)
{
	struct espl__buf text = { NULL, 0, 0 };
	struct timespec now;
	int good = espl__file_read(BOOT_ID, 4096, &text, NULL) == ESPL_OK &&
	    sscanf(espl__buf_text(&text), "%39s", id) == 1 &&
	    clock_gettime(CLOCK_BOOTTIME, &now) == 0;

	if (good)
		*ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	espl__buf_free(&text);
	return good;
}

void
espl__drive_clock_keep(const char *dir, espl_time at, int64_t origin_s)
{
	struct espl__diag diag = ESPL__DIAG_INIT;
	char id[ID_ROOM], *path, *text;
	int64_t ns;

	if (!read_boot(id, &ns))
		return;
	path = espl__format("%s/clock", dir);
	text =
	    espl__format("%s %" PRId64 " %" PRId64 " %" PRId64 "\n", id, ns, (int64_t)at, origin_s);
	if (espl__file_write(path, text, strlen(text), &diag) != ESPL_OK)
		espl__log(ESPL_WARN, "%s", diag.text);
	free(path);
	free(text);
}

int
espl__drive_clock_since(const char *dir, int64_t origin_s, espl_time *at)
{
	struct espl__buf text = { NULL, 0, 0 };
	char id[ID_ROOM], now_id[ID_ROOM], *path = espl__format("%s/clock", dir);
	int64_t ns, now_ns, begin, origin;
	int good = espl__file_read_own(path, 4096, &text, NULL) == ESPL_OK &&
	    sscanf(espl__buf_text(&text), "%39s %" SCNd64 " %" SCNd64 " %" SCNd64, id, &ns, &begin,
		&origin) == 4 &&
	    origin == origin_s && read_boot(now_id, &now_ns) && strcmp(id, now_id) == 0 &&
	    now_ns >= ns && ns >= 0 && begin >= 0 && begin < INT64_MAX - (now_ns - ns);

	if (good)
		*at = begin + (now_ns - ns);
	espl__buf_free(&text);
	free(path);
	return good;
}
