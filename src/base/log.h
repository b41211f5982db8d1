// Words for whoever registered a callback; nothing is formatted when nobody did. Any thread.
#pragma once
#include "virgate/log.h"

__attribute__((format(printf, 2, 3))) void vg_log(enum vg_log_level level, const char *format, ...);

// Between the two, what this thread logs waits. They nest; mutex.h calls them.
void vg_log_hold(void);
void vg_log_go_on(void);
