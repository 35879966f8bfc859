#include "halfulp/softmax.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "halfulp/engines.hpp"
#include "halfulp/parallel.hpp"
#include "softmax/softmax_kernels.hpp"

namespace halfulp {

namespace {

constexpr Index kMostKept = Index{1} << 23;       // numbers
constexpr Index kShortRow = 16, kFewColumns = 8;  // below these, much of what is kept would be padding
constexpr Index kCopied = Index{1} << 12;         // cells that stay in the first cache after they are copied

Index tiles_of(const SoftmaxProblem& problem) { return (problem.inner + kSoftmaxColumns - 1) / kSoftmaxColumns; }

// x from cell `first` on.
void copy_cells(const SoftmaxProblem& p, Index first, Index count) {
  const auto size = static_cast<Index>(item_size(p.dtype));
  std::memcpy(static_cast<char*>(p.copy) + first * size, static_cast<const char*>(p.x) + first * size,
              static_cast<std::size_t>(count * size));
}

void run_rows(const SoftmaxKernels& kernels, const SoftmaxProblem& p, Index begin, Index end, double* scratch,
              const SoftmaxReport& report) {
  if (p.copy == nullptr) return kernels.rows(p, begin, end, scratch, report);
  const Index some = std::max<Index>(1, kCopied / p.length);
  for (Index row = begin; row < end; row += some) {
    const Index stop = std::min(row + some, end);
    copy_cells(p, row * p.length, (stop - row) * p.length);
    kernels.rows(p, row, stop, scratch, report);
  }
}

void run_tiles(const SoftmaxKernels& kernels, const SoftmaxProblem& p, Index begin, Index end, double* scratch,
               const SoftmaxReport& report) {
  const Index tiles = tiles_of(p);
  for (Index tile = begin; tile < end; ++tile) {
    const Index outer = tile / tiles, first = tile % tiles * kSoftmaxColumns;
    for (Index i = 0; i < p.length && p.copy != nullptr; ++i)
      copy_cells(p, (outer * p.length + i) * p.inner + first, std::min(kSoftmaxColumns, p.inner - first));
    kernels.columns(p, outer, first, scratch, report);
  }
}

}  // namespace

Index softmax_kept_size(const SoftmaxProblem& p) {
  if (p.dtype != DType::f32 || p.length < kShortRow || (p.inner != 1 && p.inner < kFewColumns)) return 0;
  if (p.outer * p.length * p.inner > kMostKept) return 0;
  const Index size = p.inner == 1 ? p.outer * kept_of_row(p.length) : p.outer * tiles_of(p) * kept_of_tile(p.length);
  return size <= kMostKept ? size : 0;
}

std::vector<Index> softmax(const SoftmaxProblem& problem) {
  std::vector<Index> undecided;
  if (problem.outer * problem.length * problem.inner == 0) return undecided;
  count_engine(Engine::softmax);
  const SoftmaxKernels& kernels = select_softmax_kernels();
  std::mutex mutex;
  const bool rows = problem.inner == 1;
  const Index tiles = tiles_of(problem);
  const Index width = rows ? 1 : kSoftmaxColumns;
  const Index grain = std::max<Index>(1, (Index{1} << 12) / (problem.length * width));
  parallel_for(problem.outer * tiles, grain, [&](Index begin, Index end) {
    std::vector<double> scratch(static_cast<std::size_t>(softmax_scratch(rows, problem.length)));
    std::vector<Index> unsure;
    const SoftmaxReport report{&unsure, [](void* list, Index position) {
                                 static_cast<std::vector<Index>*>(list)->push_back(position);
                               }};
    (rows ? run_rows : run_tiles)(kernels, problem, begin, end, scratch.data(), report);
    const std::lock_guard lock(mutex);
    undecided.insert(undecided.end(), unsure.begin(), unsure.end());
  });
  return undecided;
}

}  // namespace halfulp
