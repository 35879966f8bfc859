// Sums of rows, across rows and along them. Plain loops over separate arrays, which compilers vectorise.
#include "average/sum_kernels.hpp"

#include "average/kernels/sum_finish.hpp"
#include "average/kernels/sum_values.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr Index kTile = 512;  // columns whose sums stay in the first cache while many rows are added

template <class Source, class Bits>
MagnitudeRange scan(const Source* x, Index n) {
  constexpr Bits mask = static_cast<Bits>(~Bits{0}) >> 1;
  Bits smallest = static_cast<Bits>(~Bits{0});
  Bits largest = 0;
  for (Index i = 0; i < n; ++i) {
    const Bits magnitude = std::bit_cast<Bits>(x[i]) & mask;
    const Bits less = magnitude - 1;  // zero becomes the largest pattern and so does not count
    smallest = less < smallest ? less : smallest;
    largest = magnitude > largest ? magnitude : largest;
  }
  const bool none = smallest == static_cast<Bits>(~Bits{0});
  return {none ? ~std::uint64_t{0} : std::uint64_t{smallest}, largest};
}

template <int Mode, class Source>
inline Value term(const Source* row, Index i) {
  return {static_cast<double>(row[i]), 0.0, 0.0};
}

template <int Mode, class Source, int Count>
void add_few_rows(const Source* const* rows, Index n, const Sums& out) {
  const Source* a = rows[0];
  const Source* b = rows[Count > 1 ? 1 : 0];
  const Source* c = rows[Count > 2 ? 2 : 0];
  for (Index i = 0; i < n; ++i) {
    Value v = term<Mode>(a, i);
    if constexpr (Count > 1) v = add<Mode>(v, term<Mode>(b, i));
    if constexpr (Count > 2) v = add<Mode>(v, term<Mode>(c, i));
    store<Mode>(out, i, v);
  }
}

template <int Mode, class Source>
void add_many_rows(const Source* const* rows, const double* weights, Index count, Index n, const Sums& out) {
  for (Index begin = 0; begin < n; begin += kTile) {
    const Index end = begin + kTile < n ? begin + kTile : n;
    for (Index r = 0; r < count; ++r) {
      const Source* row = rows[r];
      const double weight = weights == nullptr ? 1.0 : weights[r];
      if (r == 0 && weight == 1.0) {
        for (Index i = begin; i < end; ++i) store<Mode>(out, i, term<Mode>(row, i));
      } else if (r == 0) {
        for (Index i = begin; i < end; ++i) store<Mode>(out, i, scaled<Mode>(term<Mode>(row, i), weight));
      } else if (weight == 1.0) {
        for (Index i = begin; i < end; ++i) store<Mode>(out, i, add<Mode>(load<Mode>(out, i), term<Mode>(row, i)));
      } else {
        for (Index i = begin; i < end; ++i)
          store<Mode>(out, i, add<Mode>(load<Mode>(out, i), scaled<Mode>(term<Mode>(row, i), weight)));
      }
    }
  }
}

template <int Mode, class Source>
void add_rows(const Source* const* rows, const double* weights, Index count, Index n, const Sums& out) {
  if (weights != nullptr || count > 3) return add_many_rows<Mode>(rows, weights, count, n, out);
  if (count == 1) return add_few_rows<Mode, Source, 1>(rows, n, out);
  if (count == 2) return add_few_rows<Mode, Source, 2>(rows, n, out);
  add_few_rows<Mode, Source, 3>(rows, n, out);
}

// Brings sum and low back to high and low part of their value, so that low stays small however long a slide goes on.
template <int Mode>
inline Value renormalised(const Value& a) {
  if constexpr (!has_low<Mode>) return a;
  const TwoDoubles s = two_sum(a.sum, a.low);
  return {s.high, s.low, a.bound};
}

template <int Mode, class Source>
void slide(const Source* leaving, const Source* entering, Index n, const Sums& out) {
  for (Index i = 0; i < n; ++i) {
    Value v = load<Mode>(out, i);
    if (entering != nullptr) v = add<Mode>(v, term<Mode>(entering, i));
    if (leaving != nullptr) v = add<Mode>(v, negated(term<Mode>(leaving, i)));
    store<Mode>(out, i, renormalised<Mode>(v));
  }
}

