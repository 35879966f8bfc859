// The windows of a record for Python.
#include "numpy/pooling.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <new>

namespace halfulp::bindings {
namespace {

void make_windows(WindowParameters* windows, std::string name, std::vector<Index> kernel, std::vector<Index> stride,
                  std::vector<Index> before, std::vector<Index> after, const std::string& padding,
                  std::vector<Index> dilation, bool ceil_mode) {
  new (windows) WindowParameters{std::move(name), std::move(kernel), std::move(stride), std::move(dilation),
                                 std::move(before), std::move(after), padding_mode_from(padding), ceil_mode};
}

}  // namespace

void register_windows(nb::module_& module) {
  nb::class_<WindowParameters>(module, "Windows", "Sliding windows, as a record has them.")
      .def("__init__", &make_windows, nb::arg("name"), nb::arg("kernel"), nb::arg("stride"), nb::arg("before"),
           nb::arg("after"), nb::arg("padding"), nb::arg("dilation"), nb::arg("ceil_mode"));
}

}  // namespace halfulp::bindings
