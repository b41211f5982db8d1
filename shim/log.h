// Words for people, on stderr. Any thread; never a signal, never more than one write.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "ledger/ledger.h"

enum shim_log_level {
	SHIM_QUIET,   // refusals only, which go their own way
	SHIM_ERROR,   // the program cannot work: always written
	SHIM_WARNING, // from here on: VIRGATE_LOG=warning, info, debug
	SHIM_INFO,
	SHIM_DEBUG,
};

__attribute__((format(printf, 2, 3))) void shim_log(enum shim_log_level level, const char *format, ...);

// Writes the user's line about a refusal: at most one a second, with the number of those left out. An ephemeral vGPU is
// gone when the line is read after the program's end: for one it also says how to start the program with more.
void shim_log_refusal(const struct vg_ledger *ledger, const struct vg_ledger_refusal *refusal);
