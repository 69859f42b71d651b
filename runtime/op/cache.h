/* The key-value cache side of ROTATE. */
#ifndef RHUMB_OP_CACHE_H
#define RHUMB_OP_CACHE_H

#include "op.h"

/* Views that belong together: V and V_OUT, SLOTS and append SLOTS, a cache and its rows. */
rhumb_result rhumb_check_append(const rhumb_context *context, const rhumb_plan_info *info);
/* Makes of the rotation of a scheme what plan_info.purpose asks for. */
rhumb_result rhumb_apply_purpose(const rhumb_context *context, rhumb_resolved *r);
/* A ring takes every row of a dispatch: bindings->k_length is its capacity. */
rhumb_result rhumb_check_ring(const rhumb_binder *b, const rhumb_bindings *bindings);
/* dispatch.append_position against the capacity; fills what the kernel wants of both. */
rhumb_result rhumb_check_append_position(const rhumb_bindings *bindings, const rhumb_dispatch *d,
                                         struct rhumb_push *push);

#endif
