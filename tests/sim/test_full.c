// Tests a simulated node whose directory is on a file system that becomes full. Each check runs in its own process and
// mount namespace.
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

// Mounts a tmpfs of `size` bytes over the simulated node's directory, for this process only.
static void mount_small(const char *directory, size_t size)
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
	    mount("tmpfs", directory, "tmpfs", 0, options) != 0)
		_exit(NO_MOUNTS);
}

// Runs `check`, which must return 0, in a child whose directory has `room` bytes. Returns its messages on standard
// error.
static void run_with_space(size_t room, const char *spec, int (*check)(void), char *ret_output, size_t capacity)
{
	int pipes[2], status;
	size_t length = 0;

	node_start("1");
	CHECK(pipe(pipes) == 0);
	pid_t child = fork();
	if (child == 0) {
		dup2(pipes[1], 2);
		close(pipes[0]);
		close(pipes[1]);
		mount_small(node_directory, room);
		setenv("VIRGATE_SIM", spec, 1);
		_exit(check());
	}
	close(pipes[1]);
	for (ssize_t more;
	     length < capacity - 1 && (more = read(pipes[0], ret_output + length, capacity - 1 - length)) > 0;)
		length += (size_t)more;
	ret_output[length] = 0;
	close(pipes[0]);
	CHECK_INT(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_MOUNTS)
		SKIP("neither this user nor a user namespace may mount a tmpfs here");
	if (status != 0)
		FAIL("%s %d: %s", WIFEXITED(status) ? "ended with" : "killed by signal",
		     WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), ret_output);
}

static unsigned count_lines(const char *output)
{
	unsigned lines = 0;

	for (; *output; output++)
		lines += *output == '\n';
	return lines;
}

static int check_init_fails(void)
{
	return cuInit(0) == CUDA_ERROR_OUT_OF_MEMORY && cuInit(0) == CUDA_ERROR_OUT_OF_MEMORY ? 0 : 1;
}

TEST(init_fails_without_space_for_the_node)
{
	char output[1024];

	run_with_space(64 << 10, "memory=1G", check_init_fails, output, sizeof output);
	CHECK_CONTAINS(output, node_directory);
	CHECK_CONTAINS(output, "MiB needed");
	CHECK_CONTAINS(output, "64.0 KiB free");
	CHECK_CONTAINS(output, "VIRGATE_SIM_DIR");
	CHECK_INT(count_lines(output), 1);
}

#define REQUIRE(condition)                         \
	do {                                       \
		if (!(condition))                  \
			return __LINE__ % 200 + 1; \
	} while (0)
enum { ROOM = 24, MOST = 16 };

// Allocates until memory runs short, and writes to all allocations on the device. Returns the number of allocations.
static int fill_memory(CUdeviceptr addresses[MOST])
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
		if (cuMemcpyDtoH_v2(bytes, addresses[i], 4 * MIB) || bytes[0] != i + 1 ||
		    bytes[sizeof bytes - 1] != i + 1)
			return -1;
	return count;
}

static int use_all_memory(void)
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
	int count = fill_memory(addresses);
	REQUIRE(count >= 3 && count < MOST);
	// Now all ways to allocate device memory must fail.
	REQUIRE(cuMemCreate(&handle, 8 * MIB, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	REQUIRE(cuMemAllocAsync(&address, 1 << 20, stream) == CUDA_ERROR_OUT_OF_MEMORY);
	REQUIRE(cuModuleLoadData(&module, ".version 7.5\n.target sm_75\n.address_size 64\n"
					  ".visible .global .align 4 .b8 room[8388608];\n"
					  ".visible .entry e() { ret; }") == CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < count; i++)
		REQUIRE(cuMemFree_v2(addresses[i]) == CUDA_SUCCESS);
	REQUIRE(cuMemGetInfo_v2(&after, &total) == CUDA_SUCCESS);
	REQUIRE(after == before); // the failed allocations are not charged
	REQUIRE(fill_memory(addresses) == count);
	REQUIRE(cuMemAlloc_v2(&address, 2 * MIB) == CUDA_SUCCESS || cuMemFree_v2(addresses[0]) == CUDA_SUCCESS);
	while (cuMemAlloc_v2(&address, 2 * MIB) == CUDA_SUCCESS)
		;
	REQUIRE(cuCtxCreate_v4(&other, NULL, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
	return 0;
}

TEST(allocations_fail_on_a_full_file_system)
{
	char output[1024];

	run_with_space(ROOM * MIB, "memory=1G,ctx=2M", use_all_memory, output, sizeof output);
	CHECK_CONTAINS(output, node_directory);
	CHECK_CONTAINS(output, "4.0 MiB needed");
	CHECK_CONTAINS(output, "free; make room");
	CHECK_INT(count_lines(output), 1);
}

// Allocates more device memory than the disk has room for, but writes only to a part. Only the written part must fit.
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

TEST(overcommitted_memory_reserves_no_space)
{
	char output[1024];

	run_with_space(ROOM * MIB, "memory=1G,ctx=2M,overcommit=1", write_some, output, sizeof output);
	CHECK_STR(output, "");
}
