// Answers requests by the table of verbs. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/authority.h"
#include "daemon/node.h"

// Returns false if the request must wait for the lookup of a user or group that it names.
bool verbs_are_ready(const struct authority_peer *peer, const json_t *object);
// Returns the answer to a request. Returns NULL if there is no answer yet: either node->change is set, and the request
// is answered when this change is on disk, or the request must be repeated later.
json_t *verbs_answer(struct node *node, const struct authority_peer *peer, const json_t *object);
