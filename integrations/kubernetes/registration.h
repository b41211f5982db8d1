// Registers a resource with the kubelet: one call of v1beta1.Registration/Register. Main thread only.
#pragma once
#include "loop.h"

struct registration;

// Called when a registration ends. `error` is NULL after success; otherwise it is the reason, which is valid during the
// call. The registration is freed after the call.
typedef void registration_ended(void *user, const char *error);

// Begins to register. `endpoint` is the name of the plugin's socket, in the directory of the kubelet's socket. If there
// is no memory, or no kubelet at the path, sets errno, returns NULL, and never calls `ended`.
struct registration *registration_begin(struct loop *loop, const char *kubelet, const char *endpoint,
					const char *resource, registration_ended *ended, void *user);
// Ends the registration without calling `ended`. Accepts NULL.
void registration_cancel(struct registration *registration);
// Ends the registration with an error if the kubelet has not answered in time, and frees it. Call it about every
// second.
void registration_end_late(struct registration *registration);
