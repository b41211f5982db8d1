// Declares the contents of a CUtensorMap. The driver writes them, and kernels read them. Any thread.
#pragma once

#include <stdint.h>

enum { PTX_TENSOR_MAGIC = 0x544d4150, PTX_TENSOR_TILED = 1, PTX_TENSOR_IM2COL, PTX_TENSOR_IM2COL_WIDE };
enum { PTX_TENSOR_RANK = 5 };

struct ptx_tensor_map { // the contents of the 128 bytes of a CUtensorMap
	uint32_t magic;
	uint8_t kind, type, rank, interleave, swizzle, promotion, fill, mode; // 0 means none for `fill` and `mode`
	uint64_t address;
	uint32_t dim[PTX_TENSOR_RANK]; // sizes of the tensor, less one
	uint8_t element_stride[PTX_TENSOR_RANK];
	uint8_t element_bytes; // 0: not simulated, because copies would unpack or round elements
	uint8_t padding[6];
	uint64_t stride[PTX_TENSOR_RANK - 1]; // bytes
	union {
		uint16_t box[PTX_TENSOR_RANK];
		struct {
			int16_t lower[3], upper[3];
			uint16_t channels, pixels;
		} column;
	};
};
_Static_assert(sizeof(struct ptx_tensor_map) <= 128, "fits into a CUtensorMap");
