// device_loss.cpp: the witnesses of this process.
#include "core/device_loss.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

namespace attacca::core {

namespace {

struct Witnesses {
  std::mutex mutex;  // held while one is asked, so that it does not go meanwhile
  std::vector<LossWitness*> all;
};
Witnesses& witnesses() {
  static Witnesses only;
  return only;
}

}  // namespace

LossWitness::LossWitness(std::function<void(const DeviceLoss&)> explain)
    : explain_(std::move(explain)) {
  const std::lock_guard lock(witnesses().mutex);
  witnesses().all.push_back(this);
}

LossWitness::~LossWitness() {
  const std::lock_guard lock(witnesses().mutex);
  std::erase(witnesses().all, this);
}

void ask_witnesses(const DeviceLoss& loss) {
  const std::lock_guard lock(witnesses().mutex);
  for (const LossWitness* witness : witnesses().all) witness->explain_(loss);
}

}  // namespace attacca::core
