// Controls of the fake driver. Tests find them with dlsym.
#pragma once
#include <stdint.h>

void fake_fail(const char *entry); // makes this function fail from now on; NULL: none fails
// Sets a function that cuMemPoolDestroy calls. The test uses it to do what another thread could do during that call.
void fake_on_pool_destroy(void (*call)(void));
uint64_t fake_used(void); // returns how many allocated bytes are not freed yet
uint64_t fake_calls(void);
float fake_float(void);		// returns the last value passed to cuParamSetf
unsigned int fake_access(void); // returns the last access passed to cuMemSetAccess
