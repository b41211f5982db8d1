// Tests the driver's checkpoint of another process: states, refusals, freeing and restoring memory.
#include "conformance.h"

#include <sys/mman.h>

// The child process of a test, which the driver checkpoints, writes each step to a pipe. It continues when a byte
// arrives on another pipe.
static int to_child[2], from_child[2];

static void say(int descriptor, char word)
{
	if (write(descriptor, &word, 1) != 1)
		_exit(3);
}

static char hear(int descriptor)
{
	char word = 0;

	return read(descriptor, &word, 1) == 1 ? word : 0;
}

CHILD(subject)
{
	CUdeviceptr address;
	unsigned words[2] = {0};
	int in, out;

	sscanf(argument, "%d %d", &in, &out);
	need_context();
	NEED(cuMemAlloc(&address, 64 * MiB));
	NEED(cuMemsetD32(address, 0xc0de, 16 * MiB));
	NEED(cuCtxSynchronize());
	say(out, 'r');
	hear(in);
	// the memory has the same contents at the same address as before
	WORKS(cuMemcpyDtoH(words, address + 32 * MiB, 8));
	EQUALS(words[1], 0xc0de);
	CUdeviceptr more = 0;
	WORKS(cuMemAlloc(&more, MiB));
	WORKS(cuMemFree(more));
	say(out, 'd');
}

