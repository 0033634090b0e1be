/* s3_text.c - see s3_text.h. */
#include "transfer/s3_text.h"

#include <stdio.h>
#include <string.h>

static const char *const entities[][2] = { { "&quot;", "\"" }, { "&lt;", "<" }, { "&gt;", ">" },
	{ "&apos;", "'" }, { "&#39;", "'" }, { "&#34;", "\"" }, { "&amp;", "&" } };

int
espl__xml_text(const char **at, const char *name, char *to, size_t room)
{
	char open[64], close[64];
	const char *from, *end;
	size_t used = 0;

	(void)snprintf(open, sizeof open, "<%s>", name);
	(void)snprintf(close, sizeof close, "</%s>", name);
	from = strstr(*at, open);
	end = from != NULL ? strstr(from, close) : NULL;
	if (end == NULL)
		return 0;
	*at = end + strlen(close);
	for (from += strlen(open); from < end && used + 1 < room;) {
		size_t i, count = sizeof entities / sizeof entities[0];

		for (i = 0; i < count; i++)
			if (strncmp(from, entities[i][0], strlen(entities[i][0])) == 0)
				break;
		to[used++] = i < count ? entities[i][1][0] : *from;
		from += i < count ? strlen(entities[i][0]) : 1;
	}
	to[used] = '\0';
	return from == end;
}

void
espl__crc_text(uint32_t crc, char to[9])
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (int i = 0; i < 5; i++)
		to[i] = digits[crc >> (26 - 6 * i) & 63];
	to[5] = digits[(crc & 3) << 4];
	(void)memcpy(to + 6, "==", 3);
}

void
espl__s3_why(long status, const char *body, char *to, size_t room)
{
	const char *at = body;
	char code[100], text[300] = "";

	if (!espl__xml_text(&at, "Code", code, sizeof code)) {
		(void)snprintf(to, room, "HTTP status %ld", status);
		return;
	}
	at = body;
	(void)espl__xml_text(&at, "Message", text, sizeof text);
	(void)snprintf(to, room, "%s%s%s", code, text[0] != '\0' ? ": " : "", text);
	for (char *c = to; *c != '\0'; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
}

int
espl__s3_is_skew(const char *body)
{
	static const char *const texts[] = { "<Code>RequestTimeTooSkewed<", "not yet valid",
		"Signature not yet current", "Signature expired" };

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		if (strstr(body, texts[i]) != NULL)
			return 1;
	return 0;
}

int
espl__s3_again(long status, const char *body)
{
	static const char *const codes[] = { "<Code>ExpiredToken<", "has expired",
		"<Code>RequestExpired<", "<Code>RequestTimeout<", "<Code>BadDigest<",
		"<Code>ConditionalRequestConflict<", "<Code>OperationAborted<" };

	if (espl__s3_is_skew(body))
		return 1;
	/* 409: another request for the same key was under way. */
	if (status == 0 || status == 408 || status == 409 || status == 429 || status >= 500)
		return status != 501;
	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
		if (strstr(body, codes[i]) != NULL)
			return 1;
	return 0;
}
