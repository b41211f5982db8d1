// Tests faults that end a kernel, and their texts.
#include "ptx/machine.h"
#include "sim/ptx/tensor_map.h"

static struct machine *fails(const char *text, enum ptx_fault_kind kind)
{
	return machine_run_to_fault(machine_with(text), kind);
}

TEST(illegal_address_names_thread_and_line)
{
	struct machine *machine = fails(
		KERNEL("k", "setp.ne.u32 %p1, %r0, 21;\n@%p1 bra END;\n\nld.global.u32 %r1, [%rd1+1048576];\nEND:"),
		PTX_FAULT_ILLEGAL_ADDRESS);
	CHECK_INT(machine->fault.address, MACHINE_BASE + 1048576);
	CHECK_INT(machine->fault.thread[0], 21);
	CHECK_INT(machine->fault.line, 12);
	CHECK_CONTAINS(machine->fault.text, "line 12");
	machine_destroy(machine);
}

TEST(permissions_are_per_granule)
{
	struct machine *machine = machine_create();
	CHECK_INT(machine_load(machine, KERNEL("k", "mul.wide.u32 %rd3, %r0, 4; add.u64 %rd4, %rd1, %rd3; "
						    "ld.global.u32 %r1, [%rd4+4064]; st.global.u32 [%rd4+4064], 1;")),
		  0);
	machine->permission[1] = 1; // the threads of lanes 8 and later may read this page, but not write to it
	CHECK_INT(machine_run(machine, "k", MACHINE_BASE, 0, 0), 1);
	CHECK_INT(machine->fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	CHECK_INT(machine->fault.thread[0], 8);
	CHECK_CONTAINS(machine->fault.text, "store");
	machine->permission[1] = 0;
	CHECK_INT(machine_run(machine, "k", MACHINE_BASE, 0, 0), 1);
	CHECK_CONTAINS(machine->fault.text, "load");
	machine->permission[1] = 3;
	CHECK_INT(machine_run(machine, "k", MACHINE_BASE, 0, 0), 0);
	machine_destroy(machine);
}

TEST(invalid_accesses_fault)
{
	machine_destroy(fails(KERNEL("k", "ld.global.u32 %r1, [%rd1+2];"), PTX_FAULT_MISALIGNED));
	machine_destroy(fails(KERNEL("k", "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+8];"), PTX_FAULT_MISALIGNED));
	machine_destroy(fails(KERNEL("k", "mov.u64 %rd2, 0; st.u32 [%rd2], 1;"), PTX_FAULT_ILLEGAL_ADDRESS));
	machine_destroy(fails(KERNEL("k", "atom.global.add.u32 %r1, [%rd1+-4], 1;"), PTX_FAULT_ILLEGAL_ADDRESS));
	machine_destroy(fails(KERNEL("k", "mov.u64 %rd2, -4; ld.global.u32 %r1, [%rd2];"), PTX_FAULT_ILLEGAL_ADDRESS));
	machine_destroy(fails(KERNEL("k", ".shared .b8 s[16]; mov.u32 %r1, s; st.shared.u32 [%r1+16], 1;"),
			      PTX_FAULT_SHARED_RANGE));
	machine_destroy(fails(KERNEL("k", ".shared .align 16 .b8 s[512]; mov.u32 %r1, s;\n"
					  "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%r1+8];"),
			      PTX_FAULT_MISALIGNED));
	machine_destroy(fails(KERNEL("k", ".shared .align 16 .b8 s[512]; mov.u32 %r1, s;\n"
					  "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1+512], {%r2};"),
			      PTX_FAULT_SHARED_RANGE));
#define WMMA_LOAD(address)                                                                                           \
	KERNEL("k", "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, [" address \
		    "], 32;")
	machine_destroy(fails(WMMA_LOAD("%rd1+2"), PTX_FAULT_MISALIGNED));
	// the last row of the matrix is outside the memory
	machine_destroy(fails(WMMA_LOAD("%rd1+1046624"), PTX_FAULT_ILLEGAL_ADDRESS));
	machine_destroy(fails(KERNEL("k", ".local .align 4 .b8 l[16]; mov.u64 %rd2, l; st.local.u32 [%rd2+16], 1;"),
			      PTX_FAULT_SHARED_RANGE));
	machine_destroy(fails(KERNEL("k", "mov.u64 %rd2, 0; call %rd2, (), q; q: .callprototype _ ();"),
			      PTX_FAULT_ILLEGAL_INSTRUCTION));
}

TEST(trap_and_assert)
{
	struct machine *machine = fails(KERNEL("k", "setp.eq.u32 %p1, %r0, 3;\n@%p1 trap;"), PTX_FAULT_TRAP);
	CHECK_INT(machine->fault.line, 10);
	CHECK_INT(machine->fault.thread[0], 3);
	machine_destroy(machine);
	machine = fails(
		HEAD
		".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 "
		"e);\n"
		".global .b8 m[4] = {120,62,48}; .global .b8 f[5] = {97,46,99,117}; .global .b8 g[4] = {107,40,41};\n"
		".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) { .reg .b64 %rd<4>;\n"
		"mov.u64 %rd1, m; mov.u64 %rd2, f; mov.u64 %rd3, g;\n"
		"{ .param .b64 a; st.param.b64 [a], %rd1; .param .b64 b; st.param.b64 [b], %rd2; .param .b32 c; "
		"st.param.b32 [c], 27;\n"
		".param .b64 d; st.param.b64 [d], %rd3; .param .b64 e; st.param.b64 [e], 1; call.uni __assertfail, (a, "
		"b, c, d, e); } ret; }",
		PTX_FAULT_ASSERT);
	CHECK_CONTAINS(machine->printed, "a.cu:27: k(): block: [0,0,0], thread: [5,0,0] Assertion `x>0` failed.\n");
	machine_destroy(machine);
}

TEST(endless_recursion_overflows_the_stack)
{
	machine_destroy(
		fails(HEAD ".func f() { call.uni f, (); ret; }\n"
			   ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) { call.uni f, (); ret; }",
		      PTX_FAULT_STACK_OVERFLOW));
	machine_destroy(
		fails(KERNEL("k", "mov.u64 %rd2, 1000000000; alloca.u64 %rd3, %rd2, 16;"), PTX_FAULT_STACK_OVERFLOW));
}