// A child that exports its memory as a descriptor, and keeps the descriptor open.
CHILD(exporter)
{
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
				  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	unsigned word = 0;
	int in, out, descriptor = -1;

	sscanf(argument, "%d %d", &in, &out);
	need_context();
	wanted.location.id = access.location.id = device;
	NEED(cuMemCreate(&handle, 64 * MiB, &wanted, 0));
	NEED(cuMemAddressReserve(&address, 64 * MiB, 0, 0, 0));
	NEED(cuMemMap(address, 64 * MiB, 0, handle, 0));
	NEED(cuMemSetAccess(address, 64 * MiB, &access, 1));
	NEED(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	NEED(cuMemsetD32(address, 0xbeef, 16 * MiB));
	NEED(cuCtxSynchronize());
	say(out, 'r');
	hear(in);
	WORKS(cuMemcpyDtoH(&word, address + 48 * MiB, 4));
	EQUALS(word, 0xbeef);
	WORKS(cuMemsetD32(address, 1, 16 * MiB));
	WORKS(cuCtxSynchronize());
	say(out, 'd');
}

// A child with managed memory, which the driver does not move off a device.
CHILD(manager)
{
	CUdeviceptr address;
	unsigned word = 0;
	int in, out;

	sscanf(argument, "%d %d", &in, &out);
	need_context();
	NEED(cuMemAllocManaged(&address, 4 * MiB, CU_MEM_ATTACH_GLOBAL));
	NEED(cuMemsetD32(address, 0xfeed, MiB));
	NEED(cuCtxSynchronize());
	say(out, 'r');
	hear(in);
	WORKS(cuMemcpyDtoH(&word, address + 2 * MiB, 4));
	EQUALS(word, 0xfeed);
	say(out, 'd');
}

// A child that exports memory by a legacy IPC handle.
CHILD(lender)
{
	CUipcMemHandle handle;
	CUdeviceptr address;
	unsigned word = 0;
	int in, out;

	sscanf(argument, "%d %d", &in, &out);
	need_context();
	NEED(cuMemAlloc(&address, 64 * MiB));
	NEED(cuMemsetD32(address, 0xabcd, 16 * MiB));
	NEED(cuCtxSynchronize());
	NEED(cuIpcGetMemHandle(&handle, address));
	say(out, 'r');
	if (write(out, &handle, sizeof handle) != sizeof handle)
		_exit(3);
	hear(in);
	WORKS(cuMemcpyDtoH(&word, address + 48 * MiB, 4));
	EQUALS(word, 0xabcd);
	say(out, 'd');
}

CHILD(borrower)
{
	CUipcMemHandle handle;
	CUdeviceptr address;
	int in, out;

	sscanf(argument, "%d %d", &in, &out);
	need_context();
	say(out, 'r');
	if (read(in, &handle, sizeof handle) != sizeof handle)
		_exit(3);
	NEED(cuIpcOpenMemHandle(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	say(out, 'o');
	hear(in);
}

// ---- memory that is mapped at reserved addresses ----------------------------------------------

#define HELD (128 * MiB)
#define RESERVED (64 * GiB)

static CUmemGenericAllocationHandle create_held(void)
{
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	CUmemGenericAllocationHandle handle = 0;

	NEED(cuMemCreate(&handle, HELD, &wanted, 0));
	return handle;
}

static void map_held(CUdeviceptr address, CUmemGenericAllocationHandle handle)
{
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
				  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};

	NEED(cuMemMap(address, HELD, 0, handle, 0));
	NEED(cuMemSetAccess(address, HELD, &access, 1));
}

// Reserves addresses, creates memory, maps it at the first of these addresses, and fills it with words of 0x5afe.
// Returns the first address.
static CUdeviceptr fill_held(CUmemGenericAllocationHandle *ret_handle)
{
	CUdeviceptr address;

	need_context();
	NEED(cuMemAddressReserve(&address, RESERVED, 0, 0, 0));
	*ret_handle = create_held();
	map_held(address, *ret_handle);
	NEED(cuMemsetD32(address, 0x5afe, HELD / 4));
	NEED(cuCtxSynchronize());
	return address;
}

static void check_held(CUdeviceptr address)
{
	unsigned word = 0;

	WORKS(cuMemcpyDtoH(&word, address + HELD - 4, 4));
	EQUALS(word, 0x5afe);
	WORKS(cuMemUnmap(address, HELD));
}

// A child that holds a handle whose memory is mapped nowhere.
CHILD(holder)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	int in, out;

	sscanf(argument, "%d %d", &in, &out);
	address = fill_held(&handle);
	NEED(cuMemUnmap(address, HELD));
	say(out, 'r');
	hear(in);
	map_held(address, handle);
	check_held(address);
	WORKS(cuMemRelease(handle));
	say(out, 'd');
}

static char *map_arena(void)
{
	int descriptor = memfd_create("arena", 0);

	if (descriptor < 0 || ftruncate(descriptor, HELD) != 0)
		_exit(3);
	char *arena = mmap(NULL, HELD, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
	close(descriptor);
	return arena == MAP_FAILED ? NULL : arena;
}

// Checks that the host memory `arena` is still registered, and that the driver can copy between it and device memory in
// both directions.
static void check_registered(unsigned *arena, CUdeviceptr address)
{
	CUdeviceptr mapped = 0;
	unsigned flags = 0, word = 0;

	WORKS(cuMemHostGetFlags(&flags, arena));
	HOLDS(flags & CU_MEMHOSTREGISTER_PORTABLE);
	WORKS(cuMemHostGetDevicePointer(&mapped, arena, 0));
	WORKS(cuMemsetD32(address, 0, HELD / 4));
	WORKS(cuMemcpyAsync(address, mapped, HELD, NULL));
	WORKS(cuCtxSynchronize());
	WORKS(cuMemcpyDtoH(&word, address + HELD - 4, 4));
	EQUALS(word, 0x5afe);
	memset(arena, 0, HELD);
	WORKS(cuMemcpyAsync(mapped, address, HELD, NULL));
	WORKS(cuCtxSynchronize());
	EQUALS(arena[0], 0x5afe);
	EQUALS(arena[HELD / 4 - 1], 0x5afe);
}

// Runs in a child: copies device memory to `arena`, releases it, waits for the parent, and allocates the memory again.
static void evict_and_return(const char *argument, char *arena, bool stays_registered)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	int in, out;

	sscanf(argument, "%d %d", &in, &out);
	address = fill_held(&handle);
	NEED(cuMemHostRegister(arena, HELD, CU_MEMHOSTREGISTER_PORTABLE));
	NEED(cuMemcpyDtoH(arena, address, HELD));
	NEED(cuMemUnmap(address, HELD));
	NEED(cuMemRelease(handle));
	if (!stays_registered)
		NEED(cuMemHostUnregister(arena));
	say(out, 'r');
	hear(in);
	if (stays_registered) // the driver restored the registration
		GIVES(cuMemHostRegister(arena, HELD, CU_MEMHOSTREGISTER_PORTABLE),
		      CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	else
		WORKS(cuMemHostRegister(arena, HELD, CU_MEMHOSTREGISTER_PORTABLE));
	handle = create_held();
	map_held(address, handle); // maps the memory at the same addresses as before
	check_registered((unsigned *)arena, address);
	check_held(address);
	WORKS(cuMemRelease(handle));
	WORKS(cuMemHostUnregister(arena));
	say(out, 'd');
}

CHILD(evicter)
{
	evict_and_return(argument, map_arena(), false);
}

CHILD(evicter_with_registered_file)
{
	evict_and_return(argument, map_arena(), true);
}

// A child that copies its device memory to registered anonymous memory instead of a registered file.
CHILD(evicter_with_registered_memory)
{
	char *arena = mmap(NULL, HELD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (arena == MAP_FAILED)
		_exit(3);
	evict_and_return(argument, arena, true);
}

static pid_t start_subject(const char *name)
{
	char numbers[32];

	if (pipe(to_child) != 0 || pipe(from_child) != 0)
		FAIL("no pipes");
	sprintf(numbers, "%d %d", to_child[0], from_child[1]);
	pid_t child = start_child(name, numbers);
	close(to_child[0]);
	close(from_child[1]);
	if (hear(from_child[0]) != 'r') {
		kill(child, SIGKILL);
		wait_child(child);
		FAIL("the subject did not start");
	}
	return child;
}

static int end_subject(pid_t child)
{
	say(to_child[1], 'g');
	hear(from_child[0]);
	close(to_child[1]);
	close(from_child[0]);
	return wait_child(child);
}

static CUprocessState state_of(pid_t child)
{
	CUprocessState state = 99;

	WORKS(cuCheckpointProcessGetState(child, &state));
	return state;
}

CONFORM(the_whole_way)
{
	size_t before, with_subject;
	int thread = 0;
	CUcheckpointLockArgs lock = {.timeoutMs = 5000};

	need_context();
	before = memory_used();
	pid_t child = start_subject("subject");
	with_subject = memory_used();
	HOLDS(with_subject - before >= 64 * MiB);
	WORKS(cuCheckpointProcessGetRestoreThreadId(child, &thread));
	HOLDS(thread > 0);
	EQUALS(state_of(child), CU_PROCESS_STATE_RUNNING);
	GIVES(cuCheckpointProcessCheckpoint(child, NULL), CUDA_ERROR_ILLEGAL_STATE);
	GIVES(cuCheckpointProcessUnlock(child, NULL), CUDA_ERROR_ILLEGAL_STATE);
	GIVES(cuCheckpointProcessRestore(child, NULL), CUDA_ERROR_ILLEGAL_STATE);
	NEED(cuCheckpointProcessLock(child, &lock));
	EQUALS(state_of(child), CU_PROCESS_STATE_LOCKED);
	GIVES(cuCheckpointProcessLock(child, &lock), CUDA_ERROR_ILLEGAL_STATE);
	NEED(cuCheckpointProcessCheckpoint(child, NULL));
	EQUALS(state_of(child), CU_PROCESS_STATE_CHECKPOINTED);
	// the driver has freed all memory of the process, but a vGPU still charges it
	COSTS(memory_used(), before, with_subject);
	GIVES(cuCheckpointProcessUnlock(child, NULL), CUDA_ERROR_ILLEGAL_STATE);
	NEED(cuCheckpointProcessRestore(child, NULL));
	EQUALS(state_of(child), CU_PROCESS_STATE_LOCKED);
	EQUALS(memory_used(), with_subject);
	NEED(cuCheckpointProcessUnlock(child, NULL));
	EQUALS(state_of(child), CU_PROCESS_STATE_RUNNING);
	EQUALS(end_subject(child), 0);
	COMES_TO(memory_used(), before);
}

// Returns how much anonymous memory of the process is resident. The driver saves the contents of device memory there.
static size_t anonymous_memory(pid_t pid)
{
	char path[64], line[256];
	size_t kib = 0;

	sprintf(path, "/proc/%d/status", (int)pid);
	FILE *file = fopen(path, "r");
	while (file && fgets(line, sizeof line, file))
		sscanf(line, "RssAnon: %zu", &kib);
	if (file)
		fclose(file);
	return kib * KiB;
}

// Checkpoints and restores the named child. Returns how much anonymous memory the checkpoint takes.
static size_t checkpoint_and_return(const char *name)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 10000};
	pid_t child = start_subject(name);
	size_t with_child = memory_used(), before = anonymous_memory(child);

	NEED(cuCheckpointProcessLock(child, &lock));
	NEED(cuCheckpointProcessCheckpoint(child, NULL));
	size_t after = anonymous_memory(child);
	NEED(cuCheckpointProcessRestore(child, NULL));
	EQUALS(memory_used(), with_child);
	NEED(cuCheckpointProcessUnlock(child, NULL));
	EQUALS(end_subject(child), 0);
	return after - before;
}

CONFORM(released_memory_is_not_in_the_checkpoint)
{
	size_t held, evicted, registered;

	need_context();
	held = checkpoint_and_return("holder");
	evicted = checkpoint_and_return("evicter");
	registered = checkpoint_and_return("evicter_with_registered_file");
	// the checkpoint of `holder` includes the memory of the handle, although this memory is mapped nowhere
	BETWEEN((long long)(held - evicted), HELD - 32 * MiB, HELD + 32 * MiB);
	BETWEEN((long long)(registered - evicted), -32 * (long long)MiB, 32 * (long long)MiB);
}

CONFORM(registered_memory_is_usable_after_checkpoint_and_restore)
{
	need_context();
	size_t file = checkpoint_and_return("evicter_with_registered_file");
	size_t anonymous = checkpoint_and_return("evicter_with_registered_memory");
	BETWEEN((long long)(anonymous - file), -32 * (long long)MiB, 32 * (long long)MiB);
}

CONFORM(exported_memory_does_not_hinder)
{
	need_context();
	pid_t child = start_subject("exporter");
	CUcheckpointLockArgs lock = {.timeoutMs = 10000};
	CUcheckpointCheckpointArgs checkpoint = {0};
	CUcheckpointRestoreArgs restore = {0};
	CUcheckpointUnlockArgs unlock = {0};
	WORKS(cuCheckpointProcessLock(child, &lock));
	WORKS(cuCheckpointProcessCheckpoint(child, &checkpoint));
	EQUALS(state_of(child), CU_PROCESS_STATE_CHECKPOINTED);
	WORKS(cuCheckpointProcessRestore(child, &restore));
	WORKS(cuCheckpointProcessUnlock(child, &unlock));
	EQUALS(end_subject(child), 0);
}

CONFORM(managed_memory_keeps_it_on_the_device)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 10000};

	need_context();
	pid_t child = start_subject("manager");
	NEED(cuCheckpointProcessLock(child, &lock));
	GIVES(cuCheckpointProcessCheckpoint(child, NULL), CUDA_ERROR_NOT_SUPPORTED);
	EQUALS(state_of(child), CU_PROCESS_STATE_LOCKED);
	GIVES(cuCheckpointProcessRestore(child, NULL), CUDA_ERROR_ILLEGAL_STATE);
	WORKS(cuCheckpointProcessUnlock(child, NULL));
	EQUALS(end_subject(child), 0);
}

