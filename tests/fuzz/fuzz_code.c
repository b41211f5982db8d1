// Fuzzes the inspection of code with arbitrary bytes: PTX, cubins, fatbins with compressed members, or none of these.
// If an image can be read, the report must be consistent for each of its kernels, and for a name that is not in it.
#include "code/inspect.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_report(const struct code_report *report)
{
	bool unknown = report->tensor == CODE_UNKNOWN || report->mixed == CODE_UNKNOWN;

	if (unknown != (report->reason[0] != 0) ||
	    (report->tensor == CODE_FOUND) != (report->tensor_instruction[0] != 0) ||
	    (report->mixed == CODE_FOUND) != (report->mixed_instruction[0] != 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct code_report report;
	struct code_image *image;

	if (code_image_create(data, size, 90, &image))
		return 0;
	size_t count = code_image_kernel_count(image);
	for (size_t i = 0; i < count && i < 16; i++) {
		if (code_image_inspect(image, code_image_kernel(image, i), &report))
			abort();
		check_report(&report);
	}
	int r = code_image_inspect(image, "\x01", &report);
	if (r == 0)
		check_report(&report);
	else if (r != -ENOENT)
		abort();
	code_image_destroy(image);
	return 0;
}
