// Tests wmma: matrices loaded from memory, multiplied and stored, in all shapes, types and layouts. CUDA does not
// document which lane has which element, so that is not tested. Results for small integers must be exact.
//
// The tolerance for other numbers is (K+1) * 2^-23 * S if the result is f32. K is the number of products, and S is the
// sum of their absolute values.
#include "conformance.h"
#include "matrix_elements.h"

struct product {
	unsigned shape[3];
	enum element a, b, c, d;
	bool by_column[4]; // the layouts of A, B, C, D
	// `before`: the operation on single bits; `after`: the end of the instruction's name, behind the types
	const char *before, *after;
	unsigned padding; // elements by which the stride exceeds a row of the matrix
	bool saturates, is_and;
	const char *rounding; // of f64
};

enum { MATRIX_BYTES = 16 << 10 };

static CUdeviceptr memory;
static _Alignas(16) uint8_t host[4][MATRIX_BYTES]; // the matrices A, B, C, D

static void need_matrices(void)
{
	int major = 0;

	need_context();
	NEED(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
	if (major < 8)
		SKIP("a device of compute capability 8.0 has all of these instructions");
	if (!memory)
		NEED(cuMemAlloc(&memory, sizeof host));
}

static enum element type_of(const struct product *p, unsigned which)
{
	const enum element types[4] = {p->a, p->b, p->c, p->d};

	return types[which];
}

// Computes the numbers of rows and columns of A, B, C or D.
static void size_of(const struct product *p, unsigned which, unsigned *ret_rows, unsigned *ret_columns)
{
	*ret_rows = p->shape[which == 1 ? 2 : 0];
	*ret_columns = p->shape[which == 0 ? 2 : 1];
}

static unsigned stride_of(const struct product *p, unsigned which)
{
	unsigned rows, columns;

	size_of(p, which, &rows, &columns);
	return (p->by_column[which] ? rows : columns) + p->padding;
}

static size_t index_of(const struct product *p, unsigned which, unsigned row, unsigned column)
{
	return p->by_column[which] ? (size_t)column * stride_of(p, which) + row
				   : (size_t)row * stride_of(p, which) + column;
}

static unsigned registers_of(const struct product *p, unsigned which)
{
	enum element type = type_of(p, which);
	unsigned rows, columns;

	size_of(p, which, &rows, &columns);
	return type == F16 && which < 2 ? 8 : rows * columns * elements[type].bits / 32 / (8 * bytes_of_register(type));
}

static void add(char **at, const char *end, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	*at += vsnprintf(*at, (size_t)(end - *at), format, arguments);
	va_end(arguments);
}

static void add_list(char **at, const char *end, const struct product *p, unsigned which)
{
	for (unsigned i = 0; i < registers_of(p, which); i++)
		add(at, end, "%s%%%c%u", i ? "," : "{", "abcd"[which], i);
	add(at, end, "}");
}

static void add_move(char **at, const char *end, const struct product *p, unsigned which)
{
	char stride[16] = "";

	// The instruction needs no stride for rows without padding.
	if (p->padding)
		snprintf(stride, sizeof stride, ", %u", stride_of(p, which));
	add(at, end, "	wmma.%s.%c.sync.aligned.%s.m%un%uk%u%s.%s ", which == 3 ? "store" : "load", "abcd"[which],
	    p -> by_column[which] ? "col" : "row", p->shape[0], p->shape[1], p->shape[2], which == 1 ? "" : ".global",
	    elements[type_of(p, which)].name);
	if (which == 3)
		add(at, end, "[%%p+%u], ", which * MATRIX_BYTES);
	add_list(at, end, p, which);
	if (which != 3)
		add(at, end, ", [%%p+%u]", which * MATRIX_BYTES);
	add(at, end, "%s;\n", stride);
}

static void build(const struct product *p, char *text, size_t size)
{
	char *at = text;
	const char *end = text + size;

	add(&at, end,
	    ".version 7.1\n.target sm_80\n.address_size 64\n"
	    ".visible .entry k(.param .u64 p) {\n	.reg .b64 %%p;\n	ld.param.u64 %%p, [p];\n");
	for (unsigned which = 0; which < 4; which++) {
		char registers = elements[type_of(p, which)].registers;
		add(&at, end, "	.reg .%s %%%c<8>;\n",
		    registers == 'f'   ? "f32"
		    : registers == 'd' ? "f64"
				       : "b32",
		    "abcd"[which]);
	}
	for (unsigned which = 0; which < 3; which++)
		add_move(&at, end, p, which);
	add(&at, end, "	wmma.mma%s.sync.aligned.%s.%s.m%un%uk%u", p->before, p->by_column[0] ? "col" : "row",
	    p->by_column[1] ? "col" : "row", p->shape[0], p->shape[1], p->shape[2]);
	add(&at, end, "%s", p->rounding ? p->rounding : "");
	if (p->a == F16)
		add(&at, end, ".%s.%s ", elements[p->d].name, elements[p->c].name);
	else
		add(&at, end, ".%s.%s.%s.%s%s ", elements[p->d].name, elements[p->a].name, elements[p->b].name,
		    elements[p->c].name, p->after);
	for (unsigned i = 0; i < 4; i++) {
		add_list(&at, end, p, (i + 3) % 4);
		add(&at, end, i < 3 ? ", " : ";\n");
	}
	add_move(&at, end, p, 3);
	add(&at, end, "	ret;\n}\n");
}

static void draw_matrix(const struct product *p, unsigned which, bool exact)
{
	unsigned rows, columns;
	enum element type = type_of(p, which);

	size_of(p, which, &rows, &columns);
	for (unsigned row = 0; row < rows; row++)
		for (unsigned column = 0; column < columns; column++) {
			uint64_t code = draw_element(type, exact);
			if (which == 2 && p->saturates)
				code = draw() % 2 ? INT32_MAX - draw() % 8 : (uint32_t)INT32_MIN + draw() % 8;
			element_put(host[which], type, index_of(p, which, row, column), code);
		}
}

static double number(const struct product *p, unsigned which, unsigned row, unsigned column)
{
	enum element type = type_of(p, which);

	return element_value(type, element_at(host[which], type, index_of(p, which, row, column)));
}

static bool is_right(const struct product *p, unsigned row, unsigned column, bool exact)
{
	double c = number(p, 2, row, column), got = number(p, 3, row, column);
	struct sum sum = {c, fabsl(c), p->shape[2]};

	for (unsigned k = 0; k < p->shape[2]; k++) {
		double x = number(p, 0, row, k), y = number(p, 1, k, column);
		long double term = p->a != B1 ? (long double)x * y : p->is_and ? x * y : x != y;
		sum.exact += term;
		sum.magnitude += fabsl(term);
	}
	if (p->d == S32)
		return got == as_integer(&sum, p->saturates);
	return fabsl(got - sum.exact) <= (exact ? 0 : allowed(p->d, &sum));
}

static void check(const struct product *p)
{
	void *arguments[] = {&memory};
	char text[8192];

	build(p, text, sizeof text);
	CUmodule module = need_module(text);
	for (unsigned exact = 0; exact < 2; exact++) {
		unsigned wrong = 0;
		memset(host, 0xa5, sizeof host);
		for (unsigned which = 0; which < 3; which++)
			draw_matrix(p, which, exact);
		NEED(cuMemcpyHtoD(memory, host, sizeof host));
		NEED(cuLaunchKernel(need_function(module, "k"), 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
		NEED(cuMemcpyDtoH(host[3], memory + 3 * MATRIX_BYTES, MATRIX_BYTES));
		for (unsigned row = 0; row < p->shape[0]; row++)
			for (unsigned column = 0; column < p->shape[1]; column++)
				wrong += !is_right(p, row, column, exact);
		assertions++;
		if (wrong)
			differ(__FILE__, __LINE__, "%u elements are wrong (%s) of %s", wrong,
			       exact ? "exact" : "rounded", strstr(text, "wmma.mma"));
		if (p->padding) // nothing is stored between the rows
			EQUALS(host[3][p->shape[p->by_column[3] ? 0 : 1] * elements[p->d].bits / 8], 0xa5);
	}
	NEED(cuModuleUnload(module));
}

// Checks all layouts, with and without padding.
static void check_layouts(struct product p, unsigned layouts)
{
	for (unsigned i = 0; i < layouts; i++) {
		for (unsigned which = 0; which < 4 && layouts > 1; which++)
			p.by_column[which] = i >> which & 1;
		p.padding = i % 3 ? 16 : 0;
		check(&p);
	}
}

static const unsigned wide[3][3] = {{16, 16, 16}, {8, 32, 16}, {32, 8, 16}};

CONFORM(halves)
{
	need_matrices();
	for (unsigned s = 0; s < 3; s++)
		for (unsigned k = 0; k < 4; k++) {
			struct product p = {{wide[s][0], wide[s][1], wide[s][2]},
					    F16,
					    F16,
					    k & 1 ? F16 : F32,
					    k & 2 ? F16 : F32,
					    {false},
					    "",
					    "",
					    0,
					    false,
					    false};
			check_layouts(p, 16);
		}
}

CONFORM(other_floats)
{
	struct product p = {{16, 16, 8}, TF32, TF32, F32, F32, {false}, "", "", 0, false, false};

	need_matrices();
	check_layouts(p, 16);
	p.a = p.b = BF16;
	for (unsigned s = 0; s < 3; s++) {
		memcpy(p.shape, wide[s], sizeof p.shape);
		check_layouts(p, 16);
	}
}

CONFORM(doubles)
{
	static const char *const roundings[] = {"", ".rn", ".rz", ".rm", ".rp"};

	need_matrices();
	for (unsigned i = 0; i < 5; i++) {
		struct product p = {{8, 8, 4}, F64, F64, F64, F64, {false}, "", "", 0, false, false};
		if (i == 0)
			check_layouts(p, 16);
		p.rounding = roundings[i];
		check(&p);
	}
}

CONFORM(bytes)
{
	need_matrices();
	for (unsigned s = 0; s < 3; s++)
		for (unsigned saturates = 0; saturates < 2; saturates++)
			for (unsigned is_signed = 0; is_signed < 2; is_signed++) {
				struct product p = {{wide[s][0], wide[s][1], wide[s][2]},
						    is_signed ? S8 : U8,
						    is_signed ? S8 : U8,
						    S32,
						    S32,
						    {false},
						    "",
						    saturates ? ".satfinite" : "",
						    0,
						    saturates,
						    false};
				check_layouts(p, 16);
			}
}

CONFORM(nibbles_and_bits)
{
	need_matrices();
	for (unsigned k = 0; k < 4; k++) { // each of C and D is stored by rows or by columns: four combinations
		struct product p = {{8, 8, 32}, S4, S4, S32, S32, {false, true, k & 1, k & 2}, "", "", 0, false, false};
		check_layouts(p, 1);
		p.saturates = true;
		p.after = ".satfinite";
		p.a = p.b = U4;
		check_layouts(p, 1);
		p.padding = 32;
		check(&p);
		p = (struct product){{8, 8, 128}, B1, B1, S32,	 S32,  {false, true, k & 1, k & 2},
				     ".xor.popc", "", 0,  false, false};
		check_layouts(p, 1);
		p.padding = 128;
		check(&p);
		p.before = ".and.popc";
		p.is_and = true;
		check(&p);
	}
}
