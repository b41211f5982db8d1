// The driver's process checkpoint, of another process: states, refusals, memory given back and restored.
#include "conformance.h"

// The subject says through a pipe what it did; it goes on when told.
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
	WORKS(cuMemcpyDtoH(words, address + 32 * MiB, 8)); // at the same address, the same contents
	EQUALS(words[1], 0xc0de);
	CUdeviceptr more = 0;
	WORKS(cuMemAlloc(&more, MiB));
	WORKS(cuMemFree(more));
	say(out, 'd');
}

// Its memory can be had by a descriptor, which it keeps open.
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
	COSTS(memory_used(), before, with_subject); // all of it is free; a vGPU keeps the room for it
	GIVES(cuCheckpointProcessUnlock(child, NULL), CUDA_ERROR_ILLEGAL_STATE);
	NEED(cuCheckpointProcessRestore(child, NULL));
	EQUALS(state_of(child), CU_PROCESS_STATE_LOCKED);
	EQUALS(memory_used(), with_subject);
	NEED(cuCheckpointProcessUnlock(child, NULL));
	EQUALS(state_of(child), CU_PROCESS_STATE_RUNNING);
	EQUALS(end_subject(child), 0);
	COMES_TO(memory_used(), before);
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

CONFORM(locked_and_unlocked)
{
	CUcheckpointLockArgs lock = {.timeoutMs = 5000};

	need_context();
	pid_t child = start_subject("subject");
	NEED(cuCheckpointProcessLock(child, &lock));
	say(to_child[1], 'g'); // its next driver call waits
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
	FAILS(cuCheckpointProcessGetState(child, &state));
	FAILS(cuCheckpointProcessGetRestoreThreadId(child, &thread));
	FAILS(cuCheckpointProcessLock(child, NULL));
	kill(child, SIGKILL);
	wait_child(child);
	FAILS(cuCheckpointProcessGetState(0x3ffffff, &state));
}
