// Inspects the kernels of instructions.py, one for each instruction, as PTX and as machine code of every known
// architecture. The name of a kernel says what the report must be. Also inspects the library's own kernels, which must
// be clean.
#include "code/opcodes.h"
#include "code_test.h"
#include "kernels/builtin_fatbin.h"
#include "kernels/hash_fatbin.h"

static void check_kernel(const struct code_image *image, const char *file, const char *kernel, bool machine)
{
	struct code_report report = inspect_kernel(image, kernel);
	int tensor = kernel[1 + machine] - '0', mixed = kernel[4 + machine] - '0';

	CHECK(kernel[0] == 't' && kernel[3] == 'm' && kernel[6] == '_');
	if (report.tensor != (tensor ? CODE_FOUND : CODE_CLEAN) || (report.tensor_instruction[0] != 0) != tensor)
		FAIL("%s: %s: tensor: %s", file, kernel,
		     format_answer(report.tensor, report.tensor_instruction, report.reason));
	if (report.mixed != (mixed ? CODE_FOUND : CODE_CLEAN) || (report.mixed_instruction[0] != 0) != mixed)
		FAIL("%s: %s: mixed: %s", file, kernel,
		     format_answer(report.mixed, report.mixed_instruction, report.reason));
	CHECK_STR(report.reason, "");
}

static size_t check_file(const char *target, unsigned architecture, bool machine)
{
	char file[64];
	size_t size, count;

	snprintf(file, sizeof file, "instructions-%s.%s", target, machine ? "cubin" : "ptx");
	void *data = read_built_file(file, &size);
	struct code_image *image = create_image(data, size, architecture);
	free(data);
	count = code_image_kernel_count(image);
	for (size_t i = 0; i < count; i++)
		check_kernel(image, file, code_image_kernel(image, i), machine);
	CHECK(!code_image_kernel(image, count));
	code_image_destroy(image);
	return count;
}

#define LISTED(group, sm) +1
static const unsigned listed[0 CODE_ARCHITECTURES(LISTED)] = {
#define X(group, sm) sm,
	CODE_ARCHITECTURES(X)
#undef X
};

TEST(reports_agree_with_names_of_kernels)
{
	char target[16];

	for (size_t i = 0; i < sizeof listed / sizeof listed[0]; i++) {
		snprintf(target, sizeof target, "sm_%u%s", listed[i], listed[i] >= 90 ? "a" : "");
		size_t texts = check_file(target, listed[i], false);
		CHECK(texts > 20);
		CHECK_INT(check_file(target, listed[i], true), texts);
	}
}

static void check_clean(const void *fatbin, size_t size, unsigned architecture)
{
	struct code_image *image = create_image(fatbin, size, architecture);
	size_t count = code_image_kernel_count(image);

	CHECK(count > 0);
	for (size_t i = 0; i < count; i++) {
		const char *kernel = code_image_kernel(image, i);
		CHECK_TENSOR(image, kernel, "CLEAN");
		CHECK_MIXED(image, kernel, "CLEAN");
	}
	code_image_destroy(image);
}

// The library's kernels are machine code for some architectures, and for the others PTX or machine code of the same
// generation.
TEST(kernels_of_the_library_are_clean)
{
	for (size_t i = 0; i < sizeof listed / sizeof listed[0]; i++) {
		check_clean(hash_fatbin, sizeof hash_fatbin - 1, listed[i]);
		check_clean(builtin_fatbin, sizeof builtin_fatbin - 1, listed[i]);
	}
	check_clean(hash_fatbin, sizeof hash_fatbin - 1, 130);
}
