/* aws_prices_main.c - espalier-aws-prices: makes a table of prices on demand for cloud aws from
 * AWS's public price lists.
 *
 * A list has a few hundred megabytes.  It is read as it comes: of each record only the fields that
 * matter are kept, and of those that are prices of machines, one line.  Nothing is written before
 * all lists are complete.
 */
#include <curl/curl.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#define FIELD 200                      /* bytes kept of a field */
#define COLUMNS_MOST 4000u             /* of a list */
#define ROWS_MOST 200000u              /* of a table */
#define BYTES_MOST ((uint64_t)4 << 30) /* of a list */
#define CONNECT_S 30L
#define SLOW_S 60L /* with less than a kilobyte each second */
#define LIMIT_S 1800L

enum column {
	COL_TERM = 0,
	COL_UNIT,
	COL_PRICE,
	COL_CURRENCY,
	COL_FAMILY,
	COL_KIND,
	COL_TYPE,
	COL_TENANCY,
	COL_SYSTEM,
	COL_STATUS,
	COL_SOFTWARE,
	COL_REGION,
	COL_NEEDED,
	COL_MARKET = COL_NEEDED, /* lists of past years do not have it */
	COL_COUNT
};
static const char *const column_names[COL_COUNT] = { "TermType", "Unit", "PricePerUnit", "Currency",
	"Product Family", "Location Type", "Instance Type", "Tenancy", "Operating System",
	"CapacityStatus", "Pre Installed S/W", "Region Code", "MarketOption" };

struct row {
	char region[40], type[40], date[11];
	int64_t usd_hour; /* micro-dollars */
	int unclear;      /* the list has two prices for it */
};
struct table {
	struct row *rows;
	size_t count;
};
struct list { /* the one that is being read */
	struct table *table;
	const char *region;
	size_t first; /* its first row in the table */
	uint64_t bytes;
	unsigned record;                 /* 0-4: about the list, 5: names of columns */
	unsigned field, columns;         /* the one being read, and how many there are */
	int16_t wanted[COLUMNS_MOST];    /* field to column; -1: not wanted */
	int quoted, quote_seen, has_any; /* within quotes; a quote in them; something was read */
	int has_end;                     /* the answer says where it ends */
	char text[FIELD];
	size_t size;
	char kept[COL_COUNT][FIELD];
	char label[FIELD], date[11];
	char why[400]; /* why not; "": nothing is wrong */
};

static int __attribute__((format(printf, 2, 3)))
fail_list(struct list *list, const char *format, ...)
{
	va_list args;

	if (list->why[0] != '\0')
		return -1;
	va_start(args, format);
	(void)vsnprintf(list->why, sizeof list->why, format, args);
	va_end(args);
	return -1;
}

/* "1.0060000000" in micro-dollars, rounded; -1: not a price. */
static int64_t
read_price(const char *text)
{
	int64_t value = 0, unit = 1000000;
	const char *at = text;

	for (; *at >= '0' && *at <= '9' && value < 1000000; at++)
		value = 10 * value + (*at - '0');
	if (at == text)
		return -1;
	value *= unit;
	if (*at == '.')
		for (at++; *at >= '0' && *at <= '9'; at++) {
			if (unit == 1)
				value += *at >= '5';
			unit /= 10;
			value += unit * (*at - '0');
		}
	return *at == '\0' ? value : -1;
}

static int
read_date(struct list *list, const char *text)
{
	int year = 0, month = 0, day = 0;

	if (sscanf(text, "%4d-%2d-%2dT", &year, &month, &day) != 3 || year < 2000 || month < 1 ||
	    month > 12 || day < 1 || day > 31)
		return fail_list(list, "its publication date is '%.40s'", text);
	(void)snprintf(list->date, sizeof list->date, "%04d-%02d-%02d", year % 10000, month % 100,
	    day % 100);
	return 0;
}

/* ---- records ---- */

static int
is_price_of_machine(const struct list *list)
{
	const char(*kept)[FIELD] = list->kept;
	int metal = strcmp(kept[COL_FAMILY], "Compute Instance (bare metal)") == 0;

	return (metal || strcmp(kept[COL_FAMILY], "Compute Instance") == 0) &&
	    strcmp(kept[COL_TERM], "OnDemand") == 0 && strcmp(kept[COL_UNIT], "Hrs") == 0 &&
	    strcmp(kept[COL_SYSTEM], "Linux") == 0 && strcmp(kept[COL_STATUS], "Used") == 0 &&
	    strcmp(kept[COL_REGION], list->region) == 0 &&
	    (kept[COL_KIND][0] == '\0' || strcmp(kept[COL_KIND], "AWS Region") == 0) &&
	    (kept[COL_SOFTWARE][0] == '\0' || strcmp(kept[COL_SOFTWARE], "NA") == 0) &&
	    (kept[COL_MARKET][0] == '\0' || strcmp(kept[COL_MARKET], "OnDemand") == 0) &&
	    (strcmp(kept[COL_TENANCY], "Shared") == 0 ||
		(metal && strcmp(kept[COL_TENANCY], "Dedicated") == 0));
}

