// A tiled matrix product on the driver API: repeats it for some time, and compares it with the host's result.
#include "example.h"
#include "matmul_ptx.h"

#define TILE 16

static void usage(void)
{
	printf("matmul [--size N] [--seconds S] [--repeat N] [--device N]\n"
	       "Multiplies two N * N matrices of floats (256), again and again for S seconds (2) or exactly\n"
	       "--repeat times, compares with the host, prints the rate. Exit status 0 only if all was correct.\n");
}

// Returns a small integer, so that every sum is exact in a float, in any order.
static float make_element(unsigned seed, size_t index)
{
	uint32_t mixed = (uint32_t)index * 2654435761u + seed;

	mixed ^= mixed >> 15;
	return (float)(int)(mixed % 9) - 4;
}

// Compares all rows of a small product, and 32 rows that are spread over a large one. If `few`, compares 8 rows.
static size_t count_wrong(const float *a, const float *b, const float *c, unsigned size, bool few)
{
	unsigned step = few && size > 8 ? size / 8 : size <= 512 ? 1 : size / 32;
	size_t wrong = 0;
	float *row_sums = malloc(size * sizeof *row_sums);

	if (!row_sums)
		give_up("no memory for a row of %u", size);
	for (unsigned row = 0; row < size; row += step) {
		memset(row_sums, 0, size * sizeof *row_sums);
		for (unsigned i = 0; i < size; i++)
			for (unsigned column = 0; column < size; column++)
				row_sums[column] += a[(size_t)row * size + i] * b[(size_t)i * size + column];
		for (unsigned column = 0; column < size; column++)
			wrong += c[(size_t)row * size + column] != row_sums[column];
	}
	free(row_sums);
	return wrong;
}

struct options {
	unsigned size, device;
	unsigned long repeat;
	double seconds;
};

static struct options read_options(int argc, char **argv)
{
	struct options options = {.size = 256, .seconds = 2};

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--size") == 0)
			options.size = read_number("--size", option_value(argc, argv, &i));
		else if (strcmp(argv[i], "--seconds") == 0)
			options.seconds = read_number("--seconds", option_value(argc, argv, &i));
		else if (strcmp(argv[i], "--repeat") == 0)
			options.repeat = read_number("--repeat", option_value(argc, argv, &i));
		else if (strcmp(argv[i], "--device") == 0)
			options.device = read_number("--device", option_value(argc, argv, &i));
		else if (strcmp(argv[i], "--help") == 0)
			usage(), exit(0);
		else
			usage(), give_up("unknown option %s", argv[i]);
	}
	if (options.size < 1 || options.size > 32768)
		give_up("--size %u: from 1 to 32768", options.size);
	return options;
}

int main(int argc, char **argv)
{
	program = "matmul";
	struct options options = read_options(argc, argv);
	unsigned size = options.size;
	size_t bytes = (size_t)size * size * sizeof(float);
	float *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
	CUdeviceptr device_a, device_b, device_c;

	if (!a || !b || !c)
		give_up("no host memory for three matrices of %s", size_text(bytes));
	for (size_t i = 0; i < (size_t)size * size; i++) {
		a[i] = make_element(1, i);
		b[i] = make_element(77, i);
	}
	open_device(options.device, NULL);
	CUfunction kernel = load_kernel(matmul_ptx, "matmul");
	must(cuMemAlloc(&device_a, bytes), "cannot allocate %s of device memory", size_text(bytes));
	must(cuMemAlloc(&device_b, bytes), "cannot allocate %s of device memory", size_text(bytes));
	must(cuMemAlloc(&device_c, bytes), "cannot allocate %s of device memory", size_text(bytes));
	must(cuMemcpyHtoD(device_a, a, bytes), "cannot copy to the device");
	must(cuMemcpyHtoD(device_b, b, bytes), "cannot copy to the device");

	unsigned blocks = (size + TILE - 1) / TILE;
	void *arguments[] = {&device_a, &device_b, &device_c, &size};
	unsigned long products = 0;
	size_t wrong = 0;
	double spent = 0, start = now();
	// Batches of a few launches, so that the clock is read often enough. The first and the last one are checked,
	// and a few rows of the others, if that takes the host less time than the device needs for a batch.
	do {
		unsigned batch = options.repeat ? 1 : 4;
		must(cuMemsetD8(device_c, 0xff, bytes), "cannot clear the result");
		must(cuCtxSynchronize(), "the device failed");
		double before = now();
		for (unsigned i = 0; i < batch; i++)
			must(cuLaunchKernel(kernel, blocks, blocks, 1, TILE, TILE, 1, 0, NULL, arguments, NULL),
			     "cannot launch the product");
		must(cuCtxSynchronize(), "the product failed");
		spent += now() - before;
		products += batch;
		must(cuMemcpyDtoH(c, device_c, bytes), "cannot copy from the device");
		if (wrong == 0 && (products == batch || size <= 256))
			wrong += count_wrong(a, b, c, size, products > batch);
	} while (options.repeat ? products < options.repeat : now() - start < options.seconds);
	wrong += wrong == 0 ? count_wrong(a, b, c, size, false) : 0;

	must(cuMemFree(device_a), "cannot free device memory");
	must(cuMemFree(device_b), "cannot free device memory");
	must(cuMemFree(device_c), "cannot free device memory");
	double rate = 2.0 * size * size * size * products / spent;
	printf("matmul: %lu products of %u * %u in %.2f s, %.2f GFLOP/s, %s\n", products, size, size, spent, rate / 1e9,
	       wrong ? "WRONG" : "correct");
	if (wrong)
		give_up("%zu elements differ from the host's", wrong);
	return 0;
}
