#include "halfulp/parallel.hpp"

#include "halfulp/float_environment.hpp"
#include "halfulp/interrupt.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#define HALFULP_HAS_FORK 1
#endif

namespace halfulp {
namespace {

std::atomic<int> chosen_threads{0};

#ifdef _OPENMP
// A forked child inherits an OpenMP runtime whose worker threads do not exist there, and would wait for them for ever.
// The child therefore never enters OpenMP; it starts plain threads for each region.
std::atomic<bool> forked{false};

#ifdef HALFULP_HAS_FORK
const int fork_handler = pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
#endif
#endif

class FirstException {
 public:
  template <class F>
  void guard(F&& f) noexcept {
    try {
      f();
    } catch (const Interrupted&) {  // of no account beside what interrupted the caller
      const std::lock_guard lock(mutex_);
      if (!exception_) {
        exception_ = std::current_exception();
        interrupted_ = true;
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!exception_ || interrupted_) exception_ = std::current_exception();
      interrupted_ = false;
    }
  }
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr exception_;
  bool interrupted_ = false;
};

bool inside_parallel_region() noexcept {
#ifdef _OPENMP
  return !forked.load(std::memory_order_relaxed) && omp_in_parallel() != 0;
#else
  return false;
#endif
}

void run_on_plain_threads(int threads, const std::function<void(int)>& part) {
  std::vector<std::thread> workers;
  workers.reserve(static_cast<std::size_t>(threads - 1));
  int started = 1;
  try {
    for (; started < threads; ++started) workers.emplace_back(part, started);
  } catch (const std::system_error&) {  // no more threads to be had: the caller does the rest
  }
  part(0);
  for (int missing = started; missing < threads; ++missing) part(missing);
  for (std::thread& worker : workers) worker.join();
}

void run_parts(int threads, const std::function<void(int)>& part) {
#ifdef _OPENMP
  if (!forked.load(std::memory_order_relaxed)) {
    // The runtime may grant fewer threads than asked for; the loop still runs every part.
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int i = 0; i < threads; ++i) part(i);
    return;
  }
#endif
  run_on_plain_threads(threads, part);
}

int default_threads() noexcept {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
#endif
}

}  // namespace

int num_threads() noexcept {
  const int chosen = chosen_threads.load(std::memory_order_relaxed);
  return chosen > 0 ? chosen : default_threads();
}

void set_num_threads(int count) noexcept { chosen_threads.store(std::max(count, 0), std::memory_order_relaxed); }

void parallel_for(std::int64_t n, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body) {
  if (n <= 0) return;
  const std::int64_t most = std::max<std::int64_t>(1, n / std::max<std::int64_t>(1, grain));
  const int threads = static_cast<int>(most == 1 ? 1 : std::min<std::int64_t>(num_threads(), most));
  if (threads <= 1 || inside_parallel_region()) {
    body(0, n);
    return;
  }
  FirstException failure;
  InterruptScope* const scope = current_interrupt_scope();
  run_parts(threads, [&](int part) {
    // n * part / threads without overflow
    const std::int64_t share = n / threads, rest = n % threads;
    const std::int64_t begin = share * part + std::min<std::int64_t>(part, rest);
    const std::int64_t end = begin + share + (part < rest ? 1 : 0);
    const DefaultFloatEnvironment environment;
    const JoinInterruptScope join(scope);
    failure.guard([&] { body(begin, end); });
  });
  failure.rethrow();
}

}  // namespace halfulp
