// Checkpoints a process while it waits, and restores it. Its device memory is then back at the same addresses. The
// process itself does nothing for this.
#include "check.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1 << 20 };
static unsigned char pattern[BYTES], back[BYTES];

// Runs the process to be checkpointed. It is usually another program; here it is a child, which starts CUDA after the
// fork.
static int run_child(int said, int told)
{
	struct vg_memory_resource *pool;
	struct vg_context *context;
	struct vg_stream *stream;
	struct vg_device *device;
	struct vg_buffer *buffer;
	char word = 'r';

	check(vg_device_get(0, &device));
	check(vg_context_primary(device, &context));
	check(vg_stream_create(context, NULL, &stream));
	check(vg_device_pool_current(device, &pool));
	check(vg_buffer_create(pool, BYTES, stream, &buffer));
	for (int i = 0; i < BYTES; i++)
		pattern[i] = (unsigned char)(i * 7);
	check(vg_buffer_write(buffer, 0, pattern, BYTES, stream));
	check(vg_stream_sync(stream));
	if (write(said, &word, 1) != 1 || read(told, &word, 1) != 1)
		return 1;
	check(vg_buffer_read(buffer, 0, back, BYTES, stream));
	check(vg_stream_sync(stream));
	return memcmp(pattern, back, BYTES) != 0;
}

static void print_state(struct vg_process *process)
{
	enum vg_process_state state;

	check(vg_process_state(process, &state));
	printf("checkpoint_process: %s\n", vg_process_state_name(state));
}

int main(void)
{
	struct vg_process *process;
	int said[2], told[2], status;
	char word;

	if (pipe(said) || pipe(told))
		return 1;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		_exit(run_child(said[1], told[0]));
	close(said[1]);
	if (read(said[0], &word, 1) != 1)
		return 1; // the child has printed the reason

	check(vg_process_open(child, &process));
	print_state(process);
	check(vg_process_lock(process, 10000));
	check(vg_process_checkpoint(process));
	print_state(process); // the process has no device memory now; CRIU could dump it
	check(vg_process_restore(process, NULL, 0));
	check(vg_process_unlock(process));
	print_state(process);
	vg_process_destroy(process);

	if (write(told[1], &word, 1) != 1 || waitpid(child, &status, 0) != child)
		return 1;
	printf("checkpoint_process: the child's memory is %s\n", status == 0 ? "as it was" : "not as it was");
	return status != 0;
}
