// Defines the matrices of matrix.cu, for its kernels and for the host. Any thread.
#pragma once

#define MATRIX_SIZE 64u // the number of rows of A, columns of B, and elements of each

// Computes an element, a number from -7 to 8.
#define MATRIX_ELEMENT(in, matrix, row, k) \
	((int)((in)[((matrix)*MATRIX_SIZE + (row)) * (MATRIX_SIZE / 8) + (k) / 8] >> (k) % 8 * 4 & 15) - 7)
