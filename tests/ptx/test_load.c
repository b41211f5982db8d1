// Tests loading modules: errors and their log, refusals, linking, variables, properties of functions.
#include "ptx/machine.h"

static void rejects(const char *text, int status, const char *log_part)
{
	struct machine *machine = machine_create();
	int r = machine_load(machine, text);

	if (r != status)
		FAIL("status %d, not %d: %s (%s)", r, status, text, machine->log_text);
	CHECK_CONTAINS(machine->log_text, log_part);
	machine_destroy(machine);
}

TEST(syntax_errors_have_lines)
{
	rejects(KERNEL("k", "add.u32 %r1, %r2;"), PTX_SYNTAX, "line 9: error: add.u32 takes 3 operands, not 2");
	rejects(KERNEL("k", "\nfrobnicate.u32 %r1;"), PTX_SYNTAX,
		"line 10: error: unknown instruction 'frobnicate.u32'");
	rejects(KERNEL("k", "ld.global.u32 %r1, [%r2.b0];"), PTX_SYNTAX, "a part of a register is not possible here");
	rejects(KERNEL("k", "mov.u32 %r99, 1;"), PTX_SYNTAX, "register '%r99' is not declared");
	rejects(KERNEL("k", "bra NOWHERE;"), PTX_SYNTAX, "label 'NOWHERE' is not defined");
	rejects(KERNEL("k", "add.u64 %rd1, %rd1, %r1;"), PTX_SYNTAX, "too narrow");
	rejects(KERNEL("k", "ld.global.u32 %p1, [%rd1];"), PTX_SYNTAX, "line 9");
	rejects(KERNEL("k", "ld.param.u64 %rd1, [p0+4];"), PTX_SYNTAX, "beyond the parameter");
	rejects(KERNEL("k", "L: L: ret;"), PTX_SYNTAX, "'L' is already declared");
	rejects(KERNEL("k", "mov.u32 %r1, 99999999999999999999999;"), PTX_SYNTAX, "number out of range");
	rejects(KERNEL("k", "mov.u32 %r1, 0f123;"), PTX_SYNTAX, "malformed number");
	rejects(KERNEL("k", "call nobody, ();"), PTX_SYNTAX, "line 9");
	rejects(HEAD ".extern .func malloc(.param .b64 n); .entry k() { call malloc; ret; }", PTX_SYNTAX,
		"the number of arguments differs");
	rejects(KERNEL("k", "activemask.b32 %rd1;"), PTX_SYNTAX, "the destination is too wide");
	rejects(KERNEL("k", "@%r1 ret;"), PTX_SYNTAX, "a predicate register");
	rejects(KERNEL("k", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1}, [%r2];"), PTX_SYNTAX,
		"the vector has another length");
	rejects(KERNEL("k", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0}, {%r1}, "
			    "{%f0,%f1,%f2,%f3};"),
		PTX_SYNTAX, "a matrix has another number of registers");
	rejects(KERNEL("k", "wmma.load.a.sync.aligned.col.m8n8k32.s4 {%r1}, [%rd1];"), PTX_SYNTAX, "no such layout");
	rejects(KERNEL("k", "/* no end"), PTX_SYNTAX, "comment without end");
	rejects(HEAD ".visible .entry k() { ret;", PTX_SYNTAX, "before the end of the text");
	rejects(HEAD ".global .b8 x[4] = {1,2,3,4,5};", PTX_SYNTAX, "too many initializers");
	rejects(HEAD ".global .b99 x;", PTX_SYNTAX, "line 4: error: unknown type '.b99'");
	rejects(HEAD ".global .u32 x; .global .u32 x;", PTX_SYNTAX, "already declared");
	rejects(HEAD ".entry k() { ret; } .entry k() { ret; }", PTX_SYNTAX, "already defined");
	rejects("garbage", PTX_SYNTAX, "line 1");
	rejects("", PTX_SYNTAX, ".version");
}

TEST(unsupported_versions_and_targets_are_rejected)
{
	rejects(".version 9.9\n.target sm_90\n", PTX_VERSION, "9.9");
	rejects(".version 8.0\n.target sm_100\n", PTX_TARGET, "sm_100");
	rejects(".version 8.0\n.target sm_80a\n", PTX_TARGET, "sm_80a");
	struct machine *machine = machine_create();
	CHECK_INT(machine_load(machine, ".version 6.4\n.target sm_75, debug\n.address_size 64\n.entry k() { ret; }"),
		  0);
	const struct ptx_function_info *info = ptx_function_info(ptx_module_function(machine->module, "k"));
	CHECK_INT(info->ptx_version, 64);
	CHECK_INT(info->target, 75);
	machine_destroy(machine);
}

