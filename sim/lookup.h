// Finds the addresses of driver functions (entries.c). Any thread.
#pragma once

#include <stddef.h>

void *sim_entry_address(size_t row); // Returns the address of the function in a row of entries.def.
