// Handles registrations: the messages by which tenants make themselves known. Main thread only.
#pragma once
#include "daemon/authority.h"
#include "daemon/node.h"
#include "wire/wire.h"

// Takes `exports_fd`, the epoll instance of the tenant's exported descriptors; -1: none.
void registration_handle(struct node *node, const struct vg_wire_registration *registration,
			 const struct authority_peer *peer, int exports_fd);
