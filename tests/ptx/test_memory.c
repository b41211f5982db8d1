// Tests kernels that end without a fault: memory of every state space, atomics, asynchronous copies.
#include "ptx/machine.h"

TEST(atomics_of_every_kind)
{
	struct machine *machine = machine_with(KERNEL(
		"k", "red.global.add.u32 [%rd1], 3; atom.global.min.s32 %r1, [%rd1+4], -5;\n"
		     "red.global.max.u32 [%rd1+8], %r0; red.global.inc.u32 [%rd1+12], 6;\n"
		     "atom.global.dec.u32 %r2, [%rd1+16], 9; red.global.xor.b32 [%rd1+20], %r0;\n"
		     "red.relaxed.gpu.global.or.b32 [%rd1+24], %r0; atom.add.noftz.f16x2 %r4, [%rd1+28], 0x3c003c00;\n"
		     "red.global.add.f32 [%rd1+32], 0f3F800000; red.global.add.f64 [%rd1+40], 0d3FE0000000000000;\n"
		     "add.s64 %rd2, %rd1, 48; atom.global.cas.b16 %h1, [%rd2], 0, 9;\n"
		     "atom.add.acq_rel.gpu.u64 %rd5, [%rd1+56], 4294967296;\n"
		     "mov.f32 %f1, 0f40000000; red.global.add.v2.f32 [%rd1+64], {%f1, %f1};\n"
		     "red.global.add.noftz.bf16 [%rd1+72], %h2;"));
	machine->launch.block[0] = 64;
	machine_run_well(machine);
	CHECK_INT(WORD(0), 192);
	CHECK_INT((int32_t)WORD(1), -5);
	CHECK_INT(WORD(2), 63);
	CHECK_INT(WORD(3), 64 % 7);
	CHECK_INT(WORD(4), 9 - 63 % 10);
	CHECK_INT(WORD(5), 0);
	CHECK_INT(WORD(6), 63);
	CHECK_INT(WORD(7), 0x54005400);	 // 64.0 twice
	CHECK_INT(WORD(8), 0x42800000);	 // 64.0f
	CHECK_INT(WORD(11), 0x40400000); // 32.0, high word
	CHECK_INT(WORD(12), 9);
	CHECK_INT(WORD(15), 64);
	CHECK_INT(WORD(16), 0x43000000);
	CHECK_INT(WORD(17), 0x43000000);
	machine_destroy(machine);
}

TEST(atomic_compare_and_swap_of_128_bits)
{
	struct machine *machine =
		machine_with(KERNEL("k", ".reg .b128 %q<4>; mov.b64 %rd2, 5; mov.b64 %rd3, 6;\n"
					 "mov.b128 %q1, {%rd2, %rd3};\n"
					 "mov.b64 %rd4, 1; mov.b64 %rd5, 2; mov.b128 %q2, {%rd4, %rd5};\n"
					 "atom.global.cas.b128 %q3, [%rd1], %q2, %q1; mov.b128 {%rd6, %rd7}, %q3; "
					 "st.global.u64 [%rd1+16], %rd7;"));
	uint64_t *longs = (uint64_t *)machine->memory;
	longs[0] = 1;
	longs[1] = 2;
	machine->launch.block[0] = 1;
	machine_run_well(machine);
	CHECK_INT(longs[0], 5);
	CHECK_INT(longs[1], 6);
	CHECK_INT(longs[2], 2);
	machine_destroy(machine);
}

TEST(local_memory_alloca_and_generic_addresses)
{
	struct machine *machine = machine_run_block(
		KERNEL("k",
		       ".local .align 8 .b8 l[64];\n"
		       "mov.u64 %rd5, l; cvta.local.u64 %rd6, %rd5; st.u32 [%rd6+8], %r0; ld.local.u32 %r1, [l+8];\n"
		       "alloca.u64 %rd7, 64, 16; cvta.local.u64 %rd7, %rd7; st.u8 [%rd7+63], %r0; ld.s8 %r2, "
		       "[%rd7+63];\n"
		       "isspacep.local %p1, %rd7; isspacep.global %p2, %rd1; isspacep.shared %p3, %rd7; selp.u32 %r3, "
		       "1, 0, %p1;\n"
		       "selp.u32 %r4, 2, 0, %p2; selp.u32 %r5, 4, 0, %p3; or.b32 %r3, %r3, %r4; or.b32 %r3, %r3, %r5;\n"
		       "mad.lo.u32 %r1, %r1, 1000, %r2; mad.lo.u32 %r1, %r3, 1000000, %r1;\n" STORE_WORD("%r1")),
		64);
	for (int i = 0; i < 64; i++)
		CHECK_INT(WORD(i), i * 1001 + 3000000);
	machine_destroy(machine);
}

