// Windows that start anywhere: maxima at every position of a row, from which an engine picks.
#include "max/given_kernels.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "simd/doubles.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

using std::int64_t;

enum class Payload { none, tangent, offset };

// The number of columns is known if it is not 0.
template <class T, Payload What, bool Magnitudes, int Bytes, int Columns>
bool fold_columns(const T* const* x, const T* const* pairs, const GivenRun& run, T* best, T* payload) {
  using I = int_like<T>;
  using V = Vector<T, Bytes>;
  using Ints = Vector<I, Bytes>;
  constexpr int64_t lanes = kLanes<T, Bytes>;
  const auto offset_of = [](int64_t offset) { return splat<I, Bytes>(static_cast<I>(offset)); };
  const int64_t columns = Columns > 0 ? Columns : run.columns;
  const Ints next = offset_of(run.step_offset), below = offset_of(run.row_offset - columns * run.step_offset);
  Ints equal{};
  for (int64_t position = 0; position < run.positions; position += lanes) {
    // The last vector overlaps the one before; magnitudes are in buffers, which go on.
    const int64_t at = Magnitudes || position + lanes <= run.positions ? position : run.positions - lanes;
    V most = splat<T, Bytes>(Magnitudes ? T(-1) : -std::numeric_limits<T>::infinity()), with{};
    if constexpr (!Magnitudes && What == Payload::tangent) with = load<T, Bytes>(pairs[0] + at + run.column);
    if constexpr (What == Payload::offset) with = reinterpret<V>(offset_of(Magnitudes ? kNoWinner : run.offset));
    Ints offset = offset_of(run.offset);
    for (int64_t r = 0; r < run.rows; ++r) {
      const T* const row = x[r] + at + run.column;
      const T* const beside = What == Payload::none ? nullptr : pairs[r] + at + run.column;
      for (int64_t c = 0; c < columns; ++c) {
        const V cell = load<T, Bytes>(row + c * run.step);
        if constexpr (What == Payload::none) {
          most = max_first(most, cell);
        } else {
          const auto wins = cell > most;
          if constexpr (Magnitudes) equal |= reinterpret<Ints>(cell == most);
          V own;
          if constexpr (What == Payload::tangent) {
            own = load<T, Bytes>(beside + c * run.step);
          } else if constexpr (Magnitudes) {
            own = reinterpret<V>(offset | reinterpret<Ints>(load<T, Bytes>(beside + c * run.step)));
          } else {
            own = reinterpret<V>(offset);
          }
          with = select(wins, own, with);
          most = select(wins, cell, most);
          offset += next;
        }
      }
      offset += below;
    }
    if constexpr (Magnitudes) most = select(most > V{}, most, V{});
    store(best + at, most);
    if constexpr (What != Payload::none) store(payload + at, with);
  }
  if constexpr (Magnitudes)
    for (int lane = 0; lane < static_cast<int>(lanes); ++lane)
      if (equal[lane] != 0) return true;
  return false;
}

template <class T, Payload What, bool Magnitudes, int Bytes>
bool fold(const T* const* x, const T* const* pairs, const GivenRun& run, T* best, T* payload) {
  if constexpr (Bytes == kVectorBytes && std::is_same_v<T, float>) {
    if (run.columns == 2) return fold_columns<T, What, Magnitudes, Bytes, 2>(x, pairs, run, best, payload);
    if (run.columns == 3) return fold_columns<T, What, Magnitudes, Bytes, 3>(x, pairs, run, best, payload);
  }
  return fold_columns<T, What, Magnitudes, Bytes, 0>(x, pairs, run, best, payload);
}

template <class T, Payload What>
void fold_within(const T* const* x, const T* const* pairs, const GivenRun& run, T* best, T* payload) {
  if (run.positions >= kLanes<T>) fold<T, What, false, kVectorBytes>(x, pairs, run, best, payload);
  else fold<T, What, false, sizeof(T)>(x, pairs, run, best, payload);
}

template <class T>
bool magnitudes(const T* x, const T* t, T* sizes, T* pairs, int64_t n) {
  using I = int_like<T>;
  using V = Vector<T>;
  using Ints = Vector<I>;
  const Ints sign = splat(std::numeric_limits<I>::min());
  const V missing = splat(std::numeric_limits<T>::quiet_NaN());
  const Ints negative = splat(static_cast<I>(kNegativeWinner));
  Ints nan{};
  for (int64_t i = 0; i < n; i += kLanes<T>) {
    const int64_t left = n - i;
    const V cell = left >= kLanes<T> ? load(x + i) : load_first(x + i, left);
    const Ints bits = reinterpret<Ints>(cell);
    nan |= reinterpret<Ints>(cell != cell);
    store(sizes + i, select(cell == V{}, missing, reinterpret<V>(bits & ~sign)));
    if (t == nullptr) {
      store(pairs + i, reinterpret<V>((bits >> (8 * sizeof(I) - 1)) & negative));
    } else {
      const V along = left >= kLanes<T> ? load(t + i) : load_first(t + i, left);
      store(pairs + i, reinterpret<V>(reinterpret<Ints>(along) ^ (bits & sign)));
    }
  }
  for (int lane = 0; lane < kLanes<T>; ++lane)
    if (nan[lane] != 0) return true;
  return false;
}

