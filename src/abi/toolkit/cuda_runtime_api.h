// Virgate's own declarations of the CUDA runtime API 13.0, used where no CUDA toolkit is installed.
#pragma once

#include "cudart/array.h"
#include "cudart/base.h"
#include "cudart/copy.h"
#include "cudart/device.h"
#include "cudart/external.h"
#include "cudart/graph.h"
#include "cudart/launch.h"
#include "cudart/library.h"
#include "cudart/memory.h"
#include "cudart/pool.h"
#include "cudart/stream.h"
#include "cudart/texture.h"
