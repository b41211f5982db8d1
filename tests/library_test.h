// Checks that all tests of the library's functions use. If a check fails, the library's own error message is printed.
#pragma once
#include "test.h"

#include <virgate/status.h>

// Checks that the call succeeds. If it fails, prints the library's error message and ends the test.
#define OK(call)                                                                                          \
	do {                                                                                              \
		enum vg_status status_ = (call);                                                          \
		if (status_)                                                                              \
			FAIL("%s:%d: %s: %s: %s\n%s", __FILE__, __LINE__, #call, vg_status_text(status_), \
			     vg_last_error()->text, vg_last_error()->log);                                \
	} while (0)
// Checks that the call is refused with this status, and with a message that contains `part`.
#define REFUSED(call, code_, part)                           \
	do {                                                 \
		CHECK_INT(call, code_);                      \
		CHECK_INT(vg_last_error()->status, code_);   \
		CHECK_CONTAINS(vg_last_error()->text, part); \
	} while (0)
