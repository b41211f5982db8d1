// Lists which driver functions the simulator implements: those whose symbol is not defined in fallback.c. This file
// does not include cuda.h, because the declarations here would conflict with those of cuda.h.
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "coverage.h"
#include "fallback.h"

#define ENTRY(abi, api, version, stream, family, need) int abi(void);
#include "abi/entries.def"
#undef ENTRY

static const struct {
	const char *abi, *family;
	int (*function)(void), (*stub)(void);
} rows[] = {
#define ENTRY(abi, api, version, stream, family, need) {#abi, #family, abi, sim_stub_##abi},
#include "abi/entries.def"
};

bool virgate_sim_implements(const char *abi)
{
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (strcmp(rows[i].abi, abi) == 0)
			return rows[i].function != rows[i].stub;
	return false;
}

bool virgate_sim_coverage(size_t index, const char **ret_abi, const char **ret_family, bool *ret_implemented)
{
	if (index >= sizeof rows / sizeof *rows)
		return false;
	*ret_abi = rows[index].abi;
	*ret_family = rows[index].family;
	*ret_implemented = rows[index].function != rows[index].stub;
	return true;
}
