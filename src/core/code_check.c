// Checks whether bytes look like complete code of a given type, such as cubin or PTX, before the driver reads them.
#include "abi/fatbin.h"
#include "core/error.h"
#include "core/object_code.h"

#include <elf.h>
#include <string.h>

const char *core_code_type_name(enum vg_code_type type)
{
	switch (type) {
	case VG_CODE_CUBIN:
		return "cubin";
	case VG_CODE_PTX:
		return "PTX";
	case VG_CODE_LTOIR:
		return "LTO-IR";
	case VG_CODE_FATBIN:
		return "fatbin";
	case VG_CODE_OBJECT:
		return "object";
	case VG_CODE_LIBRARY:
		return "library";
	}
	return NULL;
}

static enum vg_status fail_truncated(const char *what, uint64_t needed, size_t size)
{
	return vg_fail(VG_INVALID, 0, "the %s is cut short: it says that it has %llu bytes or more, and %zu are there",
		       what, (unsigned long long)needed, size);
}

static enum vg_status check_cubin(const void *data, size_t size)
{
	Elf64_Ehdr header;
	Elf64_Shdr section;

	if (size < sizeof header || memcmp(data, ELFMAG, SELFMAG) != 0)
		return vg_fail(VG_INVALID, 0, "%zu bytes are no cubin: a cubin is an ELF file of 64 bits for a GPU",
			       size);
	memcpy(&header, data, sizeof header);
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_CUDA ||
	    (header.e_shnum && header.e_shentsize != sizeof section))
		return vg_fail(VG_INVALID, 0, "%zu bytes are no cubin: a cubin is an ELF file of 64 bits for a GPU",
			       size);
	uint64_t end = header.e_phoff + (uint64_t)header.e_phnum * header.e_phentsize;
	if (header.e_phoff > size || end > size)
		return fail_truncated("cubin", end, size);
	end = header.e_shoff + (uint64_t)header.e_shnum * sizeof section;
	if (header.e_shoff > size || end > size)
		return fail_truncated("cubin", end, size);
	for (unsigned i = 0; i < header.e_shnum; i++) {
		memcpy(&section, (const char *)data + header.e_shoff + i * sizeof section, sizeof section);
		if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL)
			continue;
		if (section.sh_offset > size || section.sh_size > size - section.sh_offset)
			return fail_truncated("cubin", section.sh_offset + section.sh_size, size);
	}
	return VG_OK;
}

static enum vg_status check_fatbin(const void *data, size_t size)
{
	struct fatbin_container header;

	if (size >= sizeof header)
		memcpy(&header, data, sizeof header);
	if (size < sizeof header || header.magic != FATBIN_MAGIC || header.header_size < sizeof header)
		return vg_fail(VG_INVALID, 0, "%zu bytes are no fatbin: one begins with 0x%x", size, FATBIN_MAGIC);
	if (header.header_size > size || header.size > size - header.header_size)
		return fail_truncated("fatbin", header.size + header.header_size, size);
	return VG_OK;
}

enum vg_status core_code_check(enum vg_code_type type, const void *data, size_t size)
{
	if (size == 0 || (type == VG_CODE_PTX && !*(const char *)data))
		return vg_fail(VG_INVALID, 0, "no code: 0 bytes of %s", core_code_type_name(type));
	if (type == VG_CODE_CUBIN)
		return check_cubin(data, size);
	if (type == VG_CODE_FATBIN)
		return check_fatbin(data, size);
	const char *end = type == VG_CODE_PTX ? memchr(data, 0, size) : NULL;
	for (size_t i = end ? (size_t)(end - (const char *)data) : size; i < size; i++)
		if (((const char *)data)[i])
			return vg_fail(VG_INVALID, 0, "no PTX: it is text, and has a zero byte before byte %zu of %zu",
				       i, size);
	return VG_OK;
}
