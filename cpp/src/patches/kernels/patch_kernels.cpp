// Loops over rows of sums without branches, so that they vectorise.
#include "patches/patch_kernels.hpp"

#include <cmath>
#include <limits>

#include "exact/round.hpp"
#include "simd/deinterleave.hpp"
#include "simd/doubles.hpp"
#include "simd/inexact.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

template <class T>
void add_terms(const typename PatchKernels<T>::Term* terms, PatchSums to, std::int64_t n) {
  double *__restrict high = to.high, *__restrict low = to.low, *__restrict rest = to.rest;
  for (std::int64_t i = 0; i < n; ++i) {
    const TwoDoubles sum = two_sum(high[i], static_cast<double>(terms[i]));
    high[i] = sum.high;
    if constexpr (std::is_same_v<T, double>) {
      const TwoDoubles errors = two_sum(low[i], sum.low);
      low[i] = errors.high;
      rest[i] += std::abs(errors.low);  // not zero if any of them is not
    } else {
      rest[i] += std::abs(sum.low);
    }
  }
}

template <class T>
bool finish(PatchSums sums, T* __restrict out, std::int64_t n) {
  int unsure = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = sums.high[i];
    if constexpr (std::is_same_v<T, double>) sum += sums.low[i];
    out[i] = round_to<T>(sum);
    const bool good = (sums.rest[i] == 0) & (sum != 0) & (std::abs(sum) <= std::numeric_limits<double>::max());
    unsure |= good ? 0 : 1;
  }
  return unsure == 0;
}

template <class T>
constexpr PatchKernels<T> table{add_terms<T>, finish<T>};

// The first term begins a sum: a sum is -0 only if all terms are.
template <int Rows, int Taps>
void sum_segment(const float* const* windows, std::int64_t count, const std::int64_t* taps, std::int64_t tap_count,
                 double* sums, std::int64_t first, std::int64_t stop) {
  const std::int64_t rows = Rows > 0 ? Rows : count, width = Taps > 0 ? Taps : tap_count;
  const auto sum_at = [&]<class V>(std::int64_t i, const auto& term) {
    V sum = term(windows[0] + (taps[0] + i));
    for (std::int64_t t = 1; t < width; ++t) sum += term(windows[0] + (taps[t] + i));
    for (std::int64_t r = 1; r < rows; ++r)
      for (std::int64_t t = 0; t < width; ++t) sum += term(windows[r] + (taps[t] + i));
    return sum;
  };
  const auto put = [&](std::int64_t i) {
    store(sums + i, sum_at.template operator()<Doubles>(i, [](const float* x) { return load_doubles(x); }));
  };
  std::int64_t i = first;
  for (; i + kWide <= stop; i += kWide) put(i);
  if (i == stop) return;
  if (stop - first >= kWide) return put(stop - kWide);  // overlaps the vector before
  for (; i < stop; ++i)
    sums[i] = sum_at.template operator()<double>(i, [](const float* x) { return static_cast<double>(*x); });
}

template <int Rows>
void sum_taps(const float* const* windows, std::int64_t count, const FoldSegment& segment, double* sums) {
  const std::int64_t width = segment.count;
  const auto sum = width == 1   ? sum_segment<Rows, 1>
                   : width == 2 ? sum_segment<Rows, 2>
                   : width == 3 ? sum_segment<Rows, 3>
                                : sum_segment<Rows, 0>;
  sum(windows, count, segment.taps, width, sums, segment.first, segment.stop);
}

// Sums in their order, rounded; false if one is not finite.
bool round_sums(const double* sums, const FoldRow& row, float* out) {
  const std::int64_t n = row.cells;
  Vector<std::uint64_t> odd{};
  const auto rounded = [&](const double* from) {
    const Doubles low = load(from), high = load(from + kWide);
    odd |= reinterpret<Vector<std::uint64_t>>(low - low) | reinterpret<Vector<std::uint64_t>>(high - high);
    return narrow(low, high);
  };
  constexpr std::int64_t step = kLanes<float>;
  std::int64_t i = 0;
  if (row.phases == 1) {
    for (; i + step <= n; i += step) store(out + i, rounded(sums + i));
  } else {
    for (; i + 2 * step <= n; i += 2 * step) {
      const Vector<float> even = rounded(sums + i / 2), other = rounded(sums + row.positions + i / 2);
      store(out + i, zip_low<float>(even, other));
      store(out + i + step, zip_high<float>(even, other));
    }
  }
  bool finite = all_lanes(odd == 0);
  for (; i < n; ++i) {
    const double sum = row.phases == 1 ? sums[i] : sums[i % 2 * row.positions + i / 2];
    out[i] = static_cast<float>(sum);
    finite = finite && sum - sum == 0;
  }
  return finite;
}