TEST(loads_and_stores_of_vectors_signs_and_widths)
{
	struct machine *machine = machine_with(KERNEL(
		"k",
		"ld.global.v4.s8 {%r1, %r2, _, %r4}, [%rd1]; ld.global.s16 %rd2, [%rd1+4]; ld.global.u8 %h1, "
		"[%rd1+8];\n"
		"st.global.v2.u64 [%rd1+16], {%rd2, 9}; cvt.u32.u16 %r5, %h1; mov.b32 %r6, {%h1, %h1};\n"
		"mov.b64 %rd3, {%r5, %r6}; mov.b64 {%r7, _}, %rd3; st.global.v4.u32 [%rd1+32], {%r1, %r4, %r6, %r7};"));
	memcpy(machine->memory, (uint8_t[]){0x80, 1, 2, 0x7f, 0xfe, 0xff, 0, 0, 200}, 9);
	machine->launch.block[0] = 1;
	machine_run_well(machine);
	CHECK_INT((int64_t)((uint64_t *)machine->memory)[2], -2);
	CHECK_INT(((uint64_t *)machine->memory)[3], 9);
	CHECK_INT((int32_t)WORD(8), -128);
	CHECK_INT(WORD(9), 127);
	CHECK_INT(WORD(10), 200 << 16 | 200);
	CHECK_INT(WORD(11), 200);
	machine_destroy(machine);
}

TEST(dynamic_shared_memory_follows_static_shared_memory)
{
	struct machine *machine = machine_with(
		HEAD
		".extern .shared .align 128 .b8 d[]; .shared .b8 s[100]; .shared .b8 unused[4096];\n"
		".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) { .reg .b32 %r<8>; .reg .b64 "
		"%rd<8>;\n"
		"ld.param.u64 %rd1, [p0]; mov.u32 %r0, %tid.x; mov.u32 %r1, s; mov.u32 %r2, d; sub.u32 %r3, %r2, %r1;\n"
		"mov.u32 %r4, %dynamic_smem_size; mov.u64 %rd2, d; cvta.shared.u64 %rd2, %rd2; st.u32 [%rd2+508], "
		"%r4;\n"
		"ld.shared.u32 %r5, [d+508]; st.global.v2.u32 [%rd1], {%r3, %r5}; ret; }");
	machine->launch.dynamic_shared = 512;
	CHECK_INT(ptx_function_info(ptx_module_function(machine->module, "k"))->static_shared, 100);
	machine_run_well(machine);
	CHECK_INT(WORD(0), 128);
	CHECK_INT(WORD(1), 512);
	machine_destroy(machine);
}

#define ALLOCATE(size, to)                                                                                        \
	"{ .param .b64 n; st.param.b64 [n], " size "; .param .b64 v; call.uni (v), malloc, (n); ld.param.b64 " to \
	", [v]; }\n"
TEST(malloc_and_free)
{
	struct machine *machine = machine_with(
		HEAD
		".extern .func (.param .b64 r) malloc(.param .b64 n); .extern .func free(.param .b64 p);\n"
		".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) { .reg .b32 %r<8>; .reg .b64 "
		"%rd<8>; .reg .pred %p<2>;\n"
		"ld.param.u64 %rd1, [p0]; mov.u32 %r0, %tid.x; mov.u32 %r1, 0;\nAGAIN:" ALLOCATE(
			"1000", "%rd2") "st.u32 [%rd2+996], %r0; bar.sync 0; ld.u32 %r2, [%rd2+996];\n"
					"{ .param .b64 p; st.param.b64 [p], %rd2; call.uni free, (p); }\n"
					"add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 20; @%p1 bra AGAIN;\n" ALLOCATE(
						"100000000", "%rd5") "cvt.u32.u64 %r3, %rd5; add.u32 %r2, %r2, "
								     "%r3;\n" STORE_WORD("%r2") " ret; }");
	machine->launch.heap = ptx_heap_create(MACHINE_BASE + MACHINE_HEAP, 128 << 10);
	// in all, 64 x 1000 x 20 bytes are allocated; that is more than the heap has, unless they are freed
	machine->launch.block[0] = 64;
	machine_run_well(machine);
	for (int i = 0; i < 64; i++)
		CHECK_INT(WORD(i), i);
	machine_destroy(machine);
}

