// Controls of the fake driver, found by dlsym in its library.
#pragma once
#include <stdint.h>

void fake_fail(const char *entry); // this entry fails from now on; NULL: none
uint64_t fake_used(void);	    // bytes handed out and not yet freed
uint64_t fake_calls(void);
float fake_float(void); // what cuParamSetf was last given
unsigned int fake_access(void); // what cuMemSetAccess was last given
