// Describes the corpus: kernels of many algorithms, their inputs, and how their outputs are compared. One thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum corpus_input {
	CORPUS_WORDS, // random
	CORPUS_F32,   // random values in [-1, 1)
	CORPUS_F64,
	CORPUS_EDGE_F32, // each edge value of the type once, then zeros
	CORPUS_EDGE_F64,
	CORPUS_EDGE_F16,
	CORPUS_EDGE_BF16,
	CORPUS_EDGE_U32,
	CORPUS_EDGE_U64,
};

enum corpus_mode {
	CORPUS_DIGEST,	// outputs are compared bit for bit, by recorded digests
	CORPUS_BITS,	// outputs are compared bit for bit, by recorded words
	CORPUS_ULP_F16, // numbers may differ by the tolerance in units in the last place
	CORPUS_ULP_F32,
	CORPUS_ULP_F64,
	CORPUS_CLOSE_F32, // numbers may differ by the tolerance times the number, or times 1 if the number is smaller
	CORPUS_CLOSE_F64,
};

enum corpus_flag {
	CORPUS_COOPERATIVE = 1,
	CORPUS_BY_VALUE = 2, // the parameters are one structure
	CORPUS_PRINTS = 4,   // the text that the kernel prints is compared, not its output
};

struct corpus_case {
	const char *name;
	const char *file;    // without .cu
	const char *kernels; // the kernels, which each step launches in this order
	unsigned grid[3], block[3], shared;
	unsigned n, steps;
	enum corpus_input input;
	unsigned in_words, out_words, work_words;
	enum corpus_mode mode;
	double tolerance;
	unsigned parts; // the number of digests, each of an equal part of the output; 0: one digest
	unsigned flags;
	// Computes the expected output on the host, in place of a recorded one. Only for results that are the same on
	// every machine, such as integers.
	void (*reference)(const uint32_t *in, uint32_t *out, size_t threads);
};

extern const struct corpus_case corpus_cases[];
extern const size_t corpus_case_count;

// Fills `words` with the case's input, which is the same on every machine.
void corpus_fill(const struct corpus_case *one, uint32_t *words);

// The recorded or computed outcome of a case.
struct corpus_result {
	char name[64];
	enum corpus_mode mode;
	size_t word_count; // number of words of the output
	uint64_t *values;  // recorded digests, or words
	size_t value_count;
};

void corpus_result_make(const struct corpus_case *one, const uint32_t *out, size_t words,
			struct corpus_result *ret_result);
// Computes the outcome with the case's reference.
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
// Compares two outcomes. Returns 0, or 1 with the first difference in `text`.
int corpus_result_compare(const struct corpus_case *one, const struct corpus_result *got,
			  const struct corpus_result *want, char *text, size_t size);

// Reads and writes a text file of results. Reading returns 0, -ENOENT, or -EINVAL with `ret_line`.
int corpus_write(const char *path, const char *heading, const struct corpus_result *results, size_t count);
int corpus_read(const char *path, struct corpus_result **ret_results, size_t *ret_count, unsigned *ret_line);
