/* Buffers and images of OpenGL, for use by CUDA.
 *
 * Register a resource once, map it for each use, and unmap it before OpenGL uses it again. An OpenGL context must be
 * current on the thread where the driver's calls are made; OpenGL's headers are not needed. */
#ifndef VIRGATE_GRAPHICS_H
#define VIRGATE_GRAPHICS_H

#include <virgate/context.h>
#include <virgate/memory.h>
#include <virgate/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_graphics_resource;

/* Or'ed together; the driver's values. */
enum vg_graphics_flag {
	VG_GRAPHICS_READ_ONLY = 1,
	VG_GRAPHICS_WRITE_DISCARD = 2,
	VG_GRAPHICS_SURFACE_LOAD_STORE = 4,
	VG_GRAPHICS_TEXTURE_GATHER = 8
};

/* Registers OpenGL's buffer, or image with its target (GL_TEXTURE_2D, …). The caller owns *ret_resource. INVALID
 * (unknown flags), UNSUPPORTED (a driver without OpenGL), CLOSED, NO_MEMORY, DRIVER (no such object, no OpenGL
 * context). Any thread with OpenGL current. Source: cuGraphicsGLRegisterBuffer, cuGraphicsGLRegisterImage. */
VG_PUBLIC enum vg_status vg_graphics_resource_of_gl_buffer(struct vg_context *context, unsigned buffer, unsigned flags,
							   struct vg_graphics_resource **ret_resource);
VG_PUBLIC enum vg_status vg_graphics_resource_of_gl_image(struct vg_context *context, unsigned image, unsigned target,
							  unsigned flags, struct vg_graphics_resource **ret_resource);

/* Maps a buffer, in the order of `stream`, as memory of the device. Closing or destroying *ret_buffer unmaps it;
 * views of it may not be used then. STATE (mapped already), UNSUPPORTED (an image has no address), CLOSED, INVALID,
 * DRIVER. Any thread. Source: cuGraphicsMapResources, cuGraphicsResourceGetMappedPointer. */
VG_PUBLIC enum vg_status vg_graphics_resource_map(struct vg_graphics_resource *resource, struct vg_stream *stream,
						  struct vg_buffer **ret_buffer);
/* Maps an image, and returns the array of one layer and mipmap level. The driver owns the array; it is valid until
 * vg_graphics_resource_unmap(). Errors: see vg_graphics_resource_map(); UNSUPPORTED for a buffer. Source:
 * cuGraphicsSubResourceGetMappedArray. */
VG_PUBLIC enum vg_status vg_graphics_resource_map_array(struct vg_graphics_resource *resource, struct vg_stream *stream,
							unsigned layer, unsigned level, struct CUarray_st **ret_array);
/* Unmaps the resource in the order of `stream` (NULL: of the stream on which it was mapped), and closes the mapped
 * buffer, also if there are other references to it. STATE (not mapped), CLOSED, INVALID, DRIVER. Any thread. Source:
 * cuGraphicsUnmapResources. */
VG_PUBLIC enum vg_status vg_graphics_resource_unmap(struct vg_graphics_resource *resource, struct vg_stream *stream);

/* Unmaps the resource if it is mapped, like the function above, and unregisters it at once. May be closed twice.
 * INVALID, DRIVER. Any thread. Source: cuGraphicsUnregisterResource. */
VG_PUBLIC enum vg_status vg_graphics_resource_close(struct vg_graphics_resource *resource, struct vg_stream *stream);
/* Drops the caller's reference; a mapped buffer keeps the resource. Accepts NULL. Any thread. */
VG_PUBLIC void vg_graphics_resource_destroy(struct vg_graphics_resource *resource);

/* Returns nonzero while the resource is mapped. */
VG_PUBLIC int vg_graphics_resource_is_mapped(struct vg_graphics_resource *resource);
/* Returns the driver's handle; NULL for a closed resource. */
VG_PUBLIC struct CUgraphicsResource_st *vg_graphics_resource_handle(const struct vg_graphics_resource *resource);

#ifdef __cplusplus
}
#endif
#endif
