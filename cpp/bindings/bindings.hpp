// One registration function per file of bindings; module.cpp calls them all.
#pragma once

#include <nanobind/nanobind.h>

namespace halfulp::bindings {

void register_errors(nanobind::module_& module);
void register_settings(nanobind::module_& module);
void register_conv(nanobind::module_& module);
void register_xla(nanobind::module_& module);
void register_max_pool(nanobind::module_& module);
void register_avg_pool(nanobind::module_& module);
void register_smooth_max_pool(nanobind::module_& module);

}  // namespace halfulp::bindings
