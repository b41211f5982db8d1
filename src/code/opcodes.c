#include "code/opcodes.h"

#include <stddef.h>

unsigned code_group(unsigned architecture)
{
	switch (architecture) {
#define X(group, sm) \
	case sm:     \
		return CODE_##group;
		CODE_ARCHITECTURES(X)
#undef X
	}
	return 0;
}

const char *code_opcode(unsigned group, uint64_t low, uint64_t high, bool *ret_tensor, bool *ret_mixed)
{
	static const struct {
		const char *name;
		uint64_t mixed;
		unsigned bits, groups;
		bool tensor;
	} rows[] = {
#define X(bits, name, tensor, mixed, groups) {name, mixed, bits, groups, tensor},
		CODE_OPCODES(X)
#undef X
	};

	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		if ((low & 0x1ff) != rows[i].bits || !(rows[i].groups & group))
			continue;
		*ret_tensor = rows[i].tensor;
		*ret_mixed = rows[i].mixed == CODE_ALWAYS || (high & rows[i].mixed);
		return *ret_tensor || *ret_mixed ? rows[i].name : NULL;
	}
	return NULL;
}
