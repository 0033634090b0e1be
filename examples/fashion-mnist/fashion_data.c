/* fashion_data.c - reads the Fashion-MNIST training set from its idx files (zlib reads both the
 * compressed and the plain ones).
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include "fashion.h"

/* Opens FOLDER/NAME.gz, or FOLDER/NAME. */
static espl_status
open_idx(const char *folder, const char *name, gzFile *file, struct espl_error *error)
{
	char path[4096];
	int n = snprintf(path, sizeof path, "%s/%s.gz", folder, name);

	if (n < 0 || (size_t)n >= sizeof path)
		return espl_fail(error, ESPL_E_CONFIG, "the name of the directory is too long");
	*file = gzopen(path, "rb");
	if (*file == NULL) {
		path[n - 3] = '\0';
		*file = gzopen(path, "rb");
	}
	if (*file == NULL) {
		espl_status st =
		    espl_fail(error, ESPL_E_CONFIG, "cannot open %s (.gz or plain)", path);
		if (error != NULL && error->hint[0] == '\0')
			snprintf(error->hint, sizeof error->hint,
			    "install dataset-fashion-mnist, or name its directory with "
			    "trial.options.data = \"...\"");
		return st;
	}
	(void)gzbuffer(*file, 1u << 17);
	return ESPL_OK;
}

static espl_status
read_bytes(gzFile file, void *to, size_t count, const char *name, struct espl_error *error)
{
	uint8_t *at = to;

	while (count > 0) {
		unsigned part = count > (1u << 28) ? 1u << 28 : (unsigned)count;
		int got = gzread(file, at, part);

		if (got <= 0) {
			int code;
			const char *why = gzerror(file, &code);

			return espl_fail(error, ESPL_E_CONFIG, "%s: %s", name,
			    got < 0 ? why : "the file is too short");
		}
		at += got;
		count -= (size_t)got;
	}
	return ESPL_OK;
}

/* The header of an idx file: 4 bytes magic, then one size per dimension, all big-endian. */
static espl_status
read_header(gzFile file, const char *name, uint32_t magic, uint32_t dimensions, uint32_t *sizes,
    struct espl_error *error)
{
	for (uint32_t i = 0; i <= dimensions; i++) {
		uint8_t b[4];
		uint32_t v;
		espl_status st = read_bytes(file, b, sizeof b, name, error);

		if (st != ESPL_OK)
			return st;
		v = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
		if (i == 0 && v != magic)
			return espl_fail(error, ESPL_E_CONFIG,
			    "%s is not an idx file of the expected kind", name);
		if (i > 0)
			sizes[i - 1] = v;
	}
	return ESPL_OK;
}

/* The first `head` and the last `tail` of the file's records of `each` bytes. */
static espl_status
read_ends(const char *folder, const char *name, uint32_t magic, uint32_t dimensions, uint32_t each,
    uint32_t head, uint32_t tail, uint8_t *to, struct espl_error *error)
{
	uint32_t sizes[3] = { 0, 0, 0 };
	gzFile file;
	espl_status st = open_idx(folder, name, &file, error);

	if (st != ESPL_OK)
		return st;
	st = read_header(file, name, magic, dimensions, sizes, error);
	if (st == ESPL_OK && dimensions == 3 &&
	    (sizes[1] != FASHION_SIDE || sizes[2] != FASHION_SIDE))
		st = espl_fail(error, ESPL_E_CONFIG, "%s contains images of %u x %u, not 28 x 28",
		    name, sizes[1], sizes[2]);
	if (st == ESPL_OK && (uint64_t)head + tail > sizes[0])
		st = espl_fail(error, ESPL_E_CONFIG,
		    "cannot train on %u and validate on %u images; the set has only %u", head, tail,
		    sizes[0]);
	if (st == ESPL_OK)
		st = read_bytes(file, to, (size_t)head * each, name, error);
	if (st == ESPL_OK && tail > 0 &&
	    gzseek(file, (z_off_t)(sizes[0] - head - tail) * each, SEEK_CUR) < 0)
		st = espl_fail(error, ESPL_E_CONFIG, "%s: the file is too short", name);
	if (st == ESPL_OK && tail > 0)
		st = read_bytes(file, to + (size_t)head * each, (size_t)tail * each, name, error);
	(void)gzclose_r(file);
	return st;
}

espl_status
fashion_data_load(const char *folder, uint32_t train, uint32_t validate, struct fashion_data **out,
    struct espl_error *error)
{
	struct fashion_data *d = calloc(1, sizeof *d);
	size_t count = (size_t)train + validate;
	espl_status st = ESPL_OK;

	*out = NULL;
	if (d == NULL)
		return espl_fail(error, ESPL_E_NOMEM, "out of memory");
	d->train = train;
	d->validate = validate;
	d->pixels = malloc(count * FASHION_PIXELS);
	d->labels = malloc(count);
	if (d->pixels == NULL || d->labels == NULL)
		st = espl_fail(error, ESPL_E_NOMEM, "out of memory");
	if (st == ESPL_OK)
		st = read_ends(folder, "train-images-idx3-ubyte", 0x803, 3, FASHION_PIXELS, train,
		    validate, d->pixels, error);
	if (st == ESPL_OK)
		st = read_ends(folder, "train-labels-idx1-ubyte", 0x801, 1, 1, train, validate,
		    d->labels, error);
	for (size_t i = 0; st == ESPL_OK && i < count; i++)
		if (d->labels[i] >= FASHION_LABELS)
			st = espl_fail(error, ESPL_E_CONFIG,
			    "an image has the label %u, which is above 9", d->labels[i]);
	if (st != ESPL_OK) {
		fashion_data_free(d);
		return st;
	}
	*out = d;
	return ESPL_OK;
}

void
fashion_data_free(struct fashion_data *d)
{
	if (d == NULL)
		return;
	free(d->pixels);
	free(d->labels);
	free(d);
}
