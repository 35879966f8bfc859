// Cells of any float type as floats or doubles, and results of any of them: one kernel serves all types. float16 and
// bfloat16 are computed as float32 and rounded once more; only a float32 in the middle between two such numbers may
// stand for results that round differently. For kernels only.
#pragma once

#include "base/convert_kernels.hpp"
#include "normalize/kernels/decide.hpp"
#include "simd/ends.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
const ConvertKernels& convert_kernels();  // of the same instruction set
namespace {

inline bool is_half(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

inline double number_at(DType dtype, const void* data, Index i) {
  switch (dtype) {
    case DType::f64: return static_cast<const double*>(data)[i];
    case DType::f32: return number(static_cast<const float*>(data)[i]);
    case DType::f16: return number(static_cast<const Float16*>(data)[i]);
    default: return number(static_cast<const BFloat16*>(data)[i]);
  }
}
inline double number_or(DType dtype, const void* data, Index i, double otherwise) {
  return data == nullptr ? otherwise : number_at(dtype, data, i);
}

// Whether every number within `error` of y rounds to one number of the type, which is put into out[i].
template <class Real>
HALFULP_NOINLINE bool decide_narrow(DType dtype, Real y, double error, void* out, Index i) {
  return visit_float(dtype, [&](auto zero) { return decide(y, error, static_cast<decltype(zero)*>(out)[i]); });
}
template <class Real>
inline bool decide_as(DType dtype, Real y, double error, void* out, Index i) {
  if (dtype == DType::f64) return decide(y, error, static_cast<double*>(out)[i]);
  return decide_narrow(dtype, y, error, out, i);
}
// Whether both ends round to one number of the type, which is put into out[i].
HALFULP_NOINLINE inline bool round_ends(DType dtype, double low, double high, void* out, Index i) {
  return visit_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    static_cast<T*>(out)[i] = round_to<T>(low);
    return same_rounding<T>(low, high);
  });
}
HALFULP_NOINLINE inline void put_as(DType dtype, double y, void* out, Index i) {
  visit_float(dtype, [&](auto zero) { static_cast<decltype(zero)*>(out)[i] = round_to<decltype(zero)>(y); });
}

// As decide_as, for a number that is known to be positive (sign 1) or negative (-1), however small.
inline bool decide_signed(DType dtype, Pair y, double error, double sign, void* out, Index i) {
  if (sign == 0) return decide_as(dtype, y, error, out, i);
  error *= 1.0 + 0x1p-40;
  const bool wide = dtype == DType::f64;
  double low = wide ? y.high + (y.low - error) : rounded_to_odd(y.high, y.low - error);
  double high = wide ? y.high + (y.low + error) : rounded_to_odd(y.high, y.low + error);
  low = ((sign > 0) & !(low > 0)) ? 0.0 : low;
  high = ((sign < 0) & !(high < 0)) ? -0.0 : high;
  const bool finite = std::fabs(high) < std::numeric_limits<double>::infinity();
  if (!wide) return round_ends(dtype, low, high, out, i) & finite;
  static_cast<double*>(out)[i] = low;
  return same_rounding<double>(low, high) & finite;
}

// The ends of n intervals rounded, the low ones into out[start] and on; how many intervals are undecided.
HALFULP_NOINLINE inline Index round_all_ends(DType dtype, const double* low, const double* high, Index n,
                                                      void* out, Index start) {
  return visit_float(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const to = static_cast<T*>(out) + start;
    Index unsure = 0;
    for (Index i = 0; i < n; ++i) {
      to[i] = round_to<T>(low[i]);
      unsure += same_rounding<T>(low[i], high[i]) ? 0 : 1;
    }
    return unsure;
  });
}

HALFULP_NOINLINE inline void widen_to(float* to, DType dtype, const void* data, Index start, Index n) {
  if (dtype == DType::f16) convert_kernels().from_f16(static_cast<const Float16*>(data) + start, to, n);
  else convert_kernels().from_bf16(static_cast<const BFloat16*>(data) + start, to, n);
}
HALFULP_NOINLINE inline void widen_to(double* to, DType dtype, const void* data, Index start, Index n) {
  visit_float(dtype, [&](auto zero) {
    const auto* const from = static_cast<const decltype(zero)*>(data) + start;
    Index i = 0;
    for (; i + kWide <= n; i += kWide) store(to + i, load_doubles(from + i));
    for (; i < n; ++i) to[i] = number(from[i]);
  });
}

// Cells of an array as items of type F, without a copy if they are. Others are converted kChunk at a time.
constexpr Index kChunk = 1024;
template <class F>
class CellRow {
 public:
  CellRow(DType dtype, const void* data) : dtype_(dtype), data_(data) {}

  static Index chunk(DType dtype, Index n) { return dtype == dtype_of<F> || n < kChunk ? n : kChunk; }

  const F* at(Index start, Index n) {
    if (dtype_ == dtype_of<F>) return static_cast<const F*>(data_) + start;
    if (data_ == nullptr) return nullptr;
    widen_to(buffer_, dtype_, data_, start, n);
    return buffer_;
  }

 private:
  DType dtype_;
  const void* data_;
  F buffer_[kChunk];
};

// Calls body(first, count) for the chunks of n cells.
template <class F, class Body>
HALFULP_ALWAYS_INLINE void in_chunks(DType dtype, Index n, const Body& body) {
  const Index chunk = CellRow<F>::chunk(dtype, n);
  for (Index at = 0; at < n; at += chunk) body(at, n - at < chunk ? n - at : chunk);
}

// A float in the middle of two neighbours of a half type: it stands for a result that is not decided.
inline float undecided_float(DType dtype) { return dtype == DType::f16 ? 1 + 0x1p-11f : 1 + 0x1p-8f; }

// Floats rounded to a half type, into out[start] and on; calls unsure(i) for those that may be in the middle between
// two numbers of the type. Of float16 below its normal range, all floats of few bits count as such.
template <class F>
void narrow_floats(DType dtype, const float* from, Index n, void* out, Index start, F&& unsure) {
  const bool half = dtype == DType::f16;
  if (half) convert_kernels().to_f16(from, static_cast<Float16*>(out) + start, n);
  else convert_kernels().to_bf16(from, static_cast<BFloat16*>(out) + start, n);
  const std::uint32_t rest = half ? 0xfff : 0x7fff, middle = rest + 1, tiny = half ? 0x71000000u : 0;
  const auto doubtful = [=](float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t size = bits << 1;
    return static_cast<unsigned>(((bits & rest) == 0) & (((bits & middle) != 0) | ((size != 0) & (size < tiny))));
  };
  constexpr Index block = 64;
  for (Index at = 0; at < n; at += block) {
    const Index stop = n - at < block ? n : at + block;
    unsigned any = 0;
    for (Index i = at; i < stop; ++i) any |= doubtful(from[i]);
    if (any == 0) continue;
    for (Index i = at; i < stop; ++i)
      if (doubtful(from[i]) != 0) unsure(i);
  }
}

}  // namespace
}  // namespace halfulp::HALFULP_ISA_NAMESPACE
