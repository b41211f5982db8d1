// Tests contexts and handles: allocation, bounds, stale handles, closing.
#include "region_test.h"

#include <pthread.h>

// This must be the first test, because a process that has loaded a driver cannot unload it.
TEST(open_fails_without_a_gpu)
{
	struct vg_vram *vram = NULL;

	if (access("/dev/nvidiactl", F_OK) == 0)
		SKIP("there is a GPU");
	pid_t child = fork();
	if (child == 0) {
		unsetenv("VIRGATE_SIM");
		// fails with VG_NO_DRIVER, or with VG_NOT_FOUND if there is a driver without a device
		enum vg_status refused = vg_vram_open(NULL, &vram);
		_exit(vram || (refused != VG_NO_DRIVER && refused != VG_NOT_FOUND) || !*vg_last_error()->text);
	}
	CHECK_CHILD(child);
}

TEST(read_returns_what_was_written)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, 1000);
	char text[16];
	size_t bytes;

	OK(vg_vram_size(handle, &bytes));
	CHECK_INT(bytes, 1000);
	OK(vg_vram_write_at(handle, 990, "0123456789", 10));
	OK(vg_vram_read_at(handle, 991, text, 9));
	CHECK(memcmp(text, "123456789", 9) == 0);
	check_bytes(handle, 0, 990, 0);
	OK(vg_vram_free(handle));
	close_vram(vram);
}

TEST(context_is_on_the_requested_device)
{
	struct vg_vram_options options = {.size = sizeof options};
	struct vg_device *last, *device;
	struct vg_vram *vram;
	int count;

	OK(vg_device_count(&count));
	OK(vg_device_get(count - 1, &last));
	options.device = last;
	OK(vg_vram_open(&options, &vram));
	CHECK(vg_vram_device(vram) == last);
	struct vg_vram_handle handle = allocate(vram, 1);
	OK(vg_vram_handle_device(handle, &device));
	CHECK(device == last);
	OK(vg_vram_free(handle));
	close_vram(vram);
	CHECK(vg_vram_device(NULL) == NULL);
}

TEST(capacity_counts_mapped_bytes)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_capacity before, during, after;
	struct vg_vram_handle plain, guarded;
	const size_t large = (size_t)16 << 20;

	OK(vg_vram_capacity(vram, &before));
	CHECK(before.total >= before.free && before.free > 0);
	CHECK_INT(before.used, 0);
	CHECK_INT(before.regions, 0);
	plain = allocate(vram, large);
	OK(vg_vram_allocate(vram, 100, GUARDED, &guarded));
	OK(vg_vram_capacity(vram, &during));
	CHECK_INT(during.total, before.total);
	CHECK_INT(during.used, large + (2 << 20)); // the guarded region of 100 bytes takes a whole granule
	CHECK_INT(during.regions, 2);
	CHECK(during.free <= before.free - during.used);
	OK(vg_vram_free(plain));
	OK(vg_vram_free(guarded));
	OK(vg_vram_capacity(vram, &after));
	CHECK_INT(after.used, 0);
	CHECK_INT(after.regions, 0);
	close_vram(vram);
	vram = open_vram();
	vg_vram_close(vram, NULL);
	REFUSED(vg_vram_capacity(vram, &after), VG_CLOSED, "has been closed");
	vg_vram_destroy(vram);
}

TEST(every_offset_is_checked_against_the_bounds)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, 4096), other = allocate(vram, 4096);
	char byte[8192] = {0};
	const struct {
		size_t offset, bytes;
	} outside[] = {{4096, 1},
		       {0, 4097},
		       {4095, 2},
		       {1, 4096},
		       {SIZE_MAX, 1},
		       {1, SIZE_MAX},
		       {SIZE_MAX, SIZE_MAX},
		       {4097, 0},
		       {SIZE_MAX, 0},
		       {SIZE_MAX - 4095, 4096},
		       {2048, SIZE_MAX - 2047},
		       {(size_t)1 << 63, (size_t)1 << 63}};

	for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
		size_t offset = outside[i].offset, bytes = outside[i].bytes;
		REFUSED(vg_vram_write_at(handle, offset, byte, bytes), VG_BOUNDS, "the region has 4096");
		REFUSED(vg_vram_read_at(handle, offset, byte, bytes), VG_BOUNDS, "the region has 4096");
		REFUSED(vg_vram_fill(handle, offset, 1, bytes), VG_BOUNDS, "the region has 4096");
		REFUSED(vg_vram_copy(handle, offset, other, 0, bytes), VG_BOUNDS, "the region has 4096");
		REFUSED(vg_vram_copy(handle, 0, other, offset, bytes), VG_BOUNDS, "the region has 4096");
	}
	check_bytes(handle, 0, 4096, 0);
	OK(vg_vram_write_at(handle, 4095, "x", 1));
	OK(vg_vram_write_at(handle, 4096, NULL, 0)); // an access to 0 bytes at the end of the region is allowed
	OK(vg_vram_read_at(handle, 4096, NULL, 0));
	OK(vg_vram_fill(handle, 4096, 0, 0));
	OK(vg_vram_copy(handle, 4096, other, 4096, 0));
	OK(vg_vram_copy(handle, 0, handle, 0, 0));
	OK(vg_vram_free(handle));
	OK(vg_vram_free(other));
	close_vram(vram);
}

