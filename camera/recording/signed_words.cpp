// SPDX-License-Identifier: MIT
#include <utility>
#include <vector>

#include "camera/recording/stack_formats.hpp"

namespace driftd::camera {
namespace {

StackShape as_floats(StackShape shape) {
  shape.type = PixelType::F32;
  return shape;
}

StackFacts with_sign(StackFacts facts) {
  facts.from_int16 = true;
  return facts;
}

class SignedStack final : public ImageStack {
 public:
  SignedStack(std::unique_ptr<ImageStack> words, std::uint16_t zero)
      : ImageStack(as_floats(words->shape()), with_sign(words->facts())),
        words_(std::move(words)),
        zero_(zero) {}

  void read(std::int64_t first, std::int64_t count, std::byte* out) override {
    auto* pixels = reinterpret_cast<float*>(out);
    buffer_.resize(shape().pixels());
    for (std::int64_t frame = first; frame < first + count; ++frame) {
      words_->read(frame, 1, reinterpret_cast<std::byte*>(buffer_.data()));
      for (const std::uint16_t word : buffer_) {
        *pixels++ = static_cast<float>(static_cast<std::int16_t>(word ^ zero_));
      }
    }
  }
  std::string metadata(std::int64_t frame) override { return words_->metadata(frame); }
  bool reads_beside_others() const noexcept override { return words_->reads_beside_others(); }

 private:
  std::unique_ptr<ImageStack> words_;
  std::uint16_t zero_;
  std::vector<std::uint16_t> buffer_;
};

}  // namespace

std::unique_ptr<ImageStack> open_signed_words(std::unique_ptr<ImageStack> words,
                                              std::uint16_t zero) {
  return std::make_unique<SignedStack>(std::move(words), zero);
}

}  // namespace driftd::camera
