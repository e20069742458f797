#pragma once

#include "support/fake_device.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace godwit::transport::testing {

/// A copier that has its copies made by a fake one, which the test holds; for what single tests want to be otherwise.
class copier_beside : public protocols::memory_copier {
public:
  using region = protocols::memory_region;
  using urgency = protocols::copy_urgency;

  explicit copier_beside(std::shared_ptr<godwit::testing::fake_copier> other) : other_(std::move(other)) {}
  [[nodiscard]] std::string name() const override { return other_->name(); }
  [[nodiscard]] std::shared_ptr<std::byte> allocate_pinned(std::size_t bytes) override {
    return other_->allocate_pinned(bytes);
  }
  void gather(std::vector<region> from, region into, urgency how, completion done) override {
    other_->gather(std::move(from), into, how, std::move(done));
  }
  void scatter(region from, std::vector<region> into, urgency how, completion done) override {
    other_->scatter(from, std::move(into), how, std::move(done));
  }
  void copy(std::vector<region> from, std::vector<region> into, urgency how, completion done) override {
    other_->copy(std::move(from), std::move(into), how, std::move(done));
  }

protected:
  const std::shared_ptr<godwit::testing::fake_copier> other_;
};

} // namespace godwit::transport::testing
