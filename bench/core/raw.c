#include "cases.h"

#include <dlfcn.h>

struct raw raw;

#define TEXT(name) #name
#define TEXT_OF(name) TEXT(name)

void raw_open(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

	if (!driver)
		bench_give_up("dlopen", "the library has loaded no libcuda.so.1");
#define X(entry)                                                          \
	raw.entry = (__typeof__(raw.entry))dlsym(driver, TEXT_OF(entry)); \
	if (!raw.entry)                                                   \
		bench_give_up(TEXT_OF(entry), "the driver does not have it");
	RAW_ENTRIES(X)
#undef X
}
