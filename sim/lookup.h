// The table of the driver's entries (entries.c). Any thread.
#pragma once

#include <stddef.h>

void *sim_entry_address(size_t row); // Returns the address of the entry in a row of entries.def.
