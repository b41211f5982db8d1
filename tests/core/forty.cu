// Device code that the tests link from a host object, and from an archive.
extern "C" __device__ int forty(int v) { return v + 40; }
