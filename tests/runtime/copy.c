// Tests copies in two and three dimensions, copies of arrays, and memsets of rows.
#include "cudart.h"

enum { WIDTH = 20, HEIGHT = 6, DEPTH = 3 };

static void number(unsigned char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(i * 7 + 1);
}

CONFORM(rows_have_a_pitch)
{
	unsigned char from[HEIGHT][WIDTH], to[HEIGHT][WIDTH + 4];
	void *device;
	size_t pitch = 0;

	number(&from[0][0], sizeof from);
	memset(to, 0xee, sizeof to);
	WORKS(cudaMallocPitch(&device, &pitch, WIDTH, HEIGHT));
	HOLDS(pitch >= WIDTH && pitch % 32 == 0);
	WORKS(cudaMemcpy2D(device, pitch, from, WIDTH, WIDTH, HEIGHT, cudaMemcpyHostToDevice));
	WORKS(cudaMemset2D((char *)device + pitch, pitch, 0xab, 3, 2));
	WORKS(cudaMemcpy2DAsync(to, WIDTH + 4, device, pitch, WIDTH, HEIGHT, cudaMemcpyDeviceToHost, NULL));
	WORKS(cudaDeviceSynchronize());
	EQUALS(to[0][WIDTH - 1], from[0][WIDTH - 1]);
	EQUALS(to[0][WIDTH], 0xee);
	EQUALS(to[1][2], 0xab);
	EQUALS(to[2][2], 0xab);
	EQUALS(to[1][3], from[1][3]);
	EQUALS(to[3][0], from[3][0]);
	EQUALS(to[HEIGHT - 1][WIDTH - 1], from[HEIGHT - 1][WIDTH - 1]);
	GIVES_LAST(cudaMemcpy2D(device, pitch, from, WIDTH - 1, WIDTH, HEIGHT, cudaMemcpyHostToDevice),
		   cudaErrorInvalidPitchValue);
	GIVES_LAST(cudaMemcpy2D(device, pitch, from, WIDTH, WIDTH, HEIGHT, (enum cudaMemcpyKind)9),
		   cudaErrorInvalidMemcpyDirection);
	WORKS(cudaMemcpy2D(device, pitch, from, WIDTH, 0, HEIGHT, cudaMemcpyHostToDevice));
	WORKS(cudaFree(device));
}

CONFORM(boxes)
{
	unsigned char from[DEPTH][HEIGHT][WIDTH], to[DEPTH][HEIGHT][WIDTH] = {0};
	struct cudaPitchedPtr device = {0};
	const struct cudaExtent extent = {WIDTH, HEIGHT, DEPTH};

	number(&from[0][0][0], sizeof from);
	WORKS(cudaMalloc3D(&device, extent));
	HOLDS(device.pitch >= WIDTH);
	EQUALS(device.xsize, WIDTH);
	EQUALS(device.ysize, HEIGHT);
	struct cudaMemcpy3DParms in = {.srcPtr = {from, WIDTH, WIDTH, HEIGHT},
				       .dstPtr = device,
				       .extent = extent,
				       .kind = cudaMemcpyHostToDevice};
	WORKS(cudaMemcpy3D(&in));
	WORKS(cudaMemset3D(device, 0x55, (struct cudaExtent){2, 2, DEPTH}));
	struct cudaMemcpy3DParms out = {.srcPtr = device,
					.srcPos = {1, 1, 1},
					.dstPtr = {to, WIDTH, WIDTH, HEIGHT},
					.dstPos = {0, 0, 0},
					.extent = {WIDTH - 1, HEIGHT - 1, DEPTH - 1},
					.kind = cudaMemcpyDeviceToHost};
	WORKS(cudaMemcpy3DAsync(&out, NULL));
	WORKS(cudaDeviceSynchronize());
	EQUALS(to[0][0][0], 0x55);
	EQUALS(to[0][0][1], from[1][1][2]);
	EQUALS(to[1][4][18], from[2][5][19]);
	EQUALS(to[0][0][19], 0);
	in.srcPtr.ptr = NULL;
	GIVES_LAST(cudaMemcpy3D(&in), cudaErrorInvalidValue);
	WORKS(cudaFree(device.ptr));
}

