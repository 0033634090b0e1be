/* cloud_aws_table.c - prices on demand of offers without price_hour: those of a dated table, the
 * one that comes with espalier or a file.  A price that a table does not have is not guessed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cloud_aws.h"

#define FIELDS 4
#define TABLE_MOST ((size_t)16 << 20)
#define DAY_S (24 * 3600)
#define OLD_DAYS 180

static const char head[] = "region,type,usd_hour,date";

/* Whole days between the date and this time; -1: not a date. */
static int64_t
count_days(const char *date, int64_t utc_s)
{
	char text[40];
	int64_t from_s;

	if (strlen(date) != 10 || strspn(date, "0123456789-") != 10)
		return -1;
	(void)snprintf(text, sizeof text, "%sT00:00:00Z", date);
	from_s = cloud_aws_answer_time(text);
	if (from_s <= 0)
		return -1;
	return utc_s > from_s ? (utc_s - from_s) / DAY_S : 0;
}

/* Splits a line at commas; -1: it has more or fewer fields. */
static int
split_line(const char *line, size_t size, char fields[FIELDS][80])
{
	int n = 0;
	size_t at = 0;

	for (size_t i = 0; i <= size; i++) {
		if (i < size && line[i] != ',')
			continue;
		if (n >= FIELDS || i - at >= sizeof fields[0])
			return -1;
		memcpy(fields[n], line + at, i - at);
		fields[n++][i - at] = '\0';
		at = i + 1;
	}
	return n == FIELDS ? 0 : -1;
}

/* 1: it is the price that is looked for; -1: why it cannot be read. */
static int
read_line(const char *line, size_t size, const char *region, const char *type,
    struct aws_tabled *found, char text[AWS_TEXT])
{
	char fields[FIELDS][80];
	espl_money usd;

	if (split_line(line, size, fields) != 0) {
		(void)snprintf(text, AWS_TEXT, "it does not have 4 fields");
		return -1;
	}
	usd = cloud_aws_answer_money(fields[2]);
	if (fields[0][0] == '\0' || fields[1][0] == '\0' || usd <= 0) {
		(void)snprintf(text, AWS_TEXT, "the price of '%s' in '%s' is '%s'", fields[1],
		    fields[0], fields[2]);
		return -1;
	}
	if (count_days(fields[3], 0) != 0) {
		(void)snprintf(text, AWS_TEXT, "'%s' is not a date like 2026-01-31", fields[3]);
		return -1;
	}
	if (strcmp(fields[0], region) != 0 || strcmp(fields[1], type) != 0)
		return 0;
	if (found->usd_hour > 0 && found->usd_hour != usd) {
		(void)snprintf(text, AWS_TEXT,
		    "its price for %s differs from that of an earlier line", type);
		return -1;
	}
	found->usd_hour = usd;
	(void)snprintf(found->date, sizeof found->date, "%.10s", fields[3]);
	return 1;
}

/* -1: the table cannot be read, and why. */
static int
find_price(const char *table, const char *region, const char *type, struct aws_tabled *found,
    char text[AWS_TEXT])
{
	char why[AWS_TEXT] = "the first line is not \"region,type,usd_hour,date\"";
	int headed = 0;
	unsigned number = 0;

	*found = (struct aws_tabled){ 0, "" };
	for (const char *line = table; *line != '\0';) {
		size_t size = strcspn(line, "\n"), length = size;

		if (length > 0 && line[length - 1] == '\r')
			length--;
		number++;
		if (length > 0 && line[0] != '#') {
			int fine = headed
			    ? read_line(line, length, region, type, found, why) >= 0
			    : length == sizeof head - 1 && strncmp(line, head, length) == 0;

			if (!fine) {
				(void)snprintf(text, AWS_TEXT, "line %u: %.300s", number, why);
				return -1;
			}
			headed = 1;
		}
		line += size + (line[size] != '\0');
	}
	if (!headed)
		(void)snprintf(text, AWS_TEXT, "it has no line \"%s\"", head);
	return headed ? 0 : -1;
}

/* NULL: why not */
static char *
read_file(const char *path, char text[AWS_TEXT])
{
	FILE *from = fopen(path, "re");
	char *table = from != NULL ? malloc(TABLE_MOST + 1) : NULL;
	size_t size = table != NULL ? fread(table, 1, TABLE_MOST + 1, from) : 0;

	if (table == NULL || ferror(from))
		(void)snprintf(text, AWS_TEXT, "%s", strerror(errno));
	else if (size > TABLE_MOST)
		(void)snprintf(text, AWS_TEXT, "it is longer than 16 MiB");
	else if (memchr(table, '\0', size) != NULL)
		(void)snprintf(text, AWS_TEXT, "it is not a text");
	else
		text[0] = '\0';
	if (from != NULL)
		(void)fclose(from);
	if (text[0] != '\0') {
		free(table);
		return NULL;
	}
	table[size] = '\0';
	return table;
}

