// Runs the corpus on the libcuda.so.1 that the loader finds, and records or compares the outputs.
// Usage: corpus --ptx DIR (--record FILE | --compare FILE) [--times] [--keep DIR] [--without NAME]… [NAME…]
// Each NAME must be the name of a case. With --compare, a case that is not recorded fails.
// --without skips a case, or all cases of a file, which the compiler of the PTX could not compile.
// --keep writes each whole output to DIR/NAME.out, to find where two machines differ.
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct options {
	struct corpus_directories where;
	const char *record, *compare;
	const char *without[4];
	int times, without_count;
	char **names;
	int name_count;
};

static int is_wanted(const struct options *options, const char *name)
{
	for (int i = 0; i < options->name_count; i++)
		if (strcmp(options->names[i], name) == 0)
			return 1;
	return options->name_count == 0;
}

// Returns the first name that is not the name of a case, or NULL if all are.
static const char *find_unknown_name(const struct options *options)
{
	for (int i = 0; i < options->name_count; i++) {
		size_t k = 0;
		while (k < corpus_case_count && strcmp(corpus_cases[k].name, options->names[i]) != 0)
			k++;
		if (k == corpus_case_count)
			return options->names[i];
	}
	return NULL;
}

static int is_left_out(const struct options *options, const struct corpus_case *one)
{
	for (int i = 0; i < options->without_count; i++)
		if (strcmp(options->without[i], one->name) == 0 || strcmp(options->without[i], one->file) == 0)
			return 1;
	return 0;
}

static int parse_options(int argc, char **argv, struct options *options)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--ptx") == 0 && i + 1 < argc) {
			options->where.ptx = argv[++i];
		} else if (strcmp(argv[i], "--record") == 0 && i + 1 < argc) {
			options->record = argv[++i];
		} else if (strcmp(argv[i], "--compare") == 0 && i + 1 < argc) {
			options->compare = argv[++i];
		} else if (strcmp(argv[i], "--keep") == 0 && i + 1 < argc) {
			options->where.keep = argv[++i];
		} else if (strcmp(argv[i], "--without") == 0 && i + 1 < argc && options->without_count < 4) {
			options->without[options->without_count++] = argv[++i];
		} else if (strcmp(argv[i], "--times") == 0) {
			options->times = 1;
		} else if (argv[i][0] != '-') {
			options->names = argv + i;
			options->name_count = argc - i;
			break;
		} else {
			return 1;
		}
	}
	return !options->where.ptx || !options->record == !options->compare;
}

static const struct corpus_result *find_result(const struct corpus_result *results, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(results[i].name, name) == 0)
			return results + i;
	return NULL;
}

struct tally {
	unsigned passed, failed, skipped;
};

static CUresult open_device(CUdevice *ret_device, char *heading, size_t size)
{
	char name[128] = "";
	CUcontext context;
	int version = 0;
	CUresult result = cuInit(0);

	if (result == CUDA_SUCCESS)
		result = cuDeviceGet(ret_device, 0);
	if (result == CUDA_SUCCESS)
		result = cuDeviceGetName(name, sizeof name, *ret_device);
	if (result == CUDA_SUCCESS)
		result = cuDriverGetVersion(&version);
	if (result == CUDA_SUCCESS)
		result = cuDevicePrimaryCtxRetain(&context, *ret_device);
	if (result == CUDA_SUCCESS)
		result = cuCtxSetCurrent(context);
	snprintf(heading, size, "%s, driver API %d.%d", name, version / 1000, version % 1000 / 10);
	return result;
}

// Runs one case and prints its outcome. Appends its result, if there is one, to results[*count].
static void run_recorded(const struct corpus_case *one, const struct options *options, CUdevice device,
			 const struct corpus_result *want, struct corpus_result *results, size_t *count,
			 struct tally *tally)
{
	char text[2048];
	double start = now();
	int failed = corpus_run(one, &options->where, device, results + *count);

	if (failed) {
		snprintf(text, sizeof text, "%s", corpus_problem());
	} else {
		failed = want && corpus_result_compare(one, results + *count, want, text, sizeof text);
		(*count)++;
	}
	failed ? tally->failed++ : tally->passed++;
	printf("%s %s%s%s", failed ? "FAIL" : "ok", one->name, failed ? ": " : "", failed ? text : "");
	options->times ? printf(" (%.1f ms)\n", (now() - start) * 1e3) : printf("\n");
}

// Runs a case whose expected output is computed on the host. With --record, such a case is compared as well, and is not
// recorded.
static void run_with_reference(const struct corpus_case *one, const struct options *options, CUdevice device,
			       struct tally *tally)
{
	struct corpus_result want, got;
	size_t count = 0;

	corpus_reference(one, &want);
	run_recorded(one, options, device, &want, &got, &count, tally);
	if (count)
		corpus_result_finish(&got);
	corpus_result_finish(&want);
}

static void run_case(const struct corpus_case *one, const struct options *options, CUdevice device,
		     const struct corpus_result *want, struct corpus_result *results, size_t *count,
		     struct tally *tally)
{
	if (is_left_out(options, one)) {
		tally->skipped++;
		printf("skip %s: needs nvcc\n", one->name);
	} else if (one->reference) {
		run_with_reference(one, options, device, tally);
	} else if (options->compare && !want) {
		tally->failed++;
		printf("FAIL %s: not in the record: record it with record.sh\n", one->name);
	} else {
		run_recorded(one, options, device, want, results, count, tally);
	}
}

int main(int argc, char **argv)
{
	struct options options = {0};
	struct corpus_result *expected = NULL, *results = calloc(corpus_case_count, sizeof *results);
	size_t expected_count = 0, count = 0;
	struct tally tally = {0};
	unsigned line = 0;
	char heading[256];
	CUdevice device;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (parse_options(argc, argv, &options) || !results) {
		fprintf(stderr, "usage: corpus --ptx DIR (--record FILE | --compare FILE) [--times] [--keep DIR]\n"
				"              [--without NAME]... [NAME...]\n");
		return 2;
	}
	const char *unknown = find_unknown_name(&options);
	if (unknown) {
		fprintf(stderr, "corpus: no case is called %s\n", unknown);
		return 2;
	}
	int r = options.compare ? corpus_read(options.compare, &expected, &expected_count, &line) : 0;
	if (r < 0) {
		fprintf(stderr, "corpus: %s: entry %u: %s\n", options.compare, line, strerror(-r));
		return 1;
	}
	CUresult result = open_device(&device, heading, sizeof heading);
	if (result != CUDA_SUCCESS) {
		const char *name = NULL;
		cuGetErrorName(result, &name);
		fprintf(stderr, "corpus: no device: %s\n", name ? name : "an unknown error");
		return 1;
	}
	for (size_t i = 0; i < corpus_case_count; i++) {
		const struct corpus_case *one = corpus_cases + i;
		const struct corpus_result *want = find_result(expected, expected_count, one->name);
		if (is_wanted(&options, one->name))
			run_case(one, &options, device, want, results, &count, &tally);
	}
	if (options.record) {
		r = corpus_write(options.record, heading, results, count);
		if (r < 0)
			fprintf(stderr, "corpus: %s: %s\n", options.record, strerror(-r));
	}
	for (size_t i = 0; i < count; i++)
		corpus_result_finish(results + i);
	for (size_t i = 0; i < expected_count; i++)
		corpus_result_finish(expected + i);
	free(results);
	free(expected);
	printf("%u passed, %u failed, %u skipped\n", tally.passed, tally.failed, tally.skipped);
	if (tally.failed || r < 0)
		return 1;
	return tally.passed ? 0 : 77;
}
