// Reads cubins: ELF files with a section of machine code for each kernel, and for each function that several kernels
// call. The instructions do not show which functions a kernel calls. So this file assumes that every kernel calls every
// such function. It also assumes that every kernel calls each kernel whose address is stored in memory or in other
// code.
#include "code/module.h"
#include "code/opcodes.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOL_ENTRY 0x10 // bit of st_other that marks a kernel
// ABI versions, which differ in where e_flags has the architecture.
enum { ABI_OLDER = 7, ABI_NEWER = 8 };

struct cubin {
	const unsigned char *data;
	size_t size;
	Elf64_Ehdr header;
	Elf64_Shdr names, symbols, symbol_names;
	size_t *functions; // indexed by section: 1 + index of the function whose code the section contains; 0: no code
};

// Reads the header of a section. Returns false if the section lies partly outside the file.
static bool read_section(const struct cubin *cubin, size_t index, Elf64_Shdr *ret_section)
{
	size_t offset = cubin->header.e_shoff;

	if (index >= cubin->header.e_shnum || offset > cubin->size ||
	    (cubin->size - offset) / sizeof *ret_section <= index)
		return false;
	memcpy(ret_section, cubin->data + offset + index * sizeof *ret_section, sizeof *ret_section);
	if (ret_section->sh_type == SHT_NOBITS || ret_section->sh_type == SHT_NULL)
		ret_section->sh_size = 0;
	return ret_section->sh_size == 0 ||
	       (ret_section->sh_offset <= cubin->size && ret_section->sh_size <= cubin->size - ret_section->sh_offset);
}

// Returns the name at `offset` of the string table. Returns NULL if the name is outside the table or not terminated.
static const char *read_name(const struct cubin *cubin, const Elf64_Shdr *table, size_t offset)
{
	if (offset >= table->sh_size)
		return NULL;
	const char *name = (const char *)cubin->data + table->sh_offset + offset;
	return memchr(name, 0, table->sh_size - offset) ? name : NULL;
}

static bool read_symbol(const struct cubin *cubin, size_t index, Elf64_Sym *ret_symbol)
{
	if (index >= cubin->symbols.sh_size / sizeof *ret_symbol)
		return false;
	memcpy(ret_symbol, cubin->data + cubin->symbols.sh_offset + index * sizeof *ret_symbol, sizeof *ret_symbol);
	return true;
}

static bool begins_with(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

static unsigned read_architecture(const Elf64_Ehdr *header)
{
	switch (header->e_ident[EI_ABIVERSION]) {
	case ABI_OLDER:
		return header->e_flags & 0xff;
	case ABI_NEWER:
		return header->e_flags >> 8 & 0xff;
	}
	return 0;
}

static void read_instructions(const struct cubin *cubin, const Elf64_Shdr *section, unsigned group,
			      struct code_function *function)
{
	const unsigned char *code = cubin->data + section->sh_offset;
	uint64_t words[2];
	bool tensor, mixed;

	for (size_t at = 0; section->sh_size - at >= sizeof words; at += sizeof words) {
		memcpy(words, code + at, sizeof words);
		const char *name = code_opcode(group, words[0], words[1], &tensor, &mixed);
		if (name && tensor)
			code_note(function->tensor, name, strlen(name));
		if (name && mixed)
			code_note(function->mixed, name, strlen(name));
	}
}

// Adds a function for each section of code. Assumes that every kernel calls each function that is not a kernel.
static int read_code(struct cubin *cubin, struct code_module *module, unsigned group)
{
	static const char prefix[] = ".text.";
	struct code_function *function;
	Elf64_Shdr section;

	for (size_t i = 0; i < cubin->header.e_shnum; i++) {
		const char *name =
			read_section(cubin, i, &section) ? read_name(cubin, &cubin->names, section.sh_name) : NULL;
		if (!name)
			return -EBADMSG;
		if (!begins_with(name, prefix))
			continue;
		name += sizeof prefix - 1;
		int r = code_module_add(module, name, strlen(name), &function);
		if (r)
			return r;
		function->is_called_by_all = true;
		cubin->functions[i] = module->count;
		read_instructions(cubin, &section, group, function);
	}
	return 0;
}

static struct code_function *find_function(const struct cubin *cubin, const struct code_module *module,
					   const Elf64_Sym *symbol)
{
	if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx >= cubin->header.e_shnum ||
	    !cubin->functions[symbol->st_shndx])
		return NULL;
	return &module->functions[cubin->functions[symbol->st_shndx] - 1];
}

