#define _XOPEN_SOURCE_EXTENDED 1
#include "top/screen.h"

#include <curses.h>
#include <wchar.h>

#include "top/keys.h"

// The colours of each style, and its attributes on a terminal with and without colours. Colour -1 is the terminal's
// default.
static const struct {
	short foreground, background;
	attr_t with_colour, without;
} styles[STYLE_COUNT] = {
	[STYLE_PLAIN] = {-1, -1, A_NORMAL, A_NORMAL},
	[STYLE_DIM] = {-1, -1, A_DIM, A_DIM},
	[STYLE_BOLD] = {-1, -1, A_BOLD, A_BOLD},
	[STYLE_TITLE] = {-1, -1, A_BOLD, A_BOLD},
	[STYLE_HEADING] = {COLOR_BLACK, COLOR_GREEN, A_NORMAL, A_REVERSE},
	[STYLE_SORTED] = {COLOR_BLACK, COLOR_CYAN, A_NORMAL, A_REVERSE | A_BOLD},
	[STYLE_USED] = {COLOR_GREEN, -1, A_NORMAL, A_NORMAL},
	[STYLE_HIGH] = {COLOR_YELLOW, -1, A_NORMAL, A_BOLD},
	[STYLE_FULL] = {COLOR_RED, -1, A_BOLD, A_BOLD},
	[STYLE_OTHER] = {COLOR_CYAN, -1, A_NORMAL, A_NORMAL},
	[STYLE_KEY] = {-1, -1, A_BOLD, A_BOLD},
};
enum { PAIR_SELECTED = STYLE_COUNT + 1 };

static bool uses_colour;

// Starts to use colours. Returns false if the terminal has too few colours for all styles.
static bool start_colour(void)
{
	if (!has_colors() || start_color() == ERR || use_default_colors() == ERR || COLOR_PAIRS <= PAIR_SELECTED)
		return false;
	for (short i = 0; i < STYLE_COUNT; i++)
		init_pair((short)(i + 1), styles[i].foreground, styles[i].background);
	init_pair(PAIR_SELECTED, COLOR_BLACK, COLOR_CYAN);
	return true;
}

void screen_open(bool has_colour)
{
	set_escdelay(25);
	initscr();
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	uses_colour = has_colour && start_colour();
}

void screen_close(void)
{
	endwin();
}

void screen_size(int *ret_rows, int *ret_columns)
{
	getmaxyx(stdscr, *ret_rows, *ret_columns);
}

static void make_cell(const struct cell *cell, bool is_selected, cchar_t *ret_cell)
{
	const wchar_t text[2] = {(wchar_t)cell->character, L'\0'};
	attr_t attributes = uses_colour ? styles[cell->style].with_colour : styles[cell->style].without;
	short pair = uses_colour ? (short)(cell->style + 1) : 0;

	if (is_selected && uses_colour) {
		attributes = A_NORMAL;
		pair = PAIR_SELECTED;
	} else if (is_selected) {
		attributes = A_REVERSE;
	}
	setcchar(ret_cell, text, attributes, pair, NULL);
}

static void show_row(const struct canvas *canvas, int row)
{
	const struct cell *line = canvas->cells + (size_t)row * (size_t)canvas->columns;
	cchar_t cell;

	for (int i = 0; i < canvas->columns; i++) {
		if (!line[i].character)
			continue; // the wide character in the cell before also covers this column
		make_cell(&line[i], row == canvas->selected, &cell);
		mvadd_wchnstr(row, i, &cell, 1);
	}
}

void screen_show(const struct canvas *canvas)
{
	for (int i = 0; i < canvas->rows; i++)
		show_row(canvas, i);
	refresh();
}

void screen_repaint(void)
{
	clearok(stdscr, TRUE);
}

uint32_t screen_key(void)
{
	static const struct {
		wint_t curses;
		uint32_t key;
	} known[] = {{KEY_UP, KEYS_UP},		  {KEY_DOWN, KEYS_DOWN},       {KEY_PPAGE, KEYS_PAGE_UP},
		     {KEY_NPAGE, KEYS_PAGE_DOWN}, {KEY_HOME, KEYS_HOME},       {KEY_END, KEYS_END},
		     {KEY_F(1), KEYS_HELP},	  {KEY_F(10), KEYS_QUIT},      {KEY_BACKSPACE, KEYS_BACKSPACE},
		     {KEY_ENTER, KEYS_ENTER},	  {KEY_RESIZE, SCREEN_RESIZED}};
	wint_t character;

	for (;;) {
		int kind = get_wch(&character);
		if (kind == ERR)
			return KEYS_NONE;
		if (kind != KEY_CODE_YES)
			return character == 0x7f   ? KEYS_BACKSPACE
			       : character == '\r' ? KEYS_ENTER
			       : character == 0x0c ? SCREEN_REPAINT
						   : character;
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			if (known[i].curses == character)
				return known[i].key;
	}
}
