// Measures how long it takes to compile a program, and to get the compiled program from the cache.
//   bench_compile [--json FILE]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <virgate/virgate.h>

#include "figures.h"

enum { WORDS = 25600, HITS = 400, COMPILATIONS = 5 };

static struct vg_program *program;
static struct vg_compile_options compile_options = {sizeof compile_options};

static void give_up(void)
{
	fprintf(stderr, "bench_compile: %s: %s\n", vg_last_error()->function, vg_last_error()->text);
	exit(1);
}

// Returns a program with one kernel and a table of 100 KiB; NULL if NVRTC is not installed.
static struct vg_program *make_program(void)
{
	static char source[WORDS * 16 + 256];
	struct vg_program_options options = {sizeof options, .arch = "sm_90"};
	struct vg_program *made;
	char *end = source + sprintf(source, "__device__ int table[%d] = {", WORDS);

	for (int i = 0; i < WORDS; i++)
		end += sprintf(end, "%d,", i * 37 % 100003);
	sprintf(end, "};\nextern \"C\" __global__ void k(int *p) { *p = table[*p]; }\n");
	enum vg_status status = vg_program_create(VG_SOURCE_CXX, source, strlen(source), &options, &made);
	if (status == VG_NOT_FOUND)
		return NULL;
	if (status)
		give_up();
	return made;
}

// Returns the microseconds that one compilation takes. *ret_size is the size of the compiled code in bytes.
static double compile(size_t *ret_size)
{
	struct timespec begin, end;
	struct vg_object_code *code;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	if (vg_program_compile(program, VG_CODE_CUBIN, &compile_options, &code))
		give_up();
	clock_gettime(CLOCK_MONOTONIC, &end);
	vg_object_code_data(code, ret_size);
	vg_object_code_destroy(code);
	return (double)(end.tv_sec - begin.tv_sec) * 1e6 + (double)(end.tv_nsec - begin.tv_nsec) / 1e3;
}

static void measure(struct bench_report *report)
{
	static double times[HITS];
	struct vg_compile_cache *cache = compile_options.cache;
	struct bench_figure compiled = {.unit = "us"}, hit = {.unit = "us", .rule = BENCH_AT_MOST, .limit = 1000};
	struct vg_compile_cache_statistics statistics;
	size_t size;

	compile_options.cache = NULL;
	for (int i = 0; i < COMPILATIONS; i++)
		times[i] = compile(&size);
	bench_figure_set(&compiled, times, COMPILATIONS);
	snprintf(compiled.what, sizeof compiled.what, "compile, cubin of %zu KiB", size >> 10);
	bench_report_add(report, &compiled);
	compile_options.cache = cache;
	compile(&size);
	for (int i = 0; i < HITS; i++)
		times[i] = compile(&size);
	bench_figure_set(&hit, times, HITS);
	snprintf(hit.what, sizeof hit.what, "compile_cache_hit, cubin of %zu KiB", size >> 10);
	bench_report_add(report, &hit);
	if (vg_compile_cache_get_statistics(cache, &statistics))
		give_up();
	if (statistics.hits != HITS || size < 100 << 10) {
		fprintf(stderr, "bench_compile: %d hits of %d, and %zu bytes\n", (int)statistics.hits, HITS, size);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct bench_report *report = bench_report_create();
	char directory[] = "/tmp/bench-compile-XXXXXX", command[64];
	struct vg_compile_cache_options cache_options = {sizeof cache_options, .path = mkdtemp(directory)};

	if (argc != 1 && !(argc == 3 && strcmp(argv[1], "--json") == 0)) {
		fprintf(stderr, "usage: bench_compile [--json FILE]\n");
		return 2;
	}
	program = make_program();
	if (!program) {
		printf("compiling was not measured: %s\n", vg_last_error()->text);
		return 0;
	}
	if (!report || vg_compile_cache_open(&cache_options, &compile_options.cache))
		give_up();
	measure(report);
	vg_compile_cache_destroy(compile_options.cache);
	vg_program_destroy(program);
	snprintf(command, sizeof command, "rm -r %s", directory);
	if (system(command))
		fprintf(stderr, "bench_compile: %s is left\n", directory);
	return bench_report_finish(report, argc == 3 ? argv[2] : NULL);
}
