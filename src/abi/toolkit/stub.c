// A libcuda.so to link programs with where no driver is installed. It has every entry point; each returns an error.
enum { STUB_LIBRARY = 34 }; // CUDA_ERROR_STUB_LIBRARY; cuda.h is not included, because its prototypes differ from these

#define ENTRY(abi, api, version, stream, family, need)        \
	__attribute__((visibility("default"))) int abi(void); \
	int abi(void)                                         \
	{                                                     \
		return STUB_LIBRARY;                          \
	}
#include "../entries.def"
