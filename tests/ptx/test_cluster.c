// Tests kernels whose blocks form clusters: the barrier of the cluster, and the shared memory of its blocks.
#include "ptx/machine.h"

// Defines a kernel with these registers: %r20 is the number of the block, %r21 the number of the thread in the grid,
// and %r23 the block's rank in its cluster. %r24 is the number of blocks of the cluster, and %r28 the address of the
// thread's word in shared memory.
#define BODY(text)                                                                                        \
	KERNEL("k", ".shared .align 16 .b8 s[1024]; .shared .align 8 .b64 bar;\n"                         \
		    "mov.u32 %r20, %ctaid.x; mov.u32 %r22, %ntid.x; mad.lo.u32 %r21, %r20, %r22, %r0;\n"  \
		    "mul.wide.u32 %rd20, %r21, 4; add.u64 %rd21, %rd1, %rd20;\n"                          \
		    "mov.u32 %r23, %cluster_ctarank; mov.u32 %r24, %cluster_nctarank; mov.u32 %r25, s;\n" \
		    "mov.u32 %r26, bar; shl.b32 %r27, %r0, 2; add.u32 %r28, %r25, %r27;\n" text)
#define MEET "barrier.cluster.arrive; barrier.cluster.wait;\n"
#define STORE(name) "st.global.u32 [%rd21], " name ";\n"
// Sets %r29 to the rank of the next block in the cluster, which is 0 after the last one.
#define NEXT "add.u32 %r29, %r23, 1; setp.eq.u32 %p7, %r29, %r24; selp.u32 %r29, 0, %r29, %p7;\n"

static struct machine *load(const char *text, uint32_t blocks, uint32_t cluster, uint32_t threads)
{
	struct machine *machine = machine_with(text);

	machine->launch.grid[0] = blocks;
	machine->launch.cluster[0] = cluster;
	machine->launch.cluster[1] = machine->launch.cluster[2] = cluster != 0;
	machine->launch.block[0] = threads;
	return machine;
}

static struct machine *fails(struct machine *machine, enum ptx_fault_kind kind, const char *text_part)
{
	machine_run_to_fault(machine, kind);
	CHECK_CONTAINS(machine->fault.text, text_part);
	return machine;
}

TEST(blocks_read_each_others_shared_memory)
{
	static const char text[] = BODY("mad.lo.u32 %r1, %r20, 1000, %r0; st.shared.u32 [%r28], %r1;\n" MEET NEXT
					"mapa.shared::cluster.u32 %r2, %r28, %r29; ld.shared::cluster.u32 %r3, [%r2];\n"
					"mapa.shared::cluster.u32 %r2, s, %r29; ld.shared::cluster.u32 %r4, [%r2+4];\n"
					"sub.u32 %r4, %r4, %r3; add.u32 %r4, %r4, %r0;\n" // adds 1
					"add.u32 %r3, %r3, %r4;\n" MEET STORE("%r3"));

	for (uint32_t cluster = 1; cluster <= 16; cluster *= 2)
		for (unsigned host_threads = 1; host_threads <= 3; host_threads += 2) {
			struct machine *machine = load(text, 32, cluster, 96);
			machine->launch.threads = host_threads;
			machine->launch.cooperative = cluster == 4;
			machine_run_well(machine);
			for (uint32_t i = 0; i < 32 * 96; i++) {
				uint32_t block = i / 96, first = block / cluster * cluster;
				CHECK_INT(WORD(i), (first + (block - first + 1) % cluster) * 1000 + i % 96 + 1);
			}
			machine_destroy(machine);
		}
}

TEST(generic_addresses_reach_the_right_block)
{
	struct machine *machine = load(
		BODY("mov.u64 %rd22, s; cvta.shared.u64 %rd2, %rd22;\n" NEXT
		     "mapa.u64 %rd3, %rd2, %r29; mapa.u64 %rd4, %rd2, %r23;\n"
		     "getctarank.u64 %r1, %rd3; getctarank.u64 %r2, %rd2; setp.eq.u64 %p1, %rd4, %rd2;\n"
		     "isspacep.shared::cluster %p2, %rd3; isspacep.shared %p3, %rd3; isspacep.shared::cta %p4, %rd2;\n"
		     "selp.u32 %r3, 1, 0, %p1; selp.u32 %r4, 2, 0, %p2; selp.u32 %r5, 4, 0, %p3;\n"
		     "selp.u32 %r6, 8, 0, %p4;\n"
		     "or.b32 %r3, %r3, %r4; or.b32 %r5, %r5, %r6; or.b32 %r3, %r3, %r5; shl.b32 %r1, %r1, 8;\n"
		     "shl.b32 %r2, %r2, 16; or.b32 %r3, %r3, %r1; or.b32 %r3, %r3, %r2;\n" STORE("%r3")),
		8, 4, 32);

	machine_run_well(machine);
	for (uint32_t block = 0; block < 8; block++)
		CHECK_INT(WORD(block * 32), 11 | (block % 4 + 1) % 4 << 8 | block % 4 << 16);
	machine_destroy(machine);
}

