// One registration function per file of bindings; module.cpp calls them all.
#pragma once

#include <nanobind/nanobind.h>

#include "halfulp/float_environment.hpp"

namespace halfulp::bindings {

// While kernels run: other Python threads go on, and this one rounds to nearest with gradual underflow.
class KernelScope {
  nanobind::gil_scoped_release release_;
  DefaultFloatEnvironment environment_;
};

void register_errors(nanobind::module_& module);
void register_settings(nanobind::module_& module);
void register_conv(nanobind::module_& module);
void register_xla(nanobind::module_& module);
void register_max_pool(nanobind::module_& module);
void register_avg_pool(nanobind::module_& module);
void register_smooth_max_pool(nanobind::module_& module);

}  // namespace halfulp::bindings
