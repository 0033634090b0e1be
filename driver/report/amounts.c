/* amounts.c - values of metrics, spans of time and money for people. */
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "report/totals.h"

char *
espl__format_metric(double value, char to[32])
{
	if (isnan(value))
		(void)snprintf(to, 32, "-");
	else
		(void)snprintf(to, 32, "%.6g", value);
	return to;
}

char *
espl__format_seconds(double s, char to[32])
{
	if (!(s >= 0.0005))
		s = 0;
	if (s > 9e9)
		s = 9e9;
	if (s < 0.9995) /* as the page: no shorter unit */
		s = round(s * 1e3) / 1e3;
	return espl__format_short((espl_span)(s * 1e9), to);
}

/* As money() in report_base.js. */
char *
espl__format_usd(double usd, char to[32])
{
	double size = fabs(usd);
	int digits = 2;

	for (double left = size; left > 0 && left < 0.0995 && digits < 6; left *= 10)
		digits++;
	if (!isfinite(usd))
		(void)snprintf(to, 32, "-");
	else if (size < 1e12)
		(void)snprintf(to, 32, "%s%.*f", usd < 0 ? "-$" : "$", digits, size);
	else
		(void)snprintf(to, 32, "%s%.2e", usd < 0 ? "-$" : "$", size);
	return to;
}
