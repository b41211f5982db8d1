// Tests kernels that end without a fault: control flow, warps, blocks, grids.
#include <immintrin.h>
#include <pmmintrin.h>

#include "ptx/machine.h"

TEST(vector_add)
{
	struct machine *machine = machine_with(
		KERNEL("k", "ld.param.u64 %rd2, [p1];\n"
			    "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;\n"
			    "mad.lo.s32 %r3, %r1, %r2, %r0;\n"
			    "mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;\n"
			    "ld.global.u32 %r4, [%rd4]; ld.global.u32 %r5, [%rd5];\n"
			    "add.s32 %r6, %r4, %r5; st.global.u32 [%rd4], %r6;"));
	machine->launch.grid[0] = 8;
	machine->launch.block[0] = 100;
	machine->launch.threads = 2;
	for (uint32_t i = 0; i < 800; i++) {
		machine_words(machine)[i] = i;
		machine_words(machine)[16384 + i] = i * 1000;
	}
	machine_run_well(machine);
	for (uint32_t i = 0; i < 800; i++)
		CHECK_INT(machine_words(machine)[i], i * 1001);
	CHECK_INT(machine_words(machine)[800], 0);
	machine_destroy(machine);
}

// This program's rounding mode is upwards, and it flushes subnormals. The kernel must compute 2^-149 + 2^-149 and 1 +
// 2^-149 as if it did not.
TEST(kernels_ignore_the_programs_rounding_and_flushing)
{
	const unsigned saved = _mm_getcsr();

	_mm_setcsr(saved | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON | _MM_ROUND_UP);
	struct machine *machine =
		machine_run_block(KERNEL("k", "cvt.rn.f32.u32 %f1, %r0; mov.b32 %f2, 0f00000001;\n"
					      "add.f32 %f3, %f1, %f2; mov.b32 %r1, %f3;\n" STORE_WORD("%r1")),
				  2);
	const unsigned after = _mm_getcsr();
	_mm_setcsr(saved);
	CHECK(after & _MM_FLUSH_ZERO_ON);
	CHECK_INT(WORD(0), 1);
	CHECK_INT(WORD(1), 0x3f800000);
	machine_destroy(machine);
}

TEST(lanes_of_a_warp_share_a_lock)
{
	struct machine *machine =
		machine_run_block(KERNEL("k", "LOOP: atom.global.cas.b32 %r1, [%rd1], 0, 1;\n"
					      "setp.ne.s32 %p1, %r1, 0; @%p1 bra LOOP;\n"
					      "ld.volatile.global.u32 %r2, [%rd1+4]; add.s32 %r2, %r2, %r0;\n"
					      "st.volatile.global.u32 [%rd1+4], %r2; membar.gl;\n"
					      "atom.global.exch.b32 %r3, [%rd1], 0;"),
				  96);
	CHECK_INT(WORD(0), 0);
	CHECK_INT(WORD(1), 95 * 96 / 2);
	machine_destroy(machine);
}

TEST(polling_lane_lets_later_lane_store)
{
	// Lane 0 reads a word in a loop until lane 1 has stored to it. So lane 1 must run although lane 0 loops.
	struct machine *machine = machine_run_block(
		KERNEL("k", "setp.ne.u32 %p1, %r0, 0; @%p1 bra GIVE;\n"
			    "WAIT: ld.global.u32 %r1, [%rd1]; setp.eq.u32 %p2, %r1, 0; @%p2 bra WAIT;\n"
			    "st.global.u32 [%rd1+4], 7; bra DONE;\n"
			    "GIVE: st.global.u32 [%rd1], 5;\nDONE:"),
		2);
	CHECK_INT(WORD(1), 7);
	machine_destroy(machine);
}

