// The vectorised rows of hard max's pullback. Sources may be read up to a vector past their end; no kernel writes past
// the items it was asked for.
#pragma once

#include <cstdint>

#include "base/kernel_table.hpp"
#include "max/max_kernels.hpp"

namespace halfulp {

// The smallest nonzero magnitude minus one and the largest magnitude seen, as bits of the cotangents' type.
struct ExponentRange {
  std::uint64_t smallest = ~std::uint64_t{0};
  std::uint64_t largest = 0;
};

// The code of a window that does not exist.
inline constexpr std::uint8_t kNobody = 255;

// What may meet in a cell: term t gives -negated[positions[t] + i] to the i-th cell if codes[positions[t] + i] is
// ids[t]. `wide` is `negated` in double; it may be null if no class has more than two terms. Codes are as the kernels
// have put them there.
template <class C>
struct GatherTerms {
  const C* negated = nullptr;
  const double* wide = nullptr;
  const void* codes = nullptr;
  const std::int64_t* positions = nullptr;
  const std::uint8_t* ids = nullptr;
  int count = 0;
};

// Rows of rows.items cells: cell i is number i / way_count of class i % way_count, whose terms are ways[i % way_count].
// A row's sums go to `out`; the next row's terms lie rows.from_step items further, its sums rows.to_step. They may go
// past the caches if every row is a number of whole cache lines.
template <class C>
using GatherRows = void (*)(const GatherTerms<C>* ways, int way_count, C* out, const RowRun& rows, bool past_caches);

struct GatherKernels {
  // A sum of no term is +0; one of two terms is rounded to C. A longer one is rounded once if it is exact in double,
  // or, for `*_wide*` and for double, in two doubles, which is for the caller to know. `*_odd` rounds the longer ones
  // to odd (the last bit is set if anything is lost), which a narrower format then rounds as if there had been no float
  // between.
  GatherRows<float> f32, f32_odd, f32_wide, f32_wide_odd;
  GatherRows<double> f64;
  // Rows with their signs changed, also in double unless `wide` is null; widens the range by their values. Up to a
  // vector more may be written to `wide`.
  void (*negate_f32)(const float* source, float* target, double* wide, const RowRun& rows, ExponentRange& range);
  void (*negate_f64)(const double* source, double* target, double* wide, const RowRun& rows, ExponentRange& range);
  // Codes as they are compared, each of so many bytes, those of kNobody with all bits set.
  void (*codes_f32)(const std::uint8_t* source, void* target, const RowRun& rows);
  void (*codes_f64)(const std::uint8_t* source, void* target, const RowRun& rows);
  int code_bytes_f32, code_bytes_f64;
};

HALFULP_KERNEL_TABLE(GatherKernels, gather_kernels)

}  // namespace halfulp