CONFORM(arrays)
{
	float from[HEIGHT][WIDTH], to[HEIGHT][WIDTH], part[2][2];
	const struct cudaChannelFormatDesc one = {32, 0, 0, 0, cudaChannelFormatKindFloat};
	struct cudaChannelFormatDesc got;
	struct cudaExtent extent;
	unsigned flags = 99;
	cudaArray_t array, other;

	for (int i = 0; i < WIDTH * HEIGHT; i++)
		(&from[0][0])[i] = (float)i;
	WORKS(cudaMallocArray(&array, &one, WIDTH, HEIGHT, cudaArrayDefault));
	WORKS(cudaArrayGetInfo(&got, &extent, &flags, array));
	EQUALS(got.x, 32);
	EQUALS(got.y, 0);
	EQUALS(got.f, cudaChannelFormatKindFloat);
	EQUALS(extent.width, WIDTH);
	EQUALS(extent.height, HEIGHT);
	EQUALS(flags, 0);
	WORKS(cudaGetChannelDesc(&got, array));
	EQUALS(got.x, 32);
	WORKS(cudaMemcpy2DToArray(array, 0, 0, from, sizeof *from, sizeof *from, HEIGHT, cudaMemcpyHostToDevice));
	WORKS(cudaMemcpy2DFromArray(to, sizeof *to, array, 0, 0, sizeof *to, HEIGHT, cudaMemcpyDeviceToHost));
	HOLDS(memcmp(from, to, sizeof to) == 0);
	WORKS(cudaMemcpy2DFromArray(part, sizeof *part, array, 3 * sizeof(float), 2, sizeof *part, 2,
				    cudaMemcpyDeviceToHost));
	HOLDS(part[0][0] == from[2][3] && part[1][1] == from[3][4]);
	// Copies bytes that begin in the middle of a row, and continue in the next one.
	memset(to, 0, sizeof to);
	WORKS(cudaMemcpyFromArray(to, array, 18 * sizeof(float), 1, 30 * sizeof(float), cudaMemcpyDeviceToHost));
	HOLDS(to[0][0] == from[1][18] && to[0][2] == from[2][0] && to[1][9] == from[3][7]);
	WORKS(cudaMallocArray(&other, &one, WIDTH, HEIGHT, cudaArrayDefault));
	WORKS(cudaMemcpyToArray(other, 0, 0, from, sizeof from, cudaMemcpyHostToDevice));
	WORKS(cudaMemcpy2DArrayToArray(other, 0, 0, array, 0, 1, sizeof *from, 1, cudaMemcpyDeviceToDevice));
	WORKS(cudaMemcpy2DFromArray(to, sizeof *to, other, 0, 0, sizeof *to, HEIGHT, cudaMemcpyDeviceToHost));
	HOLDS(to[0][5] == from[1][5] && to[5][5] == from[5][5]);
	struct cudaMemcpy3DParms box = {.srcArray = array,
					.srcPos = {2, 1, 0},
					.dstPtr = {part, sizeof *part, 2, 2},
					.extent = {2, 2, 1},
					.kind = cudaMemcpyDeviceToHost};
	WORKS(cudaMemcpy3D(&box));
	HOLDS(part[0][0] == from[1][2] && part[1][1] == from[2][3]);
	WORKS(cudaFreeArray(array));
	WORKS(cudaFreeArray(other));
	WORKS(cudaFreeArray(NULL));
}

