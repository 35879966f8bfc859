// Registers the Python module; every operator's bindings stand in their own file.
#include <nanobind/nanobind.h>

NB_MODULE(_core, module) { module.doc() = "The compiled core of halfulp."; }
