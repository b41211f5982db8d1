// Tests buffers and images of OpenGL that are registered with CUDA: which calls each of their states allows.
#include "program.h"

// Declared here because cudaGL.h includes OpenGL's headers.
CUresult cuGraphicsGLRegisterBuffer(CUgraphicsResource *resource, unsigned buffer, unsigned flags);
CUresult cuGraphicsGLRegisterImage(CUgraphicsResource *resource, unsigned image, unsigned target, unsigned flags);

enum { TEXTURE_2D = 0x0de1 };

static void start(void)
{
	setenv("VIRGATE_SIM_GL", "3=64K,7=256x128,9=0", 1);
	node_start("memory=1G");
	primary(0);
}

TEST(buffers_are_mapped_as_pointers)
{
	CUgraphicsResource buffer, twice[2];
	CUdeviceptr address;
	size_t size;

	start();
	GIVES(cuGraphicsGLRegisterBuffer(&buffer, 3, 9), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuGraphicsGLRegisterBuffer(&buffer, 4, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuGraphicsGLRegisterBuffer(&buffer, 7, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuGraphicsGLRegisterBuffer(&buffer, 9, 0), CUDA_ERROR_INVALID_VALUE);
	GIVES(cuGraphicsGLRegisterBuffer(NULL, 3, 0), CUDA_ERROR_INVALID_VALUE);
	CU(cuGraphicsGLRegisterBuffer(&buffer, 3, 0));
	GIVES(cuGraphicsResourceGetMappedPointer_v2(&address, &size, buffer), CUDA_ERROR_NOT_MAPPED);
	GIVES(cuGraphicsUnmapResources(1, &buffer, NULL), CUDA_ERROR_NOT_MAPPED);
	twice[0] = twice[1] = buffer;
	GIVES(cuGraphicsMapResources(2, twice, NULL), CUDA_ERROR_INVALID_HANDLE);
	CU(cuGraphicsMapResources(1, &buffer, NULL));
	GIVES(cuGraphicsMapResources(1, &buffer, NULL), CUDA_ERROR_ALREADY_MAPPED);
	GIVES(cuGraphicsResourceSetMapFlags_v2(buffer, 0), CUDA_ERROR_ALREADY_MAPPED);
	CU(cuGraphicsResourceGetMappedPointer_v2(&address, &size, buffer));
	CHECK_INT(size, 65536);
	CU(cuMemsetD32_v2(address, 77, size / 4));
	GIVES(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE); // CUDA must not free this memory, since OpenGL owns it
	CU(cuGraphicsUnmapResources(1, &buffer, NULL));
	CU(cuGraphicsResourceSetMapFlags_v2(buffer, CU_GRAPHICS_MAP_RESOURCE_FLAGS_READ_ONLY));
	GIVES(cuGraphicsResourceSetMapFlags_v2(buffer, 5), CUDA_ERROR_INVALID_VALUE);
	CU(cuGraphicsMapResources(1, &buffer, NULL));
	CU(cuGraphicsResourceGetMappedPointer_v2(&address, &size, buffer));
	CHECK_INT(word(address + 400), 77);	  // contents stay
	CU(cuGraphicsUnregisterResource(buffer)); // succeeds even while the buffer is mapped
	GIVES(cuGraphicsUnregisterResource(buffer), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuGraphicsMapResources(1, &buffer, NULL), CUDA_ERROR_INVALID_HANDLE);
	GIVES(cuGraphicsUnregisterResource(NULL), CUDA_ERROR_INVALID_HANDLE);
}

TEST(images_are_mapped_as_arrays)
{
	CUDA_ARRAY_DESCRIPTOR shape;
	CUgraphicsResource image;
	CUdeviceptr address;
	CUarray array;
	size_t size;

	start();
	GIVES(cuGraphicsGLRegisterImage(&image, 3, TEXTURE_2D, 0), CUDA_ERROR_INVALID_VALUE); // a buffer
	GIVES(cuGraphicsGLRegisterImage(&image, 7, 1, 0), CUDA_ERROR_INVALID_VALUE);
	CU(cuGraphicsGLRegisterImage(&image, 7, TEXTURE_2D, CU_GRAPHICS_REGISTER_FLAGS_SURFACE_LDST));
	CU(cuGraphicsMapResources(1, &image, NULL));
	GIVES(cuGraphicsResourceGetMappedPointer_v2(&address, &size, image), CUDA_ERROR_NOT_MAPPED_AS_POINTER);
	CU(cuGraphicsSubResourceGetMappedArray(&array, image, 0, 0));
	GIVES(cuGraphicsSubResourceGetMappedArray(&array, image, 0, 1), CUDA_ERROR_INVALID_VALUE);
	CU(cuArrayGetDescriptor_v2(&shape, array));
	CHECK_INT(shape.Width, 256);
	CHECK_INT(shape.Height, 128);
	CU(cuGraphicsUnmapResources(1, &image, NULL));
	CU(cuGraphicsUnregisterResource(image));
}
