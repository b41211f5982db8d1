#include "code/instruction.h"

#include "code/ptx_lex.h"

// Returns the length of the dot-separated part of the name that begins at *at, and moves *at past the next dot.
static size_t next_part(const char *instruction, size_t length, size_t *at, const char **ret_part)
{
	const char *part = instruction + *at, *dot = memchr(part, '.', length - *at);
	size_t size = dot ? (size_t)(dot - part) : length - *at;

	*ret_part = part;
	*at += size + (dot != NULL);
	return size;
}

bool code_ptx_tensor(const char *instruction, size_t length)
{
	static const char *const families[][2] = {{"wmma", "mma"}, {"wgmma", "mma_async"}, {"tcgen05", "mma"}};
	const char *first, *second;
	size_t at = 0, size = next_part(instruction, length, &at, &first);

	if (ptx_is_word(first, size, "mma"))
		return true;
	size_t its = next_part(instruction, length, &at, &second);
	for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
		if (ptx_is_word(first, size, families[i][0]) && ptx_is_word(second, its, families[i][1]))
			return true;
	return false;
}

enum type { NO_TYPE, F16, BF16, F32, F64, OTHER };

// Returns the type that a modifier names. For two packed numbers, such as f16x2, returns the type of one number.
static enum type type_of(const char *part, size_t size)
{
	static const struct {
		const char *name;
		enum type type;
	} types[] = {
		{"f16", F16},	 {"f16x2", F16},  {"bf16", BF16},  {"bf16x2", BF16}, {"f32", F32},
		{"f32x2", F32},	 {"f64", F64},	  {"tf32", OTHER}, {"s32", OTHER},   {"s8", OTHER},
		{"u8", OTHER},	 {"s4", OTHER},	  {"u4", OTHER},   {"b1", OTHER},    {"e4m3", OTHER},
		{"e5m2", OTHER}, {"e3m2", OTHER}, {"e2m3", OTHER}, {"e2m1", OTHER},
	};

	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		if (ptx_is_word(part, size, types[i].name))
			return types[i].type;
	return NO_TYPE;
}

// Returns whether the instruction names at most one type, and stores that type.
static bool has_one_type(const char *instruction, size_t length, enum type *ret_type)
{
	const char *part;
	size_t at = 0;

	*ret_type = NO_TYPE;
	while (at < length) {
		size_t size = next_part(instruction, length, &at, &part);
		enum type type = type_of(part, size);
		if (type != NO_TYPE && *ret_type != NO_TYPE && type != *ret_type)
			return false;
		if (type != NO_TYPE)
			*ret_type = type;
	}
	return true;
}

static bool is_arithmetic(const char *instruction, size_t length)
{
	static const char *const names[] = {"add", "sub", "mul", "mad", "fma"};
	const char *first;
	size_t at = 0, size = next_part(instruction, length, &at, &first);

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (ptx_is_word(first, size, names[i]))
			return true;
	return false;
}

bool code_ptx_mixed(const char *instruction, size_t length)
{
	enum type type;
	bool is_same = has_one_type(instruction, length, &type);

	if (code_ptx_tensor(instruction, length))
		return !is_same || (type != F16 && type != F64);
	return !is_same && is_arithmetic(instruction, length);
}
