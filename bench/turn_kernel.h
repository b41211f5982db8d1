// The kernel of the programs that keep a GPU busy: `rounds` rounds of dependent arithmetic, which take the same time on
// each run. One thread.
#pragma once

static const char turn_source[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry turn_work(.param .u32 rounds, .param .u64 out) {\n"
	"	.reg .u32 %r<4>; .reg .f32 %f<4>; .reg .pred %p; .reg .u64 %d<3>;\n"
	"	ld.param.u32 %r1, [rounds];\n"
	"	mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F800001;\n"
	"again:\n"
	"	fma.rn.f32 %f1, %f1, %f2, %f2; fma.rn.f32 %f1, %f1, %f2, %f2;\n"
	"	fma.rn.f32 %f1, %f1, %f2, %f2; fma.rn.f32 %f1, %f1, %f2, %f2;\n"
	"	sub.u32 %r1, %r1, 1; setp.ne.u32 %p, %r1, 0; @%p bra again;\n"
	"	setp.lt.f32 %p, %f1, 0f00000000; @!%p bra done;\n" // never true, but keeps the loop from being removed
	"	ld.param.u64 %d1, [out]; st.global.f32 [%d1], %f1;\n"
	"done: ret; }\n"
	// A kernel with the same loop. Its first thread also writes its begin to out[0] and its end to out[1], in ns of
	// the GPU's clock.
	".visible .entry turn_stamp(.param .u32 rounds, .param .u64 out) {\n"
	"	.reg .u32 %r<4>; .reg .f32 %f<4>; .reg .pred %p; .reg .u64 %d<4>;\n"
	"	mov.u64 %d2, %globaltimer;\n"
	"	ld.param.u32 %r1, [rounds];\n"
	"	mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F800001;\n"
	"again:\n"
	"	fma.rn.f32 %f1, %f1, %f2, %f2; fma.rn.f32 %f1, %f1, %f2, %f2;\n"
	"	fma.rn.f32 %f1, %f1, %f2, %f2; fma.rn.f32 %f1, %f1, %f2, %f2;\n"
	"	sub.u32 %r1, %r1, 1; setp.ne.u32 %p, %r1, 0; @%p bra again;\n"
	"	mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; or.b32 %r2, %r2, %r3;\n"
	"	setp.ne.u32 %p, %r2, 0; @%p bra done;\n"
	"	ld.param.u64 %d1, [out]; setp.lt.f32 %p, %f1, 0f00000000; @%p bra done;\n" // never true
	"	mov.u64 %d3, %globaltimer; st.global.u64 [%d1], %d2; st.global.u64 [%d1+8], %d3;\n"
	"done: ret; }\n";
