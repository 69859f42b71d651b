#include "../internal.h"

const rhumb_scheme rhumb_scheme_sinusoidal2d = {
    .name = "sinusoidal2d",
    .type = RHUMB_TYPE_SINUSOIDAL2D,
};
