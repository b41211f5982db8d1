/* Tests VG_ARGUMENTS and related macros in a program that is C11 and C++17. test_arguments.sh compiles it with every
 * installed compiler. With REFUSED, one statement must not compile. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <virgate/argument.h>

struct pair {
	int a;
	float b;
};

static int failures;

static struct pair make_pair(int a, float b)
{
	struct pair pair = {a, b};

	return pair;
}

/* Compares the values of the arguments with packed bytes. An argument points to its value. So the values must still be
 * valid here, as they must be in a launch. */
static void expect_bytes(int line, const struct vg_argument *arguments, size_t count, const void *bytes, size_t size)
{
	const char *at = (const char *)bytes;
	size_t whole = 0;

	for (size_t i = 0; i < count && whole + arguments[i].size <= size; i++) {
		if (memcmp(at + whole, arguments[i].value, arguments[i].size) != 0)
			failures += printf("FAIL line %d: argument %zu has another value\n", line, i) > 0;
		whole += arguments[i].size;
	}
	if (whole != size)
		failures += printf("FAIL line %d: the arguments have other sizes\n", line) > 0;
}

/* Compares an argument of each type with the same values in a packed structure. */
static void check_types(void)
{
	const int fixed = 5;
	volatile short changing = 7;
	char character = -1;
	bool flag = true;
	float row[3] = {1, 2, 3};
	const int matrix[2][2] = {{1, 2}, {3, 4}};
	int number = 3, *pointer = &number, calls = 0;
	const struct pair pair = {6, 7};
	struct {
		int product;
		unsigned literal;
		int *address, *pointer;
		int fixed;
		short changing;
		char character;
		int sum;
		bool flag, negated;
		float half;
		double wide;
		struct pair pair, made;
		float row[3];
		int matrix[2][2];
		char text[4];
		int calls;
	} __attribute__((packed))
	wanted = {12,	  7,	  &number,   &number,	       5,     7, -1, 0, true, false, 0.5f, 2.5,
		  {6, 7}, {8, 9}, {1, 2, 3}, {{1, 2}, {3, 4}}, "abc", 0};

	expect_bytes(__LINE__,
		     VG_ARGUMENTS(number * 4, 7u, &number, pointer, fixed, changing, character, character + 1, flag,
				  (bool)!flag, 0.5f, 2.5, pair, make_pair(8, 9), row, matrix, "abc", calls++),
		     &wanted, sizeof wanted);
	if (calls != 1)
		failures += printf("FAIL line %d: an argument was evaluated %d times\n", __LINE__, calls) > 0;
	expect_bytes(__LINE__, VG_ARGUMENTS(pair), &wanted.pair, sizeof wanted.pair);
}

static void check_most_arguments(void)
{
	int wanted[32];

	for (int i = 0; i < 32; i++)
		wanted[i] = i;
	expect_bytes(__LINE__,
		     VG_ARGUMENTS(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
				  24, 25, 26, 27, 28, 29, 30, 31),
		     wanted, sizeof wanted);
}

static void check_arrays_of_arguments(void)
{
	int number = 3, wanted[3] = {3, 4, 12};
	const int other = 4;
	int product = number * 4;
	struct vg_variable variable = VG_VARIABLE(number);
#ifdef __cplusplus
	struct vg_argument arguments[] = {VG_ARGUMENT(number), VG_ARGUMENT(other), VG_ARGUMENT(product)};
#else
	struct vg_argument arguments[] = {VG_ARGUMENT(number), VG_ARGUMENT(other), VG_ARGUMENT(number * 4)};
	struct {
		const struct vg_argument *arguments;
		size_t argument_count;
		int next;
	} work = {.arguments = VG_ARGUMENTS(number, other, product), .next = 1};

	expect_bytes(__LINE__, work.arguments, work.argument_count, wanted, sizeof wanted);
	arguments[1] = VG_ARGUMENT(other + 0);
#endif
	expect_bytes(__LINE__, arguments, 3, wanted, sizeof wanted);
	number = 8;
	expect_bytes(__LINE__, &variable.place, 1, &number, sizeof number);
}

int main(void)
{
	check_types();
	check_most_arguments();
	check_arrays_of_arguments();
#if REFUSED == 1 && defined(__cplusplus)
	struct vg_argument arguments[] = {VG_ARGUMENT(failures * 4)};
	expect_bytes(__LINE__, arguments, 1, &failures, sizeof failures);
#elif REFUSED == 2
	struct vg_variable variable = VG_VARIABLE(failures * 4);
	expect_bytes(__LINE__, &variable.place, 1, &failures, sizeof failures);
#elif REFUSED == 3 && defined(__clang__) && defined(__cplusplus)
	struct {
		const struct vg_argument *arguments;
		size_t argument_count;
	} work = {VG_ARGUMENTS(failures)};
	expect_bytes(__LINE__, work.arguments, work.argument_count, &failures, sizeof failures);
#elif REFUSED
#error "nothing to refuse in this language"
#endif
	return failures != 0;
}
