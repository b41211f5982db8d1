// Performs a change that the user asks for. request_perform() blocks until the daemon has answered, so a thread other
// than that of the screen calls it.
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <virgate/vgpu.h>

#include "top/model.h"

enum { REQUEST_TEXT = 600 };

enum request_kind { REQUEST_NONE, REQUEST_LIMIT, REQUEST_SHARE, REQUEST_SUSPEND, REQUEST_RESUME, REQUEST_SIGNAL };

struct request {
	enum request_kind kind;
	char vgpu[NAME_TEXT];
	int64_t pid;	// the process that the request is for; 0: all processes of the vGPU
	double started; // of the process
	uint64_t memory;
	unsigned share; // or VG_SHARE_NONE
	int signal;
};

// Performs the request, and returns whether it succeeded. `text` says what was done, or what failed and why. If
// *is_ended becomes true, stops waiting for memory that moves; the move itself continues.
bool request_perform(struct vg_node *node, const struct request *request, const atomic_bool *is_ended,
		     char text[REQUEST_TEXT]);
