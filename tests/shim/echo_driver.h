// Controls of the echo driver. Tests find them with dlsym.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { ECHO_ARGUMENTS = 11 };
#define ECHO_DEVICE 0x7000000000000000ull // addresses from here on are device memory
#define ECHO_CONTEXT 0x3000			  // the current context, that of all streams
#define ECHO_OTHER_CONTEXT 0x4000

struct echo {
	const char *entry; // the last that was called
	uint64_t arguments[ECHO_ARGUMENTS];
	_Atomic unsigned int calls, marks;
	_Atomic unsigned int unsafe; // number of event queries that would invalidate a capture
	bool ignore_queries; // queries by the interposer itself are not stored
};
struct echo *echo_last(void);
void echo_capture(bool on);   // all streams are being captured
void echo_keep_busy(bool on); // events stay pending
