// Defines the matrices of matrix.cu, for its kernels and for the host. Any thread may use it.
#pragma once

#define MATRIX_SIZE 64u // the number of rows and of columns of A and of B

// Returns element k of a row of A, or of a column of B: a number from -7 to 8. `matrix` is 0 for A, and 1 for B.
#define MATRIX_ELEMENT(in, matrix, row, k) \
	((int)((in)[((matrix)*MATRIX_SIZE + (row)) * (MATRIX_SIZE / 8) + (k) / 8] >> (k) % 8 * 4 & 15) - 7)