static int
take_price(struct list *list)
{
	struct table *table = list->table;
	const char *type = list->kept[COL_TYPE];
	int64_t usd = read_price(list->kept[COL_PRICE]);
	struct row *more, *row;

	if (strcmp(list->kept[COL_CURRENCY], "USD") != 0)
		return fail_list(list, "its prices are in %.20s, not in dollars",
		    list->kept[COL_CURRENCY]);
	if (type[0] == '\0' || strlen(type) >= sizeof row->type || strpbrk(type, ",\"\n#") != NULL)
		return fail_list(list, "it has a type '%.60s'", type);
	if (usd < 0)
		return fail_list(list, "the price of %.40s is '%.40s'", type,
		    list->kept[COL_PRICE]);
	if (usd == 0) /* of reservations, under another heading */
		return 0;
	for (size_t i = list->first; i < table->count; i++)
		if (strcmp(table->rows[i].type, type) == 0) {
			table->rows[i].unclear |= table->rows[i].usd_hour != usd;
			return 0;
		}
	if (table->count >= ROWS_MOST)
		return fail_list(list, "the table has more than %u types", ROWS_MOST);
	if ((table->count & (table->count - 1)) == 0) {
		more =
		    realloc(table->rows, (table->count == 0 ? 1 : 2 * table->count) * sizeof *more);
		if (more == NULL)
			return fail_list(list, "out of memory");
		table->rows = more;
	}
	row = &table->rows[table->count++];
	*row = (struct row){ .usd_hour = usd };
	(void)snprintf(row->region, sizeof row->region, "%.39s", list->region);
	(void)snprintf(row->type, sizeof row->type, "%.39s", type);
	(void)snprintf(row->date, sizeof row->date, "%.10s", list->date);
	return 0;
}

static void
take_name(struct list *list)
{
	for (int c = 0; c < COL_COUNT; c++)
		if (strcmp(list->text, column_names[c]) == 0)
			list->wanted[list->field] = (int16_t)c;
}

static int
end_field(struct list *list)
{
	list->text[list->size] = '\0';
	if (list->field >= COLUMNS_MOST)
		return fail_list(list, "it has more than %u columns", COLUMNS_MOST);
	if (list->record == 5)
		take_name(list);
	else if (list->record > 5 && list->wanted[list->field] >= 0)
		memcpy(list->kept[list->wanted[list->field]], list->text, list->size + 1);
	else if (list->record < 5 && list->field == 0)
		memcpy(list->label, list->text, list->size + 1);
	else if (list->record < 5 && strcmp(list->label, "Publication Date") == 0)
		return read_date(list, list->text);
	list->field++;
	list->size = 0;
	list->quoted = list->quote_seen = 0;
	return 0;
}

/* The names of the columns came. */
static int
check_columns(struct list *list)
{
	int found[COL_COUNT] = { 0 };

	list->columns = list->field;
	for (unsigned i = 0; i < list->field; i++)
		if (list->wanted[i] >= 0)
			found[list->wanted[i]]++;
	for (int c = 0; c < COL_NEEDED; c++)
		if (found[c] != 1)
			return fail_list(list, "it has %d columns '%s': its format has changed",
			    found[c], column_names[c]);
	return list->date[0] == '\0' ? fail_list(list, "it has no publication date") : 0;
}

static int
end_record(struct list *list)
{
	int status = end_field(list);

	if (status == 0 && list->record == 5)
		status = check_columns(list);
	else if (status == 0 && list->record > 5 && list->field != list->columns)
		status =
		    fail_list(list, "a record has %u fields, not %u", list->field, list->columns);
	else if (status == 0 && list->record > 5 && is_price_of_machine(list))
		status = take_price(list);
	list->record += list->record <= 5;
	list->field = 0;
	list->has_any = 0;
	memset(list->kept, 0, sizeof list->kept);
	return status;
}

