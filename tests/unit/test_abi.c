// Compares entries.def with a toolkit: the types of its rows with cuda.h (when this file is compiled), and its names
// with the symbols of the toolkit's stub of libcuda.so. entries.def is complete for CUDA 13.0. If the toolkit is newer
// and has more functions, the test prints them.
#include "test.h"

#include "abi/cuda_abi.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ENTRY(abi, api, version, stream, family, need)                                               \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&abi), VG_PFN(api, version, stream)), \
		       #abi " is not of the type its row says");
#include "abi/entries.def"

static const struct {
	const char *name;
	unsigned version;
} rows[] = {
#define ENTRY(abi, api, version, stream, family, need) {#abi, version},
#include "abi/entries.def"
};

struct symbols {
	const Elf64_Sym *table;
	const char *strings;
	size_t count;
};

static struct symbols read_symbols(const char *path)
{
	struct stat status;
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		SKIP("no driver stub at %s", path);
	CHECK(fstat(fd, &status) == 0);
	const char *file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(file != MAP_FAILED);
	const Elf64_Ehdr *header = (const void *)file;
	const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
	for (int i = 0; i < header->e_shnum; i++)
		if (sections[i].sh_type == SHT_DYNSYM)
			return (struct symbols){(const void *)(file + sections[i].sh_offset),
						file + sections[sections[i].sh_link].sh_offset,
						sections[i].sh_size / sizeof(Elf64_Sym)};
	FAIL("%s has no dynamic symbols", path);
}

// Returns the name of symbol i. Returns NULL if it is not a function, or if the library does not define it.
static const char *name_of_function(const struct symbols *symbols, size_t i)
{
	const Elf64_Sym *symbol = &symbols->table[i];

	if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC)
		return NULL;
	return symbols->strings + symbol->st_name;
}

// Counts the functions of the stub library that have no row in entries.def, and stores the name of the last one.
static size_t count_without_row(const struct symbols *symbols, const char **ret_name)
{
	size_t count = 0;

	for (size_t i = 0; i < symbols->count; i++) {
		const char *name = name_of_function(symbols, i);
		size_t row = 0;

		while (name && row < VG_ENTRY_COUNT && strcmp(rows[row].name, name) != 0)
			row++;
		if (name && row == VG_ENTRY_COUNT) {
			printf("# %s has no row in entries.def\n", name);
			*ret_name = name;
			count++;
		}
	}
	return count;
}

// Counts the rows of functions up to a version of CUDA that are missing in the stub library, and stores the name of the
// last one.
static size_t count_without_symbol(const struct symbols *symbols, unsigned version, const char **ret_name)
{
	size_t count = 0;

	for (size_t row = 0; row < VG_ENTRY_COUNT; row++) {
		size_t i = 0;
		const char *name;

		for (; i < symbols->count; i++) {
			name = name_of_function(symbols, i);
			if (name && strcmp(rows[row].name, name) == 0)
				break;
		}
		if (i == symbols->count && rows[row].version <= version) {
			*ret_name = rows[row].name;
			count++;
		}
	}
	return count;
}

TEST(rows_have_unique_names)
{
	for (size_t i = 0; i < VG_ENTRY_COUNT; i++)
		for (size_t n = 0; n < i; n++)
			if (strcmp(rows[i].name, rows[n].name) == 0)
				FAIL("%s has two rows", rows[i].name);
}

TEST(every_row_is_in_the_stub)
{
	struct symbols symbols = read_symbols(STUB);
	const char *name = NULL;

	if (count_without_symbol(&symbols, 13000, &name))
		FAIL("%s has a row and is not in %s", name, STUB);
}

TEST(every_symbol_of_the_stub_has_a_row)
{
	struct symbols symbols = read_symbols(STUB);
	const char *name = NULL;
	size_t unknown = count_without_row(&symbols, &name);

	// the toolkit is newer, so these functions are allowed; count_without_row() has printed them
	if (CUDA_VERSION / 10 > 1300)
		printf("# CUDA %d.%d has %zu entries more than 13.0\n", CUDA_VERSION / 1000, CUDA_VERSION / 10 % 100,
		       unknown);
	else if (unknown)
		FAIL("%s has no row", name);
	else
		CHECK_INT(VG_ENTRY_COUNT, 637);
}

TEST(differences_of_a_later_stub_are_found)
{
	struct symbols symbols = read_symbols(LATER_STUB);
	const char *name = NULL;

	CHECK_INT(count_without_row(&symbols, &name), 1);
	CHECK_STR(name, "cuNotYetKnown");
	CHECK_INT(count_without_symbol(&symbols, 13000, &name), 1);
	CHECK_STR(name, "cuInit");
	// Only rows up to version 1999 count here. The row of cuInit has version 2000, so it may be missing.
	CHECK_INT(count_without_symbol(&symbols, 1999, &name), 0);
}
