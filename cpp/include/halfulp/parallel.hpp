// Threads: OpenMP where it is there, so that threadpoolctl and OMP_NUM_THREADS are honoured.
#pragma once

#include <cstdint>
#include <functional>

namespace halfulp {

// The number of threads that kernels use: the last set_num_threads, else what OpenMP says for the calling thread.
int num_threads() noexcept;

// 0 gives the choice back to OpenMP.
void set_num_threads(int count) noexcept;

// Calls body(begin, end) on disjoint ranges that cover [0, n), in parallel, with at least `grain` items in each range
// if there are several. Rethrows the first exception of a body after all have ended. Safe to call from many threads at
// once and after fork().
void parallel_for(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace halfulp
