// What descriptors keep of the memory that a tenant exported. The tenant hands us the epoll instance
// that it added them to: an item of it goes with the last copy of the descriptor, in whatever process
// that was, and the instance outlives the tenant with us. Every figure in it is the tenant's word.
#include "base/descriptor.h"
#include "daemon/node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ITEMS = 16384 };

int exports_take(int *own, int offered)
{
	char path[48], kind[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", offered);
	ssize_t length = readlink(path, kind, sizeof kind - 1);
	if (length < 0 || (size_t)length >= sizeof kind)
		length = 0;
	kind[length] = '\0';
	if (strcmp(kind, "anon_inode:[eventpoll]") != 0) {
		discard(offered);
		return -EPROTO;
	}
	offered = node_keep_descriptor(offered);
	if (offered < 0)
		return offered; // all that it had exported is charged then
	if (*own >= 0)
		close(*own);
	*own = offered;
	return 0;
}

static int by_value(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static int by_number(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return a < b ? -1 : a > b;
}

// Several descriptors of one piece of memory have one key: its size, and its share's number.
static uint64_t sum_of(uint64_t *keys, size_t count, uint32_t *ret_shares)
{
	uint64_t granules = 0;

	qsort(keys, count, sizeof *keys, by_value);
	for (size_t i = 0; i < count; i++) {
		ret_shares[i] = (uint32_t)keys[i];
		if (i == 0 || keys[i] != keys[i - 1])
			granules += keys[i] >> 32;
	}
	qsort(ret_shares, count, sizeof *ret_shares, by_number);
	return granules << 21;
}

void exports_open(int descriptor, uint64_t most, struct vg_ledger_keep *ret_keep)
{
	static uint64_t keys[MOST_ITEMS]; // one thread
	static uint32_t shares[MOST_ITEMS];
	unsigned long long key;
	char path[48], line[256];
	size_t count = 0;

	*ret_keep = (struct vg_ledger_keep){.bytes = most};
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", descriptor);
	FILE *file = fopen(path, "re");
	if (!file)
		return;
	while (count < MOST_ITEMS && fgets(line, sizeof line, file))
		if (sscanf(line, "tfd: %*d events: %*x data: %llx", &key) == 1)
			keys[count++] = key;
	fclose(file);
	if (count == MOST_ITEMS)
		return;
	uint64_t bytes = sum_of(keys, count, shares);
	*ret_keep = (struct vg_ledger_keep){bytes < most ? bytes : most, shares, count};
}
