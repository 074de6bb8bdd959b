// Gaudi's process group in a program without Python: its library, HCCL, is reached through the vendor's Python package
// alone, whose process group is a C++ object that takes LibTorch's store. So an interpreter is started in this process,
// the package imported, the group made by the function the package registers with torch.distributed, and handed back as
// a c10d::Backend, which is then called without Python.
//
// The interpreter is never finalised: LibTorch's autograd threads and the vendor's threads outlive main() and may still
// ask for its lock, and LibTorch cannot be taken down with it. It is in nobody's way: no lock is held while the program
// computes or waits, it handles no signals, and MPI, which ends before the process does, knows nothing of it.
#include <Python.h>
#include <dlfcn.h>
#include <pybind11/eval.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdlib>
#include <filesystem>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "dist/collective_library.h"

namespace cirrus::dist {
namespace {

namespace py = pybind11;
namespace fs = std::filesystem;

/// What makes a group, in Python. torch.distributed has no public name for what a package has registered.
constexpr const char* kProgram = R"(
import sys
sys.stdout = sys.stderr  # stdout is the program's: results and JSON

def find_torch(folder):
    import importlib.util
    sys.path.insert(0, folder)
    found = importlib.util.find_spec('torch')
    return found.origin if found and found.origin else ''

def load(folder):
    import warnings
    warnings.simplefilter('ignore')  # of packages that this program does without, as NumPy
    sys.path.insert(1, folder)
    import torch
    import torch.distributed
    if not torch.distributed.is_available():
        raise ImportError('this torch was built without torch.distributed')
    import habana_frameworks.torch
    import habana_frameworks.torch.distributed.hccl
    if 'HCCL' not in torch.distributed.Backend._plugins:
        raise ImportError('habana_frameworks registers no backend hccl with torch.distributed')

def make(store, rank, size, name, seconds):
    import datetime
    import torch.distributed as dist
    from torch._C import _distributed_c10d as c10d
    options = c10d._DistributedBackendOptions()
    options.store = store
    options.group_rank = rank
    options.group_size = size
    options.timeout = datetime.timedelta(seconds=seconds)
    options.group_id = name
    options.global_ranks_in_group = []
    registered = dist.Backend._plugins['HCCL']
    if registered.extended_api:
        return registered.creator_fn(options, None)
    return registered.creator_fn(store, rank, size, options.timeout)
)";

/// The folder of the torch whose library is in this process: .../torch.
fs::path torch_folder() {
  Dl_info info{};
  const void* function = reinterpret_cast<const void*>(&at::globalContext);
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return {};
  std::error_code ignored;
  return fs::weakly_canonical(info.dli_fname, ignored).parent_path().parent_path();
}

/// The last line of Python's message, "ModuleNotFoundError: No module named 'packaging'", without a traceback.
std::string message_of(const py::error_already_set& e) {
  const std::string type = py::str(e.type().attr("__name__")), text = py::str(e.value());
  return type + ": " + text.substr(0, text.find('\n'));
}

/// Starts CPython, unless one runs. "" or why not.
std::string start_interpreter() {
  if (Py_IsInitialized() != 0) return "";
  PyPreConfig before;
  PyPreConfig_InitPythonConfig(&before);
  before.parse_argv = 0;
  before.configure_locale = 0;  // numbers are printed and read as before
  before.coerce_c_locale = 0;
  before.utf8_mode = 1;
  PyStatus status = Py_PreInitialize(&before);
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.parse_argv = 0;
  config.install_signal_handlers = 0;
  // A virtual environment is found by the path of its interpreter.
  const char* python = std::getenv("CIRRUS_HPU_PYTHON");
  if (PyStatus_Exception(status) == 0 && python != nullptr && *python != 0)
    status = PyConfig_SetBytesString(&config, &config.program_name, python);
  if (PyStatus_Exception(status) == 0) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status) != 0)
    return std::string("Python " PY_VERSION " does not start: ") +
           (status.err_msg == nullptr ? "no reason given" : status.err_msg);
  PyEval_SaveThread();  // the lock, which starting has left with this thread
  return "";
}

/// The functions of kProgram. Never destroyed, like the interpreter.
py::dict& program() {
  static auto* functions = [] {
    auto* names = new py::dict;
    (*names)["__builtins__"] = py::module_::import("builtins");
    py::exec(kProgram, *names);
    return names;
  }();
  return *functions;
}

std::string load(const std::string& plugin) {
  const fs::path torch = torch_folder(), package(plugin);
  std::error_code ignored;
  if (package.filename() != "torch" || !fs::exists(package / "__init__.py", ignored))
    return "HCCL needs the Gaudi package's folder habana_frameworks/torch, and the plug-in is in '" + plugin + "'";
  if (!fs::exists(torch / "__init__.py", ignored))
    return "HCCL needs the Python package of the LibTorch in " + torch.string() + ", which has none";
  if (const std::string problem = start_interpreter(); !problem.empty()) return "HCCL needs Python: " + problem;
  const py::gil_scoped_acquire lock;
  try {
    const auto found = program()["find_torch"](torch.parent_path().string()).cast<std::string>();
    if (fs::weakly_canonical(fs::path(found).parent_path(), ignored) != torch)
      return "Python's torch is in '" + found + "', and this program's LibTorch in " + torch.string();
    program()["load"](package.parent_path().parent_path().string());
  } catch (const py::error_already_set& e) {
    return "Python " PY_VERSION " cannot import Gaudi's package: " + message_of(e);
  }
  return "";
}

/// Once a process.
std::string prepare(const std::string& plugin) {
  static const std::string problem = [&] {
    try {
      return load(plugin);
    } catch (const std::exception& e) {
      return std::string("the bridge to HCCL does not start: ") + e.what();
    }
  }();
  return problem;
}

c10::intrusive_ptr<c10d::Backend> make(const BackendRequest& request) {
  const py::gil_scoped_acquire lock;
  std::string failure;
  try {
    const double seconds = std::chrono::duration<double>(request.timeout).count();
    return program()["make"](request.store, request.rank, request.size, request.name, seconds)
        .cast<c10::intrusive_ptr<c10d::Backend>>();
  } catch (const py::error_already_set& e) {
    failure = message_of(e);  // must not outlive the lock
  }
  throw std::runtime_error(failure);
}

}  // namespace
}  // namespace cirrus::dist

extern "C" __attribute__((visibility("default"))) const cirrus::dist::CollectiveLibrary* cirrus_collectives(int abi) {
  static const cirrus::dist::CollectiveLibrary library{"HCCL", cirrus::dist::prepare, cirrus::dist::make};
  return abi == cirrus::dist::kCollectivesAbi ? &library : nullptr;
}