TEST(log_is_cut_at_its_capacity)
{
	char text[16] = "xxxxxxxxxxxxxxx";
	struct ptx_log log = {text, 10, 0};
	const char *source = "garbage";
	size_t length = 7;
	struct ptx_module *module;
	CHECK_INT(ptx_module_load(&source, &length, 1, 90, &log, &module), PTX_SYNTAX);
	CHECK_INT(strlen(text), 9);
	CHECK_INT(text[10], 'x');
}

TEST(refusals_name_opcode_and_line_and_concern_one_kernel)
{
	struct machine *machine = machine_create();
	CHECK_INT(machine_load(machine, HEAD
			       ".func helper() {\n.reg .b32 %r<9>; .reg .f32 %f<9>;\n"
			       "wgmma.fence.sync.aligned;\nret; }\n"
			       ".func deep() { call helper, (); ret; }\n"
			       ".visible .entry uses() { call deep, (); ret; }\n"
			       ".visible .entry tma() { .reg .b64 %rd<3>; .reg .b32 %r<3>;\n"
			       "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::"
			       "bytes [%r0], [%rd1, {%r1, %r2, %r2}], [%r2], {%r1}; ret; }\n"
			       ".visible .entry remote() { .reg .b32 %r<3>;\n"
			       "st.async.mmio.release.global.u32 [%r0], %r1; ret; }\n"
			       ".visible .entry part() { .reg .b32 %r<3>;\n"
			       "vadd.s32.s32.s32 %r0, %r1.b0, %r2.h1; ret; }\n"
			       ".visible .entry sign() { .reg .b32 %r<3>;\n"
			       "vmad.s32.s32.s32 %r0, %r1, -%r2, %r0; ret; }\n"
			       ".visible .entry sparse() { .reg .b32 %r<9>; .reg .f32 %f<9>;\n"
			       "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r1}, "
			       "{%r2,%r3}, {%f0,%f1,%f2,%f3}, %r4, 0x0; ret; }\n"
			       ".visible .entry narrow() { .reg .b32 %r<3>; cvta.to.shared.u32 %r0, %r1; ret; }\n"
			       ".visible .entry fine() { ret; }"),
		  0);
	const char *names[] = {"uses", "tma", "remote", "part", "sign", "sparse", "narrow"};
	const char *parts[] = {"line 6: instruction \"wgmma.fence.sync.aligned\" is not supported by the simulated GPU",
			       "line 11: instruction \"cp.async.bulk.tensor.3d",
			       "line 13: instruction \"st.async",
			       "line 15: instruction \"vadd.s32",
			       "line 17: instruction \"vmad.s32",
			       "line 19: instruction \"mma.sp.sync",
			       "line 20: instruction \"cvta.to.shared.u32"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		CHECK_CONTAINS(ptx_function_refusal(ptx_module_function(machine->module, names[i])), parts[i]);
		CHECK_INT(machine_run(machine, names[i], 0, 0, 0), -22);
	}
	CHECK(!ptx_function_refusal(ptx_module_function(machine->module, "fine")));
	CHECK_INT(machine_run(machine, "fine", 0, 0, 0), 0);
	machine_destroy(machine);
}

TEST(texts_resolve_each_other)
{
	const char *texts[] = {
		HEAD ".extern .global .align 4 .u32 v; .extern .func (.param .b32 r) f(.param .b32 a); .func helper() "
		     "{ ret; }\n"
		     ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2) { .reg .b32 %r<4>; .reg .b64 "
		     "%rd<4>; ld.param.u64 %rd1, [p0];\n"
		     "mov.u64 %rd2, v; ld.global.u32 %r1, [%rd2];\n"
		     "{ .param .b32 a; st.param.b32 [a], %r1; .param .b32 x; call.uni (x), f, (a); ld.param.b32 %r2, "
		     "[x]; }\n"
		     "st.global.u32 [%rd1], %r2; ret; }",
		HEAD ".visible .global .align 4 .u32 v = 20; .func helper() { ret; }\n"
		     ".visible .func (.param .b32 r) f(.param .b32 a) { .reg .b32 %r<3>; ld.param.u32 %r1, [a]; "
		     "add.u32 %r1, %r1, 3; st.param.b32 [r], %r1; ret; }",
	};
	size_t lengths[] = {strlen(texts[0]), strlen(texts[1])};
	struct machine *machine = machine_create();
	CHECK_INT(ptx_module_load(texts, lengths, 2, 90, &machine->log, &machine->module), 0);
	CHECK_INT(ptx_module_bind(machine->module, MACHINE_BASE + MACHINE_IMAGE, machine->memory + MACHINE_IMAGE), 0);
	CHECK_INT(machine_run(machine, "k", MACHINE_BASE, 0, 0), 0);
	CHECK_INT(machine_words(machine)[0], 23);
	machine_destroy(machine);
	rejects(texts[0], PTX_UNRESOLVED, "'v' is not defined");
	rejects(HEAD ".extern .func f(); .entry k() { call f, (); ret; }", PTX_UNRESOLVED, "'f' is not defined");
}