TEST(polling_blocks_let_later_blocks_start)
{
	struct machine *machine = machine_with(
		KERNEL("k", "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; add.s32 %r2, %r2, -1;\n"
			    "setp.eq.u32 %p1, %r1, %r2; @%p1 st.volatile.global.u32 [%rd1], 1;\n"
			    "WAIT: ld.volatile.global.u32 %r3, [%rd1]; setp.eq.u32 %p2, %r3, 0; @%p2 bra WAIT;\n"
			    "red.global.add.u32 [%rd1+4], 1;"));
	machine->launch.grid[0] = 6;
	for (unsigned threads = 1; threads <= 3; threads += 2) {
		memset(machine->memory, 0, 8);
		machine->launch.threads = threads;
		machine_run_well(machine);
		CHECK_INT(WORD(1), 6 * 32);
	}
	machine_destroy(machine);
}

TEST(warps_of_a_block_progress_equally)
{
	// Both warps add to one word until it has reached 2 * 32 * 5000. Each thread stores how often it has added.
	struct machine *machine =
		machine_run_block(KERNEL("k", "mov.u32 %r2, 0;\n"
					      "LOOP: atom.global.add.u32 %r1, [%rd1+1024], 1; add.u32 %r2, %r2, 1;\n"
					      "setp.lt.u32 %p1, %r1, 319968; @%p1 bra LOOP;\n" STORE_WORD("%r2")),
				  64);
	for (int i = 0; i < 64; i++)
		CHECK(WORD(i) > 4000 && WORD(i) < 6000);
	machine_destroy(machine);
}

TEST(divergent_paths_reconverge)
{
	// Odd and even lanes take different paths. The shuffle after the paths needs all lanes.
	struct machine *machine =
		machine_run_block(KERNEL("k", "and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN;\n"
					      "add.u32 %r2, %r0, 100; bra MEET;\nEVEN: add.u32 %r2, %r0, 200;\n"
					      "MEET: shfl.sync.bfly.b32 %r3|%p2, %r2, 1, 31, -1;\n" STORE_WORD("%r3")),
				  32);
	for (int i = 0; i < 32; i++)
		CHECK_INT(WORD(i), (i & 1 ? 200 : 100) + (i ^ 1));
	machine_destroy(machine);
}

TEST(warp_barriers_match_at_different_instructions)
{
	struct machine *machine = machine_run_block(KERNEL("k", ".shared .u32 s; setp.lt.u32 %p1, %r0, 16;\n"
								"@%p1 bra LOW;\n"
								"st.shared.u32 [s], 41; bar.warp.sync -1; bra OUT;\n"
								"LOW: bar.warp.sync -1;\n"
								"OUT: ld.shared.u32 %r1, [s];\n" STORE_WORD("%r1")),
						    32);
	CHECK_INT(WORD(0), 41);
	machine_destroy(machine);
}

TEST(shuffles)
{
	struct machine *machine = machine_run_block(
		KERNEL("k", "shfl.sync.up.b32 %r1|%p1, %r0, 3, 0, -1; selp.u32 %r2, 1000, 0, %p1;\n"
			    "add.u32 %r1, %r1, %r2; shfl.sync.down.b32 %r3, %r0, 5, 0x101f, -1;\n"
			    "shfl.sync.idx.b32 %r4, %r0, 2, 0x181f, -1; mad.lo.u32 %r1, %r3, 10000, %r1;\n"
			    "mad.lo.u32 %r1, %r4, 1000000, %r1;\n" STORE_WORD("%r1")),
		32);
	for (int i = 0; i < 32; i++) {
		int up = i >= 3 ? i - 3 + 1000 : i, down = (i & 15) + 5 <= 15 ? i + 5 : i, index = (i & 24) + 2;
		CHECK_INT(WORD(i), up + down * 10000 + index * 1000000);
	}
	machine_destroy(machine);
}

