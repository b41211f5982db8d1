// Between lookup.c, entries.c and process.c. Any thread.
#pragma once

#include <stddef.h>

void *sim_entry_address(size_t row);	// of a row of entries.def
unsigned sim_driver_version(void);	// configured, whether or not cuInit was called
