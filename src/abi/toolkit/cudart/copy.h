// Declares copies between memory, arrays, symbols and devices, and functions that set memory.
#pragma once
#include "array.h"

enum cudaMemcpyKind {
	cudaMemcpyHostToHost = 0,
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
	cudaMemcpyDeviceToDevice = 3,
	cudaMemcpyDefault = 4
};

struct cudaMemcpy3DParms {
	cudaArray_t srcArray;
	struct cudaPos srcPos;
	struct cudaPitchedPtr srcPtr;
	cudaArray_t dstArray;
	struct cudaPos dstPos;
	struct cudaPitchedPtr dstPtr;
	struct cudaExtent extent;
	enum cudaMemcpyKind kind;
};

struct cudaMemcpy3DPeerParms {
	cudaArray_t srcArray;
	struct cudaPos srcPos;
	struct cudaPitchedPtr srcPtr;
	int srcDevice;
	cudaArray_t dstArray;
	struct cudaPos dstPos;
	struct cudaPitchedPtr dstPtr;
	int dstDevice;
	struct cudaExtent extent;
};

// Memory
CUDART_API(cudaMemcpy, (void *to, const void *from, size_t size, enum cudaMemcpyKind))
CUDART_API(cudaMemcpyAsync,
	   (void *to, const void *from, size_t size, enum cudaMemcpyKind, cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaMemcpyPeer, (void *to, int to_device, const void *from, int from_device, size_t size))
CUDART_API(cudaMemcpyPeerAsync, (void *to, int to_device, const void *from, int from_device, size_t size,
				 cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaMemcpy2D, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
			  enum cudaMemcpyKind))
CUDART_API(cudaMemcpy2DAsync, (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
			       size_t height, enum cudaMemcpyKind, cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaMemcpy3D, (const struct cudaMemcpy3DParms *))
CUDART_API(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *, cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaMemcpy3DPeer, (const struct cudaMemcpy3DPeerParms *))
CUDART_API(cudaMemcpy3DPeerAsync, (const struct cudaMemcpy3DPeerParms *, cudaStream_t stream CUDART_DEFAULT(0)))

// Arrays
CUDART_API(cudaMemcpy2DToArray, (cudaArray_t, size_t x, size_t y, const void *from, size_t pitch, size_t width,
				 size_t height, enum cudaMemcpyKind))
CUDART_API(cudaMemcpy2DToArrayAsync, (cudaArray_t, size_t x, size_t y, const void *from, size_t pitch, size_t width,
				      size_t height, enum cudaMemcpyKind, cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaMemcpy2DFromArray, (void *to, size_t pitch, cudaArray_const_t, size_t x, size_t y, size_t width,
				   size_t height, enum cudaMemcpyKind))
CUDART_API(cudaMemcpy2DFromArrayAsync, (void *to, size_t pitch, cudaArray_const_t, size_t x, size_t y, size_t width,
					size_t height, enum cudaMemcpyKind, cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaMemcpy2DArrayToArray,
	   (cudaArray_t, size_t to_x, size_t to_y, cudaArray_const_t, size_t from_x, size_t from_y, size_t width,
	    size_t height, enum cudaMemcpyKind kind CUDART_DEFAULT(cudaMemcpyDeviceToDevice)))

// Functions that copy consecutive bytes of arrays; they are deprecated
CUDART_API(cudaMemcpyToArray, (cudaArray_t, size_t x, size_t y, const void *from, size_t size, enum cudaMemcpyKind))
CUDART_API(cudaMemcpyToArrayAsync, (cudaArray_t, size_t x, size_t y, const void *from, size_t size, enum cudaMemcpyKind,
				    cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaMemcpyFromArray, (void *to, cudaArray_const_t, size_t x, size_t y, size_t size, enum cudaMemcpyKind))
CUDART_API(cudaMemcpyFromArrayAsync, (void *to, cudaArray_const_t, size_t x, size_t y, size_t size, enum cudaMemcpyKind,
				      cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaMemcpyArrayToArray,
	   (cudaArray_t, size_t to_x, size_t to_y, cudaArray_const_t, size_t from_x, size_t from_y, size_t size,
	    enum cudaMemcpyKind kind CUDART_DEFAULT(cudaMemcpyDeviceToDevice)))

// Functions for device variables. The address of the host variable with the same name stands for the device variable.
CUDART_API(cudaGetSymbolAddress, (void **address, const void *symbol))
CUDART_API(cudaGetSymbolSize, (size_t * size, const void *symbol))
CUDART_API(cudaMemcpyToSymbol, (const void *symbol, const void *from, size_t size, size_t offset CUDART_DEFAULT(0),
				enum cudaMemcpyKind kind CUDART_DEFAULT(cudaMemcpyHostToDevice)))
CUDART_API(cudaMemcpyToSymbolAsync, (const void *symbol, const void *from, size_t size, size_t offset,
				     enum cudaMemcpyKind, cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaMemcpyFromSymbol, (void *to, const void *symbol, size_t size, size_t offset CUDART_DEFAULT(0),
				  enum cudaMemcpyKind kind CUDART_DEFAULT(cudaMemcpyDeviceToHost)))
CUDART_API(cudaMemcpyFromSymbolAsync, (void *to, const void *symbol, size_t size, size_t offset, enum cudaMemcpyKind,
				       cudaStream_t stream CUDART_DEFAULT(0)))

// Batches of copies. attributes[i] applies to the copies from number indices[i] up to the next index.
enum cudaMemcpyFlags { cudaMemcpyFlagDefault = 0x0, cudaMemcpyFlagPreferOverlapWithCompute = 0x1 };

enum cudaMemcpySrcAccessOrder {
	cudaMemcpySrcAccessOrderInvalid = 0x0,
	cudaMemcpySrcAccessOrderStream = 0x1,
	cudaMemcpySrcAccessOrderDuringApiCall = 0x2,
	cudaMemcpySrcAccessOrderAny = 0x3,
	cudaMemcpySrcAccessOrderMax = 0x7fffffff
};

enum cudaMemcpy3DOperandType {
	cudaMemcpyOperandTypePointer = 0x1,
	cudaMemcpyOperandTypeArray = 0x2,
	cudaMemcpyOperandTypeMax = 0x7fffffff
};

struct cudaMemcpyAttributes {
	enum cudaMemcpySrcAccessOrder srcAccessOrder;
	struct cudaMemLocation srcLocHint, dstLocHint;
	unsigned int flags;
};

struct cudaOffset3D {
	size_t x, y, z;
};

struct cudaMemcpy3DOperand {
	enum cudaMemcpy3DOperandType type;
	union {
		struct {
			void *ptr;
			size_t rowLength, layerHeight; // in elements
			struct cudaMemLocation locHint;
		} ptr;
		struct {
			cudaArray_t array;
			struct cudaOffset3D offset;
		} array;
	} op;
};

struct cudaMemcpy3DBatchOp {
	struct cudaMemcpy3DOperand src, dst;
	struct cudaExtent extent;
	enum cudaMemcpySrcAccessOrder srcAccessOrder;
	unsigned int flags;
};

CUDART_API(cudaMemcpyBatchAsync, (void *const *to, const void *const *from, const size_t *sizes, size_t count,
				  struct cudaMemcpyAttributes *, size_t *indices, size_t attributes, cudaStream_t))
CUDART_API(cudaMemcpy3DBatchAsync, (size_t count, struct cudaMemcpy3DBatchOp *, unsigned long long flags, cudaStream_t))

// Setting memory
CUDART_API(cudaMemset, (void *address, int value, size_t size))
CUDART_API(cudaMemsetAsync, (void *address, int value, size_t size, cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaMemset2D, (void *address, size_t pitch, int value, size_t width, size_t height))
CUDART_API(cudaMemset2DAsync,
	   (void *address, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaMemset3D, (struct cudaPitchedPtr, int value, struct cudaExtent))
CUDART_API(cudaMemset3DAsync,
	   (struct cudaPitchedPtr, int value, struct cudaExtent, cudaStream_t stream CUDART_DEFAULT(0)))
