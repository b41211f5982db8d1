// Fuzzes the reader of the audit log with arbitrary bytes as a line of the log, and as its head. Without the key, no
// bytes can be valid: the reader must accept none, and must not change its state.
#include "vram/audit_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length);

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t length)
{
	static const struct vram_keys keys = {.audit = {1, 2, 3}};
	struct audit_chain chain = {.count = 6, .mac = {7}}, before = chain;
	struct audit_head head = {.bytes = 8};
	char time[AUDIT_TIME], text[AUDIT_HEAD] = "";
	uint64_t number = 0;

	enum audit_line how = audit_line_check((const char *)data, length, &keys, &chain, &number, time);
	if (how == AUDIT_LINE_NEXT || memcmp(&chain, &before, sizeof chain) != 0)
		abort();
	if ((how == AUDIT_LINE_EARLY) != (how != AUDIT_LINE_GARBAGE && number > 7))
		abort();
	memcpy(text, data, length < sizeof text ? length : sizeof text);
	if (audit_head_read(text, sizeof text, &keys, &head) ||
	    audit_head_read((const char *)data, length, &keys, &head) || head.bytes != 8)
		abort();
	return 0;
}
