// A grid of cells, which the layers above fill in and screen.h sends to the terminal. Only printable characters get in.
// One thread.
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
	STYLE_HIGH,    // the same, if nearly all is used; also a warning
	STYLE_FULL,    // the same, if all is used; also an error
	STYLE_OTHER,   // a second part of a bar
	STYLE_KEY,     // a key, and STYLE_HEADING for what it does
	STYLE_COUNT
};

struct cell {
	uint32_t character; // 0: the right half of the wide character before it
	uint8_t style;
};

struct canvas {
	int rows, columns;
	bool is_unicode; // otherwise only ASCII gets in
	struct cell *cells;
	int selected; // the row that is shown as selected; -1: none
};

// Makes an empty canvas. Returns 0, or -ENOMEM: the canvas then has no rows.
int canvas_init(struct canvas *canvas, int rows, int columns, bool is_unicode);
void canvas_finish(struct canvas *canvas);
// Puts UTF-8 text into a row, at most `width` columns of it; less at the edge. Characters that are not printable become
// '?'. If the text is longer than `width`, its last column is '~', or an ellipsis. Returns the number of columns used.
int canvas_text(struct canvas *canvas, int row, int column, int width, enum style style, const char *text);
// The same, with the text at the right end of `width` columns.
void canvas_text_right(struct canvas *canvas, int row, int column, int width, enum style style, const char *text);
__attribute__((format(printf, 6, 7))) int canvas_print(struct canvas *canvas, int row, int column, int width,
						       enum style style, const char *format, ...);
// Gives a row a style from one column to the edge; its text stays.
void canvas_style(struct canvas *canvas, int row, int column, enum style style);

// A bar: parts of a whole from 0 to 1. What is left is a thin line.
struct bar {
	double used;	   // in the style STYLE_USED, STYLE_HIGH or STYLE_FULL
	double other;	   // follows after `used`, in STYLE_OTHER
	double mark;	   // position of a mark; negative: none
	bool has_warnings; // a bar that is nearly full is shown as such
};
void canvas_bar(struct canvas *canvas, int row, int column, int width, const struct bar *bar);
// A chart of `height` rows, the lowest of which is `row`. `levels` has a value from 0 to 1 for each column; negative:
// no value.
void canvas_chart(struct canvas *canvas, int row, int height, int column, int width, enum style style,
		  const float *levels);

// Writes a row as UTF-8 without spaces at its end, cut off at `capacity`. Returns `buffer`.
char *canvas_read(const struct canvas *canvas, int row, char *buffer, size_t capacity);
