# Box2D 2.3, on which Gymnasium's LunarLander runs, as the static library `box2d`; no such target if its source cannot be had.
#
# The source comes from the package index: box2d-py's has the same C++ as the wheel of Box2D 2.3.10 that Gymnasium
# installs, which has no source there. Without a network, name a copy of the file, or build without it.
option(PLACERL_BOX2D "Compile LunarLander, on Box2D's source from the package index" ON)
set(PLACERL_BOX2D_ARCHIVE "" CACHE FILEPATH "box2d-py's source, where the package index is out of reach")
set(BOX2D_VERSION 2.3.8)
set(BOX2D_SHA256 bdacfbbc56079bb317548efe49d3d5a86646885cc27f4a2ee97e4b2960921ab7)

function(fetch_box2d archive)
  set(found "")
  if(EXISTS "${archive}")
    file(SHA256 "${archive}" found)
  endif()
  if(NOT PLACERL_BOX2D_ARCHIVE AND NOT found STREQUAL BOX2D_SHA256)
    get_filename_component(folder "${archive}" DIRECTORY)
    # pip runs a source's setup.py to learn what it needs, but not before it has checked a hash.
    set(requirements "${CMAKE_BINARY_DIR}/box2d.txt")
    file(WRITE "${requirements}" "box2d-py==${BOX2D_VERSION} --hash=sha256:${BOX2D_SHA256}\n")
    message(STATUS "Fetching Box2D from the package index")
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -m pip download --quiet --disable-pip-version-check --no-deps
        --no-binary box2d-py --require-hashes --dest "${folder}" --requirement "${requirements}"
      TIMEOUT 300 ERROR_VARIABLE error RESULT_VARIABLE failed)
    if(error MATCHES "DO NOT MATCH THE HASHES.* Got +([0-9a-f]+)")
      set(found "${CMAKE_MATCH_1}")
    elseif(failed)
      file(REMOVE "${archive}") # one of another hash, which must not be compiled
      message(WARNING "Without LunarLander: the source of Box2D could not be fetched: ${error}")
      return()
    else()
      file(SHA256 "${archive}" found)
    endif()
  endif()
  if(NOT found STREQUAL BOX2D_SHA256)
    message(FATAL_ERROR "${archive}: found SHA-256 ${found}; allowed: ${BOX2D_SHA256}, box2d-py ${BOX2D_VERSION}'s")
  endif()
endfunction()

# As Box2D, but for what the Python package adds: failed assertions do not call Python, which runs without its lock
# here. Counters, which nothing reads, are each thread's.
function(unpack_box2d archive folder)
  file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${folder}" PATTERNS "box2d-py-${BOX2D_VERSION}/Box2D/*")
  set(root "${folder}/box2d-py-${BOX2D_VERSION}/Box2D")
  file(READ "${root}/Common/b2Settings.h" text)
  string(REPLACE "#define USE_EXCEPTIONS" "" text "${text}")
  file(WRITE "${root}/Common/b2Settings.h" "${text}")
  foreach(name Distance TimeOfImpact)
    file(READ "${root}/Collision/b2${name}.cpp" text)
    string(REGEX REPLACE "\n(int32|float32) b2_" "\nstatic thread_local \\1 b2_" text "${text}")
    file(WRITE "${root}/Collision/b2${name}.cpp" "${text}")
  endforeach()
endfunction()

if(PLACERL_BOX2D)
  set(BOX2D_FOLDER "${CMAKE_SOURCE_DIR}/build/box2d")
  set(archive "${PLACERL_BOX2D_ARCHIVE}")
  if(NOT archive)
    set(archive "${BOX2D_FOLDER}/box2d-py-${BOX2D_VERSION}.tar.gz")
  endif()
  fetch_box2d("${archive}")
endif()
if(PLACERL_BOX2D AND EXISTS "${archive}")
  set(root "${CMAKE_BINARY_DIR}/box2d-py-${BOX2D_VERSION}")
  if(NOT EXISTS "${root}")
    unpack_box2d("${archive}" "${CMAKE_BINARY_DIR}")
  endif()
  file(GLOB_RECURSE sources "${root}/Box2D/*.cpp")
  add_library(box2d STATIC ${sources})
  set_target_properties(box2d PROPERTIES CXX_VISIBILITY_PRESET hidden UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  target_include_directories(box2d SYSTEM PUBLIC "${root}")
  # The wheel's bits: nothing may fuse.
  target_compile_options(box2d PRIVATE -w -O3 -DNDEBUG -ffp-contract=off)
  if(PLACERL_SANITIZE)
    target_compile_options(box2d PRIVATE -fno-sanitize=all) # not ours to check
  endif()
endif()
