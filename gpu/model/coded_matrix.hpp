#pragma once

#include <godwit/gpu/model/weights.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace godwit::gpu::model {

/// What a code of a matrix is. It means (code - zero) * scale + offset.
enum class coding : std::uint8_t {
  int4, ///< 0 to 15
  int8, ///< -128 to 127
  e4m3, ///< a float of 8 bits, the largest of which is 448
  fp4   ///< a float of 4 bits (E2M1), counted in halves: `halves_of_fp4`
};

/// What the floats of four bits are, in halves, so that all are whole: 0, 1/2, 1, 3/2, 2, 3, 4, 6, and those below 0.
inline constexpr std::array<std::int8_t, 16> halves_of_fp4{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// A float of 8 bits: sign, four bits of exponent, three of mantissa. Neither infinities nor, here, anything that is no
/// number: weights have none.
[[nodiscard]] float widen_e4m3(std::uint8_t code) noexcept;

/// A matrix [rows][columns] that is kept in fewer bits than its values have. Immutable; valid while the files are that
/// it reads from.
class coded_matrix {
public:
  struct unit {
    float scale = 0;
    std::int32_t zero = 0;
    float offset = 0; ///< where there are such, zeros are 0
  };
  struct shape {
    coding kind = coding::int8;
    std::uint64_t rows = 0, columns = 0;
    std::uint64_t group = 0; ///< columns that share a unit, from its multiples on; 0: each may have its own
    bool zeros = false;      ///< some may not be 0
    bool offsets = false;    ///< likewise
    /// What meets it is rounded to eight bits, and multiplied with the codes, as llama.cpp does. Where there are zeros,
    /// they are 8.
    bool by_sums_of_codes = false;
    std::uint32_t format = 0; ///< the file's number for how its bytes are to be read, where it has several
  };
  explicit coded_matrix(shape of) : shape_(of) {}
  coded_matrix(const coded_matrix&) = delete;
  coded_matrix& operator=(const coded_matrix&) = delete;
  virtual ~coded_matrix() = default;

  [[nodiscard]] const shape& dimensions() const noexcept { return shape_; }
  /// Of a row from column `first` on; int8 in two's complement.
  virtual void codes(std::uint64_t row, std::uint64_t first, std::span<std::uint8_t> out) const = 0;
  [[nodiscard]] virtual unit unit_of(std::uint64_t row, std::uint64_t column) const = 0;
  /// What it is made of, for fingerprints.
  [[nodiscard]] virtual std::vector<std::span<const std::byte>> sources() const = 0;

  /// What the codes mean: products in f32, rounded to nothing else; with an offset rounded once, after it is added.
  void values(std::uint64_t row, std::uint64_t first, std::span<float> out) const;

private:
  shape shape_;
};

/// Some rows of another matrix, which outlives this one.
class coded_rows final : public coded_matrix {
public:
  coded_rows(const coded_matrix& whole, std::uint64_t first, std::uint64_t count);
  void codes(std::uint64_t row, std::uint64_t first, std::span<std::uint8_t> out) const override;
  [[nodiscard]] unit unit_of(std::uint64_t row, std::uint64_t column) const override;
  [[nodiscard]] std::vector<std::span<const std::byte>> sources() const override { return whole_.sources(); }

private:
  const coded_matrix& whole_;
  std::uint64_t first_;
};

/// "int4", "int8", "fp8", "fp4".
[[nodiscard]] std::string to_string(coding kind);

} // namespace godwit::gpu::model
