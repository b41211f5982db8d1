// Finds out which exported descriptors are still open in any process or in any socket's queue. An epoll instance, the
// watcher, has an entry for each of them. An entry does not keep a file open: the kernel removes it when the last copy
// of the descriptor is closed. /proc/self/fdinfo lists the entries.
#include "shim/exported.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/descriptor.h"
#include "ledger/shared.h"

// Exported memory. `key` is the data of its entry in the watcher, which the daemon reads. The upper half of the key is
// the size in units of 2 MiB. The lower half is the number of the shared allocation. For memory that is no shared
// allocation, it is a number that no shared allocation has.
struct exported {
	uint64_t key;
	struct shim_physical *physical;
	struct exported *next;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct exported *exports;
static uint32_t last_number;
static _Atomic int watcher = -1;
// The witness is a descriptor that also has an entry in the watcher. It stays open as long as the watcher does, unless
// the program closes descriptors that it did not open. So if the witness's entry is missing, the other entries cannot
// be trusted.
static const uint64_t witness_key = 0;
static _Atomic int witness = -1;

static int add_entry(int descriptor, uint64_t key)
{
	struct epoll_event event = {.data.u64 = key};

	return epoll_ctl(watcher, EPOLL_CTL_ADD, descriptor, &event);
}

static bool start_watching(void)
{
	int made = epoll_create1(EPOLL_CLOEXEC);

	if (made < 0)
		return false;
	watcher = vg_fd_raise_consume(made);
	made = watcher < 0 ? -1 : eventfd(0, EFD_CLOEXEC);
	witness = made < 0 ? -1 : vg_fd_raise_consume(made);
	return witness >= 0 && add_entry(witness, witness_key) == 0;
}

// Returns whether the watcher's descriptor is still the epoll instance that this file created. The program may have
// closed the descriptor and reused its number. So this function tries to add an entry for the witness. That fails with
// EEXIST only in the instance of this file, because it has that entry already.
static bool is_watcher_ours(void)
{
	if (watcher < 0 || witness < 0)
		return false;
	if (add_entry(witness, witness_key) < 0)
		return errno == EEXIST;
	epoll_ctl(watcher, EPOLL_CTL_DEL, witness, NULL);
	return false;
}

int shim_exported_watcher(void)
{
	int error = errno, descriptor = is_watcher_ours() ? watcher : -1;

	errno = error;
	return descriptor;
}

static int compare_keys(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return a < b ? -1 : a > b;
}

// Returns the sorted keys of all exported descriptors that are open; the caller frees the array. NULL: the keys cannot
// be read.
static uint64_t *read_open_keys(size_t *ret_count)
{
	char path[48], line[256];
	uint64_t *keys = NULL, *grown, witnessed = witness_key;
	unsigned long long key;
	size_t count = 0, capacity = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", watcher);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof line, file)) {
		if (sscanf(line, "tfd: %*d events: %*x data: %llx", &key) != 1)
			continue;
		if (count == capacity) {
			capacity = capacity ? capacity * 2 : 64;
			grown = realloc(keys, capacity * sizeof *keys);
			if (!grown) {
				count = 0;
				break;
			}
			keys = grown;
		}
		keys[count++] = key;
	}
	if (file)
		fclose(file);
	if (count)
		qsort(keys, count, sizeof *keys, compare_keys);
	if (!count || !bsearch(&witnessed, keys, count, sizeof *keys, compare_keys)) {
		free(keys);
		return NULL;
	}
	*ret_count = count;
	return keys;
}

void shim_exported_refund_closed(void)
{
	size_t count = 0;
	uint64_t *keys;

	if (watcher < 0)
		return;
	pthread_mutex_lock(&lock);
	keys = exports ? read_open_keys(&count) : NULL;
	for (struct exported **link = &exports; keys && *link;) {
		struct exported *one = *link;
		if (bsearch(&one->key, keys, count, sizeof *keys, compare_keys)) {
			link = &one->next;
			continue;
		}
		*link = one->next;
		shim_physical_set_exported(one->physical, false);
		shim_physical_unref(one->physical);
		free(one);
	}
	free(keys);
	pthread_mutex_unlock(&lock);
}

static struct exported *find_exported(const struct shim_physical *physical)
{
	struct exported *one = exports;

	while (one && one->physical != physical)
		one = one->next;
	return one;
}

// Adds memory to the list and takes over the caller's reference. NULL: out of host memory.
static struct exported *add_exported(struct shim_physical *physical, uint64_t bytes)
{
	struct exported *one;

	shim_physical_set_exported(physical, true);
	one = malloc(sizeof *one);
	if (!one)
		return NULL;
	uint32_t number = physical->shared ? physical->shared : ++last_number << VG_LEDGER_SHARED_BITS;
	*one = (struct exported){bytes >> 21 << 32 | number, physical, exports};
	exports = one;
	return one;
}

// Removes memory from the list because its descriptors cannot be watched. Does not drop the reference to the memory, so
// it stays charged until the process ends.
static void forget_exported(struct exported *one)
{
	struct exported **link = &exports;

	while (*link != one)
		link = &(*link)->next;
	*link = one->next;
	free(one);
}

bool shim_exported_watch(int descriptor, struct shim_physical *physical, uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	bool is_first = !exports;
	struct exported *one = find_exported(physical);
	if (one)
		shim_physical_unref(physical);
	else
		one = add_exported(physical, bytes);
	if (one && !((watcher < 0 ? start_watching() : is_watcher_ours()) && add_entry(descriptor, one->key) == 0))
		forget_exported(one);
	pthread_mutex_unlock(&lock);
	return is_first;
}