CONFORM(invalid_arrays_are_rejected)
{
	const struct cudaChannelFormatDesc three = {32, 32, 32, 0, cudaChannelFormatKindFloat},
					   odd = {24, 0, 0, 0, cudaChannelFormatKindUnsigned},
					   mixed = {8, 16, 0, 0, cudaChannelFormatKindUnsigned},
					   four = {8, 8, 8, 8, cudaChannelFormatKindUnsigned};
	struct cudaChannelFormatDesc made;
	cudaArray_t array;

	FAILS(cudaMallocArray(&array, &three, 4, 4, 0));
	FAILS(cudaMallocArray(&array, &odd, 4, 4, 0));
	FAILS(cudaMallocArray(&array, &mixed, 4, 4, 0));
	GIVES(cudaMallocArray(&array, NULL, 4, 4, 0), cudaErrorInvalidValue);
	GIVES(cudaMallocArray(NULL, &four, 4, 4, 0), cudaErrorInvalidValue);
	cudaGetLastError();
	WORKS(cudaMallocArray(&array, &four, 4, 0, 0));
	WORKS(cudaGetChannelDesc(&made, array));
	EQUALS(made.w, 8);
	EQUALS(made.f, cudaChannelFormatKindUnsigned);
	WORKS(cudaFreeArray(array));
	made = cudaCreateChannelDesc(16, 16, 0, 0, cudaChannelFormatKindSigned);
	EQUALS(made.y, 16);
	EQUALS(made.f, cudaChannelFormatKindSigned);
}

CONFORM(arrays_of_three_dimensions)
{
	short from[DEPTH][HEIGHT][WIDTH], to[DEPTH][HEIGHT][WIDTH];
	const struct cudaChannelFormatDesc one = {16, 0, 0, 0, cudaChannelFormatKindSigned};
	const struct cudaExtent extent = {WIDTH, HEIGHT, DEPTH};
	cudaArray_t array, level;
	cudaMipmappedArray_t mipmapped;

	number((unsigned char *)from, sizeof from);
	WORKS(cudaMalloc3DArray(&array, &one, extent, 0));
	struct cudaMemcpy3DParms in = {.srcPtr = {from, sizeof **from, WIDTH, HEIGHT},
				       .dstArray = array,
				       .extent = extent,
				       .kind = cudaMemcpyHostToDevice};
	WORKS(cudaMemcpy3D(&in));
	struct cudaMemcpy3DParms out = {.srcArray = array,
					.dstPtr = {to, sizeof **to, WIDTH, HEIGHT},
					.extent = extent,
					.kind = cudaMemcpyDeviceToHost};
	WORKS(cudaMemcpy3D(&out));
	HOLDS(memcmp(from, to, sizeof to) == 0);
	WORKS(cudaFreeArray(array));
	WORKS(cudaMallocMipmappedArray(&mipmapped, &one, (struct cudaExtent){16, 16, 0}, 3, 0));
	WORKS(cudaGetMipmappedArrayLevel(&level, mipmapped, 2));
	struct cudaExtent small;
	WORKS(cudaArrayGetInfo(NULL, &small, NULL, level));
	EQUALS(small.width, 4);
	WORKS(cudaFreeMipmappedArray(mipmapped));
}

CONFORM(array_copies_in_stream_order)
{
	unsigned char from[HEIGHT][WIDTH], to[HEIGHT][WIDTH] = {0};
	const struct cudaChannelFormatDesc one = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
	cudaArray_t array, other;
	cudaStream_t stream;

	number(&from[0][0], sizeof from);
	NEED(cudaStreamCreate(&stream));
	NEED(cudaMallocArray(&array, &one, WIDTH, HEIGHT, 0));
	NEED(cudaMallocArray(&other, &one, WIDTH, HEIGHT, 0));
	WORKS(cudaMemcpy2DToArrayAsync(array, 0, 0, from, WIDTH, WIDTH, HEIGHT, cudaMemcpyHostToDevice, stream));
	WORKS(cudaMemcpy2DFromArrayAsync(to, WIDTH, array, 0, 0, WIDTH, HEIGHT, cudaMemcpyDeviceToHost, stream));
	WORKS(cudaStreamSynchronize(stream));
	HOLDS(memcmp(from, to, sizeof to) == 0);
	memset(to, 0, sizeof to);
	WORKS(cudaMemcpyToArrayAsync(array, 5, 2, from, WIDTH + 3, cudaMemcpyHostToDevice, stream));
	WORKS(cudaMemcpyFromArrayAsync(to, array, 5, 2, WIDTH + 3, cudaMemcpyDeviceToHost, stream));
	WORKS(cudaStreamSynchronize(stream));
	HOLDS(memcmp(from, to, WIDTH + 3) == 0);
	WORKS(cudaMemcpyArrayToArray(other, 0, 0, array, 5, 2, WIDTH, cudaMemcpyDeviceToDevice));
	WORKS(cudaMemcpy2DFromArray(to, WIDTH, other, 0, 0, WIDTH, 1, cudaMemcpyDeviceToHost));
	HOLDS(memcmp(from, to, WIDTH) == 0);
	WORKS(cudaFreeArray(array));
	WORKS(cudaFreeArray(other));
	WORKS(cudaStreamDestroy(stream));
}

