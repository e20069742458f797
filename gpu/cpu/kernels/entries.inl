// The entries of one instruction set. Included in its namespace, after the unnamed namespace with the templates.

void gemm(storage kind, const gemm_job& job) { gemm_vectors(kind, job); }
void round(storage activations, const void* from, std::size_t units, rounded_rows to) {
  activations == storage::bf16 ? round_activations<bf16_values>(static_cast<const std::uint16_t*>(from), units, to)
                               : round_activations<f32_values>(static_cast<const float*>(from), units, to);
}
void norm(storage activations, const norm_job& job) {
  activations == storage::bf16 ? norm_rows<bf16_values>(job) : norm_rows<f32_values>(job);
}
void swiglu(storage activations, const swiglu_job& job) {
  if (job.gate == gate_kind::clamped)
    activations == storage::bf16 ? gated_rows<bf16_values, clamped_gate>(job)
                                 : gated_rows<f32_values, clamped_gate>(job);
  else if (job.gate == gate_kind::gelu_tanh)
    activations == storage::bf16 ? gated_rows<bf16_values, gelu_gate>(job) : gated_rows<f32_values, gelu_gate>(job);
  else
    activations == storage::bf16 ? gated_rows<bf16_values, silu_gate>(job) : gated_rows<f32_values, silu_gate>(job);
}
void kv_write(storage kv, const kv_write_job& job) {
  if (kv == storage::fp8) return write_kv<fp8_values>(job);
  kv == storage::bf16 ? write_kv<bf16_values>(job) : write_kv<f32_values>(job);
}
void attention(storage kv, storage activations, const attention_job& job) {
  if (kv == storage::fp8 && activations == storage::bf16)
    attend<fp8_values, vector_products<fp8_values>, bf16_values>(job);
  else if (kv == storage::fp8)
    attend<fp8_values, vector_products<fp8_values>, f32_values>(job);
  else if (kv == storage::bf16 && activations == storage::bf16)
    attend<bf16_values, vector_products<bf16_values>, bf16_values>(job);
  else if (kv == storage::bf16)
    attend<bf16_values, vector_products<bf16_values>, f32_values>(job);
  else if (activations == storage::bf16)
    attend<f32_values, vector_products<f32_values>, bf16_values>(job);
  else
    attend<f32_values, vector_products<f32_values>, f32_values>(job);
}
void add(float* to, std::size_t to_stride, const float* from, std::size_t from_stride, const float* bias,
         std::uint32_t rows, std::uint32_t columns) {
  add_rows(to, to_stride, from, from_stride, bias, rows, columns);
}
void copy(float* to, std::size_t to_stride, const float* from, std::size_t from_stride, const float* bias,
          std::uint32_t rows, std::uint32_t columns) {
  copy_rows(to, to_stride, from, from_stride, bias, rows, columns);
}
void add_normed(const add_normed_job& job) { add_normed_rows(job); }
void exponential_of(const float* x, float* y, std::uint32_t n) { exponential_values(x, y, n); }