// The first to read the cells: asks for those that follow.
template <class T>
bool any_nan(const T* x, int64_t n) {
  constexpr int64_t line = 64 / sizeof(T);
  Vector<int_like<T>> found{};
  int64_t i = 0;
  for (; i + line <= n; i += line) {
    prefetch_ahead(x + i);
    for (int64_t j = i; j < i + line; j += kLanes<T>) {
      const Vector<T> cells = load(x + j);
      found |= cells != cells;
    }
  }
  bool nan = false;
  for (int lane = 0; lane < kLanes<T>; ++lane) nan |= found[lane] != 0;
  for (; i < n; ++i) nan |= x[i] != x[i];
  return nan;
}

// Magnitudes as integers, which are in the same order; the largest of a block.
template <class T>
int_like<T> largest_size(const T* x, int64_t n) {
  using I = int_like<T>;
  using Ints = Vector<I>;
  constexpr int kParts = 4;
  constexpr int64_t lanes = kLanes<T>;
  constexpr I sizes = std::numeric_limits<I>::max();
  const Ints size = splat(sizes);
  Ints most[kParts] = {};
  int64_t i = 0;
  for (; i + kParts * lanes <= n; i += kParts * lanes)
    for (int part = 0; part < kParts; ++part) {
      prefetch_ahead(x + i + part * lanes);
      most[part] = larger(most[part], Ints(reinterpret<Ints>(load(x + i + part * lanes)) & size));
    }
  I found = 0;
  for (; i < n; ++i) {
    const I own = std::bit_cast<I>(x[i]) & sizes;
    found = own > found ? own : found;
  }
  const Ints all = larger(larger(most[0], most[1]), larger(most[2], most[3]));
  for (int lane = 0; lane < static_cast<int>(lanes); ++lane) found = all[lane] > found ? all[lane] : found;
  return found;
}

template <class T>
int64_t largest(const T* x, int64_t n) {
  using I = int_like<T>;
  constexpr int64_t kBlock = 4096;
  I most = 0;
  int64_t block = 0;
  bool single = false;
  for (int64_t i = 0; i < n; i += kBlock) {
    const I own = largest_size(x + i, n - i < kBlock ? n - i : kBlock);
    if (own < most) continue;
    single = own > most;
    most = own;
    block = i;
  }
  if (!single || most > std::bit_cast<I>(std::numeric_limits<T>::infinity())) return -1;
  I position = 0, count = 0;
  const T* const cells = x + block;
  const auto stop = static_cast<I>(n - block < kBlock ? n - block : kBlock);
  for (I i = 0; i < stop; ++i) {
    const I equal = (std::bit_cast<I>(cells[i]) & std::numeric_limits<I>::max()) == most ? I{-1} : I{0};
    count -= equal;
    position |= equal & i;
  }
  return count == 1 ? block + position : -1;
}

template <class T>
bool measure(const T* g, int64_t n, GivenTerms& terms) {
  int_like<T> odd = 0, zero = 0, negative = 0;
  for (int64_t i = 0; i < n; ++i) {
    odd |= std::abs(g[i]) <= std::numeric_limits<T>::max() ? 0 : 1;
    zero |= g[i] == 0 ? 1 : 0;
    negative |= std::bit_cast<int_like<T>>(g[i]) == std::numeric_limits<int_like<T>>::min() ? 1 : 0;
  }
  terms.zero = zero != 0;
  terms.negative_zero = negative != 0;
  if constexpr (std::is_same_v<T, float>) {
    // As signed integers, which every instruction set compares; a 0 minus one becomes the largest.
    constexpr std::int32_t size = std::numeric_limits<std::int32_t>::max();
    std::int32_t largest = 0, smallest = size;
    for (int64_t i = 0; i < n; ++i) {
      const std::int32_t bits = std::bit_cast<std::int32_t>(g[i]) & size, less = (bits - 1) & size;
      largest = bits > largest ? bits : largest;
      smallest = less < smallest ? less : smallest;
    }
    terms.largest = static_cast<std::uint32_t>(largest);
    terms.smallest = static_cast<std::uint32_t>(smallest) + 1;
  }
  return odd == 0;
}

template <class T>
void write_sums(double* __restrict sums, T* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<T>(sums[i]);
    sums[i] = 0;
  }
}

template <class T>
constexpr GivenKernels<T> table{fold_within<T, Payload::none>,
                                fold_within<T, Payload::tangent>,
                                fold_within<T, Payload::offset>,
                                fold<T, Payload::tangent, true, kVectorBytes>,
                                fold<T, Payload::offset, true, kVectorBytes>,
                                magnitudes<T>,
                                any_nan<T>,
                                measure<T>,
                                largest<T>,
                                write_sums<T>};

}  // namespace

const GivenKernels<float>& given_kernels_f32() { return table<float>; }
const GivenKernels<double>& given_kernels_f64() { return table<double>; }

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
