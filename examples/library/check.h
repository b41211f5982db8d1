// Checks every call: check(vg_device_get(0, &device)). Any thread.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <virgate/virgate.h>

#define check(call)                                                                                     \
	do {                                                                                            \
		if ((call) != VG_OK) {                                                                  \
			fprintf(stderr, "%s: %s\n%s", vg_last_error()->function, vg_last_error()->text, \
				vg_last_error()->log);                                                  \
			exit(1);                                                                        \
		}                                                                                       \
	} while (0)
