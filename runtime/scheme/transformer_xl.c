#include "../internal.h"

const rhumb_scheme rhumb_scheme_transformer_xl = {
    .name = "transformer_xl",
    .type = RHUMB_TYPE_TRANSFORMER_XL,
};
