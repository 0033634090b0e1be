/* replay.c - runs a fuzzer's entry over files and folders of files: the kept corpora, in `make
 * check`.
 *
 *   replay_KIND [-m COUNT] FILE...     -m: and over COUNT mutations of each, the same ones for the
 * same SEED, 1 if it is not set
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long inputs, mutations;
static uint64_t state = 1;

static size_t
draw(size_t below)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return below == 0 ? 0 : (size_t)(state >> 33) % below;
}

/* A few changes: bytes, bits, numbers at their limits, pieces doubled, moved and cut. */
static size_t
mutate(uint8_t *data, size_t size, size_t room)
{
	static const uint8_t telling[] = { 0, 1, 127, 128, 255, '/', '.', '\n', ' ', '"', '%',
		'@' };

	for (size_t n = 1 + draw(4); n > 0 && size > 0; n--) {
		size_t at = draw(size), from = draw(size), step = 1 + draw(size - from);

		switch (draw(6)) {
		case 0: data[at] ^= (uint8_t)(1u << draw(8)); break;
		case 1: data[at] = (uint8_t)draw(256); break;
		case 2: data[at] = telling[draw(sizeof telling)]; break;
		case 3: /* doubled */
			step = step < room - size ? step : room - size;
			memmove(data + from + step, data + from, size - from);
			size += step;
			break;
		case 4: /* copied to another place */
			step = step < size - at ? step : size - at;
			memmove(data + at, data + from, step);
			break;
		default: /* cut out */
			memmove(data + from, data + from + step, size - from - step);
			size -= step;
		}
	}
	return size;
}

static void
run_mutations(const uint8_t *data, size_t size)
{
	for (unsigned long i = 0; i < mutations; i++) {
		size_t room = 2 * size + 64, now;
		uint8_t *copy = malloc(room), *exact;

		memcpy(copy, data, size);
		now = mutate(copy, size, room);
		exact = malloc(now + 1);
		memcpy(exact, copy, now);
		(void)LLVMFuzzerTestOneInput(exact, now);
		free(exact);
		free(copy);
		inputs++;
	}
}

static int
one(const char *path)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;
	long size;

	if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0) {
		perror(path);
		return 1;
	}
	rewind(f);
	/* of just this size, so that a sanitizer sees the end */
	data = malloc((size_t)size + 1);
	if (data == NULL || fread(data, 1, (size_t)size, f) != (size_t)size) {
		perror(path);
		return 1;
	}
	(void)fclose(f);
	(void)LLVMFuzzerTestOneInput(data, (size_t)size);
	inputs++;
	run_mutations(data, (size_t)size);
	free(data);
	return 0;
}

static int
walk(const char *path)
{
	struct stat st;
	struct dirent *entry;
	DIR *dir;
	int bad = 0;

	if (stat(path, &st) != 0) {
		perror(path);
		return 1;
	}
	if (!S_ISDIR(st.st_mode))
		return one(path);
	dir = opendir(path);
	if (dir == NULL) {
		perror(path);
		return 1;
	}
	while ((entry = readdir(dir)) != NULL) {
		char name[4096];
		if (entry->d_name[0] == '.')
			continue;
		(void)snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
		bad |= walk(name);
	}
	(void)closedir(dir);
	return bad;
}

int
main(int argc, char **argv)
{
	const char *seed = getenv("SEED");
	int bad = 0, first = 1;

	if (seed != NULL)
		state = strtoull(seed, NULL, 10);
	if (argc > 2 && strcmp(argv[1], "-m") == 0) {
		mutations = strtoul(argv[2], NULL, 10);
		first = 3;
	}
	for (int i = first; i < argc; i++)
		bad |= walk(argv[i]);
	printf("%lu inputs\n", inputs);
	return bad || inputs == 0;
}
