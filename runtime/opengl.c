// Implements the functions for buffers and images of OpenGL. opengl.h declares them, because the toolkit's header
// includes OpenGL's headers.
#include "opengl.h"

#include "runtime.h"

cudaError_t CUDARTAPI cudaGLGetDevices(unsigned *count, int *devices, unsigned capacity, int list)
{
	RT_CALL(rt_driver.cuGLGetDevices_v2(count, devices, capacity, list));
}

cudaError_t CUDARTAPI cudaGraphicsGLRegisterBuffer(struct cudaGraphicsResource **resource, unsigned buffer,
						   unsigned flags)
{
	RT_CALL(rt_driver.cuGraphicsGLRegisterBuffer((CUgraphicsResource *)resource, buffer, flags));
}

cudaError_t CUDARTAPI cudaGraphicsGLRegisterImage(struct cudaGraphicsResource **resource, unsigned image,
						  unsigned target, unsigned flags)
{
	RT_CALL(rt_driver.cuGraphicsGLRegisterImage((CUgraphicsResource *)resource, image, target, flags));
}

// Has no effect: this function is deprecated, and a device needs no preparation for OpenGL.
cudaError_t CUDARTAPI cudaGLSetGLDevice(int device)
{
	return cudaSetDevice(device);
}

cudaError_t CUDARTAPI cudaGLRegisterBufferObject(unsigned buffer)
{
	RT_CALL(rt_driver.cuGLRegisterBufferObject(buffer));
}

cudaError_t CUDARTAPI cudaGLSetBufferObjectMapFlags(unsigned buffer, unsigned flags)
{
	RT_CALL(rt_driver.cuGLSetBufferObjectMapFlags(buffer, flags));
}

cudaError_t CUDARTAPI cudaGLMapBufferObject(void **address, unsigned buffer)
{
	size_t size;

	RT_CALL(rt_driver.cuGLMapBufferObject_v2((CUdeviceptr *)address, &size, buffer));
}

cudaError_t CUDARTAPI cudaGLMapBufferObjectAsync(void **address, unsigned buffer, cudaStream_t stream)
{
	size_t size;

	RT_CALL(rt_driver.cuGLMapBufferObjectAsync_v2((CUdeviceptr *)address, &size, buffer, stream));
}

cudaError_t CUDARTAPI cudaGLUnmapBufferObject(unsigned buffer)
{
	RT_CALL(rt_driver.cuGLUnmapBufferObject(buffer));
}

cudaError_t CUDARTAPI cudaGLUnmapBufferObjectAsync(unsigned buffer, cudaStream_t stream)
{
	RT_CALL(rt_driver.cuGLUnmapBufferObjectAsync(buffer, stream));
}

cudaError_t CUDARTAPI cudaGLUnregisterBufferObject(unsigned buffer)
{
	RT_CALL(rt_driver.cuGLUnregisterBufferObject(buffer));
}
