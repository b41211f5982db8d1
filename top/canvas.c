#include "top/canvas.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/printable.h"

// If the parts of a bar reach these sums, the bar is shown as nearly full, and as full.
static const double high = 0.8, full = 0.95;
static const double visible = 0.001;

int canvas_init(struct canvas *canvas, int rows, int columns, bool is_unicode)
{
	*canvas = (struct canvas){.is_unicode = is_unicode, .selected = -1};
	if (rows < 1 || columns < 1)
		return 0;
	canvas->cells = malloc((size_t)rows * (size_t)columns * sizeof *canvas->cells);
	if (!canvas->cells)
		return -ENOMEM;
	canvas->rows = rows;
	canvas->columns = columns;
	for (size_t i = 0; i < (size_t)rows * (size_t)columns; i++)
		canvas->cells[i] = (struct cell){' ', STYLE_PLAIN};
	return 0;
}

void canvas_finish(struct canvas *canvas)
{
	free(canvas->cells);
	*canvas = (struct canvas){0};
}

// Puts one character into a cell of the canvas. If the cell was one half of a wide character, removes the other half.
static void put_cell(struct canvas *canvas, int row, int column, uint32_t character, enum style style)
{
	struct cell *line = canvas->cells + (size_t)row * (size_t)canvas->columns;

	if (line[column].character == 0 && column > 0)
		line[column - 1].character = ' ';
	if (column + 1 < canvas->columns && line[column + 1].character == 0)
		line[column + 1].character = ' ';
	line[column] = (struct cell){character, (uint8_t)style};
}

static void put(struct canvas *canvas, int row, int column, uint32_t character, enum style style)
{
	if (row >= 0 && row < canvas->rows && column >= 0 && column < canvas->columns)
		put_cell(canvas, row, column, character, style);
}

// Reads the next character of a text, and replaces it by '?' if the canvas cannot show it. Returns its length in bytes.
// *ret_columns is the number of columns that it takes: 0, 1 or 2.
static size_t read_shown(const struct canvas *canvas, const char *text, unsigned *ret_character, int *ret_columns)
{
	size_t length = vg_character_read(text, ret_character);
	int columns = vg_is_printable(*ret_character) ? wcwidth((wchar_t)*ret_character) : -1;

	if (*ret_character >= 0x20 && *ret_character < 0x7f)
		columns = 1;
	else if (!canvas->is_unicode)
		columns = -1;
	if (columns < 0 || columns > 2) {
		*ret_character = '?';
		columns = 1;
	}
	*ret_columns = columns;
	return length;
}

static int text_columns(const struct canvas *canvas, const char *text)
{
	unsigned character;
	int sum = 0, columns;

	while (*text && sum < 1 << 20) {
		text += read_shown(canvas, text, &character, &columns);
		sum += columns;
	}
	return sum;
}

int canvas_text(struct canvas *canvas, int row, int column, int width, enum style style, const char *text)
{
	int end = column + width < canvas->columns ? column + width : canvas->columns, at = column, columns;
	unsigned character;

	if (row < 0 || row >= canvas->rows || column < 0 || end <= column)
		return 0;
	bool is_cut = text_columns(canvas, text) > end - column;
	while (*text) {
		text += read_shown(canvas, text, &character, &columns);
		if (columns == 0)
			continue;
		if (at + columns > end - is_cut)
			break;
		put_cell(canvas, row, at, character, style);
		if (columns == 2) {
			put_cell(canvas, row, at + 1, ' ', style);
			canvas->cells[(size_t)row * (size_t)canvas->columns + (size_t)at + 1].character = 0;
		}
		at += columns;
	}
	if (is_cut)
		put_cell(canvas, row, at++, canvas->is_unicode ? 0x2026 : '~', style);
	return at - column;
}

void canvas_text_right(struct canvas *canvas, int row, int column, int width, enum style style, const char *text)
{
	int columns = text_columns(canvas, text), space = columns < width ? width - columns : 0;

	canvas_text(canvas, row, column + space, width - space, style, text);
}

int canvas_print(struct canvas *canvas, int row, int column, int width, enum style style, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	return canvas_text(canvas, row, column, width, style, text);
}

