// Tests buffers and images of OpenGL. Without an OpenGL context registration fails; VIRGATE_SIM_GL gives the simulated
// driver some objects.
#include <stdlib.h>

#include "cudart.h"

enum { TEXTURE_2D = 0x0de1, WIDTH = 32, HEIGHT = 16 };

// Declared here because cuda_gl_interop.h includes OpenGL's headers.
cudaError_t cudaGLGetDevices(unsigned *count, int *devices, unsigned capacity, int list);
cudaError_t cudaGraphicsGLRegisterBuffer(cudaGraphicsResource_t *resource, unsigned buffer, unsigned flags);
cudaError_t cudaGraphicsGLRegisterImage(cudaGraphicsResource_t *resource, unsigned image, unsigned target,
					unsigned flags);
cudaError_t cudaGLSetGLDevice(int device);
cudaError_t cudaGLRegisterBufferObject(unsigned buffer);

// The first call fails, because the thread has no OpenGL context. With NVIDIA's runtime, the process cannot use the
// device after that failure. So these calls run in a child.
CHILD(unused)
{
	GIVES_LAST(cudaGLSetGLDevice(0), cudaErrorDevicesUnavailable);
	GIVES_LAST(cudaGLSetGLDevice(-1), cudaErrorInvalidDevice);
	GIVES_LAST(cudaGLSetGLDevice(99), cudaErrorInvalidDevice);
}

CONFORM(an_unused_device_needs_an_opengl_context)
{
	if (getenv("VIRGATE_SIM_GL"))
		SKIP("this simulated node has objects of OpenGL");
	run_child("unused", NULL);
}

CONFORM(registration_without_an_opengl_context_fails)
{
	cudaGraphicsResource_t resource = NULL;
	unsigned count = 0;
	int device = -1;

	if (getenv("VIRGATE_SIM_GL"))
		SKIP("this simulated node has objects of OpenGL");
	NEED(cudaFree(NULL)); // the device is in use from now on
	FAILS(cudaGraphicsGLRegisterBuffer(&resource, 1, cudaGraphicsRegisterFlagsNone));
	FAILS(cudaGraphicsGLRegisterImage(&resource, 1, TEXTURE_2D, cudaGraphicsRegisterFlagsNone));
	FAILS(cudaGLGetDevices(&count, &device, 1, 1));
	FAILS(cudaGLRegisterBufferObject(1));
	HOLDS(cudaGetLastError() != cudaSuccess);
	HOLDS(resource == NULL);
	GIVES_LAST(cudaGLSetGLDevice(0), cudaErrorSetOnActiveProcess);
	GIVES_LAST(cudaGLSetGLDevice(-1), cudaErrorInvalidDevice);
}

CONFORM(buffer_and_image_are_mapped)
{
	static unsigned char out[HEIGHT][4 * WIDTH], in[HEIGHT][4 * WIDTH];
	cudaGraphicsResource_t resources[2];
	void *address = NULL;
	cudaArray_t array = NULL;
	size_t size = 0;

	if (!getenv("VIRGATE_SIM_GL"))
		SKIP("no objects of OpenGL: VIRGATE_SIM_GL declares some on the simulated driver");
	NEED(cudaGraphicsGLRegisterBuffer(&resources[0], 1, cudaGraphicsRegisterFlagsNone));
	NEED(cudaGraphicsGLRegisterImage(&resources[1], 2, TEXTURE_2D, cudaGraphicsRegisterFlagsNone));
	NEED(cudaGraphicsMapResources(2, resources, NULL));
	WORKS(cudaGraphicsResourceGetMappedPointer(&address, &size, resources[0]));
	EQUALS(size, 64 << 10);
	WORKS(cudaGraphicsSubResourceGetMappedArray(&array, resources[1], 0, 0));
	for (size_t i = 0; i < sizeof out; i++)
		(&out[0][0])[i] = (unsigned char)i;
	WORKS(cudaMemcpy(address, out, sizeof out, cudaMemcpyHostToDevice));
	WORKS(cudaMemcpy2DToArray(array, 0, 0, address, 4 * WIDTH, 4 * WIDTH, HEIGHT, cudaMemcpyDeviceToDevice));
	WORKS(cudaMemcpy2DFromArray(in, 4 * WIDTH, array, 0, 0, 4 * WIDTH, HEIGHT, cudaMemcpyDeviceToHost));
	HOLDS(memcmp(in, out, sizeof in) == 0);
	WORKS(cudaGraphicsUnmapResources(2, resources, NULL));
	for (int i = 0; i < 2; i++)
		WORKS(cudaGraphicsUnregisterResource(resources[i]));
	GIVES_LAST(cudaGraphicsGLRegisterBuffer(&resources[0], 2, 0), cudaErrorInvalidValue); // an image
}
