#include "../internal.h"

const rhumb_scheme rhumb_scheme_sinusoidal = {
    .name = "sinusoidal",
    .type = RHUMB_TYPE_SINUSOIDAL,
};