TEST(barrier_that_cannot_complete_is_a_deadlock)
{
	struct machine *machine = fails(
		KERNEL("k", "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra A;\nbar.sync 1;\nbra END;\nA: bar.sync 2;\nEND:"),
		PTX_FAULT_DEADLOCK);
	CHECK_CONTAINS(machine->fault.text, "line 11: 16 threads");
	CHECK_CONTAINS(machine->fault.text, "line 13: 16 threads");
	CHECK_CONTAINS(machine->fault.text, "waiting at barrier");
	machine_destroy(machine);
	machine = fails(
		KERNEL("k", "setp.lt.u32 %p1, %r0, 16; @%p1 bra A; bar.sync 0; bra END;\nA: bar.warp.sync -1;\nEND:"),
		PTX_FAULT_DEADLOCK);
	CHECK_CONTAINS(machine->fault.text, "waiting for lanes");
	machine_destroy(machine);
}

TEST(polling_memory_that_never_changes_is_a_deadlock)
{
	struct machine *machine = machine_create();
	CHECK_INT(machine_load(machine, KERNEL("k", "mov.u32 %r1, 1;\nATOM: atom.global.cas.b32 %r2, [%rd1], 0, %r1;\n"
						    "setp.ne.u32 %p1, %r2, 0;\n@%p1 bra ATOM;")),
		  0);
	machine->launch.grid[0] = 3;
	for (unsigned threads = 1; threads <= 2; threads++) {
		machine->launch.threads = threads;
		memset(machine->memory, 1, 4);
		CHECK_INT(machine_run(machine, "k", MACHINE_BASE, 0, 0), 1);
		CHECK_INT(machine->fault.kind, PTX_FAULT_DEADLOCK);
		CHECK_CONTAINS(machine->fault.text, "polls");
		CHECK_CONTAINS(machine->fault.text, "line 10: ");
	}
	machine_destroy(machine);
}

static uint32_t host_words[32];
static volatile int host_cancel;
static int host_reads;

static void *host_memory(void *context, uint64_t address, size_t length, bool write)
{
	(void)context;
	if (address < 4096 || address + length > 4096 + sizeof host_words || write)
		return NULL;
	if (++host_reads == 3000)
		host_cancel = 1;
	return (uint8_t *)host_words + (address - 4096);
}

TEST(polling_host_memory_is_no_deadlock_and_can_be_cancelled)
{
	struct machine *machine = machine_create();
	CHECK_INT(machine_load(machine, KERNEL("k", "mov.u64 %rd2, 4096;\nW: ld.volatile.global.u32 %r1, [%rd2]; "
						    "setp.eq.u32 %p1, %r1, 0; @%p1 bra W;")),
		  0);
	machine->space.other = host_memory;
	machine->launch.deadlock_ms = 1;
	machine->launch.cancel = &host_cancel;
	machine->launch.block[0] = 1;
	CHECK_INT(machine_run(machine, "k", MACHINE_BASE, 0, 0), 1);
	CHECK_INT(machine->fault.kind, PTX_FAULT_CANCELLED);
	CHECK(host_reads >= 3000);
	machine_destroy(machine);
}

TEST(endless_loop_can_be_cancelled)
{
	struct machine *machine = machine_create();
	static volatile int cancel = 1;
	CHECK_INT(machine_load(machine, KERNEL("k", "L: bra L;")), 0);
	machine->launch.cancel = &cancel;
	CHECK_INT(machine_run(machine, "k", 0, 0, 0), 1);
	CHECK_INT(machine->fault.kind, PTX_FAULT_CANCELLED);
	machine_destroy(machine);
}

