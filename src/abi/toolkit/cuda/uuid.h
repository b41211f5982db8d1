// An identifier of 16 bytes, for the driver API and the runtime API.
#pragma once

typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;
