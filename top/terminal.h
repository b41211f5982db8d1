// Checks the terminal before curses is started, because curses itself ends the program if the terminal is unsuitable.
// One thread.
#pragma once

// Checks that standard input and output are a terminal of a type that curses knows. Returns NULL, or a sentence that
// says what is wrong.
const char *terminal_check(void);
