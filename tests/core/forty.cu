// Device code in a host object, and in an archive.
extern "C" __device__ int forty(int v) { return v + 40; }
