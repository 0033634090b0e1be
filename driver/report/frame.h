/* frame.h - what the live view says, as lines of text: pure, so that a test can read it. */
#ifndef ESPL__FRAME_H
#define ESPL__FRAME_H
#include "report/view.h"

struct espl__frame_style {
	uint32_t width, height; /* of the window; a frame is at most height - 1 lines */
	int colour, unicode;
};
/* Appends the lines, each ended by "\n" and none wider than the window.  Returns how many;
 * `widths` (room for `height` of them) gets the columns of each. */
uint32_t espl__frame_draw(const struct espl__view *, const struct espl__frame_style *,
    struct espl__buf *, uint16_t *widths);
#endif
