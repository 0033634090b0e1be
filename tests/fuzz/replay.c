/* replay.c - runs a fuzzer's entry over files and folders of files: the kept corpora, in `make
 * check`. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long inputs;

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
	free(data);
	inputs++;
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
	int bad = 0;

	for (int i = 1; i < argc; i++)
		bad |= walk(argv[i]);
	printf("%lu inputs\n", inputs);
	return bad || inputs == 0;
}