template <int Mode>
void slide_sums(const Sums& leaving, const Sums& entering, Index n, const Sums& out) {
  for (Index i = 0; i < n; ++i) {
    Value v = load<Mode>(out, i);
    if (entering.sum != nullptr) v = add<Mode>(v, load<Mode>(entering, i));
    if (leaving.sum != nullptr) v = add<Mode>(v, negated(load<Mode>(leaving, i)));
    store<Mode>(out, i, renormalised<Mode>(v));
  }
}

template <int Mode>
void add_sums(const Sums& in, const Index* offsets, const double* weights, Index count, Index n, const Sums& out) {
  for (Index begin = 0; begin < n; begin += kTile) {
    const Index end = begin + kTile < n ? begin + kTile : n;
    for (Index r = 0; r < count; ++r) {
      const Sums row = in + offsets[r];
      const double weight = weights == nullptr ? 1.0 : weights[r];
      for (Index i = begin; i < end; ++i) {
        Value v = load<Mode>(row, i);
        if (weight != 1.0) v = scaled<Mode>(v, weight);
        if (r > 0) v = add<Mode>(load<Mode>(out, i), v);
        store<Mode>(out, i, v);
      }
    }
  }
}

template <int Mode>
void scale(const Sums& values, const double* weights, Index lanes, Index n) {
  for (Index cell = 0; cell < n; ++cell) {
    if (weights[cell] == 1.0) continue;
    for (Index i = cell * lanes; i < (cell + 1) * lanes; ++i)
      store<Mode>(values, i, scaled<Mode>(load<Mode>(values, i), weights[cell]));
  }
}

// `Count` > 0 and the two steps > 0 are fixed at compile time.
template <int Mode, int Count, int FirstStep, int OutputStep>
void add_short(const Sums& in, const SumSegment& g, const Sums& out) {
  const Index first_step = FirstStep >= 0 ? FirstStep : g.first_step;
  const Index output_step = OutputStep > 0 ? OutputStep : g.output_step;
  const Index count = Count > 0 ? Count : g.count;
  const Sums from = in + g.first;
  const Sums to = out + g.output;
  for (Index t = 0; t < g.length; ++t) {
    Value v = load<Mode>(from, t * first_step);
    for (Index j = 1; j < count; ++j) v = add<Mode>(v, load<Mode>(from, t * first_step + j * g.step));
    store<Mode>(to, t * output_step, v);
  }
}

template <int Mode, int Count>
void add_short_by_step(const Sums& in, const SumSegment& g, const Sums& out) {
  if (g.output_step == 1) {
    if (g.first_step == 1) return add_short<Mode, Count, 1, 1>(in, g, out);
    if (g.first_step == 2) return add_short<Mode, Count, 2, 1>(in, g, out);
    if (g.first_step == 3) return add_short<Mode, Count, 3, 1>(in, g, out);
    if (g.first_step == 0) return add_short<Mode, Count, 0, 1>(in, g, out);
  } else if (g.output_step == 2 && g.first_step == 1) {
    return add_short<Mode, Count, 1, 2>(in, g, out);
  }
  add_short<Mode, Count, -1, 0>(in, g, out);
}

// Long windows that overlap, by doubling: sums of 2^b neighbours come from two sums of 2^(b-1), and a window is made of
// those that the bits of its length name. 2 log2(count) additions for each cell.
template <int Mode>
void add_by_doubling(const Sums& in, Index width, const SumSegment& g, const Sums& work, const Sums& out) {
  Sums current = in + g.first;
  width -= g.first;
  Index done = 0;
  for (Index power = 1;; power *= 2) {
    if ((g.count & power) != 0) {
      const Sums from = current + done * g.step;
      for (Index t = 0; t < g.length; ++t) {
        Value v = load<Mode>(from, t * g.first_step);
        const Index o = g.output + t * g.output_step;
        if (done > 0) v = add<Mode>(load<Mode>(out, o), v);
        store<Mode>(out, o, v);
      }
      done += power;
    }
    if (2 * power > g.count) return;
    width -= power * g.step;
    const Sums shifted = current + power * g.step;
    for (Index i = 0; i < width; ++i) store<Mode>(work, i, add<Mode>(load<Mode>(current, i), load<Mode>(shifted, i)));
    current = work;
  }
}

