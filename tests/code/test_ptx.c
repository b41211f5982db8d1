// Tests the inspection of PTX: spellings of instructions, and calls of functions by name, by address, by an alias or
// from outside.
#include "code_test.h"

#define HEAD ".version 8.6\n.target sm_90a\n.address_size 64\n"
#define MMA "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3},{%r0,%r1},{%r2},{%f0,%f1,%f2,%f3};\n"

static struct code_image *read_ptx(const char *text)
{
	return create_image(text, strlen(text), 90);
}

// Checks the report on a kernel with this body.
#define CHECK_BODY(text, tensor, mixed)                                                                                \
	do {                                                                                                           \
		struct code_image *image_ = read_ptx(HEAD ".visible .entry k(.param .u64 p)\n{\n" text "\nret;\n}\n"); \
		CHECK_TENSOR(image_, "k", tensor);                                                                     \
		CHECK_MIXED(image_, "k", mixed);                                                                       \
		code_image_destroy(image_);                                                                            \
	} while (0)

TEST(instructions_are_classified)
{
	CHECK_BODY("", "CLEAN", "CLEAN");
	CHECK_BODY("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {a},{b},{c},{d};",
		   "FOUND wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16", "CLEAN");
	CHECK_BODY("wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {a},{b},{c},{d};",
		   "FOUND wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32",
		   "FOUND wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32");
	CHECK_BODY("wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {a},d,e,1,1,1,0,0;",
		   "FOUND wgmma.mma_async.sync.aligned.m64n8k16.f16.f16", "CLEAN"); // the report truncates the name
	CHECK_BODY("tcgen05.mma.cta_group::1.kind::f16 [t],d,e,i,p;", "FOUND tcgen05.mma.cta_group::1.kind::f16",
		   "FOUND tcgen05.mma.cta_group::1.kind::f16");
	CHECK_BODY("tcgen05.mma.ws.cta_group::1.kind::i8 [t],d,e,i,p;", "FOUND tcgen05.mma.ws.cta_group::1.kind::i8",
		   "FOUND tcgen05.mma.ws.cta_group::1.kind::i8");
	CHECK_BODY("fma.rn.f32.f16 f,h,h,f;", "CLEAN", "FOUND fma.rn.f32.f16");
	CHECK_BODY("add.f32.bf16 f,h,f;", "CLEAN", "FOUND add.f32.bf16");
	CHECK_BODY("fma.rn.f32 a,b,c,d; fma.rn.f16x2 a,b,c,d; mad.wide.s32 a,b,c,d; cvt.f32.f16 f,h;"
		   "dp4a.s32.s32 a,b,c,d;",
		   "CLEAN", "CLEAN");
	CHECK_BODY("wmma.load.a.sync.aligned.row.m16n16k16.f16 {a},[b];"
		   "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {a},[b];"
		   "wgmma.fence.sync.aligned; tcgen05.ld.sync.aligned.32x32b.x1.b32 {a},[b]; movmatrix.sync a,b;",
		   "CLEAN", "CLEAN");
}

// Modifiers may be separate words, and statements may begin anywhere.
TEST(spellings_are_recognised)
{
	CHECK_BODY("@%p1 wmma.mma.x a;", "FOUND wmma.mma.x", "FOUND wmma.mma.x");
	CHECK_BODY("@!%p1 wmma.mma.x a;", "FOUND wmma.mma.x", "FOUND wmma.mma.x");
	CHECK_BODY("L1: wmma.mma.x a;", "FOUND wmma.mma.x", "FOUND wmma.mma.x");
	CHECK_BODY("L1:L2:@%p1 wmma.mma.x a;", "FOUND wmma.mma.x", "FOUND wmma.mma.x");
	CHECK_BODY("{{ { wmma.mma.x a; } }}", "FOUND wmma.mma.x", "FOUND wmma.mma.x");
	CHECK_BODY("wmma /* in */ .mma\n// between\n\t.x a;", "FOUND wmma.mma.x", "FOUND wmma.mma.x");
	CHECK_BODY(".reg .f32 x;wmma.mma.x a;", "FOUND wmma.mma.x", "FOUND wmma.mma.x");
	CHECK_BODY("add.s32 a,b,c;wmma.mma.x a;}{", "FOUND wmma.mma.x", "FOUND wmma.mma.x");
}

TEST(similar_text_is_clean)
{
	CHECK_BODY("// wmma.mma.x a;\n/* mma.sync a; */", "CLEAN", "CLEAN");
	CHECK_BODY(".pragma \"; wmma.mma.x a;\";", "CLEAN", "CLEAN");
	CHECK_BODY("mov.u32 a, mma;", "CLEAN", "CLEAN");
	CHECK_BODY(".reg .b32 mma; mma: add.s32 mma.x, mma.y, 1; bra mma;", "CLEAN", "CLEAN");
	CHECK_BODY("mmad.x a; wmmas.mma b; wgmma.mma_asyncs.f16 c; tcgen05.mmas d;", "CLEAN", "CLEAN");
}

