// Tests surfaces: loads and stores of all widths, rules for coordinates outside, layers, textures of the same array.
#include "image.h"

static const char ptx_surfaces[] = ".version 8.0\n.target sm_75\n.address_size 64\n" IMAGE_KERNEL(
	"load_1d", "suld.b.1d.b32.zero {%r21}, [%rd1, {%r1}];") IMAGE_KERNEL("load_2d",
									     "suld.b.2d.b32.zero {%r21}, [%rd1, {%r1, "
									     "%r2}];") IMAGE_KERNEL("load_2d_clamped",
												    "suld.b.2d.b32."
												    "clamp {%r21}, "
												    "[%rd1, {%r1, "
												    "%r2}];")
	IMAGE_KERNEL("load_2d_trapped", "suld.b.2d.b32.trap {%r21}, [%rd1, {%r1, %r2}];") IMAGE_KERNEL(
		"load_3d",
		"suld.b.3d.b32.zero {%r21}, [%rd1, {%r1, %r2, %r3, %r3}];") IMAGE_KERNEL("load_a1d",
											 "suld.b.a1d.b32.zero {%r21}, "
											 "[%rd1, {%r4, %r1}];")
		IMAGE_KERNEL("load_a2d", "suld.b.a2d.b32.zero {%r21}, [%rd1, {%r4, %r1, %r2, %r2}];") IMAGE_KERNEL(
			"load_8", "suld.b.2d.b8.trap {%rs1}, [%rd1, {%r1, %r2}]; cvt.u32.u16 %r21, %rs1;")
			IMAGE_KERNEL("load_16",
				     "suld.b.2d.b16.trap {%rs1}, [%rd1, {%r1, %r2}]; cvt.u32.u16 %r21, "
				     "%rs1;") IMAGE_KERNEL("load_64",
							   "suld.b.2d.b64.trap {%rd5}, [%rd1, "
							   "{%r1, %r2}]; mov.b64 {%r21, %r22}, "
							   "%rd5;") IMAGE_KERNEL("load_v2",
										 "suld.b.2d.v2.b32.trap {%r21, %r22}, "
										 "[%rd1, {%r1, %r2}];")
				IMAGE_KERNEL("load_v4",
					     "suld.b.2d.v4.b32.trap {%r21, %r22, %r23, %r24}, [%rd1, {%r1, "
					     "%r2}];") IMAGE_KERNEL("store_2d",
								    "sust.b.2d.b32.zero [%rd1, {%r1, %r2}], "
								    "{%r5};") IMAGE_KERNEL("store_2d_clamped",
											   "sust.b.2d.b32.clamp "
											   "[%rd1, {%r1, %r2}], "
											   "{%r5};")
					IMAGE_KERNEL(
						"store_2d_trapped",
						"sust.b.2d.b32.trap [%rd1, {%r1, %r2}], "
						"{%r5};") IMAGE_KERNEL("store_3d",
								       "sust.b.3d.b32.zero [%rd1, {%r1, %r2, %r3, "
								       "%r3}], {%r5};") IMAGE_KERNEL("store_a2d",
												     "sust.b.a2d.b32."
												     "zero [%rd1, "
												     "{%r4, %r1, %r2, "
												     "%r2}], {%r5};")
						IMAGE_KERNEL(
							"store_8",
							"cvt.u16.u32 %rs1, %r5; sust.b.2d.b8.trap [%rd1, "
							"{%r1, %r2}], {%rs1};") IMAGE_KERNEL("store_16",
											     "cvt.u16.u32 %rs1, %r5; "
											     "sust.b.2d.b16.trap "
											     "[%rd1, {%r1, "
											     "%r2}], {%rs1};")
							IMAGE_KERNEL(
								"store_v4",
								"sust.b.2d.v4.b32.trap [%rd1, {%r1, %r2}], {%r5, %r6, "
								"%r7, %r8};") IMAGE_KERNEL("store_formatted",
											   "sust.p.2d.v4.b32.trap "
											   "[%rd1, {%r1, %r2}], {%r5, "
											   "%r6, %r7, %r8};")
								IMAGE_KERNEL("add", "sured.b.add.2d.u32.trap [%rd1, "
										    "{%r1, %r2}], %r5;")
									IMAGE_KERNEL(
										"least",
										"sured.b.min.2d.s32.trap [%rd1, {%r1, "
										"%r2}], "
										"%r5;") IMAGE_KERNEL("either",
												     "sured.b.or.2d."
												     "b32.trap "
												     "[%rd1, {%r1, "
												     "%r2}], %r5;")
										IMAGE_KERNEL(
											"query",
											"suq.width.b32 %r21, [%rd1]; "
											"suq.height.b32 %r22, [%rd1]; "
											"suq.depth.b32 %r23, [%rd1];")
											IMAGE_KERNEL(
												"texture",
												"tex.2d.v4.u32.f32 "
												"{%r21, "
												"%r22, %r23, %r24}, "
												"[%rd1, {%f1, %f2}];");

