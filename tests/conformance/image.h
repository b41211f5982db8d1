// Helpers of the programs for textures and surfaces: one kernel for each instruction, run over a list of coordinates.
// Thread i reads twelve words at in + 48 * i and writes four words at out + 16 * i.
#pragma once

#include <math.h>

#include "conformance.h"

// IMAGE_HEAD reads the twelve words into %f1…%f12 and %r1…%r12. The kernel's text leaves its result in %r21…%r24 (or
// %f21…%f24, %rs1…%rs4, %rd5).
#define IMAGE_HEAD(name)                                                                                               \
	".visible .entry " name "(.param .u64 object, .param .u64 in, .param .u64 out, .param .u32 count) {\n"         \
	".reg .pred %p<4>; .reg .b16 %rs<8>; .reg .b32 %r<32>; .reg .f32 %f<32>; .reg .b64 %rd<12>;\n"                 \
	"ld.param.u64 %rd1, [object]; ld.param.u64 %rd2, [in]; ld.param.u64 %rd3, [out]; ld.param.u32 %r0, [count];\n" \
	"mov.u32 %r25, %ctaid.x; mov.u32 %r26, %ntid.x; mov.u32 %r27, %tid.x; mad.lo.u32 %r25, %r25, %r26, %r27;\n"    \
	"setp.ge.u32 %p1, %r25, %r0; @%p1 bra DONE;\n"                                                                 \
	"mul.wide.u32 %rd4, %r25, 48; add.u64 %rd2, %rd2, %rd4;\n"                                                     \
	"mul.wide.u32 %rd4, %r25, 16; add.u64 %rd3, %rd3, %rd4;\n"                                                     \
	"ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd2]; ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%rd2+16];\n"           \
	"ld.global.v4.b32 {%r9, %r10, %r11, %r12}, [%rd2+32];\n"                                                       \
	"mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3; mov.b32 %f4, %r4; mov.b32 %f5, %r5;\n"                  \
	"mov.b32 %f6, %r6;\n"                                                                                          \
	"mov.b32 %f7, %r7; mov.b32 %f8, %r8; mov.b32 %f9, %r9; mov.b32 %f10, %r10; mov.b32 %f11, %r11;\n"              \
	"mov.b32 %f12, %r12; mov.u32 %r21, 0; mov.u32 %r22, 0; mov.u32 %r23, 0; mov.u32 %r24, 0;\n"
#define IMAGE_TAIL "st.global.v4.b32 [%rd3], {%r21, %r22, %r23, %r24};\nDONE:\nret;\n}\n"
#define IMAGE_KERNEL(name, text) IMAGE_HEAD(name) text "\n" IMAGE_TAIL
// A kernel whose result is four floats.
#define IMAGE_FLOATS(name, text) \
	IMAGE_HEAD(name)         \
	text "\nmov.b32 %r21, %f21; mov.b32 %r22, %f22; mov.b32 %r23, %f23; mov.b32 %r24, %f24;\n" IMAGE_TAIL

union word {
	float f;
	int32_t i;
	uint32_t u;
};

struct probe { // input and result of one thread
	union word in[12];
};

struct value {
	union word at[4];
};

// Runs a kernel over the probes.
static inline void probe_image(CUmodule module, const char *name, unsigned long long object, const struct probe *probes,
			       struct value *ret_values, unsigned count)
{
	CUdeviceptr in, out;

	NEED(cuMemAlloc(&in, count * sizeof *probes));
	NEED(cuMemAlloc(&out, count * sizeof *ret_values));
	NEED(cuMemcpyHtoD(in, probes, count * sizeof *probes));
	NEED(cuMemsetD8(out, 0xee, count * sizeof *ret_values));
	void *parameters[] = {&object, &in, &out, &count};
	NEED(cuLaunchKernel(need_function(module, name), (count + 63) / 64, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL));
	NEED(cuCtxSynchronize());
	NEED(cuMemcpyDtoH(ret_values, out, count * sizeof *ret_values));
	WORKS(cuMemFree(in));
	WORKS(cuMemFree(out));
}

static inline struct value probe_once(CUmodule module, const char *name, unsigned long long object, struct probe probe)
{
	struct value value;

	probe_image(module, name, object, &probe, &value, 1);
	return value;
}

// Creates an array, or fills a level of a mipmapped array, from rows without padding.
static inline void fill_array(CUarray array, const void *from, size_t row, size_t height, size_t depth)
{
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .srcHost = from,
			      .srcPitch = row,
			      .srcHeight = height,
			      .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			      .dstArray = array,
			      .WidthInBytes = row,
			      .Height = height,
			      .Depth = depth};

	NEED(cuMemcpy3D(&copy));
}

static inline void read_array(CUarray array, void *to, size_t row, size_t height, size_t depth)
{
	CUDA_MEMCPY3D copy = {.dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = to,
			      .dstPitch = row,
			      .dstHeight = height,
			      .srcMemoryType = CU_MEMORYTYPE_ARRAY,
			      .srcArray = array,
			      .WidthInBytes = row,
			      .Height = height,
			      .Depth = depth};

	NEED(cuMemcpy3D(&copy));
}

#define NEAR(got, want, tolerance)                                                                                     \
	do {                                                                                                           \
		double got_ = (got), want_ = (want), tolerance_ = (tolerance);                                         \
		assertions++;                                                                                          \
		if (!(fabs(got_ - want_) <= tolerance_))                                                               \
			differ(__FILE__, __LINE__, "%s is %.9g, not %.9g within %.3g", #got, got_, want_, tolerance_); \
	} while (0)