TEST(clusters_of_several_dimensions)
{
	// Each block writes its rank to the shared memory of the block with rank 0, at 4 * rank. The block with rank 0
	// then stores all these words.
	struct machine *machine = load(
		BODY("mov.u32 %r1, %cluster_ctaid.x; mov.u32 %r2, %cluster_ctaid.y; mov.u32 %r3, %cluster_ctaid.z;\n"
		     "mad.lo.u32 %r4, %r2, 10, %r1; mad.lo.u32 %r4, %r3, 100, %r4; mov.u32 %r5, 0;\n"
		     "mapa.shared::cluster.u32 %r6, %r25, %r5; shl.b32 %r7, %r23, 2; add.u32 %r6, %r6, %r7;\n"
		     "st.shared::cluster.u32 [%r6], %r4;\n" MEET
		     "setp.ne.u32 %p1, %r23, 0; @%p1 ret; ld.shared.u32 %r8, [%r28];\n"
		     "mov.u32 %r1, %clusterid.x; mov.u32 %r2, %clusterid.y; mad.lo.u32 %r1, %r2, 2, %r1;\n"
		     "mad.lo.u32 %r1, %r1, 8, %r0; mul.wide.u32 %rd20, %r1, 4; add.u64 %rd21, %rd1, %rd20;\n" STORE(
			     "%r8")),
		4, 2, 8);

	memcpy(machine->launch.grid, (uint32_t[]){4, 4, 2}, sizeof machine->launch.grid);
	memcpy(machine->launch.cluster, (uint32_t[]){2, 2, 2}, sizeof machine->launch.cluster);
	machine_run_well(machine);
	for (uint32_t i = 0; i < 4 * 8; i++)
		CHECK_INT(WORD(i), i % 2 + i / 2 % 2 * 10 + i / 4 % 2 * 100);
	machine->launch.grid[0] = 3; // no whole clusters
	CHECK_INT(machine_run(machine, "k", MACHINE_BASE, 0, 0), -22);
	machine_destroy(machine);
}

TEST(arrive_at_an_mbarrier_of_another_block)
{
	// The block with rank 0 waits until each other block has arrived at the barrier. The other blocks store before
	// they arrive.
	struct machine *machine = load(
		BODY("mov.u32 %r1, 0; setp.ne.u32 %p1, %r0, 0; setp.ne.u32 %p2, %r23, 0; or.pred %p3, %p1, %p2;\n"
		     "@!%p3 mbarrier.init.shared.b64 [%r26], 3;\n" MEET "@!%p2 bra WAIT; @%p1 bra DONE;\n"
		     "mapa.shared::cluster.u32 %r2, %r25, %r1; mapa.shared::cluster.u32 %r3, %r26, %r1;\n"
		     "atom.shared::cluster.add.u32 %r4, [%r2], %r23;\n"
		     "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3]; bra DONE;\n"
		     "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [%r26], 0; @!%p4 bra WAIT;\n"
		     "ld.shared.u32 %r5, [%r25];\n" STORE("%r5") "DONE:\n" MEET),
		4, 4, 64);

	machine_run_well(machine);
	CHECK_INT(WORD(0), 1 + 2 + 3);
	CHECK_INT(WORD(63), 1 + 2 + 3);
	machine_destroy(machine);
}

TEST(asynchronous_stores_are_counted_by_an_mbarrier)
{
	struct machine *machine = load(
		BODY("setp.ne.u32 %p1, %r0, 0; @%p1 bra READY; mbarrier.init.shared.b64 [%r26], 1;\n"
		     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r26], 20;\nREADY:\n" MEET NEXT "@%p1 bra WAIT;\n"
		     "mapa.shared::cluster.u32 %r2, %r25, %r29; mapa.shared::cluster.u32 %r3, %r26, %r29;\n"
		     "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r2], {%r20, 1, 2, 3}, "
		     "[%r3];\n"
		     "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r2], 100, "
		     "[%r3];\n"
		     "WAIT: mbarrier.try_wait.parity.shared.b64 %p4, [%r26], 0; @!%p4 bra WAIT;\n"
		     "ld.shared.v2.u32 {%r5, %r6}, [%r25]; add.u32 %r5, %r5, %r6;\n" STORE("%r5") MEET),
		4, 2, 32);

	machine_run_well(machine);
	for (uint32_t block = 0; block < 4; block++)
		CHECK_INT(WORD(block * 32 + 31), (block ^ 1) + 100 + 1);
	machine_destroy(machine);
}

