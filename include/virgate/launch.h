/* Launches: a kernel, a grid, and typed arguments that are checked before the driver sees them.
 *
 * vg_launch() checks all arguments each time, up to a nanosecond for each of them. An argument list is checked once, so
 * that its launches cost the same for 500 arguments as for none; each launch reads the variables as they are then. A
 * prepared launch has copies of the values, and its configuration is checked once, too. */
#ifndef VIRGATE_LAUNCH_H
#define VIRGATE_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/argument.h>
#include <virgate/kernel.h>
#include <virgate/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Dimensions that are 0 count as 1, but grid[0] and block[0] must be given. */
struct vg_launch_config {
	size_t size;			       /* sizeof(struct vg_launch_config) */
	unsigned grid[3];		       /* blocks; with a cluster: clusters */
	unsigned block[3];		       /* threads of a block */
	unsigned cluster[3];		       /* blocks of a cluster; all 0: no clusters */
	size_t shared_memory;		       /* bytes of dynamic shared memory of each block */
	int cooperative;		       /* nonzero: all blocks must be resident at once */
	int programmatic_stream_serialization; /* nonzero: may start before the previous kernel ends */
	const void *attributes;		       /* further CUlaunchAttribute of <cuda.h>, borrowed for the call */
	unsigned attribute_count;
};

struct vg_argument_list;
struct vg_prepared_launch;

/* Queues a kernel on a stream: vg_launch(stream, &config, kernel, VG_ARGUMENTS(vector, n * 4, 2.5f)). Allocates
 * nothing; copies the values before it returns. INVALID (the text says which dimension, cluster or shared memory does
 * not fit, or which argument, its size and the kernel's), LIMIT (a cooperative grid that cannot be resident at once),
 * UNSUPPORTED (clusters below compute capability 9.0, cooperative launches), CLOSED, DRIVER. Any thread. Source:
 * cuLaunchKernelEx. */
VG_PUBLIC enum vg_status vg_launch(struct vg_stream *stream, const struct vg_launch_config *config,
				   struct vg_kernel *kernel, const struct vg_argument *arguments,
				   size_t argument_count);

/* Checks a kernel's arguments once, for any number of launches, each of which reads the variables again. The list keeps
 * the kernel and the variables' addresses; the variables must last as long as the list. The caller owns *ret_list and
 * ends it with vg_argument_list_destroy(). INVALID (the text says which argument does not fit), NO_MEMORY, CLOSED. Any
 * thread. */
VG_PUBLIC enum vg_status vg_argument_list_create(struct vg_kernel *kernel, const struct vg_variable *arguments,
						 size_t argument_count, struct vg_argument_list **ret_list);
/* Sets the variable of one argument, counted from 0. INVALID (no such argument, NULL, other size), CLOSED. Not
 * while another thread launches or sets this list. */
VG_PUBLIC enum vg_status vg_argument_list_set(struct vg_argument_list *list, size_t index, const void *value,
					      size_t size);
/* Queues the list's kernel, as vg_launch() does. Copies the values before it returns. Any thread, as long as no thread
 * sets arguments. */
VG_PUBLIC enum vg_status vg_launch_list(struct vg_stream *stream, const struct vg_launch_config *config,
					struct vg_argument_list *list);
/* Closes the object: the program may not use it any more. May be closed twice. Any thread. */
VG_PUBLIC enum vg_status vg_argument_list_close(struct vg_argument_list *list);
/* Drops the caller's reference. Accepts NULL. Any thread. */
VG_PUBLIC void vg_argument_list_destroy(struct vg_argument_list *list);

/* Checks a launch once, also against the limits of the device and the kernel, for many runs in streams of this
 * context's device. The prepared launch keeps the kernel, the context and copies of all values. `arguments` may be NULL
 * with a count of 0 if all are set later. The caller owns *ret_launch and ends it with vg_prepared_launch_destroy().
 * Errors: see vg_launch(); also NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_launch_prepare(struct vg_context *context, const struct vg_launch_config *config,
					   struct vg_kernel *kernel, const struct vg_argument *arguments,
					   size_t argument_count, struct vg_prepared_launch **ret_launch);
/* Sets one argument, counted from 0, for later runs. INVALID (no such argument, other size), CLOSED. Not while
 * another thread runs or sets this launch. */
VG_PUBLIC enum vg_status vg_launch_set_argument(struct vg_prepared_launch *launch, size_t index, const void *value,
						size_t size);
/* Queues the prepared launch. STATE (an argument was never set: the text says which), INVALID (a stream of another
 * device), CLOSED, DRIVER. Any thread, as long as no thread sets arguments. Source: cuLaunchKernelEx. */
VG_PUBLIC enum vg_status vg_launch_run(struct vg_prepared_launch *launch, struct vg_stream *stream);
/* Closes the object: the program may not use it any more. May be closed twice. Any thread. */
VG_PUBLIC enum vg_status vg_prepared_launch_close(struct vg_prepared_launch *launch);
/* Drops the caller's reference. Accepts NULL. Any thread. */
VG_PUBLIC void vg_prepared_launch_destroy(struct vg_prepared_launch *launch);

#ifdef __cplusplus
}
#endif
#endif
