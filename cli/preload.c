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

enum { MOST_SCRIPTS = 5 }; // the kernel follows no more of them

// Would the kernel raise the privileges of whoever runs it? Then it is AT_SECURE to the linker.
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

static enum preload inspect_elf(int fd, const unsigned char *head, size_t length)
{
	Elf64_Ehdr header;

	if (length < sizeof header)
		return PRELOAD_UNKNOWN;
	memcpy(&header, head, sizeof header);
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
		return PRELOAD_OTHER_ABI;
	if (header.e_phentsize != sizeof(Elf64_Phdr))
		return PRELOAD_UNKNOWN;
	for (int i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr segment;
		off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof segment);
		if (pread(fd, &segment, sizeof segment, at) != sizeof segment)
			return PRELOAD_UNKNOWN;
		if (segment.p_type == PT_INTERP)
			return PRELOAD_WORKS;
	}
	return PRELOAD_STATIC;
}

// "#! /usr/bin/env -S python3": the interpreter's path. False if there is none.
static bool script_interpreter(const char *head, size_t length, char ret_path[PATH_MAX])
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

enum preload preload_inspect(const char *path)
{
	char next[PATH_MAX];
	unsigned char head[512];
	struct stat info;

	for (int depth = 0; depth < MOST_SCRIPTS; depth++) {
		_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &info) < 0 || !S_ISREG(info.st_mode))
			return PRELOAD_UNKNOWN;
		ssize_t length = pread(fd, head, sizeof head, 0);
		if (length >= 4 && memcmp(head, ELFMAG, SELFMAG) == 0)
			return raises_privileges(fd, &info) ? PRELOAD_PRIVILEGED
							    : inspect_elf(fd, head, (size_t)length);
		if (length < 2 || memcmp(head, "#!", 2) != 0 ||
		    !script_interpreter((char *)head, (size_t)length, next))
			return PRELOAD_UNKNOWN;
		path = next;
	}
	return PRELOAD_UNKNOWN;
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
