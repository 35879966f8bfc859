// One registration function per file of bindings; module.cpp calls them all.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "calls_in_flight.hpp"
#include "halfulp/float_environment.hpp"
#include "halfulp/interrupt.hpp"

namespace halfulp::bindings {

// Throws what a signal's handler raised, such as KeyboardInterrupt. Handlers run on Python's main thread alone.
inline void ask_for_signals() {
  const nanobind::gil_scoped_acquire hold;
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

// While kernels run: other Python threads go on, signals are heard, and this thread rounds to nearest with gradual
// underflow. Once the end of Python has begun the lock is kept: a thread that gave it up could not take it again.
class KernelScope {
 public:
  KernelScope() {
    if (call_.admitted()) release_.emplace();
  }

 private:
  CallInFlight call_;
  std::optional<nanobind::gil_scoped_release> release_;
  DefaultFloatEnvironment environment_;
  InterruptScope interrupts_{ask_for_signals};
};

// What `work()` returns, computed in such a scope.
template <class Work>
auto run_kernels(const Work& work) {
  const KernelScope scope;
  return work();
}

void register_errors(nanobind::module_& module);
void register_settings(nanobind::module_& module);
void register_conv(nanobind::module_& module);
void register_xla(nanobind::module_& module);
void register_windows(nanobind::module_& module);
void register_max_pool(nanobind::module_& module);
void register_avg_pool(nanobind::module_& module);
void register_order_pool(nanobind::module_& module);
void register_elementwise(nanobind::module_& module);
void register_smooth_max_pool(nanobind::module_& module);
void register_patches(nanobind::module_& module);
void register_philox(nanobind::module_& module);
void register_normalize(nanobind::module_& module);
void register_softmax(nanobind::module_& module);
void register_interpolate(nanobind::module_& module);
void register_loss(nanobind::module_& module);
void register_fractional_max_pool(nanobind::module_& module);

}  // namespace halfulp::bindings
