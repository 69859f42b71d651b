#include "../internal.h"

const rhumb_scheme rhumb_scheme_t5 = {
    .name = "t5",
    .type = RHUMB_TYPE_T5,
};
