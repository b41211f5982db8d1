// Describes the corpus: kernels of many algorithms, their inputs, and how their outputs are compared. Only one
// thread may use it.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum corpus_input {
	CORPUS_WORDS, // random
	CORPUS_F32,   // random values in [-1, 1)
	CORPUS_F64,
	CORPUS_EDGE_F32, // each edge value of the type once, such as infinities and the smallest numbers; then zeros
	CORPUS_EDGE_F64,
	CORPUS_EDGE_F16,
	CORPUS_EDGE_BF16,
	CORPUS_EDGE_U32,
	CORPUS_EDGE_U64,
};

enum corpus_mode {
	CORPUS_DIGEST,	// outputs must be equal bit for bit; their digests are recorded
	CORPUS_BITS,	// outputs must be equal bit for bit; their words are recorded
	CORPUS_ULP_F16, // numbers may differ by the tolerance in units in the last place
	CORPUS_ULP_F32,
	CORPUS_ULP_F64,
	// numbers may differ by the tolerance times the expected number, or by the tolerance if that number is less
	// than 1
	CORPUS_CLOSE_F32,
	CORPUS_CLOSE_F64,
};

enum corpus_flag {
	CORPUS_COOPERATIVE = 1,
	CORPUS_BY_VALUE = 2, // the kernel has one parameter, a structure with all values
	CORPUS_PRINTS = 4,   // the text that the kernel prints is compared instead of its output
};

struct corpus_case {
	const char *name;
	const char *file;    // without .cu
	const char *kernels; // the kernels' names; each step launches all of them, in this order
	unsigned grid[3], block[3], shared;
	unsigned n, steps;
	enum corpus_input input;
	unsigned in_words, out_words, work_words;
	enum corpus_mode mode;
	double tolerance;
	unsigned parts; // the output is divided into this many equal parts, each with its own digest; 0: one digest
	unsigned flags;
	// Computes the expected output on the host. If it is set, no output is recorded. It is only possible for
	// results that are the same on every machine, such as integers.
	void (*reference)(const uint32_t *in, uint32_t *out, size_t threads);
};

extern const struct corpus_case corpus_cases[];
extern const size_t corpus_case_count;

// Fills `words` with the case's input, which is the same on every machine.
void corpus_fill(const struct corpus_case *one, uint32_t *words);

// The outcome of a case, as it was recorded, computed on the host, or observed.
struct corpus_result {
	char name[64];
	enum corpus_mode mode;
	size_t word_count; // number of words of the output
	uint64_t *values;  // the digests, or the words, as the mode says
	size_t value_count;
};

void corpus_result_make(const struct corpus_case *one, const uint32_t *out, size_t words,
			struct corpus_result *ret_result);
// Computes the expected outcome of a case on the host, with the case's function `reference`.
void corpus_reference(const struct corpus_case *one, struct corpus_result *ret_result);
void corpus_wide_division(const uint32_t *in, uint32_t *out, size_t threads);
void corpus_carry_flags(const uint32_t *in, uint32_t *out, size_t threads);
void corpus_bulk_tiles(const uint32_t *in, uint32_t *out, size_t threads);
void corpus_cluster_histogram(const uint32_t *in, uint32_t *out, size_t threads); // reference_cluster.c
void corpus_cluster_ring(const uint32_t *in, uint32_t *out, size_t threads);
void corpus_matrix_whole(const uint32_t *in, uint32_t *out, size_t threads); // reference_matrix.c
void corpus_matrix_bytes(const uint32_t *in, uint32_t *out, size_t threads);
void corpus_matrix_floats(const uint32_t *in, uint32_t *out, size_t threads);
void corpus_matrix_doubles(const uint32_t *in, uint32_t *out, size_t threads);
void corpus_result_finish(struct corpus_result *result);
// Compares the outcome `got` with the outcome `want`. Returns 0 if they agree. Otherwise returns 1 and describes the
// first difference in `text`.
int corpus_result_compare(const struct corpus_case *one, const struct corpus_result *got,
			  const struct corpus_result *want, char *text, size_t size);

// These functions write and read a text file of results. Reading returns 0; -ENOENT; or -EINVAL, with the number of the
// invalid line in *ret_line.
int corpus_write(const char *path, const char *heading, const struct corpus_result *results, size_t count);
int corpus_read(const char *path, struct corpus_result **ret_results, size_t *ret_count, unsigned *ret_line);
