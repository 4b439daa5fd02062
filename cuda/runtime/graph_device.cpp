#include "cuda/runtime/graph.h"
#include "cuda/runtime/status.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {

struct Graph::State {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (executable != nullptr) cudaGraphExecDestroy(executable);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
};

Graph::Graph(Stream stream, std::function<void()> enqueue) : state_(std::make_unique<State>()) {
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  try {
    enqueue();
  } catch (...) {
    cudaGraph_t abandoned = nullptr;
    cudaStreamEndCapture(stream, &abandoned);
    if (abandoned != nullptr) cudaGraphDestroy(abandoned);
    throw;
  }
  check(cudaStreamEndCapture(stream, &state_->graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&state_->executable, state_->graph, 0), "cudaGraphInstantiate");
}

Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

void Graph::launch(Stream stream) const { check(cudaGraphLaunch(state_->executable, stream), "cudaGraphLaunch"); }

}  // namespace mtpcheck::cuda::inline SIMT_BACKEND
