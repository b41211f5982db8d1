// Keeps a grid of characters with their styles. The layers above fill the grid in, and screen.h sends it to the
// terminal. Only printable characters are stored. One thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum style {
	STYLE_PLAIN,
	STYLE_DIM,
	STYLE_BOLD,
	STYLE_TITLE,   // the first line
	STYLE_HEADING, // the titles of the columns
	STYLE_SORTED,  // the title of the column by which the rows are sorted
	STYLE_USED,    // the used part of a bar
	STYLE_HIGH,    // the used part of a bar that is nearly full; also a warning
	STYLE_FULL,    // the used part of a bar that is full; also an error
	STYLE_OTHER,   // the second part of a bar
	STYLE_KEY,     // the name of a key in the last line; STYLE_HEADING: what the key does
	STYLE_COUNT
};

struct cell {
	uint32_t character; // a Unicode character; 0: the right half of the wide character in the cell before
	uint8_t style;
};

struct canvas {
	int rows, columns;
	bool is_unicode; // the terminal shows Unicode; if false, all other characters than ASCII become '?'
	struct cell *cells;
	int selected; // number of the row that is shown as selected; -1: none
};

// Makes a canvas of spaces. Returns 0, or -ENOMEM: the canvas then has no rows.
int canvas_init(struct canvas *canvas, int rows, int columns, bool is_unicode);
void canvas_finish(struct canvas *canvas);
// Puts UTF-8 text into a row, at most `width` columns of it, and not beyond the edge of the canvas. Characters that are
// not printable become '?'. If the text is longer than `width`, the last column shows an ellipsis, or '~' without
// Unicode. Returns the number of columns used.
int canvas_text(struct canvas *canvas, int row, int column, int width, enum style style, const char *text);
// Works like canvas_text(), but puts the text at the right end of the `width` columns.
void canvas_text_right(struct canvas *canvas, int row, int column, int width, enum style style, const char *text);
__attribute__((format(printf, 6, 7))) int canvas_print(struct canvas *canvas, int row, int column, int width,
						       enum style style, const char *format, ...);
// Gives all cells of a row from a column to the edge this style. Leaves the text unchanged.
void canvas_style(struct canvas *canvas, int row, int column, enum style style);

// A bar that shows two parts of a whole, each from 0 to 1. The rest of the bar is a thin line.
struct bar {
	double used;	   // the first part; its style is STYLE_USED, STYLE_HIGH or STYLE_FULL
	double other;	   // the second part, after the first one; its style is STYLE_OTHER
	double mark;	   // position of a mark on the bar, from 0 to 1; negative: no mark
	bool has_warnings; // show in another style that the bar is full or nearly full
};
void canvas_bar(struct canvas *canvas, int row, int column, int width, const struct bar *bar);
// Draws a chart of `height` rows, the lowest of which is `row`. `levels` has a value from 0 to 1 for each column; a
// negative value leaves its column empty.
void canvas_chart(struct canvas *canvas, int row, int height, int column, int width, enum style style,
		  const float *levels);

// Copies the text of a row as UTF-8, without the spaces at its end, and at most `capacity` bytes. Returns `buffer`.
char *canvas_read(const struct canvas *canvas, int row, char *buffer, size_t capacity);