TEST(called_functions_count)
{
	struct code_image *image = read_ptx(
		HEAD ".func (.param .b32 r) deep(.param .b32 x);\n"
		     ".func (.param .b32 r) shallow(.param .b32 x) { call.uni (r), deep, (x); ret; }\n"
		     ".func (.param .b32 r) deep(.param .b32 x) .noreturn { call (r), shallow, (x);\n" MMA "ret; }\n"
		     ".func harmless() { ret; }\n"
		     ".visible .entry calls(.param .u64 p) .maxntid 32, 1, 1 { { call.uni (r), shallow, (x); } ret; }\n"
		     ".visible .entry not() { call harmless; add.f32 a, b, c; ret; }\n"
		     ".visible .entry address() { mov.u64 %rd1, deep; st.global.u64 [%rd2], %rd1; ret; }\n"
		     ".alias shadow, deep;\n"
		     ".visible .entry other_name() { call.uni (r), shadow, (x); ret; }\n"
		     ".visible .entry itself() {\n" MMA "ret; }\n"
		     ".visible .entry starts() { mov.u64 %rd3, itself; ret; }\n");
	const char *const found[] = {"address", "calls", "itself", "other_name", "starts"};

	CHECK_INT(code_image_kernel_count(image), 6);
	for (size_t i = 0; i < sizeof found / sizeof found[0]; i++)
		CHECK_INT(inspect_kernel(image, found[i]).tensor, CODE_FOUND);
	CHECK_TENSOR(image, "not", "CLEAN");
	struct code_report report;
	CHECK_INT(code_image_inspect(image, "deep", &report), -ENOENT);
	CHECK_INT(code_image_inspect(image, "", &report), -ENOENT);
	code_image_destroy(image);
}

// An indirect call may reach any function of the text.
TEST(indirect_calls_count_all_functions)
{
	struct code_image *image = read_ptx(HEAD ".func hidden() {\n" MMA "ret; }\n"
						 ".entry with() { call (r), %rd1, (x), proto; ret; }\n"
						 ".entry nothing() { call %rd1, (x), proto; ret; }\n"
						 ".entry uniform() { @%p call.uni %rd1; ret; }\n"
						 ".entry direct() { call.uni other, (x); ret; }\n"
						 ".func other(.param .b32 x) { ret; }\n");

	CHECK_INT(inspect_kernel(image, "with").tensor, CODE_FOUND);
	CHECK_INT(inspect_kernel(image, "nothing").tensor, CODE_FOUND);
	CHECK_INT(inspect_kernel(image, "uniform").tensor, CODE_FOUND);
	CHECK_TENSOR(image, "direct", "CLEAN");
	code_image_destroy(image);
}

TEST(external_functions_are_unknown_except_the_drivers)
{
	struct code_image *image =
		read_ptx(HEAD ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
			      ".extern .func far();\n"
			      ".extern .func cudaGraphSetConditional(.param .u64 a, .param .b32 b);\n"
			      ".extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 a, .param .b64 b);\n"
			      ".entry decides() { call.uni cudaGraphSetConditional, (a, b); ret; }\n"
			      ".entry starts() { call.uni (r), cudaLaunchDeviceV2, (a, b); ret; }\n"
			      ".entry prints() { call.uni (r), vprintf, (a, b); ret; }\n"
			      ".entry leaves() { call.uni far; ret; }\n"
			      ".entry both() { call.uni far; " MMA " ret; }\n");

	CHECK_TENSOR(image, "prints", "CLEAN");
	CHECK_TENSOR(image, "decides", "CLEAN");
	CHECK_TENSOR(image, "starts", "UNKNOWN: it may call \"cudaLaunchDeviceV2\", which is not in this code");
	CHECK_TENSOR(image, "leaves", "UNKNOWN: it may call \"far\", which is not in this code");
	CHECK_MIXED(image, "leaves", "UNKNOWN: it may call \"far\", which is not in this code");
	struct code_report report = inspect_kernel(image, "both");
	CHECK(report.tensor == CODE_FOUND && report.mixed == CODE_FOUND && !report.reason[0]);
	code_image_destroy(image);
}

TEST(other_directives_are_skipped)
{
	struct code_image *image =
		read_ptx("\n// first a comment\n/* and another */ " HEAD
			 ".global .align 4 .b8 data[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n.global .u64 table[] = {k, k};\n"
			 ".file 1 \"/x/{y}.cu\"\n.section .debug_info { .b32 0 }\n.weak .entry k() { ret; }\n");

	CHECK_INT(code_image_kernel_count(image), 1);
	CHECK_STR(code_image_kernel(image, 0), "k");
	CHECK_TENSOR(image, "k", "CLEAN");
	code_image_destroy(image);
}

TEST(invalid_text_is_refused)
{
	static const char *const texts[] = {"",
					    "\n",
					    "k",
					    "// .version 8.0",
					    "/* .version 8.0",
					    HEAD ".entry k() { ret; ",
					    HEAD ".entry k( ",
					    HEAD ".entry ",
					    HEAD ".entry { }",
					    HEAD ".entry k() { /* ret; }",
					    HEAD ".entry k() { .pragma \"x; }",
					    HEAD ".alias a",
					    HEAD ".alias a b c;",
					    HEAD "{"};
	struct code_image *image;

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		if (code_image_create(texts[i], strlen(texts[i]), 90, &image) != -EBADMSG)
			FAIL("\"%s\" is not refused", texts[i]);
	CHECK_INT(code_image_create(NULL, 0, 90, &image), -EBADMSG);
	image = read_ptx(HEAD);
	CHECK_INT(code_image_kernel_count(image), 0);
	code_image_destroy(image);
}

// The text ends at a zero byte, as it does for the driver.
TEST(text_after_zero_byte_is_ignored)
{
	static const char text[] = HEAD ".entry k() { ret; }\0.entry later() { ret; }";
	struct code_image *image = create_image(text, sizeof text, 90);

	CHECK_INT(code_image_kernel_count(image), 1);
	code_image_destroy(image);
}
