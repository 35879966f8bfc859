// Threads and instruction sets.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
#include <vector>

#include "bindings.hpp"
#include "halfulp/engines.hpp"
#include "halfulp/isa.hpp"
#include "halfulp/memory_pool.hpp"
#include "halfulp/parallel.hpp"

namespace halfulp::bindings {
namespace {

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const Isa isa : available_isas()) names.emplace_back(name_of(isa));
  return names;
}

void force_isa(const std::string& name) {
  if (!set_isa(name)) throw nanobind::value_error(("no such instruction set here: " + name).c_str());
}

nanobind::dict engine_counts() {
  nanobind::dict counts;
  for (int e = 0; e < kEngineCount; ++e) {
    const std::string_view name = name_of(static_cast<Engine>(e));
    counts[nanobind::str(name.data(), name.size())] = units_of(static_cast<Engine>(e));
  }
  return counts;
}

}  // namespace

void register_settings(nanobind::module_& module) {
  set_isa_from_environment();
  module.def("get_num_threads", &num_threads, "The number of threads that kernels use.");
  module.def("set_num_threads", &set_num_threads, nanobind::arg("count"),
             "Set the number of threads; 0 leaves it to OpenMP.");
  module.def("available_isas", &isa_names, "The instruction sets of this processor that kernels are compiled for.");
  module.def("get_isa", [] { return std::string(name_of(current_isa())); }, "The instruction set in use.");
  module.def("set_isa", &force_isa, nanobind::arg("name"), "Force an instruction set, as HALFULP_ISA does.");
  module.def("engine_counts", &engine_counts, nanobind::sig("def engine_counts() -> dict[str, int]"),
             "How many units of work each engine has done since the last reset, by its name.");
  module.def("reset_engine_counts", &reset_engine_counts, "Set the counters of all engines to zero.");
  module.def("get_kept_memory", &memory_pool::kept_bytes,
             "Bytes of former outputs and scratch that are kept for new ones.");
  module.def("set_kept_memory_limit", &memory_pool::set_kept_limit, nanobind::arg("bytes"),
             "Keep at most this many bytes of former outputs; 0 keeps none.");
}

}  // namespace halfulp::bindings
