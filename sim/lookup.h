// The table of the driver's entries (entries.c). Any thread.
#pragma once

#include <stddef.h>

void *sim_entry_address(size_t row); // of a row of entries.def
