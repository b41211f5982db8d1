// Tests valid and invalid cubins and fatbins: their kernels and calls, and which member of a fatbin is read.
#include "code_test.h"

#include <elf.h>
#include <stdint.h>

enum { FLAGS = offsetof(Elf64_Ehdr, e_flags), ABI = EI_ABIVERSION };

struct file {
	unsigned char *data;
	size_t size;
};

static struct file read_file(const char *name)
{
	struct file file;

	file.data = read_built_file(name, &file.size);
	return file;
}

static struct code_image *open_built(const char *name, unsigned architecture)
{
	struct file file = read_file(name);
	struct code_image *image = create_image(file.data, file.size, architecture);

	free(file.data);
	return image;
}

static void check_kernels(const struct code_image *image)
{
	CHECK_INT(code_image_kernel_count(image), 3);
	CHECK_STR(code_image_kernel(image, 0), "plain");
	CHECK_STR(code_image_kernel(image, 1), "prints");
	CHECK_STR(code_image_kernel(image, 2), "tensor");
	CHECK_TENSOR(image, "plain", "CLEAN");
	CHECK_MIXED(image, "prints", "CLEAN");
}

TEST(kernels_of_a_cubin_are_inspected)
{
	struct code_image *image = open_built("kernels-90.cubin", 90);

	check_kernels(image);
	CHECK_TENSOR(image, "tensor", "FOUND HMMA");
	CHECK_MIXED(image, "tensor", "FOUND HMMA");
	struct code_report report;
	CHECK_INT(code_image_inspect(image, "fibonacci", &report), -ENOENT);
	code_image_destroy(image);
}

// A function in a section of its own may be called by any kernel, so it counts for all of them.
TEST(separate_function_counts_for_all_kernels)
{
	struct code_image *image = open_built("linked.cubin", 90);

	CHECK_INT(code_image_kernel_count(image), 1);
	CHECK_TENSOR(image, "caller", "FOUND HMMA");
	CHECK_MIXED(image, "caller", "CLEAN");
	code_image_destroy(image);
	image = open_built("caller.cubin", 90);
	CHECK_TENSOR(image, "caller",
		     "UNKNOWN: it may call \"_Z11shared_codePK6__halfPS_\", which is not in this code");
	code_image_destroy(image);
}

// Tools before CUDA 13 store the architecture at another place. For code of an architecture that is not known, the
// answer is UNKNOWN.
TEST(architecture_is_read_and_unknown_ones_are_reported)
{
	struct file file = read_file("kernels-90.cubin");
	uint32_t flags;

	memcpy(&flags, file.data + FLAGS, sizeof flags);
	CHECK_INT(flags >> 8 & 0xff, 90);
	flags = 0x005a055a;
	memcpy(file.data + FLAGS, &flags, sizeof flags);
	file.data[ABI] = 7;
	struct code_image *image = create_image(file.data, file.size, 90);
	CHECK_TENSOR(image, "tensor", "FOUND HMMA");
	code_image_destroy(image);
	flags = 0x00460546;
	memcpy(file.data + FLAGS, &flags, sizeof flags);
	image = create_image(file.data, file.size, 70);
	CHECK_INT(code_image_kernel_count(image), 3);
	CHECK_TENSOR(image, "plain", "UNKNOWN: machine code of sm_70 (ABI 7), whose instructions are not known here");
	CHECK_MIXED(image, "plain", "UNKNOWN: machine code of sm_70 (ABI 7), whose instructions are not known here");
	code_image_destroy(image);
	file.data[ABI] = 9;
	image = create_image(file.data, file.size, 90);
	CHECK_TENSOR(image, "plain", "UNKNOWN: machine code of sm_0 (ABI 9), whose instructions are not known here");
	code_image_destroy(image);
	free(file.data);
}

