#include "numpy/array.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "halfulp/error.hpp"
#include "halfulp/geometry.hpp"
#include "halfulp/memory_pool.hpp"

#define NPY_NO_DEPRECATED_API NPY_1_22_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <numpy/arrayobject.h>

namespace halfulp::bindings {
namespace {

constexpr int kNumPyTypes[kDTypeCount] = {NPY_HALF,   -1,         NPY_FLOAT, NPY_DOUBLE, NPY_INT8,
                                          NPY_INT16,  NPY_INT32,  NPY_INT64, NPY_UINT8,  NPY_UINT16,
                                          NPY_UINT32, NPY_UINT64, NPY_BOOL};

// bfloat16 is a type that ml_dtypes registers; this is its number in this process.
int bfloat16_type = -1;
PyArray_Descr* bfloat16_descr = nullptr;

[[noreturn]] void fail() { throw nb::python_error(); }

bool dtype_from_number(int number, DType& dtype) noexcept {
  switch (number) {
    case NPY_HALF: dtype = DType::f16; return true;
    case NPY_FLOAT: dtype = DType::f32; return true;
    case NPY_DOUBLE: dtype = DType::f64; return true;
    case NPY_BOOL: dtype = DType::boolean; return true;
    default: break;
  }
  if (number == bfloat16_type) {
    dtype = DType::bf16;
    return true;
  }
  // Integer types by size and signedness: C's int, long and long long are different numbers of the same type.
  constexpr DType signed_types[] = {DType::i8, DType::i16, DType::i32, DType::i64};
  constexpr DType unsigned_types[] = {DType::u8, DType::u16, DType::u32, DType::u64};
  std::size_t size = 0;
  switch (number) {
    case NPY_BYTE: case NPY_UBYTE: size = 0; break;
    case NPY_SHORT: case NPY_USHORT: size = 1; break;
    case NPY_INT: case NPY_UINT: size = 2; break;
    case NPY_LONG: case NPY_ULONG: size = sizeof(long) == 8 ? 3 : 2; break;
    case NPY_LONGLONG: case NPY_ULONGLONG: size = 3; break;
    default: return false;
  }
  dtype = PyTypeNum_ISUNSIGNED(number) ? unsigned_types[size] : signed_types[size];
  return true;
}

PyArray_Descr* descr_of(DType dtype) {
  if (dtype == DType::bf16) {
    Py_INCREF(bfloat16_descr);
    return bfloat16_descr;
  }
  return PyArray_DescrFromType(kNumPyTypes[static_cast<int>(dtype)]);
}

std::string dtype_text(PyArrayObject* array) {
  return nb::str(nb::handle(reinterpret_cast<PyObject*>(PyArray_DESCR(array)))).c_str();
}

nb::object native_copy(PyArrayObject* array) {
  PyArray_Descr* native = PyArray_DescrNewByteorder(PyArray_DESCR(array), NPY_NATIVE);
  if (native == nullptr) fail();
  PyObject* copy = PyArray_FromArray(array, native, NPY_ARRAY_ALIGNED | NPY_ARRAY_FORCECAST | NPY_ARRAY_ENSURECOPY);
  if (copy == nullptr) fail();
  return nb::steal(copy);
}

void fill_view(PyArrayObject* array, DType dtype, ArrayView& view) noexcept {
  view.data = PyArray_BYTES(array);
  view.dtype = dtype;
  const int ndim = PyArray_NDIM(array);
  const npy_intp* shape = PyArray_DIMS(array);
  const npy_intp* strides = PyArray_STRIDES(array);
  for (int i = 0; i < ndim; ++i) {
    view.shape.push_back(shape[i]);
    view.strides.push_back(strides[i]);
  }
}

// The axes from outermost to innermost in memory if the array is dense under that order; false if it is not.
bool dense_order(const ArrayView& view, int order[kMaxRank]) noexcept {
  const int ndim = view.ndim();
  bool in_order = true;
  Index expected = static_cast<Index>(item_size(view.dtype));
  for (int i = ndim - 1; i >= 0; --i) {
    order[i] = i;
    if (view.shape[i] != 1 && view.strides[i] != expected) in_order = false;
    expected *= view.shape[i];
  }
  if (in_order) return true;
  for (int i = 0; i < ndim; ++i)
    if (view.strides[i] <= 0 && view.shape[i] != 1) return false;
  std::stable_sort(order, order + ndim, [&](int a, int b) { return view.strides[a] > view.strides[b]; });
  expected = static_cast<Index>(item_size(view.dtype));
  for (int i = ndim - 1; i >= 0; --i) {
    if (view.shape[order[i]] == 1) continue;
    if (view.strides[order[i]] != expected) return false;
    expected *= view.shape[order[i]];
  }
  return true;
}

// NumPy's way to say where an array's memory comes from; the array owns it and gives it back to the same position.
void* pool_malloc(void*, std::size_t size) { return memory_pool::take(size); }
void* pool_calloc(void*, std::size_t count, std::size_t size) {
  void* block = memory_pool::take(count * size);
  return block == nullptr ? nullptr : std::memset(block, 0, count * size);
}
void pool_free(void*, void* block, std::size_t) { memory_pool::give(block); }
void* pool_realloc(void*, void* block, std::size_t size) {
  void* larger = memory_pool::take(size);
  if (larger == nullptr || block == nullptr) return larger;
  std::memcpy(larger, block, std::min(size, memory_pool::size_of(block)));
  memory_pool::give(block);
  return larger;
}
PyDataMem_Handler pool_handler = {
    "halfulp_pool", 1, {nullptr, pool_malloc, pool_calloc, pool_realloc, pool_free}};
PyObject* pool_handler_capsule = nullptr;

// While it lives, new arrays of this thread take their memory from the pool.
class FromPool {
 public:
  FromPool() : before_(PyDataMem_SetHandler(pool_handler_capsule)) {
    if (before_ == nullptr) fail();
  }
  ~FromPool() {
    Py_XDECREF(PyDataMem_SetHandler(before_));
    Py_DECREF(before_);
  }
  FromPool(const FromPool&) = delete;
  FromPool& operator=(const FromPool&) = delete;

