// Tests when the file with the host memory of a parked process is published: when its contents are final, and before
// its memory is unpinned.
#include <glob.h>

#include "parked.h"

// The host memory consists of pieces of at most 256 MiB. The first one is full; the two others have unused pages, and
// are unpinned first.
enum { PIECES = 3 };

static CUdeviceptr big, small;

static void make_unused_memory(void)
{
	CUdeviceptr freed;

	start();
	CHECK_INT(cuMemAlloc_v2(&big, BIG), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&freed, BIG), CUDA_SUCCESS);
	CHECK_INT(cuMemAlloc_v2(&small, SMALL), CUDA_SUCCESS);
	fill(big, BIG, 3);
	fill(freed, BIG, 5);
	fill(small, SMALL, 4);
	move_out(PAGER_OUT);
	move_in(PAGER_RUNNING);
	CHECK_INT(cuMemFree_v2(freed), CUDA_SUCCESS);
}

// Reads the file like a dump. A mapping would allocate the pages that are free.
static uint64_t hash_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	static uint64_t block[BLOCK / sizeof(uint64_t)];
	uint64_t hash = 0;
	ssize_t length;

	CHECK(fd >= 0);
	while ((length = read(fd, block, sizeof block)) > 0) {
		CHECK_INT((size_t)length % sizeof *block, 0);
		for (size_t i = 0; i < (size_t)length / sizeof *block; i++)
			hash = hash * 31 + block[i];
	}
	CHECK_INT(length, 0);
	close(fd);
	return hash;
}

static void early_body(void)
{
	setenv("VIRGATE_SIM", "memory=1G,ctx=16M,slice=2ms", 1); // driver calls take time
	setenv("VIRGATE_SIM_COST", "call:cuMemHostUnregister=1s", 1);
	make_unused_memory();
	atomic_store(&slot->park, 1);
	ring_bell();
	for (int i = 0; i < 20000 && !atomic_load(&slot->file[2]); i++)
		pause_ms(1);
	struct pager_file file = read_file();
	CHECK_INT(slot->state, PAGER_OUT);
	CHECK(atomic_load(&slot->answered) != atomic_load(&slot->bell));
	CHECK(count_mappings() > 0);
	// The unused pages are free already.
	CHECK_INT(measure_file(format_path(&file)), slot->bytes);
	uint64_t hash = hash_file(format_path(&file));
	wait_for_answer();
	check_state(PAGER_PARKED, PAGER_DONE);
	struct pager_file now = read_file();
	CHECK(memcmp(&now, &file, sizeof file) == 0);
	CHECK_INT(count_mappings(), 0);
	CHECK_INT(measure_file(format_path(&file)), slot->bytes);
	CHECK(hash_file(format_path(&file)) == hash);
	unpark(PAGER_RUNNING);
	check_filled(big, BIG, 3);
	check_filled(small, SMALL, 4);
}

TEST(the_file_is_published_before_its_memory_is_unpinned)
{
	run_evictable(early_body);
}

// Returns how much memory the only file of this process takes.
static uint64_t measure_own_file(void)
{
	char pattern[64];
	glob_t found;

	snprintf(pattern, sizeof pattern, PAGER_FILE_DIRECTORY "/virgate-host.*.%d.*", (int)getpid());
	CHECK_INT(glob(pattern, 0, NULL, &found), 0);
	CHECK_INT(found.gl_pathc, 1);
	uint64_t bytes = measure_file(found.gl_pathv[0]);
	globfree(&found);
	return bytes;
}

// Number of the call of cuMemHostUnregister that fails: the first one comes before the file is published, the last one
// after that.
static int failing;

static void failing_body(void)
{
	CUdeviceptr more;

	make_unused_memory();
	uint64_t all = slot->bytes + BIG;
	ask_to_park(1);
	check_state(PAGER_OUT, PAGER_FILE);
	CHECK_INT(slot->row, EIO);
	for (int i = 0; i < 3; i++)
		CHECK_INT(slot->file[i], 0);
	CHECK(count_mappings() > 0);
	CHECK_INT(count_descriptors(), 1);
	// The unused pages of a piece are freed only after it was unpinned.
	if (failing == 1)
		CHECK_INT(measure_own_file(), all);
	else
		CHECK(measure_own_file() < all);
	unpark(PAGER_RUNNING);
	check_filled(big, BIG, 3);
	check_filled(small, SMALL, 4);
	CHECK_INT(cuMemAlloc_v2(&more, BIG), CUDA_SUCCESS);
	fill(more, BIG, 6);
	park(2);
	CHECK(slot->file[2] != 0);
	unpark(PAGER_RUNNING);
	check_filled(big, BIG, 3);
	check_filled(small, SMALL, 4);
	check_filled(more, BIG, 6);
}

// The program goes on with its memory, which can be parked later.
TEST(no_file_is_published_if_memory_cannot_be_unpinned)
{
	for (failing = 1; failing <= PIECES; failing += PIECES - 1) {
		char fault[64];
		snprintf(fault, sizeof fault, "cuMemHostUnregister:%d=CUDA_ERROR_UNKNOWN", failing);
		setenv("VIRGATE_SIM_FAULT", fault, 1);
		run_evictable(failing_body);
		unsetenv("VIRGATE_SIM_FAULT");
	}
}