// Reads fatbins with every compression. The member that is read is machine code of the device's generation, or else
// PTX.
TEST(best_member_of_a_fatbin_is_read)
{
	static const char *const names[] = {"kernels-none.fatbin", "kernels-speed.fatbin", "kernels-size.fatbin"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		struct file file = read_file(names[i]);
		for (unsigned architecture = 80; architecture <= 120; architecture += 10) {
			struct code_image *image = create_image(file.data, file.size, architecture);
			check_kernels(image);
			struct code_report report = inspect_kernel(image, "tensor");
			CHECK_INT(report.tensor, CODE_FOUND);
			// The fatbin has machine code for 8.0 and 9.0, and PTX for 8.0.
			CHECK_CONTAINS(report.tensor_instruction, architecture <= 90 ? "HMMA" : "wmma.mma.sync");
			code_image_destroy(image);
		}
		struct code_image *image;
		// the file has no member for this architecture
		CHECK_INT(code_image_create(file.data, file.size, 75, &image), -EBADMSG);
		free(file.data);
	}
}

TEST(code_for_a_linker_is_unknown)
{
	struct code_image *image = open_built("kernels.ltoir.fatbin", 90);

	CHECK_INT(code_image_kernel_count(image), 0);
	CHECK_TENSOR(image, "tensor", "UNKNOWN: it is for a linker (LTO-IR) and no kernel yet");
	code_image_destroy(image);
}

// Inspects data that may be invalid. The sanitizers check that nothing outside the data is accessed.
static void inspect_any(const void *data, size_t size)
{
	struct code_report report;
	struct code_image *image;
	// the data ends with its allocation, so that a sanitizer notices accesses beyond its end
	unsigned char *copy = malloc(size ? size : 1);

	memcpy(copy, data, size);
	int r = code_image_create(copy, size, 90, &image);
	free(copy);
	if (r) {
		CHECK_INT(r, -EBADMSG);
		return;
	}
	size_t count = code_image_kernel_count(image);
	for (size_t i = 0; i < count; i++)
		CHECK_INT(code_image_inspect(image, code_image_kernel(image, i), &report), 0);
	code_image_destroy(image);
}

static const char *const all[] = {"kernels-90.cubin", "kernels-none.fatbin", "kernels-speed.fatbin",
				  "kernels-size.fatbin"};

TEST(truncated_files_are_refused_or_inspected)
{
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		struct file file = read_file(all[i]);
		struct code_image *image;
		for (size_t size = 0; size < file.size; size += size < 4096 ? 7 : 131)
			inspect_any(file.data, size);
		CHECK_INT(code_image_create(file.data, 20, 90, &image), -EBADMSG);
		CHECK_INT(code_image_create(file.data, file.size / 2, 90, &image), -EBADMSG);
		free(file.data);
	}
}

TEST(flipped_bits_are_refused_or_inspected)
{
	unsigned random = 1;

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		struct file file = read_file(all[i]);
		for (int round = 0; round < 3000; round++) {
			unsigned char before[4];
			size_t at[4];
			for (int k = 0; k < 4; k++) {
				random = random * 1103515245 + 12345;
				// two of the four bytes are in the first 256, in headers with sizes and offsets
				at[k] = (random >> 8) % (k % 2 ? 256 : file.size);
				before[k] = file.data[at[k]];
				file.data[at[k]] ^= (unsigned char)(1 << (random & 7));
			}
			inspect_any(file.data, file.size);
			for (int k = 3; k >= 0; k--)
				file.data[at[k]] = before[k];
		}
		free(file.data);
	}
}

TEST(other_formats_are_refused)
{
	// nvcc's wrapper is not a fatbin, but contains a pointer to one
	unsigned char wrapper[24] = {0xb1, 0x43, 0x62, 0x46};
	Elf64_Ehdr host = {.e_ident = ELFMAG, .e_machine = EM_X86_64};
	struct code_image *image;

	host.e_ident[EI_CLASS] = ELFCLASS64;
	CHECK_INT(code_image_create(wrapper, sizeof wrapper, 90, &image), -EBADMSG);
	CHECK_INT(code_image_create(&host, sizeof host, 90, &image), -EBADMSG);
}
