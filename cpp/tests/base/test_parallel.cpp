// Every item is visited once, exceptions arrive, and a forked child still works.
#include <atomic>
#include <stdexcept>
#include <vector>

#include "check.hpp"
#include "halfulp/parallel.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <sys/wait.h>
#include <unistd.h>
#define HAS_FORK 1
#endif

using namespace halfulp;

namespace {

bool visits_all(std::int64_t n, std::int64_t grain) {
  std::vector<std::atomic<int>> visited(static_cast<std::size_t>(n));
  parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++visited[static_cast<std::size_t>(i)];
  });
  for (const auto& count : visited)
    if (count != 1) return false;
  return true;
}

bool exception_arrives() {
  try {
    parallel_for(100, 1, [](std::int64_t begin, std::int64_t) {
      if (begin > 0) throw std::runtime_error("from a worker");
    });
  } catch (const std::runtime_error&) {
    return true;
  }
  return false;
}

}  // namespace

int main() {
  for (const int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    tests::describe("threads", threads);
    CHECK(num_threads() == threads);
    for (const std::int64_t n : {0, 1, 2, 7, 1000})
      for (const std::int64_t grain : {1, 3, 5000}) CHECK(visits_all(n, grain));
    if (threads > 1) CHECK(exception_arrives());
  }
#ifdef HAS_FORK
  const pid_t child = fork();
  if (child == 0) _exit(visits_all(1000, 1) ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
  return tests::failures() == 0 ? 0 : 1;
}