TEST(invalid_arguments_are_refused)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, 16), none = {0};
	struct vg_vram_allocate_options both = {.size = sizeof both, .guard = 1, .shareable = 1}, sizeless = {0};
	struct vg_vram_options unsized_options = {0};
	struct vg_vram_capacity capacity;
	struct vg_vram *other = NULL;
	char text[16];
	size_t bytes;

	REFUSED(vg_vram_open(NULL, NULL), VG_INVALID, "ret_vram is NULL");
	REFUSED(vg_vram_open(&unsized_options, &other), VG_INVALID, "size is 0");
	CHECK(other == NULL);
	REFUSED(vg_vram_allocate(NULL, 1, NULL, &handle), VG_INVALID, "vram is NULL");
	REFUSED(vg_vram_allocate(vram, 1, NULL, NULL), VG_INVALID, "ret_handle is NULL");
	REFUSED(vg_vram_allocate(vram, 0, NULL, &none), VG_INVALID, "bytes is 0");
	REFUSED(vg_vram_allocate(vram, 0, GUARDED, &none), VG_INVALID, "bytes is 0");
	REFUSED(vg_vram_allocate(vram, 1, &both, &none), VG_INVALID, "guard and shareable");
	REFUSED(vg_vram_allocate(vram, 1, &sizeless, &none), VG_INVALID, "size is 0");
	REFUSED(vg_vram_allocate(vram, SIZE_MAX, GUARDED, &none), VG_INVALID, "too many");
	REFUSED(vg_vram_allocate(vram, SIZE_MAX - (2 << 20), GUARDED, &none), VG_INVALID, "too many");
	REFUSED(vg_vram_allocate(vram, SIZE_MAX, SHAREABLE, &none), VG_INVALID, "too many");
	CHECK_INT(none.value, 0);
	REFUSED(vg_vram_write_at(handle, 0, NULL, 1), VG_INVALID, "from is NULL");
	REFUSED(vg_vram_read_at(handle, 0, NULL, 1), VG_INVALID, "to is NULL");
	REFUSED(vg_vram_fill(handle, 0, 256, 1), VG_INVALID, "value is 256");
	REFUSED(vg_vram_fill(handle, 0, -1, 1), VG_INVALID, "value is -1");
	REFUSED(vg_vram_size(handle, NULL), VG_INVALID, "ret_bytes is NULL");
	REFUSED(vg_vram_handle_device(handle, NULL), VG_INVALID, "ret_device is NULL");
	REFUSED(vg_vram_capacity(vram, NULL), VG_INVALID, "ret_capacity is NULL");
	REFUSED(vg_vram_capacity(NULL, &capacity), VG_INVALID, "vram is NULL");
	REFUSED(vg_vram_close(NULL, NULL), VG_INVALID, "vram is NULL");
	REFUSED(vg_vram_free(none), VG_INVALID, "none");
	REFUSED(vg_vram_size(none, &bytes), VG_INVALID, "none");
	REFUSED(vg_vram_read_at(none, 0, text, 1), VG_INVALID, "none");
	REFUSED(vg_vram_copy(none, 0, handle, 0, 1), VG_INVALID, "none");
	REFUSED(vg_vram_copy(handle, 0, none, 0, 1), VG_INVALID, "none");
	vg_vram_destroy(NULL);
	OK(vg_vram_free(handle));
	close_vram(vram);
}

