// Makes answers to requests, as JSON. Main thread only.
#pragma once
#include <jansson.h>

// Returns a refusal with a code and a message.
__attribute__((format(printf, 2, 3))) json_t *refuse(const char *code, const char *format, ...);
json_t *agree(void);
// Returns a positive answer that has `value` as the field `key`. Takes the caller's reference to `value`.
json_t *agree_with(const char *key, json_t *value);
// Returns the option that a suggested command needs to reach this daemon: " --sim=SPEC" on a simulated GPU, else "".
// Valid until the next call.
const char *sim_flag(void);
