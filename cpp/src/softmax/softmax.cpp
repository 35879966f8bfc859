#include "halfulp/softmax.hpp"

#include <algorithm>
#include <mutex>

#include "halfulp/parallel.hpp"
#include "softmax/softmax_kernels.hpp"

namespace halfulp {

std::vector<Index> softmax(const SoftmaxProblem& problem) {
  std::vector<Index> undecided;
  if (problem.rows * problem.length == 0) return undecided;
  const SoftmaxKernels& kernels = select_softmax_kernels();
  std::mutex mutex;
  const Index grain = std::max<Index>(1, (Index{1} << 12) / problem.length);
  parallel_for(problem.rows, grain, [&](Index begin, Index end) {
    std::vector<double> scratch(static_cast<std::size_t>(2 * problem.length));
    std::vector<Index> unsure;
    const SoftmaxReport report{&unsure, [](void* list, Index position) {
                                 static_cast<std::vector<Index>*>(list)->push_back(position);
                               }};
    for (Index row = begin; row < end; ++row) kernels.row(problem, row, scratch.data(), report);
    const std::lock_guard lock(mutex);
    undecided.insert(undecided.end(), unsure.begin(), unsure.end());
  });
  return undecided;
}

}  // namespace halfulp
