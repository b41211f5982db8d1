// The build ID that the linker has put into a program. Any thread.
#pragma once

enum { BUILD_ID_TEXT = 65 };
// Reads it as hexadecimal digits; "" if the file is not a 64-bit ELF file or has none. Returns 0 or -errno.
int build_id_read(const char *path, char ret_text[BUILD_ID_TEXT]);
