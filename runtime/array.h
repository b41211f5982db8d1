// Converts channel formats of arrays between the runtime's and the driver's. Any thread.
#pragma once

#include "runtime.h"

// Converts channels to the driver's format. cudaErrorInvalidChannelDescriptor: the driver has no such format.
cudaError_t rt_format_of(const struct cudaChannelFormatDesc *channels, CUarray_format *ret_format, unsigned *ret_count);
struct cudaChannelFormatDesc rt_channels_of(CUarray_format format, unsigned count);
