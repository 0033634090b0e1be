/* live_page.h - live.js and live.css; the build writes live_page.c. */
#ifndef ESPL__LIVE_PAGE_H
#define ESPL__LIVE_PAGE_H
extern const char espl__live_script[], espl__live_style[];
#endif