static int read_symbols(const struct cubin *cubin, struct code_module *module)
{
	struct code_function *function;
	Elf64_Sym symbol;

	for (size_t i = 1; read_symbol(cubin, i, &symbol); i++) {
		const char *name = read_name(cubin, &cubin->symbol_names, symbol.st_name);
		if (!name)
			return -EBADMSG;
		function = find_function(cubin, module, &symbol);
		if (function && (symbol.st_other & SYMBOL_ENTRY)) {
			function->is_kernel = true;
			function->is_called_by_all = false;
		}
		if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx != SHN_UNDEF ||
		    code_is_of_driver(name, strlen(name)))
			continue;
		int r = code_module_add(module, name, strlen(name), &function);
		if (r)
			return r;
		function->is_missing = function->is_called_by_all = true;
	}
	return 0;
}

// Marks each function whose address is stored elsewhere by a relocation of the section. `size` is the size of a
// relocation.
static void read_relocations(const struct cubin *cubin, struct code_module *module, const Elf64_Shdr *section,
			     size_t size)
{
	Elf64_Rel relocation; // an Elf64_Rela begins with the same fields
	Elf64_Sym symbol;

	for (size_t at = 0; section->sh_size - at >= size; at += size) {
		memcpy(&relocation, cubin->data + section->sh_offset + at, sizeof relocation);
		if (!read_symbol(cubin, ELF64_R_SYM(relocation.r_info), &symbol) || symbol.st_shndx == section->sh_info)
			continue;
		struct code_function *function = find_function(cubin, module, &symbol);
		if (function)
			function->is_called_by_all = true;
	}
}

static int read_addresses(const struct cubin *cubin, struct code_module *module)
{
	static const char *const sections[] = {".text.", ".nv.constant", ".nv.global"};
	Elf64_Shdr section;

	for (size_t i = 0; i < cubin->header.e_shnum; i++) {
		if (!read_section(cubin, i, &section))
			return -EBADMSG;
		if (section.sh_type != SHT_REL && section.sh_type != SHT_RELA)
			continue;
		const char *name = read_name(cubin, &cubin->names, section.sh_name);
		size_t prefix = section.sh_type == SHT_REL ? strlen(".rel") : strlen(".rela");
		for (size_t k = 0; name && strlen(name) > prefix && k < sizeof sections / sizeof sections[0]; k++)
			if (begins_with(name + prefix, sections[k]))
				read_relocations(cubin, module, &section,
						 section.sh_type == SHT_REL ? sizeof(Elf64_Rel) : sizeof(Elf64_Rela));
	}
	return 0;
}

static int read_tables(struct cubin *cubin)
{
	const Elf64_Ehdr *header = &cubin->header;
	Elf64_Shdr section;

	if (header->e_shnum == 0 || header->e_shentsize != sizeof section ||
	    !read_section(cubin, header->e_shstrndx, &cubin->names))
		return -EBADMSG;
	for (size_t i = 0; i < header->e_shnum; i++) {
		if (!read_section(cubin, i, &section))
			return -EBADMSG;
		if (section.sh_type != SHT_SYMTAB)
			continue;
		cubin->symbols = section;
		return read_section(cubin, section.sh_link, &cubin->symbol_names) ? 0 : -EBADMSG;
	}
	return -EBADMSG; // a cubin without symbols names no kernels
}

int code_read_cubin(struct code_module *module, const void *data, size_t size)
{
	struct cubin cubin = {.data = data, .size = size};

	if (size < sizeof cubin.header)
		return -EBADMSG;
	memcpy(&cubin.header, data, sizeof cubin.header);
	if (memcmp(cubin.header.e_ident, ELFMAG, SELFMAG) != 0 || cubin.header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    cubin.header.e_machine != EM_CUDA)
		return -EBADMSG;
	unsigned architecture = read_architecture(&cubin.header), group = code_group(architecture);
	if (!group)
		snprintf(module->reason, sizeof module->reason,
			 "machine code of sm_%u (ABI %u), whose instructions are not known here", architecture,
			 cubin.header.e_ident[EI_ABIVERSION]);
	int r = read_tables(&cubin);
	if (r)
		return r;
	cubin.functions = calloc(cubin.header.e_shnum, sizeof *cubin.functions);
	if (!cubin.functions)
		return -ENOMEM;
	r = read_code(&cubin, module, group);
	if (r == 0)
		r = read_symbols(&cubin, module);
	if (r == 0)
		r = read_addresses(&cubin, module);
	free(cubin.functions);
	code_module_sort(module);
	return r;
}
