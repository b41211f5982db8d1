// Declares the functions that draw the parts of the screen for draw.c. One thread.
#pragma once
#include "top/draw.h"

// Draws a line about the node, and the lines of the GPUs below it, from row 0. Returns the number of rows drawn, at
// most `most`.
int draw_head(struct canvas *canvas, const struct model *model, const struct control *control, int most,
	      const char *clock);
// Draws the table, with the titles of its columns, into `height` rows from `row`.
void draw_table(struct canvas *canvas, struct model *model, struct control *control, int row, int height);
// Draws the charts of the selected vGPU into `height` rows; DETAIL_LEAST is the least height.
enum { DETAIL_LEAST = 5 };
void draw_detail(struct canvas *canvas, const struct model *model, int row, int height);
// These functions draw a page in place of the table.
void draw_waits(struct canvas *canvas, const struct model *model, int row, int height);
void draw_help(struct canvas *canvas, int row, int height);
