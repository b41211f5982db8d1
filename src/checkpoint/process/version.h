// Version numbers in the output of programs and the kernel. Any thread.
#pragma once

// Returns the first version in the text as one number, 10000 for the major one: 40201 for "4.2.1". 0: it has none.
unsigned version_number(const char *text);
