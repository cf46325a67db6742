// library_headers.cpp: compiles only if what attacca declares of NCCL and NVSHMEM, which it opens
// when a program runs, is what their own headers declare.
#include <nccl.h>
#include <nvshmem_host.h>

#include <cstddef>
#include <type_traits>

#include "comm/nccl/library.hpp"
#include "comm/nvshmem/library.hpp"

namespace attacca::comm {

/// Whether two types have the same calling convention as parameters: pointers and enumerations are
/// declared with other types here.
template <class Own, class Theirs>
constexpr bool kPassAlike =
    std::is_pointer_v<Own> == std::is_pointer_v<Theirs> && sizeof(Own) == sizeof(Theirs) &&
    std::is_floating_point_v<Own> == std::is_floating_point_v<Theirs>&& std::is_class_v<Own> ==
        std::is_class_v<Theirs>;

template <class Own, class Theirs>
constexpr bool kCallAlike = false;
template <class A, class B, class... As, class... Bs>
requires(sizeof...(As) == sizeof...(Bs)) constexpr bool kCallAlike<A (*)(As...), B(Bs...)> =
    (kPassAlike<As, Bs> && ...) && std::is_void_v<A> == std::is_void_v<B>;

static_assert(kCallAlike<decltype(NcclLibrary::get_version), decltype(ncclGetVersion)>);
static_assert(kCallAlike<decltype(NcclLibrary::get_unique_id), decltype(ncclGetUniqueId)>);
static_assert(kCallAlike<decltype(NcclLibrary::init_rank), decltype(ncclCommInitRank)>);
static_assert(kCallAlike<decltype(NcclLibrary::destroy), decltype(ncclCommDestroy)>);
static_assert(kCallAlike<decltype(NcclLibrary::abort), decltype(ncclCommAbort)>);
static_assert(kCallAlike<decltype(NcclLibrary::all_reduce), decltype(ncclAllReduce)>);
static_assert(kCallAlike<decltype(NcclLibrary::broadcast), decltype(ncclBroadcast)>);
static_assert(kCallAlike<decltype(NcclLibrary::all_gather), decltype(ncclAllGather)>);
static_assert(kCallAlike<decltype(NcclLibrary::reduce_scatter), decltype(ncclReduceScatter)>);
static_assert(kCallAlike<decltype(NcclLibrary::send), decltype(ncclSend)>);
static_assert(kCallAlike<decltype(NcclLibrary::receive), decltype(ncclRecv)>);
static_assert(kCallAlike<decltype(NcclLibrary::error_text), decltype(ncclGetErrorString)>);
static_assert(kCallAlike<decltype(NcclLibrary::last_error), decltype(ncclGetLastError)>);
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId) && ncclSuccess == 0);
static_assert(static_cast<int>(NcclType::u8) == ncclUint8);
static_assert(static_cast<int>(NcclType::i32) == ncclInt32);
static_assert(static_cast<int>(NcclType::u32) == ncclUint32);
static_assert(static_cast<int>(NcclType::i64) == ncclInt64);
static_assert(static_cast<int>(NcclType::u64) == ncclUint64);
static_assert(static_cast<int>(NcclType::f32) == ncclFloat32);
static_assert(static_cast<int>(NcclType::f64) == ncclFloat64);
static_assert(static_cast<int>(NcclReduction::sum) == ncclSum);
static_assert(static_cast<int>(NcclReduction::max) == ncclMax);
static_assert(static_cast<int>(NcclReduction::min) == ncclMin);

static_assert(
    kCallAlike<decltype(NvshmemLibrary::get_version), decltype(nvshmemx_vendor_get_version_info)>);
static_assert(kCallAlike<decltype(NvshmemLibrary::get_unique_id), decltype(nvshmemx_get_uniqueid)>);
static_assert(
    kCallAlike<decltype(NvshmemLibrary::set_id), decltype(nvshmemx_set_attr_uniqueid_args)>);
static_assert(kCallAlike<decltype(NvshmemLibrary::init), decltype(nvshmemx_hostlib_init_attr)>);
static_assert(kCallAlike<decltype(NvshmemLibrary::finalize), decltype(nvshmemx_hostlib_finalize)>);
static_assert(kCallAlike<decltype(NvshmemLibrary::allocate), decltype(nvshmem_malloc)>);
static_assert(kCallAlike<decltype(NvshmemLibrary::address_of), decltype(nvshmem_ptr)>);
static_assert(kNvshmemInitWithId == NVSHMEMX_INIT_WITH_UNIQUEID);
static_assert(sizeof(NvshmemId) == sizeof(nvshmemx_uniqueid_v1));
static_assert(sizeof(NvshmemAttributes) == sizeof(nvshmemx_init_attr_v1));
static_assert(offsetof(NvshmemAttributes, mpi_comm) == offsetof(nvshmemx_init_attr_v1, mpi_comm));
static_assert(offsetof(NvshmemAttributes, id) ==
              offsetof(nvshmemx_init_attr_v1, args) + offsetof(nvshmemx_init_args_v1, uid_args));
static_assert(sizeof(NvshmemAttributes::id) == sizeof(nvshmemx_uniqueid_args_v1));

}  // namespace attacca::comm
