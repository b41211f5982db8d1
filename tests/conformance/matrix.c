// Tests matrix instructions on registers: mma.sync in all shapes and types up to compute capability 9.0, ldmatrix,
// stmatrix, movmatrix. Results for small integers must be exact.
//
// The tolerance for other numbers is (K+1) * 2^-23 * S if the result is f32. K is the number of products, and S is the
// sum of their absolute values.
#include "conformance.h"
#include "matrix_elements.h"

struct product {
	const char *shape, *before, *after; // parts of the instruction before and after the types
	unsigned m, n, k;
	enum element a, b, c, d;
	bool by_column[2], saturates, is_and;
};

enum { WORDS = 64, LANES = 32 };

static CUdeviceptr memory;

static void need_matrices(void)
{
	int major = 0;

	need_context();
	NEED(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
	if (major < 9)
		SKIP("a device of compute capability 9.0 has all of these instructions");
	if (!memory)
		NEED(cuMemAlloc(&memory, 64 * KiB));
}

static bool is_quad(const struct product *p)
{
	return p->a == F16 && p->m == 8;
}

static unsigned elements_of_lane(const struct product *p, unsigned rows, unsigned columns)
{
	return rows * columns / (is_quad(p) ? 8 : LANES);
}

static unsigned registers_of(enum element type, unsigned count)
{
	return count * elements[type].bits / (8 * bytes_of_register(type));
}

// Computes row and column of element `i` of a lane, as PTX defines them. m8n8k4 has four matrices, other shapes have
// one.
static void place_quad(const struct product *p, char matrix, unsigned lane, unsigned i, unsigned *row, unsigned *column)
{
	unsigned upper = lane < 16 ? 0 : 4;

	if (matrix == 'a') {
		*row = (p->by_column[0] ? i % 4 : lane % 4) + upper;
		*column = p->by_column[0] ? lane % 4 : i;
	} else if (matrix == 'b') {
		*row = p->by_column[1] ? i : lane % 4;
		*column = (p->by_column[1] ? lane % 4 : i) + upper;
	} else if ((matrix == 'c' ? p->c : p->d) == F16) {
		*row = lane % 4 + upper;
		*column = i;
	} else {
		*row = (lane & 1) + (i & 2) + upper;
		*column = (i & 4) + (lane & 2) + (i & 1);
	}
}

static void place(const struct product *p, char matrix, unsigned lane, unsigned i, unsigned *row, unsigned *column)
{
	unsigned group = lane >> 2, thread = lane % 4;
	unsigned bits = elements[matrix == 'a' ? p->a : p->b].bits, packed = bits < 32 ? 32 / bits : 1, r = i / packed;

	if (is_quad(p)) {
		place_quad(p, matrix, lane, i, row, column);
	} else if (matrix == 'a') {
		*row = p->m == 16 && r % 2 ? group + 8 : group;
		*column = thread * packed + i % packed + 4 * packed * (p->m == 16 ? r / 2 : r);
	} else if (matrix == 'b') {
		*row = thread * packed + i % packed + 4 * packed * r;
		*column = group;
	} else {
		*row = i < 2 ? group : group + 8;
		*column = thread * 2 + (i & 1);
	}
}

// Appends a list of `count` registers to the text, such as {%ra0,%ra1}.
static void add_registers(char *text, size_t size, char matrix, enum element type, unsigned count)
{
	size_t used = strlen(text);

	for (unsigned i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%%%c%c%u", i ? "," : "{",
					 elements[type].registers, matrix, i);
	snprintf(text + used, size - used, "}");
}

static void add_moves(char *text, size_t size, char matrix, enum element type, unsigned count, unsigned first)
{
	size_t used = strlen(text);
	const char *kind = elements[type].registers == 'f' ? "f32" : type == F64 ? "f64" : "b32";

	used += (size_t)snprintf(text + used, size - used, "	.reg .%s %%%c%c<%u>;\n", kind, elements[type].registers,
				 matrix, count);
	for (unsigned i = 0; i < count && matrix != 'd'; i++)
		used += (size_t)snprintf(text + used, size - used, "	ld.global.%s %%%c%c%u, [%%p+%u];\n", kind,
					 elements[type].registers, matrix, i, 8 * (first + i));
}

static void add_stores(char *text, size_t size, enum element type, unsigned count, unsigned first)
{
	size_t used = strlen(text);
	const char *kind = elements[type].registers == 'f' ? "f32" : type == F64 ? "f64" : "b32";

	for (unsigned i = 0; i < count; i++)
		used += (size_t)snprintf(text + used, size - used, "	st.global.%s [%%p+%u], %%%cd%u;\n", kind,
					 8 * (first + i), elements[type].registers, i);
}

#define KERNEL_HEAD                                                                  \
	".version 8.7\n.target sm_90\n.address_size 64\n"                            \
	".visible .entry k(.param .u64 p) {\n	.reg .b64 %p, %o;\n	.reg .b32 %l;\n"   \
	"	ld.param.u64 %p, [p];\n	mov.u32 %l, %tid.x;\n	mul.wide.u32 %o, %l, 512;\n" \
	"	add.u64 %p, %p, %o;\n"

// Each lane has 64 words of 8 bytes in memory. This array has the index of the first word of A, B, C and D.
static const unsigned first_word[4] = {0, 16, 32, 48};

static void build(const struct product *p, char *text, size_t size)
{
	const enum element types[4] = {p->a, p->b, p->c, p->d};
	const unsigned counts[4] = {registers_of(p->a, elements_of_lane(p, p->m, p->k)),
				    registers_of(p->b, elements_of_lane(p, p->k, p->n)),
				    registers_of(p->c, elements_of_lane(p, p->m, p->n)),
				    registers_of(p->d, elements_of_lane(p, p->m, p->n))};

	snprintf(text, size, "%s", KERNEL_HEAD);
	for (unsigned i = 0; i < 4; i++)
		add_moves(text, size, "abcd"[i], types[i], counts[i], first_word[i]);
	size_t used = strlen(text);
	snprintf(text + used, size - used, "	mma.sync.aligned.%s.%s.%s%s.%s.%s.%s.%s%s ", p->shape,
		 p->by_column[0] ? "col" : "row", p->by_column[1] ? "col" : "row", p->before, elements[p->d].name,
		 elements[p->a].name, elements[p->b].name, elements[p->c].name, p->after);
	for (unsigned i = 0; i < 4; i++) {
		unsigned which = (i + 3) % 4; // the order is D, A, B, C
		add_registers(text, size, "abcd"[which], types[which], counts[which]);
		strcat(text, i < 3 ? ", " : ";\n");
	}
	add_stores(text, size, p->d, counts[3], first_word[3]);
	strcat(text, "	ret;\n}\n");
}

static uint64_t words[LANES][WORDS];

static void run(const char *text)
{
	void *arguments[] = {&memory};
	CUmodule module = need_module(text);

	NEED(cuMemcpyHtoD(memory, words, sizeof words));
	NEED(cuLaunchKernel(need_function(module, "k"), 1, 1, 1, LANES, 1, 1, 0, NULL, arguments, NULL));
	NEED(cuMemcpyDtoH(words, memory, sizeof words));
	NEED(cuModuleUnload(module));
}

// Returns the word that has element `i` of a lane. In memory, each register takes a word of eight bytes.
static uint64_t *word_of(unsigned lane, enum element type, unsigned which, unsigned i, unsigned *ret_index)
{
	unsigned packed = elements[type].bits < 32 ? 32 / elements[type].bits : 1;

	*ret_index = i % packed;
	return &words[lane][first_word[which] + i / packed];
}

static double numbers[4][16 * 256]; // the elements of A, B, C and D, by rows

static void draw_matrix(const struct product *p, unsigned which, enum element type, unsigned rows, unsigned columns,
			unsigned quad, bool exact)
{
	unsigned row, column, index;

	for (unsigned lane = 0; lane < LANES; lane++)
		for (unsigned i = 0; i < elements_of_lane(p, rows, columns); i++) {
			if (is_quad(p) && lane % 16 / 4 != quad)
				continue;
			uint64_t code = draw_element(type, exact), *word = word_of(lane, type, which, i, &index);
			if (which == 2 && p->saturates)
				code = draw() % 2 ? INT32_MAX - draw() % 8 : (uint32_t)INT32_MIN + draw() % 8;
			element_put(word, type, index, code);
			place(p, "abc"[which], lane, i, &row, &column);
			numbers[which][row * columns + column] = element_value(type, code);
		}
}

static struct sum sum_of(const struct product *p, unsigned row, unsigned column)
{
	double c = numbers[2][row * p->n + column];
	struct sum sum = {c, fabsl(c), p->k};

	for (unsigned k = 0; k < p->k; k++) {
		double x = numbers[0][row * p->k + k], y = numbers[1][k * p->n + column];
		long double term = p->a != B1 ? (long double)x * y : p->is_and ? x * y : x != y;
		sum.exact += term;
		sum.magnitude += fabsl(term);
	}
	return sum;
}

static void compare(const struct product *p, unsigned quad, bool exact)
{
	unsigned row, column, index, wrong = 0;

	for (unsigned lane = 0; lane < LANES; lane++)
		for (unsigned i = 0; i < elements_of_lane(p, p->m, p->n); i++) {
			if (is_quad(p) && lane % 16 / 4 != quad)
				continue;
			const uint64_t *word = word_of(lane, p->d, 3, i, &index);
			double got = element_value(p->d, element_at(word, p->d, index));
			place(p, 'd', lane, i, &row, &column);
			struct sum sum = sum_of(p, row, column);
			if (p->d == S32)
				wrong += got != as_integer(&sum, p->saturates);
			else
				wrong += !(fabsl(got - sum.exact) <= (exact ? 0 : allowed(p->d, &sum)));
		}
	assertions++;
	if (wrong)
		differ(__FILE__, __LINE__, "%s%s %s.%s.%s.%s%s, %s: %u elements are wrong", p->shape, p->before,
		       elements[p->d].name, elements[p->a].name, elements[p->b].name, elements[p->c].name, p->after,
		       exact ? "exact sums" : "rounded sums", wrong);
}

static void check(const struct product *p)
{
	// the elements of A, B, C and D for each of the four products of m8n8k4; other shapes use only the first
	static double kept[4][4][16 * 256];
	char text[16384];

	build(p, text, sizeof text);
	for (unsigned exact = 0; exact < 2; exact++) {
		memset(words, 0, sizeof words);
		for (unsigned quad = 0; quad < (is_quad(p) ? 4 : 1); quad++) {
			draw_matrix(p, 0, p->a, p->m, p->k, quad, exact);
			draw_matrix(p, 1, p->b, p->k, p->n, quad, exact);
			draw_matrix(p, 2, p->c, p->m, p->n, quad, exact);
			memcpy(kept[quad], numbers, sizeof numbers);
		}
		run(text);
		for (unsigned quad = 0; quad < (is_quad(p) ? 4 : 1); quad++) {
			memcpy(numbers, kept[quad], sizeof numbers);
			compare(p, quad, exact);
		}
	}
}

#define SHAPE(m, n, k) "m" #m "n" #n "k" #k, "", "", m, n, k
#define NORMAL {false, true}, false, false

CONFORM(halves)
{
	static const struct product products[] = {
		{SHAPE(16, 8, 8), F16, F16, F32, F32, NORMAL},	  {SHAPE(16, 8, 16), F16, F16, F32, F32, NORMAL},
		{SHAPE(16, 8, 8), F16, F16, F16, F16, NORMAL},	  {SHAPE(16, 8, 16), F16, F16, F16, F16, NORMAL},
		{SHAPE(16, 8, 8), BF16, BF16, F32, F32, NORMAL},  {SHAPE(16, 8, 16), BF16, BF16, F32, F32, NORMAL},
		{SHAPE(16, 8, 4), TF32, TF32, F32, F32, NORMAL},  {SHAPE(16, 8, 8), TF32, TF32, F32, F32, NORMAL},
		{SHAPE(16, 8, 32), E4M3, E4M3, F32, F32, NORMAL}, {SHAPE(16, 8, 32), E5M2, E4M3, F32, F32, NORMAL},
		{SHAPE(16, 8, 32), E4M3, E5M2, F32, F32, NORMAL}, {SHAPE(16, 8, 32), E5M2, E5M2, F32, F32, NORMAL},
		{SHAPE(16, 8, 16), E4M3, E5M2, F32, F32, NORMAL}, {SHAPE(16, 8, 16), E5M2, E4M3, F16, F16, NORMAL},
		{SHAPE(16, 8, 32), E4M3, E4M3, F16, F16, NORMAL},
	};

	need_matrices();
	for (size_t i = 0; i < sizeof products / sizeof *products; i++)
		check(&products[i]);
}

// Tests m8n8k4, the shape of Volta, which computes four products at once, in any layout.
CONFORM(four_products)
{
	need_matrices();
	for (unsigned i = 0; i < 8; i++) {
		enum element type = i < 4 ? F32 : F16;
		struct product p = {SHAPE(8, 8, 4), F16, F16, type, type, {i & 1, i >> 1 & 1}, false, false};
		check(&p);
	}
}

CONFORM(doubles)
{
	static const struct product products[] = {
		{SHAPE(8, 8, 4), F64, F64, F64, F64, NORMAL},
		{SHAPE(16, 8, 4), F64, F64, F64, F64, NORMAL},
		{SHAPE(16, 8, 8), F64, F64, F64, F64, NORMAL},
		{SHAPE(16, 8, 16), F64, F64, F64, F64, NORMAL},
	};

	need_matrices();
	for (size_t i = 0; i < sizeof products / sizeof *products; i++)
		check(&products[i]);
}

CONFORM(integers)
{
	static const struct {
		const char *shape;
		unsigned m, k;
		enum element type;
	} rows[] = {{"m8n8k16", 8, 16, S8}, {"m16n8k16", 16, 16, S8}, {"m16n8k32", 16, 32, S8},
		    {"m8n8k32", 8, 32, S4}, {"m16n8k32", 16, 32, S4}, {"m16n8k64", 16, 64, S4}};

	need_matrices();
	// The bits of k choose whether A and B are signed and whether the result is saturated.
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (unsigned k = 0; k < 8; k++) {
			struct product p = {rows[i].shape,
					    k & 4 ? ".satfinite" : "",
					    "",
					    rows[i].m,
					    8,
					    rows[i].k,
					    rows[i].type + (k & 1),
					    rows[i].type + (k >> 1 & 1),
					    S32,
					    S32,
					    {false, true},
					    k & 4,
					    false};
			check(&p);
		}
}

CONFORM(bits)
{
	static const struct {
		const char *shape;
		unsigned m, k;
	} rows[] = {{"m8n8k128", 8, 128}, {"m16n8k128", 16, 128}, {"m16n8k256", 16, 256}};

	need_matrices();
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		for (unsigned is_and = 0; is_and < 2; is_and++) {
			struct product p = {rows[i].shape,
					    "",
					    is_and ? ".and.popc" : ".xor.popc",
					    rows[i].m,
					    8,
					    rows[i].k,
					    B1,
					    B1,
					    S32,
					    S32,
					    {false, true},
					    false,
					    is_and};
			check(&p);
		}
}

// Puts one NaN, infinite or subnormal element into row 0 of A. All elements of B are 1, so that element appears in the
// results of row 0.
CONFORM(special_numbers)
{
	static const struct {
		enum element type;
		uint64_t code;
		unsigned k;
	} rows[] = {
		{F16, 0x7e00, 16},     {F16, 0x7c00, 16},     {F16, 0xfc00, 16},     {F16, 0x0001, 16},
		{F16, 0x83ff, 16},     {BF16, 0x7fc0, 16},    {BF16, 0xff80, 16},    {BF16, 0x0001, 16},
		{TF32, 0x7f800000, 8}, {TF32, 0x00002000, 8}, {TF32, 0x00003fff, 8}, {TF32, 0x7fffffff, 8},
		{E4M3, 0x7f, 32},      {E4M3, 0x01, 32},      {E5M2, 0x7c, 32},	     {E5M2, 0x83, 32},
	};
	char text[16384];

	need_matrices();
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct product p = {rows[i].k == 8    ? "m16n8k8"
				    : rows[i].k == 16 ? "m16n8k16"
						      : "m16n8k32",
				    "",
				    "",
				    16,
				    8,
				    rows[i].k,
				    rows[i].type,
				    rows[i].type,
				    F32,
				    F32,
				    NORMAL};
		unsigned index, row, column;
		build(&p, text, sizeof text);
		memset(words, 0, sizeof words);
		for (unsigned lane = 0; lane < LANES; lane++)
			for (unsigned e = 0; e < elements_of_lane(&p, p.k, 8); e++) {
				uint64_t *word = word_of(lane, p.b, 1, e, &index);
				element_put(word, p.b, index, element_code(p.b, 1));
			}
		uint64_t *word = word_of(0, p.a, 0, 0, &index);
		element_put(word, p.a, index, rows[i].code);
		run(text);
		double want = element_value(p.a, rows[i].code);
		for (unsigned lane = 0; lane < LANES; lane++)
			for (unsigned e = 0; e < 4; e++) {
				double got = element_value(F32, words[lane][first_word[3] + e] & UINT32_MAX);
				place(&p, 'd', lane, e, &row, &column);
				HOLDS(row ? got == 0 : isnan(want) ? isnan(got) : got == want);
			}
	}
}

// Tests ldmatrix and stmatrix. Each lane stores a row of eight 16-bit elements to shared memory, or passes the address
// of such a row.
static void check_moves(unsigned count, bool transposes, bool store)
{
	const char *registers[] = {"%v0", "%v0,%v1", "", "%v0,%v1,%v2,%v3"};
	const char *list = registers[count - 1];
	char text[4096], instruction[256];

	snprintf(instruction, sizeof instruction, "%smatrix.sync.aligned.m8n8.x%u%s.shared.b16 %s{%s}%s;",
		 store ? "st" : "ld", count, transposes ? ".trans" : "", store ? "[%s], " : "", list,
		 store ? "" : ", [%s]");
	snprintf(text, sizeof text,
		 "%s	.reg .b32 %%v<4>, %%s, %%b;\n	.shared .align 16 .b8 m[512];\n"
		 "	mov.u32 %%b, m;\n	mad.lo.u32 %%s, %%l, 16, %%b;\n"
		 // each lane reads its input: for ldmatrix, a row for shared memory; for stmatrix, the values of the
		 // registers that it stores
		 "	ld.global.v4.b32 {%%v0,%%v1,%%v2,%%v3}, [%%p];\n"
		 "	%s\n	bar.sync 0;\n	%s\n	bar.sync 0;\n	%s\n"
		 "	st.global.v4.b32 [%%p+16], {%%v0,%%v1,%%v2,%%v3};\n	ret;\n}\n",
		 KERNEL_HEAD, store ? "st.shared.v4.b32 [%s], {0,0,0,0};" : "st.shared.v4.b32 [%s], {%v0,%v1,%v2,%v3};",
		 instruction, store ? "ld.shared.v4.b32 {%v0,%v1,%v2,%v3}, [%s];" : "");
	uint16_t(*lanes)[WORDS * 4] = (uint16_t(*)[WORDS * 4]) words;
	for (unsigned lane = 0; lane < LANES; lane++)
		for (unsigned i = 0; i < 8; i++)
			lanes[lane][i] = (uint16_t)(1000 + lane * 8 + i);
	run(text);
	unsigned wrong = 0;
	for (unsigned lane = 0; lane < LANES; lane++)
		for (unsigned i = 0; i < 2 * count; i++) {
			// Each lane has two elements of matrix i / 2. They are in row lane / 4 of the matrix, or in
			// column lane / 4 if it is transposed.
			unsigned row = lane / 4, column = lane % 4 * 2 + i % 2;
			unsigned source = i / 2 * 8 + (transposes ? column : row), at = transposes ? row : column;
			unsigned got = store ? lanes[source][8 + at] : lanes[lane][8 + i];
			unsigned want = store ? lanes[lane][i] : lanes[source][at];
			wrong += got != want;
		}
	assertions++;
	if (wrong)
		differ(__FILE__, __LINE__, "%s: %u elements are wrong", instruction, wrong);
}

CONFORM(moves)
{
	need_matrices();
	for (unsigned count = 1; count <= 4; count *= 2)
		for (unsigned k = 0; k < 4; k++)
			check_moves(count, k & 1, k & 2);
}

CONFORM(transposition)
{
	static const char text[] = KERNEL_HEAD "	.reg .b32 %v, %w;\n	ld.global.b32 %v, [%p];\n"
					       "	movmatrix.sync.aligned.m8n8.trans.b16 %w, %v;\n"
					       "	st.global.b32 [%p+8], %w;\n	ret;\n}\n";

	need_matrices();
	// each element of the matrix has its own number as value; the lane has two elements of row lane / 4
	for (unsigned lane = 0; lane < LANES; lane++)
		words[lane][0] = lane * 2 | (lane * 2 + 1) << 16;
	run(text);
	for (unsigned lane = 0; lane < LANES; lane++) {
		unsigned first = lane % 4 * 2 * 8 + lane / 4;
		EQUALS(words[lane][1] & UINT32_MAX, first | (first + 8) << 16);
	}
}
