// Declares the structures of DLPack 0.8 and 1.x as its specification lays them out. They are compatible with those of
// <dlpack/dlpack.h>, which a program may include too.
#pragma once
#include <stdint.h>

struct dlpack_device {
	int32_t type, id;
};

struct dlpack_tensor {
	void *data;
	struct dlpack_device device;
	int32_t rank;
	struct {
		uint8_t code, bits;
		uint16_t lanes;
	} type;
	int64_t *shape, *strides; // strides in elements; NULL: C order
	uint64_t byte_offset;
};

struct DLManagedTensor {
	struct dlpack_tensor tensor;
	void *manager;
	void (*deleter)(struct DLManagedTensor *self); // may be NULL
};

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 0, DLPACK_READ_ONLY = 1, DLPACK_COPIED = 2 };

struct DLManagedTensorVersioned {
	struct {
		uint32_t major, minor;
	} version;
	void *manager;
	void (*deleter)(struct DLManagedTensorVersioned *self);
	uint64_t flags;
	struct dlpack_tensor tensor;
};
