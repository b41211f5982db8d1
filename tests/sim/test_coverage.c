// Compares docs/simulator-coverage.md, which lists the driver functions that the simulated driver lacks, with the
// driver. With `--print`, writes that page to standard output instead.
#include "test.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <unistd.h>

#include "coverage.h"

static char table[65536];

// For each family (a column of src/abi/entries.def that groups driver functions): why some of its functions are not
// implemented.
static const struct {
	const char *family, *reason;
} reasons[] = {
	{"array", "The entries of CUDA 2, whose sizes have 32 bits."},
	{"copy", "The entries of CUDA 2, whose addresses and sizes have 32 bits."},
	{"device", "Windows, NvSciSync, and notifications of budgets that the simulated device does not have."},
	{"external", "Objects of other APIs (TIMELINE_SEMAPHORE_INTEROP_SUPPORTED says 0): there is no such API on the "
		     "simulated device."},
	{"graph", "Nodes of external semaphores."},
	{"host", "The entry of CUDA 2, whose address has 32 bits."},
	{"interop", "Mipmapped images, and the entry of CUDA 2 whose address has 32 bits."},
	{"memory", "The entries of CUDA 2, whose addresses and sizes have 32 bits."},
	{"module", "The entry of CUDA 2, whose address has 32 bits."},
	{"multicast", "MULTICAST_SUPPORTED says 0."},
	{"profiler", "NVIDIA's header marks it as deprecated."},
	{"set", "The entries of CUDA 2, whose addresses have 32 bits."},
	{"texture", "The entries of CUDA 2, whose addresses have 32 bits."},
	{"vmm", "MEM_DECOMPRESS_ALGORITHM_MASK and DMA_BUF_SUPPORTED say 0."},
};

static const char *find_reason(const char *family)
{
	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
		if (strcmp(reasons[i].family, family) == 0)
			return reasons[i].reason;
	return NULL;
}

static void make_table(void)
{
	const char *abi, *family, *last = "";
	unsigned all = 0, lacking = 0;
	char *out = table;
	bool implemented;

	for (size_t i = 0; virgate_sim_coverage(i, &abi, &family, &implemented); i++) {
		all++;
		lacking += !implemented;
	}
	out += sprintf(out,
		       "# What the simulated driver lacks\n\n"
		       "This page is for developers who run a program on the simulated driver. It implements %u of the "
		       "driver's %u functions;\n"
		       "those below return `CUDA_ERROR_NOT_SUPPORTED`. The page is the output of "
		       "`test-sim-coverage --print`.\n",
		       all - lacking, all);
	for (size_t i = 0; virgate_sim_coverage(i, &abi, &family, &implemented); i++) {
		if (implemented)
			continue;
		if (strcmp(family, last) != 0)
			out += sprintf(out, "\n## %s\n\n%s\n\n", family,
				       find_reason(family) ? find_reason(family) : "Not done yet.");
		last = family;
		out += sprintf(out, "- `%s`\n", abi);
	}
}

__attribute__((constructor)) static void print_page(int argc, char **argv)
{
	if (argc < 2 || strcmp(argv[1], "--print") != 0)
		return;
	make_table();
	fputs(table, stdout);
	fflush(stdout);
	_exit(0);
}

TEST(the_page_lists_the_missing_entries)
{
	static char page[65536];
	FILE *file = fopen(PAGE, "r");
	CHECK(file != NULL);
	page[fread(page, 1, sizeof page - 1, file)] = 0;
	fclose(file);
	make_table();
	if (strcmp(page, table) != 0)
		FAIL("%s is out of date: update it with test-sim-coverage --print", PAGE);
}

typedef int (*entry)(void);

// Calls a function that is not implemented. The driver must record the call, because the test suites find such calls by
// these records.
TEST(calls_of_missing_entries_are_recorded)
{
	char path[] = "/tmp/virgate-unimplemented-XXXXXX", text[256] = "";
	int file = mkstemp(path);
	entry lacking = (entry)dlsym(RTLD_DEFAULT, "cuProfilerInitialize"),
	      there = (entry)dlsym(RTLD_DEFAULT, "cuCtxSynchronize");

	CHECK(file >= 0 && lacking && there);
	setenv("VIRGATE_SIM_UNIMPLEMENTED", path, 1);
	(void)there();
	CHECK_INT(lacking(), 801);
	unsetenv("VIRGATE_SIM_UNIMPLEMENTED");
	CHECK_INT(lacking(), 801);
	CHECK(read(file, text, sizeof text - 1) > 0);
	CHECK_STR(text, "cuProfilerInitialize called by test-sim-coverage\n");
	close(file);
	unlink(path);
}

TEST(coverage_can_be_queried_by_name)
{
	CHECK(virgate_sim_implements("cuMemAlloc_v2"));
	CHECK(virgate_sim_implements("cuInit"));
	CHECK(!virgate_sim_implements("cuProfilerInitialize"));
	CHECK(!virgate_sim_implements("cuNothing"));
}
