// Passes log messages to the callback that the program registered. Without a callback, no message is formatted. Any
// thread.
#pragma once
#include "virgate/log.h"

__attribute__((format(printf, 2, 3))) void vg_log(enum vg_log_level level, const char *format, ...);

// vg_log_hold() makes the library keep this thread's messages; vg_log_go_on() delivers them. Pairs of calls nest. Only
// mutex.c calls these functions.
void vg_log_hold(void);
void vg_log_go_on(void);
