// Log messages for the callback that the program registered. Without one, nothing is formatted. Any thread.
#pragma once
#include "virgate/log.h"

__attribute__((format(printf, 2, 3))) void vg_log(enum vg_log_level level, const char *format, ...);

// Between these two calls, messages of this thread are kept and delivered later. Calls nest. Only mutex.c calls them.
void vg_log_hold(void);
void vg_log_go_on(void);
