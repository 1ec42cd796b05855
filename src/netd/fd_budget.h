// FdBudget: how many descriptors all loops of the process may still open. Who does not get its share refuses,
// so that the table of descriptors is never full. Safe from any thread.
#pragma once

#include <atomic>
#include <memory>

namespace space::netd {

class FdBudget {
 public:
  explicit FdBudget(int total) : left_(total) {}

  // Gives its descriptors back when it goes. Empty: there were not enough.
  class Share {
   public:
    Share() = default;
    Share(FdBudget& budget, int count) : budget_(&budget), count_(count) {}
    Share(Share&& other) noexcept : budget_(std::exchange(other.budget_, nullptr)), count_(other.count_) {}
    Share& operator=(Share&& other) noexcept {
      if (this != &other) {
        release();
        budget_ = std::exchange(other.budget_, nullptr);
        count_ = other.count_;
      }
      return *this;
    }
    ~Share() { release(); }
    explicit operator bool() const { return budget_ != nullptr; }

   private:
    void release() {
      if (budget_ != nullptr) budget_->left_ += count_;
      budget_ = nullptr;
    }
    FdBudget* budget_ = nullptr;
    int count_ = 0;
  };

  Share take(int count) {
    if (left_.fetch_sub(count) >= count) return {*this, count};
    left_ += count;
    return {};
  }
  int left() const { return left_; }

 private:
  std::atomic<int> left_;
};

}  // namespace space::netd
