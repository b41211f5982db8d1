#include "core_test.h"

#include <ctype.h>
#include <signal.h>

static int to_child[2], from_child[2];

static char read_byte(int descriptor)
{
	char word = 0;

	return read(descriptor, &word, 1) == 1 ? word : 0;
}

// Runs in the process that the tests lock. The test forks that process before it uses CUDA itself, since a child that
// is forked later could not use CUDA.
static void subject(void)
{
	struct vg_context *context = first_context();
	struct vg_memory_resource *pool;
	struct vg_stream *stream;
	struct vg_buffer *buffer;
	unsigned char byte = 0;

	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_device_pool_current(vg_context_device(context), &pool));
	OK(vg_buffer_create(pool, 1 << 20, stream, &buffer));
	OK(vg_buffer_fill(buffer, &(unsigned char){0x5a}, 1, stream));
	OK(vg_stream_sync(stream));
	CHECK_INT(write(from_child[1], "r", 1), 1);
	CHECK(read_byte(to_child[0]) == 'g');
	struct vg_buffer *host;
	OK(vg_buffer_borrow((uintptr_t)&byte, 1, NULL, &host));
	struct vg_buffer *part;
	OK(vg_buffer_borrow(vg_buffer_address(buffer) + 777, 1, NULL, &part));
	OK(vg_buffer_copy(host, part, stream));
	OK(vg_stream_sync(stream));
	CHECK_INT(byte, 0x5a);
	_exit(0);
}

// Returns the UUID in upper case and without hyphens.
static const char *plain_uuid(struct vg_device *device)
{
	static char plain[64];
	size_t length = 0;

	for (const char *digit = vg_device_uuid(device); *digit; digit++)
		if (*digit != '-')
			plain[length++] = (char)toupper(*digit);
	CHECK_INT(length, 32);
	return plain;
}

TEST(a_process_passes_all_states)
{
	struct vg_process *process;
	enum vg_process_state state;
	char uuid[64];
	pid_t thread;

	CHECK_INT(pipe(to_child), 0);
	CHECK_INT(pipe(from_child), 0);
	pid_t child = fork();
	if (child == 0)
		subject();
	CHECK(read_byte(from_child[0]) == 'r');
	OK(vg_process_open(child, &process));
	CHECK_INT(vg_process_pid(process), child);
	OK(vg_process_state(process, &state));
	CHECK_STR(vg_process_state_name(state), "running");
	OK(vg_process_restore_thread(process, &thread));
	char task[64];
	snprintf(task, sizeof task, "/proc/%d/task/%d", (int)child, (int)thread);
	CHECK_INT(access(task, F_OK), 0);
	REFUSED(vg_process_checkpoint(process), VG_STATE, "is running, not locked");
	REFUSED(vg_process_unlock(process), VG_STATE, "is running, not locked");
	REFUSED(vg_process_restore(process, NULL, 0), VG_STATE, "is running, not checkpointed");
	OK(vg_process_lock(process, 10000));
	REFUSED(vg_process_lock(process, 10000), VG_STATE, "is locked, not running");
	OK(vg_process_checkpoint(process));
	OK(vg_process_state(process, &state));
	CHECK_STR(vg_process_state_name(state), "checkpointed");
	struct vg_device *device;
	OK(vg_device_get(0, &device));
	snprintf(uuid, sizeof uuid, "GPU-%s", vg_device_uuid(device));
	REFUSED(vg_process_restore(process, &(struct vg_process_gpu_pair){uuid, "GPU-12"}, 1), VG_INVALID,
		"\"GPU-12\" is no UUID");
	REFUSED(vg_process_restore(process, (struct vg_process_gpu_pair[]){{uuid, uuid}, {uuid, uuid}}, 2), VG_INVALID,
		"pairs 0 and 1 name the same GPU");
	REFUSED(vg_process_restore(process, NULL, 1), VG_INVALID, "pairs is NULL");
	REFUSED(vg_process_restore(process, &(struct vg_process_gpu_pair){uuid, uuid}, SIZE_MAX), VG_INVALID,
		"pairs: a machine has not so many GPUs");
	int count;
	OK(vg_device_count(&count));
	if (count == 1)
		OK(vg_process_restore(process, &(struct vg_process_gpu_pair){uuid, plain_uuid(device)}, 1));
	else
		OK(vg_process_restore(process, NULL, 0));
	OK(vg_process_state(process, &state));
	CHECK_INT(state, VG_PROCESS_LOCKED);
	OK(vg_process_unlock(process));
	CHECK_INT(write(to_child[1], "g", 1), 1);
	CHECK_CHILD(child);
	REFUSED(vg_process_state(process, &state), VG_NOT_FOUND, "is not there");
	REFUSED(vg_process_lock(process, 10), VG_NOT_FOUND, "is not there");
	vg_process_destroy(process);
}

TEST(a_process_without_cuda_is_not_found)
{
	struct vg_process *process = NULL;
	enum vg_process_state state;
	pid_t thread;

	REFUSED(vg_process_open(0, &process), VG_INVALID, "pid 0");
	REFUSED(vg_process_open(-4, &process), VG_INVALID, "pid -4");
	CHECK(process == NULL);
	OK(vg_process_open(getppid(), &process));
	REFUSED(vg_process_state(process, &state), VG_NOT_FOUND, "does not use CUDA");
	REFUSED(vg_process_restore_thread(process, &thread), VG_NOT_FOUND, "does not use CUDA");
	REFUSED(vg_process_lock(NULL, 0), VG_INVALID, "process is NULL");
	CHECK_STR(vg_process_state_name(VG_PROCESS_LOCKED), "locked");
	CHECK_STR(vg_process_state_name(VG_PROCESS_FAILED), "failed");
	CHECK_STR(vg_process_state_name(17), "unknown");
	vg_process_destroy(process);
	vg_process_destroy(NULL);
}
