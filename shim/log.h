// Writes messages to standard error. Each message is one write() and raises no signal. Any thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "ledger/ledger.h"

enum shim_log_level {
	SHIM_QUIET,   // no messages except refusals
	SHIM_ERROR,   // the program cannot work; always written
	SHIM_WARNING, // messages of this and the following levels need VIRGATE_LOG=warning, info, debug
	SHIM_INFO,
	SHIM_DEBUG,
};

__attribute__((format(printf, 2, 3))) void shim_log(enum shim_log_level level, const char *format, ...);

// Reports a refusal to the user: at most one line a second, with the number of refusals since the last line. An
// ephemeral vGPU is removed after the program's end. So its line also says how to start the program with more memory.
void shim_log_refusal(const struct vg_ledger *ledger, const struct vg_ledger_refusal *refusal);