bool fold_rows(const FoldSources* sources, std::int64_t rows, const FoldRow& row, double* sums, float* out) {
  const std::int64_t room = row.phases * row.positions;
  const InexactFlag flag;
  flag.lower();
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto [windows, count, ahead, ahead_bytes] = sources[r];
    prefetch_bytes_for_later(ahead, ahead_bytes);
    for (std::int64_t s = 0; s < row.count; ++s) {
      const FoldSegment& segment = row.segments[s];
      double* const to = sums + r * room + segment.phase * row.positions;
      if (segment.count == 0 || count == 0)
        for (std::int64_t i = segment.first; i < segment.stop; ++i) to[i] = 0;
      else if (count == 1) sum_taps<1>(windows, count, segment, to);
      else if (count == 2) sum_taps<2>(windows, count, segment, to);
      else if (count == 3) sum_taps<3>(windows, count, segment, to);
      else sum_taps<0>(windows, count, segment, to);
    }
  }
  if (flag.raised()) return false;
  bool finite = true;
  for (std::int64_t r = 0; r < rows; ++r) finite &= round_sums(sums + r * room, row, out + r * row.cells);
  return finite;
}

// Every second item; nothing is read beyond the last of them.
template <class U>
void take_second(const U* from, U* to, std::int64_t n) {
  constexpr std::int64_t step = kLanes<U>;
  std::int64_t i = 0;
  for (; i + step < n; i += step) store(to + i, deinterleaved2<0>(load(from + 2 * i), load(from + 2 * i + step)));
  if (n > step) {  // ends with the last item, and overlaps the vector before
    const U* const last = from + 2 * (n - step) - 1;
    return store(to + n - step, deinterleaved2<1>(load(last), load(last + step)));
  }
  for (; i < n; ++i) to[i] = from[2 * i];
}

template <class U>
void take_all(const U* from, U* to, std::int64_t n) {
  constexpr std::int64_t step = kLanes<U>;
  std::int64_t i = 0;
  for (; i + step <= n; i += step) store(to + i, load(from + i));
  if (i == n) return;
  if (n > step) return store(to + n - step, load(from + n - step));
  for (; i < n; ++i) to[i] = from[i];
}

template <class U>
void unfold_items(const void* source, const UnfoldRows& rows, void* target) {
  const auto* from = static_cast<const U*>(source);
  auto* to = static_cast<U*>(target);
  for (std::int64_t row = 0; row < rows.rows; ++row, from += rows.pitch, to += rows.length) {
    for (std::int64_t i = 0; i < rows.first; ++i) to[i] = 0;
    U* const held = to + rows.first;
    if (rows.stride == 1) take_all(from, held, rows.count);
    else if (rows.stride == 2) take_second(from, held, rows.count);
    else
      for (std::int64_t i = 0; i < rows.count; ++i) held[i] = from[i * rows.stride];
    for (std::int64_t i = rows.first + rows.count; i < rows.length; ++i) to[i] = 0;
  }
}

void unfold_rows(const void* from, const UnfoldRows& rows, void* to, std::int64_t item) {
  if (item == 1) unfold_items<std::uint8_t>(from, rows, to);
  else if (item == 2) unfold_items<std::uint16_t>(from, rows, to);
  else if (item == 4) unfold_items<std::uint32_t>(from, rows, to);
  else unfold_items<std::uint64_t>(from, rows, to);
}

template <class U>
void interleave_items(const void* even, const void* odd, void* to, std::int64_t n) {
  const auto *a = static_cast<const U*>(even), *b = static_cast<const U*>(odd);
  auto* out = static_cast<U*>(to);
  std::int64_t i = 0;
  constexpr std::int64_t step = kLanes<U>;
  for (; 2 * (i + step) <= n; i += step) {
    const Vector<U> x = load(a + i), y = load(b + i);
    store(out + 2 * i, zip_low<U>(x, y));
    store(out + 2 * i + step, zip_high<U>(x, y));
  }
  for (i *= 2; i < n; ++i) out[i] = i % 2 == 0 ? a[i / 2] : b[i / 2];
}

void interleave(const void* even, const void* odd, void* to, std::int64_t n, std::int64_t item) {
  if (item == 1) interleave_items<std::uint8_t>(even, odd, to, n);
  else if (item == 2) interleave_items<std::uint16_t>(even, odd, to, n);
  else if (item == 4) interleave_items<std::uint32_t>(even, odd, to, n);
  else interleave_items<std::uint64_t>(even, odd, to, n);
}

}  // namespace

const PatchRowKernels& patch_row_kernels() {
  static constexpr PatchRowKernels rows{fold_rows, unfold_rows, interleave};
  return rows;
}
const PatchKernels<Float16>& patch_kernels_f16() { return table<Float16>; }
const PatchKernels<BFloat16>& patch_kernels_bf16() { return table<BFloat16>; }
const PatchKernels<float>& patch_kernels_f32() { return table<float>; }
const PatchKernels<double>& patch_kernels_f64() { return table<double>; }

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
