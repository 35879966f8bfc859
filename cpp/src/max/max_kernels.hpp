// The vectorised rows of hard max. Only kernels know the type of a cell; engines pass addresses and count items. Rows
// may be read up to whole vectors past their end, where buffers have kRowSlack bytes. Unless said otherwise, nothing is
// written past the items of a row.
#pragma once

#include <cstdint>

#include "base/narrower_kernels.hpp"

namespace halfulp {

// How two cells compare, the second later in row-major order; the first of equal cells wins. `clean` holds for values
// without NaN; `absent` treats NaN as no cell; `propagate` lets a NaN win.
enum class MaxRule : std::uint8_t { clean, absent, propagate };
inline constexpr int kMaxRules = 3;

// What rows hold beside ordinary numbers, the worst of it. Integers are always finite.
enum class Contents : std::uint8_t { finite, infinite, nan };

// The types that cells are compared in. Integers are compared as cell ^ flip, as u8 or as signed integers: that serves
// the other signedness, and a minimum.
enum class Compared : std::uint8_t { f32, f64, u8, i16, i32, i64 };
inline constexpr int kComparedCount = 6;

// Rows of equal length: `count` rows of `items`, `from_step` and `to_step` items apart.
struct RowRun {
  std::int64_t count = 1;
  std::int64_t items = 0;
  std::int64_t from_step = 0;
  std::int64_t to_step = 0;
  std::uint64_t flip = 0;  // of integers, repeated to fill eight bytes
};

// Windows along rows of contiguous cells: `before` positions of padding, then `cells` cells, then padding. The payload
// of the cells, if it is read at all, lies in rows `pair_step` apart.
struct WindowRun {
  std::int64_t rows = 1;
  std::int64_t cells = 0;
  std::int64_t before = 0;
  std::int64_t outputs = 0;
  std::int64_t from_step = 0;
  std::int64_t to_step = 0;
  std::int64_t pair_step = 0;
  int stride = 1;  // 1 or 2
  int window = 2;  // 2 or 3 cells
  std::uint64_t keep = ~std::uint64_t{0}, flip = 0;
  std::int16_t infinity = 0;
  int fresh = 0;  // how many of the first taps of a row are not among those of the next; 0 if all
  bool stream = false;  // past the caches: rows of `out` are aligned to vectors, and so many bytes long
  std::int64_t ahead = 0;  // cells are asked for so many rows of outputs before they are read; 0: they are not
};

// The windows of `outputs` positions along a row of pixels, `from_step` items apart, of `items` items each: a vector at
// least. What `before` holds of the rows above, `before_step` items apart, comes first.
struct PixelRun {
  std::int64_t outputs = 1;
  std::int64_t items = 0;
  std::int64_t from_step = 0;
  const void* before = nullptr;  // as cells are compared; `kept`, too
  std::int64_t before_step = 0;
  void* kept = nullptr;  // positions of `items` items
  void* out = nullptr;   // not null for the last row of the windows
  std::int64_t out_step = 0;
  bool stream = false;   // past the caches: vectors of `out` are aligned, and whole
  std::uint64_t keep = ~std::uint64_t{0}, flip = 0;
  std::int16_t infinity = 0;
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
  std::uint64_t flip = 0;
};

// The maxima of windows of two or three cells of clean rows, and what the rows held; the first of equal cells wins.
// Rows of `out` and `pairs` may be written up to a whole vector.
using Windows = Contents (*)(const void* source, void* out, const WindowRun& run);
using PairWindows = Contents (*)(const void* source, const void* tangents, void* out, void* pairs,
                                 const WindowRun& run);

// The maxima of windows of any height and of two or three cells in width, of cells that only differ if they compare
// different; what the cells held. Of floats, a -0 that matters counts as infinite, and infinities of both signs as NaN.
// Output row r has the rows taps[0], taps[1], ... from r * from_step on. At least 32 bytes of outputs must have windows
// within the row, and no window may lie in the padding alone. The scratch is for cells of one and two bytes: as many
// rows as kStagedRows, or one if there is one row of outputs, each with kRowSlack / 2 items more; then 4 * kRowSlack.
inline constexpr std::int64_t kStagedRows = 8;
using ColumnWindows = Contents (*)(const void* const* taps, int count, void* scratch, void* out, const WindowRun& run);

// One row of windows over interleaved planes: the winners of `before` and of the taps, in that order, go to `out`, and
// those of the taps alone to `kept`; without `out` the former go to `kept`, which may be `before`. False if a NaN was
// read, or infinities of both signs; of sortable keys, if a -0 was read.
using Pixels = bool (*)(const void* const* taps, int count, const PixelRun& run);

// Kernels for one type of cells.
struct MaxRowKernels {
  // out[i] = the winner of taps[0][i], taps[1][i], ... in that order, for every row; count >= 1. out may be a tap if
  // there is one row.
  void (*fold[kMaxRules])(const void* const* taps, int count, void* out, const RowRun& rows);
  // Changed: as the changed windows below, of f32 and i16. Null for the others.
  Pixels pixels, changed_pixels;
  // The largest of n >= 1 values, in any order: of zeros either.
  void (*largest[kMaxRules])(const void* values, std::int64_t n, std::uint64_t flip, void* value);
  // Copies rows and tells what they hold.
  Contents (*copy)(const void* source, void* target, const RowRun& rows);
  // Splits rows by the items' index modulo two or three.
  Contents (*deinterleave2)(const void* source, void* const* targets, const RowRun& rows);
  Contents (*deinterleave3)(const void* source, void* const* targets, const RowRun& rows);
  // Of floats, windows of (cell & keep) ^ flip, which is also what is stored. Null for one and two bytes in the
  // widest vectors.
  Windows windows;
  // Changed: of (cell & keep) ^ flip; of i16, of its sortable key as a half type with this infinity, where a NaN or -0
  // counts as NaN. Outputs are cells again. Null for other integers.
  ColumnWindows columns_first, changed_columns_first;
  // The maximum of every four neighbours in clean rows of at least four cells, and what the rows held. Rows of `out`
  // may be written up to a whole vector. [last]: the last of equal ones.
  Contents (*fours[2])(const void* source, void* out, const RowRun& rows);
  // The same for sixteen, the first of equal ones; null for short types, which have no cheap shifts of whole vectors.
  Contents (*sixteens)(const void* source, void* out, const RowRun& rows);
  // Rows of `rows.items` items from `before` on become rows of `positions`: the first and the last are repeated.
  void (*extend)(void* data, const RowRun& rows, std::int64_t before, std::int64_t positions);
  // rows[i] becomes the winner of rows[i], rows[i + 1], ...; `run` says how many rows, `from_step` items apart. Rows
  // are written up to whole vectors. [rule][last]
  void (*suffixes[kMaxRules][2])(void* rows, const RowRun& run);
  // A run of sliding windows. [rule][last]
  void (*slide[kMaxRules][2])(const void* suffixes, const void* rows, void* out, const SlideRun& run);
};

// Kernels for floats with one kind of payload as wide as they are: a tangent, or an integer.
struct MaxPairKernels {
  // As `fold`, with payloads, to which `add`, and `step` for every tap before the winner, are added if they are
  // integers. Without pairs these are the payload. Rows are written up to whole vectors.
  using Fold = void (*)(const void* const* taps, const void* const* pairs, int count, void* out, void* out_pair,
                        std::int64_t add, std::int64_t step, const RowRun& rows);
  Fold fold[2];  // clean and absent
  // The same with no element written past the rows; integers go to bytes, which must hold them.
  Fold fold_exact[2];
  PairWindows windows;  // an integer is the number of the tap
  PairWindows changed;  // the same of (cell & keep) ^ flip, which is also what is stored
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
  MaxRowKernels rows[kComparedCount];  // [Compared]
  MaxPairKernels indices[2];           // [Compared]: of f32 and f64
  MaxPairKernels tangents[2];
};

HALFULP_KERNEL_TABLE(MaxKernels, max_kernels)
HALFULP_NARROWER_KERNELS(MaxKernels, max_kernels)

}  // namespace halfulp
