// An identifier of 16 bytes, in the driver API and in the runtime API.
#pragma once

typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;
