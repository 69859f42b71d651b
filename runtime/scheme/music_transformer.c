#include "../internal.h"

const rhumb_scheme rhumb_scheme_music_transformer = {
    .name = "music_transformer",
    .type = RHUMB_TYPE_MUSIC_TRANSFORMER,
};
