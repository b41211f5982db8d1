// Kernels run to their end with the right result.
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
	struct machine *machine = load(KERNEL("add", "ld.param.u64 %rd2, [p1];\n"
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
