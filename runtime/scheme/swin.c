#include "../internal.h"

const rhumb_scheme rhumb_scheme_swin = {
    .name = "swin",
    .type = RHUMB_TYPE_SWIN,
};
