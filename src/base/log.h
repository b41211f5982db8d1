// Words for whoever registered a callback; nothing is formatted when nobody did.
#pragma once
#include "virgate/log.h"

__attribute__((format(printf, 2, 3))) void vg_log(enum vg_log_level level, const char *format, ...);
