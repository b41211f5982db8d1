// What a linker takes from a host object, and from an archive of such.
extern "C" __device__ int forty(int v) { return v + 40; }
