// Fuzzes the decoder of seals with arbitrary bytes as text. It must refuse the text, or return a seal that is encoded
// to the same text, since no seal has two texts.
#include "virgate/seal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length)
{
	char text[VG_SEAL_TEXT_MAX];
	struct vg_seal seal = {.bytes = 1};
	size_t made;

	enum vg_status status = vg_seal_decode((const char *)data, length, &seal);
	if (status == VG_PROTOCOL && seal.bytes == 1 && seal.size == 0)
		return 0;
	if (status != VG_OK || vg_seal_encode(&seal, text, sizeof text, &made) != VG_OK)
		abort();
	if (length == made + 1 && data[made] == '\n')
		length--;
	if (length != made || memcmp(text, data, made) != 0)
		abort();
	if (vg_seal_check_set(&seal, 1) == VG_OK && (seal.shards != 1 || seal.shard != 0))
		abort();
	return 0;
}
