// Windows of a grid of tokens. Entry e of B * windows is window e % windows of batch entry
// e / windows; its token t is class token t, or the place (y, x) of the window in row-major order.
// Without a grid a batch entry is one window.
//
// In window space u = window * size + place; the token there is the pixel (u + shift) mod modulus.
// Windows may reach beyond the grid: padding, keys with k = v = 0. modulus is the padded grid where
// the padding is shifted too, else the grid.

#define NO_PIXEL 0xffffffffu

uvec2 window_size()
{
    return uvec2(constants.window_height, constants.window_width);
}

bool has_grid()
{
    return constants.grid_height != 0u;
}

// Windows of a batch entry, by axis.
uvec2 window_counts()
{
    return has_grid() ? uvec2(constants.padded_height, constants.padded_width) / window_size()
                      : uvec2(1u);
}

uint window_count()
{
    uvec2 n = window_counts();
    return n.x * n.y;
}

uint window_tokens()
{
    return constants.class_tokens + constants.window_height * constants.window_width;
}

// Place of token t inside its window; t is no class token.
uvec2 window_place(uint t)
{
    uint i = t - constants.class_tokens;
    return uvec2(i / constants.window_width, i % constants.window_width);
}

uvec2 window_space(uint window, uvec2 place)
{
    uint columns = window_counts().y;
    return uvec2(window / columns, window % columns) * window_size() + place;
}

// Row of Q, K, V and O of token t; NO_PIXEL for padding.
uint window_pixel(uint window, uint t)
{
    if (!has_grid())
        return t;
    uvec2 modulus = uvec2(constants.modulus_height, constants.modulus_width);
    uvec2 grid = uvec2(constants.grid_height, constants.grid_width);
    uvec2 u = window_space(window, window_place(t));
    uvec2 p = (u + uvec2(constants.shift_height, constants.shift_width)) % modulus;
    bool real = all(lessThan(u, modulus)) && all(lessThan(p, grid));
    return real ? p.x * constants.grid_width + p.y : NO_PIXEL;
}

// Row of TABLE for a query token, whose place is place_q, and a key token of one window.
int window_row_from(uint t_q, uvec2 place_q, uint t_k)
{
    uvec2 size = window_size();
    uint offsets = (2u * size.x - 1u) * (2u * size.y - 1u);
    bool class_q = t_q < constants.class_tokens;
    bool class_k = t_k < constants.class_tokens;
    if (class_q || class_k)
        return int(offsets + (class_q ? (class_k ? 2u : 0u) : 1u));
    uvec2 d = place_q + size - 1u - window_place(t_k);
    return int(d.x * (2u * size.y - 1u) + d.y);
}

int window_row(uint t_q, uint t_k)
{
    return window_row_from(t_q, window_place(t_q), t_k);
}

// Which of the parts that a cyclic shift brings together, by axis.
uvec2 window_region(uint window, uvec2 place)
{
    uvec2 padded = uvec2(constants.padded_height, constants.padded_width);
    uvec2 shift = uvec2(constants.shift_height, constants.shift_width);
    uvec2 u = window_space(window, place);
    uvec2 region = uvec2(greaterThanEqual(u, padded - window_size())) +
                   uvec2(greaterThanEqual(u, padded - shift));
    return region * uvec2(greaterThan(shift, uvec2(0u)));
}

// What is added to the logit of two tokens for their regions, by their places.
float window_mask(uint window, uvec2 place_q, uvec2 place_k)
{
    bool apart = has_grid() && any(notEqual(window_region(window, place_q),
                                            window_region(window, place_k)));
    return apart ? constants.mask_value : 0.0;
}
