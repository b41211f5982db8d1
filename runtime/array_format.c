// Converts channel formats. The runtime has a number of bits for each channel; the driver has a format and a number of
// channels.
#include "array.h"

struct cudaChannelFormatDesc CUDARTAPI cudaCreateChannelDesc(int x, int y, int z, int w, enum cudaChannelFormatKind f)
{
	return (struct cudaChannelFormatDesc){x, y, z, w, f};
}

// Formats that have one name for all channels together, in the runtime and in the driver.
static const struct {
	enum cudaChannelFormatKind kind;
	CUarray_format format;
	int bits;
	unsigned channels;
} named[] = {
	{cudaChannelFormatKindUnsignedNormalized8X1, CU_AD_FORMAT_UNORM_INT8X1, 8, 1},
	{cudaChannelFormatKindUnsignedNormalized8X2, CU_AD_FORMAT_UNORM_INT8X2, 8, 2},
	{cudaChannelFormatKindUnsignedNormalized8X4, CU_AD_FORMAT_UNORM_INT8X4, 8, 4},
	{cudaChannelFormatKindUnsignedNormalized16X1, CU_AD_FORMAT_UNORM_INT16X1, 16, 1},
	{cudaChannelFormatKindUnsignedNormalized16X2, CU_AD_FORMAT_UNORM_INT16X2, 16, 2},
	{cudaChannelFormatKindUnsignedNormalized16X4, CU_AD_FORMAT_UNORM_INT16X4, 16, 4},
	{cudaChannelFormatKindSignedNormalized8X1, CU_AD_FORMAT_SNORM_INT8X1, 8, 1},
	{cudaChannelFormatKindSignedNormalized8X2, CU_AD_FORMAT_SNORM_INT8X2, 8, 2},
	{cudaChannelFormatKindSignedNormalized8X4, CU_AD_FORMAT_SNORM_INT8X4, 8, 4},
	{cudaChannelFormatKindSignedNormalized16X1, CU_AD_FORMAT_SNORM_INT16X1, 16, 1},
	{cudaChannelFormatKindSignedNormalized16X2, CU_AD_FORMAT_SNORM_INT16X2, 16, 2},
	{cudaChannelFormatKindSignedNormalized16X4, CU_AD_FORMAT_SNORM_INT16X4, 16, 4},
	{cudaChannelFormatKindNV12, CU_AD_FORMAT_NV12, 8, 3},
};

static cudaError_t plain_format(enum cudaChannelFormatKind kind, int bits, CUarray_format *ret_format)
{
	static const struct {
		enum cudaChannelFormatKind kind;
		int bits;
		CUarray_format format;
	} plain[] = {
		{cudaChannelFormatKindUnsigned, 8, CU_AD_FORMAT_UNSIGNED_INT8},
		{cudaChannelFormatKindUnsigned, 16, CU_AD_FORMAT_UNSIGNED_INT16},
		{cudaChannelFormatKindUnsigned, 32, CU_AD_FORMAT_UNSIGNED_INT32},
		{cudaChannelFormatKindSigned, 8, CU_AD_FORMAT_SIGNED_INT8},
		{cudaChannelFormatKindSigned, 16, CU_AD_FORMAT_SIGNED_INT16},
		{cudaChannelFormatKindSigned, 32, CU_AD_FORMAT_SIGNED_INT32},
		{cudaChannelFormatKindFloat, 16, CU_AD_FORMAT_HALF},
		{cudaChannelFormatKindFloat, 32, CU_AD_FORMAT_FLOAT},
	};

	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		if (plain[i].kind == kind && plain[i].bits == bits) {
			*ret_format = plain[i].format;
			return cudaSuccess;
		}
	return cudaErrorInvalidChannelDescriptor;
}

cudaError_t rt_format_of(const struct cudaChannelFormatDesc *channels, CUarray_format *ret_format, unsigned *ret_count)
{
	const int bits[] = {channels->x, channels->y, channels->z, channels->w};
	unsigned count = 0;

	for (size_t i = 0; i < sizeof named / sizeof *named; i++)
		if (named[i].kind == channels->f) {
			*ret_format = named[i].format;
			*ret_count = named[i].channels;
			return cudaSuccess;
		}
	while (count < 4 && bits[count])
		count++;
	for (unsigned i = 0; i < 4; i++)
		if (bits[i] != (i < count ? bits[0] : 0))
			return cudaErrorInvalidChannelDescriptor;
	if (count == 0 || count == 3)
		return cudaErrorInvalidChannelDescriptor;
	RT_TRY(plain_format(channels->f, bits[0], ret_format));
	*ret_count = count;
	return cudaSuccess;
}

struct cudaChannelFormatDesc rt_channels_of(CUarray_format format, unsigned count)
{
	enum cudaChannelFormatKind kind = cudaChannelFormatKindNone;
	int bits = 0;

	for (size_t i = 0; i < sizeof named / sizeof *named; i++)
		if (named[i].format == format) {
			kind = named[i].kind;
			bits = named[i].bits;
			count = named[i].channels;
		}
	if (format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT) {
		kind = cudaChannelFormatKindFloat;
		bits = format == CU_AD_FORMAT_HALF ? 16 : 32;
	} else if (format <= CU_AD_FORMAT_SIGNED_INT32) { // formats 1, 2, 3 are unsigned; 8, 9, 10 are signed
		kind = format < CU_AD_FORMAT_SIGNED_INT8 ? cudaChannelFormatKindUnsigned : cudaChannelFormatKindSigned;
		bits = 8 << ((format & 7) - (kind == cudaChannelFormatKindUnsigned));
	}
	return (struct cudaChannelFormatDesc){bits, count > 1 ? bits : 0, count > 2 ? bits : 0, count > 3 ? bits : 0,
					      kind};
}
