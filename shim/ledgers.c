#include "shim/ledgers.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/ledger.h"

const char *shim_ledgers_error(int error)
{
	return error == -EPROTO ? "it is not a ledger of this version of Virgate" : strerror(-error);
}

// Opens the ledgers of a list of paths with a colon between them. Returns their number or -errno.
static int open_list(const char *list, struct vg_ledger **ret_ledgers)
{
	char path[PATH_MAX];
	int count = 0;

	for (size_t length; *list && count < SHIM_DEVICES; list += length + (list[length] == ':')) {
		length = strcspn(list, ":");
		if (length >= sizeof path)
			return -ENAMETOOLONG;
		snprintf(path, sizeof path, "%.*s", (int)length, list);
		int result = vg_ledger_open(path, &ret_ledgers[count]);
		if (result != 0)
			return result;
		count++;
	}
	return count;
}

int shim_ledgers_open(struct vg_ledger **ret_ledgers, const char **ret_path)
{
	const char *path = secure_getenv("VIRGATE_LEDGER"), *list = secure_getenv("VIRGATE_LEDGERS");
	size_t length;

	if (!path || !*path)
		return 0;
	*ret_path = path;
	length = strlen(path);
	// VIRGATE_LEDGERS must begin with the path in VIRGATE_LEDGER. If not, a program has changed only
	// VIRGATE_LEDGER, and the list is that of another vGPU: ignore it.
	if (list && strncmp(list, path, length) == 0 && list[length] == ':') {
		*ret_path = list;
		return open_list(list, ret_ledgers);
	}
	int result = vg_ledger_open(path, ret_ledgers);
	return result == 0 ? 1 : result;
}
