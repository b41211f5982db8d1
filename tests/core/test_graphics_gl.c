// Tests a graphics resource of a real OpenGL buffer, if EGL and OpenGL are present: OpenGL reads what CUDA has written.
#include "core_test.h"

#include <dlfcn.h>
#include <stdint.h>

// Declarations of EGL and OpenGL, so that their headers are not needed.
enum {
	EGL_NONE = 0x3038,
	EGL_SURFACE_TYPE = 0x3033,
	EGL_PBUFFER_BIT = 1,
	EGL_RENDERABLE_TYPE = 0x3040,
	EGL_OPENGL_BIT = 8,
	EGL_OPENGL_API = 0x30a2,
	EGL_PLATFORM_DEVICE_EXT = 0x313f,
	EGL_CUDA_DEVICE_NV = 0x323a,
	GL_ARRAY_BUFFER = 0x8892,
	GL_DYNAMIC_DRAW = 0x88e8,
	SIZE = 65536,
};

static void *egl_library;
static void *(*egl_address)(const char *name);

static void *egl_entry(const char *name)
{
	void *found = dlsym(egl_library, name);

	if (!found && egl_address)
		found = egl_address(name);
	if (!found)
		SKIP("no OpenGL: EGL has no %s", name);
	return found;
}

// Returns the display of the first CUDA device.
static void *display_of_device(void)
{
	unsigned (*query_devices)(int, void **, int *) = egl_entry("eglQueryDevicesEXT");
	unsigned (*query_attribute)(void *, int, intptr_t *) = egl_entry("eglQueryDeviceAttribEXT");
	void *(*platform_display)(unsigned, void *, const int *) = egl_entry("eglGetPlatformDisplayEXT");
	void *devices[32];
	intptr_t cuda;
	int count = 0;

	if (!query_devices(32, devices, &count))
		SKIP("no OpenGL: EGL names no devices");
	for (int i = 0; i < count; i++)
		if (query_attribute(devices[i], EGL_CUDA_DEVICE_NV, &cuda) && cuda == 0)
			return platform_display(EGL_PLATFORM_DEVICE_EXT, devices[i], NULL);
	SKIP("no OpenGL: none of EGL's %d devices is CUDA's first", count);
}

static void make_current(void)
{
	if (getenv("VIRGATE_SIM"))
		SKIP("the simulated driver declares OpenGL objects of its own");
	egl_library = dlopen("libEGL.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!egl_library)
		SKIP("no OpenGL: %s", dlerror());
	egl_address = (void *(*)(const char *))dlsym(egl_library, "eglGetProcAddress");
	unsigned (*initialize)(void *, int *, int *) = egl_entry("eglInitialize");
	unsigned (*choose)(void *, const int *, void **, int, int *) = egl_entry("eglChooseConfig");
	unsigned (*bind)(unsigned) = egl_entry("eglBindAPI");
	void *(*create)(void *, void *, void *, const int *) = egl_entry("eglCreateContext");
	unsigned (*current)(void *, void *, void *, void *) = egl_entry("eglMakeCurrent");
	const int wanted[] = {EGL_SURFACE_TYPE, EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_NONE};
	void *display = display_of_device(), *config;
	int count = 0;

	if (!display || !initialize(display, NULL, NULL))
		SKIP("no OpenGL: the display cannot be initialised");
	if (!choose(display, wanted, &config, 1, &count) || count < 1 || !bind(EGL_OPENGL_API))
		SKIP("no OpenGL: EGL offers OpenGL ES at most");
	void *gl = create(display, config, NULL, NULL);
	if (!gl || !current(display, NULL, NULL, gl))
		SKIP("no OpenGL: no context without a surface");
}

TEST(opengl_reads_what_cuda_writes)
{
	struct vg_graphics_resource *resource;
	struct vg_stream *stream;
	struct vg_buffer *buffer;
	static unsigned char bytes[SIZE];
	unsigned name = 0;

	make_current();
	void (*gen)(int, unsigned *) = egl_entry("glGenBuffers");
	void (*bind)(unsigned, unsigned) = egl_entry("glBindBuffer");
	void (*data)(unsigned, intptr_t, const void *, unsigned) = egl_entry("glBufferData");
	void (*get)(unsigned, intptr_t, intptr_t, void *) = egl_entry("glGetBufferSubData");
	gen(1, &name);
	bind(GL_ARRAY_BUFFER, name);
	data(GL_ARRAY_BUFFER, SIZE, NULL, GL_DYNAMIC_DRAW);

	struct vg_context *context = first_context();
	OK(vg_stream_create(context, NULL, &stream));
	OK(vg_graphics_resource_of_gl_buffer(context, name, VG_GRAPHICS_WRITE_DISCARD, &resource));
	OK(vg_graphics_resource_map(resource, stream, &buffer));
	CHECK_INT(vg_buffer_size(buffer), SIZE);
	OK(vg_buffer_fill(buffer, &(unsigned char){0x5a}, 1, stream));
	OK(vg_buffer_close(buffer, stream));
	OK(vg_stream_sync(stream));
	get(GL_ARRAY_BUFFER, 0, SIZE, bytes);
	for (int i = 0; i < SIZE; i++)
		CHECK_INT(bytes[i], 0x5a);
	vg_buffer_destroy(buffer);
	vg_graphics_resource_destroy(resource);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}
