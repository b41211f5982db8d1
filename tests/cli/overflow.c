// A program that is built with the address sanitizer. It prints ASAN_OPTIONS, and writes past the end of a block if it
// has an argument.
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	volatile int behind = 10;
	volatile char *block = malloc(10);
	const char *options = getenv("ASAN_OPTIONS");

	if (argc > 1 && block)
		block[behind] = argv[1][0];
	puts(options ? options : "none");
	free((char *)block);
	return 0;
}
