// Declares the functions of cuda_gl_interop.h. Any thread.
#pragma once

#include <cuda_runtime_api.h>

struct cudaGraphicsResource;

cudaError_t CUDARTAPI cudaGLGetDevices(unsigned *count, int *devices, unsigned capacity, int list);
cudaError_t CUDARTAPI cudaGraphicsGLRegisterBuffer(struct cudaGraphicsResource **resource, unsigned buffer,
						   unsigned flags);
cudaError_t CUDARTAPI cudaGraphicsGLRegisterImage(struct cudaGraphicsResource **resource, unsigned image,
						  unsigned target, unsigned flags);
cudaError_t CUDARTAPI cudaGLSetGLDevice(int device);
cudaError_t CUDARTAPI cudaGLRegisterBufferObject(unsigned buffer);
cudaError_t CUDARTAPI cudaGLSetBufferObjectMapFlags(unsigned buffer, unsigned flags);
cudaError_t CUDARTAPI cudaGLMapBufferObject(void **address, unsigned buffer);
cudaError_t CUDARTAPI cudaGLMapBufferObjectAsync(void **address, unsigned buffer, cudaStream_t stream);
cudaError_t CUDARTAPI cudaGLUnmapBufferObject(unsigned buffer);
cudaError_t CUDARTAPI cudaGLUnmapBufferObjectAsync(unsigned buffer, cudaStream_t stream);
cudaError_t CUDARTAPI cudaGLUnregisterBufferObject(unsigned buffer);
