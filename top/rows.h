// Chooses and sorts the rows of the table, for model.c. One thread.
#pragma once
#include "top/model.h"

// Makes the rows of the model again. If there is too little memory, some rows are missing.
void rows_make(struct model *model);
