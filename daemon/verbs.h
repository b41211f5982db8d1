// Answers requests by the table of verbs. Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/authority.h"
#include "daemon/node.h"

// Returns false if the request must wait for the lookup of a user or group that it names.
bool verbs_are_ready(const struct authority_peer *peer, const json_t *object);
// Returns the answer to a request. NULL: the request must be repeated later, or node->change answers it.
json_t *verbs_answer(struct node *node, const struct authority_peer *peer, const json_t *object);
