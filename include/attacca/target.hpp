// target.hpp: the macros that mark code for host and device, and which compiler reads it.
#pragma once

#if defined(__CUDACC__)
#define ATTACCA_HD __host__ __device__
#define ATTACCA_DEVICE __device__
#define ATTACCA_NOINLINE __noinline__
#else
#define ATTACCA_HD
#define ATTACCA_DEVICE
#define ATTACCA_NOINLINE
#endif

namespace attacca {

/// Whether this translation unit is compiled by nvcc. A template parameter of everything whose
/// meaning depends on it, so that a g++ unit and an nvcc unit never share a definition.
#if defined(__CUDACC__)
inline constexpr bool kCompilesCuda = true;
#else
inline constexpr bool kCompilesCuda = false;
#endif

}  // namespace attacca