static int
take_byte(struct list *list, char c)
{
	if (list->quoted && list->quote_seen && c != '"') {
		list->quoted = list->quote_seen = 0;
	} else if (c == '"') {
		list->has_any = 1;
		if (!list->quoted) {
			list->quoted = 1;
			return 0;
		}
		list->quote_seen = !list->quote_seen;
		if (list->quote_seen)
			return 0;
	}
	if (!list->quoted && c == ',') {
		list->has_any = 1;
		return end_field(list);
	}
	if (!list->quoted && c == '\n')
		return list->has_any ? end_record(list) : 0;
	if (!list->quoted && c == '\r')
		return 0;
	list->has_any = 1;
	if (list->size + 1 < FIELD)
		list->text[list->size++] = c;
	return 0;
}

static size_t
take_bytes(char *bytes, size_t each, size_t count, void *ctx)
{
	struct list *list = ctx;
	size_t size = each * count;

	list->bytes += size;
	if (list->bytes > BYTES_MOST) {
		(void)fail_list(list, "it is longer than 4 GiB");
		return 0;
	}
	for (size_t i = 0; i < size; i++)
		if (take_byte(list, bytes[i]) != 0)
			return 0;
	return size;
}

/* ---- one list ---- */

static int
end_list(struct list *list)
{
	size_t kept = list->first, unclear = 0;

	if (list->has_any && (!list->quoted || list->quote_seen) && end_record(list) != 0)
		return -1;
	if (list->has_any || list->record <= 5)
		return fail_list(list, "it is cut off");
	for (size_t i = list->first; i < list->table->count; i++)
		if (list->table->rows[i].unclear)
			unclear++;
		else
			list->table->rows[kept++] = list->table->rows[i];
	list->table->count = kept;
	if (kept == list->first)
		return fail_list(list, "it has no prices of machines");
	if (unclear > 0)
		(void)fprintf(stderr,
		    "espalier aws-prices: warning: %s: the list has more than one price for %zu "
		    "type%s: left out\n",
		    list->region, unclear, unclear == 1 ? "" : "s");
	return 0;
}

/* A list has no mark at its end. An answer that ends with the connection may be cut at the end of a
 * line, and would be taken for the whole list. */
static size_t
take_header(char *bytes, size_t each, size_t count, void *ctx)
{
	static const char *const ends[] = { "HTTP/2", "HTTP/3",
		"Content-Length:", "Transfer-Encoding: chunked" };
	struct list *list = ctx;
	size_t size = each * count;

	if (size > 5 && strncmp(bytes, "HTTP/", 5) == 0)
		list->has_end = 0; /* of an earlier answer, by a proxy */
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
		list->has_end |=
		    size > strlen(ends[i]) && strncasecmp(bytes, ends[i], strlen(ends[i])) == 0;
	return size;
}

