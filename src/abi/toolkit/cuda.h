// Virgate's own declarations of the CUDA driver API 13.0, used where no CUDA toolkit is installed. Each function is
// declared under the name that the driver exports. cuda/names.h maps the names that programs write to these.
#pragma once
#define __cuda_cuda_h__

#include "cuda/array.h"
#include "cuda/context.h"
#include "cuda/copy.h"
#include "cuda/device.h"
#include "cuda/external.h"
#include "cuda/graph.h"
#include "cuda/launch.h"
#include "cuda/memory.h"
#include "cuda/module.h"
#include "cuda/process.h"
#include "cuda/stream.h"
#include "cuda/superseded.h"
#include "cuda/tensor_map.h"
#include "cuda/texture.h"
#include "cuda/vmm.h"

#ifndef __CUDA_API_VERSION_INTERNAL
#include "cuda/names.h"
#endif