TEST(exited_threads_do_not_block_the_cluster_barrier)
{
	// Warp 1 ends before it arrives at the barrier. Some lanes of warp 0 end after they have arrived.
	struct machine *machine =
		load(BODY("setp.gt.u32 %p1, %r0, 31; @%p1 ret; barrier.cluster.arrive.release;\n"
			  "setp.gt.u32 %p2, %r0, 9; @%p2 ret; barrier.cluster.wait.acquire;\n" MEET STORE("7")),
		     6, 3, 64);

	machine_run_well(machine);
	for (uint32_t i = 0; i < 6 * 64; i++)
		CHECK_INT(WORD(i), i % 64 < 10 ? 7 : 0);
	machine_destroy(machine);
}

TEST(cluster_barrier_keeps_blocks_in_the_same_phase)
{
	// A counter in the shared memory of rank 0 counts the blocks that have arrived in each phase. Every block must
	// read the count of its own phase.
	struct machine *machine =
		load(BODY("mov.u32 %r1, 0; mov.u32 %r9, 0; mapa.shared::cluster.u32 %r2, %r25, %r1;\nLOOP:\n"
			  "setp.eq.u32 %p1, %r0, 0; @%p1 atom.shared::cluster.add.u32 %r3, [%r2], 1;\n" MEET
			  "ld.shared::cluster.u32 %r4, [%r2]; add.u32 %r9, %r9, %r4;\n" MEET
			  "add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 50; @%p2 bra LOOP;\n" STORE("%r9") MEET),
		     8, 4, 64);

	machine_run_well(machine);
	for (uint32_t i = 0; i < 8 * 64; i++)
		CHECK_INT(WORD(i), 4 * 50 * 51 / 2);
	machine_destroy(machine);
}

TEST(illegal_addresses_in_a_cluster_fault)
{
	static const char beyond[] =
		BODY(MEET "mapa.shared::cluster.u32 %r2, %r25, 4; ld.shared::cluster.u32 %r3, [%r2];\n" MEET);
	static const char far[] =
		BODY(MEET "mapa.shared::cluster.u32 %r2, %r25, 999; st.shared::cluster.u32 [%r2], 1;\n" MEET);
	static const char outside[] = BODY(MEET NEXT "mapa.shared::cluster.u32 %r2, %r25, %r29;\n"
						     "ld.shared::cluster.u32 %r3, [%r2+65536];\n" MEET);
	// The block with rank 1 ends while another block of the cluster still uses its shared memory.
	static const char ended[] =
		BODY("setp.eq.u32 %p1, %r23, 1; barrier.cluster.arrive; @%p1 ret; barrier.cluster.wait;\n"
		     "mapa.shared::cluster.u32 %r2, %r25, 1; ld.shared::cluster.u32 %r3, [%r2];\n");

	machine_destroy(fails(load(beyond, 4, 4, 32), PTX_FAULT_SHARED_RANGE, "illegal load"));
	machine_destroy(fails(load(far, 4, 4, 32), PTX_FAULT_SHARED_RANGE, "illegal store"));
	machine_destroy(fails(load(outside, 4, 4, 32), PTX_FAULT_SHARED_RANGE, "illegal load"));
	machine_destroy(fails(load(ended, 4, 4, 32), PTX_FAULT_SHARED_RANGE, "illegal load"));
}

TEST(cluster_barrier_that_cannot_complete_is_a_deadlock)
{
	static const char barriers[] = BODY("setp.gt.u32 %p1, %r0, 31; @%p1 bar.sync 1, 64;\n" MEET);
	static const char polls[] = BODY("setp.eq.u32 %p1, %r23, 1; @%p1 bra POLL;\n" MEET "ret;\n"
					 "POLL: ld.volatile.shared.u32 %r1, [%r25]; setp.eq.u32 %p2, %r1, 0;\n"
					 "@%p2 bra POLL;");

	machine_destroy(fails(load(barriers, 4, 2, 64), PTX_FAULT_DEADLOCK, "waiting at their cluster's barrier"));
	machine_destroy(fails(load(polls, 4, 2, 64), PTX_FAULT_DEADLOCK, "waiting at their cluster's barrier"));
}
