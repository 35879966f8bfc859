// Tasks on threads: each thread has a workspace of its own and takes the next task when it has finished one. Thread t
// starts with task t, so that what it did in an earlier region of the call is still in its cache.
#pragma once

#include <algorithm>
#include <atomic>

#include "halfulp/array.hpp"
#include "halfulp/interrupt.hpp"
#include "halfulp/parallel.hpp"

namespace halfulp::conv {

template <class Workspace, class F>
void run_tasks(Index count, const F& task) {
  if (count == 0) return;
  const Index threads = std::min<Index>(num_threads(), count);
  std::atomic<Index> next{threads};
  parallel_for(threads, 1, [&](Index begin, Index end) {
    Workspace workspace;
    for (Index thread = begin; thread < end; ++thread)
      for (Index i = thread; i < count; i = next++) {
        poll_interrupts();
        task(workspace, i);
      }
  });
}

}  // namespace halfulp::conv
