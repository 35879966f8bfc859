#include "calls_in_flight.hpp"

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace halfulp::bindings {
namespace {

namespace nb = nanobind;

// A call counts itself before it looks at `ending`, and the end of Python sets `ending` before it looks at the count:
// one of the two sees the other.
std::atomic<long> calls{0};
std::atomic<bool> ending{false};

void wait_for_calls() {
  ending.store(true);
  while (calls.load() > 0) {
    {
      const nb::gil_scoped_release release;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }
}

// The other threads of a forked process do not exist in the child, so their calls never end there.
void forget_calls() { calls.store(0); }

}  // namespace

CallInFlight::CallInFlight() noexcept {
  calls.fetch_add(1);
  admitted_ = !ending.load();
  if (!admitted_) calls.fetch_sub(1);
}

CallInFlight::~CallInFlight() {
  if (admitted_) calls.fetch_sub(1);
}

void wait_for_calls_at_exit() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&wait_for_calls));
  const nb::module_ os = nb::module_::import_("os");
  if (nb::hasattr(os, "register_at_fork"))
    os.attr("register_at_fork")(nb::arg("after_in_child") = nb::cpp_function(&forget_calls));
}

}  // namespace halfulp::bindings
