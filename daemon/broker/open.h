// Opening: a lease on the current generation, its packets as the publisher sent them, and the page. Main thread only.
#pragma once
#include "daemon/broker/state.h"
#include "daemon/request.h"

void open_begin(struct session *session, const struct request *request);
