#include "../internal.h"

const rhumb_scheme rhumb_scheme_swin_v2 = {
    .name = "swin_v2",
    .type = RHUMB_TYPE_SWIN_V2,
    .resolve_encoding = rhumb_resolve_window_coordinates,
};
