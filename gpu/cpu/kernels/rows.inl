// Row-wise kernels: norm, SwiGLU and its like, residuals. Included inside an unnamed namespace after arithmetic.inl.

template <class Values> void norm_rows(const norm_job& job) {
  auto* out = static_cast<typename Values::element*>(job.out);
  for (std::uint32_t row = job.first; row < job.last; ++row) {
    const float* x = job.x + row * job.x_stride;
    const vec scale = set1(inverse_rms(x, job.hidden, job.width, job.epsilon));
    for (std::uint32_t i = 0; i < job.width; i += 16)
      Values::put(out + packed_index(row, i, job.rows, job.width), mul(mul(load(x + i), scale), load(job.weight + i)));
  }
}

struct silu_gate {
  static GODWIT_INLINE vec of(vec x, vec up, const swiglu_job&) {
    return mul(div(x, add(set1(1.0F), exponential(sub(zero(), x)))), up);
  }
};
struct gelu_gate {
  static GODWIT_INLINE vec of(vec x, vec up, const swiglu_job&) {
    // -2 sqrt(2 / pi), and that times 0.044715
    const vec power = mul(x, fma(mul(x, x), set1(-0.0713548162726009F), set1(-1.5957691216057308F)));
    return mul(div(x, add(set1(1.0F), exponential(power))), up);
  }
};
struct clamped_gate {
  static GODWIT_INLINE vec of(vec x, vec up, const swiglu_job& job) {
    // In this order what is no number stays so.
    const vec gate = min(set1(job.limit), x), other = max(set1(-job.limit), min(set1(job.limit), up));
    const vec shut = add(set1(1.0F), exponential(mul(gate, set1(-job.slope))));
    return mul(div(gate, shut), add(other, set1(1.0F)));
  }
};

template <class Values, class Gate> void gated_rows(const swiglu_job& job) {
  auto* out = static_cast<typename Values::element*>(job.out);
  for (std::uint32_t row = 0; row < job.y_rows; ++row) {
    const float* y = job.y + row * job.y_stride;
    for (std::uint32_t panel = 0; panel < job.panels; panel += 2, y += 32) {
      vec gate = load(y), up = load(y + 16);
      if (job.bias) {
        gate = add(gate, load(job.bias + panel * 16));
        up = add(up, load(job.bias + panel * 16 + 16));
      }
      const vec value = Gate::of(gate, up, job);
      Values::put(out + packed_index(job.first_row + row, job.first_column + panel * 8, job.rows, job.width), value);
    }
  }
}

void add_rows(float* to, std::size_t to_stride, const float* from, std::size_t from_stride, const float* bias,
              std::uint32_t rows, std::uint32_t columns) {
  for (std::uint32_t row = 0; row < rows; ++row)
    for (std::uint32_t c = 0; c < columns; c += 16) {
      vec value = load(from + row * from_stride + c);
      if (bias) value = add(value, load(bias + c));
      store(to + row * to_stride + c, add(load(to + row * to_stride + c), value));
    }
}

void copy_rows(float* to, std::size_t to_stride, const float* from, std::size_t from_stride, const float* bias,
               std::uint32_t rows, std::uint32_t columns) {
  for (std::uint32_t row = 0; row < rows; ++row)
    for (std::uint32_t c = 0; c < columns; c += 16) {
      vec value = load(from + row * from_stride + c);
      if (bias) value = add(value, load(bias + c));
      store(to + row * to_stride + c, value);
    }
}

void add_normed_rows(const add_normed_job& job) {
  for (std::uint32_t row = 0; row < job.rows; ++row) {
    float *to = job.to + row * job.stride, *from = job.from + row * job.stride;
    for (std::uint32_t c = 0; job.bias && c < job.columns; c += 16)
      store(from + c, add(load(from + c), load(job.bias + c)));
    const vec scale = set1(inverse_rms(from, job.hidden, job.width, job.epsilon));
    for (std::uint32_t c = 0; c < job.width; c += 16)
      store(to + c, add(load(to + c), mul(mul(load(from + c), scale), load(job.weight + c))));
  }
}

void exponential_values(const float* x, float* y, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n; i += 16) store(y + i, exponential(load(x + i)));
}
