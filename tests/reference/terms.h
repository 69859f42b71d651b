/* What attention.c asks of the terms of a relative scheme. */
#ifndef RHUMB_REFERENCE_TERMS_H
#define RHUMB_REFERENCE_TERMS_H

#include "relative.h"

/* Rows of A, r, b and V, and of C; REF_ROW_NONE without terms. -1 for a row outside the tables. */
int ref_terms_rows(const ref_terms *terms, int64_t delta, uint32_t b, int64_t *row, int64_t *c_row);

/* S of one pair, q row a, capped. */
double ref_terms_logit(const ref_attention *t, const ref_pair_place *place, uint32_t a, int64_t row,
                       int64_t c_row, const double *q, const double *k);

/* Channel d of V[row]; 0 without one. */
double ref_terms_value(const ref_terms *terms, uint32_t h, int64_t row, uint32_t d);

#endif
