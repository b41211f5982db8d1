#include "preload.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "base/descriptor.h"

enum { MOST_SCRIPTS = 5, MOST_ENTRIES = 4096 }; // MOST_SCRIPTS: the kernel's limit for nested scripts

// Returns whether the kernel raises privileges when it executes this program. The kernel then sets AT_SECURE, and the
// dynamic linker ignores LD_PRELOAD.
static bool raises_privileges(int fd, const struct stat *info)
{
	struct statvfs mount;
	char capabilities[64];

	if (fstatvfs(fd, &mount) == 0 && (mount.f_flag & ST_NOSUID))
		return false;
	if ((info->st_mode & S_ISUID) && info->st_uid != geteuid())
		return true;
	if ((info->st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && info->st_gid != getegid())
		return true;
	return geteuid() != 0 && fgetxattr(fd, "security.capability", capabilities, sizeof capabilities) > 0;
}

struct elf {
	int fd;
	Elf64_Ehdr header;
};

static bool read_segment(const struct elf *elf, int index, Elf64_Phdr *ret_segment)
{
	off_t at = (off_t)(elf->header.e_phoff + (uint64_t)index * sizeof *ret_segment);

	return pread(elf->fd, ret_segment, sizeof *ret_segment, at) == sizeof *ret_segment;
}

static bool find_segment(const struct elf *elf, uint32_t type, Elf64_Phdr *ret_segment)
{
	for (int i = 0; i < elf->header.e_phnum && read_segment(elf, i, ret_segment); i++)
		if (ret_segment->p_type == type)
			return true;
	return false;
}

// Finds which offset of the file is loaded at an address. Returns false if the address is not loaded from the file.
static bool find_address(const struct elf *elf, uint64_t address, uint64_t *ret_offset)
{
	Elf64_Phdr segment;

	for (int i = 0; i < elf->header.e_phnum && read_segment(elf, i, &segment); i++)
		if (segment.p_type == PT_LOAD && address - segment.p_vaddr < segment.p_filesz) {
			*ret_offset = segment.p_offset + (address - segment.p_vaddr);
			return true;
		}
	return false;
}

static void read_text(int fd, uint64_t offset, char *ret_text, size_t capacity)
{
	ssize_t length = pread(fd, ret_text, capacity - 1, (off_t)offset);

	ret_text[length > 0 ? length : 0] = '\0';
}

static const char *file_name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool has_prefix(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

// Returns whether the program needs the shared library of the address sanitizer: gcc built the program, or clang with
// -shared-libasan. The static library of the sanitizer does not check the order of libraries.
static bool needs_asan(const struct elf *elf)
{
	Elf64_Phdr dynamic;
	uint64_t names = 0;
	Elf64_Dyn entry;
	char name[64];

	if (!find_segment(elf, PT_DYNAMIC, &dynamic))
		return false;
	size_t count = dynamic.p_filesz / sizeof entry;
	count = count < MOST_ENTRIES ? count : MOST_ENTRIES;
	for (int pass = 0; pass < 2; pass++) // two passes: the second needs DT_STRTAB, which may come after DT_NEEDED
		for (size_t i = 0; i < count; i++) {
			off_t at = (off_t)(dynamic.p_offset + i * sizeof entry);
			if (pread(elf->fd, &entry, sizeof entry, at) != sizeof entry || entry.d_tag == DT_NULL)
				break;
			if (entry.d_tag == DT_STRTAB && !find_address(elf, entry.d_un.d_ptr, &names))
				return false;
			if (pass == 0 || entry.d_tag != DT_NEEDED)
				continue;
			read_text(elf->fd, names + entry.d_un.d_val, name, sizeof name);
			if (has_prefix(name, "libasan.so") || has_prefix(name, "libclang_rt.asan"))
				return true;
		}
	return false;
}

static bool read_linker(const struct elf *elf, char ret_path[PATH_MAX])
{
	Elf64_Phdr segment;

	if (!find_segment(elf, PT_INTERP, &segment))
		return false;
	read_text(elf->fd, segment.p_offset, ret_path, PATH_MAX);
	return true;
}

// Returns the C library of a dynamic linker: 'm' (musl), 'g' (glibc), or 0 if it is unknown.
static char libc_of(const char *linker)
{
	const char *leaf = file_name_of(linker);

	return has_prefix(leaf, "ld-musl-") ? 'm' : has_prefix(leaf, "ld-linux") ? 'g' : 0;
}

// Returns whether the dynamic linker belongs to another C library than the interposer. The interposer is built for the
// C library of this program.
static bool is_other_libc(const char *linker)
{
	_cleanup_close_ int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char own[PATH_MAX] = "";
	struct elf self = {.fd = fd};

	if (fd >= 0 && pread(fd, &self.header, sizeof self.header, 0) == sizeof self.header)
		read_linker(&self, own);
	return libc_of(linker) && libc_of(own) && libc_of(linker) != libc_of(own);
}

static void inspect_elf(int fd, const unsigned char *head, size_t length, struct preload_program *program)
{
	struct elf elf = {.fd = fd};

	if (length < sizeof elf.header)
		return;
	memcpy(&elf.header, head, sizeof elf.header);
	if (elf.header.e_ident[EI_CLASS] != ELFCLASS64 || elf.header.e_machine != EM_X86_64) {
		program->preload = PRELOAD_OTHER_ABI;
		return;
	}
	if (elf.header.e_phentsize != sizeof(Elf64_Phdr))
		return;
	if (!read_linker(&elf, program->linker)) {
		program->preload = PRELOAD_STATIC;
		return;
	}
	program->preload = is_other_libc(program->linker) ? PRELOAD_OTHER_LIBC : PRELOAD_WORKS;
	program->asan = needs_asan(&elf);
}

// Reads the path of the interpreter from a line such as "#! /usr/bin/env -S python3". Returns false if there is no
// path.
static bool read_interpreter(const char *head, size_t length, char ret_path[PATH_MAX])
{
	size_t at = 2;

	while (at < length && (head[at] == ' ' || head[at] == '\t'))
		at++;
	size_t end = at;
	while (end < length && !strchr(" \t\r\n", head[end]))
		end++;
	if (end == at || end - at >= PATH_MAX)
		return false;
	snprintf(ret_path, PATH_MAX, "%.*s", (int)(end - at), head + at);
	return true;
}

void preload_inspect(const char *path, struct preload_program *ret_program)
{
	char next[PATH_MAX];
	unsigned char head[512];
	struct stat info;

	*ret_program = (struct preload_program){.preload = PRELOAD_UNKNOWN};
	for (int depth = 0; depth < MOST_SCRIPTS; depth++) {
		_cleanup_close_ int fd = vg_open_regular(path, O_RDONLY);
		if (fd < 0 || fstat(fd, &info) < 0)
			return;
		ssize_t length = pread(fd, head, sizeof head, 0);
		if (length >= 4 && memcmp(head, ELFMAG, SELFMAG) == 0) {
			if (raises_privileges(fd, &info))
				ret_program->preload = PRELOAD_PRIVILEGED;
			else
				inspect_elf(fd, head, (size_t)length, ret_program);
			return;
		}
		if (length < 2 || memcmp(head, "#!", 2) != 0 || !read_interpreter((char *)head, (size_t)length, next))
			return;
		path = next;
	}
}

const char *preload_text(enum preload preload)
{
	switch (preload) {
	case PRELOAD_STATIC:
		return "is statically linked";
	case PRELOAD_OTHER_ABI:
		return "is not an x86-64 program";
	case PRELOAD_PRIVILEGED:
		return "runs with raised privileges (setuid, setgid or file capabilities)";
	default:
		return NULL;
	}
}
