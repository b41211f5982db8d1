// Gives a reader a lease on the current generation, the publisher's packets unchanged, and the publication's page
// (wire/page.h). Main thread only.
#pragma once
#include "daemon/broker/state.h"
#include "daemon/request.h"

void open_begin(struct session *session, const struct request *request);
