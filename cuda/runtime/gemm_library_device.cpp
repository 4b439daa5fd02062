#include <fmt/format.h>

#include <map>
#include <tuple>

#include "cuda/runtime/cublaslt.h"
#include "cuda/runtime/gemm_library.h"
#include "cuda/runtime/memory.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

/// What the choice of an algorithm depends on.
using ProductShape = std::tuple<int, int, int, int, std::int64_t, std::int64_t, bool>;

/// y = x Wᵀ is, in cuBLAS' column-major terms, Y [R, T] = op(W) [R, C] · X [C, T].
class Product {
 public:
  Product(const CublasLt& lt, const Linear& linear, const LinearSegment& segment) : lt_(lt) {
    const WeightView& w = segment.weight;
    what_ = fmt::format("of {} x [{}, {}] · [{}, {}]ᵀ", segment.matrices, linear.tokens, w.cols, w.rows, w.cols);
    check(lt_.desc_create(&desc_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check(lt_.desc_set(desc_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)), "setting TRANSA");
    layout(weight_, CUDA_R_16BF, w.cols, w.rows, w.stride, segment.matrices, w.matrix_stride);
    layout(x_, CUDA_R_16BF, w.cols, linear.tokens, linear.x_stride, segment.matrices, segment.x_step);
    layout(y_, segment.y_f32 != nullptr ? CUDA_R_32F : CUDA_R_16BF, w.rows, linear.tokens, segment.y_stride,
           segment.matrices, segment.y_step);
  }
  ~Product() {
    for (const auto layout : {weight_, x_, y_}) {
      if (layout != nullptr) lt_.layout_destroy(layout);
    }
    if (desc_ != nullptr) lt_.desc_destroy(desc_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  cublasLtMatmulAlgo_t best_algorithm(cublasLtHandle_t handle) const {
    cublasLtMatmulPreference_t preference = nullptr;
    check(lt_.preference_create(&preference), "cublasLtMatmulPreferenceCreate");
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    cublasStatus_t status = lt_.preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
                                               sizeof(kWorkspaceBytes));
    if (status == CUBLAS_STATUS_SUCCESS) {
      status = lt_.heuristic(handle, desc_, weight_, x_, y_, y_, preference, 1, &result, &found);
    }
    lt_.preference_destroy(preference);
    check(status, "cublasLtMatmulAlgoGetHeuristic");
    check(found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS, "cublasLtMatmulAlgoGetHeuristic");
    return result.algo;
  }

  void run(cublasLtHandle_t handle, Stream stream, const Linear& linear, const LinearSegment& segment,
           const cublasLtMatmulAlgo_t& algorithm, void* workspace) const {
    const float one = 1;
    const float zero = 0;
    void* const y = segment.y_f32 != nullptr ? static_cast<void*>(segment.y_f32) : segment.y;
    check(lt_.matmul(handle, desc_, &one, segment.weight.data, weight_, linear.x + segment.x_offset, x_, &zero, y, y_,
                     y, y_, &algorithm, workspace, kWorkspaceBytes, stream),
          "cublasLtMatmul");
  }

 private:
  void check(cublasStatus_t status, const char* call) const {
    if (status != CUBLAS_STATUS_SUCCESS) lt_.check(status, fmt::format("{} {}", call, what_));
  }
  void layout(cublasLtMatrixLayout_t& out, cudaDataType_t type, int rows, int cols, std::int64_t leading, int batches,
              std::int64_t step) {
    check(lt_.layout_create(&out, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols), leading),
          "cublasLtMatrixLayoutCreate");
    const std::int32_t count = batches;
    check(lt_.layout_set(out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)), "setting BATCH_COUNT");
    check(lt_.layout_set(out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof(step)),
          "setting STRIDED_BATCH_OFFSET");
  }

  const CublasLt& lt_;
  std::string what_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t weight_ = nullptr, x_ = nullptr, y_ = nullptr;
};

}  // namespace

struct GemmLibrary::State {
  const CublasLt* lt = nullptr;
  cublasLtHandle_t handle = nullptr;
  Buffer<std::uint8_t> workspace;
  std::map<ProductShape, cublasLtMatmulAlgo_t> algorithms;
};

GemmLibrary::GemmLibrary() : state_(std::make_unique<State>()) {
  state_->lt = CublasLt::load();
  if (state_->lt == nullptr) return;
  state_->lt->check(state_->lt->create(&state_->handle), "cublasLtCreate");
  state_->workspace = Buffer<std::uint8_t>(kWorkspaceBytes);
}

GemmLibrary::~GemmLibrary() {
  if (state_->handle != nullptr) state_->lt->destroy(state_->handle);
}

bool GemmLibrary::multiply(Stream stream, const Linear& linear, const LinearSegment& segment) {
  const WeightView& w = segment.weight;
  // Rows must start at 16 bytes for the library's fast kernels; Hy4-preview's do.
  const bool aligned = (segment.x_offset | segment.x_step | w.cols) % 8 == 0 && segment.y_stride % 8 == 0;
  if (state_->lt == nullptr || linear.tokens <= kStreamedTokens || w.format != WeightFormat::bf16 || !aligned) {
    return false;
  }
  const Product product(*state_->lt, linear, segment);
  const ProductShape shape{segment.matrices, linear.tokens,           w.rows, w.cols, linear.x_stride,
                           segment.y_stride, segment.y_f32 != nullptr};
  auto algorithm = state_->algorithms.find(shape);
  if (algorithm == state_->algorithms.end()) {
    algorithm = state_->algorithms.emplace(shape, product.best_algorithm(state_->handle)).first;
  }
  product.run(state_->handle, stream, linear, segment, algorithm->second, state_->workspace.data());
  return true;
}

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