static void check_dead(struct vg_vram_handle handle)
{
	struct vg_vram_loan loan;
	struct vg_device *device;
	char text[16];
	size_t bytes;

	REFUSED(vg_vram_free(handle), VG_STALE, "names no region");
	REFUSED(vg_vram_size(handle, &bytes), VG_STALE, "names no region");
	REFUSED(vg_vram_handle_device(handle, &device), VG_STALE, "names no region");
	REFUSED(vg_vram_read_at(handle, 0, text, 1), VG_STALE, "names no region");
	REFUSED(vg_vram_read_at(handle, 0, NULL, 0), VG_STALE, "names no region");
	REFUSED(vg_vram_write_at(handle, 0, text, 1), VG_STALE, "names no region");
	REFUSED(vg_vram_fill(handle, 0, 0, 1), VG_STALE, "names no region");
	REFUSED(vg_vram_copy(handle, 0, handle, 8, 1), VG_STALE, "names no region");
	REFUSED(vg_vram_borrow(handle, VG_VRAM_READ, &loan), VG_STALE, "names no region");
}

static void *check_dead_elsewhere(void *handle)
{
	char byte;

	return vg_vram_read_at(*(struct vg_vram_handle *)handle, 0, &byte, 1) == VG_STALE &&
			       vg_vram_free(*(struct vg_vram_handle *)handle) == VG_STALE
		       ? NULL
		       : "not dead";
}

TEST(freed_handle_stays_stale)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle first = allocate(vram, 64), invented = {.value = first.value + ((uint64_t)7 << 32)};
	pthread_t thread;
	void *problem;

	OK(vg_vram_free(first));
	check_dead(first);
	// the new region most likely gets the first one's entry in the table of regions
	struct vg_vram_handle second = allocate(vram, 64);
	CHECK(second.value != first.value);
	check_dead(first);
	check_dead(invented);
	CHECK_INT(pthread_create(&thread, NULL, check_dead_elsewhere, &first), 0);
	CHECK_INT(pthread_join(thread, &problem), 0);
	CHECK(problem == NULL);
	check_bytes(second, 0, 64, 0);
	OK(vg_vram_free(second));
	close_vram(vram);
}

TEST(close_frees_and_reports_remaining_regions)
{
	struct vg_vram *vram = open_vram(), *other = open_vram();
	struct vg_vram_handle left[3], stays = allocate(other, 10);
	struct vg_vram_report report;
	struct vg_vram_capacity capacity;
	struct vg_device *device = vg_vram_device(vram);
	size_t free_before = free_on(device);

	left[0] = allocate(vram, (size_t)8 << 20);
	OK(vg_vram_allocate(vram, 1000, GUARDED, &left[1]));
	OK(vg_vram_allocate(vram, 1000, SHAREABLE, &left[2]));
	OK(vg_vram_close(vram, &report));
	CHECK_INT(report.regions, 3);
	CHECK_INT(report.bytes, (8 << 20) + 2000);
	CHECK_INT(report.loans, 0);
	CHECK_INT(report.failures, 0);
	for (int i = 0; i < 3; i++)
		check_dead(left[i]);
	if (!getenv("VIRGATE_VGPU"))
		CHECK_INT(free_on(device), free_before);
	OK(vg_vram_close(vram, &report)); // the second close succeeds, but finds no region
	CHECK_INT(report.regions, 0);
	REFUSED(vg_vram_allocate(vram, 1, NULL, &left[0]), VG_CLOSED, "has been closed");
	vg_vram_destroy(vram);
	OK(vg_vram_capacity(other, &capacity)); // the region of another context remains
	CHECK_INT(capacity.regions, 1);
	check_bytes(stays, 0, 10, 0);
	OK(vg_vram_free(stays));
	close_vram(other);
}

static char heard[1024];
static enum vg_log_level heard_level;

static void hear(void *user, enum vg_log_level level, const char *text)
{
	heard_level = level;
	snprintf(heard, sizeof heard, "%s", text);
}

TEST(destroy_logs_remaining_regions)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle = allocate(vram, 3 << 20);

	heard[0] = '\0';
	vg_log_set(hear, NULL);
	vg_vram_destroy(vram);
	vg_log_set(NULL, NULL);
	CHECK_STR(heard, "destroying a VRAM context: 1 regions with 3.0 MiB were still allocated");
	CHECK_INT(heard_level, VG_LOG_WARNING);
	check_dead(handle);
	heard[0] = '\0';
	vg_log_set(hear, NULL);
	close_vram(open_vram());
	vg_log_set(NULL, NULL);
	CHECK_STR(heard, "");
}
