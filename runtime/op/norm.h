/* ROTATE's norm of rows before they turn. */
#ifndef RHUMB_OP_NORM_H
#define RHUMB_OP_NORM_H

#include "op.h"

#define NORM_GAINS (BIT(RHUMB_VIEW_Q_GAIN) | BIT(RHUMB_VIEW_K_GAIN))

/* Gains beside their tensors, their numbers, and what cannot be combined with them. */
rhumb_result rhumb_check_norm(const rhumb_context *context, const rhumb_plan_info *info);
/* Shapes of the gains that are there. */
rhumb_result rhumb_check_gains(const rhumb_binder *b);

#endif