// The exporting process can be restored; the importing one cannot.
CONFORM(memory_of_another_process_is_not_restored)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 10000};
	CUipcMemHandle handle;
	int lender_to[2], lender_from[2];

	need_context();
	pid_t lender = start_subject("lender");
	if (read(from_child[0], &handle, sizeof handle) != sizeof handle)
		FAIL("no handle");
	memcpy(lender_to, to_child, sizeof to_child);
	memcpy(lender_from, from_child, sizeof from_child);
	pid_t borrower = start_subject("borrower");
	if (write(to_child[1], &handle, sizeof handle) != sizeof handle || hear(from_child[0]) != 'o')
		FAIL("the memory was not opened");
	WORKS(cuCheckpointProcessLock(lender, &lock));
	WORKS(cuCheckpointProcessCheckpoint(lender, NULL));
	WORKS(cuCheckpointProcessRestore(lender, NULL));
	WORKS(cuCheckpointProcessUnlock(lender, NULL));
	WORKS(cuCheckpointProcessLock(borrower, &lock));
	WORKS(cuCheckpointProcessCheckpoint(borrower, NULL));
	FAILS(cuCheckpointProcessRestore(borrower, NULL));
	EQUALS(state_of(borrower), CU_PROCESS_STATE_CHECKPOINTED);
	kill(borrower, SIGKILL);
	wait_child(borrower);
	close(to_child[1]);
	close(from_child[0]);
	memcpy(to_child, lender_to, sizeof to_child);
	memcpy(from_child, lender_from, sizeof from_child);
	EQUALS(end_subject(lender), 0);
}

