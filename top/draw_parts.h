// The parts of the screen, for draw.c. One thread.
#pragma once
#include "top/draw.h"

// Draws the line about the node and the lines of the GPUs from row 0. Returns the number of rows, at most `most`.
int draw_head(struct canvas *canvas, const struct model *model, const struct control *control, int most,
	      const char *clock);
// Draws the table with its titles into `height` rows.
void draw_table(struct canvas *canvas, struct model *model, struct control *control, int row, int height);
// Draws the charts of the selected vGPU into `height` rows, at least DETAIL_LEAST.
enum { DETAIL_LEAST = 5 };
void draw_detail(struct canvas *canvas, const struct model *model, int row, int height);
// The pages that replace the table.
void draw_waits(struct canvas *canvas, const struct model *model, int row, int height);
void draw_help(struct canvas *canvas, int row, int height);
