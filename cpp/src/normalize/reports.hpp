// Lists of undecided positions, one for each thread, put together at the end.
#pragma once

#include <algorithm>
#include <mutex>
#include <vector>

#include "halfulp/parallel.hpp"
#include "normalize/normalize_kernels.hpp"

namespace halfulp {

inline NormReport report_to(std::vector<Index>& list) {
  return {&list, [](void* to, Index position) { static_cast<std::vector<Index>*>(to)->push_back(position); }};
}

inline void append(std::vector<Index>& to, const std::vector<Index>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Calls body(begin, end, report) on ranges of n units of so many cells each; all reported positions.
template <class F>
std::vector<Index> in_parallel(Index n, Index cells, F&& body) {
  std::vector<Index> undecided;
  std::mutex mutex;
  const Index grain = std::max<Index>(1, (Index{1} << 13) / std::max<Index>(1, cells));
  parallel_for(n, grain, [&](Index begin, Index end) {
    std::vector<Index> unsure;
    body(begin, end, report_to(unsure));
    const std::lock_guard lock(mutex);
    append(undecided, unsure);
  });
  return undecided;
}

// Arrays of sums over columns, zero at first.
class ColumnBuffers {
 public:
  explicit ColumnBuffers(Index columns)
      : width_(padded_width(columns)), numbers_(static_cast<std::size_t>(kSumArrays * width_)) {
    double* const at = numbers_.data();
    sums = {at,              at + width_,     at + 2 * width_, at + 3 * width_,
            at + 4 * width_, at + 5 * width_, at + 6 * width_, at + 7 * width_};
  }
  ColumnBuffers(const ColumnBuffers&) = delete;
  ColumnBuffers& operator=(const ColumnBuffers&) = delete;

  void add(const ColumnBuffers& other);

  ColumnSums sums;

 private:
  Index width_;
  std::vector<double> numbers_;
};

// Groups along the last axis, normalize_last.cpp.
std::vector<Index> normalize_last(const NormProblem& problem);
NormUndecided normalize_pullback_last(const NormProblem& problem);
// Statistics that moments do not decide, from gathered cells; those that are left.
std::vector<Index> precise_statistics_last(const NormProblem& problem, const std::vector<Index>& positions);
// Fills problem.moments and, if there are tangents and a place for them, problem.sums.
void sum_last(const NormProblem& problem);

}  // namespace halfulp
