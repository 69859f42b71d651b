#include "../internal.h"

const rhumb_scheme rhumb_scheme_xlnet = {
    .name = "xlnet",
    .type = RHUMB_TYPE_XLNET,
};
