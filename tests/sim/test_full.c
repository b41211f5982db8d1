// A node whose directory is on a file system that becomes full. Each in a process of its own, with a mount of its own.
#include "sim_test.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

enum { NO_MOUNTS = 77 };

static void write_map(const char *path, unsigned outside)
{
	char text[64];
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	snprintf(text, sizeof text, "0 %u 1", outside);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		_exit(NO_MOUNTS);
	close(fd);
}

// A tmpfs of so many bytes is where the node's directory was, for this process alone.
static void mount_small(const char *folder, size_t size)
{
	unsigned user = geteuid(), group = getegid();
	char options[64];

	if (unshare(user == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) != 0)
		_exit(NO_MOUNTS);
	if (user != 0) {
		int fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
		if (fd < 0 || write(fd, "deny", 4) != 4)
			_exit(NO_MOUNTS);
		close(fd);
		write_map("/proc/self/uid_map", user);
		write_map("/proc/self/gid_map", group);
	}
	snprintf(options, sizeof options, "size=%zu,mode=0700", size);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", folder, "tmpfs", 0, options) != 0)
		_exit(NO_MOUNTS);
}

// Runs `check` in a child whose directory has so much room; what it said on standard error. It must return 0.
static void run_in(size_t room, const char *spec, int (*check)(void), char *ret_words, size_t capacity)
{
	int pipes[2], status;
	size_t got = 0;

	node_start("1");
	CHECK(pipe(pipes) == 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(pipes[1], 2);
		close(pipes[0]);
		close(pipes[1]);
		mount_small(node_folder, room);
		setenv("VIRGATE_SIM", spec, 1);
		_exit(check());
	}
	close(pipes[1]);
	for (ssize_t more; got < capacity - 1 && (more = read(pipes[0], ret_words + got, capacity - 1 - got)) > 0;)
		got += (size_t)more;
	ret_words[got] = 0;
	close(pipes[0]);
	CHECK_INT(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_MOUNTS)
		SKIP("neither this user nor a user namespace may mount a tmpfs here");
	if (status != 0)
		FAIL("%s %d: %s", WIFEXITED(status) ? "ended with" : "killed by signal",
		     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), ret_words);
}

static unsigned count_lines(const char *words)
{
	unsigned lines = 0;

	for (; *words; words++)
		lines += *words == '\n';
	return lines;
}

static int init_fails(void)
{
	return cuInit(0) == CUDA_ERROR_OUT_OF_MEMORY && cuInit(0) == CUDA_ERROR_OUT_OF_MEMORY ? 0 : 1;
}

TEST(no_room_for_the_node)
{
	char words[1024];

	run_in(64 << 10, "memory=1G", init_fails, words, sizeof words);
	CHECK_CONTAINS(words, node_folder);
	CHECK_CONTAINS(words, "MiB needed");
	CHECK_CONTAINS(words, "64.0 KiB free");
	CHECK_CONTAINS(words, "VIRGATE_SIM_DIR");
	CHECK_INT(count_lines(words), 1);
}

// Allocates until memory is short, and uses all of it, through device operations.
#define REQUIRE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			return __LINE__ % 200 + 1;                                                                     \
	} while (0)
enum { ROOM = 24, MOST = 16 };

static int fill(CUdeviceptr addresses[MOST])
{
	static unsigned char bytes[4 << 20];
	int count = 0;
	CUresult result = CUDA_SUCCESS;

	while (count < MOST && (result = cuMemAlloc_v2(&addresses[count], 4 * MIB)) == CUDA_SUCCESS)
		count++;
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return -1;
	for (int i = 0; i < count; i++)
		if (cuMemsetD8_v2(addresses[i], (unsigned char)(i + 1), 4 * MIB))
			return -1;
	for (int i = 0; i < count; i++)
		if (cuMemcpyDtoH_v2(bytes, addresses[i], 4 * MIB) || bytes[0] != i + 1 || bytes[sizeof bytes - 1] != i + 1)
			return -1;
	return count;
}

static int use_all_of_it(void)
{
	CUdeviceptr addresses[MOST], address;
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUcontext context, other;
	size_t before, after, total;
	CUmodule module;
	CUstream stream;

	REQUIRE(cuInit(0) == CUDA_SUCCESS);
	REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
	REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
	REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
	REQUIRE(cuMemGetInfo_v2(&before, &total) == CUDA_SUCCESS);
	int count = fill(addresses);
	REQUIRE(count >= 3 && count < MOST);
	// Whatever else takes device memory is refused likewise.
	REQUIRE(cuMemCreate(&handle, 8 * MIB, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	REQUIRE(cuMemAllocAsync(&address, 1 << 20, stream) == CUDA_ERROR_OUT_OF_MEMORY);
	REQUIRE(cuModuleLoadData(&module, ".version 7.5\n.target sm_75\n.address_size 64\n"
					  ".visible .global .align 4 .b8 room[8388608];\n.visible .entry e() { ret; }") ==
		CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < count; i++)
		REQUIRE(cuMemFree_v2(addresses[i]) == CUDA_SUCCESS);
	REQUIRE(cuMemGetInfo_v2(&after, &total) == CUDA_SUCCESS);
	REQUIRE(after == before); // a refused allocation is charged to nobody
	REQUIRE(fill(addresses) == count);
	REQUIRE(cuMemAlloc_v2(&address, 2 * MIB) == CUDA_SUCCESS || cuMemFree_v2(addresses[0]) == CUDA_SUCCESS);
	while (cuMemAlloc_v2(&address, 2 * MIB) == CUDA_SUCCESS)
		;
	REQUIRE(cuCtxCreate_v4(&other, NULL, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	return 0;
}

TEST(no_room_for_more_memory)
{
	char words[1024];

	run_in(ROOM * MIB, "memory=1G,ctx=2M", use_all_of_it, words, sizeof words);
	CHECK_CONTAINS(words, node_folder);
	CHECK_CONTAINS(words, "4.0 MiB needed");
	CHECK_CONTAINS(words, "free; make room");
	CHECK_INT(count_lines(words), 1);
}

// A large device on a small disk: what is written must fit, what is allocated need not.
static int write_some(void)
{
	CUcontext context;
	CUdeviceptr address;

	REQUIRE(cuInit(0) == CUDA_SUCCESS);
	REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
	REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
	REQUIRE(cuMemAlloc_v2(&address, 1000 * MIB) == CUDA_SUCCESS);
	REQUIRE(cuMemsetD8_v2(address + 900 * MIB, 1, MIB) == CUDA_SUCCESS);
	return 0;
}

TEST(overcommitted_memory_takes_no_room)
{
	char words[1024];

	run_in(ROOM * MIB, "memory=1G,ctx=2M,overcommit=1", write_some, words, sizeof words);
	CHECK_STR(words, "");
}
