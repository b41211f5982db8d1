// Finds out whether exported memory is still open. A tenant sends an epoll instance to which it added the descriptors
// that it exported. An item of the instance exists until the last copy of its descriptor is closed, in whatever
// process. The daemon's copy of the instance outlives the tenant. A tenant can put any figures into the items.
#include "daemon/exports.h"

#include "base/clock.h"
#include "daemon/discard.h"
#include "daemon/source.h"
#include "daemon/user.h"
#include "daemon/work.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	MOST_ITEMS = 16384,
	REST = 20, // the pause after a reading is this many times as long as the reading
};

// One reading of the tenant's exported items from /proc. A thread of the tenant's user does it, because it can take
// long: the kernel lists all items before the first can be read, and there can be very many.
struct exports_look {
	struct work work;
	struct tenant *tenant; // NULL: the tenant is gone, or has another epoll instance by now
	int descriptor;
	bool is_known;
	uint64_t bytes, took_ns;
	size_t share_count;
	uint32_t shares[MOST_ITEMS];
	uint64_t keys[MOST_ITEMS];
};

static bool is_epoll(int descriptor)
{
	char path[48], kind[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
	ssize_t length = readlink(path, kind, sizeof kind - 1);
	kind[length > 0 ? length : 0] = '\0';
	return strcmp(kind, "anon_inode:[eventpoll]") == 0;
}

void exports_drop(struct tenant *tenant)
{
	discard_from(tenant->vgpu->owner);
	if (tenant->look && tenant->look_is_done) {
		free(tenant->look);
		tenant->look = NULL;
	}
	if (tenant->look)
		tenant->look->tenant = NULL; // end_look() then closes the descriptor, and ignores the result
	else if (tenant->exports >= 0)
		discard(tenant->exports);
	if (tenant->exports >= 0)
		user_uncount_process(tenant->vgpu->owner);
	tenant->exports = -1;
	tenant->look = NULL;
}

int exports_accept(const struct node *node, struct tenant *tenant, int offered)
{
	if (!is_epoll(offered)) {
		discard(offered);
		return -EPROTO;
	}
	exports_drop(tenant);
	if (!user_count_process(node, tenant->vgpu->owner)) {
		discard(offered);
		return -EMFILE; // without the instance, all of the tenant's exports count as open
	}
	tenant->exports = source_keep_descriptor(offered);
	if (tenant->exports < 0)
		user_uncount_process(tenant->vgpu->owner);
	return tenant->exports < 0 ? tenant->exports : 0;
}

static int compare_keys(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

static int compare_numbers(const void *left, const void *right)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

	return a < b ? -1 : a > b;
}

// Returns how many bytes were exported: each shared allocation counts once, whatever the number of its descriptors. A
// key has the allocation's size and number, so all of its descriptors have the same key.
static uint64_t sum_up(uint64_t *keys, size_t count, uint32_t *ret_shares)
{
	uint64_t granules = 0;

	qsort(keys, count, sizeof *keys, compare_keys);
	for (size_t i = 0; i < count; i++) {
		ret_shares[i] = (uint32_t)keys[i];
		if (i == 0 || keys[i] != keys[i - 1])
			granules += keys[i] >> 32;
	}
	qsort(ret_shares, count, sizeof *ret_shares, compare_numbers);
	return granules << 21;
}

static void read_items(struct work *work)
{
	struct exports_look *look = (struct exports_look *)work;
	uint64_t begun = vg_clock_monotonic_ns();
	unsigned long long key;
	char path[48], line[256];
	size_t count = 0;

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", look->descriptor);
	FILE *file = fopen(path, "re");
	while (file && count < MOST_ITEMS && fgets(line, sizeof line, file))
		if (sscanf(line, "tfd: %*d events: %*x data: %llx", &key) == 1)
			look->keys[count++] = key;
	if (file)
		fclose(file);
	look->is_known = file && count < MOST_ITEMS;
	look->share_count = count;
	look->bytes = sum_up(look->keys, count, look->shares);
	look->took_ns = vg_clock_monotonic_ns() - begun;
}

static void end_look(struct node *node, struct work *work)
{
	struct exports_look *look = (struct exports_look *)work;

	if (!look->tenant) {
		discard_from(work->uid);
		discard(look->descriptor);
		free(look);
		return;
	}
	look->tenant->look_is_done = true;
	look->tenant->next_look_ns = vg_clock_monotonic_ns() + REST * look->took_ns;
	node->next_reap_ns = vg_clock_monotonic_ns(); // read the items at once
}

static void begin_look(struct tenant *tenant)
{
	struct exports_look *look = vg_clock_monotonic_ns() < tenant->next_look_ns ? NULL : malloc(sizeof *look);

	if (!look)
		return;
	look->work = (struct work){.run = read_items, .done = end_look};
	look->tenant = tenant;
	look->descriptor = tenant->exports;
	if (!work_post(tenant->vgpu->owner, &look->work)) {
		free(look);
		return;
	}
	tenant->look = look;
	tenant->look_is_done = false;
}

bool exports_find_kept(struct tenant *tenant, uint64_t most, struct vg_ledger_keep *ret_keep)
{
	static uint32_t shares[MOST_ITEMS];
	struct exports_look *look = tenant->look;

	if (!look)
		begin_look(tenant);
	if (!look || !tenant->look_is_done)
		return false;
	*ret_keep = (struct vg_ledger_keep){.bytes = most};
	if (look->is_known) {
		memcpy(shares, look->shares, look->share_count * sizeof *shares);
		*ret_keep = (struct vg_ledger_keep){look->bytes < most ? look->bytes : most, shares, look->share_count};
	}
	tenant->look = NULL;
	free(look);
	return true;
}