TEST(votes_matches_and_reductions)
{
	struct machine *machine = machine_run_block(
		KERNEL("k", "setp.lt.u32 %p1, %r0, 5; vote.sync.ballot.b32 %r1, %p1, -1;\n"
			    "vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, %p1, -1; vote.sync.uni.pred %p4, "
			    "%p3, -1;\n"
			    "selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 2, 0, %p3; selp.u32 %r4, 4, 0, %p4;\n"
			    "or.b32 %r2, %r2, %r3; or.b32 %r2, %r2, %r4; shr.u32 %r5, %r0, 3;\n"
			    "match.any.sync.b32 %r6, %r5, -1; match.all.sync.b32 %r7|%p5, %r5, -1;\n"
			    "redux.sync.max.s32 %r8, %r0, -1; redux.sync.add.u32 %r9, %r0, -1; activemask.b32 %r10;\n"
			    "setp.ne.u32 %p6, %r0, 9; @%p6 bra END;\n"
			    "st.global.v4.u32 [%rd1], {%r1, %r2, %r6, %r7}; st.global.v2.u32 [%rd1+16], {%r8, %r9};\n"
			    "st.global.u32 [%rd1+24], %r10; activemask.b32 %r11; st.global.u32 [%rd1+28], %r11; END:"),
		32);
	CHECK_INT(WORD(0), 31);
	CHECK_INT(WORD(1), 1 | 4);
	CHECK_INT(WORD(2), 0xff00);
	CHECK_INT(WORD(3), 0);
	CHECK_INT(WORD(4), 31);
	CHECK_INT(WORD(5), 31 * 16);
	CHECK_INT(WORD(6), 0xffffffff);
	CHECK_INT(WORD(7), 1 << 9);
	machine_destroy(machine);
}

TEST(block_barriers)
{
	// Each thread reads what a thread of another warp wrote before the barrier. The kernel then uses barriers that
	// also reduce, and a barrier of 64 threads.
	struct machine *machine = machine_run_block(
		HEAD
		".shared .align 4 .b8 s[512];\n"
		".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) {\n"
		".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n"
		"ld.param.u64 %rd1, [p0]; mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; mov.u32 %r2, s; add.u32 %r3, %r2, "
		"%r1;\n"
		"st.shared.u32 [%r3], %r0; bar.sync 0; xor.b32 %r4, %r1, 0x1fc; add.u32 %r4, %r2, %r4; ld.shared.u32 "
		"%r5, [%r4];\n"
		"setp.lt.u32 %p1, %r0, 50; barrier.cta.red.popc.aligned.u32 %r6, 1, %p1; bar.red.or.pred %p2, 2, "
		"!%p1;\n"
		"selp.u32 %r7, 1, 0, %p2; setp.ge.u32 %p3, %r0, 64; @%p3 bra DONE; bar.sync 3, 64;\n"
		"DONE: mad.lo.u32 %r5, %r6, 1000, %r5; mad.lo.u32 %r5, %r7, 1000000, %r5;\n" STORE_WORD(
			"%r5") " ret; }",
		128);
	for (int i = 0; i < 128; i++)
		CHECK_INT(WORD(i), (127 - i) + 50 * 1000 + 1000000);
	machine_destroy(machine);
}

TEST(exited_threads_do_not_block_a_barrier)
{
	struct machine *machine = machine_run_block(
		KERNEL("k", "setp.gt.u32 %p1, %r0, 40; @%p1 exit; bar.sync 0;\n" STORE_WORD("1")), 96);
	CHECK_INT(WORD(40), 1);
	CHECK_INT(WORD(41), 0);
	machine_destroy(machine);
}

TEST(producer_arrives_and_consumer_waits_at_a_barrier)
{
	struct machine *machine = machine_run_block(
		KERNEL("k", ".shared .u32 s; setp.lt.u32 %p1, %r0, 32; @%p1 bra CONSUME;\n"
			    "st.shared.u32 [s], 77; bar.arrive 1, 64; bra END;\n"
			    "CONSUME: bar.sync 1, 64; ld.shared.u32 %r1, [s];\n" STORE_WORD("%r1") "END:"),
		64);
	CHECK_INT(WORD(31), 77);
	machine_destroy(machine);
}

