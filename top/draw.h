// Draws the model on a canvas of any size. One thread.
#pragma once
#include "top/canvas.h"
#include "top/control.h"
#include "top/model.h"

// Draws the whole screen. Scrolls the table so that the selected row is visible. Stores in `control` how many rows of
// the table fit. `clock` is the time of day as a text.
void draw_screen(struct canvas *canvas, struct model *model, struct control *control, const char *clock);
