// Controls of the fake driver. Tests find them with dlsym.
#pragma once
#include <stdint.h>

void fake_fail(const char *entry); // this entry fails from now on; NULL: none
void fake_on_pool_destroy(void (*call)(void)); // called by cuMemPoolDestroy, as if by another thread
uint64_t fake_used(void);	    // allocated bytes that are not freed yet
uint64_t fake_calls(void);
float fake_float(void); // what cuParamSetf was last given
unsigned int fake_access(void); // what cuMemSetAccess was last given
