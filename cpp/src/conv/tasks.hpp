// Tasks on threads: each thread has a workspace of its own and takes the next task when it has finished one.
#pragma once

#include <algorithm>
#include <atomic>

#include "halfulp/array.hpp"
#include "halfulp/parallel.hpp"

namespace halfulp::conv {

template <class Workspace, class F>
void run_tasks(Index count, const F& task) {
  if (count == 0) return;
  std::atomic<Index> next{0};
  const Index threads = std::min<Index>(num_threads(), count);
  parallel_for(threads, 1, [&](Index begin, Index end) {
    Workspace workspace;
    for (Index thread = begin; thread < end; ++thread)
      for (Index i = next++; i < count; i = next++) task(workspace, i);
  });
}

}  // namespace halfulp::conv
