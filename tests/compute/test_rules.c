// Tests compute units without tensor cores or mixed precision: which kernels they refuse, with which messages.
#include "compute_test.h"

// Defines the PTX of a kernel that first stores 7, so that a test can see whether the kernel ran.
#define KERNEL(name, body)                                                                                         \
	".visible .entry " name "(.param .u64 to)\n{\n.reg .b32 %r<8>;\n.reg .f32 %f<8>;\n.reg .b64 %d<2>;\n"      \
	"ld.param.u64 %d0, [to];\ncvta.to.global.u64 %d1, %d0;\nmov.u32 %r0, 7;\nst.global.u32 [%d1], %r0;\n" body \
	"ret;\n}\n"
#define HEAD ".version 7.8\n.target sm_75\n.address_size 64\n"
static const char tensor_text[] = HEAD KERNEL(
	"accumulates_wider",
	"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3},{%r0,%r1},{%r2},{%f0,%f1,%f2,%f3};\n")
	KERNEL("halves_alone",
	       "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r3,%r4},{%r0,%r1},{%r2},{%r3,%r4};\n");
static const char plain_text[] = HEAD KERNEL("plain", "");

struct rules {
	struct rig rig;
	struct vg_compute_unit *unit;
	vg_address to;
};

static struct rules open_rules(int no_tensor, int no_mixed, enum vg_unknown_code unknown)
{
	struct vg_compute_unit_options options = {.size = sizeof options,
						  .name = "careful",
						  .no_tensor_cores = no_tensor,
						  .no_mixed_precision = no_mixed,
						  .unknown_code = unknown};
	static const char *const texts[] = {tensor_text, plain_text};
	struct rules rules = {.rig = open_rig(NULL)};

	for (size_t i = 0; i < 2; i++) {
		struct vg_object_code *code;
		OK(vg_object_code_create(VG_CODE_PTX, texts[i], strlen(texts[i]), NULL, &code));
		OK(vg_compute_register(rules.rig.compute, code));
		vg_object_code_destroy(code);
	}
	OK(vg_compute_unit_create(rules.rig.compute, &options, &rules.unit));
	rules.to = words(rules.rig.context, 4);
	return rules;
}

static void close_rules(struct rules *rules)
{
	vg_compute_unit_destroy(rules->unit);
	free_words(rules->rig.context, rules->to);
	close_rig(&rules->rig);
}

static enum vg_status try_kernel(struct rules *rules, const char *name)
{
	struct vg_execution *execution = NULL;
	enum vg_status status =
		try_launch(rules->unit, name, 0, 1, (struct vg_argument[]){VG_ARGUMENT(rules->to)}, 1, &execution);

	if (status == VG_OK)
		vg_execution_wait(execution, 20);
	vg_execution_destroy(execution);
	return status;
}

static void check_runs(struct rules *rules, const char *name)
{
	int got = 0;

	OK(try_kernel(rules, name));
	OK(vg_compute_unit_sync_all(rules->unit, 20));
	read_words(rules->rig.context, &got, rules->to, sizeof got);
	CHECK_INT(got, 7);
}

TEST(kernels_with_tensor_cores_are_refused)
{
	struct rules rules = open_rules(1, 0, VG_UNKNOWN_CODE_REFUSE);
	struct vg_compute_unit_info info;

	OK(vg_compute_unit_info(rules.unit, &info));
	CHECK(!info.tensor_cores && info.mixed_precision);
	REFUSED(try_kernel(&rules, "accumulates_wider"), VG_POLICY, "\"accumulates_wider\" contains mma.sync");
	CHECK_CONTAINS(vg_last_error()->text, "\"careful\" may not use tensor cores");
	REFUSED(try_kernel(&rules, "halves_alone"), VG_POLICY, "\"halves_alone\" contains mma.sync");
	check_runs(&rules, "plain");
	OK(vg_compute_unit_info(rules.unit, &info));
	CHECK_INT(info.launches, 1);
	close_rules(&rules);
}

