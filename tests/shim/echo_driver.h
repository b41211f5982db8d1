// Controls of the echo driver. Tests find them with dlsym.
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { ECHO_ARGUMENTS = 11 };
#define ECHO_DEVICE 0x7000000000000000ull // addresses from here on are device memory
#define ECHO_CONTEXT 0x3000		  // the context that is current and that all streams belong to
#define ECHO_OTHER_CONTEXT 0x4000

struct echo {
	const char *entry; // the function that was called last
	uint64_t arguments[ECHO_ARGUMENTS];
	_Atomic unsigned int calls, marks;
	_Atomic unsigned int unsafe; // number of event queries that would have invalidated a capture
	bool ignore_queries;	     // true: queries by the interposer itself are not stored
};
struct echo *echo_last(void);
void echo_capture(bool on);   // true: all streams are being captured from now on
void echo_keep_busy(bool on); // true: events stay pending
