// Defines a table with the address of every function of entries.def. This file does not include cuda.h, because it
// needs only addresses.
#include "lookup.h"

#define ENTRY(abi, api, version, stream, family, need) int abi(void);
#include "abi/entries.def"
#undef ENTRY

void *sim_entry_address(size_t row)
{
	static int (*const functions[])(void) = {
#define ENTRY(abi, api, version, stream, family, need) abi,
#include "abi/entries.def"
	};
	return (void *)functions[row];
}
