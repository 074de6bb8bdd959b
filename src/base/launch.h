// The front of a program whose libraries take long to load: it answers what needs none of them (--help, --version,
// --cite, mistyped verbs) and otherwise becomes the program proper, libexec/NAME-core beside the folder it is in.
#pragma once

#include "base/program.h"

namespace cirrus {

/// Runs the front of `program`, whose verbs need no functions. A verb, or anything that asks verbs for their options,
/// replaces this process by exec: same process id, words, files and signals. Variables that libraries read when they
/// are loaded are set first, unless the user has: OMP_WAIT_POLICY = passive (threads that spin while they wait take the
/// cores of whatever else runs), and what leaves SIGHUP to us. Returns the exit code; 70 with a message if the program
/// proper is not there.
int launch_program(Program program, int argc, char** argv);

}  // namespace cirrus
