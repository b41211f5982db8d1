// A libcuda that has only the functions that Virgate requires. Each returns 700 + the length of its name. If the macro
// BROKEN is 1, cuMemAlloc_v2 is missing, too.
#define JOIN(a, b) a##b
#define DEFINE_required(abi)                                 \
	int abi(void);                                       \
	__attribute__((visibility("default"))) int abi(void) \
	{                                                    \
		return 700 + (int)sizeof(#abi) - 1;          \
	}
#define DEFINE_optional(abi)
#if BROKEN
#define cuMemAlloc_v2 renamed_away
#endif
#define ENTRY(abi, api, version, stream, family, need) JOIN(DEFINE_, need)(abi)
#include "abi/entries.def"
