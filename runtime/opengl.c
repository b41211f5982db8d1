// Implements the functions for buffers and images of OpenGL. opengl.h declares them, because the toolkit's header
// includes OpenGL's headers.
#include "opengl.h"

#include "runtime.h"

enum { ALL_DEVICES = 1 }; // CU_GL_DEVICE_LIST_ALL of cudaGL.h, which includes OpenGL's headers

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

static cudaError_t set_opengl_device(int ordinal)
{
	struct rt_device *device;
	unsigned flags, count;
	CUdevice found;
	int active;

	RT_TRY(rt_device_get(ordinal, &device));
	RT_TRY(rt_error(rt_driver.cuDevicePrimaryCtxGetState(device->handle, &flags, &active)));
	if (active)
		return cudaErrorSetOnActiveProcess;
	if (rt_driver.cuGLGetDevices_v2(&count, &found, 1, ALL_DEVICES) != CUDA_SUCCESS)
		return cudaErrorDevicesUnavailable; // the thread has no OpenGL context
	return cudaSetDevice(ordinal);
}

// Chooses a device like cudaSetDevice(), but only before the device is in use, as NVIDIA's function does. OpenGL needs
// no preparation of the device.
cudaError_t CUDARTAPI cudaGLSetGLDevice(int device)
{
	RT_CALL_INITIALIZED(set_opengl_device(device));
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
