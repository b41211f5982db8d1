// Declares the functions of cuDNN 9 that this library calls, since cuDNN's header is not part of the CUDA toolkit.
// tests/driver compares these declarations with <cudnn.h> if that is installed. All handles and descriptors are
// pointers. Functions return a status, 0 for success.
#pragma once
#include <stddef.h>

enum { VG_CUDNN_FLOAT = 0, VG_CUDNN_DOUBLE = 1, VG_CUDNN_HALF = 2, VG_CUDNN_BFLOAT16 = 9 };
enum { VG_CUDNN_NCHW = 0 };
enum { VG_CUDNN_CROSS_CORRELATION = 1 };
enum { VG_CUDNN_DEFAULT_MATH = 0, VG_CUDNN_TENSOR_OP_MATH = 1, VG_CUDNN_FMA_MATH = 3 };
// Algorithms up to DIRECT sum the products directly. Algorithms from 4 on use Fourier transforms or Winograd's method.
enum { VG_CUDNN_ALGORITHM_DIRECT = 3, VG_CUDNN_ALGORITHMS = 8 };

struct vg_cudnn_algorithm {
	int algorithm, status;
	float milliseconds;
	size_t workspace;
	int determinism, math, reserved[3];
};

#define VG_CUDNN_CALLS(X)                                                                                           \
	X(cudnnCreate, void **handle)                                                                               \
	X(cudnnDestroy, void *handle)                                                                               \
	X(cudnnSetStream, void *handle, void *stream)                                                               \
	X(cudnnCreateTensorDescriptor, void **tensor)                                                               \
	X(cudnnDestroyTensorDescriptor, void *tensor)                                                               \
	X(cudnnSetTensor4dDescriptor, void *tensor, int format, int type, int n, int c, int h, int w)               \
	X(cudnnCreateFilterDescriptor, void **filter)                                                               \
	X(cudnnDestroyFilterDescriptor, void *filter)                                                               \
	X(cudnnSetFilter4dDescriptor, void *filter, int type, int format, int k, int c, int h, int w)               \
	X(cudnnCreateConvolutionDescriptor, void **convolution)                                                     \
	X(cudnnDestroyConvolutionDescriptor, void *convolution)                                                     \
	X(cudnnSetConvolution2dDescriptor, void *convolution, int padding_y, int padding_x, int stride_y,           \
	  int stride_x, int dilation_y, int dilation_x, int mode, int type)                                         \
	X(cudnnSetConvolutionGroupCount, void *convolution, int groups)                                             \
	X(cudnnSetConvolutionMathType, void *convolution, int math)                                                 \
	X(cudnnGetConvolutionForwardAlgorithm_v7, void *handle, void *input, void *filter, void *convolution,       \
	  void *output, int asked, int *ret_count, struct vg_cudnn_algorithm *ret_algorithms)                       \
	X(cudnnGetConvolutionForwardWorkspaceSize, void *handle, void *input, void *filter, void *convolution,      \
	  void *output, int algorithm, size_t *ret_bytes)                                                           \
	X(cudnnConvolutionForward, void *handle, const void *alpha, void *input_tensor, const void *input,          \
	  void *filter_tensor, const void *filter, void *convolution, int algorithm, void *workspace, size_t bytes, \
	  const void *beta, void *output_tensor, void *output)                                                      \
	X(cudnnAddTensor, void *handle, const void *alpha, void *from_tensor, const void *from, const void *beta,   \
	  void *to_tensor, void *to)
