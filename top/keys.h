// Lists the keys and what they do in one table, from which the help is made, too. Any thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

// Codes of keys that are not characters. The code of any other key is its Unicode character.
enum special_key {
	KEYS_NONE,
	KEYS_BACKSPACE = 8,
	KEYS_ENTER = 10,
	KEYS_ESCAPE = 27,
	KEYS_UP = 0x110000,
	KEYS_DOWN,
	KEYS_PAGE_UP,
	KEYS_PAGE_DOWN,
	KEYS_HOME,
	KEYS_END,
	KEYS_HELP, // F1
	KEYS_QUIT, // F10
};

enum action {
	ACTION_NONE,
	ACTION_UP,
	ACTION_DOWN,
	ACTION_PAGE_UP,
	ACTION_PAGE_DOWN,
	ACTION_FIRST,
	ACTION_LAST,
	ACTION_SORT, // sorts by the key that `number` of the row names, an enum sort_key
	ACTION_SORT_NEXT,
	ACTION_SORT_PREVIOUS,
	ACTION_REVERSE,
	ACTION_VIEW,
	ACTION_FILTER,
	ACTION_FOLLOW,
	ACTION_WAITS,
	ACTION_LIMIT,
	ACTION_SHARE,
	ACTION_SHARE_MORE,
	ACTION_SHARE_LESS,
	ACTION_SUSPEND,
	ACTION_KILL,
	ACTION_BACK,
	ACTION_HELP,
	ACTION_QUIT,
};

struct binding {
	uint32_t key;
	enum action action;
	int number;
	const char *name;	 // name of the key in the help; NULL: it does the same as the row before
	const char *description; // for the help
	const char *label;	 // text in the last line of the screen; NULL: the key is not shown there
};
extern const struct binding bindings[];
extern const size_t binding_count;

// Returns the row of the table for a key, or NULL.
const struct binding *binding_find(uint32_t key);
