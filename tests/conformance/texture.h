// Kernels that read textures, and helpers that create textures with known texels. Include in exactly one file per
// program.
#pragma once
#include "image.h"

#define TEXEL "{%f21, %f22, %f23, %f24}"

static const char ptx_reads[] = ".version 8.0\n.target sm_75\n.address_size 64\n" IMAGE_FLOATS(
	"fetch",
	"tex.1d.v4.f32.s32 " TEXEL
	", [%rd1, {%r1}];") IMAGE_KERNEL("fetch_integer", "tex.1d.v4.s32.s32 {%r21, %r22, %r23, %r24}, [%rd1, {%r1}];")
	IMAGE_FLOATS("read_1d", "tex.1d.v4.f32.f32 " TEXEL ", [%rd1, {%f1}];") IMAGE_FLOATS(
		"read_2d",
		"tex.2d.v4.f32.f32 " TEXEL
		", [%rd1, {%f1, %f2}];") IMAGE_KERNEL("read_2d_integer",
						      "tex.2d.v4.u32.f32 {%r21, %r22, %r23, %r24}, [%rd1, "
						      "{%f1, %f2}];") IMAGE_FLOATS("read_3d", "tex.3d.v4.f32.f32 " TEXEL
											      ", [%rd1, {%f1, %f2, "
											      "%f3, %f3}];")
		IMAGE_FLOATS("read_a1d", "tex.a1d.v4.f32.f32 " TEXEL ", [%rd1, {%r4, %f1}];") IMAGE_FLOATS(
			"read_a2d",
			"tex.a2d.v4.f32.f32 " TEXEL
			", [%rd1, {%r4, %f1, %f2, %f2}];") IMAGE_FLOATS("read_cube", "tex.cube.v4.f32.f32 " TEXEL
										     ", [%rd1, {%f1, %f2, %f3, %f3}];")
			IMAGE_FLOATS("read_acube",
				     "tex.acube.v4.f32.f32 " TEXEL
				     ", [%rd1, {%r4, %f1, %f2, %f3}];") IMAGE_FLOATS("level_1d",
										     "tex.level.1d.v4.f32.f32 " TEXEL
										     ", [%rd1, {%f1}], %f5;")
				IMAGE_FLOATS(
					"level_2d",
					"tex.level.2d.v4.f32.f32 " TEXEL
					", [%rd1, {%f1, %f2}], %f5;") IMAGE_FLOATS("level_3d",
										   "tex.level.3d.v4.f32.f32 " TEXEL
										   ", [%rd1, {%f1, %f2, %f3, %f3}], "
										   "%f5;") IMAGE_FLOATS("level_a2d",
													"tex.level.a2d."
													"v4.f32."
													"f32 " TEXEL
													", [%rd1, "
													"{%r4, %f1, "
													"%f2, %f2}], "
													"%f5;")
					IMAGE_FLOATS(
						"level_cube",
						"tex.level.cube.v4.f32.f32 " TEXEL
						", [%rd1, {%f1, %f2, %f3, %f3}], %f5;") IMAGE_FLOATS("gradient_2d",
												     "tex.grad.2d.v4."
												     "f32.f32 " TEXEL
												     ", [%rd1, {%f1, "
												     "%f2}], {%f5, "
												     "%f6}, {%f9, "
												     "%f10};")
						IMAGE_FLOATS(
							"gather_r",
							"tld4.r.2d.v4.f32.f32 " TEXEL
							", [%rd1, {%f1, %f2}];") IMAGE_FLOATS("gather_b",
											      "tld4.b.2d.v4.f32."
											      "f32 " TEXEL
											      ", [%rd1, {%f1, %f2}];")
							IMAGE_FLOATS(
								"resident",
								"tex.2d.v4.f32.f32 " TEXEL
								"|%p2, [%rd1, {%f1, %f2}]; selp.f32 %f24, 1.0, 0.0, "
								"%p2;") IMAGE_KERNEL("halves",
										     "tex.2d.v4.f16.f32 {%rs1, %rs2, "
										     "%rs3, %rs4}, [%rd1, {%f1, "
										     "%f2}];\n"
										     "cvt.u32.u16 %r21, %rs1; "
										     "cvt.u32.u16 %r22, %rs2; "
										     "cvt.u32.u16 %r23, %rs3; "
										     "cvt.u32.u16 %r24, %rs4;")
								IMAGE_KERNEL(
									"half_pairs",
									"tex.2d.v2.f16x2.f32 {%r21, %r22}, [%rd1, "
									"{%f1, %f2}];") IMAGE_FLOATS("offset_2d",
												     "tex.2d.v4.f32."
												     "f32 " TEXEL
												     ", [%rd1, {%f1, "
												     "%f2}], {1, -2};")
									IMAGE_KERNEL(
										"query",
										"txq.width.b32 %r21, [%rd1]; "
										"txq.height.b32 %r22, [%rd1]; "
										"txq.depth.b32 %r23, [%rd1];\n"
										"txq.level.width.b32 %r24, [%rd1], 1;")
										IMAGE_KERNEL("query_levels",
											     "txq.num_mipmap_levels."
											     "b32 %r21, [%rd1];")
											IMAGE_KERNEL(
												"query_layers",
												"txq.array_size.b32 "
												"%r21, [%rd1];")
												IMAGE_KERNEL(
													"query_"
													"coordinates",
													"txq."
													"normalized_"
													"coords.b32 "
													"%r21, "
													"[%rd1];");

static inline CUmodule need_reads(void)
{
	static CUmodule module;

	need_context();
	if (!module)
		module = need_module(ptx_reads);
	return module;
}

enum { CHANNELS = 4 };

struct picture { // `texels` has CHANNELS floats for each texel
	int size[3];
	float *texels;
};

static inline struct picture make_picture(int width, int height, int depth)
{
	struct picture picture = {{width, height, depth}, malloc(sizeof(float) * CHANNELS * width * height * depth)};
	uint32_t state = 12345;

	for (int i = 0; i < width * height * depth * CHANNELS; i++) {
		state = state * 1664525 + 1013904223;
		picture.texels[i] = (float)(state >> 8) / (1 << 24); // a number from 0 to 1
	}
	return picture;
}

static inline CUarray make_array(int width, int height, int depth, CUarray_format format, unsigned channels,
				 unsigned flags)
{
	CUarray array = NULL;
	CUDA_ARRAY3D_DESCRIPTOR wanted = {.Width = width,
					  .Height = height,
					  .Depth = depth,
					  .Format = format,
					  .NumChannels = channels,
					  .Flags = flags};

	NEED(cuArray3DCreate(&array, &wanted));
	return array;
}

static inline CUtexObject make_object(CUarray array, const CUDA_TEXTURE_DESC *how)
{
	CUtexObject object = 0;
	CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = array};

	NEED(cuTexObjectCreate(&object, &resource, how, NULL));
	return object;
}

static inline CUDA_TEXTURE_DESC reading(CUaddress_mode mode, CUfilter_mode filter, unsigned flags)
{
	return (CUDA_TEXTURE_DESC){.addressMode = {mode, mode, mode},
				   .filterMode = filter,
				   .flags = flags,
				   .borderColor = {0.25, 0.5, 0.75, 1}};
}
