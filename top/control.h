// What keys do: changes what is shown, and makes requests. Needs no terminal and no daemon. One thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "top/model.h"
#include "top/request.h"

enum mode {
	MODE_TABLE,
	MODE_HELP,
	MODE_WAITS,
	MODE_FILTER, // the user types a filter
	MODE_LIMIT,  // the user types a limit
	MODE_SHARE,  // the user types a share
	MODE_KILL,   // a question
};

enum { INPUT_TEXT = FILTER_TEXT };

struct control {
	enum mode mode;
	char input[INPUT_TEXT];	   // what the user types
	struct request target;	   // what a question or an input is about
	char target_text[160];	   // the same for the user: "train", or "process 12 (python) of train"
	char status[REQUEST_TEXT]; // the last message; "": none
	bool is_error;
	char trouble[REQUEST_TEXT]; // why there are no new figures; "": there are
	int page;		    // rows on a page of the table
	// The share that the last request asked for, until the daemon has answered.
	char asked_vgpu[NAME_TEXT];
	unsigned asked_share;
};

enum control_result { CONTROL_NONE, CONTROL_REQUEST, CONTROL_QUIT };

// Handles a key, see keys.h. CONTROL_REQUEST: *ret_request is for request_perform().
enum control_result control_key(struct control *control, struct model *model, uint32_t key,
				struct request *ret_request);
// Takes what request_perform() has reported.
void control_report(struct control *control, bool succeeded, const char *text);
// Returns the last line's question or input, with what the user has typed; NULL: no question and no input.
const char *control_prompt(const struct control *control, char *buffer, size_t capacity);