TEST(invalid_launches_are_rejected)
{
	struct machine *machine = machine_create();
	CHECK_INT(machine_load(machine, HEAD ".visible .entry k(.param .u64 a) .reqntid 32, 2, 1 { ret; }\n"
					     ".visible .entry m(.param .u64 a) .maxntid 64, 1, 1 { ret; }"),
		  0);
	CHECK_INT(machine_run(machine, "k", 0, 0, 0), -22);
	machine->launch.block[1] = 2;
	CHECK_INT(machine_run(machine, "k", 0, 0, 0), 0);
	CHECK_INT(machine_run(machine, "m", 0, 0, 0), 0);
	machine->launch.block[1] = 3;
	CHECK_INT(machine_run(machine, "m", 0, 0, 0), -22);
	machine->launch.block[1] = 0;
	CHECK_INT(machine_run(machine, "m", 0, 0, 0), -22);
	machine->launch.block[1] = 1;
	machine->launch.grid[2] = 0;
	CHECK_INT(machine_run(machine, "m", 0, 0, 0), -22);
	machine_destroy(machine);
}

TEST(polling_the_clock_is_no_deadlock)
{
	struct machine *machine = machine_create();
	CHECK_INT(
		machine_load(
			machine,
			KERNEL("k",
			       "mov.u64 %rd2, %globaltimer;\n"
			       "W: nanosleep.u32 100; ld.volatile.global.u32 %r1, [%rd1]; mov.u64 %rd3, %globaltimer;\n"
			       "sub.u64 %rd4, %rd3, %rd2; setp.lt.u64 %p1, %rd4, 60000000; @%p1 bra W;\n"
			       "st.global.u32 [%rd1], 1;")),
		0);
	machine->launch.deadlock_ms = 30;
	CHECK_INT(machine_run(machine, "k", MACHINE_BASE, 0, 0), 0);
	CHECK_INT(machine_words(machine)[0], 1);
	machine_destroy(machine);
}

// Copies 4 by 4 words with a tensor map. The copy must fail with this fault and text.
static void check_copy(struct ptx_tensor_map map, unsigned where, enum ptx_fault_kind kind, const char *text_part)
{
	static const char text[] =
		KERNEL("k", ".shared .align 128 .b8 s[256]; .shared .align 8 .b64 bar; ld.param.u64 %rd2, [p1];\n"
			    "ld.param.u64 %rd3, [p2]; cvt.u32.u64 %r3, %rd3; mov.u32 %r1, s; add.u32 %r1, %r1, %r3;\n"
			    "setp.ne.u32 %p1, %r0, 0; @%p1 ret; mov.u32 %r2, bar; mbarrier.init.shared.b64 [%r2], 1;\n"
			    "mov.u32 %r3, 4;\n"
			    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], "
			    "[%rd2, {%r3, 2}], [%r2];");
	struct machine *machine = machine_with(text);

	memcpy(machine->memory + 65536, &map, sizeof map);
	CHECK_INT(machine_run(machine, "k", MACHINE_BASE, MACHINE_BASE + 65536, where), kind != PTX_FAULT_NONE);
	if (machine->fault.kind != kind)
		FAIL("kind %d, not %d: %s", machine->fault.kind, kind, machine->fault.text);
	CHECK_CONTAINS(machine->fault.text, text_part);
	machine_destroy(machine);
}

TEST(invalid_tensor_maps_fault)
{
	const struct ptx_tensor_map good = {.magic = PTX_TENSOR_MAGIC,
					    .kind = PTX_TENSOR_TILED,
					    .rank = 2,
					    .address = MACHINE_BASE,
					    .dim = {15, 15},
					    .element_stride = {1, 1},
					    .element_bytes = 4,
					    .stride = {64},
					    .box = {4, 4}};
#define WRONG(field, value, ...)                  \
	{                                         \
		struct ptx_tensor_map map = good; \
		map.field = (value);              \
		check_copy(map, __VA_ARGS__);     \
	}
	WRONG(rank, 2, 0, PTX_FAULT_NONE, "")
	WRONG(element_bytes, 2, 0, PTX_FAULT_ILLEGAL_INSTRUCTION, "no multiple of 16 bytes")
	WRONG(rank, 2, 16, PTX_FAULT_MISALIGNED, "misaligned box of a tensor")
	WRONG(rank, 2, 256, PTX_FAULT_ILLEGAL_ADDRESS, "illegal store of a tensor copy")
	WRONG(rank, 3, 0, PTX_FAULT_ILLEGAL_INSTRUCTION, "of another number of dimensions")
	WRONG(magic, 0, 0, PTX_FAULT_ILLEGAL_INSTRUCTION, "not encoded by cuTensorMapEncodeTiled")
	WRONG(swizzle, 3, 0, PTX_FAULT_ILLEGAL_INSTRUCTION, "swizzled or interleaved, which the simulated GPU")
	WRONG(kind, PTX_TENSOR_IM2COL, 0, PTX_FAULT_ILLEGAL_INSTRUCTION, "im2col, which the simulated GPU")
	WRONG(element_bytes, 0, 0, PTX_FAULT_ILLEGAL_INSTRUCTION, "of a type that the simulated GPU")
	WRONG(address, MACHINE_BASE + (1 << 20), 0, PTX_FAULT_ILLEGAL_ADDRESS, "illegal load of a tensor copy")
}
