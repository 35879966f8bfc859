// Softmax along an axis, see halfulp/softmax.hpp: in double first (float64 in pairs of doubles), the rest in pairs.
#include "softmax/softmax_kernels.hpp"

#include "softmax/kernels/columns.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

// body<T, work, logarithm> for the problem.
template <class Body>
void chosen(const SoftmaxProblem& problem, const Body& body) {
  visit_float(problem.dtype, [&](auto zero) {
    const auto with_work = [&](auto logarithm) {
      using Work = SoftmaxWork;
      if (problem.work == Work::value) body(zero, std::integral_constant<Work, Work::value>{}, logarithm);
      else if (problem.work == Work::tangent) body(zero, std::integral_constant<Work, Work::tangent>{}, logarithm);
      else body(zero, std::integral_constant<Work, Work::cotangent>{}, logarithm);
    };
    if (problem.logarithm) with_work(std::true_type{});
    else with_work(std::false_type{});
  });
}

void rows(const SoftmaxProblem& problem, Index begin, Index end, double* scratch, const SoftmaxReport& report) {
  chosen(problem, [&](auto zero, auto work, auto logarithm) {
    rows_of<decltype(zero), work(), logarithm()>(problem, begin, end, scratch, report);
  });
}

void columns(const SoftmaxProblem& problem, Index outer, Index first, double* scratch, const SoftmaxReport& report) {
  chosen(problem, [&](auto zero, auto work, auto logarithm) {
    Tile<decltype(zero), work(), logarithm()>(problem, outer, first, scratch, report).run();
  });
}

}  // namespace

const SoftmaxKernels& softmax_kernels() {
  static const SoftmaxKernels table{rows, columns};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
