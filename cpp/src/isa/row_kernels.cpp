// Loops over contiguous rows that vectorise as they are written. Compiled without errno, which roots would have to set.
#include "halfulp/row_kernels.hpp"

#include <cmath>
#include <cstring>

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

void add_squares(const float* cells, double* sums, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double cell = static_cast<double>(cells[i]);
    sums[i] += cell * cell;
  }
}

void add_every(const double* cells, std::int64_t stride, double* sums, std::int64_t n) {
  if (stride == 1) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += cells[i];
  } else if (stride == 2) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += cells[2 * i];
  } else {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += cells[i * stride];
  }
}

bool roots(const double* sums, float* out, std::int64_t n, double error) {
  int unsure = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double y = std::sqrt(sums[i]);
    const float low = static_cast<float>(y - y * error), high = static_cast<float>(y + y * error);
    out[i] = low;
    unsure |= low == high ? 0 : 1;  // NaN too, and infinities, of which the difference is NaN
  }
  return unsure == 0;
}

void change(const char* source, char* target, std::int64_t bytes, std::uint64_t keep, std::uint64_t flip) {
  std::int64_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, source + i, 8);
    word = (word & keep) ^ flip;
    std::memcpy(target + i, &word, 8);
  }
  if (i == bytes) return;
  std::uint64_t word = 0;
  std::memcpy(&word, source + i, static_cast<std::size_t>(bytes - i));
  word = (word & keep) ^ flip;
  std::memcpy(target + i, &word, static_cast<std::size_t>(bytes - i));
}

}  // namespace

const RowKernels& row_kernels() {
  static constexpr RowKernels table{add_squares, add_every, roots, change};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
