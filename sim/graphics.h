// Declares the driver's functions for OpenGL (graphics.c). cudaGL.h also declares them, but includes OpenGL's own
// headers. Any thread.
#pragma once

#include "sim.h"

#pragma GCC visibility push(default)
CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource *pCudaResource, unsigned int buffer, unsigned int Flags);
CUresult CUDAAPI cuGraphicsGLRegisterImage(CUgraphicsResource *pCudaResource, unsigned int image, unsigned int target,
					   unsigned int Flags);
#pragma GCC visibility pop
