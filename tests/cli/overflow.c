// A program for the address sanitizer: prints its options, and writes past the end of a block if asked.
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
