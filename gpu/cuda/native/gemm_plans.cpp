#include "cuda/native/gemm_plans.hpp"

#include "cuda/native/errors.hpp"

#include <array>
#include <span>
#include <string>
#include <vector>

namespace godwit::gpu::cuda::native {

namespace {

/// More shapes than this mean that they do not come again.
constexpr std::size_t plans_max = 4096;
constexpr std::size_t proposals_max = 8;

cudaDataType_t type_of(model::data_type type) {
  switch (type) {
  case model::data_type::bf16:
    return CUDA_R_16BF;
  case model::data_type::f16:
    return CUDA_R_16F;
  case model::data_type::f32:
    break;
  }
  return CUDA_R_32F;
}

/// A preference that goes with its scope.
class preference {
public:
  preference() { check(cublasLtMatmulPreferenceCreate(&handle_), "a product's preference"); }
  ~preference() { cublasLtMatmulPreferenceDestroy(handle_); }
  preference(const preference&) = delete;
  preference& operator=(const preference&) = delete;
  [[nodiscard]] cublasLtMatmulPreference_t get() const noexcept { return handle_; }

private:
  cublasLtMatmulPreference_t handle_ = nullptr;
};

} // namespace

/// cuBLASLt's matrices are column-major: our y is its y^T = w * x^T, whose columns are our rows.
struct gemm_plans::plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t w = nullptr, x = nullptr, y = nullptr;
  std::vector<cublasLtMatmulAlgo_t> algorithms; ///< the one that should be fastest first

  plan() = default;
  plan(const plan&) = delete;
  plan& operator=(const plan&) = delete;
  ~plan() {
    for (auto* layout : {w, x, y})
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
  }
};

gemm_plans::gemm_plans() { check(cublasLtCreate(&handle_), "its start"); }
gemm_plans::~gemm_plans() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

std::shared_ptr<const gemm_plans::plan> gemm_plans::plan_for(const gemm_job& job) {
  const std::lock_guard lock(mutex_);
  const shape key{job.type, job.y_type, job.rows, job.columns, job.depth, job.accumulate};
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second;

  auto made = std::make_shared<plan>();
  check(cublasLtMatmulDescCreate(&made->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "a product");
  const cublasOperation_t transposed = CUBLAS_OP_T;
  check(cublasLtMatmulDescSetAttribute(made->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
        "a product");
  check(cublasLtMatrixLayoutCreate(&made->w, type_of(job.type), job.depth, job.columns, job.depth), "a matrix");
  check(cublasLtMatrixLayoutCreate(&made->x, type_of(job.type), job.depth, job.rows, job.depth), "a matrix");
  check(cublasLtMatrixLayoutCreate(&made->y, type_of(job.y_type), job.columns, job.rows, job.columns), "a matrix");
  const preference wanted;
  const std::size_t workspace = gemm_workspace_bytes;
  check(cublasLtMatmulPreferenceSetAttribute(wanted.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                             sizeof workspace),
        "a product's preference");
  // Sums in f32, also those of parts that are summed up afterwards: by itself it may hold them in y's type. Where that
  // is f32, they may be summed up in y, which saves a kernel.
  const std::uint32_t sums =
      job.y_type == model::data_type::f32 ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  check(cublasLtMatmulPreferenceSetAttribute(wanted.get(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &sums,
                                             sizeof sums),
        "a product's preference");
  std::array<cublasLtMatmulHeuristicResult_t, proposals_max> best{};
  int found = 0;
  check(cublasLtMatmulAlgoGetHeuristic(handle_, made->operation, made->w, made->x, made->y, made->y, wanted.get(),
                                       static_cast<int>(best.size()), best.data(), &found),
        "the choice of an algorithm");
  for (const auto& one : std::span(best).first(static_cast<std::size_t>(found)))
    if (one.state == CUBLAS_STATUS_SUCCESS) made->algorithms.push_back(one.algo);
  if (made->algorithms.empty())
    throw driver_error("cuBLASLt: no algorithm for a product of " + std::to_string(job.rows) + " x " +
                       std::to_string(job.depth) + " x " + std::to_string(job.columns));
  if (plans_.size() >= plans_max) plans_.clear();
  plans_[key] = made;
  return made;
}

std::uint32_t gemm_plans::proposals(const gemm_job& job) {
  return static_cast<std::uint32_t>(plan_for(job)->algorithms.size());
}

void gemm_plans::run(const gemm_job& job, std::uint32_t proposal, void* workspace, cudaStream_t stream) {
  const auto chosen = plan_for(job);
  if (proposal >= chosen->algorithms.size())
    throw driver_error("cuBLASLt: no proposal " + std::to_string(proposal) + " for a product");
  const float one = 1, kept = job.accumulate ? 1.0F : 0.0F;
  check(cublasLtMatmul(handle_, chosen->operation, &one, job.w, chosen->w, job.x, chosen->x, &kept, job.y, chosen->y,
                       job.y, chosen->y, &chosen->algorithms[proposal], workspace, gemm_workspace_bytes, stream),
        "a product");
}

} // namespace godwit::gpu::cuda::native
