// attacca.hpp: the whole library except nested launches, which need their own target.
#pragma once

#include <attacca/accesses.hpp>
#include <attacca/adopt.hpp>
#include <attacca/capture.hpp>
#include <attacca/cuda_kernel.hpp>
#include <attacca/device.hpp>
#include <attacca/error.hpp>
#include <attacca/exec.hpp>
#include <attacca/graph.hpp>
#include <attacca/kernel.hpp>
#include <attacca/l2.hpp>
#include <attacca/loop.hpp>
#include <attacca/mark.hpp>
#include <attacca/memory.hpp>
#include <attacca/nccl.hpp>
#include <attacca/nvshmem.hpp>
#include <attacca/occupancy.hpp>
#include <attacca/overlap.hpp>
#include <attacca/ranks.hpp>
#include <attacca/resident.hpp>
#include <attacca/roofline.hpp>
#include <attacca/switch_loop.hpp>
#include <attacca/timeline.hpp>
#include <attacca/trace.hpp>
#include <attacca/version.hpp>
#include <attacca/workers.hpp>
