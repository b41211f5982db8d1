// Which build a program is: the linker's note in its file. Any thread.
#pragma once

enum { BUILD_ID_TEXT = 65 };
// In hexadecimal digits; "" where the file has none, or is no ELF of 64 bits. 0 or -errno.
int build_id_read(const char *path, char ret_text[BUILD_ID_TEXT]);
