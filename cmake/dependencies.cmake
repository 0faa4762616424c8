# Everything poem links against. Required parts stop the configuration; optional ones switch a feature off
# with a message.
list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
set(POEM_CUDA_FLAGS "${CMAKE_CUDA_FLAGS}")
find_package(Torch REQUIRED)
set(CMAKE_CUDA_FLAGS "${POEM_CUDA_FLAGS}")  # LibTorch adds flags for kernels that use its headers; ours do not
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig QUIET)

# LibTorch's flags as one target, so that its headers count as system headers.
add_library(poem_torch INTERFACE)
set_target_properties(poem_torch PROPERTIES EXPORT_NAME torch)
target_link_libraries(poem_torch INTERFACE ${TORCH_LIBRARIES})
separate_arguments(POEM_TORCH_FLAGS UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(poem_torch INTERFACE ${POEM_TORCH_FLAGS})

# PyTorch's wheels carry fmt's headers in another version. A link to those of the fmt that is linked, in a folder
# searched before any other, keeps the two apart.
get_target_property(POEM_FMT_HEADERS fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
set(POEM_FIRST_HEADERS ${CMAKE_BINARY_DIR}/first)
file(MAKE_DIRECTORY ${POEM_FIRST_HEADERS})
file(CREATE_LINK ${POEM_FMT_HEADERS}/fmt ${POEM_FIRST_HEADERS}/fmt SYMBOLIC)

# The standard library first: the libtorch.so of PyTorch's wheels exports pieces of an older one, and its
# std::filesystem::remove_all crashes where it is found before the compiler's own.
add_library(poem_dependencies INTERFACE)
target_link_libraries(poem_dependencies INTERFACE stdc++ fmt::fmt spdlog::spdlog
                      $<BUILD_INTERFACE:nlohmann_json::nlohmann_json> yaml-cpp JPEG::JPEG PNG::PNG ZLIB::ZLIB
                      Threads::Threads OpenMP::OpenMP_CXX)  # nlohmann's library has nothing to link

# Optional: cblas (dsyrk for the posterior's statistics), matio (SVHN's .mat), libarchive (zip, tar), libwebp
# (WebP; its part for containers brings the decoder along), libcurl (poem data fetch), libcrypto (checksums),
# cpp-httplib (poem serve).
function(poem_optional feature what)
  if(PkgConfig_FOUND)
    pkg_search_module(${feature} QUIET IMPORTED_TARGET ${ARGN})
  endif()
  if(${feature}_FOUND)
    target_link_libraries(poem_dependencies INTERFACE PkgConfig::${feature})
    target_compile_definitions(poem_dependencies INTERFACE POEM_HAS_${feature})
  else()
    message(STATUS "poem: ${ARGN} not found: ${what}")
  endif()
endfunction()
poem_optional(CBLAS "posterior statistics fall back to panelled products" openblas cblas)
poem_optional(MATIO "SVHN .mat files cannot be read" matio)
poem_optional(ARCHIVE "zip and tar archives cannot be read" libarchive)
poem_optional(WEBP "WebP images cannot be read" libwebpdemux)
poem_optional(CURL "poem data fetch cannot download" libcurl)
poem_optional(CRYPTO "checksums of data sets are not compared" libcrypto)
poem_optional(HTTPLIB "poem serve cannot listen" cpp-httplib<0.16)

# Several processes (src/dist/): LibTorch's c10d with Gloo between CPUs and NCCL between GPUs, each if its headers are
# there and LibTorch was built with it.
option(POEM_DISTRIBUTED "Train on several processes, if LibTorch can" ON)
include(CheckCXXSourceCompiles)
function(poem_process_group feature what call)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)  # CUDA's LibTorch cannot be linked in such a check
  set(CMAKE_REQUIRED_INCLUDES ${TORCH_INCLUDE_DIRS} ${CUDAToolkit_INCLUDE_DIRS})
  set(CMAKE_REQUIRED_FLAGS "${TORCH_CXX_FLAGS}")
  set(CMAKE_REQUIRED_DEFINITIONS -DUSE_C10D_${feature})
  set(CMAKE_CXX_STANDARD 17)
  if(Torch_VERSION VERSION_GREATER_EQUAL 2.8)
    set(CMAKE_CXX_STANDARD 20)
  endif()
  check_cxx_source_compiles("#include <torch/csrc/distributed/c10d/ProcessGroup${what}.hpp>
                             int main() { ${call}; }" POEM_${feature}_WORKS)
  if(POEM_${feature}_WORKS)
    set(POEM_PROCESS_GROUPS ${POEM_PROCESS_GROUPS} POEM_HAS_${feature} USE_C10D_${feature} PARENT_SCOPE)
  else()
    message(STATUS "poem: no c10d with ${what}: it does not carry messages between processes")
  endif()
endfunction()
if(POEM_DISTRIBUTED)
  poem_process_group(GLOO Gloo "c10d::ProcessGroupGloo::createDefaultDevice()")
  if(TARGET torch_cuda)
    poem_process_group(NCCL NCCL "c10d::ProcessGroupNCCL::Options::create()")
  endif()
endif()
