// Tables of kernels: every file in src/<family>/kernels/ is compiled once for each instruction set, into the namespace
// HALFULP_ISA_NAMESPACE (isa_baseline, isa_avx2, isa_avx512), and one of them is chosen at run time.
//
// A kernel file offers a table of function pointers through a function `const Table& name()` in its namespace;
//   HALFULP_KERNEL_TABLE(Table, name)
// declares it for every instruction set and defines `halfulp::select_name()`, which returns the current one.
//
// Everything in such a file must live in HALFULP_ISA_NAMESPACE: an inline function shared between instruction sets
// could be merged by the linker into the copy that the processor lacks.
#pragma once

#include "halfulp/isa.hpp"

#ifdef HALFULP_X86_DISPATCH
#define HALFULP_KERNEL_TABLE(Table, name)                     \
  namespace isa_baseline { const Table& name(); }             \
  namespace isa_avx2 { const Table& name(); }                 \
  namespace isa_avx512 { const Table& name(); }               \
  inline const Table& select_##name() {                       \
    switch (::halfulp::current_isa()) {                       \
      case ::halfulp::Isa::avx512: return isa_avx512::name(); \
      case ::halfulp::Isa::avx2: return isa_avx2::name();     \
      default: return isa_baseline::name();                   \
    }                                                         \
  }
#else
#define HALFULP_KERNEL_TABLE(Table, name)         \
  namespace isa_baseline { const Table& name(); } \
  inline const Table& select_##name() { return isa_baseline::name(); }
#endif
