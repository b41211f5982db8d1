/* Launches: a kernel, a grid, and typed arguments that are checked before the driver sees them. */
#ifndef VIRGATE_LAUNCH_H
#define VIRGATE_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/kernel.h>
#include <virgate/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Dimensions that are 0 count as 1, but grid[0] and block[0] must be given. */
struct vg_launch_config {
	size_t size;	     /* sizeof(struct vg_launch_config) */
	unsigned grid[3];    /* blocks; with a cluster: clusters */
	unsigned block[3];   /* threads of a block */
	unsigned cluster[3]; /* blocks of a cluster; all 0: no clusters */
	size_t shared_memory; /* dynamic shared memory, bytes a block */
	int cooperative;     /* nonzero: all blocks resident at once, or refused */
	int programmatic_stream_serialization; /* nonzero: may start before the kernel ahead of it ends */
	const void *attributes; /* further CUlaunchAttribute of <cuda.h>, borrowed for the call */
	unsigned attribute_count;
};

/* One argument: where its value lies, and how many bytes the kernel must take. */
struct vg_argument {
	const void *value;
	size_t size;
};
/* Of a variable or a literal's compound: VG_ARGUMENT(n), VG_ARGUMENT((int){3}). */
#ifdef __cplusplus
#define VG_ARGUMENT(variable) (vg_argument{&(variable), sizeof(variable)})
#else
#define VG_ARGUMENT(variable) ((struct vg_argument){&(variable), sizeof(variable)})
#endif

#ifdef __cplusplus
}
#endif
#endif
