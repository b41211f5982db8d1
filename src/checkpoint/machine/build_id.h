// Reads the build ID, which the linker puts into a program. Any thread.
#pragma once

enum { BUILD_ID_TEXT = 65 };
// Reads the build ID of a file as hexadecimal digits. ret_text is "" if the file is not a 64-bit ELF file, or has no
// build ID. Returns 0 or -errno.
int build_id_read(const char *path, char ret_text[BUILD_ID_TEXT]);
