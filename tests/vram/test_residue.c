// Checks that freed memory reads as zero for its next user, regardless of how it was written.
#include "region_test.h"

#include <signal.h>
#include <sys/wait.h>

// Fills the region with a secret of 16 bytes.
static void write_secret(struct vg_vram_handle handle, size_t bytes)
{
	char *data = malloc(bytes);

	for (size_t i = 0; i < bytes; i++)
		data[i] = "a secret, 16 B.\n"[i % 16];
	OK(vg_vram_write_at(handle, 0, data, bytes));
	free(data);
}

// ---- killed processes -------------------------------------------------------------------------------

enum { LARGE = 32 << 20, COUNT = 6 };

static int hold_secret(int ready)
{
	struct vg_vram *vram = open_vram();

	write_secret(allocate(vram, LARGE), LARGE);
	write_secret(allocate(vram, 64), 64);
	CHECK(write(ready, "x", 1) == 1);
	return pause();
}

// Searches for the secret in memory that the driver allocates for another process. New regions would not show it, since
// the library zeroes them.
static int look_for_secret(int unused)
{
	struct vg_context *context = first_context();
	vg_address address[COUNT];
	char *data = malloc(LARGE);
	struct CUctx_st *before;

	OK(vg_context_set_current(context, &before));
	for (int i = 0; i < COUNT; i++)
		DRIVER(cuMemAlloc_v2, (vg_address *, size_t), &address[i], LARGE);
	for (int i = 0; i < COUNT; i++) {
		DRIVER(cuMemcpyDtoH_v2, (void *, vg_address, size_t), data, address[i], LARGE);
		CHECK(memmem(data, LARGE, "a secret", 8) == NULL);
	}
	free(data);
	return 0;
}

static pid_t start(int (*run)(int), int argument)
{
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		_exit(run(argument));
	CHECK(child > 0);
	return child;
}

// This must be the first test: a child cannot use the driver if its parent has used it before.
TEST(killed_process_leaves_no_residue)
{
	int ready[2], status;
	char byte;

	CHECK_INT(pipe(ready), 0);
	pid_t writer = start(hold_secret, ready[1]);
	close(ready[1]);
	ssize_t length = read(ready[0], &byte, 1);
	close(ready[0]);
	kill(writer, SIGKILL);
	CHECK_INT(waitpid(writer, &status, 0), writer);
	CHECK_INT(length, 1);
	pid_t reader = start(look_for_secret, 0);
	CHECK_CHILD(reader);
}

// ---- in one process -----------------------------------------------------------------------------------

static void write_by_kernel(struct vg_vram_handle handle, size_t bytes)
{
	struct vg_launch_config config = {.size = sizeof config, .grid = {64}, .block = {256}};
	struct work work = open_work("fill_words");
	struct vg_vram_loan loan;

	OK(vg_vram_borrow(handle, VG_VRAM_READ_WRITE, &loan));
	OK(vg_launch(work.stream, &config, work.kernel,
		     (struct vg_argument[]){VG_ARGUMENT(loan.address), VG_ARGUMENT((uint64_t){bytes / 4}),
					    VG_ARGUMENT((unsigned){0x5ec4e700})},
		     3));
	OK(vg_stream_sync(work.stream));
	OK(vg_vram_give_back(&loan));
	close_work(&work);
}

static vg_address address_of(struct vg_vram_handle handle)
{
	struct vg_vram_loan loan;

	OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan));
	vg_address address = loan.address;
	OK(vg_vram_give_back(&loan));
	return address;
}

// Several times allocates a region, checks that it is zero, writes to it, and frees it. If `reused`, checks that an
// address was used twice.
static void reuse(const struct vg_vram_allocate_options *options, size_t bytes,
		  void (*write)(struct vg_vram_handle, size_t), bool reused)
{
	struct vg_vram *vram = open_vram();
	// `neighbour` keeps the block in use from which the driver makes small allocations, so that the driver reuses
	// addresses
	struct vg_vram_handle handle, neighbour = allocate(vram, 64);
	vg_address before = 0;
	int met = 0;

	for (int i = 0; i < 4; i++) {
		OK(vg_vram_allocate(vram, bytes, options, &handle));
		check_bytes(handle, 0, bytes, 0);
		vg_address address = address_of(handle);
		met += address == before;
		before = address;
		write(handle, bytes);
		OK(vg_vram_free(handle));
	}
	if (reused)
		CHECK(met > 0); // otherwise no address was reused, and the test proves nothing
	OK(vg_vram_free(neighbour));
	close_vram(vram);
}

TEST(reused_small_regions_are_zero)
{
	reuse(NULL, 64, write_secret, true);
	reuse(NULL, 64, write_by_kernel, true);
	reuse(NULL, 1000, write_secret, true);
}

TEST(reused_large_regions_are_zero)
{
	reuse(NULL, ((size_t)5 << 20) + 3, write_secret, false);
	reuse(NULL, (size_t)5 << 20, write_by_kernel, false);
}

TEST(reused_guarded_regions_are_zero)
{
	reuse(GUARDED, 5000, write_secret, false);
	reuse(GUARDED, 5000, write_by_kernel, false);
}

TEST(reused_shareable_regions_are_zero)
{
	reuse(SHAREABLE, 5000, write_secret, false);
	reuse(SHAREABLE, 5000, write_by_kernel, false);
}

// Memory of a freed region must also be zero if the driver gives it to an allocation of this process that is not a
// region.
TEST(freed_memory_is_zero_for_other_allocations)
{
	struct vg_vram *vram = open_vram();
	struct vg_context *context = first_context();
	struct CUctx_st *before;
	unsigned char data[4096];

	for (int i = 0; i < 8; i++) {
		struct vg_vram_handle handle = allocate(vram, sizeof data);
		vg_address address, old = address_of(handle);
		write_secret(handle, sizeof data);
		OK(vg_vram_free(handle));
		OK(vg_context_set_current(context, &before));
		DRIVER(cuMemAlloc_v2, (vg_address *, size_t), &address, sizeof data);
		memset(data, 1, sizeof data);
		DRIVER(cuMemcpyDtoH_v2, (void *, vg_address, size_t), data, address, sizeof data);
		DRIVER(cuMemFree_v2, (vg_address), address);
		OK(vg_context_restore(before));
		for (size_t j = 0; address == old && j < sizeof data; j++)
			CHECK_INT(data[j], 0);
	}
	vg_context_destroy(context);
	close_vram(vram);
}

// Reads the padding between the region's end and the granule's end, through a mapping of the whole granule.
TEST(padding_of_a_region_is_zero)
{
	struct vg_vram *vram = open_vram();
	struct vg_vram_handle handle;
	unsigned char *data = calloc(1, 2 << 20);

	OK(vg_vram_allocate(vram, 100, SHAREABLE, &handle));
	struct vg_context *context = first_context();
	read_words(context, data, address_of(handle), 2 << 20);
	vg_context_destroy(context);
	for (size_t i = 0; i < 2 << 20; i++)
		CHECK_INT(data[i], 0);
	free(data);
	OK(vg_vram_free(handle));
	close_vram(vram);
}
