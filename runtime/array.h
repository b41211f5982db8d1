// Channel formats of arrays, in the driver's words. Any thread.
#pragma once

#include "runtime.h"

// cudaErrorInvalidChannelDescriptor: no format of the driver is that.
cudaError_t rt_format_of(const struct cudaChannelFormatDesc *channels, CUarray_format *ret_format, unsigned *ret_count);
struct cudaChannelFormatDesc rt_channels_of(CUarray_format format, unsigned count);
