// A program without a dynamic linker: nothing can be preloaded into it.
int main(void)
{
	return 0;
}