CONFORM(pairs_that_make_no_sense)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 10000};
	CUcheckpointGpuPair pairs[2] = {0};
	CUcheckpointRestoreArgs restore = {.gpuPairs = pairs, .gpuPairsCount = 1};
	CUuuid uuid, stranger;
	int driver, devices;

	need_context();
	NEED(cuDriverGetVersion(&driver));
	NEED(cuDeviceGetCount(&devices));
	NEED(cuDeviceGetUuid(&uuid, device));
	memset(&stranger, 0x5a, sizeof stranger);
	if (driver < 13000 || devices != 1)
		SKIP("it takes one device, and a driver that takes pairs");
	pid_t child = start_subject("subject");
	NEED(cuCheckpointProcessLock(child, &lock));
	NEED(cuCheckpointProcessCheckpoint(child, NULL));
	pairs[0] = (CUcheckpointGpuPair){uuid, stranger};
	GIVES(cuCheckpointProcessRestore(child, &restore), CUDA_ERROR_INVALID_VALUE);
	pairs[0] = (CUcheckpointGpuPair){stranger, uuid};
	GIVES(cuCheckpointProcessRestore(child, &restore), CUDA_ERROR_INVALID_VALUE);
	pairs[0] = pairs[1] = (CUcheckpointGpuPair){uuid, uuid};
	restore.gpuPairsCount = 2;
	GIVES(cuCheckpointProcessRestore(child, &restore), CUDA_ERROR_INVALID_VALUE);
	EQUALS(state_of(child), CU_PROCESS_STATE_CHECKPOINTED); // the failed restore loses no memory
	restore.gpuPairsCount = 1;
	WORKS(cuCheckpointProcessRestore(child, &restore));
	WORKS(cuCheckpointProcessUnlock(child, NULL));
	EQUALS(end_subject(child), 0);
}

