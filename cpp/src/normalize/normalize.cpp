#include "halfulp/normalize.hpp"

#include <algorithm>
#include <mutex>

#include "halfulp/parallel.hpp"
#include "normalize/normalize_kernels.hpp"

namespace halfulp {
namespace {

void add_position(void* list, Index position) { static_cast<std::vector<Index>*>(list)->push_back(position); }

template <class F>
std::vector<Index> in_parallel(Index n, Index cells, F&& body) {
  std::vector<Index> undecided;
  std::mutex mutex;
  const Index grain = std::max<Index>(1, (Index{1} << 13) / std::max<Index>(1, cells));
  parallel_for(n, grain, [&](Index begin, Index end) {
    std::vector<Index> unsure;
    body(begin, end, NormReport{&unsure, add_position});
    const std::lock_guard lock(mutex);
    undecided.insert(undecided.end(), unsure.begin(), unsure.end());
  });
  return undecided;
}

}  // namespace

std::vector<Index> normalize(const NormProblem& problem) {
  if (problem.blocks * problem.groups * problem.inner == 0) return {};
  const NormKernels& kernels = select_norm_kernels();
  return in_parallel(problem.group_count(), problem.cells(), [&](Index begin, Index end, const NormReport& report) {
    for (Index group = begin; group < end; ++group) kernels.group(problem, group, report);
  });
}

std::vector<Index> normalize_weights(const NormProblem& problem) {
  const Index count = problem.per_cell ? problem.inner : problem.groups * problem.channels;
  if (problem.blocks * problem.groups * problem.inner == 0) return {};
  const NormKernels& kernels = select_norm_kernels();
  const Index share = problem.blocks * problem.groups * problem.inner / std::max<Index>(1, count);
  const Index unit = problem.per_cell ? 1024 : 1;
  return in_parallel((count + unit - 1) / unit, share * unit, [&](Index begin, Index end, const NormReport& report) {
    kernels.weights(problem, begin * unit, std::min(end * unit, count), report);
  });
}

std::vector<Index> group_statistics(const NormProblem& problem) {
  if (problem.blocks * problem.groups * problem.inner == 0) return {};
  const NormKernels& kernels = select_norm_kernels();
  return in_parallel(problem.group_count(), problem.cells(), [&](Index begin, Index end, const NormReport& report) {
    for (Index group = begin; group < end; ++group) kernels.statistic(problem, group, report);
  });
}

}  // namespace halfulp
