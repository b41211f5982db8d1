#include "checkpoint/machine/build_id.h"

#include "base/descriptor.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { NOTES_BYTES = 4096 };

static bool find_note(const unsigned char *notes, size_t length, char ret_text[BUILD_ID_TEXT])
{
	for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= length;) {
		Elf64_Nhdr note;
		memcpy(&note, notes + at, sizeof note);
		uint64_t name = at + sizeof note, data = name + (((uint64_t)note.n_namesz + 3) & ~3ull);
		uint64_t next = data + (((uint64_t)note.n_descsz + 3) & ~3ull);
		if (data + note.n_descsz > length)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(notes + name, "GNU", 4) == 0 &&
		    2 * note.n_descsz < BUILD_ID_TEXT) {
			for (uint32_t i = 0; i < note.n_descsz; i++)
				snprintf(ret_text + 2 * (size_t)i, 3, "%02x", notes[data + i]);
			return true;
		}
		at = next;
	}
	return false;
}

int build_id_read(const char *path, char ret_text[BUILD_ID_TEXT])
{
	unsigned char notes[NOTES_BYTES];
	Elf64_Ehdr header;

	ret_text[0] = '\0';
	// Open only a regular file. The path comes from an image, and may lead to a device, or to a pipe without a
	// writer.
	_cleanup_close_ int fd = vg_open_regular(path, O_RDONLY);
	if (fd < 0)
		return fd == -EINVAL ? 0 : fd;
	if (pread(fd, &header, sizeof header, 0) != sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
		return 0;
	for (int i = 0; i < header.e_phnum; i++) {
		Elf64_Phdr segment;
		if (pread(fd, &segment, sizeof segment, (off_t)(header.e_phoff + (uint64_t)i * sizeof segment)) !=
		    sizeof segment)
			return 0;
		if (segment.p_type != PT_NOTE)
			continue;
		size_t wanted = segment.p_filesz < sizeof notes ? (size_t)segment.p_filesz : sizeof notes;
		ssize_t length = pread(fd, notes, wanted, (off_t)segment.p_offset);
		if (length > 0 && find_note(notes, (size_t)length, ret_text))
			return 0;
	}
	return 0;
}