TEST(mbarriers_and_asynchronous_copies)
{
	struct machine *machine = machine_with(
		HEAD
		".shared .align 16 .b8 s[1024]; .shared .align 8 .b64 bar;\n"
		".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) { .reg .b32 %r<16>; .reg .b64 "
		"%rd<16>; .reg .pred %p<4>;\n"
		"ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r0, %tid.x; mov.u32 %r1, s; mov.u32 %r2, "
		"bar;\n"
		"setp.ne.u32 %p1, %r0, 0; @%p1 bra READY; mbarrier.init.shared::cta.b64 [%r2], 128;\nREADY: bar.sync "
		"0;\n"
		"shl.b32 %r3, %r0, 4; add.u32 %r4, %r1, %r3; cvt.u64.u32 %rd3, %r3; add.u64 %rd4, %rd2, %rd3;\n"
		"cp.async.cg.shared.global [%r4], [%rd4], 16, 12; cp.async.mbarrier.arrive.noinc.shared.b64 [%r2];\n"
		"mbarrier.arrive.shared::cta.b64 %rd5, [%r2];\n"
		"WAIT: mbarrier.try_wait.shared::cta.b64 %p2, [%r2], %rd5; @!%p2 bra WAIT;\n"
		"mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0; selp.u32 %r8, 1, 0, %p3;\n"
		"xor.b32 %r5, %r3, 0x3f0; add.u32 %r5, %r5, %r1; ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r5];\n"
		"add.u32 %r10, %r10, %r13; add.u32 %r10, %r10, %r8;\n" STORE_WORD("%r10") " ret; }");
	for (uint32_t i = 0; i < 256; i++)
		machine_words(machine)[16384 + i] = 100 + i;
	machine->launch.block[0] = 64;
	machine_run_well(machine);
	for (int i = 0; i < 64; i++)
		CHECK_INT(WORD(i), 100 + (63 - i) * 4 + 1); // the copy filled the fourth word with zeros
	machine_destroy(machine);
}

TEST(bulk_copies_are_counted_by_their_mbarrier)
{
	struct machine *machine = machine_with(
		HEAD
		".shared .align 16 .b8 s[1024]; .shared .align 8 .b64 bar;\n"
		".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) { .reg .b32 %r<16>; .reg .b64 "
		"%rd<16>; .reg .pred %p<4>;\n"
		"ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r0, %tid.x; mov.u32 %r1, s; mov.u32 %r2, "
		"bar; mov.u32 %r3, 256;\n"
		"setp.ne.u32 %p1, %r0, 0; @%p1 bra READY; mbarrier.init.shared::cta.b64 [%r2], 1;\n"
		"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;\n"
		"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], %r3, [%r2];\n"
		// half of the bytes are still missing, so the phase must not be complete
		"mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0; @%p3 trap;\n"
		"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1+512], [%r1], %r3, [%r2];\n"
		"READY: bar.sync 0;\n"
		"WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra WAIT;\n"
		"@%p1 bra DONE; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1+512], %r3;\n"
		"cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0; DONE: ret; "
		"}");
	for (uint32_t i = 0; i < 64; i++)
		machine_words(machine)[16384 + i] = 100 + i;
	// the second copy is only possible in a cluster
	machine->launch.cluster[0] = machine->launch.cluster[1] = machine->launch.cluster[2] = 1;
	machine->launch.block[0] = 64;
	machine_run_well(machine);
	for (int i = 0; i < 64; i++)
		CHECK_INT(WORD(i), 100 + i);
	machine_destroy(machine);
}

TEST(reserved_shared_memory_can_be_used)
{
	struct machine *machine =
		machine_run_block(KERNEL("k", ".shared .b8 s[16]; mov.u32 %r1, %reserved_smem_offset_1;\n"
					      "st.shared.u32 [%r1+284], 9; ld.shared.u32 %r2, [%r1+284];\n"
					      "mov.u32 %r3, s; sub.u32 %r3, %r3, %r1; setp.ge.u32 %p1, %r3, 288;\n"
					      "selp.u32 %r4, 100, 0, %p1; add.u32 %r2, %r2, %r4;\n" STORE_WORD("%r2")),
				  1);
	CHECK_INT(WORD(0), 109);
	machine_destroy(machine);
}

TEST(isspacep_finds_the_state_space)
{
	struct machine *machine = machine_run_block(
		HEAD ".const .align 4 .u32 c = 5; .global .align 4 .u32 g = 6;\n"
		     ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) {\n"
		     ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; ld.param.u64 %rd1, [p0];\n"
		     "mov.u64 %rd2, c; cvta.const.u64 %rd2, %rd2; mov.u64 %rd3, g; mov.u64 %rd4, p0;\n"
		     "cvta.param.u64 %rd4, %rd4; isspacep.const %p1, %rd2; isspacep.const %p2, %rd3;\n"
		     "isspacep.global %p3, %rd3; selp.u32 %r1, 1, 0, %p1; selp.u32 %r2, 2, 0, %p2;\n"
		     "selp.u32 %r3, 4, 0, %p3; or.b32 %r1, %r1, %r2; or.b32 %r1, %r1, %r3;\n"
		     "ld.u32 %r4, [%rd2]; ld.u64 %rd5, [%rd4]; st.global.v2.u32 [%rd1], {%r1, %r4};\n"
		     "st.global.u64 [%rd1+8], %rd5; ret; }",
		1);
	CHECK_INT(WORD(0), 1 | 4);
	CHECK_INT(WORD(1), 5);
	CHECK_INT(((uint64_t *)machine->memory)[1], MACHINE_BASE);
	machine_destroy(machine);
}
