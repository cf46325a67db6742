// attacca.hpp: the whole library, but for nested launches, which need their own target.
#pragma once

#include <attacca/capture.hpp>
#include <attacca/device.hpp>
#include <attacca/error.hpp>
#include <attacca/exec.hpp>
#include <attacca/graph.hpp>
#include <attacca/kernel.hpp>
#include <attacca/loop.hpp>
#include <attacca/memory.hpp>
#include <attacca/timeline.hpp>
#include <attacca/version.hpp>
