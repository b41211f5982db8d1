// Serves a socket for each resource in the kubelet's directory, and registers the resource with the kubelet. It
// registers at the start, and whenever the kubelet has created its own socket again. Main thread only.
#pragma once
#include "api.h"
#include "loop.h"
#include "node.h"

struct plugin;

// Starts to serve the resources of `api`, which must stay valid. Returns NULL after a message on standard error.
struct plugin *plugin_start(struct loop *loop, const struct api *api, const char *directory);
// Removes the sockets. Accepts NULL.
void plugin_stop(struct plugin *plugin);
// Repeats a registration with the kubelet that has failed, and closes connections that take too long. Call it after
// each step of the loop.
void plugin_tick(struct plugin *plugin);
// Sends the lists that have changed to the kubelet.
void plugin_push(struct plugin *plugin);
