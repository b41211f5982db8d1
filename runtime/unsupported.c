// Defines the functions that runtime.def lists as unsupported. Each returns cudaErrorNotSupported. Compiled without the
// toolkit's header, because the arguments are not used.
#include "unsupported.h"

#define IMPLEMENTED(name, group)
#define UNSUPPORTED(name, group, reason)   \
	int name(void);                    \
	int name(void)                     \
	{                                  \
		return rt_not_supported(); \
	}
#include "runtime.def"