 private:
  PyObject* before_;
};

PyObject* new_array(DType dtype, int ndim, npy_intp* dims, npy_intp* strides) {
  return PyArray_NewFromDescr(&PyArray_Type, descr_of(dtype), ndim, dims, strides, nullptr, 0, nullptr);
}

// Whether memory of this shape and these strides can be taken from an array as it lies.
bool fits(nb::handle out, DType dtype, int ndim, const npy_intp* dims, const npy_intp* strides) noexcept {
  if (!out.is_valid() || !PyArray_Check(out.ptr())) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(out.ptr());
  DType own{};
  if (!dtype_from_number(PyArray_TYPE(array), own) || own != dtype || !PyArray_ISBEHAVED(array)) return false;
  if (PyArray_NDIM(array) != ndim || !std::equal(dims, dims + ndim, PyArray_DIMS(array))) return false;
  for (int i = 0; i < ndim; ++i)
    if (dims[i] != 1 && PyArray_STRIDES(array)[i] != strides[i]) return false;
  return true;
}

OutputArray make_output(const Sizes& shape, DType dtype, const int* order, nb::handle out) {
  const int ndim = shape.size();
  npy_intp dims[kMaxRank], strides[kMaxRank];
  npy_intp stride = static_cast<npy_intp>(item_size(dtype));
  for (int i = ndim - 1; i >= 0; --i) {
    const int axis = order == nullptr ? i : order[i];
    dims[axis] = static_cast<npy_intp>(shape[axis]);
    strides[axis] = stride;
    stride *= std::max<npy_intp>(1, dims[axis]);
  }
  if (fits(out, dtype, ndim, dims, strides)) {
    OutputArray output{nb::borrow(out), {}};
    output.view.data = PyArray_BYTES(reinterpret_cast<PyArrayObject*>(out.ptr()));
    output.view.dtype = dtype;
    for (int i = 0; i < ndim; ++i) {
      output.view.shape.push_back(dims[i]);
      output.view.strides.push_back(strides[i]);
    }
    return output;
  }
  PyObject* array = nullptr;
  if (static_cast<std::size_t>(stride) >= memory_pool::kSmallest) {
    const FromPool scope;
    array = new_array(dtype, ndim, dims, strides);
  } else {
    array = new_array(dtype, ndim, dims, strides);
  }
  if (array == nullptr) fail();
  OutputArray output{nb::steal(array), {}};
  fill_view(reinterpret_cast<PyArrayObject*>(array), dtype, output.view);
  return output;
}

}  // namespace

void import_numpy() {
  if (_import_array() < 0) fail();
  nb::object type = nb::module_::import_("ml_dtypes").attr("bfloat16");
  PyArray_Descr* descr = nullptr;
  if (PyArray_DescrConverter(type.ptr(), &descr) != NPY_SUCCEED) fail();
  bfloat16_descr = descr;
  bfloat16_type = descr->type_num;
  pool_handler_capsule = PyCapsule_New(&pool_handler, "mem_handler", nullptr);
  if (pool_handler_capsule == nullptr) fail();
}

namespace {

InputArray take(nb::handle object, const char* operator_name, const char* what, const char* accepted) {
  InputArray input;
  if (PyArray_Check(object.ptr())) {
    input.owner = nb::borrow(object);
  } else {
    PyObject* array = PyArray_FROM_O(object.ptr());
    if (array == nullptr) fail();
    input.owner = nb::steal(array);
  }
  auto* array = reinterpret_cast<PyArrayObject*>(input.owner.ptr());
  DType dtype{};
  if (!dtype_from_number(PyArray_TYPE(array), dtype))
    throw Error(ErrorKind::dtype, operator_name, std::string(what) + " dtype=" + dtype_text(array), accepted,
                "I1");
  if (!PyArray_ISNOTSWAPPED(array) || !PyArray_ISALIGNED(array)) {
    input.owner = native_copy(array);
    array = reinterpret_cast<PyArrayObject*>(input.owner.ptr());
  }
  fill_view(array, dtype, input.view);
  return input;
}

}  // namespace

InputArray take_input(nb::handle object, const char* operator_name, const char* what) {
  return take(object, operator_name, what, "must be float16, bfloat16, float32, float64, an integer type or bool");
}

InputArray take_float_input(nb::handle object, const char* operator_name, const char* what, const char* rule) {
  InputArray input = take(object, operator_name, what, "must be float16, bfloat16, float32 or float64");
  if (!is_float(input.view.dtype))
    throw Error(ErrorKind::dtype, operator_name, std::string(what) + " dtype=" + name_of(input.view.dtype),
                rule != nullptr
                    ? rule
                    : "must be float16, bfloat16, float32 or float64; convert with astype, such as "
                      "x.astype(numpy.float32)",
                "I1");
  return input;
}

InputArray take_matching(nb::handle object, const char* operator_name, const char* what, const Sizes& shape,
                         DType dtype, const char* label) {
  InputArray input;
  try {
    input = take_input(object, operator_name, what);
  } catch (const Error& error) {
    throw Error(ErrorKind::dtype, operator_name, error.argument, std::string("must be ") + name_of(dtype), label);
  }
  if (input.view.dtype != dtype)
    throw Error(ErrorKind::dtype, operator_name, std::string(what) + " dtype=" + name_of(input.view.dtype),
                std::string("must be ") + name_of(dtype), label);
  if (!(input.view.shape == shape))
    throw Error(ErrorKind::shape, operator_name, std::string(what) + " shape=" + tuple_text(input.view.shape.span()),
                "must be " + tuple_text(shape.span()), label);
  return input;
}

OutputArray new_output(const Sizes& shape, DType dtype, const ArrayView& like, nb::handle out) {
  int order[kMaxRank];
  return make_output(shape, dtype, dense_order(like, order) ? order : nullptr, out);
}

OutputArray new_output(const Sizes& shape, DType dtype, nb::handle out) {
  return make_output(shape, dtype, nullptr, out);
}

}  // namespace halfulp::bindings
