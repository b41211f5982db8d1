// Kernels of the corpus that use services of the driver (printf, the heap, assert) and memory on the stack.
#include <assert.h>
#include <stdio.h>

#include "corpus.cuh"

KERNEL(print)
{
	if (THREAD != 0)
		return;
	int length = printf("corpus: %d %u %x %s %c %5.2f|%-6d|%06d|%lld %%\n", -5, in[0] & 0xffff, 0xbeef, "text", 'z',
			    3.14159, 42, 77, -1234567890123ll);
	printf("%e %g %G %08.3f %+d % d %#x %#o\n", 12345.678, 0.0001, 1e20, -2.5, 7, 7, 255, 8);
	printf("no arguments\n");
	out[0] = length > 0;
}

// Builds a list of nodes on the heap, reads it back and frees it.
KERNEL(heap)
{
	struct node {
		struct node *next;
		unsigned value;
	} *list = NULL;
	unsigned sum = 0;

	for (unsigned i = 0; i < n; i++) {
		struct node *one = (struct node *)malloc(sizeof *one + i * 4);
		assert(one != NULL);
		one->next = list, one->value = in[(THREAD + i) % 64];
		list = one;
	}
	while (list) {
		struct node *next = list->next;
		sum = sum * 17 + list->value;
		free(list);
		list = next;
	}
	out[THREAD] = sum;
}

KERNEL(stack_memory)
{
	unsigned length = 4 + in[THREAD] % 12;
	unsigned *word = (unsigned *)__builtin_alloca(length * sizeof *word);

	for (unsigned i = 0; i < length; i++)
		word[i] = in[i] ^ THREAD;
	for (unsigned i = 1; i < length; i++)
		word[i] += word[i - 1] * 3;
	out[THREAD] = word[length - 1];
}
