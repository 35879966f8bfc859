// The core's Error becomes the Python exception of its kind, with operator, argument, rule and label as attributes.
#include "halfulp/error.hpp"

#include "bindings.hpp"

namespace halfulp::bindings {
namespace {

namespace nb = nanobind;

const char* class_name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::dtype: return "DTypeError";
    case ErrorKind::policy: return "PolicyError";
    default: return "ShapeError";
  }
}

void raise(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    nb::object type = nb::module_::import_("halfulp.errors").attr(class_name(error.kind));
    nb::object value =
        type(error.operator_name.c_str(), error.argument.c_str(), error.rule.c_str(), error.label.c_str());
    PyErr_SetObject(type.ptr(), value.ptr());
  }
}

}  // namespace

void register_errors(nb::module_&) { nb::register_exception_translator(raise, nullptr); }

}  // namespace halfulp::bindings
