# The kernel files, and the host files that are compiled once for each backend. Paths are relative to cuda/.
set(MTPCHECK_KERNELS
  kernels/attention/attention_probabilities.cu
  kernels/attention/output_gate.cu
  kernels/attention/sparse_attention.cu
  kernels/indexer/index_key.cu
  kernels/indexer/index_query.cu
  kernels/indexer/index_scores.cu
  kernels/indexer/top_k.cu
  kernels/linear/linear_f32.cu
  kernels/linear/linear_streamed.cu
  kernels/linear/linear_tiled.cu
  kernels/moe/combine.cu
  kernels/moe/dispatch.cu
  kernels/moe/experts_streamed.cu
  kernels/moe/experts_tiled.cu
  kernels/moe/router.cu
  kernels/norm/add_rms_norm.cu
  kernels/norm/embed_concat.cu
  kernels/norm/latent.cu
  kernels/norm/query_rope.cu
  kernels/sampling/advance.cu
  kernels/sampling/argmax.cu
  kernels/sampling/softmax.cu
  kernels/sampling/verification.cu)
set(MTPCHECK_KERNEL_HOSTS
  head/activations.cpp
  head/caches.cpp
  head/cuda_head.cpp
  head/layer.cpp
  head/layer_weights.cpp
  head/recording.cpp
  head/shape.cpp
  head/step_input.cpp
  head/upload.cpp)
# Host files that differ between the backends.
set(MTPCHECK_DEVICE_HOSTS runtime/cublaslt.cpp runtime/gemm_library_device.cpp runtime/memory_device.cpp)
set(MTPCHECK_EMULATED_HOSTS
  runtime/gemm_library_emulated.cpp
  runtime/memory_emulated.cpp)

# Each of these is compiled for both: kernel_tests runs the emulated kernels, kernel_tests_device the device's.
set(MTPCHECK_KERNEL_TESTS
  kernels/attention/attention_test.cpp
  kernels/indexer/indexer_test.cpp
  kernels/indexer/top_k_test.cpp
  kernels/linear/linear_test.cpp
  kernels/moe/experts_test.cpp
  kernels/moe/router_test.cpp
  kernels/norm/norm_test.cpp
  kernels/sampling/sampling_test.cpp)
