#include "../internal.h"

const rhumb_scheme rhumb_scheme_resize = {
    .name = "resize",
    .type = RHUMB_TYPE_RESIZE,
};
