// Makes each allocation fail once. The functions must return -ENOMEM, and must leak nothing, which the address
// sanitizer checks.
#include "code_test.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
char *__real_strndup(const char *text, size_t length);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
char *__wrap_strndup(const char *text, size_t length);

static long left = -1; // how many more allocations succeed; a negative number: all of them

static bool must_fail(void)
{
	return left >= 0 && left-- == 0;
}

void *__wrap_malloc(size_t size)
{
	return must_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	return must_fail() ? NULL : __real_calloc(count, size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
	return must_fail() ? NULL : __real_reallocarray(old, count, size);
}

char *__wrap_strndup(const char *text, size_t length)
{
	return must_fail() ? NULL : __real_strndup(text, length);
}

static int read_all(const void *data, size_t size)
{
	struct code_report report;
	struct code_image *image;

	int r = code_image_create(data, size, 90, &image);
	if (r)
		return r;
	size_t count = code_image_kernel_count(image);
	for (size_t i = 0; i < count && r == 0; i++)
		r = code_image_inspect(image, code_image_kernel(image, i), &report);
	code_image_destroy(image);
	return r;
}

TEST(each_failed_allocation_returns_enomem)
{
	static const char *const names[] = {"kernels-90.cubin", "kernels-speed.fatbin", "kernels-size.fatbin",
					    "instructions-sm_75.ptx"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		size_t size;
		void *data = read_built_file(names[i], &size);
		int r = -ENOMEM;
		long failure = 0;
		for (; r; failure++) {
			left = failure;
			r = read_all(data, size);
			bool all = left >= 0;
			left = -1;
			if (r && (r != -ENOMEM || all))
				FAIL("%s: allocation %ld fails: %d", names[i], failure, r);
		}
		CHECK(failure > 5);
		free(data);
	}
}
