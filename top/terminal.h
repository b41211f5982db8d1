// Checks the terminal before curses takes it over: curses itself ends the program at the first mistake. One thread.
#pragma once

// Checks that there is a terminal of a type that curses knows. Returns NULL, or what is wrong, as a sentence.
const char *terminal_check(void);
