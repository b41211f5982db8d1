// A program for the address sanitizer: says its options, and writes behind a block if it is told to.
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