CONFORM(batches_of_copies)
{
	int from[3] = {1, 2, 3}, to[3] = {0}, *device;
	void *targets[3], *sources[3];
	size_t sizes[3] = {4, 4, 4}, index = 0;
	struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
	cudaStream_t stream;

	NEED(cudaStreamCreate(&stream));
	NEED(cudaMalloc((void **)&device, sizeof from));
	for (int i = 0; i < 3; i++) {
		targets[i] = device + i;
		sources[i] = &from[2 - i];
	}
	WORKS(cudaMemcpyBatchAsync(targets, (const void **)sources, sizes, 3, &attributes, &index, 1, stream));
	WORKS(cudaMemcpyAsync(to, device, sizeof to, cudaMemcpyDeviceToHost, stream));
	WORKS(cudaStreamSynchronize(stream));
	EQUALS(to[0], 3);
	EQUALS(to[2], 1);
	struct cudaMemcpy3DBatchOp box = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream, .extent = {4, 1, 1}};
	box.src.type = box.dst.type = cudaMemcpyOperandTypePointer;
	box.src.op.ptr.ptr = device;
	box.dst.op.ptr.ptr = device + 2;
	box.src.op.ptr.locHint = box.dst.op.ptr.locHint = (struct cudaMemLocation){cudaMemLocationTypeDevice, 0};
	WORKS(cudaMemcpy3DBatchAsync(1, &box, 0, stream));
	WORKS(cudaStreamSynchronize(stream));
	EQUALS(read_int(device + 2), 3);
	WORKS(cudaFree(device));
	WORKS(cudaStreamDestroy(stream));
}

CONFORM(copies_between_devices)
{
	int *from, *to;

	NEED(cudaMalloc((void **)&from, 8));
	NEED(cudaMalloc((void **)&to, 8));
	WORKS(cudaMemset(from, 3, 8));
	const struct cudaMemcpy3DPeerParms box = {
		.srcPtr = {from, 4, 4, 1}, .dstPtr = {to, 4, 4, 1}, .extent = {4, 1, 1}};
	WORKS(cudaMemcpy3DPeer(&box));
	EQUALS(read_int(to), 0x03030303);
	WORKS(cudaMemcpy3DPeerAsync(&box, NULL));
	WORKS(cudaMemcpyPeerAsync(to + 1, 0, from, 0, 4, NULL));
	EQUALS(read_int(to + 1), 0x03030303);
	GIVES_LAST(cudaMemcpyPeer(to, 0, from, 1000, 4), cudaErrorInvalidDevice);
	WORKS(cudaMemset2DAsync(to, 4, 1, 2, 2, NULL));
	WORKS(cudaMemset3DAsync((struct cudaPitchedPtr){from, 4, 4, 1}, 2, (struct cudaExtent){4, 1, 2}, NULL));
	WORKS(cudaDeviceSynchronize());
	EQUALS(read_int(from + 1), 0x02020202);
	EQUALS(read_int(to) & 0xffff, 0x0101);
	WORKS(cudaFree(from));
	WORKS(cudaFree(to));
}
