// Tests the registry of kernel names while each driver call fails in turn.
#include "compute/registry_read.h"
#include "core/core_fault.h"

static const char ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			  ".visible .entry one(.param .u32 a) { ret; }\n"
			  ".visible .entry two(.param .u32 a, .param .u64 b) { ret; }\n";

static struct compute_registry *registry;
static struct vg_object_code *code;
static struct compute_entry **entries;
static size_t count;

static void clean(void)
{
	for (size_t i = 0; i < count; i++)
		compute_entry_release(entries[i]);
	free(entries);
	vg_object_code_destroy(code);
	compute_registry_destroy(registry);
}

static enum vg_status make_code(void)
{
	return vg_object_code_create(VG_CODE_PTX, ptx, sizeof ptx, NULL, &code);
}

static enum vg_status read_code(void)
{
	return compute_read_code(code, 90, &entries, &count);
}

static enum vg_status make_registry(void)
{
	return compute_registry_create(90, &registry);
}

TEST(failed_registration_leaves_nothing)
{
	struct fault_subject subject = {make_code, read_code, clean};

	FAULT_EVERY_CALL(&subject, "cuLibraryLoadData", "cuLibraryGetKernelCount", "cuLibraryEnumerateKernels",
			 "cuKernelGetName", "cuKernelGetParamInfo");
}

TEST(failed_registry_creation_leaves_nothing)
{
	struct fault_subject subject = {NULL, make_registry, clean};

	FAULT_EVERY_CALL(&subject, "cuLibraryLoadData", "cuLibraryGetKernelCount", "cuLibraryEnumerateKernels",
			 "cuKernelGetName");
}