void canvas_style(struct canvas *canvas, int row, int column, enum style style)
{
	for (; row >= 0 && row < canvas->rows && column < canvas->columns; column++)
		canvas->cells[(size_t)row * (size_t)canvas->columns + (size_t)column].style = (uint8_t)style;
}

// ---- bars and charts -------------------------------------------------------------------------------------

static double limit_part(double value)
{
	return value > 1 ? 1 : value > 0 ? value : 0; // also for NaN
}

// Converts a part of a bar to a number of half columns. A visible part gets at least one, even if it would be rounded
// to 0.
static int halves(double part, int width)
{
	int count = (int)(limit_part(part) * 2 * width + 0.5);

	return count == 0 && part >= visible ? 1 : count;
}

void canvas_bar(struct canvas *canvas, int row, int column, int width, const struct bar *bar)
{
	enum { USED, USED_HALF, OTHER, REST, MARK };
	static const uint32_t unicode[] = {0x2501, 0x2578, 0x2505, 0x2500, 0x2503}, ascii[] = {'=', '-', '+', '.', '|'};
	const uint32_t *set = canvas->is_unicode ? unicode : ascii;
	double sum = limit_part(bar->used) + limit_part(bar->other);
	int used = halves(bar->used, width), all = bar->other >= visible ? halves(sum, width) : used;
	enum style style = !bar->has_warnings || sum < high ? STYLE_USED : sum < full ? STYLE_HIGH : STYLE_FULL;

	for (int i = 0; i < width; i++) {
		bool is_used = 2 * i + 1 < used, is_half = 2 * i + 1 == used && all == used;
		if (is_used)
			put(canvas, row, column + i, set[USED], style);
		else if (2 * i < all && !is_half)
			put(canvas, row, column + i, set[OTHER], STYLE_OTHER);
		else
			put(canvas, row, column + i, is_half ? set[USED_HALF] : set[REST], is_half ? style : STYLE_DIM);
	}
	int mark = (int)(limit_part(bar->mark) * width);
	if (bar->mark >= 0 && width > 0)
		put(canvas, row, column + (mark < width ? mark : width - 1), set[MARK], STYLE_BOLD);
}

void canvas_chart(struct canvas *canvas, int row, int height, int column, int width, enum style style,
		  const float *levels)
{
	static const char ascii[] = "_.:-=+*#@";

	for (int i = 0; i < width; i++) {
		if (!(levels[i] >= 0))
			continue;
		int filled = (int)(limit_part(levels[i]) * 8 * height + 0.5);
		filled = filled ? filled : 1;
		for (int j = 0; j < height && j * 8 < filled; j++) {
			int eighths = filled - j * 8 < 8 ? filled - j * 8 : 8;
			bool is_zero = levels[i] < 0.002;
			put(canvas, row - j, column + i,
			    canvas->is_unicode ? 0x2580 + (uint32_t)eighths : (uint32_t)ascii[is_zero ? 0 : eighths],
			    is_zero ? STYLE_DIM : style);
		}
	}
}

// ---- reading ---------------------------------------------------------------------------------------------

static size_t write_character(uint32_t character, char buffer[4])
{
	if (character < 0x80) {
		buffer[0] = (char)character;
		return 1;
	}
	size_t length = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
	for (size_t i = length - 1; i > 0; i--, character >>= 6)
		buffer[i] = (char)(0x80 | (character & 0x3f));
	buffer[0] = (char)((0xf00 >> length) | character);
	return length;
}

char *canvas_read(const struct canvas *canvas, int row, char *buffer, size_t capacity)
{
	size_t length = 0, end = 0;
	char bytes[4];

	for (int i = 0; row >= 0 && row < canvas->rows && i < canvas->columns; i++) {
		uint32_t character = canvas->cells[(size_t)row * (size_t)canvas->columns + (size_t)i].character;
		size_t more = character ? write_character(character, bytes) : 0;
		if (length + more >= capacity)
			break;
		memcpy(buffer + length, bytes, more);
		length += more;
		end = character && character != ' ' ? length : end;
	}
	buffer[end] = '\0';
	return buffer;
}
