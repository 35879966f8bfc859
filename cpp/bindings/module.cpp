// Registers the Python module; every operator's bindings stand in their own file.
#include "bindings.hpp"
#include "calls_in_flight.hpp"
#include "numpy/array.hpp"

NB_MODULE(_core, module) {
  // Compiled operators are kept in caches until the interpreter ends, which nanobind would call a leak.
  nanobind::set_leak_warnings(false);
  module.doc() = "The compiled core of halfulp.";
  halfulp::bindings::import_numpy();
  halfulp::bindings::wait_for_calls_at_exit();
  halfulp::bindings::register_errors(module);
  halfulp::bindings::register_settings(module);
  halfulp::bindings::register_conv(module);
  halfulp::bindings::register_xla(module);
  halfulp::bindings::register_windows(module);
  halfulp::bindings::register_max_pool(module);
  halfulp::bindings::register_avg_pool(module);
  halfulp::bindings::register_order_pool(module);
  halfulp::bindings::register_elementwise(module);
  halfulp::bindings::register_smooth_max_pool(module);
  halfulp::bindings::register_patches(module);
  halfulp::bindings::register_philox(module);
  halfulp::bindings::register_normalize(module);
  halfulp::bindings::register_softmax(module);
  halfulp::bindings::register_interpolate(module);
  halfulp::bindings::register_loss(module);
  halfulp::bindings::register_fractional_max_pool(module);
}
