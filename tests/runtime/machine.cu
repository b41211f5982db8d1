// Machine code alone, which no other GPU than that of its architecture runs.
extern "C" __global__ void machine_code(int *to)
{
	*to = 1;
}
