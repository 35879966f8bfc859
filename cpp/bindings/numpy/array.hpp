// NumPy arrays as views of the core. The only file that includes NumPy's headers is array.cpp.
#pragma once

#include <nanobind/nanobind.h>

#include "halfulp/array.hpp"

namespace halfulp::bindings {

namespace nb = nanobind;

// An input: a view, and the reference that keeps its memory alive. Arrays that are misaligned or of foreign byte order
// are converted; every other layout, read-only memory included, is viewed as it is.
struct InputArray {
  nb::object owner;
  ArrayView view;
};

// Throws Error I1 if `operator_name` cannot take the element type; `what` is the argument's name.
InputArray take_input(nb::handle array, const char* operator_name, const char* what);

// As take_input, for floats only: integers are an Error I1 with this rule, or one that names astype.
InputArray take_float_input(nb::handle array, const char* operator_name, const char* what,
                            const char* rule = nullptr);

// A tangent or cotangent: throws Error `label` (I4 or I5) unless shape and dtype are those given.
InputArray take_matching(nb::handle array, const char* operator_name, const char* what, const Sizes& shape, DType dtype,
                         const char* label);

struct OutputArray {
  nb::object owner;
  ArrayView view;
};

// A new uninitialised array. Where `like` is dense under some order of its axes (C-contiguous, channels-last), the
// output has that order; else it is C-contiguous. `like` and `shape` have the same rank. Where `out` is an array of
// just this shape, type and layout, it is the output; else it is left alone.
OutputArray new_output(const Sizes& shape, DType dtype, const ArrayView& like, nb::handle out = {});
OutputArray new_output(const Sizes& shape, DType dtype, nb::handle out = {});

// Fills NumPy's function table; call once when the module is imported.
void import_numpy();

}  // namespace halfulp::bindings
