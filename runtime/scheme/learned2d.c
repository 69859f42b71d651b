#include "../internal.h"

const rhumb_scheme rhumb_scheme_learned2d = {
    .name = "learned2d",
    .type = RHUMB_TYPE_LEARNED2D,
};
