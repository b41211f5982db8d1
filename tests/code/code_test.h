// Helpers of the tests of src/code, which inspects code: they find the kernels that the build compiled, and format what
// was found in them.
#pragma once
#include "code/inspect.h"
#include "test.h"

#include <errno.h>
#include <stdbool.h>

// Reads a file beside the program. The caller frees it.
__attribute__((unused)) static void *read_built_file(const char *name, size_t *ret_size)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof path - 256);

	CHECK(length > 0);
	path[length] = '\0';
	strcpy(strrchr(path, '/') + 1, name);
	FILE *file = fopen(path, "r");
	if (!file)
		NO_BUILT_FILE(name);
	fseek(file, 0, SEEK_END);
	size_t size = (size_t)ftell(file);
	rewind(file);
	void *data = malloc(size + 1);
	CHECK_INT(fread(data, 1, size, file), size);
	fclose(file);
	*ret_size = size;
	return data;
}

__attribute__((unused)) static struct code_image *create_image(const void *data, size_t size, unsigned architecture)
{
	struct code_image *image;

	CHECK_INT(code_image_create(data, size, architecture, &image), 0);
	return image;
}

// Returns "CLEAN", "FOUND mma.sync" or "UNKNOWN: reason", valid until the next call.
__attribute__((unused)) static const char *format_answer(enum code_answer answer, const char *instruction,
							 const char *reason)
{
	static char text[256];

	if (answer == CODE_CLEAN)
		return "CLEAN";
	snprintf(text, sizeof text, answer == CODE_FOUND ? "FOUND %s" : "UNKNOWN: %s",
		 answer == CODE_FOUND ? instruction : reason);
	return text;
}

__attribute__((unused)) static struct code_report inspect_kernel(const struct code_image *image, const char *kernel)
{
	struct code_report report;
	int r = code_image_inspect(image, kernel, &report);

	if (r)
		FAIL("inspecting %s: %s", kernel, strerror(-r));
	return report;
}

#define CHECK_TENSOR(image, kernel, expected)                                                                   \
	do {                                                                                                    \
		struct code_report report_ = inspect_kernel(image, kernel);                                     \
		CHECK_STR(format_answer(report_.tensor, report_.tensor_instruction, report_.reason), expected); \
	} while (0)
#define CHECK_MIXED(image, kernel, expected)                                                                  \
	do {                                                                                                  \
		struct code_report report_ = inspect_kernel(image, kernel);                                   \
		CHECK_STR(format_answer(report_.mixed, report_.mixed_instruction, report_.reason), expected); \
	} while (0)
