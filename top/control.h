// Handles keys: changes what is shown, and makes the requests to the daemon. Uses neither the terminal nor the daemon
// itself. One thread.
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
	char input[INPUT_TEXT];	   // what the user has typed in a mode with input
	struct request target;	   // the vGPU or process that a question or an input is about
	char target_text[160];	   // the target as the user reads it: "train", or "process 12 (python) of train"
	char status[REQUEST_TEXT]; // the last message to the user; "": none
	bool is_error;
	char trouble[REQUEST_TEXT]; // why the daemon gives no new figures; "": it does
	int page;		    // number of rows of the table that the screen has room for
	// The vGPU and the share of the last request for a share, until the daemon has answered.
	char asked_vgpu[NAME_TEXT];
	unsigned asked_share;
};

enum control_result { CONTROL_NONE, CONTROL_REQUEST, CONTROL_QUIT };

// Handles a key: a character, or a key of enum special_key (keys.h). CONTROL_REQUEST: the caller passes *ret_request to
// request_perform().
enum control_result control_key(struct control *control, struct model *model, uint32_t key,
				struct request *ret_request);
// Shows the result that request_perform() has reported. Forgets the share of the request.
void control_report(struct control *control, bool succeeded, const char *text);
// Returns the question or the input for the line above the keys, with what the user has typed. NULL: there is neither.
const char *control_prompt(const struct control *control, char *buffer, size_t capacity);
