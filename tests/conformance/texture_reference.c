// Tests texture and surface references: variables of a module, deprecated in NVIDIA's header but present.
#include "image.h"

static const char ptx_references[] =
	".version 8.0\n.target sm_75\n.address_size 64\n"
	".visible .global .texref picture;\n.visible .global .surfref canvas;\n.visible .global .u32 number = "
	"5;\n" IMAGE_FLOATS("fetch", "tex.1d.v4.f32.s32 {%f21, %f22, %f23, %f24}, [picture, {%r1}];")
		IMAGE_FLOATS("read", "tex.2d.v4.f32.f32 {%f21, %f22, %f23, %f24}, [picture, {%f1, %f2}];") IMAGE_KERNEL(
			"read_integer", "tex.2d.v4.u32.f32 {%r21, %r22, %r23, %r24}, [picture, {%f1, %f2}];")
			IMAGE_FLOATS("level",
				     "tex.level.2d.v4.f32.f32 {%f21, %f22, %f23, %f24}, [picture, {%f1, %f2}], %f5;")
				IMAGE_KERNEL("load", "suld.b.2d.b32.trap {%r21}, [canvas, {%r1, %r2}];")
					IMAGE_KERNEL("store", "sust.b.2d.b32.trap [canvas, {%r1, %r2}], {%r5};")
						IMAGE_KERNEL("width", "txq.width.b32 %r21, [picture];")
							IMAGE_KERNEL("height", "suq.height.b32 %r21, [canvas];");

static CUmodule module;
static CUtexref picture;

static void need_references(void)
{
	need_context();
	if (!module)
		module = need_module(ptx_references);
	NEED(cuModuleGetTexRef(&picture, module, "picture"));
}

static CUarray make_array(unsigned width, unsigned height, unsigned flags)
{
	CUarray array = NULL;
	CUDA_ARRAY3D_DESCRIPTOR wanted = {
		.Width = width, .Height = height, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1, .Flags = flags};

	NEED(cuArray3DCreate(&array, &wanted));
	return array;
}

static float read_at(const char *kernel, float x, float y)
{
	return probe_once(module, kernel, 0, (struct probe){{{x}, {y}}}).at[0].f;
}

CONFORM(names)
{
	CUtexref found, again;
	CUsurfref surface;
	CUdeviceptr variable;
	size_t size;

	need_references();
	WORKS(cuModuleGetTexRef(&found, module, "picture"));
	WORKS(cuModuleGetTexRef(&again, module, "picture"));
	HOLDS(found == again);
	WORKS(cuModuleGetSurfRef(&surface, module, "canvas"));
	GIVES(cuModuleGetTexRef(&found, module, "nothing"), CUDA_ERROR_NOT_FOUND);
	GIVES(cuModuleGetTexRef(&found, module, "number"), CUDA_ERROR_NOT_FOUND);
	GIVES(cuModuleGetSurfRef(&surface, module, "picture"), CUDA_ERROR_NOT_FOUND);
	WORKS(cuModuleGetGlobal(&variable, &size, module, "number"));
	EQUALS(size, 4);
}

CONFORM(settings)
{
	CUaddress_mode mode;
	CUfilter_mode filter;
	CUarray_format format;
	CUarray array;
	CUdeviceptr address;
	unsigned flags;
	int channels;

	need_references();
	WORKS(cuTexRefSetAddressMode(picture, 1, CU_TR_ADDRESS_MODE_MIRROR));
	WORKS(cuTexRefGetAddressMode(&mode, picture, 1));
	EQUALS(mode, CU_TR_ADDRESS_MODE_MIRROR);
	WORKS(cuTexRefSetFilterMode(picture, CU_TR_FILTER_MODE_LINEAR));
	WORKS(cuTexRefGetFilterMode(&filter, picture));
	EQUALS(filter, CU_TR_FILTER_MODE_LINEAR);
	WORKS(cuTexRefSetFlags(picture, CU_TRSF_NORMALIZED_COORDINATES));
	WORKS(cuTexRefGetFlags(&flags, picture));
	EQUALS(flags, CU_TRSF_NORMALIZED_COORDINATES);
	WORKS(cuTexRefSetFormat(picture, CU_AD_FORMAT_SIGNED_INT16, 2));
	WORKS(cuTexRefGetFormat(&format, &channels, picture));
	EQUALS(format, CU_AD_FORMAT_SIGNED_INT16);
	EQUALS(channels, 2);
	FAILS(cuTexRefSetFormat(picture, CU_AD_FORMAT_FLOAT, 3));
	FAILS(cuTexRefGetArray(&array, picture)); // the reference is bound to nothing
	FAILS(cuTexRefGetAddress(&address, picture));
	WORKS(cuTexRefSetAddressMode(picture, 1, CU_TR_ADDRESS_MODE_CLAMP));
	WORKS(cuTexRefSetFilterMode(picture, CU_TR_FILTER_MODE_POINT));
	WORKS(cuTexRefSetFlags(picture, 0));
}

