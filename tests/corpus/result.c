#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "corpus.h"

static const char *const mode_names[] = {"digest", "bits", "ulp-f16", "ulp-f32", "ulp-f64", "close-f32", "close-f64"};
enum { MODES = sizeof mode_names / sizeof *mode_names };

static uint64_t compute_digest(const uint32_t *words, size_t count)
{
	// this is the initial value of the hash FNV-1a, but here each step takes a word instead of a byte, and the last
	// value is mixed once more
	uint64_t value = 14695981039346656037u;

	for (size_t i = 0; i < count; i++)
		value = (value ^ words[i]) * 1099511628211u;
	return value ^ value >> 29;
}

void corpus_result_make(const struct corpus_case *one, const uint32_t *out, size_t words,
			struct corpus_result *ret_result)
{
	struct corpus_result result = {.mode = one->mode, .word_count = words};
	size_t parts = one->parts && words % one->parts == 0 ? one->parts : 1;

	snprintf(result.name, sizeof result.name, "%s", one->name);
	result.value_count = one->mode == CORPUS_DIGEST ? parts : words;
	result.values = calloc(result.value_count ? result.value_count : 1, sizeof *result.values);
	if (!result.values)
		abort();
	for (size_t i = 0; i < result.value_count; i++)
		result.values[i] =
			one->mode == CORPUS_DIGEST ? compute_digest(out + words / parts * i, words / parts) : out[i];
	*ret_result = result;
}

void corpus_result_finish(struct corpus_result *result)
{
	free(result->values);
}

// Maps the bits of a floating-point number to an integer. The integers have the same order as the numbers, and
// neighbouring numbers differ by one.
static int64_t order_key(uint64_t bits, unsigned width)
{
	uint64_t sign = (uint64_t)1 << (width - 1);
	return bits & sign ? -(int64_t)(bits & (sign - 1)) : (int64_t)bits;
}

static double find_ulp_distance(uint64_t got, uint64_t want, unsigned width, uint64_t infinity)
{
	uint64_t magnitude = ((uint64_t)1 << (width - 1)) - 1;
	int got_nan = (got & magnitude) > infinity, want_nan = (want & magnitude) > infinity;

	if (got_nan || want_nan)
		return got_nan == want_nan ? 0 : INFINITY;
	return fabs((double)order_key(got, width) - (double)order_key(want, width));
}

static double find_relative_distance(double got, double want)
{
	if (isnan(got) || isnan(want) || isinf(got) || isinf(want))
		return got == want || (isnan(got) && isnan(want)) ? 0 : INFINITY;
	return fabs(got - want) / fmax(1, fabs(want));
}

static double find_distance(enum corpus_mode mode, const uint64_t *got, const uint64_t *want, size_t index)
{
	uint64_t wide_got, wide_want;
	uint32_t low_got, low_want;
	float f32_got, f32_want;
	double f64_got, f64_want;

	switch (mode) {
	case CORPUS_ULP_F16:
		return find_ulp_distance(got[index / 2] >> 16 * (index & 1) & 0xffff,
					 want[index / 2] >> 16 * (index & 1) & 0xffff, 16, 0x7c00);
	case CORPUS_ULP_F32:
		return find_ulp_distance(got[index], want[index], 32, 0x7f800000);
	case CORPUS_ULP_F64:
	case CORPUS_CLOSE_F64:
		wide_got = got[2 * index] | got[2 * index + 1] << 32;
		wide_want = want[2 * index] | want[2 * index + 1] << 32;
		if (mode == CORPUS_ULP_F64)
			return find_ulp_distance(wide_got, wide_want, 64, 0x7ff0000000000000u);
		memcpy(&f64_got, &wide_got, 8);
		memcpy(&f64_want, &wide_want, 8);
		return find_relative_distance(f64_got, f64_want);
	case CORPUS_CLOSE_F32:
		low_got = (uint32_t)got[index];
		low_want = (uint32_t)want[index];
		memcpy(&f32_got, &low_got, 4);
		memcpy(&f32_want, &low_want, 4);
		return find_relative_distance((double)f32_got, (double)f32_want);
	default:
		return got[index] == want[index] ? 0 : INFINITY;
	}
}