TEST(direct_indirect_and_recursive_calls)
{
	struct machine *machine = machine_run_block(
		HEAD
		".func (.param .b32 r) fib(.param .b32 n);\n"
		".func (.param .b32 r) fib(.param .b32 n) { .reg .pred %p<2>; .reg .b32 %r<8>;\n"
		"ld.param.u32 %r1, [n]; setp.lt.s32 %p1, %r1, 2; @%p1 bra L; add.s32 %r2, %r1, -1;\n"
		"{ .param .b32 a; st.param.b32 [a+0], %r2; .param .b32 v; call.uni (v), fib, (a); ld.param.b32 %r3, "
		"[v+0]; }\n"
		"add.s32 %r2, %r1, -2;\n"
		"{ .param .b32 a; st.param.b32 [a+0], %r2; .param .b32 v; call.uni (v), fib, (a); ld.param.b32 %r4, "
		"[v+0]; }\n"
		"add.s32 %r1, %r3, %r4;\nL: st.param.b32 [r+0], %r1; ret; }\n"
		".func (.param .align 8 .b8 r[16]) pair(.param .align 8 .b8 s[12]) { .reg .b32 %r<4>; .reg .b64 "
		"%rd<4>;\n"
		"ld.param.u64 %rd1, [s]; ld.param.u32 %r1, [s+8]; cvt.u64.u32 %rd2, %r1; st.param.v2.b64 [r], {%rd2, "
		"%rd1}; ret; }\n"
		".func (.reg .u32 %o) twice(.reg .u32 %i) { add.u32 %o, %i, %i; ret; }\n"
		".global .align 8 .u64 table[2] = {fib, fib};\n"
		".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) { .reg .b32 %r<16>; .reg .b64 "
		"%rd<16>;\n"
		"ld.param.u64 %rd1, [p0]; mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 15; mov.u64 %rd2, table; "
		"ld.global.u64 %rd5, [%rd2+8];\n"
		"{ .param .b32 a; st.param.b32 [a+0], %r1; .param .b32 v;\n"
		"proto: .callprototype (.param .b32 _) _ (.param .b32 _); call (v), %rd5, (a), proto; ld.param.b32 "
		"%r2, [v+0]; }\n"
		"{ .param .align 8 .b8 a[12]; st.param.b64 [a], 5; st.param.b32 [a+8], %r2; .param .align 8 .b8 "
		"v[16];\n"
		"call.uni (v), pair, (a); ld.param.b64 %rd6, [v]; ld.param.b64 %rd7, [v+8]; }\n"
		"add.u64 %rd6, %rd6, %rd7; cvt.u32.u64 %r3, %rd6; call (%r4), twice, (%r3);\n" STORE_WORD(
			"%r4") " ret; }",
		32);
	static const int fib[16] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610};
	for (int i = 0; i < 32; i++)
		CHECK_INT(WORD(i), 2 * (fib[i & 15] + 5));
	machine_destroy(machine);
}

TEST(branch_tables_and_scoped_labels)
{
	struct machine *machine = machine_run_block(
		KERNEL("k", "and.b32 %r1, %r0, 3; ts: .branchtargets A, B, C, A;\nbrx.idx %r1, ts;\n"
			    "A: mov.u32 %r2, 10; bra END;\nB: mov.u32 %r2, 20; bra END;\nC: mov.u32 %r2, 30;\n"
			    "END: { .reg .u32 t; bra X; mov.u32 %r2, 0; X: mov.u32 t, 1; add.u32 %r2, %r2, t; }\n"
			    "{ bra X; mov.u32 %r2, 0; X: add.u32 %r2, %r2, 1; }\n" STORE_WORD("%r2")),
		32);
	static const int want[4] = {12, 22, 32, 12};
	for (int i = 0; i < 32; i++)
		CHECK_INT(WORD(i), want[i & 3]);
	machine_destroy(machine);
}