/* The price at which the run began: it stays, whatever a newer table says. */
static int
read_recorded(const struct aws_cloud *cloud, struct aws_offer *o)
{
	const char *known = cloud_aws_record_get(cloud, "price", o->row[AWS_COL_TYPE].as.s);
	long long usd = 0;

	if (known == NULL || sscanf(known, "%lld %10s", &usd, o->price_date) != 2 || usd <= 0)
		return 0;
	o->price_hour = usd;
	o->recorded = 1;
	return 1;
}

espl_status
cloud_aws_table_price(struct aws_cloud *cloud, struct aws_offer *o, struct espl_error *error)
{
	const char *type = o->row[AWS_COL_TYPE].as.s, *path = aws_text(cloud, AWS_OPT_PRICES);
	const char *name = path[0] != '\0' ? path : "the table that comes with espalier";
	struct aws_tabled found;
	char text[AWS_TEXT] = "";

	if (o->row[AWS_COL_PRICE].source != ESPL_UNSET) {
		o->price_hour = o->row[AWS_COL_PRICE].as.i;
		return o->price_hour > 0
		    ? ESPL_OK
		    : espl_fail(error, ESPL_E_CONFIG,
			  "the price of %s must be more than 0: set price_hour to its price on "
			  "demand (https://aws.amazon.com/ec2/pricing/on-demand/)",
			  type);
	}
	/* A visit leases nothing: whoever looks for machines need not know what they cost. */
	if (read_recorded(cloud, o) || cloud->visit != NULL)
		return ESPL_OK;
	if (path[0] != '\0' && cloud->table == NULL)
		cloud->table = read_file(path, text);
	if ((path[0] != '\0' && cloud->table == NULL) ||
	    find_price(path[0] != '\0' ? cloud->table : cloud_aws_shipped, cloud->region, type,
		&found, text) != 0)
		return espl_fail(error, ESPL_E_CONFIG,
		    "the prices of %.200s cannot be read: %.300s", name, text);
	if (found.usd_hour == 0) {
		(void)snprintf(text, sizeof text,
		    "set price_hour to its price on demand "
		    "(https://aws.amazon.com/ec2/pricing/on-demand/), or cloud.prices to a table "
		    "made with `espalier aws-prices -o FILE %s`",
		    cloud->region);
		return espl_hint(error,
		    espl_fail(error, ESPL_E_CONFIG,
			"the price of %s in %s is not known: it is not in %.200s", type,
			cloud->region, name),
		    "%s", text);
	}
	o->price_hour = found.usd_hour;
	(void)snprintf(o->price_date, sizeof o->price_date, "%s", found.date);
	return ESPL_OK;
}

/* Once in a process: a plan looks at the offers of many simulated runs. */
void
cloud_aws_table_report(const struct aws_cloud *cloud)
{
	static char said[AWS_TEXT];
	const char *path = aws_text(cloud, AWS_OPT_PRICES), *oldest = NULL;
	char text[AWS_TEXT], renew[200] = "";
	long long days;
	uint32_t recorded = 0;

	for (uint32_t i = 0; i < cloud->offer_count && cloud->visit == NULL; i++) {
		const char *date = cloud->offers[i].price_date;

		if (date[0] != '\0' && (oldest == NULL || strcmp(date, oldest) < 0))
			oldest = date;
		recorded |= cloud->offers[i].recorded;
	}
	if (oldest == NULL)
		return;
	days = count_days(oldest, (int64_t)time(NULL));
	if (days > OLD_DAYS && !recorded)
		(void)snprintf(renew, sizeof renew,
		    "; make a newer table with `espalier aws-prices -o FILE %.80s` and set "
		    "cloud.prices to FILE",
		    cloud->region);
	(void)snprintf(text, sizeof text,
	    "prices on demand are those of %s, %lld days old, %s%.200s%s", oldest, days,
	    recorded ? "" : "from ",
	    recorded              ? "recorded when the run began"
		: path[0] != '\0' ? path
				  : "the table that comes with espalier",
	    renew);
	if (strcmp(said, text) == 0)
		return;
	memcpy(said, text, sizeof said);
	cloud->host->log(cloud->host, days > OLD_DAYS ? ESPL_WARN : ESPL_INFO, text);
}

int
cloud_aws_table_record(struct aws_cloud *cloud, char text[AWS_TEXT])
{
	char value[60];

	for (uint32_t i = 0; i < cloud->offer_count; i++) {
		const struct aws_offer *o = &cloud->offers[i];

		(void)snprintf(value, sizeof value, "%lld %s", (long long)o->price_hour,
		    o->price_date);
		if (o->price_date[0] != '\0' &&
		    cloud_aws_record_put(cloud, "price", o->row[AWS_COL_TYPE].as.s, value, text) !=
			0)
			return -1;
	}
	return 0;
}
