// Masks of random cells, for Python.
#include "halfulp/philox.hpp"

#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "numpy/array.hpp"

namespace halfulp::bindings {
namespace {

template <class Bits>
nb::object filled(DType dtype, const Stream& stream, std::uint64_t first, std::uint64_t threshold, std::uint64_t kept,
                  Index count) {
  OutputArray out = new_output(Sizes{count}, dtype);
  run_kernels([&] { keep_mask(stream, first, threshold, static_cast<Bits>(kept), out.view.as<Bits>(), count); });
  return std::move(out.owner);
}

nb::object mask_array(std::uint64_t seed, std::uint32_t step, std::uint32_t layer, std::uint64_t first,
                      std::uint64_t threshold, std::uint64_t kept, int bytes, Index count) {
  const Stream stream{seed, step, layer};
  if (bytes == 2) return filled<std::uint16_t>(DType::u16, stream, first, threshold, kept, count);
  if (bytes == 4) return filled<std::uint32_t>(DType::u32, stream, first, threshold, kept, count);
  return filled<std::uint64_t>(DType::u64, stream, first, threshold, kept, count);
}

}  // namespace

void register_philox(nb::module_& module) {
  module.def("keep_mask", &mask_array, nb::arg("seed"), nb::arg("step"), nb::arg("layer"), nb::arg("first"),
             nb::arg("threshold"), nb::arg("kept"), nb::arg("bytes"), nb::arg("count"));
}

}  // namespace halfulp::bindings
