#include "conv/resolve.hpp"

namespace halfulp::conv {

bool round_twofold(double high, double low, double size, double additions, const Outputs& result) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const double error = 2 * additions * additions * 0x1p-106 * size;
  const TwoDoubles sum = two_sum(high, low);
  if (!(error < 0x1p-56 * std::abs(sum.high))) return false;  // so too for NaN, infinity and zero
  double odd = sum.high;
  if (std::abs(sum.low) > error) {
    const bool even = (std::bit_cast<std::uint64_t>(odd) & 1) == 0;
    if (even) odd = std::nextafter(odd, sum.low > 0 ? infinity : -infinity);
  } else if (!same_rounding_in(result.type->dtype, std::nextafter(odd, -infinity), std::nextafter(odd, infinity))) {
    return false;
  }
  store(result, odd);
  return true;
}

void TwofoldTerms::add_products(const Pairs& pairs) {
  visit_float(pairs.a.type->dtype, [&]<class T>(T) {
    const T* a = pairs.a.as<T>();
    const T* b = pairs.b.as<T>();
    for (Index n = pairs.n; n > 0;) {
      const int count = static_cast<int>(std::min<Index>(n, kBlock - waiting_count_));
      double* const out = waiting_ + waiting_count_;
      for (int i = 0; i < count; ++i) out[i] = as_double(a[i * pairs.a_stride]) * as_double(b[i * pairs.b_stride]);
      waiting_count_ += count;
      if (waiting_count_ == kBlock) add_block();
      a += count * pairs.a_stride;
      b += count * pairs.b_stride;
      n -= count;
    }
  });
}

bool TwofoldTerms::round(const Outputs& result) {
  std::fill(waiting_ + waiting_count_, waiting_ + kBlock, 0.0);
  add_block();
  fold();
  double high = 0, low = 0, size = 0;
  for (int lane = 0; lane < kWidth; ++lane) {
    const TwoDoubles sum = two_sum(high, total_high_[lane]);
    high = sum.high;
    low += sum.low + total_low_[lane];
    size += size_[lane];
  }
  return round_twofold(high, low, size, kFold * (kBlock / kWidth) + folds_ + 2 * kWidth + 2, result);
}

void TwofoldTerms::add_block() {
  for (int i = 0; i < kBlock; i += kWidth) {
    for (int lane = 0; lane < kWidth; ++lane) {
      const double x = waiting_[i + lane];
      const TwoDoubles sum = two_sum(high_[lane], x);
      high_[lane] = sum.high;
      low_[lane] += sum.low;
      size_[lane] += std::abs(x);
    }
  }
  waiting_count_ = 0;
  if (++blocks_ == kFold) fold();
}

void TwofoldTerms::fold() {
  for (int lane = 0; lane < kWidth; ++lane) {
    const TwoDoubles sum = two_sum(total_high_[lane], high_[lane]);
    total_high_[lane] = sum.high;
    total_low_[lane] += sum.low + low_[lane];
    high_[lane] = low_[lane] = 0;
  }
  blocks_ = 0;
  folds_ += 1;
}

namespace {

template <class T, class Sum>
void add_pairs(Sum& sum, const Pairs pairs) {
  const T* const a = pairs.a.as<T>();
  const T* const b = pairs.b.as<T>();
  for (Index i = 0; i < pairs.n; ++i)
    sum.add_product(as_double(a[i * pairs.a_stride]), as_double(b[i * pairs.b_stride]));
}

}  // namespace

double smallest_bit(const Elements& data, const Sizes& shape, const Sizes& strides, int axis) {
  if (axis == shape.size()) return lowest_bit(data[0]);
  double least = std::numeric_limits<double>::infinity();
  if (axis + 1 < shape.size()) {
    for (Index i = 0; i < shape[axis]; ++i)
      least = std::min(least, smallest_bit(data + i * strides[axis], shape, strides, axis + 1));
    return least;
  }
  constexpr Index most = 256;
  double line[most];
  for (Index first = 0; first < shape[axis]; first += most) {
    const Index count = std::min(most, shape[axis] - first);
    (data + first * strides[axis]).load(strides[axis], count, line);
    for (Index i = 0; i < count; ++i) least = std::min(least, lowest_bit(line[i]));
  }
  return least;
}

void add_exactly(ExactSums<float>::products& sum, const Pairs& pairs) {
  const DType dtype = pairs.a.type->dtype;
  if (dtype == DType::f32) add_pairs<float>(sum, pairs);
  else if (dtype == DType::f16) add_pairs<Float16>(sum, pairs);
  else add_pairs<BFloat16>(sum, pairs);
}
void add_exactly(ExactSums<double>::products& sum, const Pairs& pairs) { add_pairs<double>(sum, pairs); }

}  // namespace halfulp::conv
