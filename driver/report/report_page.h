/* report_page.h - report.html, with report.js in it, and report.sql; the build writes
 * report_page.c.
 */
#ifndef ESPL__REPORT_PAGE_H
#define ESPL__REPORT_PAGE_H
extern const char espl__report_page[];
extern const char espl__report_sql[], espl__report_search_sql[]; /* both parts of report.sql */
#endif
