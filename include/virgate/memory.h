/* Buffers and the memory resources they come from. */
#ifndef VIRGATE_MEMORY_H
#define VIRGATE_MEMORY_H

#include <stddef.h>

#include <virgate/cuda_handles.h>
#include <virgate/status.h>
#include <virgate/stream.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_buffer;
struct vg_memory_resource;

/* Drops the caller's reference; the last one frees the memory. NULL is fine. Any thread. */
VG_PUBLIC void vg_buffer_destroy(struct vg_buffer *buffer);
/* 0 once closed. */
VG_PUBLIC vg_address vg_buffer_address(const struct vg_buffer *buffer);
/* Bytes; 0 once closed. */
VG_PUBLIC size_t vg_buffer_size(const struct vg_buffer *buffer);

#ifdef __cplusplus
}
#endif
#endif