TEST(variables_and_initializers)
{
	struct machine *machine = machine_create();
	CHECK_INT(machine_load(machine, HEAD ".visible .global .align 4 .u32 a[4] = {1, 0x10, -1};\n"
					     ".global .align 8 .u64 p[2] = {a, generic(a)+8};\n"
					     ".const .align 2 .u16 m[2][3] = {{1, 2}, {3, 4, 5}};\n"
					     ".global .f64 d = 1.5; .global .f32 f = 0f3F800000;\n"
					     ".global .align 1 .b8 split[8] = {0xff(a), 0xff00(a), 0xff0000(a), 7};"),
		  0);
	uint64_t address;
	size_t size;
	CHECK(ptx_module_variable(machine->module, "a", &address, &size));
	CHECK_INT(size, 16);
	const uint32_t *a = (const uint32_t *)(uintptr_t)(address + (uint64_t)machine->space.offset);
	CHECK_INT(a[0], 1);
	CHECK_INT(a[1], 16);
	CHECK_INT(a[2], 0xffffffff);
	CHECK_INT(a[3], 0);
	uint64_t pointers, other;
	CHECK(ptx_module_variable(machine->module, "p", &pointers, &size));
	const uint64_t *p = (const uint64_t *)(uintptr_t)(pointers + (uint64_t)machine->space.offset);
	CHECK_INT(p[0], address);
	CHECK_INT(p[1], address + 8);
	CHECK(ptx_module_variable(machine->module, "m", &other, &size));
	CHECK_INT(size, 12);
	CHECK(memcmp((void *)(uintptr_t)(other + (uint64_t)machine->space.offset), (uint16_t[]){1, 2, 0, 3, 4, 5},
		     12) == 0);
	CHECK(ptx_module_variable(machine->module, "split", &other, &size));
	const uint8_t *split = (const uint8_t *)(uintptr_t)(other + (uint64_t)machine->space.offset);
	CHECK_INT(split[0] | split[1] << 8 | split[2] << 16, address & 0xffffff);
	CHECK_INT(split[3], 7);
	CHECK(!ptx_module_variable(machine->module, "nothing", &address, &size));
	machine_destroy(machine);
}

TEST(properties_of_a_function)
{
	struct machine *machine = machine_create();
	CHECK_INT(machine_load(machine, HEAD ".visible .entry k(.param .u8 a, .param .align 16 .b8 b[20], .param .u64 "
					     ".ptr .global .align 4 c)\n"
					     ".maxntid 128, 2, 1\n.minnctapersm 2\n{ .local .align 8 .b8 l[40]; "
					     ".shared .align 8 .b8 s[100]; .reg .b32 %r<3>;\n"
					     ".loc 1 2 3\nmov.u32 %r1, s; mov.u64 %rd1, l; .reg .b64 %rd<2>; ret; }"),
		  PTX_SYNTAX);
	machine_destroy(machine);
	machine = machine_create();
	CHECK_INT(machine_load(machine, HEAD ".visible .entry k(.param .u8 a, .param .align 16 .b8 b[20], .param .u64 "
					     ".ptr .global .align 4 c)\n"
					     ".maxntid 128, 2, 1\n.minnctapersm 2\n{ .local .align 8 .b8 l[40]; "
					     ".shared .align 8 .b8 s[100]; .reg .b32 %r<3>;\n"
					     ".loc 1 2 3\nmov.u32 %r1, s; ret; }\n.section .debug_str { .b8 1,2 }"),
		  0);
	const struct ptx_function_info *info = ptx_function_info(ptx_module_function_at(machine->module, 0));
	CHECK_STR(info->name, "k");
	CHECK_INT(info->parameter_count, 3);
	CHECK_INT(info->parameters[1].offset, 16);
	CHECK_INT(info->parameters[1].size, 20);
	CHECK_INT(info->parameters[2].offset, 40);
	CHECK_INT(info->parameter_bytes, 48);
	CHECK_INT(info->static_shared, 100);
	CHECK_INT(info->local, 40);
	CHECK_INT(info->max_threads, 256);
	CHECK(info->registers >= 16 && info->registers <= 255);
	machine_destroy(machine);
}