TEST(printf_of_every_conversion)
{
	struct machine *machine = machine_run_block(
		HEAD ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
		     ".global .b8 fmt[48] = "
		     "{37,100,32,37,108,108,120,32,37,46,50,102,32,37,115,32,37,99,32,37,37,32,37,42,100,32,"
		     "37,104,104,100,10,0};\n"
		     ".global .b8 str[4] = {104,105,0};\n"
		     ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) { .local .align 8 .b8 "
		     "b[64]; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n"
		     "mov.u64 %rd1, b; mov.u32 %r1, -7; st.local.u32 [%rd1], %r1; st.local.u64 [%rd1+8], "
		     "0x1234567890; st.local.f64 [%rd1+16], 0d4009000000000000;\n"
		     "mov.u64 %rd2, str; cvta.global.u64 %rd2, %rd2; st.local.u64 [%rd1+24], %rd2; "
		     "st.local.u32 [%rd1+32], 65;\n"
		     "st.local.u32 [%rd1+36], 5; st.local.u32 [%rd1+40], 42; st.local.u32 [%rd1+44], 511; "
		     "cvta.local.u64 %rd3, %rd1; mov.u64 %rd4, fmt;\n"
		     "{ .param .b64 x; st.param.b64 [x], %rd4; .param .b64 y; st.param.b64 [y], %rd3; .param "
		     ".b32 v; call.uni (v), vprintf, (x, y); ld.param.b32 %r2, [v]; }\n"
		     "ld.param.u64 %rd5, [p0]; st.global.u32 [%rd5], %r2; ret; }",
		1);
	CHECK_STR(machine->printed, "-7 1234567890 3.12 hi A %    42 -1\n");
	CHECK_INT(WORD(0), 7);
	machine_destroy(machine);
}

TEST(printf_of_a_long_integer)
{
	char wanted[603];

	struct machine *machine = machine_run_block(
		HEAD ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
		     ".global .b8 fmt[8] = {37,54,48,48,100,33,10,0};\n" // "%600d!"
		     ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) { .local .align 8 .b8 b[8]; "
		     ".reg .b32 %r<4>; .reg .b64 %rd<5>;\n"
		     "mov.u64 %rd1, b; st.local.u32 [%rd1], 42; cvta.local.u64 %rd3, %rd1; mov.u64 %rd4, fmt;\n"
		     "{ .param .b64 x; st.param.b64 [x], %rd4; .param .b64 y; st.param.b64 [y], %rd3; .param .b32 v; "
		     "call.uni (v), vprintf, (x, y); } ret; }",
		1);
	snprintf(wanted, sizeof wanted, "%600d!\n", 42);
	CHECK_STR(machine->printed, wanted);
	machine_destroy(machine);
}

TEST(hints_have_no_effect)
{
	struct machine *machine =
		machine_with(KERNEL("k", "setmaxnreg.inc.sync.aligned.u32 240; setmaxnreg.dec.sync.aligned.u32 24;\n"
					 "mul.wide.u32 %rd3, %r0, 4; add.s64 %rd4, %rd1, %rd3;\n"
					 "prefetch.tensormap [%rd1]; st.global.u32 [%rd4], 7;"));
	machine_run_well(machine);
	CHECK_INT(WORD(31), 7);
	machine_destroy(machine);
}

TEST(special_registers)
{
	struct machine *machine = machine_with(KERNEL(
		"k", "mov.u32 %r1, %tid.y; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0;\n"
		     "mov.u32 %r4, %laneid; mov.u32 %r5, %warpid; mov.u32 %r6, %lanemask_lt; popc.b32 %r7, %r6;\n"
		     "shl.b32 %r8, %r5, 8; or.b32 %r8, %r8, %r4; shl.b32 %r7, %r7, 16; or.b32 %r8, %r8, %r7;\n"
		     "mov.u64 %rd5, %clock64; mov.u64 %rd6, %clock64; setp.le.u64 %p1, %rd5, %rd6; @!%p1 trap;\n"
		     "mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r8;"));
	machine->launch.block[0] = 10;
	machine->launch.block[1] = 9;
	machine_run_well(machine);
	for (int i = 0; i < 90; i++)
		CHECK_INT(WORD(i), (i / 32) << 8 | i % 32 | (i % 32) << 16);
	machine_destroy(machine);
}

