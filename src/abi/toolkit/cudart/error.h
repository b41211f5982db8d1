// The macros that declare functions, and the runtime's errors.
#pragma once
#include "names.h"

// The version of the runtime API that these headers describe: 13.0.
#define CUDART_VERSION 13000
#define CUDARTAPI
#define CUDART_CB

#ifdef __cplusplus
#define CUDART_LINKAGE extern "C"
#define CUDART_DEFAULT(value) = value
#else
#define CUDART_LINKAGE extern
#define CUDART_DEFAULT(value)
#endif

// A function that returns an error. C++ programs can leave out an argument that has a CUDART_DEFAULT.
#define CUDART_API(name, parameters) CUDART_LINKAGE cudaError_t CUDARTAPI name parameters;

enum cudaError {
#define CUDART_ERROR(name, value, text) name = value,
#include "error.def"
};
typedef enum cudaError cudaError_t;
