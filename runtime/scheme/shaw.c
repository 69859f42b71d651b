#include "../internal.h"

const rhumb_scheme rhumb_scheme_shaw = {
    .name = "shaw",
    .type = RHUMB_TYPE_SHAW,
};
