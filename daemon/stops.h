// Tells the arbiters which tenants are stopped (SIGSTOP, a debugger). Main thread only.
#pragma once
#include "daemon/node.h"

// Checks all tenants. Call it after a scan.
void stops_look(struct node *node);
