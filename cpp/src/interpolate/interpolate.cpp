#include "halfulp/interpolate.hpp"

#include <algorithm>
#include <mutex>

#include "exact/exact_sum.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/parallel.hpp"
#include "interpolate/tap_kernels.hpp"

namespace halfulp {
namespace {

double number(double x) { return x; }
template <class T>
double number(T x) {
  return static_cast<double>(to_float(x));
}

// One output with integers for weights, and one division. False if the integers do not fit.
template <class T>
bool exactly(const TapProblem& p, Index position) {
  const TapAxis &a = p.axis[0], &b = p.axis[1], &c = p.axis[2];
  const Index k = position % c.outputs, j = position / c.outputs % b.outputs;
  const Index i = position / (c.outputs * b.outputs) % a.outputs, plane = position / (c.outputs * p.out_rows());
  T& out = static_cast<T*>(p.out)[position];
  if (a.counts[i] * b.counts[j] * c.counts[k] == 0) {
    out = T{};
    return true;
  }
  if (p.divisor == 0) return false;
  using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
  typename ExactSums<Wide>::terms sum;
  const T* const x = static_cast<const T*>(p.x) + plane * p.in_rows() * c.size;
  for (Index at = i; at < a.counts[i] * a.outputs; at += a.outputs)
    for (Index bt = j; bt < b.counts[j] * b.outputs; bt += b.outputs)
      for (Index ct = k; ct < c.counts[k] * c.outputs; ct += c.outputs) {
        const Index cell = (a.cells[at] * b.size + b.cells[bt]) * c.size + c.cells[ct];
        sum.add(number(x[cell]), a.numerators[at] * b.numerators[bt] * c.numerators[ct]);
      }
  out = sum.template round_quotient<T>(p.divisor);
  return true;
}

void add_position(void* list, Index position) { static_cast<std::vector<Index>*>(list)->push_back(position); }

}  // namespace

std::vector<Index> weighted_taps(const TapProblem& problem) {
  std::vector<Index> undecided;
  const Index rows = problem.out_rows(), width = problem.axis[2].outputs;
  if (problem.planes * rows * width == 0) return undecided;
  count_engine(Engine::interpolate);
  const TapKernels& kernels = select_tap_kernels();
  std::mutex mutex;
  const Index cells = std::max(problem.in_rows() * problem.axis[2].size, rows * width);
  const Index grain = std::max<Index>(1, (Index{1} << 14) / std::max<Index>(1, cells));
  const auto scratch_size = static_cast<std::size_t>(2 * (problem.axis[2].size + width));
  const auto run = [&](Index plane, Index begin, Index end, const TapRow* seen, std::vector<double>& scratch,
                       std::vector<Index>& unsure) {
    for (Index row = begin; row < end; ++row)
      kernels.row(problem, plane, row, seen, scratch.data(), TapReport{&unsure, add_position});
  };
  const auto keep = [&](std::vector<Index>& unsure) {
    count_engine(Engine::interpolate_exact, static_cast<Index>(unsure.size()));
    std::erase_if(unsure, [&](Index position) {
      return visit_float(problem.dtype, [&](auto zero) { return exactly<decltype(zero)>(problem, position); });
    });
    const std::lock_guard lock(mutex);
    undecided.insert(undecided.end(), unsure.begin(), unsure.end());
  };
  if (problem.planes > 4) {
    parallel_for(problem.planes, grain, [&](Index begin, Index end) {
      std::vector<double> scratch(scratch_size);
      std::vector<TapRow> seen(static_cast<std::size_t>(problem.in_rows()));
      std::vector<Index> unsure;
      for (Index plane = begin; plane < end; ++plane) {
        kernels.survey(problem, plane, seen.data());
        run(plane, 0, rows, seen.data(), scratch, unsure);
      }
      keep(unsure);
    });
    return undecided;
  }
  std::vector<TapRow> seen(static_cast<std::size_t>(problem.in_rows()));
  for (Index plane = 0; plane < problem.planes; ++plane) {  // few planes: their rows are shared out
    kernels.survey(problem, plane, seen.data());
    parallel_for(rows, std::max<Index>(1, (Index{1} << 14) / width), [&](Index begin, Index end) {
      std::vector<double> scratch(scratch_size);
      std::vector<Index> unsure;
      run(plane, begin, end, seen.data(), scratch, unsure);
      keep(unsure);
    });
  }
  return undecided;
}

}  // namespace halfulp