CONFORM(arrays)
{
	need_references();
	CUarray first = make_array(4, 4, 0), second = make_array(8, 2, 0), found;
	float texels[16], others[16];

	for (int i = 0; i < 16; i++)
		texels[i] = i, others[i] = 100 + i;
	fill_array(first, texels, 16, 4, 1);
	fill_array(second, others, 32, 2, 1);
	for (int axis = 0; axis < 2; axis++)
		WORKS(cuTexRefSetAddressMode(picture, axis, CU_TR_ADDRESS_MODE_CLAMP));
	NEED(cuTexRefSetArray(picture, first, CU_TRSA_OVERRIDE_FORMAT));
	WORKS(cuTexRefGetArray(&found, picture));
	HOLDS(found == first);
	NEAR(read_at("read", 2.5f, 1.5f), 6, 0);
	NEAR(read_at("read", -9, 9), 12, 0);
	EQUALS(probe_once(module, "width", 0, (struct probe){0}).at[0].u, 4);
	WORKS(cuTexRefSetFilterMode(picture, CU_TR_FILTER_MODE_LINEAR)); // also allowed after the reference was bound
	NEAR(read_at("read", 2, 1.5f), 5.5, 1 / 256.);
	WORKS(cuTexRefSetFlags(picture, CU_TRSF_NORMALIZED_COORDINATES));
	NEAR(read_at("read", 0.5f, 1.5f / 4), 5.5, 1 / 256.);
	WORKS(cuTexRefSetFlags(picture, 0));
	WORKS(cuTexRefSetFilterMode(picture, CU_TR_FILTER_MODE_POINT));
	NEED(cuTexRefSetArray(picture, second, CU_TRSA_OVERRIDE_FORMAT));
	NEAR(read_at("read", 7.5f, 1.5f), 115, 0);
	WORKS(cuTexRefSetArray(picture, second, 0));
	WORKS(cuArrayDestroy(first));
	WORKS(cuArrayDestroy(second));
}

CONFORM(memory)
{
	CUdeviceptr memory, found;
	size_t offset = 77;
	float numbers[256];

	need_references();
	for (int i = 0; i < 256; i++)
		numbers[i] = i;
	NEED(cuMemAlloc(&memory, sizeof numbers));
	NEED(cuMemcpyHtoD(memory, numbers, sizeof numbers));
	WORKS(cuTexRefSetFormat(picture, CU_AD_FORMAT_FLOAT, 1));
	NEED(cuTexRefSetAddress(&offset, picture, memory, sizeof numbers));
	EQUALS(offset, 0);
	WORKS(cuTexRefGetAddress(&found, picture));
	EQUALS(found, memory);
	NEAR(probe_once(module, "fetch", 0, (struct probe){{{.i = 200}}}).at[0].f, 200, 0);
	// the driver only returns the offset; the program must add it to its index
	WORKS(cuTexRefSetAddress(&offset, picture, memory + 16, 64));
	EQUALS(offset, 16);
	NEAR(probe_once(module, "fetch", 0, (struct probe){{{.i = 4 + 2}}}).at[0].f, 6, 0);
	GIVES(cuTexRefSetAddress(NULL, picture, memory + 16, 64), CUDA_ERROR_INVALID_VALUE);
	CUDA_ARRAY_DESCRIPTOR shape = {.Width = 16, .Height = 4, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	NEED(cuTexRefSetAddress2D(picture, &shape, memory, 128));
	NEAR(read_at("read", 3.5f, 2.5f), 2 * 32 + 3, 0);
	WORKS(cuMemFree(memory));
}

CONFORM(levels)
{
	CUmipmappedArray mipmap, found;
	CUDA_ARRAY3D_DESCRIPTOR wanted = {.Width = 8, .Height = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};

	need_references();
	NEED(cuMipmappedArrayCreate(&mipmap, &wanted, 3));
	for (int level = 0; level < 3; level++) {
		float texels[64];
		CUarray array;
		for (int i = 0; i < 64; i++)
			texels[i] = level * 10;
		NEED(cuMipmappedArrayGetLevel(&array, mipmap, level));
		fill_array(array, texels, 32 >> level, 8 >> level, 1);
	}
	WORKS(cuTexRefSetFlags(picture, CU_TRSF_NORMALIZED_COORDINATES));
	WORKS(cuTexRefSetMipmapLevelClamp(picture, 0, 2));
	WORKS(cuTexRefSetMipmapFilterMode(picture, CU_TR_FILTER_MODE_LINEAR));
	WORKS(cuTexRefSetMipmapLevelBias(picture, 0));
	NEED(cuTexRefSetMipmappedArray(picture, mipmap, CU_TRSA_OVERRIDE_FORMAT));
	WORKS(cuTexRefGetMipmappedArray(&found, picture));
	HOLDS(found == mipmap);
	NEAR(probe_once(module, "level", 0, (struct probe){{{0.5f}, {0.5f}, {0}, {0}, {1.5f}}}).at[0].f, 15, 20 / 256.);
	WORKS(cuTexRefSetFlags(picture, 0));
	WORKS(cuMipmappedArrayDestroy(mipmap));
}

CONFORM(surfaces)
{
	CUsurfref canvas;
	CUarray found, plain, array;
	float texels[32];

	need_references();
	plain = make_array(8, 4, 0);
	array = make_array(8, 4, CUDA_ARRAY3D_SURFACE_LDST);
	NEED(cuModuleGetSurfRef(&canvas, module, "canvas"));
	FAILS(cuSurfRefSetArray(canvas, plain, 0)); // without CUDA_ARRAY3D_SURFACE_LDST
	NEED(cuSurfRefSetArray(canvas, array, 0));
	WORKS(cuSurfRefGetArray(&found, canvas));
	HOLDS(found == array);
	probe_once(module, "store", 0, (struct probe){{{.i = 20}, {.i = 3}, {0}, {0}, {4.5f}}});
	NEAR(probe_once(module, "load", 0, (struct probe){{{.i = 20}, {.i = 3}}}).at[0].f, 4.5, 0);
	EQUALS(probe_once(module, "height", 0, (struct probe){0}).at[0].u, 4);
	read_array(array, texels, 32, 4, 1);
	NEAR(texels[3 * 8 + 5], 4.5, 0);
	WORKS(cuArrayDestroy(array));
	WORKS(cuArrayDestroy(plain));
}
