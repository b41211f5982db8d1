// What descriptors keep of the memory that a tenant exported. The tenant hands us the epoll instance
// that it added them to: an item of it goes with the last copy of the descriptor, in whatever process
// that was, and the instance outlives the tenant with us. Every figure in it is the tenant's word.
#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/node.h"
#include "daemon/user.h"
#include "daemon/work.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_ITEMS = 16384,
	REST = 20, // after each look so many times as long as it took
};

// The kernel lists all items before anybody can read the first, and there may be very many: the user's thread waits.
struct exports_look {
	struct work work;
	struct tenant *tenant; // NULL: it has gone, or has another instance
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
		tenant->look->tenant = NULL; // it closes the descriptor
	else if (tenant->exports >= 0)
		discard(tenant->exports);
	if (tenant->exports >= 0)
		user_drop_process(tenant->vgpu->owner);
	tenant->exports = -1;
	tenant->look = NULL;
}

int exports_take(const struct node *node, struct tenant *tenant, int offered)
{
	if (!is_epoll(offered)) {
		discard(offered);
		return -EPROTO;
	}
	exports_drop(tenant);
	if (!user_take_process(node, tenant->vgpu->owner)) {
		discard(offered);
		return -EMFILE; // all that it had exported is charged then
	}
	tenant->exports = node_keep_descriptor(offered);
	if (tenant->exports < 0)
		user_drop_process(tenant->vgpu->owner);
	return tenant->exports < 0 ? tenant->exports : 0;
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
	look->bytes = sum_of(look->keys, count, look->shares);
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
	node->next_reap_ns = vg_clock_monotonic_ns(); // at once
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

bool exports_open(struct tenant *tenant, uint64_t most, struct vg_ledger_keep *ret_keep)
{
	static uint32_t shares[MOST_ITEMS]; // one thread
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