TEST(special_registers_as_vectors_and_those_that_are_zero)
{
	struct machine *machine = machine_with(
		KERNEL("k", "mov.v4.u32 {%r1, %r2, %r3, %r4}, %tid; mov.v4.u32 {%r5, _, _, %r6}, %ntid;\n"
			    // exchanges the registers: both must be read before either is written
			    "mov.v2.u32 {%r1, %r2}, {%r2, %r1};\n"
			    "mov.u32 %r7, %envreg0; mov.u32 %r8, %envreg31; mov.u32 %r9, %pm3; mov.u64 %rd5, %pm7_64;\n"
			    "mov.u64 %rd6, %current_graph_exec; or.b32 %r7, %r7, %r8; or.b64 %rd5, %rd5, %rd6;\n"
			    "setp.ne.u64 %p1, %rd5, 0; @%p1 trap; setp.ne.u32 %p1, %r7, 0; @%p1 trap;\n"
			    "or.b32 %r4, %r4, %r6; setp.ne.u32 %p1, %r4, 0; @%p1 trap;\n"
			    "mad.lo.u32 %r3, %r1, %r5, %r0; mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3;\n"
			    "mad.lo.u32 %r2, %r2, 100, %r1; st.global.u32 [%rd4], %r2;"));
	machine->launch.block[0] = 4;
	machine->launch.block[1] = 3;
	machine_run_well(machine);
	for (int i = 0; i < 12; i++)
		CHECK_INT(WORD(i), i % 4 * 100 + i / 4);
	machine_destroy(machine);
}

TEST(cooperative_grids_synchronize)
{
	// Makes a barrier of the whole grid as grid.sync of cooperative_groups does. The barrier's counter is in the
	// workspace to which %envreg1 and %envreg2 point.
	struct machine *machine = machine_with(KERNEL(
		"k",
		"mov.u32 %r1, %envreg2; mov.u32 %r2, %envreg1; mov.b64 %rd5, {%r1, %r2};\n"
		"mov.u32 %r3, %ctaid.x; mov.u32 %r4, %nctaid.x; mul.wide.u32 %rd6, %r3, 4; add.u64 %rd7, %rd1, %rd6;\n"
		"st.global.u32 [%rd7], %r3; bar.sync 0; setp.ne.u32 %p1, %r0, 0; @%p1 bra MEET;\n"
		"red.release.gpu.global.add.u32 [%rd5+4], 1;\nSPIN: ld.acquire.gpu.u32 %r5, [%rd5+4]; setp.lt.u32 %p2, "
		"%r5, %r4; @%p2 bra SPIN;\n"
		"MEET: bar.sync 0; add.u32 %r6, %r3, 1; rem.u32 %r6, %r6, %r4; mul.wide.u32 %rd8, %r6, 4; add.u64 "
		"%rd9, %rd1, %rd8;\n"
		"ld.global.u32 %r7, [%rd9]; st.global.u32 [%rd7+1024], %r7;"));
	machine->launch.cooperative = true;
	machine->launch.grid_workspace = MACHINE_BASE + 8192;
	machine->launch.grid[0] = 40;
	for (unsigned threads = 1; threads <= 3; threads++) {
		memset(machine->memory, 0, 16384);
		machine->launch.threads = threads;
		machine_run_well(machine);
		for (int i = 0; i < 40; i++)
			CHECK_INT(WORD(256 + i), (i + 1) % 40);
	}
	machine_destroy(machine);
}
