// The vectorised rows of hard max. Buffers end in slack of at least kRowSlack bytes, so that kernels may round a length
// up to whole vectors; only the functions named *_exact write no element past n.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/kernel_table.hpp"

namespace halfulp {

inline constexpr std::int64_t kRowSlack = 128;

// How two cells compare, the second later in row-major order. `clean` holds for values without NaN; `absent` treats NaN
// as no cell; `propagate` lets a NaN win.
enum class MaxRule : std::uint8_t { clean, absent, propagate };

// What rows hold beside ordinary numbers, the worst of it. Integers are always clean.
enum class Contents : std::uint8_t { finite, infinite, nan };

// Rows of equal length: `count` rows of `items`, `from_step` and `to_step` items apart.
struct RowRun {
  std::int64_t count = 1;
  std::int64_t items = 0;
  std::int64_t from_step = 0;
  std::int64_t to_step = 0;
};

// Windows along rows of contiguous cells: `before` places of padding, then `cells` cells, then padding. The payload
// of the cells, if it is read at all, lies in rows `pair_step` apart. Changed cells are (cell & keep) ^ flip; changed
// cells of int16 are the sortable keys of a half type with this infinity, and a NaN or -0 among them counts as NaN.
struct WindowRun {
  std::int64_t rows = 1;
  std::int64_t cells = 0;
  std::int64_t before = 0;
  std::int64_t outputs = 0;
  std::int64_t from_step = 0;
  std::int64_t to_step = 0;
  std::int64_t pair_step = 0;
  std::uint64_t keep = ~std::uint64_t{0}, flip = 0;
  std::int16_t infinity = 0;
};

// What loses against every cell of a clean row.
template <class C>
constexpr C lowest_value() noexcept {
  using Limits = std::numeric_limits<C>;
  return std::is_floating_point_v<C> ? -Limits::infinity() : Limits::lowest();
}

// The maxima of windows of two or three cells of clean rows, and what the rows held, for one stride. The paired ones
// also store the payload of the winner: its tangent, or the number of its tap. Rows of `out` and `pairs` may be
// written up to a whole vector.
template <class C, class P>
struct WindowKernels {
  using Plain = Contents (*)(const C* source, C* out, const WindowRun& run);
  using Paired = Contents (*)(const C* source, const P* tangents, C* out, P* pairs, const WindowRun& run);
  Plain plain[2][2];    // [cells - 2][last]
  Plain changed[2][2];  // of changed cells; null unless C is floating or int16
  Paired paired[2][2];  // null unless C is floating
};

// One output of a sliding window over rows: the winner of row `suffix` of the suffixes, if that is not negative, and
// then of the running winner of the rows from the first up to `stop`, if there are any.
struct SlideStep {
  std::int64_t suffix = -1;
  std::int64_t stop = 0;
};
struct SlideRun {
  const SlideStep* steps = nullptr;
  std::int64_t count = 0;
  std::int64_t items = 0;
  std::int64_t row_step = 0;  // of suffixes and rows
  std::int64_t out_step = 0;
};

// C: the type of the values. P: the payload of a value, an integer or a C, as wide as C.
template <class C, class P>
struct MaxRowKernels {
  // out[i] = the winner of taps[0][i], taps[1][i], ... in that order, for every row; count >= 1. out may be a tap if
  // there is one row.
  using Fold = void (*)(const C* const* taps, int count, C* out, const RowRun& rows);
  // The same with payloads, to which `add`, and `step` for every tap before the winner, are added if it is an
  // integer. Without pairs these are the payload.
  using FoldPair = void (*)(const C* const* taps, const P* const* pairs, int count, C* out, P* out_pair, P add, P step,
                            const RowRun& rows);
  // The same with no element written past the rows; integers must fit in a byte.
  using Carried = std::conditional_t<std::is_floating_point_v<P>, P, std::uint8_t>;
  using FoldPairExact = void (*)(const C* const* taps, const P* const* pairs, int count, C* out, Carried* out_pair,
                                 P add, P step, const RowRun& rows);
  Fold fold[3][2];  // [rule][last]
  Fold fold_exact[3][2];
  FoldPair fold_pair[2][2];  // clean and absent
  FoldPairExact fold_pair_exact[2][2];
  // The largest of n >= 1 values, in any order: of zeros either.
  C (*largest[3])(const C* values, std::int64_t n);  // [rule]
  // Copies rows and tells what they hold.
  Contents (*copy)(const C* source, C* target, const RowRun& rows);
  // Deals the items of rows out to two or three targets in turn.
  Contents (*deinterleave2)(const C* source, C* const* targets, const RowRun& rows);
  Contents (*deinterleave3)(const C* source, C* const* targets, const RowRun& rows);
  WindowKernels<C, P> windows[2];  // [stride - 1]
  // The maximum of every four neighbours in clean rows of at least four cells, and what the rows held. Rows of `out`
  // may be written up to a whole vector.
  using Runs = Contents (*)(const C* source, C* out, const RowRun& rows);
  Runs fours[2];     // [last]
  Runs sixteens[2];  // the same for sixteen; null for short types, which have no cheap shifts of whole vectors
  // Rows of `rows.items` items from `before` on become rows of `places`: the first and the last are repeated.
  void (*extend)(C* data, const RowRun& rows, std::int64_t before, std::int64_t places);
  // rows[i] becomes the winner of rows[i], rows[i + 1], ...; `run` says how many rows, `from_step` items apart.
  void (*suffixes[3][2])(C* rows, const RowRun& run);  // [rule][last]
  // A run of sliding windows; no element past the items is written.
  void (*slide_exact[3][2])(const C* suffixes, const C* rows, C* out, const SlideRun& run);
};

// Bits of a half type as sortable keys, which are integers in the order of the numbers, and back.
struct KeyKernels {
  // The keys of (cell & keep) ^ flip; false if a NaN or -0 is among them, which keys do not order right.
  bool (*to_keys)(const std::int16_t* cells, std::int16_t* keys, std::int64_t n, std::int16_t keep, std::int16_t flip,
                  std::int16_t infinity);
  void (*from_keys)(std::int16_t* keys, std::int64_t n, std::int16_t flip);
};

struct MaxKernels {
  KeyKernels keys;
  MaxRowKernels<float, std::int32_t> f32_index;
  MaxRowKernels<float, float> f32_tangent;
  MaxRowKernels<double, std::int64_t> f64_index;
  MaxRowKernels<double, double> f64_tangent;
  MaxRowKernels<std::int8_t, std::int8_t> i8;
  MaxRowKernels<std::int16_t, std::int16_t> i16;
  MaxRowKernels<std::int32_t, std::int32_t> i32;
  MaxRowKernels<std::int64_t, std::int64_t> i64;
  MaxRowKernels<std::uint8_t, std::int8_t> u8;
  MaxRowKernels<std::uint16_t, std::int16_t> u16;
  MaxRowKernels<std::uint32_t, std::int32_t> u32;
  MaxRowKernels<std::uint64_t, std::int64_t> u64;
};

HALFULP_KERNEL_TABLE(MaxKernels, max_kernels)

}  // namespace halfulp
