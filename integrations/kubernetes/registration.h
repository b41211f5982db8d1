// Registers a resource with the kubelet: one call of v1beta1.Registration/Register. Main thread only.
#pragma once
#include "loop.h"

struct registration;

// `error` is NULL after success, else why it failed, valid during the call. The registration is freed after it.
typedef void registration_ended(void *user, const char *error);

// Begins to register. `endpoint` is the name of the plugin's socket beside the kubelet's. Returns NULL if there is no
// memory, or no kubelet at the path; errno says why. `ended` is not called then.
struct registration *registration_begin(struct loop *loop, const char *kubelet, const char *endpoint,
					const char *resource, registration_ended *ended, void *user);
// Ends it without calling `ended`. Accepts NULL.
void registration_cancel(struct registration *registration);
// Ends it with an error if the kubelet does not answer. Call it every second or so; `registration` may be freed.
void registration_end_late(struct registration *registration);
