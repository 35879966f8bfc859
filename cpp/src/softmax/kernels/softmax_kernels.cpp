// Softmax along an axis, see halfulp/softmax.hpp: in double first (float64 in pairs of doubles), the rest in pairs.
#include "softmax/softmax_kernels.hpp"

#include "softmax/kernels/columns.hpp"
#include "softmax/kernels/row_groups.hpp"

namespace halfulp::HALFULP_ISA_NAMESPACE {
namespace {

void rows(const SoftmaxProblem& problem, Index begin, Index end, double* scratch, const SoftmaxReport& report) {
  chosen(problem, [&](auto kind) { rows_of<kind()>(problem, begin, end, scratch, report); });
}

void columns(const SoftmaxProblem& problem, Index outer, Index first, double* scratch, const SoftmaxReport& report) {
  chosen(problem, [&](auto kind) { Tile<kind()>(problem, outer, first, scratch, report).run(); });
}

}  // namespace

const SoftmaxKernels& softmax_kernels() {
  static const SoftmaxKernels table{rows, columns};
  return table;
}

}  // namespace halfulp::HALFULP_ISA_NAMESPACE
