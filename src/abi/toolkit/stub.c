// A libcuda.so to link programs with where no driver is installed: every entry point, each of which fails.
enum { STUB_LIBRARY = 34 }; // CUDA_ERROR_STUB_LIBRARY; without cuda.h, whose prototypes differ from these

#define ENTRY(abi, api, version, stream, family, need)                                                                 \
	__attribute__((visibility("default"))) int abi(void);                                                          \
	int abi(void)                                                                                                  \
	{                                                                                                              \
		return STUB_LIBRARY;                                                                                   \
	}
#include "../entries.def"
