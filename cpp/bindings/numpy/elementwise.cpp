// Elementwise functions for Python. Every result comes with the elements that are still undecided.
#include "halfulp/elementwise.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "numpy/results.hpp"

namespace halfulp::bindings {
namespace {

// (output, positions, x, t): the last three are of the undecided elements.
nb::tuple apply(const std::string& name, int function, double first, double second, nb::handle input,
                nb::handle tangent, const std::string& what, nb::handle given) {
  if (function < 0 || function >= kFunctionCount) throw nb::index_error("elementwise: no such function");
  const InputArray x = take_float_input(input, name.c_str(), "input");
  const bool with_t = !tangent.is_none();
  InputArray t;
  if (with_t) {
    const char* label = what == "cotangent" ? "I5" : "I4";
    t = take_matching(tangent, name.c_str(), what.c_str(), x.view.shape, x.view.dtype, label);
  }
  const OutputArray out = new_output(x.view.shape, x.view.dtype, x.view, given);
  const Elementwise op{static_cast<Function>(function), {first, second}};
  const ElementwiseRest rest =
      run_kernels([&] { return elementwise(op, x.view, with_t ? &t.view : nullptr, out.view); });
  return nb::make_tuple(out.owner, as_array(rest.positions), as_array(rest.x), as_array(rest.t));
}

}  // namespace

void register_elementwise(nb::module_& module) {
  module.def("elementwise", &apply, nb::arg("name"), nb::arg("function"), nb::arg("first"), nb::arg("second"),
             nb::arg("x"), nb::arg("t") = nb::none(), nb::arg("what") = "tangent", nb::arg("out") = nb::none());
}

}  // namespace halfulp::bindings