static CUmodule need_surfaces(void)
{
	static CUmodule module;

	need_context();
	if (!module)
		module = need_module(ptx_surfaces);
	return module;
}

static CUarray make_array(int width, int height, int depth, CUarray_format format, unsigned channels, unsigned flags)
{
	CUarray array = NULL;
	CUDA_ARRAY3D_DESCRIPTOR wanted = {.Width = width,
					  .Height = height,
					  .Depth = depth,
					  .Format = format,
					  .NumChannels = channels,
					  .Flags = flags | CUDA_ARRAY3D_SURFACE_LDST};

	NEED(cuArray3DCreate(&array, &wanted));
	return array;
}

static CUsurfObject make_surface(CUarray array)
{
	CUsurfObject object = 0;
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};

	NEED(cuSurfObjectCreate(&object, &resource));
	return object;
}

static uint32_t load(const char *kernel, CUsurfObject object, int x, int y, int z, int layer)
{
	struct probe probe = {{{.i = x}, {.i = y}, {.i = z}, {.i = layer}}};

	return probe_once(need_surfaces(), kernel, object, probe).at[0].u;
}

static void store(const char *kernel, CUsurfObject object, int x, int y, int z, int layer, uint32_t value)
{
	struct probe probe = {{{.i = x}, {.i = y}, {.i = z}, {.i = layer}, {.u = value}}};

	probe_once(need_surfaces(), kernel, object, probe);
}

enum { WIDTH = 8, HEIGHT = 4, DEPTH = 3, TEXELS = WIDTH * HEIGHT * DEPTH };