int corpus_result_compare(const struct corpus_case *one, const struct corpus_result *got,
			  const struct corpus_result *want, char *text, size_t size)
{
	size_t numbers = got->value_count, differing = 0, first = 0;
	double worst = 0;

	if (want->mode != got->mode || want->word_count != got->word_count || want->value_count != got->value_count) {
		snprintf(text, size, "the record is of another mode or size (%s, %zu words): record anew",
			 mode_names[want->mode], want->word_count);
		return 1;
	}
	if (one->mode == CORPUS_ULP_F16)
		numbers *= 2;
	else if (one->mode == CORPUS_ULP_F64 || one->mode == CORPUS_CLOSE_F64)
		numbers /= 2;
	for (size_t i = 0; i < numbers; i++) {
		double apart = find_distance(one->mode, got->values, want->values, i);
		if (!(apart <= one->tolerance) && differing++ == 0)
			first = i;
		if (apart > worst)
			worst = apart;
	}
	if (!differing)
		return 0;
	int used = snprintf(text, size, "%zu of %zu %s differ", differing, numbers,
			    one->mode == CORPUS_DIGEST ? "digests" : "numbers");
	if (one->mode > CORPUS_BITS)
		used += snprintf(text + used, size - (size_t)used, " by up to %g (%g allowed)", worst, one->tolerance);
	used += snprintf(text + used, size - (size_t)used, ", from number %zu", first);
	// print which digests differ, since each one belongs to an instruction
	if (one->mode == CORPUS_DIGEST && numbers > 1)
		for (size_t i = first, listed = 0; i < numbers && listed < 40 && (size_t)used + 8 < size; i++)
			if (got->values[i] != want->values[i])
				used += snprintf(text + used, size - (size_t)used, "%s%zu", listed++ ? " " : ": ", i);
	return 1;
}

int corpus_write(const char *path, const char *heading, const struct corpus_result *results, size_t count)
{
	FILE *file = fopen(path, "w");

	if (!file)
		return -errno;
	fprintf(file, "# %s\n", heading);
	for (size_t k = 0; k < count; k++) {
		const struct corpus_result *one = results + k;
		fprintf(file, "%s %s %zu %zu", one->name, mode_names[one->mode], one->word_count, one->value_count);
		for (size_t i = 0; i < one->value_count; i++)
			fprintf(file, "%s%" PRIx64, i % 12 ? " " : "\n", one->values[i]);
		fputc('\n', file);
	}
	int failed = ferror(file);
	return fclose(file) || failed ? -EIO : 0;
}

static int read_result(FILE *file, const char *header, struct corpus_result *ret_result)
{
	struct corpus_result result = {0};
	unsigned mode_index = MODES;
	char mode[16];

	if (sscanf(header, "%63s %15s %zu %zu", result.name, mode, &result.word_count, &result.value_count) != 4)
		return -EINVAL;
	for (unsigned m = 0; m < MODES; m++)
		if (strcmp(mode, mode_names[m]) == 0)
			mode_index = m;
	if (mode_index == MODES || result.value_count > 1 << 20)
		return -EINVAL;
	result.mode = mode_index;
	result.values = calloc(result.value_count ? result.value_count : 1, sizeof *result.values);
	if (!result.values)
		return -ENOMEM;
	for (size_t i = 0; i < result.value_count; i++)
		if (fscanf(file, "%" SCNx64, result.values + i) != 1) {
			free(result.values);
			return -EINVAL;
		}
	*ret_result = result;
	return 0;
}

int corpus_read(const char *path, struct corpus_result **ret_results, size_t *ret_count, unsigned *ret_line)
{
	FILE *file = fopen(path, "r");
	struct corpus_result *results = NULL;
	size_t count = 0;
	char header[256];
	int r = 0;

	if (!file)
		return -errno;
	for (unsigned entry = 1; r == 0 && fgets(header, sizeof header, file); entry++) {
		if (header[0] == '#' || header[strspn(header, " \t\n")] == '\0')
			continue;
		struct corpus_result *more = realloc(results, (count + 1) * sizeof *results);
		r = more ? 0 : -ENOMEM;
		results = more ? more : results;
		if (r == 0)
			r = read_result(file, header, results + count);
		if (r == 0)
			count++;
		*ret_line = entry;
	}
	fclose(file);
	if (r < 0) {
		for (size_t i = 0; i < count; i++)
			corpus_result_finish(results + i);
		free(results);
		return r;
	}
	*ret_results = results;
	*ret_count = count;
	return 0;
}
