/* What the two files of scheme deberta share. */
#ifndef RHUMB_TOOLS_CASES_DEBERTA_H
#define RHUMB_TOOLS_CASES_DEBERTA_H

#include "cases_relative.h"

/* Does pos_att_type have "c2p" or "p2c"? */
bool case_deberta_has(const case_file *c, const char *term);

/* Position parameters of ops scores and attention, checked and read. */
int case_read_deberta(case_file *c, ref_deberta *deberta);

/* The same as the library's struct. */
void case_deberta_scheme(const ref_deberta *d, rhumb_deberta *deberta);

/* Hidden states and weights instead of q, k and v, and the Enhanced Mask Decoder. The params have
 * been checked. */
int case_run_deberta_hidden(case_file *c);

#endif
