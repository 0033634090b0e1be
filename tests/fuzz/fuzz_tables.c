/* fuzz_tables.c - files of prices and of learning curves: read, or refused with the line. */
#include "oracle.h"

#include <sys/mman.h>

#include "base/diag.h"
#include "input/input.h"
#include "input/prices.h"

static uint64_t
read_prices(const uint8_t *data, size_t size)
{
	struct espl__price_file f = { 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	int fd = memfd_create("prices", 0);
	uint64_t answer = 0;
	char path[40];

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	demand(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	if (espl__prices_read(path, &f, &diag) != ESPL_OK) {
		demand(diag.text[0] != '\0');
		answer = diag.line + 1;
	} else {
		for (uint32_t i = 0; i < f.count; i++)
			for (uint32_t k = 0; k < f.list[i].count; k++) {
				demand(f.list[i].prices[k].usd_hour >= 0);
				demand(k == 0 ||
				    f.list[i].prices[k].from >= f.list[i].prices[k - 1].from);
				answer = answer * 31 + (uint64_t)f.list[i].prices[k].usd_hour;
			}
		espl__prices_free(&f);
	}
	close(fd);
	return answer;
}

static uint64_t
read_curves(const uint8_t *data, size_t size)
{
	struct espl__buf text = { NULL, 0, 0 };
	struct espl__diag diag = ESPL__DIAG_INIT;
	struct espl__curves *c = NULL;
	uint64_t answer = 0;

	espl__put(&text, data, size);
	if (espl__curves_parse("fuzz", &text, NULL, &c, &diag) != ESPL_OK) {
		demand(diag.text[0] != '\0');
		answer = diag.line + 1;
	} else {
		demand(espl__curves_rows(c) > 0);
		for (uint32_t row = 0; row < espl__curves_rows(c); row++)
			answer = answer * 31 + espl__curves_last(c, row);
		espl__curves_free(c);
	}
	espl__buf_free(&text);
	return answer;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	double begun = fuzz_seconds();

	if (size < 2)
		return 0;
	if (data[0] % 2 == 0)
		demand(read_prices(data + 1, size - 1) == read_prices(data + 1, size - 1));
	else
		demand(read_curves(data + 1, size - 1) == read_curves(data + 1, size - 1));
	demand_linear(begun, size);
	return 0;
}
