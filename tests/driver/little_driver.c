// Stands in for libcuda: every required entry answers 700 + its number of letters, and the
// optional ones are not there. BROKEN: cuMemAlloc_v2 is not there either.
#define JOIN(a, b) a##b
#define DEFINE_required(abi)                                                                       \
	int abi(void);                                                                             \
	__attribute__((visibility("default"))) int abi(void)                                       \
	{                                                                                          \
		return 700 + (int)sizeof(#abi) - 1;                                                \
	}
#define DEFINE_optional(abi)
#if BROKEN
#define cuMemAlloc_v2 renamed_away
#endif
#define ENTRY(abi, api, version, stream, family, need) JOIN(DEFINE_, need)(abi)
#include "abi/entries.def"