CONFORM(locked_and_unlocked)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 5000};

	need_context();
	pid_t child = start_subject("subject");
	NEED(cuCheckpointProcessLock(child, &lock));
	// tells the child to make its next driver call, which must wait while the child is locked
	say(to_child[1], 'g');
	usleep(200000);
	EQUALS(state_of(child), CU_PROCESS_STATE_LOCKED);
	WORKS(cuCheckpointProcessUnlock(child, NULL));
	EQUALS(hear(from_child[0]), 'd');
	EQUALS(wait_child(child), 0);
	close(to_child[1]);
	close(from_child[0]);
}

CONFORM(not_a_cuda_process)
{
	CUprocessState state = 99;
	int thread = 0;
	pid_t child;

	need_context();
	fflush(NULL);
	child = fork();
	if (child == 0) {
		execl("/bin/sleep", "sleep", "30", (char *)NULL);
		_exit(127);
	}
	usleep(100000);
	GIVES(cuCheckpointProcessGetState(child, &state), CUDA_ERROR_NOT_INITIALIZED);
	GIVES(cuCheckpointProcessGetRestoreThreadId(child, &thread), CUDA_ERROR_NOT_INITIALIZED);
	GIVES(cuCheckpointProcessLock(child, NULL), CUDA_ERROR_NOT_INITIALIZED);
	kill(child, SIGKILL);
	wait_child(child);
	GIVES(cuCheckpointProcessGetState(4194303, &state), CUDA_ERROR_OPERATING_SYSTEM); // no process has this pid
}
