// Sums of rows, across rows and along them, and their quotients. See careful_kernels.hpp.
#include "average/careful_kernels.hpp"

#include "average/kernels/line_along.hpp"
#include "average/kernels/sum_finish.hpp"
#include "average/kernels/sum_rows.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

constexpr Index kTile = 512;  // columns whose sums stay in the first cache while many rows are added

template <class Source>
MagnitudeRange scan(const Source* x, Index n) {
  MagnitudeScan<Source> scan;
  scan.take(x, n);
  return scan.range();
}

template <class H, class Row>
void sum_rows(Row source, const Index* rows, const double* weights, Index count, Index n, const Sums& out) {
  for (Index i = 0; i < n; i += kTile) {
    const Index width = n - i < kTile ? n - i : kTile;
    if (weights == nullptr) add_rows<H>(Row(source + i), rows, count, width, out + i);
    else add_rows<H, true>(Row(source + i), rows, count, width, out + i, weights);
  }
}
template <class H, class Source>
void add_source(const Source* source, const Index* rows, const double* weights, Index count, Index n, const Sums& out) {
  sum_rows<H>(source, rows, weights, count, n, out);
}
template <class H>
void add_sums(const Sums& in, const Index* rows, const double* weights, Index count, Index n, const Sums& out) {
  sum_rows<H>(in, rows, weights, count, n, out);
}

template <class Source>
void slide_source(const Source* leaving, const Source* entering, Index n, const Sums& out) {
  slide<Source>(out, entering != nullptr, entering, leaving != nullptr, leaving, n, out);
}
template <class H>
void slide_sums(const Sums& leaving, const Sums& entering, Index n, const Sums& out) {
  slide<H>(out, entering.sum != nullptr, entering, leaving.sum != nullptr, leaving, n, out);
}

template <class H>
void add_along(const AlongTask& task, const Sums& in) {
  along<H>(task, {in, 0, 1});
}

template <class H>
void scale(const Sums& values, const double* weights, Index lanes, Index n) {
  if (lanes == 1)
    return for_each_vector(n, [&](auto tag, Index i) {
      using V = typename decltype(tag)::type;
      put(values, i, times(get<H, V>(values, i), widened<V>(weights + i)));
    });
  for (Index cell = 0; cell < n; ++cell) {
    if (weights[cell] == 1.0) continue;
    const Sums at = values + cell * lanes;
    for_each_vector(lanes, [&](auto tag, Index i) {
      using V = typename decltype(tag)::type;
      put(at, i, times(get<H, V>(at, i), all<V>(weights[cell])));
    });
  }
}

}  // namespace

const CarefulKernels& careful_kernels() {
  using Single = Bounded<float>;
  using Double = Bounded<double>;
  static constexpr CarefulKernels table{
      {scan<float>, {add_source<float, float>, add_source<Single, float>}, slide_source<float>},
      {scan<double>, {add_source<double, double>, add_source<Double, double>}, slide_source<double>},
      {add_sums<float>, add_sums<Single>, add_sums<double>, add_sums<Double>},
      {slide_sums<float>, slide_sums<double>},
      {add_along<float>, add_along<Single>, add_along<double>, add_along<Double>},
      {scale<float>, scale<Single>, scale<double>, scale<Double>},
      {finish_exact<Float16>, finish_bounded<Float16>},
      {finish_exact<BFloat16>, finish_bounded<BFloat16>},
      {finish_exact<float>, finish_bounded<float>},
      {finish_f64_exact, finish_f64_bounded},
  };
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
