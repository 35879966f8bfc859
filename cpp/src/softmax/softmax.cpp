#include "halfulp/softmax.hpp"

#include <algorithm>
#include <mutex>

#include "halfulp/parallel.hpp"
#include "softmax/softmax_kernels.hpp"

namespace halfulp {

std::vector<Index> softmax(const SoftmaxProblem& problem) {
  std::vector<Index> undecided;
  if (problem.outer * problem.length * problem.inner == 0) return undecided;
  const SoftmaxKernels& kernels = select_softmax_kernels();
  std::mutex mutex;
  const bool rows = problem.inner == 1;
  const Index tiles = (problem.inner + kSoftmaxColumns - 1) / kSoftmaxColumns;
  const Index width = rows ? 1 : kSoftmaxColumns, spare = softmax_scratch(rows);
  const Index grain = std::max<Index>(1, (Index{1} << 12) / (problem.length * width));
  parallel_for(problem.outer * tiles, grain, [&](Index begin, Index end) {
    std::vector<double> scratch(static_cast<std::size_t>(spare * problem.length + 64));
    std::vector<Index> unsure;
    const SoftmaxReport report{&unsure, [](void* list, Index position) {
                                 static_cast<std::vector<Index>*>(list)->push_back(position);
                               }};
    if (rows) kernels.rows(problem, begin, end, scratch.data(), report);
    else
      for (Index tile = begin; tile < end; ++tile)
        kernels.columns(problem, tile / tiles, tile % tiles * kSoftmaxColumns, scratch.data(), report);
    const std::lock_guard lock(mutex);
    undecided.insert(undecided.end(), unsure.begin(), unsure.end());
  });
  return undecided;
}

}  // namespace halfulp
