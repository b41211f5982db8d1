// A stub as a toolkit after 13.0 may bring: all our rows but one, and a symbol that we do not know.
#define ENTRY(abi, api, version, stream, family, need)                                                                 \
	__attribute__((visibility("default"))) void abi(void);                                                         \
	void abi(void)                                                                                                 \
	{                                                                                                              \
	}
#define cuInit cuNotYetKnown
#include "abi/entries.def"