// A long window on its own: eight partial sums, so that additions do not wait for each other.
template <int Mode>
void add_long(const Sums& in, const SumSegment& g, const Sums& out) {
  constexpr Index kLanes = 8;
  for (Index t = 0; t < g.length; ++t) {
    const Sums from = in + (g.first + t * g.first_step);
    double sum[kLanes], low[kLanes] = {}, bound[kLanes] = {};
    const Sums lanes{sum, low, bound};
    for (Index i = 0; i < kLanes; ++i) store<Mode>(lanes, i, load<Mode>(from, i));
    Index j = kLanes;
    for (; j + kLanes <= g.count; j += kLanes)
      for (Index i = 0; i < kLanes; ++i)
        store<Mode>(lanes, i, add<Mode>(load<Mode>(lanes, i), load<Mode>(from, j + i)));
    Value v = load<Mode>(lanes, 0);
    for (Index i = 1; i < kLanes; ++i) v = add<Mode>(v, load<Mode>(lanes, i));
    for (; j < g.count; ++j) v = add<Mode>(v, load<Mode>(from, j));
    store<Mode>(out, g.output + t * g.output_step, v);
  }
}

template <int Mode>
void add_segment(const Sums& in, Index width, const SumSegment& g, const Sums& work, const Sums& out) {
  switch (g.count) {
    case 1: return add_short_by_step<Mode, 1>(in, g, out);
    case 2: return add_short_by_step<Mode, 2>(in, g, out);
    case 3: return add_short_by_step<Mode, 3>(in, g, out);
    default: break;
  }
  const bool overlapping = g.first_step * 4 <= g.count * g.step && g.first_step > 0 && g.length >= 8;
  if (g.count >= 8 && overlapping) return add_by_doubling<Mode>(in, width, g, work, out);
  if (g.count >= 16 && g.step == 1) return add_long<Mode>(in, g, out);
  add_short_by_step<Mode, 0>(in, g, out);
}

template <int Mode, int Count>
void add_lanes(const Sums& in, Index lanes, const SumSegment& g, const Sums& out) {
  for (Index t = 0; t < g.length; ++t) {
    const Sums a = in + (g.first + t * g.first_step) * lanes;
    const Sums b = a + (Count > 1 ? g.step * lanes : 0);
    const Sums c = a + (Count > 2 ? 2 * g.step * lanes : 0);
    const Sums to = out + (g.output + t * g.output_step) * lanes;
    for (Index i = 0; i < lanes; ++i) {
      Value v = load<Mode>(a, i);
      if constexpr (Count > 1) v = add<Mode>(v, load<Mode>(b, i));
      if constexpr (Count > 2) v = add<Mode>(v, load<Mode>(c, i));
      store<Mode>(to, i, v);
    }
    for (Index j = 3; j < g.count; ++j) {
      const Sums next = a + j * g.step * lanes;
      for (Index i = 0; i < lanes; ++i) store<Mode>(to, i, add<Mode>(load<Mode>(to, i), load<Mode>(next, i)));
    }
  }
}

template <int Mode>
void add_lane_segment(const Sums& in, Index lanes, const SumSegment& g, const Sums& out) {
  if (g.count == 1) return add_lanes<Mode, 1>(in, lanes, g, out);
  if (g.count == 2) return add_lanes<Mode, 2>(in, lanes, g, out);
  add_lanes<Mode, 3>(in, lanes, g, out);
}

}  // namespace

const SumKernels& sum_kernels() {
  static constexpr SumKernels table{
      {scan<float, std::uint32_t>,
       {add_rows<kSingleExact, float>, add_rows<kSingleBounded, float>},
       slide<kSingleExact, float>},
      {scan<double, std::uint64_t>,
       {add_rows<kDoubleExact, double>, add_rows<kDoubleBounded, double>},
       slide<kDoubleExact, double>},
      {add_sums<0>, add_sums<1>, add_sums<2>, add_sums<3>},
      {slide_sums<0>, slide_sums<1>, slide_sums<2>, slide_sums<3>},
      {add_segment<0>, add_segment<1>, add_segment<2>, add_segment<3>},
      {add_lane_segment<0>, add_lane_segment<1>, add_lane_segment<2>, add_lane_segment<3>},
      {scale<0>, scale<1>, scale<2>, scale<3>},
      {finish_exact<Float16>, finish_bounded<Float16>},
      {finish_exact<BFloat16>, finish_bounded<BFloat16>},
      {finish_exact<float>, finish_bounded<float>},
      {finish_f64_exact, finish_f64_bounded},
  };
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