static int
fetch_list(struct list *list, const char *base)
{
	char url[700], error[CURL_ERROR_SIZE] = "";
	CURL *curl = curl_easy_init();
	long status = 0;
	CURLcode code;

	if (curl == NULL)
		return fail_list(list, "out of memory");
	(void)snprintf(url, sizeof url, "%.500s/offers/v1.0/aws/AmazonEC2/current/%.40s/index.csv",
	    base, list->region);
	(void)curl_easy_setopt(curl, CURLOPT_URL, url);
	(void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
	(void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
	(void)curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "");
	(void)curl_easy_setopt(curl, CURLOPT_USERAGENT, "espalier");
	(void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
	(void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1000L);
	(void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, SLOW_S);
	(void)curl_easy_setopt(curl, CURLOPT_TIMEOUT, LIMIT_S);
	(void)curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
	(void)curl_easy_setopt(curl, CURLOPT_HEADERDATA, list);
	(void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_bytes);
	(void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, list);
	code = curl_easy_perform(curl);
	(void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(curl);
	if (code == CURLE_OK && status != 200)
		return fail_list(list, "%s: HTTP status %ld", url, status);
	if (code != CURLE_OK)
		return fail_list(list, "%s: %s", url,
		    error[0] != '\0' ? error : curl_easy_strerror(code));
	if (!list->has_end)
		return fail_list(list, "%.300s: the answer has no length, so it may be incomplete",
		    url);
	return end_list(list);
}

static int
read_region(struct table *table, const char *region, const char *base)
{
	struct list *list = calloc(1, sizeof *list);
	int status = -1;

	if (list == NULL) {
		(void)fprintf(stderr, "espalier aws-prices: error: out of memory\n");
		return -1;
	}
	list->table = table;
	list->region = region;
	list->first = table->count;
	memset(list->wanted, -1, sizeof list->wanted);
	if ((strncmp(base, "https://", 8) != 0 && strncmp(base, "http://", 7) != 0) ||
	    strlen(base) > 500)
		(void)fail_list(list, "'%.100s' is not an HTTP or HTTPS URL", base);
	else if (strpbrk(base, "@ \n\r\t") != NULL) /* it is written into the table */
		(void)fail_list(list, "the URL must not contain a password or spaces");
	else if (strncmp(region, "cn-", 3) == 0)
		(void)fail_list(list, "prices there are not in dollars: set price_hour of offers");
	else if (region[0] == '\0' || strlen(region) >= sizeof table->rows->region ||
	    region[strspn(region, "abcdefghijklmnopqrstuvwxyz0123456789-")] != '\0')
		(void)fail_list(list, "this is not the name of a region");
	else
		status = fetch_list(list, base);
	if (status != 0)
		(void)fprintf(stderr, "espalier aws-prices: error: %s: %s\n", region, list->why);
	free(list);
	return status;
}

/* ---- the table ---- */

static int
compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int order = strcmp(x->region, y->region);

	return order != 0 ? order : strcmp(x->type, y->type);
}

static int
write_table(FILE *to, const struct table *table, const char *base)
{
	(void)fprintf(to,
	    "# Prices on demand of EC2 machines: Linux, shared tenancy, US dollars per hour, "
	    "without taxes and discounts.\n# From %s; date: when AWS published the list.\n"
	    "region,type,usd_hour,date\n",
	    base);
	for (size_t i = 0; i < table->count; i++) {
		const struct row *row = &table->rows[i];

		(void)fprintf(to, "%s,%s,%lld.%06lld,%s\n", row->region, row->type,
		    (long long)(row->usd_hour / 1000000), (long long)(row->usd_hour % 1000000),
		    row->date);
	}
	return fflush(to) == 0 && !ferror(to) ? 0 : -1;
}

/* The file is the old one or the new one, never half of one. */
static int
write_file(const char *path, const struct table *table, const char *base)
{
	char *half = NULL;
	FILE *to = NULL;
	int failed = 1;

	if (asprintf(&half, "%s.part", path) >= 0)
		to = fopen(half, "we");
	if (to != NULL)
		failed = write_table(to, table, base) != 0 || fsync(fileno(to)) != 0;
	if (to != NULL && fclose(to) != 0)
		failed = 1;
	if (!failed)
		failed = rename(half, path) != 0;
	if (failed) {
		(void)fprintf(stderr, "espalier aws-prices: error: cannot write %s: %s\n", path,
		    strerror(errno));
		if (to != NULL)
			(void)unlink(half);
	}
	free(half);
	return failed ? -1 : 0;
}

static const char usage[] =
    "usage: espalier aws-prices [-o FILE] [--url URL] REGION...\n"
    "\n"
    "Makes a table of prices on demand for cloud 'aws' from the price lists that AWS publishes.\n"
    "It needs no keys. The list of a region has a few hundred megabytes; it is read as it comes.\n"
    "\n"
    "  -o FILE    write the table to FILE, when it is complete (default: standard output)\n"
    "  --url URL  read the lists from there (default: https://pricing.us-east-1.amazonaws.com)\n"
    "  --help     show this text\n"
    "\n"
    "Set cloud.prices to the table, or take prices from it for price_hour of the offers.\n";

int
main(int argc, char **argv)
{
	const char *base = "https://pricing.us-east-1.amazonaws.com", *path = NULL;
	struct table table = { NULL, 0 };
	int at = 1, status = 0;

	for (; at < argc && argv[at][0] == '-'; at++) {
		const char *word = argv[at];

		if (strcmp(word, "--help") == 0)
			return fputs(usage, stdout) < 0 ? 1 : 0;
		if (at + 1 < argc && strcmp(word, "-o") == 0)
			path = argv[++at];
		else if (at + 1 < argc && strcmp(word, "--url") == 0)
			base = argv[++at];
		else
			break;
	}
	for (int i = at; i < argc; i++)
		at = argv[i][0] == '-' ? argc : at; /* options come first */
	if (at >= argc) {
		(void)fputs(usage, stderr);
		return 2;
	}
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return 1;
	for (; at < argc && status == 0; at++)
		status = read_region(&table, argv[at], base);
	if (status == 0) {
		qsort(table.rows, table.count, sizeof *table.rows, compare_rows);
		status = path != NULL ? write_file(path, &table, base)
				      : write_table(stdout, &table, base);
	}
	free(table.rows);
	curl_global_cleanup();
	return status == 0 ? 0 : 1;
}