TEST(kernels_with_mixed_precision_are_refused)
{
	struct rules rules = open_rules(0, 1, VG_UNKNOWN_CODE_REFUSE);

	REFUSED(try_kernel(&rules, "accumulates_wider"), VG_POLICY, "may not use mixed precision");
	check_runs(&rules, "plain");
	// the rules allow this kernel; on a device without tensor cores, such as the simulated GPU, it fails later
	OK(try_kernel(&rules, "halves_alone"));
	close_rules(&rules);
}

// Changes apply to later submissions.
TEST(rules_apply_to_later_submissions)
{
	struct rules rules = open_rules(0, 0, VG_UNKNOWN_CODE_REFUSE);

	OK(try_kernel(&rules, "accumulates_wider"));
	OK(vg_compute_unit_set_tensor_cores(rules.unit, 0));
	REFUSED(try_kernel(&rules, "accumulates_wider"), VG_POLICY, "tensor cores");
	OK(vg_compute_unit_set_tensor_cores(rules.unit, 1));
	OK(vg_compute_unit_set_mixed_precision(rules.unit, 0));
	REFUSED(try_kernel(&rules, "accumulates_wider"), VG_POLICY, "mixed precision");
	OK(vg_compute_unit_set_mixed_precision(rules.unit, 1));
	OK(try_kernel(&rules, "accumulates_wider"));
	close_rules(&rules);
}

static void drop(void *kernel)
{
	vg_kernel_destroy(kernel);
}

// Registers a kernel that the program has loaded itself, whose code the library cannot read.
static void register_borrowed(struct rules *rules, const char *name)
{
	struct vg_object_code *code;
	struct vg_kernel *own, *borrowed;

	OK(vg_object_code_create(VG_CODE_PTX, plain_text, strlen(plain_text), NULL, &code));
	OK(vg_object_code_kernel(code, "plain", &own));
	OK(vg_kernel_borrow(vg_kernel_handle(own), NULL, own, drop, &borrowed));
	OK(vg_compute_register_kernel(rules->rig.compute, name, borrowed));
	vg_kernel_destroy(borrowed);
	vg_object_code_destroy(code);
}

TEST(unreadable_code_is_refused_or_allowed)
{
	struct rules refuses = open_rules(1, 1, VG_UNKNOWN_CODE_REFUSE);

	register_borrowed(&refuses, "borrowed");
	REFUSED(try_kernel(&refuses, "borrowed"), VG_POLICY,
		"cannot tell whether kernel \"borrowed\" uses tensor cores");
	CHECK_CONTAINS(vg_last_error()->text, "VG_UNKNOWN_CODE_ALLOW");
	OK(vg_compute_unit_set_tensor_cores(refuses.unit, 1));
	REFUSED(try_kernel(&refuses, "borrowed"), VG_POLICY, "uses mixed precision");
	OK(vg_compute_unit_set_mixed_precision(refuses.unit, 1));
	check_runs(&refuses, "borrowed");
	close_rules(&refuses);

	struct rules allows = open_rules(1, 1, VG_UNKNOWN_CODE_ALLOW);
	register_borrowed(&allows, "borrowed");
	check_runs(&allows, "borrowed");
	REFUSED(try_kernel(&allows, "halves_alone"), VG_POLICY, "tensor cores");
	close_rules(&allows);
}

// Built-in kernels need neither tensor cores nor mixed precision: the rules allow them, and only their arguments are
// refused.
TEST(builtin_kernels_are_allowed)
{
	struct vg_compute_unit_options options = {
		.size = sizeof options, .no_tensor_cores = 1, .no_mixed_precision = 1};
	struct vg_context *context = first_context();
	struct vg_compute_unit *unit;
	struct vg_compute *compute;
	char name[256];

	OK(vg_compute_create(vg_context_device(context), NULL, &compute));
	OK(vg_compute_unit_create(compute, &options, &unit));
	size_t count = vg_compute_kernel_count(compute);
	CHECK(count >= 12);
	for (size_t i = 0; i < count; i++) {
		OK(vg_compute_kernel_name(compute, i, name, sizeof name));
		REFUSED(try_launch(unit, name, 0, 1, NULL, 0, NULL), VG_INVALID, "argument");
	}
	vg_compute_unit_destroy(unit);
	vg_compute_destroy(compute);
	vg_context_destroy(context);
}
