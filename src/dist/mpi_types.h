// Element types and operations of collectives as MPI's: float16 and bfloat16, which MPI has not, as 16-bit numbers with
// operators of their own.
#pragma once

#include <mpi.h>

#include <bit>
#include <cmath>

#include "base/errors.h"
#include "dist/host_backend.h"

namespace cirrus::dist::mpi {

struct Sum {
  float operator()(float a, float b) const { return a + b; }
};
struct Product {
  float operator()(float a, float b) const { return a * b; }
};
struct Least {
  float operator()(float a, float b) const { return b < a || std::isnan(b) ? b : a; }
};
struct Largest {
  float operator()(float a, float b) const { return b > a || std::isnan(b) ? b : a; }
};

template <class T, class F>
void combine(void* in, void* inout, int* count, MPI_Datatype*) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(inout);
  for (int i = 0; i < *count; ++i) b[i] = static_cast<T>(F()(static_cast<float>(a[i]), static_cast<float>(b[i])));
}

/// Round to nearest even without branches, which compilers vectorize.
template <>
void combine<c10::BFloat16, Sum>(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* a = static_cast<const std::uint16_t*>(in);
  auto* b = static_cast<std::uint16_t*>(inout);
  for (int i = 0; i < *count; ++i) {
    const float sum = std::bit_cast<float>(std::uint32_t{a[i]} << 16) + std::bit_cast<float>(std::uint32_t{b[i]} << 16);
    const auto bits = std::bit_cast<std::uint32_t>(sum);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    b[i] = static_cast<std::uint16_t>(sum == sum ? rounded : 0x7fc0u);
  }
}

template <class T>
MPI_Op operator_of(HostBackend::Reduce op) {
  const auto make = [](MPI_User_function* f) {
    MPI_Op made;
    MPI_Op_create(f, 1, &made);
    return made;
  };
  using Reduce = HostBackend::Reduce;
  static const MPI_Op sum = make(combine<T, Sum>), product = make(combine<T, Product>), least = make(combine<T, Least>),
                      largest = make(combine<T, Largest>);
  switch (op) {
    case Reduce::SUM:
      return sum;
    case Reduce::PRODUCT:
      return product;
    case Reduce::MIN:
      return least;
    case Reduce::MAX:
      return largest;
    default:
      return MPI_OP_NULL;
  }
}

inline MPI_Op plain_operator(HostBackend::Reduce op, bool logical) {
  using Reduce = HostBackend::Reduce;
  switch (op) {
    case Reduce::SUM:
      return logical ? MPI_LOR : MPI_SUM;
    case Reduce::PRODUCT:
      return logical ? MPI_LAND : MPI_PROD;
    case Reduce::MIN:
      return logical ? MPI_LAND : MPI_MIN;
    case Reduce::MAX:
      return logical ? MPI_LOR : MPI_MAX;
    case Reduce::BAND:
      return logical ? MPI_LAND : MPI_BAND;
    case Reduce::BOR:
      return logical ? MPI_LOR : MPI_BOR;
    case Reduce::BXOR:
      return logical ? MPI_LXOR : MPI_BXOR;
    default:
      return MPI_OP_NULL;
  }
}

struct Reduction {
  MPI_Datatype type;
  MPI_Op op;
};

inline Reduction reduction(at::ScalarType type, HostBackend::Reduce op) {
  Reduction r{MPI_DATATYPE_NULL, plain_operator(op, type == at::kBool)};
  switch (type) {
    case at::kDouble:
      r.type = MPI_DOUBLE;
      break;
    case at::kFloat:
      r.type = MPI_FLOAT;
      break;
    case at::kHalf:
      r = {MPI_UINT16_T, operator_of<c10::Half>(op)};
      break;
    case at::kBFloat16:
      r = {MPI_UINT16_T, operator_of<c10::BFloat16>(op)};
      break;
    case at::kLong:
      r.type = MPI_INT64_T;
      break;
    case at::kInt:
      r.type = MPI_INT32_T;
      break;
    case at::kShort:
      r.type = MPI_INT16_T;
      break;
    case at::kChar:
      r.type = MPI_INT8_T;
      break;
    case at::kByte:
      r.type = MPI_UINT8_T;
      break;
    case at::kBool:
      r.type = MPI_C_BOOL;
      break;
    case at::kComplexFloat:
      r.type = MPI_C_FLOAT_COMPLEX;
      break;
    case at::kComplexDouble:
      r.type = MPI_C_DOUBLE_COMPLEX;
      break;
    default:
      break;
  }
  if (r.type == MPI_DATATYPE_NULL || r.op == MPI_OP_NULL)
    throw Error(ExitCode::internal,
                std::string("Ranks cannot combine elements of type ") + c10::toString(type) + " by this operation");
  return r;
}

}  // namespace cirrus::dist::mpi
