// Checks that a kernel faults when it accesses memory past the end of a guarded region. A process cannot use the driver
// after a fault, so each test runs in a child, and this program makes no driver call itself.
#include "region_test.h"

#include <cuda.h>
#include <sys/wait.h>

struct overrun {
	const char *kernel;
	size_t bytes, index; // `bytes` is the size of the region; `index` is the byte or word that the kernel accesses
	bool guard;
};

// Launches the kernel; called in a child. Returns the exit status for the child: 0 if the kernel succeeded, 3 if it
// faulted.
static int touch(const struct overrun *it)
{
	struct vg_launch_config config = {.size = sizeof config, .grid = {1}, .block = {1}};
	struct vg_vram *vram = open_vram();
	struct work work = open_work(it->kernel);
	struct vg_vram_handle handle, answer = allocate(vram, 1);
	struct vg_vram_loan loan, place;
	struct vg_vram_report report;

	OK(vg_vram_allocate(vram, it->bytes, it->guard ? GUARDED : NULL, &handle));
	OK(vg_vram_borrow(handle, VG_VRAM_READ_WRITE, &loan));
	OK(vg_vram_borrow(answer, VG_VRAM_READ_WRITE, &place));
	bool reads = strcmp(it->kernel, "get_byte") == 0, word = strcmp(it->kernel, "put_word") == 0;
	const struct vg_argument value = reads	? VG_ARGUMENT(place.address)
					 : word ? VG_ARGUMENT((unsigned){0x07070707})
						: VG_ARGUMENT((unsigned char){7});
	OK(vg_launch(work.stream, &config, work.kernel,
		     (struct vg_argument[]){VG_ARGUMENT(loan.address), VG_ARGUMENT((uint64_t){it->index}), value}, 3));
	if (vg_stream_sync(work.stream) == VG_OK) {
		if (!reads && it->guard)
			check_bytes(handle, word ? 4 * it->index : it->index, 1, 7);
		OK(vg_vram_give_back(&loan));
		OK(vg_vram_give_back(&place));
		OK(vg_vram_free(handle));
		OK(vg_vram_free(answer));
		close_vram(vram);
		return 0;
	}
	CHECK_INT(vg_last_error()->code, CUDA_ERROR_ILLEGAL_ADDRESS);
	// The fault has made the context unusable: every call must fail, and none may hang or crash.
	char byte;
	REFUSED(vg_vram_read_at(answer, 0, &byte, 1), VG_DRIVER, "ILLEGAL_ADDRESS");
	REFUSED(vg_vram_write_at(answer, 0, &byte, 1), VG_DRIVER, "ILLEGAL_ADDRESS");
	OK(vg_vram_give_back(&loan));
	REFUSED(vg_vram_free(handle), VG_DRIVER, "ILLEGAL_ADDRESS");
	CHECK_INT(vg_vram_close(vram, &report), VG_DRIVER);
	CHECK_INT(report.regions, 2);
	CHECK_INT(report.loans, 1);
	CHECK_INT(report.failures, 2);
	vg_vram_destroy(vram);
	return 3;
}

static int in_a_child(struct overrun it)
{
	int status;

	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		_exit(touch(&it));
	CHECK_INT(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

// There are sizes below, at and above a granule of 2 MiB. With a guard, the sizes lead to addresses that are aligned to
// 1, 4 and 256 bytes.
static const size_t sizes[] = {1, 1000, 99999, 2 << 20, (2 << 20) + 1, 4096, (2 << 20) - 1, 5 << 20};
enum {
	SIZES = sizeof sizes / sizeof sizes[0],
	FAULTING = 5
}; // only the first FAULTING sizes are tested for a fault: each needs a child, which takes half a second

TEST(last_byte_is_accessible)
{
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < SIZES; i++)
			CHECK_INT(touch(&(struct overrun){"put_byte", sizes[i], sizes[i] - 1, true}), 0);
		_exit(0);
	}
	CHECK_CHILD(child);
}

TEST(write_past_the_end_faults)
{
	for (int i = 0; i < FAULTING; i++)
		CHECK_INT(in_a_child((struct overrun){"put_byte", sizes[i], sizes[i], true}), 3);
}

TEST(read_past_the_end_faults)
{
	CHECK_INT(in_a_child((struct overrun){"get_byte", 1000, 1000, true}), 3);
}

TEST(word_access_past_the_end_faults)
{
	CHECK_INT(in_a_child((struct overrun){"put_word", 4000, 1000, true}), 3);
}

TEST(guard_has_the_size_of_a_granule)
{
	CHECK_INT(in_a_child((struct overrun){"put_byte", 1000, 1000 + (2 << 20) - 1, true}), 3);
}

// Shows why guards are needed: without one, the same overrun reaches other mapped memory.
TEST(overrun_without_a_guard_does_not_fault)
{
	CHECK_INT(in_a_child((struct overrun){"put_byte", 1000, 1000, false}), 0);
}

// Allocates a guarded region of each size. Its end must be the end of a granule, so its address must be a multiple of
// the largest power of two that divides the size.
static int look_at_addresses(void)
{
	struct vg_vram *vram = open_vram();

	for (int i = 0; i < SIZES; i++) {
		struct vg_vram_handle handle;
		struct vg_vram_loan loan;
		size_t lowest = sizes[i] & -sizes[i];
		OK(vg_vram_allocate(vram, sizes[i], GUARDED, &handle));
		OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan));
		CHECK_INT(loan.address % lowest, 0);
		CHECK_INT((loan.address + sizes[i]) % (2 << 20), 0);
		OK(vg_vram_give_back(&loan));
		OK(vg_vram_free(handle));
	}
	close_vram(vram);
	return 0;
}

TEST(address_is_aligned_as_the_size)
{
	pid_t child = fork();
	if (child == 0)
		_exit(look_at_addresses());
	CHECK_CHILD(child);
}
