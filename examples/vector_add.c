// A first CUDA program on the driver API: adds two vectors and checks every element.
#include "example.h"
#include "vector_add_ptx.h"

int main(int argc, char **argv)
{
	program = "vector_add";
	unsigned count = argc > 1 ? read_number("COUNT", argv[1]) : 1 << 20;
	size_t bytes = count * sizeof(float);
	float *a = malloc(bytes), *b = malloc(bytes), *c = malloc(bytes);
	CUdeviceptr device_a, device_b, device_c;

	if (count == 0 || count > 1u << 28)
		give_up("COUNT %u: from 1 to %u", count, 1u << 28);
	if (!a || !b || !c)
		give_up("no host memory for three vectors of %s", size_text(bytes));
	for (unsigned i = 0; i < count; i++) {
		a[i] = i % 1000;
		b[i] = 2 * (i % 777);
	}
	open_device(0, NULL);
	CUfunction kernel = load_kernel(vector_add_ptx, "vector_add");
	must(cuMemAlloc(&device_a, bytes), "cannot allocate %s of device memory", size_text(bytes));
	must(cuMemAlloc(&device_b, bytes), "cannot allocate %s of device memory", size_text(bytes));
	must(cuMemAlloc(&device_c, bytes), "cannot allocate %s of device memory", size_text(bytes));
	must(cuMemcpyHtoD(device_a, a, bytes), "cannot copy to the device");
	must(cuMemcpyHtoD(device_b, b, bytes), "cannot copy to the device");
	void *arguments[] = {&device_a, &device_b, &device_c, &count};
	must(cuLaunchKernel(kernel, (count + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL),
	     "cannot launch the sum");
	must(cuMemcpyDtoH(c, device_c, bytes), "cannot copy from the device");
	for (unsigned i = 0; i < count; i++)
		if (c[i] != a[i] + b[i])
			give_up("element %u is %g, not %g", i, c[i], a[i] + b[i]);
	printf("vector_add: %u elements correct\n", count);
	return 0;
}
