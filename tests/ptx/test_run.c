// Kernels run to their end with the right result.
#include <immintrin.h>
#include <pmmintrin.h>

#include "ptx/machine.h"
#include "test.h"

static struct machine *load(const char *text)
{
	struct machine *machine = machine_create();

	if (machine_load(machine, text))
		FAIL("does not load: %s", machine->log_text);
	return machine;
}

static void run(struct machine *machine, const char *name)
{
	int r = machine_run(machine, name, MACHINE_BASE, MACHINE_BASE + 65536, 100);

	if (r)
		FAIL("%s: %d %s", name, r, machine->fault.text);
}

TEST(vector_add)
{
	struct machine *machine =
		load(KERNEL("add", "ld.param.u64 %rd2, [p1];\n"
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
	run(machine, "add");
	for (uint32_t i = 0; i < 800; i++)
		CHECK_INT(machine_words(machine)[i], i * 1001);
	CHECK_INT(machine_words(machine)[800], 0);
	machine_destroy(machine);
}

// Runs one block of a KERNEL body and hands its memory over.
static struct machine *run_body(const char *text, uint32_t threads)
{
	struct machine *machine = load(text);

	machine->launch.block[0] = threads;
	run(machine, "k");
	return machine;
}
#define OUT "mul.wide.u32 %rd3, %r0, 4; add.s64 %rd4, %rd1, %rd3;\n"
#define STORE(r) OUT "st.global.u32 [%rd4], " r ";"
#define WORD(i) ((long long)machine_words(machine)[i])

// 2^-149 + 2^-149, then 1 + 2^-149, while the program flushes and rounds upwards.
TEST(the_host_program_rounds_otherwise)
{
	const unsigned saved = _mm_getcsr();

	_mm_setcsr(saved | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON | _MM_ROUND_UP);
	struct machine *machine = run_body(KERNEL("k", "cvt.rn.f32.u32 %f1, %r0; mov.b32 %f2, 0f00000001;\n"
						  "add.f32 %f3, %f1, %f2; mov.b32 %r1, %f3;\n" STORE("%r1")), 2);
	const unsigned after = _mm_getcsr();
	_mm_setcsr(saved);
	CHECK(after & _MM_FLUSH_ZERO_ON);
	CHECK_INT(WORD(0), 1);
	CHECK_INT(WORD(1), 0x3f800000);
	machine_destroy(machine);
}

TEST(lanes_of_a_warp_hand_a_lock_to_each_other)
{
	struct machine *machine = run_body(KERNEL("k", "LOOP: atom.global.cas.b32 %r1, [%rd1], 0, 1;\n"
						       "setp.ne.s32 %p1, %r1, 0; @%p1 bra LOOP;\n"
						       "ld.volatile.global.u32 %r2, [%rd1+4]; add.s32 %r2, %r2, %r0;\n"
						       "st.volatile.global.u32 [%rd1+4], %r2; membar.gl;\n"
						       "atom.global.exch.b32 %r3, [%rd1], 0;"),
					   96);
	CHECK_INT(WORD(0), 0);
	CHECK_INT(WORD(1), 95 * 96 / 2);
	machine_destroy(machine);
}

TEST(a_spinning_lane_sees_what_a_later_lane_stores)
{
	// Lane 0 loops on a plain load until lane 1 has stored.
	struct machine *machine =
		run_body(KERNEL("k", "setp.ne.u32 %p1, %r0, 0; @%p1 bra GIVE;\n"
				     "WAIT: ld.global.u32 %r1, [%rd1]; setp.eq.u32 %p2, %r1, 0; @%p2 bra WAIT;\n"
				     "st.global.u32 [%rd1+4], 7; bra DONE;\n"
				     "GIVE: st.global.u32 [%rd1], 5;\nDONE:"),
			 2);
	CHECK_INT(WORD(1), 7);
	machine_destroy(machine);
}

TEST(blocks_wait_for_blocks_that_come_later)
{
	struct machine *machine =
		load(KERNEL("k", "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; add.s32 %r2, %r2, -1;\n"
				 "setp.eq.u32 %p1, %r1, %r2; @%p1 st.volatile.global.u32 [%rd1], 1;\n"
				 "WAIT: ld.volatile.global.u32 %r3, [%rd1]; setp.eq.u32 %p2, %r3, 0; @%p2 bra WAIT;\n"
				 "red.global.add.u32 [%rd1+4], 1;"));
	machine->launch.grid[0] = 6;
	for (unsigned threads = 1; threads <= 3; threads += 2) {
		memset(machine->memory, 0, 8);
		machine->launch.threads = threads;
		run(machine, "k");
		CHECK_INT(WORD(1), 6 * 32);
	}
	machine_destroy(machine);
}

TEST(warps_of_a_block_get_on_alike)
{
	// Both warps count in one word until it has reached 2 * 32 * 5000; each thread stores how often it did.
	struct machine *machine =
		run_body(KERNEL("k", "mov.u32 %r2, 0;\n"
				     "LOOP: atom.global.add.u32 %r1, [%rd1+1024], 1; add.u32 %r2, %r2, 1;\n"
				     "setp.lt.u32 %p1, %r1, 319968; @%p1 bra LOOP;\n" STORE("%r2")),
			 64);
	for (int i = 0; i < 64; i++)
		CHECK(WORD(i) > 4000 && WORD(i) < 6000);
	machine_destroy(machine);
}

TEST(divergent_paths_meet_again)
{
	// Odd and even lanes part; a full-mask shuffle behind the branch needs all of them.
	struct machine *machine =
		run_body(KERNEL("k", "and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN;\n"
				     "add.u32 %r2, %r0, 100; bra MEET;\nEVEN: add.u32 %r2, %r0, 200;\n"
				     "MEET: shfl.sync.bfly.b32 %r3|%p2, %r2, 1, 31, -1;\n" STORE("%r3")),
			 32);
	for (int i = 0; i < 32; i++)
		CHECK_INT(WORD(i), (i & 1 ? 200 : 100) + (i ^ 1));
	machine_destroy(machine);
}

TEST(warp_barriers_at_different_places_match)
{
	struct machine *machine = run_body(KERNEL("k", ".shared .u32 s; setp.lt.u32 %p1, %r0, 16; @%p1 bra LOW;\n"
						       "st.shared.u32 [s], 41; bar.warp.sync -1; bra OUT;\n"
						       "LOW: bar.warp.sync -1;\n"
						       "OUT: ld.shared.u32 %r1, [s];\n" STORE("%r1")),
					   32);
	CHECK_INT(WORD(0), 41);
	machine_destroy(machine);
}

TEST(shuffles)
{
	struct machine *machine =
		run_body(KERNEL("k", "shfl.sync.up.b32 %r1|%p1, %r0, 3, 0, -1; selp.u32 %r2, 1000, 0, %p1;\n"
				     "add.u32 %r1, %r1, %r2; shfl.sync.down.b32 %r3, %r0, 5, 0x101f, -1;\n"
				     "shfl.sync.idx.b32 %r4, %r0, 2, 0x181f, -1; mad.lo.u32 %r1, %r3, 10000, %r1;\n"
				     "mad.lo.u32 %r1, %r4, 1000000, %r1;\n" STORE("%r1")),
			 32);
	for (int i = 0; i < 32; i++) {
		int up = i >= 3 ? i - 3 + 1000 : i, down = (i & 15) + 5 <= 15 ? i + 5 : i, index = (i & 24) + 2;
		CHECK_INT(WORD(i), up + down * 10000 + index * 1000000);
	}
	machine_destroy(machine);
}

TEST(votes_matches_and_reductions)
{
	struct machine *machine = run_body(
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
	// Each thread reads what the thread of another warp wrote; then a reducing barrier, then a named one for 64.
	struct machine *machine = run_body(
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
		"DONE: mad.lo.u32 %r5, %r6, 1000, %r5; mad.lo.u32 %r5, %r7, 1000000, %r5;\n" STORE("%r5") " ret; }",
		128);
	for (int i = 0; i < 128; i++)
		CHECK_INT(WORD(i), (127 - i) + 50 * 1000 + 1000000);
	machine_destroy(machine);
}

TEST(exited_threads_do_not_hold_a_barrier)
{
	struct machine *machine =
		run_body(KERNEL("k", "setp.gt.u32 %p1, %r0, 40; @%p1 exit; bar.sync 0;\n" STORE("1")), 96);
	CHECK_INT(WORD(40), 1);
	CHECK_INT(WORD(41), 0);
	machine_destroy(machine);
}

TEST(a_producer_arrives_and_a_consumer_waits)
{
	struct machine *machine =
		run_body(KERNEL("k", ".shared .u32 s; setp.lt.u32 %p1, %r0, 32; @%p1 bra CONSUME;\n"
				     "st.shared.u32 [s], 77; bar.arrive 1, 64; bra END;\n"
				     "CONSUME: bar.sync 1, 64; ld.shared.u32 %r1, [s];\n" STORE("%r1") "END:"),
			 64);
	CHECK_INT(WORD(31), 77);
	machine_destroy(machine);
}

TEST(atomics_of_every_kind)
{
	struct machine *machine = load(KERNEL(
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
	run(machine, "k");
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

TEST(a_128_bit_exchange)
{
	struct machine *machine =
		load(KERNEL("k", ".reg .b128 %q<4>; mov.b64 %rd2, 5; mov.b64 %rd3, 6; mov.b128 %q1, {%rd2, %rd3};\n"
				 "mov.b64 %rd4, 1; mov.b64 %rd5, 2; mov.b128 %q2, {%rd4, %rd5};\n"
				 "atom.global.cas.b128 %q3, [%rd1], %q2, %q1; mov.b128 {%rd6, %rd7}, %q3; "
				 "st.global.u64 [%rd1+16], %rd7;"));
	uint64_t *longs = (uint64_t *)machine->memory;
	longs[0] = 1;
	longs[1] = 2;
	machine->launch.block[0] = 1;
	run(machine, "k");
	CHECK_INT(longs[0], 5);
	CHECK_INT(longs[1], 6);
	CHECK_INT(longs[2], 2);
	machine_destroy(machine);
}

TEST(calls_direct_indirect_and_recursive)
{
	struct machine *machine = run_body(
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
		"add.u64 %rd6, %rd6, %rd7; cvt.u32.u64 %r3, %rd6; call (%r4), twice, (%r3);\n" STORE("%r4") " ret; }",
		32);
	static const int fib[16] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610};
	for (int i = 0; i < 32; i++)
		CHECK_INT(WORD(i), 2 * (fib[i & 15] + 5));
	machine_destroy(machine);
}

TEST(branch_tables_and_scoped_labels)
{
	struct machine *machine = run_body(
		KERNEL("k", "and.b32 %r1, %r0, 3; ts: .branchtargets A, B, C, A;\nbrx.idx %r1, ts;\n"
			    "A: mov.u32 %r2, 10; bra END;\nB: mov.u32 %r2, 20; bra END;\nC: mov.u32 %r2, 30;\n"
			    "END: { .reg .u32 t; bra X; mov.u32 %r2, 0; X: mov.u32 t, 1; add.u32 %r2, %r2, t; }\n"
			    "{ bra X; mov.u32 %r2, 0; X: add.u32 %r2, %r2, 1; }\n" STORE("%r2")),
		32);
	static const int want[4] = {12, 22, 32, 12};
	for (int i = 0; i < 32; i++)
		CHECK_INT(WORD(i), want[i & 3]);
	machine_destroy(machine);
}

TEST(local_memory_alloca_and_generic_addresses)
{
	struct machine *machine = run_body(
		KERNEL("k",
		       ".local .align 8 .b8 l[64];\n"
		       "mov.u64 %rd5, l; cvta.local.u64 %rd6, %rd5; st.u32 [%rd6+8], %r0; ld.local.u32 %r1, [l+8];\n"
		       "alloca.u64 %rd7, 64, 16; cvta.local.u64 %rd7, %rd7; st.u8 [%rd7+63], %r0; ld.s8 %r2, "
		       "[%rd7+63];\n"
		       "isspacep.local %p1, %rd7; isspacep.global %p2, %rd1; isspacep.shared %p3, %rd7; selp.u32 %r3, "
		       "1, 0, %p1;\n"
		       "selp.u32 %r4, 2, 0, %p2; selp.u32 %r5, 4, 0, %p3; or.b32 %r3, %r3, %r4; or.b32 %r3, %r3, %r5;\n"
		       "mad.lo.u32 %r1, %r1, 1000, %r2; mad.lo.u32 %r1, %r3, 1000000, %r1;\n" STORE("%r1")),
		64);
	for (int i = 0; i < 64; i++)
		CHECK_INT(WORD(i), i * 1001 + 3000000);
	machine_destroy(machine);
}

TEST(vectors_signs_and_widths)
{
	struct machine *machine = load(KERNEL(
		"k",
		"ld.global.v4.s8 {%r1, %r2, _, %r4}, [%rd1]; ld.global.s16 %rd2, [%rd1+4]; ld.global.u8 %h1, "
		"[%rd1+8];\n"
		"st.global.v2.u64 [%rd1+16], {%rd2, 9}; cvt.u32.u16 %r5, %h1; mov.b32 %r6, {%h1, %h1};\n"
		"mov.b64 %rd3, {%r5, %r6}; mov.b64 {%r7, _}, %rd3; st.global.v4.u32 [%rd1+32], {%r1, %r4, %r6, %r7};"));
	memcpy(machine->memory, (uint8_t[]){0x80, 1, 2, 0x7f, 0xfe, 0xff, 0, 0, 200}, 9);
	machine->launch.block[0] = 1;
	run(machine, "k");
	CHECK_INT((int64_t)((uint64_t *)machine->memory)[2], -2);
	CHECK_INT(((uint64_t *)machine->memory)[3], 9);
	CHECK_INT((int32_t)WORD(8), -128);
	CHECK_INT(WORD(9), 127);
	CHECK_INT(WORD(10), 200 << 16 | 200);
	CHECK_INT(WORD(11), 200);
	machine_destroy(machine);
}

TEST(dynamic_shared_memory_follows_the_static)
{
	struct machine *machine = load(
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
	run(machine, "k");
	CHECK_INT(WORD(0), 128);
	CHECK_INT(WORD(1), 512);
	machine_destroy(machine);
}

TEST(printf_of_every_conversion)
{
	struct machine *machine =
		run_body(HEAD ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
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

#define ALLOCATE(size, to)                                                                                             \
	"{ .param .b64 n; st.param.b64 [n], " size "; .param .b64 v; call.uni (v), malloc, (n); ld.param.b64 " to      \
	", [v]; }\n"
TEST(malloc_and_free)
{
	struct machine *machine = load(
		HEAD
		".extern .func (.param .b64 r) malloc(.param .b64 n); .extern .func free(.param .b64 p);\n"
		".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) { .reg .b32 %r<8>; .reg .b64 "
		"%rd<8>; .reg .pred %p<2>;\n"
		"ld.param.u64 %rd1, [p0]; mov.u32 %r0, %tid.x; mov.u32 %r1, 0;\nAGAIN:" ALLOCATE(
			"1000", "%rd2") "st.u32 [%rd2+996], %r0; bar.sync 0; ld.u32 %r2, [%rd2+996];\n"
					"{ .param .b64 p; st.param.b64 [p], %rd2; call.uni free, (p); }\n"
					"add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 20; @%p1 bra AGAIN;\n" ALLOCATE(
						"100000000", "%rd5") "cvt.u32.u64 %r3, %rd5; add.u32 %r2, %r2, "
								     "%r3;\n" STORE("%r2") " ret; }");
	machine->launch.heap = ptx_heap_create(MACHINE_BASE + MACHINE_HEAP, 128 << 10);
	machine->launch.block[0] = 64; // 64 x 1000 x 20 bytes: far more than the heap, unless freed
	run(machine, "k");
	for (int i = 0; i < 64; i++)
		CHECK_INT(WORD(i), i);
	machine_destroy(machine);
}

TEST(mbarriers_and_asynchronous_copies)
{
	struct machine *machine = load(
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
		"add.u32 %r10, %r10, %r13; add.u32 %r10, %r10, %r8;\n" STORE("%r10") " ret; }");
	for (uint32_t i = 0; i < 256; i++)
		machine_words(machine)[16384 + i] = 100 + i;
	machine->launch.block[0] = 64;
	run(machine, "k");
	for (int i = 0; i < 64; i++)
		CHECK_INT(WORD(i), 100 + (63 - i) * 4 + 1); // the fourth word was filled with zeros
	machine_destroy(machine);
}

TEST(bulk_copies_count_on_their_mbarrier)
{
	struct machine *machine = load(
		HEAD
		".shared .align 16 .b8 s[1024]; .shared .align 8 .b64 bar;\n"
		".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) { .reg .b32 %r<16>; .reg .b64 "
		"%rd<16>; .reg .pred %p<4>;\n"
		"ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r0, %tid.x; mov.u32 %r1, s; mov.u32 %r2, "
		"bar; mov.u32 %r3, 256;\n"
		"setp.ne.u32 %p1, %r0, 0; @%p1 bra READY; mbarrier.init.shared::cta.b64 [%r2], 1;\n"
		"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 512;\n"
		"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2], %r3, [%r2];\n"
		"mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0; @%p3 trap;\n" // half of it is still to come
		"cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1+512], [%r1], %r3, [%r2];\n"
		"READY: bar.sync 0;\n"
		"WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra WAIT;\n"
		"@%p1 bra DONE; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1+512], %r3;\n"
		"cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0; DONE: ret; "
		"}");
	for (uint32_t i = 0; i < 64; i++)
		machine_words(machine)[16384 + i] = 100 + i;
	machine->launch.cluster[0] = machine->launch.cluster[1] = machine->launch.cluster[2] = 1; // for the second copy
	machine->launch.block[0] = 64;
	run(machine, "k");
	for (int i = 0; i < 64; i++)
		CHECK_INT(WORD(i), 100 + i);
	machine_destroy(machine);
}

TEST(hints_do_nothing)
{
	struct machine *machine = load(
		KERNEL("k", "setmaxnreg.inc.sync.aligned.u32 240; setmaxnreg.dec.sync.aligned.u32 24;\n"
			    "mul.wide.u32 %rd3, %r0, 4; add.s64 %rd4, %rd1, %rd3;\n"
			    "prefetch.tensormap [%rd1]; st.global.u32 [%rd4], 7;"));
	run(machine, "k");
	CHECK_INT(WORD(31), 7);
	machine_destroy(machine);
}

TEST(special_registers)
{
	struct machine *machine = load(KERNEL(
		"k", "mov.u32 %r1, %tid.y; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0;\n"
		     "mov.u32 %r4, %laneid; mov.u32 %r5, %warpid; mov.u32 %r6, %lanemask_lt; popc.b32 %r7, %r6;\n"
		     "shl.b32 %r8, %r5, 8; or.b32 %r8, %r8, %r4; shl.b32 %r7, %r7, 16; or.b32 %r8, %r8, %r7;\n"
		     "mov.u64 %rd5, %clock64; mov.u64 %rd6, %clock64; setp.le.u64 %p1, %rd5, %rd6; @!%p1 trap;\n"
		     "mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r8;"));
	machine->launch.block[0] = 10;
	machine->launch.block[1] = 9;
	run(machine, "k");
	for (int i = 0; i < 90; i++)
		CHECK_INT(WORD(i), (i / 32) << 8 | i % 32 | (i % 32) << 16);
	machine_destroy(machine);
}

TEST(special_registers_as_vectors_and_those_without_meaning)
{
	struct machine *machine = load(KERNEL(
		"k", "mov.v4.u32 {%r1, %r2, %r3, %r4}, %tid; mov.v4.u32 {%r5, _, _, %r6}, %ntid;\n"
		     "mov.v2.u32 {%r1, %r2}, {%r2, %r1};\n" // crosswise: both are read first
		     "mov.u32 %r7, %envreg0; mov.u32 %r8, %envreg31; mov.u32 %r9, %pm3; mov.u64 %rd5, %pm7_64;\n"
		     "mov.u64 %rd6, %current_graph_exec; or.b32 %r7, %r7, %r8; or.b64 %rd5, %rd5, %rd6;\n"
		     "setp.ne.u64 %p1, %rd5, 0; @%p1 trap; setp.ne.u32 %p1, %r7, 0; @%p1 trap;\n"
		     "or.b32 %r4, %r4, %r6; setp.ne.u32 %p1, %r4, 0; @%p1 trap;\n"
		     "mad.lo.u32 %r3, %r1, %r5, %r0; mul.wide.u32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3;\n"
		     "mad.lo.u32 %r2, %r2, 100, %r1; st.global.u32 [%rd4], %r2;"));
	machine->launch.block[0] = 4;
	machine->launch.block[1] = 3;
	run(machine, "k");
	for (int i = 0; i < 12; i++)
		CHECK_INT(WORD(i), i % 4 * 100 + i / 4);
	machine_destroy(machine);
}

TEST(cooperative_grids_meet)
{
	// As cooperative_groups' grid.sync does it, on the workspace that %envreg1 and 2 name.
	struct machine *machine = load(KERNEL(
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
		run(machine, "k");
		for (int i = 0; i < 40; i++)
			CHECK_INT(WORD(256 + i), (i + 1) % 40);
	}
	machine_destroy(machine);
}

TEST(reserved_shared_memory_can_be_used)
{
	struct machine *machine =
		run_body(KERNEL("k", ".shared .b8 s[16]; mov.u32 %r1, %reserved_smem_offset_1;\n"
				     "st.shared.u32 [%r1+284], 9; ld.shared.u32 %r2, [%r1+284];\n"
				     "mov.u32 %r3, s; sub.u32 %r3, %r3, %r1; setp.ge.u32 %p1, %r3, 288;\n"
				     "selp.u32 %r4, 100, 0, %p1; add.u32 %r2, %r2, %r4;\n" STORE("%r2")),
			 1);
	CHECK_INT(WORD(0), 109);
	machine_destroy(machine);
}

TEST(addresses_tell_their_space)
{
	struct machine *machine =
		run_body(HEAD ".const .align 4 .u32 c = 5; .global .align 4 .u32 g = 6;\n"
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
