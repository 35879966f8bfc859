// Kernels for rows that do not fill the widest vectors: those of a narrower instruction set.
#pragma once

#include <cstdint>

#include "base/kernel_table.hpp"

// After HALFULP_KERNEL_TABLE: defines `halfulp::select_name(bytes)` for rows of so many bytes.
#ifdef HALFULP_X86_DISPATCH
#define HALFULP_NARROWER_KERNELS(Table, name)                                          \
  inline const Table& select_##name(std::int64_t bytes) {                              \
    const bool wide = ::halfulp::current_isa() == ::halfulp::Isa::avx512;              \
    return wide && bytes < 64 ? isa_avx2::name() : select_##name();                    \
  }
#else
#define HALFULP_NARROWER_KERNELS(Table, name) \
  inline const Table& select_##name(std::int64_t) { return select_##name(); }
#endif
