// Tests graphics resources without a graphics context: results for invalid handles, and failing registrations.
#include "conformance.h"

typedef CUresult (*register_buffer_function)(CUgraphicsResource *, unsigned, unsigned);
typedef CUresult (*register_image_function)(CUgraphicsResource *, unsigned, unsigned, unsigned);

CONFORM(no_graphics_context)
{
	CUdriverProcAddressQueryResult status;
	register_buffer_function register_buffer = NULL;
	register_image_function register_image = NULL;
	CUgraphicsResource resource = NULL;

	need_context();
	WORKS(cuGetProcAddress("cuGraphicsGLRegisterBuffer", (void **)&register_buffer, 12000, 0, &status));
	EQUALS(status, CU_GET_PROC_ADDRESS_SUCCESS);
	WORKS(cuGetProcAddress("cuGraphicsGLRegisterImage", (void **)&register_image, 12000, 0, &status));
	EQUALS(status, CU_GET_PROC_ADDRESS_SUCCESS);
	if (!register_buffer || !register_image)
		return;
	FAILS(register_buffer(&resource, 1, CU_GRAPHICS_REGISTER_FLAGS_NONE));
	FAILS(register_image(&resource, 1, 0x0de1, CU_GRAPHICS_REGISTER_FLAGS_NONE));
	HOLDS(resource == NULL);
}
