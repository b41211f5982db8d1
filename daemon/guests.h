// Handles the messages by which a tenant says that it begins or ends to use memory that is charged to another vGPU.
// Main thread only.
#pragma once
#include "daemon/authority.h"
#include "daemon/node.h"
#include "wire/wire.h"

// Handles the message in `guest`. Returns whether `guest` now contains the answer to be sent.
bool guests_answer(struct node *node, const struct authority_peer *peer, struct vg_wire_guest *guest);
// Undoes what guests_answer() did, since the answer could not be sent.
void guests_undo(struct node *node, const struct vg_wire_guest *guest);
