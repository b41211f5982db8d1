// The names that runtime.def lists as unsupported: each answers cudaErrorNotSupported. Compiled
// without the toolkit's header: the arguments are not looked at.
#include "unsupported.h"

#define IMPLEMENTED(name, group)
#define UNSUPPORTED(name, group, reason)                                                           \
	int name(void);                                                                            \
	int name(void)                                                                             \
	{                                                                                          \
		return rt_not_supported();                                                         \
	}
#include "runtime.def"
