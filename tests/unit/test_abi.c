// entries.def against the toolkit: the same symbols as the stub library, each row typed as
// cuda.h declares it (checked while compiling).
#include "test.h"

#include "abi/cuda_abi.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define ENTRY(abi, api, version, stream, family, need)                                             \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&abi), VG_PFN(api, version, stream)), \
		       #abi " is not of the type its row says");
#include "abi/entries.def"

static const char *const names[] = {
#define ENTRY(abi, api, version, stream, family, need) #abi,
#include "abi/entries.def"
};

struct symbols {
	const Elf64_Sym *table;
	const char *strings;
	size_t count;
};

static struct symbols stub_symbols(void)
{
	struct stat status;
	int fd = open(STUB, O_RDONLY);
	if (fd < 0)
		SKIP("no driver stub at %s", STUB);
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
	FAIL("%s has no dynamic symbols", STUB);
}

TEST(every_symbol_of_the_stub_has_one_row)
{
	struct symbols symbols = stub_symbols();
	size_t defined = 0;

	for (size_t i = 0; i < symbols.count; i++) {
		if (symbols.table[i].st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbols.table[i].st_info) != STT_FUNC)
			continue;
		const char *name = symbols.strings + symbols.table[i].st_name;
		int rows = 0;
		for (size_t n = 0; n < VG_ENTRY_COUNT; n++)
			rows += strcmp(names[n], name) == 0;
		if (rows != 1)
			FAIL("%s stands in %d rows", name, rows);
		defined++;
	}
	CHECK_INT(defined, VG_ENTRY_COUNT);
	CHECK_INT(VG_ENTRY_COUNT, 637);
}
