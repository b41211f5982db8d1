// Declares the edges between the nodes of a graph.
#pragma once
#include "base.h"

#define cudaGraphKernelNodePortDefault 0
#define cudaGraphKernelNodePortProgrammatic 1
#define cudaGraphKernelNodePortLaunchCompletion 2

enum cudaGraphDependencyType_enum { cudaGraphDependencyTypeDefault = 0, cudaGraphDependencyTypeProgrammatic = 1 };
typedef enum cudaGraphDependencyType_enum cudaGraphDependencyType;

typedef struct cudaGraphEdgeData_st {
	unsigned char from_port, to_port;
	unsigned char type; // cudaGraphDependencyType
	unsigned char reserved[5];
} cudaGraphEdgeData;