CONFORM(loads_and_stores)
{
	need_surfaces();
	CUarray array = make_array(WIDTH, HEIGHT, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
	CUsurfObject object = make_surface(array);
	uint32_t texels[WIDTH * HEIGHT], found[WIDTH * HEIGHT];

	for (int i = 0; i < WIDTH * HEIGHT; i++)
		texels[i] = 0x01020300 + i;
	fill_array(array, texels, WIDTH * 4, HEIGHT, 1);
	EQUALS(load("load_2d", object, 3 * 4, 2, 0, 0), texels[2 * WIDTH + 3]); // x counts bytes
	EQUALS(load("load_8", object, 3 * 4 + 1, 2, 0, 0), 3);
	EQUALS(load("load_16", object, 3 * 4 + 2, 2, 0, 0), 0x0102);
	struct probe probe = {{{.i = 4 * 4}, {.i = 1}}};
	struct value four = probe_once(need_surfaces(), "load_v4", object, probe);
	for (int i = 0; i < 4; i++)
		EQUALS(four.at[i].u, texels[WIDTH + 4 + i]);
	struct value two = probe_once(need_surfaces(), "load_v2", object, probe);
	struct value wide = probe_once(need_surfaces(), "load_64", object, probe);
	for (int i = 0; i < 2; i++) {
		EQUALS(two.at[i].u, texels[WIDTH + 4 + i]);
		EQUALS(wide.at[i].u, texels[WIDTH + 4 + i]);
	}
	store("store_2d", object, 5 * 4, 3, 0, 0, 0xabcdef01);
	store("store_8", object, 5 * 4 + 3, 0, 0, 0, 0x77);
	store("store_16", object, 6 * 4, 0, 0, 0, 0x5555);
	probe = (struct probe){{{.i = 0}, {.i = 2}, {0}, {0}, {.u = 1}, {.u = 2}, {.u = 3}, {.u = 4}}};
	probe_once(need_surfaces(), "store_v4", object, probe);
	texels[3 * WIDTH + 5] = 0xabcdef01;
	texels[5] = (texels[5] & 0xffffff) | 0x77000000;
	texels[6] = (texels[6] & 0xffff0000) | 0x5555;
	for (int i = 0; i < 4; i++)
		texels[2 * WIDTH + i] = i + 1;
	read_array(array, found, WIDTH * 4, HEIGHT, 1);
	HOLDS(memcmp(found, texels, sizeof found) == 0);
	struct value sizes = probe_once(need_surfaces(), "query", object, (struct probe){0});
	EQUALS(sizes.at[0].u, WIDTH);
	EQUALS(sizes.at[1].u, HEIGHT);
	WORKS(cuSurfObjectDestroy(object));
	WORKS(cuArrayDestroy(array));
}

CONFORM(coordinates_outside)
{
	need_surfaces();
	CUarray array = make_array(WIDTH, HEIGHT, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
	CUsurfObject object = make_surface(array);
	uint32_t texels[WIDTH * HEIGHT], found[WIDTH * HEIGHT];
	const int outside[][2] = {{-4, 1}, {WIDTH * 4, 1}, {8, -1}, {8, HEIGHT}, {-400000, -400000}, {400000, 400000}};

	for (int i = 0; i < WIDTH * HEIGHT; i++)
		texels[i] = 1000 + i;
	fill_array(array, texels, WIDTH * 4, HEIGHT, 1);
	for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
		int x = outside[i][0] / 4, y = outside[i][1];
		x = x < 0 ? 0 : x >= WIDTH ? WIDTH - 1 : x;
		y = y < 0 ? 0 : y >= HEIGHT ? HEIGHT - 1 : y;
		EQUALS(load("load_2d", object, outside[i][0], outside[i][1], 0, 0), 0);
		EQUALS(load("load_2d_clamped", object, outside[i][0], outside[i][1], 0, 0), texels[y * WIDTH + x]);
		store("store_2d", object, outside[i][0], outside[i][1], 0, 0, 5); // does nothing
	}
	read_array(array, found, WIDTH * 4, HEIGHT, 1);
	HOLDS(memcmp(found, texels, sizeof found) == 0);
	store("store_2d_clamped", object, -12, 99, 0, 0, 6);
	EQUALS(load("load_2d", object, 0, HEIGHT - 1, 0, 0), 6);
	WORKS(cuSurfObjectDestroy(object));
	WORKS(cuArrayDestroy(array));
}

CHILD(trap)
{
	CUdeviceptr memory;
	unsigned count = 1;
	struct probe probe = {{{.i = WIDTH * 4}, {.i = 0}}};

	CUmodule module = need_surfaces();
	CUsurfObject object = make_surface(make_array(WIDTH, HEIGHT, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0));
	NEED(cuMemAlloc(&memory, 4096));
	NEED(cuMemcpyHtoD(memory, &probe, sizeof probe));
	CUdeviceptr out = memory + 2048;
	void *parameters[] = {&object, &memory, &out, &count};
	NEED(cuLaunchKernel(need_function(module, argument), 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	FAILS(cuCtxSynchronize());
}

CONFORM(traps)
{
	run_child("trap", "load_2d_trapped");
	run_child("trap", "store_2d_trapped");
}

CONFORM(three_dimensions_and_layers)
{
	need_surfaces();
	CUarray volume = make_array(WIDTH, HEIGHT, DEPTH, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
	CUarray layers = make_array(WIDTH, HEIGHT, DEPTH, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_LAYERED);
	CUarray rows = make_array(WIDTH, 0, DEPTH, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_LAYERED);
	CUsurfObject objects[3] = {make_surface(volume), make_surface(layers), make_surface(rows)};
	uint32_t texels[TEXELS], found[TEXELS];

	for (int i = 0; i < TEXELS; i++)
		texels[i] = 7 * i;
	fill_array(volume, texels, WIDTH * 4, HEIGHT, DEPTH);
	fill_array(layers, texels, WIDTH * 4, HEIGHT, DEPTH);
	fill_array(rows, texels, WIDTH * 4, 1, DEPTH);
	int at = (2 * HEIGHT + 1) * WIDTH + 6;
	EQUALS(load("load_3d", objects[0], 6 * 4, 1, 2, 0), texels[at]);
	EQUALS(load("load_a2d", objects[1], 6 * 4, 1, 0, 2), texels[at]);
	EQUALS(load("load_a1d", objects[2], 6 * 4, 0, 0, 2), texels[2 * WIDTH + 6]);
	EQUALS(load("load_3d", objects[0], 6 * 4, 1, DEPTH, 0), 0);
	store("store_3d", objects[0], 6 * 4, 1, 2, 0, 55);
	store("store_a2d", objects[1], 6 * 4, 1, 0, 2, 55);
	texels[at] = 55;
	read_array(volume, found, WIDTH * 4, HEIGHT, DEPTH);
	HOLDS(memcmp(found, texels, sizeof found) == 0);
	read_array(layers, found, WIDTH * 4, HEIGHT, DEPTH);
	HOLDS(memcmp(found, texels, sizeof found) == 0);
	struct value sizes = probe_once(need_surfaces(), "query", objects[0], (struct probe){0});
	EQUALS(sizes.at[2].u, DEPTH);
	for (int i = 0; i < 3; i++)
		WORKS(cuSurfObjectDestroy(objects[i]));
	WORKS(cuArrayDestroy(volume));
	WORKS(cuArrayDestroy(layers));
	WORKS(cuArrayDestroy(rows));
}

CONFORM(formatted_stores_and_textures)
{
	need_surfaces();
	CUarray array = make_array(WIDTH, HEIGHT, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0);
	CUsurfObject surface = make_surface(array);
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array}, found;
	CUDA_TEXTURE_DESC how = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP},
				 .flags = CU_TRSF_READ_AS_INTEGER};
	CUtexObject texture;
	struct probe probe = {{{.i = 5}, {.i = 2}, {0}, {0}, {.u = 11}, {.u = 22}, {.u = 33}, {.u = 44}}};

	NEED(cuTexObjectCreate(&texture, &resource, &how, NULL));
	probe_once(need_surfaces(), "store_formatted", surface, probe); // x counts texels
	struct value value = probe_once(need_surfaces(), "texture", texture, (struct probe){{{5.5f}, {2.5f}}});
	for (int i = 0; i < 4; i++)
		EQUALS(value.at[i].u, 11 * (i + 1));
	WORKS(cuSurfObjectGetResourceDesc(&found, surface));
	HOLDS(found.resType == CU_RESOURCE_TYPE_ARRAY && found.res.array.hArray == array);
	WORKS(cuTexObjectDestroy(texture));
	WORKS(cuSurfObjectDestroy(surface));
	WORKS(cuArrayDestroy(array));
}

CONFORM(reductions)
{
	need_surfaces();
	CUarray array = make_array(WIDTH, HEIGHT, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
	CUsurfObject object = make_surface(array);
	uint32_t texels[WIDTH * HEIGHT] = {100, 100, 100};
	struct probe probes[64];
	struct value values[64];

	fill_array(array, texels, WIDTH * 4, HEIGHT, 1);
	for (int i = 0; i < 64; i++)
		probes[i] = (struct probe){{{.i = 0}, {.i = 0}, {0}, {0}, {.i = i}}};
	probe_image(need_surfaces(), "add", object, probes, values, 64);
	for (int i = 0; i < 64; i++)
		probes[i].in[0].i = 4, probes[i].in[4].i = i - 32;
	probe_image(need_surfaces(), "least", object, probes, values, 64);
	for (int i = 0; i < 64; i++)
		probes[i].in[0].i = 8, probes[i].in[4].u = 1u << i % 32;
	probe_image(need_surfaces(), "either", object, probes, values, 64);
	read_array(array, texels, WIDTH * 4, HEIGHT, 1);
	EQUALS(texels[0], 100 + 64 * 63 / 2);
	EQUALS((int)texels[1], -32);
	EQUALS(texels[2], 0xffffffff);
	WORKS(cuSurfObjectDestroy(object));
	WORKS(cuArrayDestroy(array));
}

CONFORM(invalid_surfaces)
{
	CUsurfObject object = 99;
	CUarray array;
	CUDA_ARRAY3D_DESCRIPTOR wanted = {.Width = 8, .Height = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};

	need_context();
	NEED(cuArray3DCreate(&array, &wanted));
	resource.res.array.hArray = array;
	WORKS(cuSurfObjectCreate(&object, &resource)); // works without CUDA_ARRAY3D_SURFACE_LDST, too
	WORKS(cuSurfObjectDestroy(object));
	object = 99;
	GIVES(cuSurfObjectCreate(&object, NULL), CUDA_ERROR_INVALID_VALUE);
	resource.resType = CU_RESOURCE_TYPE_LINEAR;
	GIVES(cuSurfObjectCreate(&object, &resource), CUDA_ERROR_INVALID_VALUE);
	EQUALS(object, 99);
	WORKS(cuArrayDestroy(array));
}
