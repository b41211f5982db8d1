// Chooses and sorts the rows of the table, for model.c. One thread.
#pragma once
#include "top/model.h"

// Replaces the rows. If no memory is left, the table stays shorter.
void rows_make(struct model *model);
