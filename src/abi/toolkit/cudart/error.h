// Macros that declare functions, and the errors.
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

// Declares a function that returns an error. In C++ an argument with a CUDART_DEFAULT is optional.
#define CUDART_API(name, parameters) CUDART_LINKAGE cudaError_t CUDARTAPI name parameters;

enum cudaError {
#define CUDART_ERROR(name, value, text) name = value,
#include "error.def"
};
typedef enum cudaError cudaError_t;
