// Draws the model on a canvas of any size. One thread.
#pragma once
#include "top/canvas.h"
#include "top/control.h"
#include "top/model.h"

// Draws the whole screen. Scrolls the table, and notes the size of its page. `clock` is the time of day, as a text.
void draw_screen(struct canvas *canvas, struct model *model, struct control *control, const char *clock);
