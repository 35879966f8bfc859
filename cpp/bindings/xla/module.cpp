// XLA's foreign functions for Python: the targets as capsules, and the handler that calls back into Python.
#include <nanobind/nanobind.h>

#include <stdexcept>
#include <string>

#include "bindings.hpp"
#include "xla/call.hpp"
#include "xla/handlers.hpp"

namespace halfulp::bindings {
namespace {

namespace nb = nanobind;

// Lives as long as the process: XLA may call at any time.
PyObject* host = nullptr;

nb::object memory_of(const xla::Buffer& buffer, int flags) {
  const ArrayView view = xla::view_of(buffer);
  const Index bytes = view.count() * static_cast<Index>(item_size(view.dtype));
  static char nothing = 0;  // XLA may give no address to an array without elements
  char* data = bytes == 0 ? &nothing : view.data;
  nb::object memory = nb::steal(PyMemoryView_FromMemory(data, static_cast<Py_ssize_t>(bytes), flags));
  if (!memory.is_valid()) throw nb::python_error();
  nb::list shape;
  for (const Index size : view.shape) shape.append(size);
  return nb::make_tuple(memory, nb::str(name_of(view.dtype)), nb::tuple(shape));
}

void call_host(const xla::Call& call) {
  if (host == nullptr) throw std::runtime_error("halfulp: no function is set for calls from XLA");
  nb::gil_scoped_acquire acquire;
  try {
    nb::list arguments, results;
    for (int i = 0; i < call.argument_count(); ++i) arguments.append(memory_of(call.argument(i), PyBUF_READ));
    for (int i = 0; i < call.result_count(); ++i) results.append(memory_of(call.result(i), PyBUF_WRITE));
    const std::string_view record = call.text("record");
    const std::string_view work = call.text("work");
    const nb::handle function(host);
    function(nb::str(work.data(), work.size()), nb::str(record.data(), record.size()), arguments, results);
  } catch (nb::python_error& problem) {
    // The message must outlive the exception, and the exception must be freed while Python is locked.
    const std::string message = nb::str(problem.value()).c_str();
    throw std::runtime_error(message);
  }
}

nb::capsule target(xla::Handler handler) { return nb::capsule(reinterpret_cast<void*>(handler)); }

nb::dict targets() {
  nb::dict found;
  found["halfulp_max_forward"] = target(xla::max_forward_handler);
  found["halfulp_max_jvp"] = target(xla::max_jvp_handler);
  found["halfulp_max_vjp"] = target(xla::max_vjp_handler);
  found["halfulp_avg_forward"] = target(xla::avg_forward_handler);
  found["halfulp_avg_spread"] = target(xla::avg_spread_handler);
  found["halfulp_host"] = target(xla::host_handler);
  return found;
}

void set_host(nb::object function) {
  PyObject* previous = host;
  host = function.release().ptr();
  Py_XDECREF(previous);
}

}  // namespace

void register_xla(nb::module_& module) {
  module.def("xla_targets", &targets, nb::sig("def xla_targets() -> dict[str, object]"),
             "Name -> capsule of every function that XLA can call.");
  module.def("set_xla_host", &set_host, nb::arg("function"), "Set the function that the target halfulp_host calls.");
}

}  // namespace halfulp::bindings

namespace halfulp::xla {

void run_host(const Call& call) { bindings::call_host(call); }

Error* host_handler(CallFrame* frame) { return guarded(frame, run_host); }

}  // namespace halfulp::xla
