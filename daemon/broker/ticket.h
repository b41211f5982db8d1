// Makes and checks tickets. A publisher proves by a ticket to a later daemon what it published under this one. Main
// thread only.
#pragma once
#include "daemon/broker/state.h"

enum { TICKET_TEXT = 64 };

// Computes the digest of an edition whose packets are complete.
void ticket_digest(struct edition *edition);
// Makes the ticket of an edition (one generation of a publication), as a text. Returns 0 or -errno.
int ticket_make(const struct node *node, const struct edition *edition, char ret_text[TICKET_TEXT + 1]);
bool ticket_is_valid(const struct node *node, const struct edition *edition, const char *text);
