// Parses version numbers in the output of programs and of the kernel. Any thread.
#pragma once

// Returns the first version in the text as one number, such as 40201 for "4.2.1"; 0 if there is no version.
unsigned version_number(const char *text);
